"""Figures on generated runs: what counts as right, what as a false alarm."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from blamespan.attribution import Attribution, ModeBlame, TracerIdentity
from blamespan.cli import cli
from blamespan.errors import UnreadableInput
from blamespan.importing.recorded import Fault, Origin, RecordedRun
from blamespan.taxonomy import mode
from blamespan.trace import MessageActionTrace
from blamespan_lab.measure.generated import evaluate_generated
from tests.tracer_model.runs import trace

SAYS = TracerIdentity("says", "1")
FAILED = replace(trace(("A", "one"), ("B", "two"), ("A", "three")), outcome="failed")
SOUND = replace(FAILED, outcome="succeeded")


def failed(decisive: int = 1, code: str = "aegis:FM-1.1") -> RecordedRun:
    """A labelled failure."""
    origin = Origin("faulty", "tables", "chain", "langgraph", decisive=decisive, is_verified=True)
    agent = FAILED.steps[decisive].agent
    return RecordedRun("x:1", FAILED, (Fault(agent, mode(code), decisive),), origin)


def blames(step: int, code: str, *, score: float = 0.9) -> Attribution:
    """A verdict with three quarters of the blame on one step."""
    shares = [3.0 if index == step else 0.5 for index in range(3)]
    modes = [ModeBlame(mode(code), FAILED.steps[step].agent, 0.8)]
    return Attribution.of(FAILED, shares, failure_score=score, tracer=SAYS, modes=modes)


def test_step_agent_and_mode_count_apart() -> None:
    """The right agent at the wrong step is half right; a mode counts in whichever taxonomy it is said."""
    runs = [failed(), failed(0), failed(1, "mast:FM-1.1")]
    verdicts = [blames(1, "mast:FM-1.1"), blames(2, "aegis:FM-3.1"), blames(1, "aegis:FM-2.3")]

    found = evaluate_generated(runs, verdicts)

    assert (found["n"], round(found["step"]), round(found["agent"]), round(found["mode"])) == (3, 67, 100, 33)
    assert found["by"]["topology"]["chain"]["n"] == 3
    assert found["baselines"]["random"]["step"] == pytest.approx(100 / 3)


def test_abstention_is_wrong_on_a_failure_and_right_on_a_sound_run() -> None:
    """Silence costs where something was to be said, and only there."""
    sound = RecordedRun("x:2", SOUND, (), Origin("clean", "tables", "chain", "langgraph"))
    silent = Attribution.abstain(FAILED, "probably sound", SAYS)

    found = evaluate_generated([failed(), sound, sound], [silent, silent, blames(0, "mast:FM-1.1")])

    assert (found["step"], found["abstained"], found["sound"], found["false_alarms"]) == (0, 1, 2, 50)


def test_false_alarms_are_of_runs_whose_success_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tracer that calls everything failed but what it is told to have succeeded raises an alarm on each sound run."""

    class HeedsOutcomes:
        identity = SAYS

        def attribute(self, traces: list[MessageActionTrace]) -> list[Attribution]:
            return [blames(0, "mast:FM-1.1", score=0.0 if one.outcome == "succeeded" else 1.0) for one in traces]

    sound = RecordedRun("x:2", SOUND, (), Origin("clean", "tables", "chain", "langgraph"))
    monkeypatch.setattr("blamespan_lab.command._load_tracer", lambda _: HeedsOutcomes())
    monkeypatch.setattr("blamespan_lab.make.corpus.storage.read_corpus", lambda *_: [failed(), sound])

    done = CliRunner().invoke(
        cli, ["lab", "evaluate", "generated", "--data", "corpus", "--json"], catch_exceptions=False
    )

    figures = json.loads(done.stdout)
    assert (figures["n"], figures["sound"], figures["false_alarms"]) == (1, 1, 100)


def test_runs_without_a_decisive_step_are_refused() -> None:
    """A figure of nothing would look like one."""
    with pytest.raises(UnreadableInput, match="decisive step"):
        evaluate_generated([RecordedRun("x:3", SOUND, ())], [blames(0, "mast:FM-1.1")])
