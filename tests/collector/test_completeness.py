"""Programs that do everything to a trace: whatever comes when, each span goes on once, and the last word is right."""

from __future__ import annotations

import hashlib
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import pytest

from blamespan import conventions as words
from blamespan.attribution import Attribution
from blamespan.pipeline import attribute_traces
from blamespan.spans import Span
from blamespan.trace import MessageActionTrace
from blamespan_collector.settings import Limits
from tests.collector.fakes import SOON, FirstStepTracer, run
from tests.collector.working import MemorySink, Working, ids, until, verdicts, working

YEAR_NS = 365 * 24 * 3600 * 10**9


class WholeTracer(FirstStepTracer):
    """Blames a step that every step of the run has a say in: a verdict on less than all of it is another one."""

    def _one(self, trace: MessageActionTrace) -> Attribution:
        blamable = [step for step in trace.steps if trace.can_be_blamed(step)]
        if not blamable:
            return Attribution.abstain(trace, "nobody to blame", self.identity)
        said = "|".join(sorted(f"{step.span_id}{step.content}" for step in trace.steps))
        number = int(hashlib.sha256(said.encode()).hexdigest(), 16)
        blamed = blamable[number % len(blamable)]
        shares = [float(step is blamed) for step in trace.steps]
        return Attribution.of(trace, shares, failure_score=0.5 + number % 1000 / 2001, tracer=self.identity, modes=[])


def caller(trace_id: str) -> Span:
    """Make the span of a request in which runs took place."""
    return Span(trace_id, trace_id[-15:] + "c", None, "POST /ask", start_ns=0, end_ns=10**12)


def program(random: Random, number: int) -> list[Span]:
    """Make the spans of one trace: several runs of the same agents, under a caller or not, some never ended."""
    trace_id = f"{number:032x}"
    under = random.choice([None, caller(trace_id), caller(trace_id)])
    spans = [under] if under is not None and random.random() < 0.5 else []  # or its process never sends it
    for place in range(random.randint(1, 3)):
        made = run(number * 10 + place, steps=random.randint(1, 5), content=f"said {random.random()}")
        apart = [replace(span, trace_id=trace_id, start_ns=span.start_ns + place * 1000, links=()) for span in made]
        apart = [replace(span, end_ns=span.end_ns + place * 1000) for span in apart]
        if under is not None:
            apart[0] = replace(apart[0], parent_id=under.span_id)
        spans += apart[1:] if random.random() < 0.15 else apart  # its process died before the run's span ended
    ahead_ns = random.choice([0, 0, 10 * YEAR_NS, 120 * YEAR_NS])
    return [replace(span, start_ns=span.start_ns + ahead_ns, end_ns=span.end_ns + ahead_ns) for span in spans]


@dataclass
class Attack:
    """Sends programs in any order and pieces, some twice, with pauses, to workers that are killed in between."""

    folder: Path
    random: Random
    sink: MemorySink = field(default_factory=MemorySink)
    tracer: WholeTracer = field(default_factory=WholeTracer)
    traces: list[list[Span]] = field(default_factory=list)

    def run(self) -> None:
        random = self.random
        self.traces = [program(random, number) for number in range(1, random.randint(3, 6))]
        pieces = self._pieces([span for spans in self.traces for span in spans])
        limits = Limits(
            quiet_s=0.05,
            idle_s=random.choice([0.15, 0.4]),
            max_age_s=random.choice([0.3, 3]),
            max_traces=random.choice([2, 1000]),
        )
        while pieces:
            some = [pieces.pop(0) for _ in range(random.randint(1, len(pieces)))]
            is_killed = bool(pieces) and random.random() < 0.6
            stop_s, deadline_s = (0 if is_killed else 5), random.choice([0.001, 30.0])
            with working(
                self.folder, self.sink, tracer=self.tracer, limits=limits, stop_s=stop_s, deadline_s=deadline_s
            ) as one:
                for piece in some:
                    one.take(piece)
                    time.sleep(random.choice([0, 0, 0.02, 0.1, 0.3]))
                if not pieces:
                    until(lambda: is_at_rest(one), 30)

    def _pieces(self, spans: list[Span]) -> list[list[Span]]:
        order = list(spans)
        if self.random.random() < 0.8:
            self.random.shuffle(order)
        pieces: list[list[Span]] = []
        while order:
            size = self.random.randint(1, 8)
            again = self.random.sample(spans, min(3, len(spans))) if self.random.random() < 0.3 else []
            pieces.append(order[:size] + again)
            del order[:size]
        return pieces


def is_at_rest(one: Working) -> bool:
    """Tell whether all was read, and nothing is held, followed or waits for a verdict."""
    flow = one.worker._flow
    is_read = not one.worker._reader.read(flow.feed.read_to, 1)
    return (
        is_read
        and not flow.queue.waiting_traces
        and not flow.assembler.held_traces
        and not flow.assembler.followed_traces
    )


