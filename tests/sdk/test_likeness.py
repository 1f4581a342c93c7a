"""When failures are alike: one rule for summaries, schemata and incidents."""

from __future__ import annotations

from dataclasses import replace

import pytest

from blamespan import conventions as words
from blamespan.analysis.results.rows import row_of
from blamespan.analysis.showing.findings import KnownFailure
from blamespan.attribution import Attribution, Evidence, ModeBlame, TracerIdentity
from blamespan.importing.recorded import RecordedRun
from blamespan.likeness import fold_agent, likeness_of, name_likeness, place_of
from blamespan.pipeline import AttributedRun, RunNotes, annotate_traces
from blamespan.rebuilding.emit import emit
from blamespan.rebuilding.runs import split_runs
from blamespan.taxonomy import mode
from blamespan.trace import Agent, MessageActionTrace, Step

ME = TracerIdentity("test", "1")


def run(number: int, *, agent: str = "pricing", earlier: int = 1, outcome: str = "failed") -> MessageActionTrace:
    """A run that ends with a message of *agent*, after so many others."""
    steps = [
        Step(index, f"{index + 1:016x}", "clerk", "message", f"Look at {number}.", start_ns=1, end_ns=2)
        for index in range(earlier)
    ]
    last = Step(earlier, f"{earlier + 1:016x}", agent, "message", f"It costs {number}.", start_ns=1, end_ns=2)
    return MessageActionTrace(
        f"{number:032x}",
        "What does it cost?",
        (*steps, last),
        (Agent("clerk"), Agent(agent)),
        outcome=outcome,  # type: ignore[arg-type]
    )


class LastTracer:
    """Blames the last step, for misreading, by a check."""

    identity = ME

    def __init__(self, finding: str = "check sum-holds", code: str = "blamespan:X3") -> None:
        self._finding, self._code = finding, code

    def attribute(self, traces: list[MessageActionTrace]) -> list[Attribution]:
        return [self.one(trace) for trace in traces]

    def one(self, trace: MessageActionTrace) -> Attribution:
        last = trace.steps[-1]
        return Attribution.of(
            trace,
            [float(step is last) for step in trace.steps],
            failure_score=0.9,
            tracer=ME,
            modes=[ModeBlame(mode(self._code), last.agent, 0.8)],
            evidence=[Evidence(last.index, last.content, 1.0, finding=self._finding)],
        )


def likeness(trace: MessageActionTrace, tracer: LastTracer | None = None) -> str:
    return likeness_of(trace, (tracer or LastTracer()).one(trace))


def test_what_differs_from_run_to_run_does_not_count() -> None:
    """Other words, another number of steps and a numbered agent are the same failure."""
    said = {likeness(run(7)), likeness(run(8, earlier=5)), likeness(run(9, agent="Pricing_2"))}

    assert said == {"pricing, message, blamespan:X3, check sum-holds"}


def test_another_agent_mode_finding_or_place_is_another_failure() -> None:
    """The sound twins of the law above."""
    call = replace(run(7), steps=(*run(7).steps[:-1], replace(run(7).steps[-1], kind="tool_call", content="add({})")))
    others = [
        likeness(run(7, agent="billing")),
        likeness(run(7), LastTracer(code="mast:FM-3.2")),
        likeness(run(7), LastTracer(finding="claim near")),
        likeness(call),
    ]

    assert len({likeness(run(7)), *others}) == 5
    assert others[-1] == "pricing, tool call add, blamespan:X3, check sum-holds"


def test_a_known_failure_is_one_whoever_is_blamed() -> None:
    """A schema is a person's word that failures are alike."""
    assert name_likeness("pricing", "message", schema="counts-twice") == name_likeness("billing", schema="counts-twice")


def test_a_run_without_a_suspect_is_like_none() -> None:
    """Neither a success nor an abstention has a likeness."""
    sound = run(7, outcome="succeeded")

    assert likeness_of(sound, LastTracer().one(sound)) == ""
    assert likeness_of(run(7), Attribution.abstain(run(7), "too short", ME)) == ""


def test_likeness_stands_on_the_run_and_finding_on_the_step() -> None:
    """Whoever reads spans can group by both."""
    [spans] = annotate_traces([emit(run(7))], LastTracer())

    assert [span.text(words.LIKENESS) for span in spans if words.TRACER_NAME in span.attributes] == [likeness(run(7))]
    assert [span.text(words.FINDING) for span in spans if words.EVIDENCE in span.attributes] == ["check sum-holds"]


def test_spans_of_a_sound_run_have_neither() -> None:
    """The sound twin."""
    [spans] = annotate_traces([emit(run(7, outcome="succeeded"))], LastTracer())

    assert not any({words.LIKENESS, words.FINDING} & span.attributes.keys() for span in spans)


@pytest.mark.parametrize("name", ["Web_Surfer2", "web-surfer", "WEB SURFER 17"])
def test_an_agents_number_does_not_count(name: str) -> None:
    """Copies of an agent are that agent."""
    assert fold_agent(name) == "web-surfer"


def test_a_nameless_agent_has_a_likeness() -> None:
    """Names come from traces: one of signs alone is an agent, too."""
    assert name_likeness("???", place_of(run(7).steps[0])) == "agent, message"


def test_rows_and_spans_say_the_same() -> None:
    """What `analyze` writes of a run is what the collector writes on its spans: one rule, also for a known failure."""
    trace = run(7)
    recorded, verdict = RecordedRun("here", trace), LastTracer().one(trace)
    known = KnownFailure("counts-twice", "", 1, 0.9, "the first time", "")
    notes = RunNotes(steps={1: {words.SCHEMA_NAME: "counts-twice"}})
    spans = emit(trace)

    rows = [row_of(recorded, verdict)["likeness"], row_of(recorded, verdict, known=[known])["likeness"]]
    [whole] = split_runs(spans)
    judged = [AttributedRun(whole, trace, verdict, notes=some).likeness for some in (RunNotes(), notes)]

    assert rows == judged == [likeness(trace), "schema counts-twice"]
