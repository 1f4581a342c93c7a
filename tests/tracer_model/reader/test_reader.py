"""The tracer `reader`: what a language model doubts is blamed, and what it does not doubt is not."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from blamespan.errors import ConfigError, MissingExtra, TracerUnavailable
from blamespan.trace import Agent, MessageActionTrace, Step
from blamespan.tracers import load_tracer
from blamespan_tracer.auto import tracer as auto
from blamespan_tracer.auto.tracer import BUNDLED, BUNDLED_READER, AutoTracer, TrainedReader
from blamespan_tracer.auto.weights import AutoWeights
from blamespan_tracer.lexical import LexicalTracer
from blamespan_tracer.network.tracer import NetworkTracer
from blamespan_tracer.reader.layout import Expectation, RunText
from blamespan_tracer.reader.settings import ReaderSettings

WEIGHTS = AutoWeights.load(BUNDLED_READER)
TASK = "Book a table for Mrs Olsen at Harbour Inn, reservation code HX48213, and confirm the deposit of 1,250.50 NOK."
SAID = (
    "We need the table for reservation HX48213 first, then the deposit of 1,250.50 NOK, then a confirmation letter.",
    "I called Harbour Inn. The table for reservation HX48213 is booked for Mrs Olsen, by the window.",
    "The deposit of 1,250.50 NOK for HX48213 has been paid by card, and the inn has confirmed that it arrived.",
    "Dear Mrs Olsen, your table at Harbour Inn is booked under HX48213; the deposit of 1,250.50 NOK has been received.",
)


@dataclass
class DoubtsStep:
    """Reads as a language model does: doubts the reservation code in one step, and nothing else."""

    step: int = -1
    digest: str = WEIGHTS.reader
    read_runs: list[str] = field(default_factory=list)

    def read(self, run: RunText, shares: Sequence[float] = ()) -> list[Expectation]:
        """Return a doubt of twenty nats, or none, for each claim."""
        self.read_runs.append(run.text)
        mentions = [placed.claim.mention for placed in run.claims]
        doubted = [one.step == self.step and one.value.form == "identifier" for one in mentions]
        return [
            Expectation(placed.claim, 20.0 * is_doubted) for placed, is_doubted in zip(run.claims, doubted, strict=True)
        ]


def _run(*contents: str, **fields: Any) -> MessageActionTrace:
    names = ("Planner", "Booker", "Cashier", "Writer")
    steps = tuple(
        Step(index, f"{index + 1:016x}", names[index % 4], "message", content) for index, content in enumerate(contents)
    )
    return MessageActionTrace("5" * 32, TASK, steps, tuple(Agent(name) for name in names), **fields)


@pytest.fixture(scope="module")
def small() -> AutoTracer:
    """The tracer that nothing reads for."""
    return AutoTracer.bundled()


def _reading(model: Any, *, reads_all: bool = True) -> AutoTracer:
    reader = TrainedReader(model, WEIGHTS, reads_all)
    return AutoTracer(AutoWeights.load(BUNDLED), NetworkTracer.bundled(), LexicalTracer.bundled(), reader=reader)


@pytest.mark.parametrize("step", [0, 1, 2, 3])
def test_doubted_claim_is_blamed_where_it_stands(step: int) -> None:
    """A value that the model did not expect brings blame to its step; where it expected all values, there is less."""
    [doubted] = _reading(DoubtsStep(step)).attribute([_run(*SAID)])
    [expected] = _reading(DoubtsStep()).attribute([_run(*SAID)])

    assert doubted.decisive_step == step
    assert doubted.steps[step].score > expected.steps[step].score
    assert doubted.failure_score > expected.failure_score
    assert not expected.calls_failed
    assert doubted.tracer.name == "reader"


def test_only_failed_and_suspected_runs_are_read_where_not_all_are(small: AutoTracer) -> None:
    """A run without a sign of failure is judged as without a reader; one that is known to have failed is read."""
    model = DoubtsStep()
    tracer = _reading(model, reads_all=False)

    [sound] = tracer.attribute([_run(*SAID)])
    assert model.read_runs == []
    assert sound == small.attribute([_run(*SAID)])[0]

    tracer.attribute([_run(*SAID, outcome="failed")])
    assert len(model.read_runs) == 1
    assert tracer.settings["reader"] == WEIGHTS.digest


def test_run_that_cannot_be_read_is_judged_without_the_reader(
    small: AutoTracer, caplog: pytest.LogCaptureFixture
) -> None:
    """Where memory ends, the small tracer judges, and the log says so."""

    class OutOfMemory(DoubtsStep):
        def read(self, run: RunText, shares: Sequence[float] = ()) -> list[Expectation]:
            raise TracerUnavailable("expected a window to fit, got out of memory. Take a smaller model")

    with caplog.at_level(logging.WARNING):
        [verdict] = _reading(OutOfMemory()).attribute([_run(*SAID)])

    [alone] = small.attribute([_run(*SAID)])
    assert (verdict.steps, verdict.failure_score) == (alone.steps, alone.failure_score)
    assert "out of memory" in caplog.text


def test_weights_belong_to_one_model() -> None:
    """Another model doubts otherwise: what was learnt of one says nothing of it."""
    with pytest.raises(TracerUnavailable, match="trained with"):
        _reading(DoubtsStep(digest="0" * 12))


def test_company_and_order_change_no_verdict() -> None:
    """The same run gets the same verdict in any company."""
    tracer = _reading(DoubtsStep(1))
    runs = [_run(*SAID), _run(*SAID[:2]), replace(_run(*reversed(SAID)), trace_id="6" * 32)]

    together, backwards = tracer.attribute(runs), tracer.attribute(runs[::-1])

    assert together == backwards[::-1] == [tracer.attribute([run])[0] for run in runs]


def _without_package(*_: object) -> None:
    raise MissingExtra("the tracer 'reader' needs a language model, and found none")


def test_without_a_language_model_only_the_default_answers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing that reads is installed: `reader` is refused; `auto` with a budget goes without, and says so once."""
    monkeypatch.setattr(auto, "require", _without_package)
    monkeypatch.setenv("BLAMESPAN_READER_BUDGET", "4096")
    with pytest.raises(MissingExtra, match="found none"):
        load_tracer("reader")
    with caplog.at_level(logging.WARNING):
        tracer = load_tracer("auto")
        tracer.attribute([_run(*SAID), _run(*SAID[:2])])

    assert tracer.identity.name == "auto"
    assert caplog.text.count("without a language model") == 1


@pytest.mark.parametrize("value", ["0", "-5", "many", "12.5", "9" * 12])
def test_wrong_budget_is_refused(value: str) -> None:
    """A budget is a number of tokens that holds a sentence at least."""
    with pytest.raises(ConfigError, match=r"BLAMESPAN_READER_BUDGET.*Leave it out"):
        ReaderSettings.from_environment({"BLAMESPAN_READER_BUDGET": value})


def test_settings_are_read_from_the_environment() -> None:
    """Folder, device, budget and weights."""
    read: Callable[[dict[str, str]], ReaderSettings] = ReaderSettings.from_environment
    settings = read(
        {"BLAMESPAN_READER_MODEL": " qwen ", "BLAMESPAN_READER_DEVICE": "cpu", "BLAMESPAN_READER_BUDGET": "4096"}
    )

    assert (settings.model, settings.device, settings.budget) == ("qwen", "cpu", 4096)
    assert read({}) == ReaderSettings()
