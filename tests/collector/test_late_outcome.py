"""An outcome that is said after its run has gone out goes on, is what the page says, and makes another verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from blamespan import conventions as words
from blamespan.attribution import Attribution
from blamespan.spans import Span
from blamespan.trace import MessageActionTrace
from tests.collector.fakes import FirstStepTracer, run
from tests.collector.paging import annotated, stored
from tests.collector.working import MemorySink, until, verdicts, working
from tests.sdk.talks import talk


class AlarmedTracer(FirstStepTracer):
    """Blames somebody where it is known that the run failed; else it takes the run for sound."""

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        return [
            self._one(one) if one.outcome == "failed" else Attribution.abstain(one, "probably sound", self.identity)
            for one in traces
        ]


def said(root: Span, outcome: str, number: int = 1) -> Span:
    """Make the span of an outcome that is said after the run of *root* has ended."""
    at_ns = root.end_ns + number * 10**9
    return Span(
        root.trace_id,
        f"{'e' * 8}{number:08x}",
        root.span_id,
        words.RUN_OUTCOME_SPAN,
        start_ns=at_ns,
        end_ns=at_ns,
        attributes={words.RUN_OUTCOME: outcome},
    )


def test_thumbs_down_makes_another_verdict(tmp_path: Path) -> None:
    """A run that was taken for sound is judged again when it is said to have failed."""
    sink, spans = MemorySink(), run(1)
    with working(tmp_path, sink, tracer=AlarmedTracer()) as one:
        one.take(spans)
        until(lambda: sink.traces)
        one.take([said(spans[0], "failed")])
        until(lambda: verdicts(sink))
    first = [span.attributes.get(words.ABSTAINED) for span in sink.traces[0] if span.span_id == spans[0].span_id]
    told = [span.attributes for span in verdicts(sink) if words.BLAME_AGENT in span.attributes]

    assert first == ["probably sound"]
    assert [(each[words.REVISION], each[words.FAILURE_SCORE]) for each in told][:1] == [(1, 1.0)]


def test_store_keeps_what_was_said_last(tmp_path: Path) -> None:
    """In one piece or in several, in whichever order the run's own span comes: what was said later counts."""
    [spans] = annotated(talk(1, outcome="failed"))
    first, second = said(spans[0], "failed", 1), said(spans[0], "succeeded", 2)
    pieces: dict[str, list[Sequence[Span]]] = {
        "whole": [[*spans, second, first]],
        "later": [spans, [first], [second]],
        "root last": [spans[1:], [first, second], spans[:1]],
        "unsaid": [spans[1:], [replace(second, attributes={words.RUN_OUTCOME: "perhaps"})], spans[:1]],
    }
    found = {name: stored(tmp_path / f"{name}.db", *each).search()[0].outcome for name, each in pieces.items()}

    assert found == {"whole": "succeeded", "later": "succeeded", "root last": "succeeded", "unsaid": "failed"}
