"""A run in parts is one run: the part that waits is not judged, the one that goes on is judged with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from blamespan import conventions as words
from blamespan import emit
from blamespan.analysis.outcomes import attribute_recorded
from blamespan.analysis.sources import runs_in
from blamespan.annotate import read_verdict
from blamespan.attribution import Attribution, TracerIdentity
from blamespan.importing.recorded import RecordedRun
from blamespan.pipeline import AttributedRun, AttributedTrace, attribute_runs
from blamespan.rebuilding.continuing import WAITS, join_parts
from blamespan.rebuilding.runs import Run, split_runs
from blamespan.spans import Span, SpanLink
from blamespan.trace import Agent, MessageActionTrace, Outcome, Step
from tests.sdk.builders import otlp_lines


class BlamesSaying:
    """Blames the steps that say a word; calls runs failed in which one does."""

    identity = TracerIdentity("word", "1")

    def __init__(self, word: str = "wrong") -> None:
        self.word = word
        self.asked: list[MessageActionTrace] = []

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        """Judge each."""
        self.asked += traces
        verdicts: list[Attribution] = []
        for run in traces:
            shares = [float(self.word in step.content) or 0.01 for step in run.steps]
            verdicts.append(Attribution.of(run, shares, failure_score=0.9, tracer=self.identity))
        return verdicts


def part(
    number: int, *contents: str, task: str = "What is 12 * 3?", waits: bool = False, outcome: Outcome = "unknown"
) -> list[Span]:
    """Make the spans of a part; each but the first goes on from the one before."""
    steps = tuple(
        Step(
            index, f"{number}{index + 1:015x}", f"agent-{index}", content=content, inputs=(index - 1,) if index else ()
        )
        for index, content in enumerate(contents)
    )
    agents = tuple(Agent(step.agent) for step in steps)
    root, *others = emit(MessageActionTrace(f"{number:032x}", task, steps, agents, outcome))
    links = root.links
    if number > 1:
        earlier, *_ = part(number - 1, "any")
        links = (SpanLink(earlier.trace_id, earlier.span_id, {words.LINK_RELATION: "continues"}),)
    attributes = {**root.attributes, **({words.RUN_INTERRUPTED: True} if waits else {})}
    return [replace(root, links=links, attributes=attributes), *others]


def runs_of(*parts: Sequence[Span]) -> list[Run]:
    return [run for spans in parts for run in split_runs(spans)]


def judged(*parts: Sequence[Span], known: Sequence[Sequence[Span]] = ()) -> list[AttributedRun]:
    by_id = {spans[0].trace_id: spans for spans in known}
    return attribute_runs(runs_of(*parts), BlamesSaying(), spans_of=lambda trace_id: by_id.get(trace_id, ()))


def test_run_that_waits_is_not_judged() -> None:
    """It abstains and says why; where its outcome is known, it is judged like any other."""
    [waiting] = judged(part(1, "wrong", waits=True))
    [told] = judged(part(1, "wrong", waits=True, outcome="failed"))

    assert (waiting.attribution.abstained, waiting.attribution.decisive_step) == (WAITS, None)
    assert (told.attribution.abstained, told.attribution.decisive_step) == (None, 0)


def test_parts_are_one_run_to_a_tracer() -> None:
    """The steps of all parts in order, what begins a part building on what was before; the first task."""
    tracer = BlamesSaying()
    first, second = part(1, "plan", "solve", waits=True), part(2, "write", "check", task="yes", outcome="failed")
    attribute_runs(runs_of(second), tracer, spans_of=lambda _: first)
    [whole] = tracer.asked

    assert [(step.content, step.inputs) for step in whole.steps] == [
        ("plan", ()),
        ("solve", (0,)),
        ("write", (1,)),
        ("check", (2,)),
    ]
    assert (whole.task, whole.outcome, whole.trace_id) == ("What is 12 * 3?", "failed", f"{2:032x}")


def test_blame_on_the_part_that_went_on_stands_there() -> None:
    """Its steps have its own numbers, and their shares add up to 1."""
    [run] = judged(part(2, "write", "wrong"), known=[part(1, "plan", waits=True)])
    verdict = run.attribution

    assert (verdict.abstained, verdict.decisive_step, verdict.agents[0].agent) == (None, 1, "agent-1")
    assert sum(step.score for step in verdict.steps) == pytest.approx(1)
    assert [one.attribution.abstained for one in run.earlier] == [
        f"most to blame is agent-1 at step 1 of another part of this run, trace {2:032x}"
    ]


def test_blame_on_an_earlier_part_stands_on_that_part() -> None:
    """The part that went on abstains and names it; over more than two parts as well."""
    known = [part(1, "plan", "wrong", waits=True), part(2, "ask", waits=True)]
    [run] = judged(part(3, "write"), known=known)
    first, second = run.earlier

    assert run.attribution.abstained == (
        f"most to blame is agent-1 at step 1 of another part of this run, trace {1:032x}"
    )
    assert (first.attribution.decisive_step, first.attribution.revision) == (1, 1)
    assert first.run.spans[0].trace_id == f"{1:032x}"
    assert second.attribution.abstained is not None


class DoubtsBarely(BlamesSaying):
    """Gives all of the blame to the steps that say the word, and says that the run rather did not fail."""

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        verdicts = super().attribute(traces)
        shares = [tuple(replace(step, score=round(step.score)) for step in verdict.steps) for verdict in verdicts]
        return [replace(verdict, failure_score=0.1, steps=one) for verdict, one in zip(verdicts, shares, strict=True)]


def test_sound_run_in_parts_accuses_no_part() -> None:
    """Where nobody is named no part says who is most to blame; a part that holds no share gets none."""
    first = part(1, "plan", "wrong", waits=True)
    [run] = attribute_runs(runs_of(part(2, "write")), DoubtsBarely(), spans_of=lambda _: first)
    trace = AttributedTrace([run])
    texts = [str(value) for span in run.annotations().values() for value in span.values()]
    [back] = [read_verdict(replace(run.run, spans=tuple(trace.on(run.run.spans, is_complete=True))))]

    assert [one.attribution.word for one in (run, *run.earlier)] == ["no sign of failure"] * 2
    assert not any("to blame" in text for text in texts)
    assert trace.on_earlier_parts() == []
    assert back is not None
    assert (back.word, back.abstained, back.decisive_step) == ("no sign of failure", None, None)


@pytest.mark.parametrize(
    "known",
    [
        [],
        [part(1, "wrong")],  # did not wait
        [part(9, "wrong", waits=True)],
    ],
)
def test_part_whose_beginning_is_gone_is_judged_alone(known: list[list[Span]]) -> None:
    """What cannot be had, or is no part of this run, is left out."""
    [run] = judged(part(2, "write", "wrong"), known=known)

    assert run.earlier == ()
    assert run.attribution.decisive_step == 1


def test_parts_with_the_same_ids_are_not_joined() -> None:
    """Deterministic ids come again in another trace: such parts are judged alone rather than mixed up."""
    same = [replace(span, span_id=span.span_id.replace("1", "2", 1)) for span in part(1, "wrong", waits=True)]
    root = replace(
        part(2, "write")[0], links=(SpanLink(f"{1:032x}", same[0].span_id, {words.LINK_RELATION: "continues"}),)
    )
    [run] = judged([root, *part(2, "write")[1:]], known=[same])

    assert run.attribution.abstained is None


def test_links_in_a_circle_end() -> None:
    """A hostile trace that goes on from itself is one run."""
    root, *steps = part(2, "wrong", waits=False)
    itself = SpanLink(root.trace_id, root.span_id, {words.LINK_RELATION: "continues"})
    [run] = judged([replace(root, links=(itself,)), *steps])

    assert run.earlier == ()


def test_forks_are_runs_of_their_own() -> None:
    """A run that starts from an earlier checkpoint by name is no continuation."""
    root, *steps = part(2, "wrong")
    fork = replace(root.links[0], attributes={words.LINK_RELATION: "forks"})
    [run] = judged([replace(root, links=(fork,)), *steps], known=[part(1, "plan", waits=True)])

    assert run.earlier == ()


def test_one_part_joined_is_itself() -> None:
    """Joining changes nothing where there is one part."""
    [run] = [one.trace for one in judged(part(1, "a", "b"))]

    assert join_parts([run]) == run


def test_file_with_all_parts_is_analyzed_as_one_run(tmp_path: Path) -> None:
    """Offline likewise: the parts are one run, in whatever order they stand, and it is judged as a whole."""
    path = tmp_path / "traces.jsonl"
    spans = [*reversed([*part(1, "plan", "wrong", waits=True), *part(2, "write", task="yes")]), *part(7, "wrong")]
    path.write_text(otlp_lines(spans))
    runs = [run for run in runs_in([path]) if isinstance(run, RecordedRun)]
    results = [result.verdict for result in attribute_recorded(runs, BlamesSaying())]

    assert [(run.trace.trace_id, len(run.trace.steps), run.trace.task) for run in runs] == [
        (f"{2:032x}", 3, "What is 12 * 3?"),
        (f"{7:032x}", 1, "What is 12 * 3?"),
    ]
    assert [(verdict.abstained, verdict.decisive_step) for verdict in results] == [(None, 1), (None, 0)]
