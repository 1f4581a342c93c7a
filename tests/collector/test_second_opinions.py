"""A tracer that asks others: the first verdict goes out at once, the later one as a revision, and nothing waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from blamespan import conventions as words
from blamespan.attribution import Attribution, Opinion, TracerIdentity
from blamespan.trace import MessageActionTrace
from blamespan_collector.page.trace_view import trace_view
from tests.collector.fakes import FirstStepTracer, run
from tests.collector.test_embedded import Make
from tests.collector.test_embedded import program as program
from tests.collector.working import MemorySink, until, verdicts, working


class AskingFake:
    """Blames the last step once it is let go; asks about tasks that it is told."""

    identity = TracerIdentity("asking", "1")

    def __init__(self, wanted: str = "add", *, answers: bool = True) -> None:
        self.first = FirstStepTracer()
        self.go = threading.Event()
        self.asked: list[str] = []
        self._wanted, self._answers = wanted, answers

    def wants(self, trace: MessageActionTrace, verdict: Attribution) -> bool:
        assert verdict.tracer.name == "first-step"
        return trace.task == self._wanted

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        self.go.wait(30)
        self.asked += [trace.task for trace in traces]
        verdicts = self.first.attribute(traces)
        if not self._answers:
            return [replace(each, opinions=(Opinion("asking", None, 0.0, "no answer"),)) for each in verdicts]
        shares = [[float(step is trace.steps[-1]) for step in trace.steps] for trace in traces]
        return [
            replace(
                Attribution.of(trace, share, failure_score=0.9, tracer=self.identity),
                opinions=(Opinion("first-step", 0, 1.0), Opinion("asking", len(share) - 1, 1.0)),
            )
            for trace, share in zip(traces, shares, strict=True)
        ]


def test_first_verdict_does_not_wait_and_the_other_follows(tmp_path: Path) -> None:
    """Spans go out with the embedded verdict while the endpoint is asked; its verdict follows as the next revision."""
    sink, tracer = MemorySink(), AskingFake()
    with working(tmp_path, sink, tracer=tracer) as one:
        one.take(run(1))
        until(lambda: sink.traces)
        first = dict(sink.traces[0][0].attributes)
        tracer.go.set()
        until(lambda: verdicts(sink))

    (later,) = verdicts(sink)
    assert (first[words.TRACER_NAME], first[words.BLAME_STEP], first[words.REVISION]) == ("first-step", 0, 0)
    assert (later.attributes[words.TRACER_NAME], later.attributes[words.BLAME_STEP]) == ("asking", 2)
    assert later.attributes[words.REVISION] == 1
    assert later.attributes[words.OPINION_STEPS] == (0, 2)


def test_run_that_is_not_wanted_is_not_asked_about(tmp_path: Path) -> None:
    """Its first verdict is the only one."""
    sink, tracer = MemorySink(), AskingFake("something else")
    tracer.go.set()
    with working(tmp_path, sink, tracer=tracer) as one:
        one.take(run(1))
        until(lambda: sink.traces)

    assert (verdicts(sink), tracer.asked) == ([], [])


def test_silence_makes_no_revision(tmp_path: Path) -> None:
    """Where no answer comes, what is out stands, and no second span says the same."""
    sink, tracer = MemorySink(), AskingFake(answers=False)
    tracer.go.set()
    with working(tmp_path, sink, tracer=tracer) as one:
        one.take(run(1))
        until(lambda: tracer.asked)
        until(lambda: not one.worker._flow.queue.awaited_traces())

    assert verdicts(sink) == []


def test_other_runs_do_not_wait_for_an_answer(tmp_path: Path) -> None:
    """A hundred runs go out with their verdicts while one is asked about and nobody answers."""
    sink, tracer = MemorySink(), AskingFake("slow")
    with working(tmp_path, sink, tracer=tracer) as one:
        one.take(run(1, task="slow"))
        for number in range(2, 102):
            one.take(run(number))
        until(lambda: len(sink.traces) == 101)
        assert tracer.asked == []
        tracer.go.set()
        until(lambda: verdicts(sink))

    assert all(words.TRACER_NAME in trace[0].attributes for trace in sink.traces[:101])


def test_killed_while_it_asks_asks_again_after_the_restart(tmp_path: Path) -> None:
    """What was under way is taken up from the journal: the later verdict comes, and comes once."""
    sink, tracer = MemorySink(), AskingFake()
    with working(tmp_path, sink, tracer=tracer, stop_s=0) as one:
        one.take(run(1))
        until(lambda: sink.traces)
    again = AskingFake()
    again.go.set()
    with working(tmp_path, sink, tracer=again):
        until(lambda: verdicts(sink))
    tracer.go.set()

    assert [span.attributes[words.TRACER_NAME] for span in verdicts(sink)] == ["asking"]
    assert again.asked == ["add"]


def test_late_span_makes_an_answer_on_fewer_spans_void(tmp_path: Path) -> None:
    """A run that was judged again meanwhile is asked about again: an older answer never overtakes a newer verdict."""
    sink, tracer = MemorySink(), AskingFake()
    late = replace(run(1)[1], span_id="0" * 15 + "1", name="late", start_ns=0, end_ns=0)
    with working(tmp_path, sink, tracer=tracer) as one:
        one.take(run(1))
        until(lambda: sink.traces)
        one.take([late])
        until(lambda: any(span.attributes[words.TRACER_NAME] == "first-step" for span in verdicts(sink)))
        tracer.go.set()
        until(lambda: verdicts(sink)[-1].attributes[words.TRACER_NAME] == "asking")

    told = [(span.attributes[words.TRACER_NAME], span.attributes[words.REVISION]) for span in verdicts(sink)]
    assert told == [("first-step", 1), ("asking", 2)]


def test_embedded_program_exports_the_later_verdict(program: Make) -> None:
    """The run goes out at once with the first verdict; the answer goes out when it comes, as a span of its own."""
    tracer = AskingFake()
    here = program(tracer=tracer)
    here.run(task="add")
    first = [dict(span.attributes or {}) for span in here.exported(3)]
    tracer.go.set()
    later = dict(here.exported(4)[3].attributes or {})

    assert [each[words.BLAME_AGENT] for each in first if words.BLAME_AGENT in each] == ["planner"]
    assert (later[words.BLAME_AGENT], later[words.REVISION], later[words.TRACER_NAME]) == ("coder", 1, "asking")


def test_end_of_a_program_waits_a_while_for_answers(program: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes within `BLAMESPAN_EXIT_S` is exported; what does not costs the program no more than that."""
    monkeypatch.setenv("BLAMESPAN_EXIT_S", "2")
    quick, slow = AskingFake(), AskingFake()
    quick.go.set()
    one, other = program(tracer=quick), program(tracer=slow)
    one.run(task="add")
    other.run(task="add")
    one.processor.shutdown()
    began_s = time.monotonic()
    other.processor.shutdown()
    took_s = time.monotonic() - began_s
    slow.go.set()

    assert [len(each.exporter.get_finished_spans()) for each in (one, other)] == [4, 3]
    assert took_s < 2.5


def test_later_verdict_is_shown_with_both_opinions(tmp_path: Path) -> None:
    """A stored run says that it was judged again with a second opinion, and who said what."""
    sink, tracer = MemorySink(), AskingFake()
    tracer.go.set()
    with working(tmp_path, sink, tracer=tracer) as one:
        one.take(run(1))
        until(lambda: verdicts(sink))
    (later,) = trace_view(sink.spans).later

    assert later.cause == "a second opinion (first-step: step 0, 1.00; asking: step 2, 1.00)"
    assert (later.step, later.revision) == (2, 1)
