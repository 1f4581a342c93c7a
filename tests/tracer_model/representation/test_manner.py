"""How a step is said."""

from __future__ import annotations

import pytest

from blamespan_tracer.representation import STEP_FEATURES, represent
from tests.tracer_model.representation.teams import team


@pytest.mark.parametrize(
    ("said", "breaks_off"),
    [
        ("The total of the rents in the north is what we have to look up before we can go", 1.0),
        ("The total of the rents in the north is what we have to look up before we can go on.", 0.0),
        ("The total of the rents in the north is what we have to look up first. APPROVED", 0.0),
        ("The total of the", 1.0),
        ("```python\nprint(1)", 1.0),
        ("```python\nprint(1)\n```", 0.0),
        ("go ahead", 0.0),
        ("", 0.0),
    ],
)
def test_message_that_breaks_off(said: str, breaks_off: float) -> None:
    """It ends with a mark, in capitals, or is a few words; code ends with its fence."""
    assert represent(team(("solver", said))).features[-1, STEP_FEATURES.index("breaks off")] == breaks_off
