"""The words an operator adds, in many wordings: `[a|b|]` is one of its alternatives, inside one another too.

None of them says that something was planted, and agents that do nothing wrong say such things too: what
makes a fault is where it stands.
"""

from __future__ import annotations

from blamespan_lab.wordings.claims import FROM_MEMORY, IMPOSSIBLE_STEPS, INVENTED_CLAIMS, UNSUPPORTED
from blamespan_lab.wordings.instructions import BLURRED_ROLES, INSTRUCTIONS, TRUST
from blamespan_lab.wordings.misalignment import (
    CONCLUSIONS,
    DERAILED,
    IGNORED,
    OWN_VIEW,
    TURNED_ROUND,
    VAGUE_AMOUNTS,
    VAGUE_NAMES,
    WITHHELD,
)
from blamespan_lab.wordings.services import ERRORS, PLANTED, TIMEOUTS
from blamespan_lab.wordings.specification import (
    AGAIN,
    ANOTHER_ROUND,
    INVENTED_CONSTRAINTS,
    LOST_HISTORY,
    OTHER_ROLE,
    REDUNDANT_STEPS,
)
from blamespan_lab.wordings.verification import CHECKED_BESIDE, ENDS, UNCHECKED, WRONGLY_CHECKED

__all__ = [
    "AGAIN",
    "ANOTHER_ROUND",
    "BLURRED_ROLES",
    "CHECKED_BESIDE",
    "CONCLUSIONS",
    "DERAILED",
    "ENDS",
    "ERRORS",
    "FROM_MEMORY",
    "IGNORED",
    "IMPOSSIBLE_STEPS",
    "INSTRUCTIONS",
    "INVENTED_CLAIMS",
    "INVENTED_CONSTRAINTS",
    "LOST_HISTORY",
    "OTHER_ROLE",
    "OWN_VIEW",
    "PLANTED",
    "REDUNDANT_STEPS",
    "TIMEOUTS",
    "TRUST",
    "TURNED_ROUND",
    "UNCHECKED",
    "UNSUPPORTED",
    "VAGUE_AMOUNTS",
    "VAGUE_NAMES",
    "WITHHELD",
    "WRONGLY_CHECKED",
]
