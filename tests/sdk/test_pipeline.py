"""The core isolates one bad run in one way, whoever enters it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from blamespan import conventions as words
from blamespan.annotate import is_verdict_word, without_verdict
from blamespan.attribution import Attribution
from blamespan.errors import MalformedVerdict
from blamespan.importing.recorded import RecordedRun
from blamespan.pipeline import RunNotes, annotate_traces, attribute_parts
from blamespan.rebuilding.emit import emit
from blamespan.trace import MessageActionTrace
from blamespan.tracers import ask_tracer
from tests.sdk.fixed_tracer import LongestStepTracer
from tests.sdk.malformed_verdicts import BAD_TASK, MALFORMED, MalformedTracer
from tests.sdk.talks import talk

GOOD, BAD = talk(1), talk(2, task=BAD_TASK)


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_verdict_costs_its_run_alone(name: str) -> None:
    """It is an error of that run, which says what is wrong; the others of its batch get their verdicts."""
    good, bad = attribute_parts([RecordedRun("a", GOOD), RecordedRun("b", BAD)], MalformedTracer(name))

    assert good == (ask_tracer(LongestStepTracer(), [GOOD])[0],)
    assert isinstance(bad, MalformedVerdict)
    assert MALFORMED[name][1] in str(bad)


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_verdict_is_never_written(name: str) -> None:
    """The spans of its run come out as they were, but for the reason on the root."""
    good, bad = annotate_traces([emit(GOOD), emit(BAD)], MalformedTracer(name))

    assert words.BLAME_AGENT in good[0].attributes
    assert str(bad[0].attributes[words.ABSTAINED]).startswith("could not be attributed: ")
    assert bad[1:] == list(emit(BAD))[1:]


class HalfAnswer(LongestStepTracer):
    """Answers for half of a batch, and then raises."""

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        return self._yield_one(traces)  # type: ignore[return-value]  # a third party's mistake

    def _yield_one(self, traces: Sequence[MessageActionTrace]) -> Iterator[Attribution]:
        for trace in traces:
            if trace.task == BAD_TASK:
                raise KeyError(BAD_TASK)
            yield self._verdict(trace)


def test_answer_that_raises_while_it_is_read_is_isolated() -> None:
    """A tracer that yields its verdicts may raise late: each run is asked for alone then."""
    good, bad = attribute_parts([RecordedRun("a", GOOD), RecordedRun("b", BAD)], HalfAnswer())

    assert isinstance(good, tuple)
    assert isinstance(bad, KeyError)


def test_spans_say_where_claims_come_from_and_the_run_how_many_have_no_source() -> None:
    """The spans of steps that state a claim of the answer name the span that they have it from; ids and times stay."""
    pytest.importorskip("blamespan_tracer.run_notes")
    run = talk(1, ["The hotel has 36 rooms.", "Fine.", "So it has 36 rooms."])
    sound = talk(2, ["The hotel has 36 rooms.", "Fine.", "So it has 36 rooms."], task="36 rooms?")

    spans, with_source = annotate_traces([emit(run), emit(sound)], LongestStepTracer())

    by_id = {span.span_id: span for span in spans}
    first, last = run.steps[0].span_id, run.steps[2].span_id
    assert f'"span_id": "{first}"' in str(by_id[last].attributes[words.CLAIM_SOURCES])
    assert '"from": "nothing"' in str(by_id[first].attributes[words.CLAIM_SOURCES])
    assert words.CLAIM_SOURCES not in by_id[run.steps[1].span_id].attributes
    assert spans[0].attributes[words.CLAIM_UNSUPPORTED] == 1
    assert spans[0].attributes[words.CLAIM_SUSPECT_SPAN_ID] == first
    assert with_source[0].attributes[words.CLAIM_UNSUPPORTED] == 0
    assert words.CLAIM_SUSPECT_SPAN_ID not in with_source[0].attributes
    assert [span.links for span in spans] == [span.links for span in emit(run)]


def test_notes_that_break_cost_no_verdict(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """What is said beside a verdict may raise: the verdict is written all the same, and the log says so."""

    def break_down(trace: MessageActionTrace) -> RunNotes:
        raise KeyError(trace.trace_id)

    monkeypatch.setattr("blamespan.pipeline.find_part", lambda *_: break_down)

    [spans] = annotate_traces([emit(GOOD)], LongestStepTracer())

    assert words.BLAME_AGENT in spans[0].attributes
    assert words.CLAIM_COUNT not in spans[0].attributes
    assert "nothing is noted beside the verdict" in caplog.text


def test_taking_a_verdict_off_takes_its_notes_off() -> None:
    """Notes go with the verdict that they stand beside: taking one off takes them off, too."""
    run = talk(1, ["The hotel has 36 rooms.", "So it has 36 rooms."])
    [spans] = annotate_traces([emit(run)], LongestStepTracer())

    assert [without_verdict(span).attributes for span in spans] == [
        {key: value for key, value in span.attributes.items() if not is_verdict_word(key)} for span in spans
    ]
