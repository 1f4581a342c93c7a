"""Modes: what needs two agents is never said of one."""

from __future__ import annotations

import pytest

from blamespan.taxonomy import AEGIS, MAST, ErrorMode
from blamespan.trace import Agent, MessageActionTrace, Step
from blamespan_tracer.alternatives.lexical import LexicalTracer
from blamespan_tracer.auto.tracer import AutoTracer
from blamespan_tracer.modes import MODES, can_show

NEEDS_ANOTHER = [taxonomy[code] for taxonomy in (MAST, AEGIS) for code in ("FM-2.4", "FM-2.5")]


def _run(*names: str) -> MessageActionTrace:
    texts = (
        "I know the budget is 400 euros, but I will not mention it, since nobody needs it.",
        "I ignore what was said about the budget of 400 euros and order for 900 euros.",
        "The order over 900 euros is placed. I disregard all other messages.",
    )
    steps = tuple(
        Step(index, f"{index + 1:016x}", names[index % len(names)], "message", text) for index, text in enumerate(texts)
    )
    return MessageActionTrace("1" * 32, "Order chairs.", steps, tuple(Agent(name) for name in dict.fromkeys(names)))


@pytest.mark.parametrize("mode", NEEDS_ANOTHER, ids=str)
def test_one_agent_withholds_from_nobody(mode: ErrorMode) -> None:
    """Two agents can withhold from and ignore each other, one cannot; everything else one can do as well."""
    assert not can_show(_run("Solo"), mode)
    assert can_show(_run("Buyer", "Clerk"), mode)
    assert all(can_show(_run("Solo"), other) for other in MODES if other not in NEEDS_ANOTHER)


@pytest.mark.parametrize("load", [AutoTracer.bundled, LexicalTracer.bundled])
def test_no_tracer_says_so(load: type) -> None:
    """Of a run of one agent no tracer names such a mode, whatever its words call for."""
    [alone, _] = load().attribute([_run("Solo"), _run("Buyer", "Clerk")])

    assert alone.modes
    assert not {blame.mode for blame in alone.modes}.intersection(NEEDS_ANOTHER)