def blamed(sink: MemorySink, members: set[str], trace_id: str) -> list[str]:
    """List the steps of a run that were said to be decisive, in the order in which that was said."""
    said: list[str] = []
    for span in sink.spans:
        if span.trace_id != trace_id:
            continue
        if span.scope.name == words.VERDICT_SCOPE:
            step = span.text(words.BLAME_SPAN_ID)
            said += [step] if step in members and step is not None else []
        elif span.span_id in members and span.attributes.get(words.BLAME_DECISIVE):
            said.append(span.span_id)
    return said


@pytest.mark.parametrize("seed", [1, 4, 9, 16, 33, 45, 268, 383])
def test_last_word_on_every_run_is_the_one_on_all_of_it(tmp_path: Path, seed: int) -> None:
    """In any order, with any pauses, repeats and kills: all goes on once and unaltered, the last word is right."""
    attack = Attack(tmp_path, Random(seed))
    attack.run()
    sink, sent = attack.sink, {(s.trace_id, s.span_id): s for spans in attack.traces for s in spans}
    out = Counter((span.trace_id, span.span_id) for span in sink.spans if span.scope.name != words.VERDICT_SCOPE)
    contents: dict[tuple[str, str], set[str]] = defaultdict(set)
    for span in sink.spans:
        contents[span.trace_id, span.span_id].add(repr((span.name, sorted(span.attributes.items(), key=str))))

    assert out == dict.fromkeys(sent, 1)
    assert {len(told) for told in contents.values()} == {1}
    for span in sink.spans:
        if (span.trace_id, span.span_id) in sent:
            before = sent[span.trace_id, span.span_id]
            assert before.attributes.items() <= span.attributes.items()
            assert (span.start_ns, span.end_ns, span.parent_id) == (before.start_ns, before.end_ns, before.parent_id)
    for spans, attributed in zip(attack.traces, attribute_traces(attack.traces, attack.tracer), strict=True):
        for item in attributed.runs:
            if item.attribution.decisive_step is not None:
                step = item.attribution.steps[item.attribution.decisive_step]
                members = {span.span_id for span in item.run.spans}
                assert blamed(sink, members, spans[0].trace_id)[-1:] == [step.span_id]


def test_part_of_a_run_that_waited_apart_from_the_rest_is_judged_with_it(tmp_path: Path) -> None:
    """Where part of a run came with another run's late spans, the part that waited has no last word of its own."""
    sink, tracer = MemorySink(), WholeTracer()
    first, second = run(1, steps=2), run(2, steps=3)
    under = caller(first[0].trace_id)
    second = [replace(span, trace_id=first[0].trace_id, links=()) for span in second]
    first[0], second[0] = (replace(root, parent_id=under.span_id) for root in (first[0], second[0]))
    late = replace(first[2], span_id="e" * 16)
    with working(tmp_path, sink, tracer=tracer, limits=Limits(quiet_s=0.05, idle_s=0.6)) as one:
        one.take(first)
        until(lambda: sink.traces)
        one.take([under, second[1]])
        one.take([second[2], late])
        one.take([second[0], second[3]])
        until(lambda: is_at_rest(one))
    (wanted,) = [
        item.attribution.steps[item.attribution.decisive_step].span_id
        for item in attribute_traces([[under, *first, late, *second]], tracer)[0].runs
        if item.run.root is not None
        and item.run.root.span_id == second[0].span_id
        and item.attribution.decisive_step is not None
    ]

    assert blamed(sink, set(ids(second)), under.trace_id)[-1] == wanted


def test_two_runs_of_the_same_agents_in_one_trace_are_judged_apart(tmp_path: Path) -> None:
    """The same names twice under one request are two teams: each has its own verdict on its own steps."""
    sink, tracer = MemorySink(), WholeTracer()
    under = caller(f"{1:032x}")
    runs = [
        [replace(span, trace_id=under.trace_id, links=()) for span in run(number, content=f"run {number}")]
        for number in (1, 2)
    ]
    for spans in runs:
        spans[0] = replace(spans[0], parent_id=under.span_id)
    with working(tmp_path, sink, tracer=tracer, limits=replace(SOON, quiet_s=0.3)) as one:
        one.take([*runs[0], *runs[1], under])
        until(lambda: sink.traces)

    roots = [span for span in sink.spans if words.FAILURE_SCORE in span.attributes]
    assert [root.span_id for root in roots] == [spans[0].span_id for spans in runs]
    for root, spans in zip(roots, runs, strict=True):
        assert root.attributes[words.BLAME_SPAN_ID] in ids(spans)


