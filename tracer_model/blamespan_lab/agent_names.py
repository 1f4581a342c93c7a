"""Labels of recorded runs, matched to the agents that their traces know."""

from __future__ import annotations

import re
from collections.abc import Sequence

from blamespan.importing.recorded import RecordedRun


def resolve(label: str, names: Sequence[str]) -> str:
    """Return the agent of a run that *label* means.

    Labels and traces of one data set may spell a name differently: the same name wins, then the only
    one equal without case, then the only one equal without case and the label's trailing digits
    (`ranker5` means `Ranker`), then without a ` (...)` suffix.

    Returns:
        A name out of *names*, or *label* as it stands where none fits: that agent never speaks.
    """
    if label in names:
        return label
    bare = bare_name(label)
    for wanted in (label.casefold(), bare.rstrip("0123456789"), bare):
        matches = [name for name in names if name.casefold() == wanted]
        if len(matches) == 1:
            return matches[0]
    return label


def labelled_pairs(run: RecordedRun, *, fold: bool = True) -> frozenset[tuple[str, str]]:
    """Return the labels of a run as (agent, mode code) pairs.

    Args:
        run: With labels; faults without a mode are left out.
        fold: Whether to spell the agent as the trace does where `resolve` finds it.
    """
    names = [agent.name for agent in run.trace.agents]
    return frozenset(
        (resolve(fault.agent, names) if fold else fault.agent, fault.mode.code)
        for fault in run.faults or ()
        if fault.mode is not None
    )


def same_agent(agent: str, other: str) -> bool:
    """Check whether two names are one agent's, without case and without a suffix such as ` (thought)`."""
    return bare_name(agent) == bare_name(other)


def bare_name(agent: str) -> str:
    """Return a name without case and without a suffix such as ` (thought)`."""
    return re.sub(r"\s+\([^()]*\)$", "", agent).casefold()
