"""The program that is watched: nothing of it changes, whatever happens on our side or in what it says."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import logging
import os
import signal
import subprocess
import sys
import textwrap
import time
import weakref
from collections import Counter
from pathlib import Path
from typing import Any, Never

import pytest
from agent_framework import (
    Agent,
    AgentResponse,
    BaseAgent,
    BaseChatClient,
    Content,
    Executor,
    FunctionTool,
    InProcRunnerContext,
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
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from blamespan import conventions as words
from blamespan.genai_messages import load_messages
from blamespan.host_safety import shield_host
from blamespan.rebuilding.rebuild import rebuild
from blamespan.testing import SpanRecorder
from blamespan_integrations.agent_framework import AgentFrameworkInstrumentor, _wrap
from blamespan_integrations.recording import AgentSpan, ChatSpan, Recorder, RunSpan, ToolSpan
from tests.integrations.agent_framework_runs import RuleClient, agent, call, in_turn, look_up, named
from tests.integrations.exporters import troubled_exporters

PATCHED: list[tuple[Any, str]] = [
    (Workflow, "run"),
    (Agent, "run"),
    (RawAgent, "run"),
    (Executor, "execute"),
    (FunctionTool, "invoke"),
    (BaseChatClient, "get_response"),
    (WorkflowContext, "send_message"),
    (WorkflowContext, "yield_output"),
    (WorkflowContext, "request_info"),
    (InProcRunnerContext, "create_checkpoint"),
    (InProcRunnerContext, "apply_checkpoint"),
    (BaseInstrumentor, "uninstrument"),
    (observability, "get_tracer"),
    (observability, "trace"),
]


def team() -> Workflow:
    """Make a team that uses a tool."""
    writer = agent("writer", call("look_up", city="Rome"), "fine", tools=[look_up])
    return SequentialBuilder(participants=[writer, agent("critic", "too short")]).build()


def plain(value: object) -> object:
    """Read what a program sees of a result, without ids that differ from run to run."""
    if isinstance(value, AgentResponse):
        return [(message.role, message.author_name, message.text) for message in value.messages]
    return value if isinstance(value, str) else type(value).__name__


async def outcome(of: Workflow) -> list[object]:
    """Run a team awaited, and list all that its result holds."""
    result = await of.run("go")
    return [(event.type, event.executor_id, plain(event.data)) for event in result]


async def streamed(of: Workflow) -> list[object]:
    """Run a team streamed, and list all that its stream yields."""
    return [(event.type, event.executor_id) async for event in of.run("go", stream=True)]


@pytest.mark.parametrize("run", [outcome, streamed])
async def test_results_and_events_are_the_same(run: Any) -> None:
    """Awaited or streamed, a program gets what it gets without us, in the same order."""
    bare = await run(team())
    AgentFrameworkInstrumentor().instrument(tracer_provider=SpanRecorder().provider)
    watched = await run(team())
    AgentFrameworkInstrumentor().uninstrument()

    assert watched == bare


async def test_uninstrument_gives_the_originals_back() -> None:
    """After uninstrument() every function is the very object it was, also in classes made in between."""
    before = [vars(owner)[name] for owner, name in PATCHED]
    AgentFrameworkInstrumentor().instrument(tracer_provider=SpanRecorder().provider)
    during = [vars(owner)[name] for owner, name in PATCHED]

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        return RawAgent.run(self, *args, **kwargs)

    late = type("Late", (RawAgent,), {"run": run})
    wrapped = vars(late)["run"]
    AgentFrameworkInstrumentor().uninstrument()

    assert all(now is not then for now, then in zip(during, before, strict=True))
    assert wrapped is not run
    assert all(vars(owner)[name] is then for (owner, name), then in zip(PATCHED, before, strict=True))
    assert vars(late)["run"] is run
    assert not any("__init_subclass__" in vars(root) for root in (BaseAgent, Executor, FunctionTool))


async def test_uninstrumented_program_records_nothing(recorder: SpanRecorder) -> None:
    """What was instrumented and is no longer leaves no spans."""
    AgentFrameworkInstrumentor().uninstrument()
    await outcome(team())

    assert recorder.spans() == []


async def test_instrumented_twice_records_once(recorder: SpanRecorder, caplog: pytest.LogCaptureFixture) -> None:
    """A second instrument() changes nothing."""
    with caplog.at_level(logging.CRITICAL):
        AgentFrameworkInstrumentor().instrument(tracer_provider=recorder.provider)
    await outcome(team())

    assert Counter(span.name for span in recorder.spans()) == {
        "invoke_workflow Sequential": 1,
        "invoke_agent writer": 1,
        "invoke_agent critic": 1,
        "execute_tool look_up": 1,
        "chat rule": 3,
    }


async def test_version_we_do_not_know_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If Agent Framework is not as we know it, instrument() says so once, patches nothing and does not raise."""
    before = [vars(owner)[name] for owner, name in PATCHED]
    monkeypatch.delattr(_wrap, "WorkflowContext")
    monkeypatch.setattr(shield_host, "strict", False)
    AgentFrameworkInstrumentor().instrument(tracer_provider=SpanRecorder().provider)
    after = [vars(owner)[name] for owner, name in PATCHED]
    result = await outcome(team())
    AgentFrameworkInstrumentor().uninstrument()

    assert after == before
    assert result
    assert caplog.text.count("could not agent_framework: instrument this version of Agent Framework") == 1