def test_same_span_ids_in_two_traces_are_two_spans(tmp_path: Path) -> None:
    """A span id names a span only inside its trace: neither is a duplicate of the other."""
    sink = MemorySink()
    first = run(1)
    second = [replace(span, trace_id=f"{2:032x}") for span in first]
    with working(tmp_path, sink) as one:
        one.take(first, second)
        until(lambda: len(sink.traces) == 2)

    assert Counter((span.trace_id, span.span_id) for span in sink.spans) == Counter(
        (span.trace_id, span.span_id) for span in (*first, *second)
    )
    assert one.counts["spans_duplicate"] == 0


def test_same_span_id_with_other_content_goes_on_once(tmp_path: Path) -> None:
    """A backend keeps one of two spans with one id: the first goes on, before and after the trace was let go."""
    sink = MemorySink()
    spans = run(1)
    other = [replace(span, name="other", attributes={}) for span in spans]
    with working(tmp_path, sink) as one:
        one.take([*spans, *other])
        until(lambda: sink.traces)
        one.take(other)
        until(lambda: one.counts["spans_duplicate"] == 8)

    assert [span.name for span in sink.spans] == [span.name for span in spans]


@pytest.mark.parametrize("skew_ns", [-(10**18), -1, 10 * YEAR_NS, 2**63, 2**64 - 10_000])
def test_clock_of_a_host_may_be_years_off(tmp_path: Path, skew_ns: int) -> None:
    """Of a run over two hosts one may live in another century: nothing waits for it, all is judged as one run."""
    sink = MemorySink()
    root, *steps = run(1)
    away = [replace(step, start_ns=max(0, step.start_ns + skew_ns), end_ns=max(0, skew_ns)) for step in steps[1:]]
    with working(tmp_path, sink, limits=replace(SOON, idle_s=60)) as one:
        one.take(away)
        one.take([root, steps[0]])
        until(lambda: sink.traces)

    assert len(sink.traces) == 1
    assert sorted(ids(sink.spans)) == sorted(ids([root, *steps]))
    assert sum(words.BLAME_SCORE in span.attributes for span in sink.spans) == 3


def test_run_over_three_processes_of_which_one_died_is_judged_by_what_came(tmp_path: Path) -> None:
    """The part that never came is waited for until it is silent; what is there goes on once, marked as partial."""
    sink = MemorySink()
    root, first, second, third = run(1)
    third = replace(third, parent_id=second.span_id)
    with working(tmp_path, sink, limits=replace(SOON, idle_s=0.8)) as one:
        one.take([third])
        one.take([first, root])
        until(lambda: sink.traces)

    assert sorted(ids(sink.traces[0])) == sorted(ids([root, first, third]))
    assert [span.attributes.get(words.PARTIAL) for span in sink.traces[0] if span.span_id == root.span_id] == [True]


def test_spans_after_a_revision_make_another_one(tmp_path: Path) -> None:
    """Each time a run changes after its verdict, one more verdict with a number of its own follows."""
    sink, tracer = MemorySink(), WholeTracer()
    spans = run(1)
    late = [replace(spans[1], span_id=f"{number:016x}", name=f"late {number}") for number in range(1, 9)]
    with working(tmp_path, sink, tracer=tracer) as one:
        one.take(spans)
        until(lambda: sink.traces)
        for number, span in enumerate(late, 1):
            one.take([span])
            until(lambda number=number: one.counts.get("traces_revised", 0) >= number)  # type: ignore[misc]
        until(lambda: is_at_rest(one))
    told = verdicts(sink)

    assert [span.attributes[words.REVISION] for span in told] == list(range(1, len(told) + 1))
    assert len({span.span_id for span in told}) == len(told) > 1


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_trace_of_a_hundred_thousand_spans_goes_through_whole(tmp_path: Path) -> None:
    """It is let go in one piece, cut to the sinks' size, judged, and others beside it are not held up for long."""
    sink = MemorySink()
    root, *steps = run(1, steps=100_000, content="x")
    small = run(2)
    with working(tmp_path, sink, limits=Limits(quiet_s=0.2, idle_s=60), deadline_s=120) as one:
        for start in range(0, len(steps), 5000):
            one.take(steps[start : start + 5000])
        one.take(small)
        until(lambda: any(span.span_id == small[0].span_id for span in sink.spans), 30)
        one.take([root])
        until(lambda: len(sink.spans) >= 100_005, 200)

    assert Counter(ids(sink.spans)).most_common(1)[0][1] == 1
    assert set(ids(sink.spans)) == {*ids(steps), *ids(small), root.span_id}
    assert max(len(payload) for kind, payload in sink.payloads if kind == "traces") < 4 * 1024 * 1024
