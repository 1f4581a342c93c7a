"""The tracer `auto`: the blame follows what was said; sound twins are not called failed."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from blamespan.errors import TracerUnavailable
from blamespan.trace import MessageActionTrace
from blamespan.tracers import DEFAULT_TRACER, load_tracer
from blamespan_tracer.auto.tracer import AutoTracer
from blamespan_tracer.auto.weights import BUNDLED, AutoWeights
from tests.tracer_model.teams import Said, team

TASK = "Book a table for Mrs Olsen at Harbour Inn, reservation code HX48213, and confirm the deposit of 1,250.50 NOK."


def _run(*contents: str) -> MessageActionTrace:
    names = ("Planner", "Booker", "Cashier", "Writer")
    return team(*zip(names, contents, strict=False), task=TASK, silent=names)


SOUND = (
    "We need the table for reservation HX48213 first, then the deposit of 1,250.50 NOK, then a confirmation letter.",
    "I called Harbour Inn. The table for reservation HX48213 is booked for Mrs Olsen, by the window.",
    "The deposit of 1,250.50 NOK for HX48213 has been paid by card, and the inn has confirmed that it arrived.",
    "Dear Mrs Olsen, your table at Harbour Inn is booked under HX48213; the deposit of 1,250.50 NOK has been received.",
)


def _with_mistake(step: int, right: str, wrong: str) -> MessageActionTrace:
    """Change a value in one step, and in all that follow it."""
    return _run(*(text.replace(right, wrong) if index >= step else text for index, text in enumerate(SOUND)))


@pytest.mark.parametrize(
    ("step", "right", "wrong"),
    [
        (step, right, wrong)
        for right, wrong in (("HX48213", "HX48273"), ("1,250.50", "1,280.50"))
        for step, text in enumerate(SOUND)
        if right in text
    ],
)
def test_moved_mistake_moves_the_blame(tracer: AutoTracer, step: int, right: str, wrong: str) -> None:
    """The same wrong value first said in another step is that step's mistake; the sound run gives it less blame."""
    run, sound = _with_mistake(step, right, wrong), _run(*SOUND)

    verdict, untouched = tracer.attribute([run, sound])

    assert verdict.decisive_step == step
    assert verdict.steps[step].score > untouched.steps[step].score + 0.1
    assert verdict.failure_score > untouched.failure_score
    assert not untouched.calls_failed
    assert wrong in verdict.evidence[0].quote
    assert verdict.evidence[0].contradicts is not None
    assert right in verdict.evidence[0].contradicts.quote
    assert (verdict.evidence[0].contradicts.index or -1) < step


def test_mended_mistake_takes_the_blame_away(tracer: AutoTracer) -> None:
    """A run in which the task says the same is sound."""
    wrong = _with_mistake(2, "1,250.50", "1,280.50")
    mended = replace(
        _run(*(text.replace("1,250.50", "1,280.50") for text in SOUND)), task=TASK.replace("1,250.50", "1,280.50")
    )

    failed, sound = tracer.attribute([wrong, mended])

    assert failed.failure_score > sound.failure_score
    assert not sound.calls_failed


@pytest.mark.parametrize(("times", "calls_failed"), [(2, False), (4, True)])
def test_trying_once_more_is_no_failure_and_a_loop_is(tracer: AutoTracer, times: int, calls_failed: bool) -> None:
    """Who asks once more may have had a reason; who asks the same again and again has none."""
    call: Said = ("Clerk", 'search({"query": "harbour fees 2025"})', "tool_call")
    answer: Said = ("Clerk", "No page was found.", "tool_result")
    last: Said = ("Clerk", "I found no page about the fees.")
    run = team(*(call, answer) * times, last, task="What are the harbour fees?")

    assert tracer.attribute([run])[0].calls_failed is calls_failed


def test_suspects_without_evidence_are_no_culprits(tracer: AutoTracer) -> None:
    """The run shows a mistake: its step is decisive. Mended and told as failed: suspects by the prior, no culprit.

    Nobody told, the mended run has no sign of failure.
    """
    wrong, mended = _with_mistake(2, "1,250.50", "1,280.50"), _run(*SOUND)

    shown, told, untold = tracer.attribute(
        [replace(wrong, outcome="failed"), replace(mended, outcome="failed"), mended]
    )

    assert (shown.has_evidence, shown.decisive_step) == (True, 2)
    assert (told.has_evidence, told.word) == (False, "failed")
    assert (untold.has_evidence, untold.failure_score <= 0.5, untold.word) == (False, True, "no sign of failure")
    for verdict in (shown, told, untold):
        assert all(step.by_evidence is not None and 0 <= step.by_evidence <= step.score for step in verdict.steps)


def test_auto_is_the_default() -> None:
    """Who names no tracer gets this one, with its weights named."""
    tracer = load_tracer()

    assert DEFAULT_TRACER == tracer.identity.name == "auto"
    assert tracer.identity.weights == AutoWeights.load(BUNDLED).digest


def test_damaged_and_foreign_weights_are_refused(tmp_path: Path) -> None:
    """A file that is cut, or of another format or version, is named, and never used."""
    content = BUNDLED.read_bytes()
    for name, text in (("cut", content[: len(content) // 2]), ("empty", b""), ("other", b"x" * 500)):
        (tmp_path / name).write_bytes(text)
        with pytest.raises(TracerUnavailable, match=name):
            AutoWeights.load(tmp_path / name)
    older = content.replace(b"share of claims with a source", b"share of claims with no source"[:29], 1)
    (tmp_path / "older").write_bytes(older)
    with pytest.raises(TracerUnavailable, match="features of another version"):
        AutoWeights.load(tmp_path / "older")


def test_the_default_tracer_enters_no_other(tmp_path: Path) -> None:
    """Who uses `auto` loads no module of the alternatives, and no PyTorch."""
    script = (
        "import sys; from blamespan.tracers import load_tracer; load_tracer('auto');"
        "print([name for name in sys.modules if 'alternatives' in name or name == 'torch'])"
    )

    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)

    assert ran.stdout.strip() == "[]"
