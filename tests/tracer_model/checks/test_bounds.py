"""Whatever a run says, it is read in time that grows with its length and not with its square."""

from __future__ import annotations

import time

import pytest

from blamespan_tracer.checks import CHECKS, ExaminedRun
from blamespan_tracer.ledger import read_ledger
from tests.tracer_model.teams import Said, team

_NAMES = " ".join(f"Hall{place} Inn{place}" for place in range(60))
_TEXTS = {
    "refuted numbers": " ".join(f"The rent is {place}7, not {place}5." for place in range(40)),
    "wrong sums": " ".join(f"{place} + 10 = {place}99." for place in range(40)),
    "chains of sums": " ".join(f"{place}00 + 100 = {place + 1}00." for place in range(10, 50)) + " The rent is 5000.",
    "names and numbers": " ".join(f"Hall{place} of {_NAMES[:90]} has 4{place}7." for place in range(20)),
    "picks": " ".join(
        f"The hall to be booked is Hall{place}. The cost of Hall{place} is {place}4." for place in range(40)
    ),
    "lacking": " ".join(f"We need the rent of Hall{place}. The cost of Hall{place} is 5." for place in range(60)),
    "rules": " ".join(
        f"The rooms of kind{place}x: kept. The larger of rent and fee of kind{place}x." for place in range(40)
    ),
    "python": "```python\n"
    + "\n".join(f"value_{place} = (-{place}7 + [1" for place in range(60))
    + "\n```\n"
    + "-" * 2_000,
    "names": "agent-1 to agent-2: agent-" * 40,
    "code": "```\n" + "\n".join(f"value_{place} = {place} + other_{place}" for place in range(80)) + "\n```",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", _TEXTS)
def test_time_is_bounded_by_length(kind: str) -> None:
    """Fifteen hundred steps, each full of what one sign goes by, and of results that hold as much."""
    said: list[Said] = []
    for place in range(500):
        said += [
            (f"agent{place % 4}", f'look({{"for": "{place} {_NAMES}"}})', "tool_call"),
            (f"agent{place % 4}", f"{_TEXTS[kind]} {place}", "tool_result"),
            (f"agent{place % 4}", f"{_TEXTS[kind]} {place}"),
        ]
    run = team(*said, task=f"Name the hall with the lowest cost, rent or value. {_TEXTS[kind]} {_NAMES}")
    examined = ExaminedRun(run, read_ledger(run))
    start_s = time.process_time()

    for check in CHECKS:
        check.apply(examined)

    assert time.process_time() - start_s < 30