@pytest.mark.parametrize(
    ("owner", "method"),
    [
        *((Recorder, name) for name in ("start_run", "start_agent", "start_tool", "start_chat")),
        *((kind, "end") for kind in (RunSpan, AgentSpan, ToolSpan, ChatSpan)),
    ],
)
@pytest.mark.parametrize("run", [outcome, streamed])
async def test_failure_on_our_side_changes_nothing(
    recorder: SpanRecorder,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    owner: Any,
    method: str,
    run: Any,
) -> None:
    """If recording fails anywhere, the program's result is what it was."""

    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("a bug of ours")

    AgentFrameworkInstrumentor().uninstrument()
    expected = await run(team())
    AgentFrameworkInstrumentor().instrument(tracer_provider=recorder.provider)
    monkeypatch.setattr(owner, method, broken)
    monkeypatch.setattr(shield_host, "strict", False)
    monkeypatch.setattr(shield_host, "_reported", set())

    assert await run(team()) == expected
    assert "a bug of ours" in caplog.text


async def test_programs_exceptions_pass_as_they_are(recorder: SpanRecorder) -> None:
    """An exception of the program's own reaches the caller as the same object, awaited and streamed."""
    error = LookupError("mine")

    def fail(_: object) -> str:
        raise error

    with pytest.raises(LookupError) as caught:
        await agent("a", rule=fail).run("go")
    with pytest.raises(LookupError) as caught_in_stream:
        async for _ in agent("a", rule=fail).run("go", stream=True):
            pass
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        agent("a").run("go", nonsense=1)  # at the call, as without us

    assert caught.value is error
    assert caught_in_stream.value is error


async def scopes(exporter: InMemorySpanExporter) -> Counter[str]:
    """Run a team; count the spans that come of it by who made them."""
    exporter.clear()
    await outcome(team())
    made_by = [span.instrumentation_scope for span in exporter.get_finished_spans()]
    return Counter(scope.name for scope in made_by if scope is not None)


async def test_own_spans_are_silent_until_uninstrument(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one provider for all, every span is ours; after uninstrument() Agent Framework's own come again."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(otel, "_TRACER_PROVIDER", provider)
    before = await scopes(exporter)
    AgentFrameworkInstrumentor().instrument()
    during = await scopes(exporter)
    AgentFrameworkInstrumentor().uninstrument()

    assert during == {"blamespan.agent_framework": 7}
    assert before["agent_framework"] > 10
    assert await scopes(exporter) == before


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


async def test_exporters_in_trouble_cost_the_program_nothing() -> None:
    """An exporter that raises and one that hangs do not hold a run up."""
    with troubled_exporters(AgentFrameworkInstrumentor()):
        began = time.monotonic()
        result = await outcome(team())

    assert result
    assert time.monotonic() - began < 5


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


PROGRAM = """
import asyncio, sys
from tests.integrations.agent_framework_runs import RuleClient, agent, in_turn
from agent_framework import Agent
from agent_framework_orchestrations import SequentialBuilder

def build(delay=None):
    slow = Agent(RuleClient(in_turn("late"), delay=delay), name="slow")
    return SequentialBuilder(participants=[agent("writer", "a draft"), slow]).build()
"""


def test_opentelemetry_instrument_finds_us(tmp_path: Path) -> None:
    """`opentelemetry-instrument python program.py` records an unchanged program."""
    program = tmp_path / "program.py"
    program.write_text(f"{PROGRAM}\nasyncio.run(build().run('write'))")
    command = [str(Path(sys.executable).with_name("opentelemetry-instrument")), sys.executable, str(program)]
    settings = {"OTEL_TRACES_EXPORTER": "console", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}
    environment = os.environ | settings | {"PYTHONPATH": str(Path.cwd())}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=True)

    assert '"name": "invoke_workflow Sequential"' in done.stdout
    assert '"name": "invoke_agent writer"' in done.stdout
    assert "executor.process" not in done.stdout


def test_killed_program_leaves_what_was_said(tmp_path: Path) -> None:
    """What agents said before a kill -9 has been exported: the spans of messages do not wait for the run's."""
    program = f"""
import blamespan, time
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
blamespan.instrument(tracer_provider=provider)
{PROGRAM}
async def hang():
    print("HANGS", flush=True)
    await asyncio.sleep(100)
asyncio.run(build(hang).run("write"))
"""
    environment = os.environ | {"PYTHONPATH": str(Path.cwd())}
    running = subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    lines = []
    for line in running.stdout:
        lines.append(line)
        if "HANGS" in line:
            break
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    running.stdout.close()

    assert '"name": "invoke_agent writer"' in "".join(lines)


def test_program_without_the_framework_does_not_load_it() -> None:
    """instrument() imports no framework that the program has not imported."""
    code = textwrap.dedent("""
        import json, sys, blamespan
        from opentelemetry.sdk.trace import TracerProvider
        done = blamespan.instrument(tracer_provider=TracerProvider())
        print(json.dumps(["agent_framework" in done, "agent_framework" in sys.modules]))
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=True)

    assert json.loads(done.stdout) == [True, False]


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
