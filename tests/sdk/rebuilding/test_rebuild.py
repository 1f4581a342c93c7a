"""`rebuild` and `emit` are inverse, and `rebuild` reads what other instrumentations write."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from blamespan import conventions as words
from blamespan.errors import MalformedSpan, MalformedTrace, NoAgentSteps
from blamespan.rebuilding.emit import emit
from blamespan.rebuilding.rebuild import rebuild
from blamespan.rebuilding.runs import split_runs
from blamespan.spans import Span
from blamespan.trace import MessageActionTrace, Usage
from tests.sdk.builders import agent, link, small_run, span, tool, workflow
from tests.sdk.strategies import traces


@given(traces())
@settings(max_examples=100, deadline=None)
def test_rebuild_inverts_emit(trace: MessageActionTrace) -> None:
    """A run written as spans and read back is the same run."""
    assert rebuild(emit(trace)) == trace


@given(traces())
@settings(max_examples=30, deadline=None)
def test_rebuild_does_not_depend_on_the_order_of_arrival(trace: MessageActionTrace) -> None:
    """Spans may come in any order."""
    assert rebuild(reversed(emit(trace))) == trace


def test_emit_refuses_attributes_that_a_field_stands_for() -> None:
    """A step cannot say one thing in a field and another in an attribute."""
    run = small_run()
    step = replace(run.steps[0], attributes={words.AGENT_NAME: "somebody else"})

    with pytest.raises(MalformedTrace, match=r"attributes must not hold \['gen_ai.agent.name'\]"):
        emit(replace(run, steps=(step, *run.steps[1:])))


def test_foreign_tool_span_becomes_a_call_and_a_result() -> None:
    """A tool span of another instrumentation is two steps: a decision of its agent, and the answer."""
    spans = [workflow(), agent(2, "solver", "It is 5.", at_s=3), tool(3, "add", '{"a":2}', "5", parent=2, at_s=1)]

    steps = rebuild(spans).steps

    assert [(s.kind, s.content, s.inputs) for s in steps] == [
        ("tool_call", 'add({"a":2})', ()),
        ("tool_result", "5", (0,)),
        ("message", "It is 5.", (1,)),
    ]


def test_foreign_steps_are_ordered_by_the_clock() -> None:
    """Without step indices an agent's message stands where it ended."""
    spans = [workflow(), agent(2, "late", "b", at_s=9), agent(3, "early", "a", at_s=1)]

    assert [step.agent for step in rebuild(spans).steps] == ["early", "late"]


def test_foreign_model_calls_count_for_the_agent_above_them() -> None:
    """Tokens of model calls add up on the agent that made them."""
    call = span(3, "chat m", parent=2, attributes={words.INPUT_TOKENS: 7, words.OUTPUT_TOKENS: 2})

    steps = rebuild([workflow(), agent(2, "solver", "hi"), call, replace(call, span_id=f"{4:016x}")]).steps

    assert steps[0].usage == Usage(14, 4)


@pytest.mark.parametrize(
    ("models", "named"),
    [(["gpt-4o", "gpt-4o"], "gpt-4o"), (["gpt-4o", "o3"], None), ([], None)],
    ids=["one model", "two models", "no model"],
)
def test_a_step_names_the_model_of_the_calls_below_it(models: list[str], named: str | None) -> None:
    """So that tokens have a price; where several models were called nobody knows whose tokens they are."""
    calls = [
        span(3 + place, "chat", parent=2, attributes={words.REQUEST_MODEL: model, words.INPUT_TOKENS: 1})
        for place, model in enumerate(models)
    ]

    [step] = rebuild([workflow(), agent(2, "solver", "hi"), *calls]).steps

    assert step.attributes.get(words.REQUEST_MODEL) == named


def test_link_to_a_tool_span_means_its_answer() -> None:
    """Who links to a tool builds on what the tool said."""
    after = replace(agent(4, "writer", "so", at_s=5), links=(link(3),))

    steps = rebuild([workflow(), agent(2, "solver", "x", at_s=3), tool(3, "add", "{}", "5", parent=2), after]).steps

    assert [step.kind for step in steps if step.index in steps[-1].inputs] == ["tool_result"]


def test_links_to_later_or_missing_steps_are_left_out() -> None:
    """A clock that ran backwards or a lost span never makes a run that breaks its own rules."""
    first = replace(agent(2, "a", "x", at_s=1), links=(link(3), link(99)))

    assert rebuild([workflow(), first, agent(3, "b", "y", at_s=5)]).steps[0].inputs == ()


def test_content_that_is_no_message_json_is_kept_as_text() -> None:
    """A cut-off or foreign content loses nothing."""
    broken = agent(2, "a", "", **{words.OUTPUT_MESSAGES: '[{"role":"assistant","par'})

    assert rebuild([workflow(), broken]).steps[0].content == '[{"role":"assistant","par'


def test_run_with_error_status_failed() -> None:
    """A run that raised is a failed run."""
    assert rebuild([workflow(status="error"), agent(2, "a", "x")]).outcome == "failed"


def test_spans_without_a_run_are_refused() -> None:
    """There is nothing to attribute in an ordinary trace."""
    with pytest.raises(NoAgentSteps, match="Is the program instrumented"):
        rebuild([span(1, "GET /")])


def test_spans_of_two_traces_are_refused() -> None:
    """A run lies in one trace."""
    with pytest.raises(MalformedSpan, match="spans of one trace"):
        rebuild([workflow(), replace(workflow(2), trace_id=f"{2:032x}")])


def test_several_runs_in_one_trace_are_split() -> None:
    """A service that answers a request with two teams made two runs."""
    server = span(9, "POST /ask", end_ns=10**12)
    spans = [
        server,
        workflow(1, seconds=10, parent_id=server.span_id),
        workflow(2, seconds=10, at_s=20, parent_id=server.span_id),
        agent(3, "a", "x", parent=1),
        agent(4, "b", "y", parent=2, at_s=21),
    ]

    runs = split_runs(spans)

    assert [[s.span_id for s in run.spans] for run in runs] == [[f"{1:016x}", f"{3:016x}"], [f"{2:016x}", f"{4:016x}"]]
    with pytest.raises(ValueError, match="expected one run, got 2"):
        rebuild(spans)


def test_team_within_a_team_is_part_of_its_run() -> None:
    """A nested team's messages are steps of the outer run."""
    spans = [
        workflow(1),
        agent(2, "boss", "z", at_s=9),
        workflow(3, parent_id=f"{2:016x}"),
        agent(4, "a", "x", parent=3),
    ]

    assert [step.agent for step in rebuild(spans).steps] == ["a", "boss"]


def test_agent_span_without_its_parent_belongs_to_the_run() -> None:
    """A step whose parent was lost on the way is still a step of the trace's run."""
    assert [s.agent for s in rebuild([workflow(), agent(2, "a", "x", parent=77)]).steps] == ["a"]


def test_span_that_came_twice_counts_once() -> None:
    """A retransmission changes nothing."""
    once = [workflow(), agent(2, "a", "x")]

    assert rebuild([*once, *once]) == rebuild(once)


def test_parents_in_a_circle_do_not_hang() -> None:
    """A hostile trace ends like any other."""
    circle: list[Span] = [agent(2, "a", "x", parent=3), agent(3, "b", "y", parent=2, at_s=1)]

    assert [step.agent for step in rebuild(circle).steps] == ["a", "b"]
