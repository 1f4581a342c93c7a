"""Spans of other instrumentations are seen in our words, and stay what they are."""

from __future__ import annotations

import cProfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from blamespan import conventions as words
from blamespan.annotate import annotate, read_verdict
from blamespan.dialects import Dialect, SpanReading, in_our_words, is_foreign, translation
from blamespan.genai_messages import Message
from blamespan.otlp import spans_from_proto, spans_to_proto
from blamespan.pipeline import annotate_traces
from blamespan.rebuilding.emit import emit
from blamespan.rebuilding.rebuild import rebuild, rebuild_run
from blamespan.rebuilding.runs import is_step, split_runs
from blamespan.spans import Scope, Span, SpanEvent
from tests.sdk.builders import agent, link, small_run, span, workflow
from tests.sdk.fixed_tracer import LongestStepTracer


class Talk:
    """A third party's dialect: the span's name says it all."""

    name = "talk"
    scopes = ("talk.",)
    marks = ("talk.kind",)

    def read(self, span: Span) -> SpanReading | None:
        kind, _, rest = span.name.partition(" ")
        if kind == "broken":
            raise RuntimeError("cannot read")
        if kind == "team":
            return SpanReading(
                role="run", name=rest, inputs=[Message.of_text("user", "do it")], participants=("a", "b")
            )
        if kind == "call":
            return SpanReading(role="tool", name=rest, arguments='{"x":1}', result="2")
        if kind == "says":
            who, _, what = rest.partition(": ")
            causes = tuple(link.span_id for link in span.links)
            return SpanReading(role="agent", name=who, outputs=[Message.of_text("assistant", what)], causes=causes)
        if kind == "node":
            return SpanReading(role="chain", name=rest, node=rest, place=f"{rest}:{span.span_id}", text="state")
        return None


@pytest.fixture(autouse=True)
def only_talk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One dialect is installed, and nothing is remembered of those that really are."""

    def dialects() -> Sequence[Dialect]:
        return [Talk()]

    def forget() -> None:
        for cached in (translation._of_scope, translation._scopes, translation._marks):
            cached.cache_clear()

    forget()
    with monkeypatch.context() as patched:
        patched.setattr(translation, "load_dialects", dialects)
        yield
    forget()


def talk(number: int, name: str, **changes: Any) -> Span:
    return replace(span(number, name, **changes), scope=Scope("talk.python"))


def team(*, seconds: int = 20) -> Span:
    return talk(1, "team desk", end_ns=seconds * 10**9)


def chat() -> list[Span]:
    return [
        team(),
        talk(2, "says a: hello", parent=1, at_s=1),
        talk(3, "says b: bye", parent=1, at_s=3, end_ns=9 * 10**9),
        talk(4, "call add", parent=3, at_s=5),
    ]


def test_trace_of_ours_is_left_alone() -> None:
    """Spans of our own making are not even copied."""
    spans = emit(small_run())

    assert in_our_words(spans) is spans
    assert split_runs(spans)[0].meanings is None


def test_foreign_run_is_rebuilt() -> None:
    """Who took part, what was asked, each message, call and answer, and what builds on what."""
    trace = rebuild(chat())

    assert trace.task == "do it"
    assert [agent.name for agent in trace.agents] == ["a", "b"]
    assert [(s.agent, s.kind, s.content, s.inputs) for s in trace.steps] == [
        ("a", "message", "hello", ()),
        ("b", "tool_call", 'add({"x":1})', (0,)),
        ("b", "tool_result", "2", (1,)),
        ("b", "message", "bye", (0, 2)),
    ]


def test_order_of_arrival_changes_nothing() -> None:
    """The same spans in any order are the same run."""
    assert rebuild(reversed(chat())) == rebuild(chat())


def test_verdict_stands_on_the_original_spans() -> None:
    """Nothing but the verdict is added: what a dialect makes of a span is never sent."""
    originals = list(spans_from_proto(spans_to_proto(chat())))
    [annotated] = annotate_traces([originals], LongestStepTracer())

    for before, after in zip(originals, annotated, strict=True):
        added = after.attributes.keys() - before.attributes.keys()
        assert all(key.startswith("blamespan.") for key in added)
        assert not added & {words.STEP_KIND, words.MESSAGE_SENDER, words.MESSAGE_RECIPIENTS, words.RUN_AGENTS}
        assert replace(after, attributes={}) == replace(before, attributes={})
    [written] = spans_to_proto(annotated)
    assert {item.key.partition(".")[0] for item in written.scope_spans[0].spans[1].attributes} == {"blamespan"}


def test_verdict_changes_nothing_of_what_is_rebuilt() -> None:
    """A run that was given its verdict is read as the same run, and its verdict is read back."""
    [run] = split_runs(chat())
    trace = rebuild_run(run)
    [verdict] = LongestStepTracer().attribute([trace])

    [again] = split_runs(annotate(run, verdict))

    assert [(s.agent, s.kind, s.content, s.inputs) for s in rebuild_run(again).steps] == [
        (s.agent, s.kind, s.content, s.inputs) for s in trace.steps
    ]
    read = read_verdict(again)
    assert read is not None
    assert read.decisive_step == verdict.decisive_step


def test_span_that_cannot_be_read_costs_only_itself() -> None:
    """A dialect that raises on a span leaves that span to be read as any other."""
    assert rebuild([*chat(), talk(9, "broken", parent=1)]) == rebuild(chat())


def test_dialect_is_told_by_a_mark_where_the_scope_is_unknown() -> None:
    """An export that lost the scopes is read all the same."""
    marked = [replace(span, scope=Scope(), attributes={"talk.kind": "x"}) for span in chat()]

    assert [s.content for s in rebuild(marked).steps] == [s.content for s in rebuild(chat()).steps]


def test_our_steps_silence_others_in_the_same_process() -> None:
    """A run that ours recorded is not told twice; another process's part of it still counts."""
    ours = replace(
        agent(8, "ours", "said", at_s=4, **{words.STEP_KIND: "message"}), scope=Scope("blamespan_integrations.autogen")
    )
    elsewhere = replace(talk(9, "says c: far away", parent=1, at_s=6), resource={"service.name": "other"})

    assert [s.content for s in rebuild([workflow(), ours, *chat()[1:], elsewhere]).steps] == ["said", "far away"]


