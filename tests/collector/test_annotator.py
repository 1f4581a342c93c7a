"""No trace can spoil another's verdict, and nothing a trace holds can stop it from going on."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import pytest

from blamespan import conventions as words
from blamespan.attribution import TracerIdentity
from blamespan.errors import TracerUnavailable
from blamespan.spans import Span
from blamespan.tracers import Tracer
from blamespan_collector.judging.annotator import Annotator
from tests.collector.fakes import POISON, FirstStepTracer, run
from tests.sdk.malformed_verdicts import BAD_TASK, MALFORMED, MalformedTracer


def annotated(annotator: Annotator, traces: Sequence[Sequence[Span]], *, is_complete: bool = True) -> list[list[Span]]:
    found = annotator.attribute(traces)
    return [list(one.on(spans, is_complete=is_complete)) for one, spans in zip(found, traces, strict=True)]


def test_trace_that_breaks_the_tracer_says_so_and_spoils_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """Errors are isolated: the others of its batch get their verdicts, and its root says why it has none."""
    annotator = Annotator(FirstStepTracer)
    done = annotated(annotator, [run(1), run(2, task=POISON), run(3)])

    assert [words.BLAME_AGENT in spans[0].attributes for spans in done] == [True, False, True]
    assert done[1][0].attributes[words.ABSTAINED] == "could not be attributed: ValueError: cannot read  [31mthis"
    assert done[1][0].attributes[words.TRACER_NAME] == "first-step"
    assert done[1][1:] == run(2, task=POISON)[1:]
    assert (annotator.traces, annotator.failures) == (2, 1)
    assert "\x1b" not in caplog.messages[0]


def test_traces_that_would_break_us_go_on() -> None:
    """Hostile spans (cycles, clocks running backwards, shared ids) come out as many as they went in."""
    cycle = [replace(span, parent_id=span.span_id) for span in run(1)]
    loop = run(2)
    loop[1], loop[2] = replace(loop[1], parent_id=loop[2].span_id), replace(loop[2], parent_id=loop[1].span_id)
    backwards = [replace(span, start_ns=9, end_ns=1) for span in run(3)]
    doubled = [*run(4), *run(4)]
    odd = [
        replace(span, attributes={**span.attributes, words.STEP_INDEX: -(2**70), words.AGENT_NAME: "\ud800"})
        for span in run(5)
    ]
    traces = [cycle, loop, backwards, doubled, odd]
    done = annotated(Annotator(FirstStepTracer), traces)

    assert [[span.span_id for span in spans] for spans in done] == [[s.span_id for s in spans] for spans in traces]


def test_tracer_that_cannot_be_loaded_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    """Without a tracer spans go on, runs say why they have no verdict, and the log says it once."""

    def load() -> Tracer:
        raise TracerUnavailable("expected weights, got none. pip install 'blamespan[model]'")

    annotator = Annotator(load)
    done = [annotated(annotator, [run(number)])[0] for number in (1, 2)]

    assert done[1][0].attributes[words.ABSTAINED] == (
        "no tracer: expected weights, got none. pip install 'blamespan[model]'"
    )
    assert done[1][1:] == run(2)[1:]
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1


def test_tracer_is_not_loaded_for_traces_without_agents() -> None:
    """A service without agents never pays for a model, and its spans are the same objects."""

    def load() -> Tracer:
        raise AssertionError("not needed")

    web = [Span("1".rjust(32, "0"), "1".rjust(16, "0"), None, "GET /")]

    assert annotated(Annotator(load), [web])[0][0] is web[0]


def test_verdict_on_an_incomplete_run_says_so() -> None:
    """Whoever reads it knows that the end had not come."""
    (done,) = annotated(Annotator(FirstStepTracer), [run(1)], is_complete=False)

    assert [span.attributes.get(words.PARTIAL) for span in done] == [True, None, None, None]


def test_verdict_beside_its_spans_is_one_span_per_run() -> None:
    """A verdict on spans that are out is a span below the blamed one; a verdict span itself is never judged."""
    annotator = Annotator(FirstStepTracer)
    (first,) = annotator.attribute([run(1)])
    made = first.beside(is_complete=True)
    (second,) = annotator.attribute([[*run(1), *made]])

    assert [(span.parent_id, span.name) for span in made] == [(run(1)[1].span_id, "verdict agent0")]
    assert second.beside(is_complete=True) == made


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_verdict_spoils_no_other(name: str) -> None:
    """A verdict that does not fit its run is isolated as a tracer is that raises: the root says why there is none."""
    annotator = Annotator(lambda: MalformedTracer(name, FirstStepTracer()))
    good, bad = annotated(annotator, [run(1), run(2, task=BAD_TASK)])

    assert words.BLAME_AGENT in good[0].attributes
    assert str(bad[0].attributes[words.ABSTAINED]).startswith("could not be attributed: ")
    assert bad[1:] == run(2, task=BAD_TASK)[1:]
    assert (annotator.traces, annotator.failures) == (1, 1)


def test_tracer_without_an_identity_cannot_be_loaded() -> None:
    """Who judges must say who they are: else there is no tracer, and spans go on."""

    class Nameless(FirstStepTracer):
        @property
        def identity(self) -> TracerIdentity:  # type: ignore[override]  # a third party's mistake
            raise AttributeError("no weights yet")

    (spans,) = annotated(Annotator(Nameless), [run(1)])

    assert spans[0].attributes[words.ABSTAINED] == "no tracer: AttributeError: no weights yet"
