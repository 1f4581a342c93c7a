"""The program that is watched: nothing of it changes, whatever happens on our side or in what it says."""

from __future__ import annotations

import asyncio
import gc
import inspect
import weakref
from typing import Any, Never

import pytest
from agent_framework import (
    Agent,
    BaseAgent,
    Content,
    Executor,
    FunctionTool,
    Message,
    RawAgent,
    Workflow,
    WorkflowBuilder,
    WorkflowContext,
    executor,
    handler,
    observability,
)
from agent_framework_orchestrations import SequentialBuilder
from opentelemetry import trace as otel

from blamespan import conventions as words
from blamespan.genai_messages import load_messages
from blamespan.rebuilding.rebuild import rebuild
from blamespan.testing import SpanRecorder
from blamespan_integrations.agent_framework import AgentFrameworkInstrumentor
from tests.integrations.agent_framework_runs import RuleClient, agent, call, in_turn, named
from tests.integrations.host_agent_framework import team


def test_class_made_while_instrumented_gets_its_originals_back() -> None:
    """A class that a program defines in between is wrapped, and after uninstrument() no more."""
    AgentFrameworkInstrumentor().instrument(tracer_provider=SpanRecorder().provider)

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        return RawAgent.run(self, *args, **kwargs)

    late = type("Late", (RawAgent,), {"run": run})
    wrapped = vars(late)["run"]
    AgentFrameworkInstrumentor().uninstrument()

    assert wrapped is not run
    assert vars(late)["run"] is run
    assert not any("__init_subclass__" in vars(root) for root in (BaseAgent, Executor, FunctionTool))


async def test_wrong_argument_is_refused_at_the_call(recorder: SpanRecorder) -> None:
    """An argument that Agent Framework does not have is refused before anything is awaited, as without us."""
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        agent("a").run("go", nonsense=1)


async def test_spans_of_the_program_stay_where_they_belong(recorder: SpanRecorder) -> None:
    """A tool's own spans are within the tool's span, and what it writes on the current one is on that."""
    tracer = recorder.provider.get_tracer("program")

    def note(city: str) -> str:
        otel.get_current_span().set_attribute("program.city", city)
        with tracer.start_as_current_span("query"):
            return city

    await agent("a", call("note", city="Rome"), "done", tools=[note]).run("go")

    (executed,), (query,) = named(recorder, "execute_tool"), named(recorder, "query")
    assert query.parent_id == executed.span_id
    assert executed.attributes["program.city"] == "Rome"
    assert observability.get_tracer("mine").start_span("x") is not None


async def test_wrapped_methods_look_like_the_originals(recorder: SpanRecorder) -> None:
    """Signature and name of a wrapped method are the original's: Agent Framework itself inspects them."""
    assert {"messages", "stream", "session", "tools"} <= set(inspect.signature(Agent.run).parameters)
    assert inspect.iscoroutinefunction(Executor.execute)
    assert Workflow.run.__name__ == "run"


async def test_finished_team_is_let_go(recorder: SpanRecorder) -> None:
    """Nothing of ours keeps a workflow or its messages alive once its run is over."""
    workflow = team()
    await workflow.run("go")
    gone = weakref.ref(workflow)
    del workflow
    gc.collect()

    assert gone() is None


class Unreadable:
    """Raises whatever is asked of it."""

    def __repr__(self) -> str:
        raise RuntimeError("nobody may look")

    __str__ = __repr__


PAYLOADS: dict[str, object] = {
    "10 MB": "x" * 10_000_000,
    "lone surrogate": "a\ud800b",
    "binary": bytes(range(256)).decode("latin-1"),
    "control characters": "\x1b[2J\x00\u202e<script>alert(1)</script>",
    "empty": "",
    "number": 7,
    "unreadable": Unreadable(),
    "nested": {"a": [1, {"b": None}]},
}


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
async def test_message_of_any_kind_passes_unchanged(recorder: SpanRecorder, payload: object) -> None:
    """What executors send arrives as it was; spans end, with well-formed content of bounded size."""
    received: list[object] = []

    class Sends(Executor):
        @handler
        async def send(self, text: str, context: WorkflowContext[Any]) -> None:
            await context.send_message(payload)

    class Takes(Executor):
        @handler(input=object)
        async def take(self, item: Any, context: WorkflowContext[Never, str]) -> None:
            received.append(item)

    builder = WorkflowBuilder(start_executor=Sends("sends"), name="any")
    takes = Takes("takes")
    builder.add_edge(builder._start_executor, takes)
    try:
        await builder.build().run("go")
    except RuntimeError:
        assert isinstance(payload, Unreadable)  # Agent Framework's own events show it

    (run,) = named(recorder, "invoke_workflow")
    for step in named(recorder, "invoke_agent"):
        written = step.attributes.get(words.OUTPUT_MESSAGES)
        assert written is None or load_messages(written) is not None
        assert len(str(written).encode()) <= 32_768
    assert run.end_ns >= run.start_ns
    assert received[:1] == [payload] or isinstance(payload, Unreadable)


async def test_a_thousand_messages(recorder: SpanRecorder) -> None:
    """A long loop is recorded whole, each message with its link, and payload grows with what is new."""

    @executor(id="again")
    async def again(count: int, context: WorkflowContext[int, str]) -> None:
        if count:
            await context.send_message(count - 1)
        else:
            await context.yield_output("done")

    builder = WorkflowBuilder(start_executor=again, name="loop", max_iterations=2_000).add_edge(again, again)
    await builder.build().run(1_000)

    run = rebuild(recorder.spans())
    assert len(run.steps) == 1_001
    assert [step.inputs for step in run.steps] == [(), *((index,) for index in range(1_000))]


async def test_what_was_said_is_exported_while_the_run_goes_on(recorder: SpanRecorder) -> None:
    """What agents said before a program is killed is there: the spans of messages do not wait for the run's."""
    exported: list[str] = []

    async def look() -> None:
        exported.extend(span.name for span in recorder.spans())

    slow = Agent(RuleClient(in_turn("late"), delay=look), name="slow")
    await SequentialBuilder(participants=[agent("writer", "a draft"), slow]).build().run("write")

    assert "invoke_agent writer" in exported
    assert "invoke_workflow Sequential" not in exported


async def test_pictures_and_bytes_do_not_enter_the_trace(recorder: SpanRecorder) -> None:
    """A picture is named by its kind."""
    picture = Message("user", [Content.from_data(b"\x89PNG" * 1_000, "image/png"), "what is this?"])
    await Agent(RuleClient(in_turn("a picture")), name="a").run(picture)

    (span,) = named(recorder, "invoke_agent")
    assert "[image/png]" in str(span.attributes[words.INPUT_MESSAGES])
    assert len(str(span.attributes[words.INPUT_MESSAGES])) < 300


async def test_streams_that_nobody_reads_end(recorder: SpanRecorder) -> None:
    """A stream that is dropped half way ends its spans as incomplete when it is gone."""
    stream = agent("a", "one two three").run("go", stream=True)
    async for _ in stream:
        break
    del stream
    gc.collect()
    await asyncio.sleep(0)

    assert [span.name for span in named(recorder, "invoke_agent")] == ["invoke_agent a"]