def test_links_tell_what_a_message_builds_on() -> None:
    """Where spans say whose outcome they took up, the clock is not asked, and whoever sent it has a recipient."""
    spans = [
        team(),
        talk(2, "says a: one", parent=1, at_s=1),
        talk(3, "says b: two", parent=1, at_s=3),
        talk(4, "says c: three", parent=1, at_s=5, links=(link(2),)),
    ]

    trace = rebuild(spans)

    assert [s.inputs for s in trace.steps] == [(), (0,), (0,)]
    assert trace.steps[0].recipients == ("c",)


def test_branches_build_on_what_was_before_them() -> None:
    """By the clock alone, what overlaps is a fan-out, and what follows both joins them."""
    spans = [
        team(),
        talk(2, "says a: start", parent=1, at_s=1),
        talk(3, "says b: left", parent=1, at_s=3, end_ns=6 * 10**9),
        talk(4, "says c: right", parent=1, at_s=4, end_ns=7 * 10**9),
        talk(5, "says d: end", parent=1, at_s=8),
    ]

    assert [s.inputs for s in rebuild(spans).steps] == [(), (0,), (0,), (1, 2)]


def test_node_around_nodes_is_no_step() -> None:
    """A subgraph's nodes speak for it; a prebuilt agent's goes by the name of the subgraph."""
    spans = [
        team(),
        talk(2, "node expert", parent=1, at_s=1, end_ns=9 * 10**9),
        talk(3, "node model", parent=2, at_s=2),
        talk(4, "node notes", parent=2, at_s=4),
    ]

    assert [s.agent for s in rebuild(spans).steps] == ["expert", "notes"]


def test_steering_by_exception_is_no_error() -> None:
    """A graph that waits for a person has not failed, whatever the status says."""
    interrupt = SpanEvent("exception", 1, {"exception.type": "langgraph.errors.GraphInterrupt"})
    raised = SpanEvent("exception", 1, {"exception.type": "ValueError"})
    spans = [
        team(),
        talk(2, "says a: wait", parent=1, at_s=1, status="error", events=(interrupt,)),
        talk(3, "says b: oh", parent=1, at_s=3, status="error", events=(raised,)),
    ]

    assert [(s.status, s.error) for s in rebuild(spans).steps] == [("unset", None), ("error", "ValueError")]


def test_foreign_span_may_be_a_step() -> None:
    """Before its trace is complete, one span tells whether it may be worth a verdict."""
    assert [is_step(s) for s in (talk(1, "says a: x"), agent(2, "a", "x"), span(3, "GET /"))] == [True, True, False]
    assert not is_foreign(emit(small_run())[1])


def test_deep_chain_is_walked_once() -> None:
    """Five hundred spans, each below the other, take at most twice the calls of as many beside each other."""

    def calls(shape: str) -> int:
        said = [
            talk(n, f"says a{n % 3}: {n}", parent=n - 1 if shape == "chain" else 1, start_ns=n, end_ns=2_000 - n)
            for n in range(2, 502)
        ]
        profile = cProfile.Profile()
        profile.runcall(in_our_words, [talk(1, "team t", start_ns=0, end_ns=3_000), *said])
        return sum(entry.callcount for entry in profile.getstats())

    calls("flat")  # what is looked up once
    assert calls("chain") < 2 * calls("flat")


def test_step_in_a_deep_chain_builds_on_what_ended_above_it() -> None:
    """However deep a chain is nested, a step of its middle builds on what had ended beside the spans around it."""
    first = talk(2, "says a: first", parent=1, start_ns=1, end_ns=2)
    chain = [talk(n, f"says b: {n}", parent=n - 1 if n > 3 else 1, start_ns=n, end_ns=1_000) for n in range(3, 300)]
    seen = in_our_words([talk(1, "team t", start_ns=0, end_ns=2_000), first, *chain])

    assert {link.span_id for one in seen[2:100] for link in one.links} == {first.span_id}
