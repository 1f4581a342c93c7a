"""What is found wrong in a run: broken checks, words against a source, and nothing in the sound twin."""

from __future__ import annotations

from blamespan import conventions as words
from blamespan.trace import Agent, MessageActionTrace, Step
from blamespan.tracers import load_tracer
from blamespan_lab.rerun.fix.findings import CONTRADICTION, FindingCheck, finding_at, judge_unaided


def _run(said: str, outcome: str = "unknown") -> MessageActionTrace:
    tool = {words.TOOL_NAME: "stock"}
    steps = (
        Step(0, "1" * 16, "clerk", "tool_call", 'stock({"of": "birds"})', attributes=tool),
        Step(1, "2" * 16, "clerk", "tool_result", "birds in store: 40", inputs=(0,)),
        Step(2, "3" * 16, "clerk", content=said, inputs=(1,)),
        Step(3, "4" * 16, "reporter", content="Thank you, clerk.", inputs=(2,)),
    )
    agents = (Agent("clerk"), Agent("reporter"))
    return MessageActionTrace("a" * 32, "How many birds are in store?", steps, agents, outcome)  # type: ignore[arg-type]


def test_words_against_a_source_are_found_and_gone_from_the_sound_twin() -> None:
    """The reason names the source; a run that says what the source has shows nothing, however it ended."""
    wrong, sound = _run("The stock of birds is 45."), _run("The stock of birds is 40.")
    tracer = load_tracer("auto")
    _, findings = judge_unaided(wrong, tracer)
    found = finding_at(wrong, findings, 2)
    assert found is not None
    check = FindingCheck(found, "auto")

    assert (found.agent, found.step, found.check) == ("clerk", 2, CONTRADICTION)
    assert '"40", not "45"' in found.reason
    assert not check.is_gone_from(wrong)
    assert check.is_gone_from(sound)
    assert check.is_gone_from(_run("The stock of birds is 40.", "failed"))
    assert not check.is_gone_from(None)
    assert finding_at(wrong, findings, 3) is None
