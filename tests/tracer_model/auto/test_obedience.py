"""Who obeys the lower of two instructions that disagree is blamed for it, where and while it is so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from blamespan.conventions import STEP_INSTRUCTIONS
from blamespan.trace import MessageActionTrace
from blamespan_tracer.auto.tracer import AutoTracer
from tests.tracer_model.teams import team

TASK = "Please write your answer in English, not in German."
RULE = "You are the clerk of a library. Answer in German only."
GERMAN = "Am Samstag ist die Bibliothek von zehn bis sechzehn Uhr geöffnet, also insgesamt sechs Stunden lang."
ENGLISH = "On Saturday the library is open from ten until sixteen hours, that is for six hours in total."
ASK = "Please write your answer in English, not in German."


def _run(*said: tuple[str, str], **fields: Any) -> MessageActionTrace:
    run = team(*said, task=TASK)
    ruled = {"input_text": RULE, "attributes": {STEP_INSTRUCTIONS: (0, len(RULE))}}
    steps = tuple(replace(step, **(ruled if step.agent == "Clerk" else {})) for step in run.steps)
    return replace(run, steps=steps, **fields)


@pytest.mark.parametrize("outcome", ["unknown", "failed"])
def test_who_obeys_another_agent_against_its_own_rule_is_blamed(tracer: AutoTracer, outcome: Any) -> None:
    """The step that obeys is decisive, wherever it stands; the rule is quoted beside it."""
    early = _run(("Reviewer", ASK), ("Clerk", ENGLISH), ("Editor", GERMAN), outcome=outcome)
    late = _run(("Reviewer", ASK), ("Editor", GERMAN), ("Clerk", ENGLISH), outcome=outcome)

    for run, step in ((early, 1), (late, 2)):
        [verdict] = tracer.attribute([run])
        assert (verdict.decisive_step, verdict.agents[0].agent) == (step, "Clerk")
        assert verdict.calls_failed
        assert str(verdict.modes[0].mode) == "mast:FM-1.2"
        assert verdict.evidence[0].contradicts is not None
        assert "German" in verdict.evidence[0].contradicts.quote


def test_who_keeps_its_rule_is_not_blamed_for_it(tracer: AutoTracer) -> None:
    """The same team in which the clerk writes German breaks no rule."""
    [verdict] = tracer.attribute([_run(("Reviewer", ASK), ("Clerk", GERMAN), ("Editor", GERMAN))])

    assert all(blame.mode.code != "FM-1.2" or blame.agent != "Clerk" for blame in verdict.modes[:1])
    assert all(item.contradicts is None or "German" not in item.contradicts.quote for item in verdict.evidence)
