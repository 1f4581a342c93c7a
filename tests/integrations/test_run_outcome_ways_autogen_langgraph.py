"""`blamespan.record_outcome()` finds the run however a program runs it, and says where it cannot."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest
from autogen_agentchat.base import TaskResult
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

import blamespan
from blamespan.errors import ConfigError
from blamespan.host_safety import shield_host
from blamespan.outcomes import record_outcome as run_outcome
from blamespan.testing import SpanRecorder
from tests.integrations.autogen_runs import assistant
from tests.integrations.hosts import recording
from tests.integrations.langgraph_programs import chain, says

Run = Callable[[str], Awaitable[Any]]


@pytest.fixture
def recorder() -> Iterator[SpanRecorder]:
    """Keeps the spans of the test, both frameworks being instrumented and no earlier run being known."""
    run_outcome._runs.forget()
    run_outcome._runs._latest.set(None)
    with recording("autogen", "langgraph") as spans:
        yield spans


async def run_team(task: str) -> Any:
    """Run an AutoGen team of one."""
    member = assistant("solver", f"answer to {task}")
    team = RoundRobinGroupChat([member], termination_condition=MaxMessageTermination(2), name="desk")
    return await team.run(task=task)


async def run_graph(task: str) -> Any:
    """Run a LangGraph graph of one node."""
    return await speaking().ainvoke({"messages": [("user", task)]})


def call_graph(task: str) -> Any:
    """Run a LangGraph graph of one node, without asyncio."""
    return speaking().invoke({"messages": [("user", task)]})


def speaking() -> Any:
    """Make a graph of one node that answers."""
    graph = StateGraph(MessagesState)
    graph.add_node("solver", lambda state: {"messages": [AIMessage(f"answer to {state['messages'][-1].content}")]})
    graph.add_edge(START, "solver")
    return graph.compile(name="desk")


def outcomes(recorder: SpanRecorder) -> dict[str, str]:
    """List how each run ended, by what was asked."""
    spans = recorder.spans()
    runs = [blamespan.rebuild([one for one in spans if one.trace_id == each]) for each in {s.trace_id for s in spans}]
    return {run.task: run.outcome for run in runs}


def by_asyncio_run(run: Run) -> bool:
    asyncio.run(run("q"))  # type: ignore[arg-type]  # a coroutine
    return blamespan.record_outcome("failed")


def by_runner(run: Run) -> bool:
    with asyncio.Runner() as runner:
        runner.run(run("before"))  # type: ignore[arg-type]
        runner.run(run("q"))  # type: ignore[arg-type]
        return blamespan.record_outcome("failed")


def by_run_until_complete(run: Run) -> bool:
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(run("q"))
        return blamespan.record_outcome("failed")
    finally:
        loop.close()


def by_anyio(run: Run) -> bool:
    anyio.run(run, "q")
    return blamespan.record_outcome("failed")


def by_portal(run: Run) -> bool:
    with anyio.from_thread.start_blocking_portal() as portal:
        portal.call(run, "q")
        return blamespan.record_outcome("failed")


def by_loop_in_a_thread(run: Run) -> bool:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(run("q"), loop).result()  # type: ignore[arg-type]
        return blamespan.record_outcome("failed")
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def by_pool(run: Run) -> bool:
    with ThreadPoolExecutor() as pool:
        pool.submit(asyncio.run, run("before")).result()  # type: ignore[arg-type]
        pool.submit(asyncio.run, run("q")).result()  # type: ignore[arg-type]
        return blamespan.record_outcome("failed")


def by_thread(run: Run) -> bool:
    thread = threading.Thread(target=lambda: asyncio.run(run("q")))  # type: ignore[arg-type]
    thread.start()
    thread.join()
    return blamespan.record_outcome("failed")


def within(after: Callable[[Run], Awaitable[object]]) -> Callable[[Run], bool]:
    """Make a way that runs within one coroutine, and asks there."""

    async def main(run: Run) -> bool:
        await run("before")
        assert blamespan.record_outcome("succeeded")
        await after(run)
        return blamespan.record_outcome("failed")

    return lambda run: asyncio.run(main(run))


async def awaited(run: Run) -> None:
    await run("q")


async def waited_for(run: Run) -> None:
    await asyncio.wait_for(run("q"), 30)


async def timed_out_late(run: Run) -> None:
    async with asyncio.timeout(30):
        await run("q")


async def gathered_alone(run: Run) -> None:
    await asyncio.gather(run("q"))


async def gathered_with_others(run: Run) -> None:
    await asyncio.gather(run("q"), asyncio.sleep(0))


async def in_a_task(run: Run) -> None:
    await asyncio.create_task(run("q"))  # type: ignore[arg-type]


async def in_a_task_of_a_task(run: Run) -> None:
    await asyncio.create_task(in_a_task(run))


async def in_a_task_group(run: Run) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(run("q"))  # type: ignore[arg-type]


async def in_anyios_task_group(run: Run) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(run, "q")


async def shielded(run: Run) -> None:
    await asyncio.shield(run("q"))


async def waited(run: Run) -> None:
    await asyncio.wait([asyncio.create_task(run("q"))])  # type: ignore[arg-type]


async def as_completed(run: Run) -> None:
    for each in asyncio.as_completed([run("q")]):
        await each


def run_awaited(run: Run) -> None:
    """Run in a thread of its own once somebody awaits it: a scripted run can end before its caller does."""
    time.sleep(0.05)
    asyncio.run(run("q"))  # type: ignore[arg-type]


async def in_a_thread(run: Run) -> None:
    await asyncio.to_thread(run_awaited, run)


async def in_anyios_thread(run: Run) -> None:
    await anyio.to_thread.run_sync(run_awaited, run)


async def in_an_executor(run: Run) -> None:
    await asyncio.get_running_loop().run_in_executor(None, run_awaited, run)


WAYS: dict[str, Callable[[Run], bool]] = {
    **{way.__name__: way for way in (by_asyncio_run, by_runner, by_run_until_complete, by_anyio, by_portal)},
    **{way.__name__: way for way in (by_loop_in_a_thread, by_pool, by_thread)},
    **{
        way.__name__: within(way)
        for way in (
            *(awaited, waited_for, timed_out_late, gathered_alone, gathered_with_others, in_a_task),
            *(in_a_task_of_a_task, in_a_task_group, in_anyios_task_group, shielded, waited, as_completed),
            *(in_a_thread, in_anyios_thread, in_an_executor),
        )
    },
}


@pytest.mark.parametrize("run", [run_team, run_graph])
@pytest.mark.parametrize("way", WAYS)
def test_outcome_finds_the_run_however_it_is_run(way: str, run: Run, recorder: SpanRecorder) -> None:
    """Whoever ran it, or waited for it, need not name the run that ended last."""
    recorded = WAYS[way](run)

    others = {} if "before" not in (ends := outcomes(recorder)) else {"before": ends["before"]}
    assert (recorded, outcomes(recorder)) == (True, {"q": "failed", **others})
    assert others.get("before") != "failed"


@pytest.mark.parametrize("way", ["to_thread", "pool", "thread"])
def test_outcome_finds_a_graph_run_without_asyncio(way: str, recorder: SpanRecorder) -> None:
    """A run in another thread is that of who waits for it."""

    async def to_thread() -> bool:
        await asyncio.to_thread(call_graph, "q")
        return blamespan.record_outcome("failed")

    if way == "to_thread":
        recorded = asyncio.run(to_thread())
    elif way == "pool":
        with ThreadPoolExecutor() as pool:
            pool.submit(call_graph, "q").result()
            recorded = blamespan.record_outcome("failed")
    else:
        thread = threading.Thread(target=call_graph, args=["q"])
        thread.start()
        thread.join()
        recorded = blamespan.record_outcome("failed")

    assert (recorded, outcomes(recorder)) == (True, {"q": "failed"})


@pytest.mark.parametrize("run", [run_team, run_graph])
def test_runs_side_by_side_must_be_named(run: Run, recorder: SpanRecorder, caplog: pytest.LogCaptureFixture) -> None:
    """Of runs that were gathered none is taken at random: the log lists them and says how to choose."""

    async def both() -> list[Any]:
        return list(await asyncio.gather(run("a"), run("b")))

    first, second = asyncio.run(both())
    assert not blamespan.record_outcome("failed")
    trace_ids = {span.trace_id for span in recorder.spans()}
    assert all(f"desk (solver), trace {each}" in caplog.text for each in trace_ids)
    assert "result=" in caplog.text

    assert blamespan.record_outcome("failed", result=second)
    assert blamespan.record_outcome("succeeded", result=first)
    assert outcomes(recorder) == {"a": "succeeded", "b": "failed"}


@pytest.mark.parametrize("run", [run_team, run_graph])
def test_threads_each_mean_their_own_run(run: Run, recorder: SpanRecorder) -> None:
    """Runs of two threads at once are not confused."""
    barrier = threading.Barrier(2)

    def one(task: str, outcome: Any) -> None:
        asyncio.run(run(task))  # type: ignore[arg-type]
        barrier.wait(20)
        assert blamespan.record_outcome(outcome)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, ["a", "b"], ["failed", "succeeded"]))

    assert outcomes(recorder) == {"a": "failed", "b": "succeeded"}


@pytest.mark.parametrize("run", [run_team, run_graph])
def test_requests_of_a_server_are_not_confused(run: Run, recorder: SpanRecorder) -> None:
    """A request whose run came in a task of its own means that run, and one without a run means none."""
    done = asyncio.Event()

    async def request(task: str, outcome: Any) -> bool:
        if task:
            await asyncio.create_task(run(task))  # type: ignore[arg-type]
            if task == "a":
                await done.wait()  # others come and go meanwhile
            else:
                done.set()
        return blamespan.record_outcome(outcome)

    async def serve() -> list[bool]:
        requests = [asyncio.create_task(request(*each)) for each in (("a", "failed"), ("b", "succeeded"))]
        recorded = list(await asyncio.gather(*requests))
        return [*recorded, await asyncio.create_task(request("", "failed"))]

    assert asyncio.run(serve()) == [True, True, False]
    assert outcomes(recorder) == {"a": "failed", "b": "succeeded"}


def test_result_is_recognized_in_any_form(recorder: SpanRecorder) -> None:
    """A TaskResult, a copy, a message, JSON of it, a graph's output, state and config each name a run."""

    async def teams() -> list[TaskResult]:
        return list(await asyncio.gather(*[run_team(task) for task in "abcde"]))

    results = asyncio.run(teams())
    forms = [
        results[0],
        results[1].model_copy(deep=True),
        results[2].messages[-1],
        json.loads(results[3].model_dump_json()),
        TaskResult(messages=list(results[4].messages)),
    ]
    assert [blamespan.record_outcome("failed", result=form) for form in forms] == [True] * 5

    graph = StateGraph(MessagesState)
    graph.add_node("solver", lambda state: {"messages": [AIMessage("yes")]})
    graph.add_edge(START, "solver")
    compiled: Any = graph.compile(name="desk", checkpointer=InMemorySaver())
    configs: Any = [{"configurable": {"thread_id": each}} for each in "fghi"]
    outputs = compiled.batch([{"messages": [("user", each)]} for each in "fghi"], configs)
    forms = [outputs[0], compiled.get_state(configs[1]), configs[2], compiled.get_state(configs[3]).values]
    assert [blamespan.record_outcome("failed", result=form) for form in forms] == [True] * 4
    assert outcomes(recorder) == dict.fromkeys("abcdefghi", "failed")


def test_equal_results_are_told_apart_by_identity_or_not_at_all(
    recorder: SpanRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    """Plain states that say the same are of the run whose they are; a copy of them names none of several."""
    graph: Any = chain(("solver", says("35")))

    async def both() -> list[Any]:
        return list(await asyncio.gather(graph.ainvoke({"words": []}), graph.ainvoke({"words": []})))

    first, _ = asyncio.run(both())

    assert not blamespan.record_outcome("failed", result=json.loads(json.dumps(first)))
    assert "that 2 runs returned: nothing is recorded" in caplog.text
    for _ in range(2):
        latest = graph.invoke({"words": []})
        assert blamespan.record_outcome("failed", result=latest)  # the run that was just awaited, of all that fit
    assert len([span for span in recorder.spans() if span.name == "run_outcome"]) == 2


@pytest.mark.parametrize("stranger", [{"no": "run's"}, object(), "text", 7, [], {"configurable": {"thread_id": "?"}}])
def test_strange_result_names_no_run(
    stranger: object, recorder: SpanRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    """What no run returned is refused with the runs that there are, rather than taken for the last one."""
    asyncio.run(run_team("q"))  # type: ignore[arg-type]

    assert not blamespan.record_outcome("failed", result=stranger)
    assert "that no run returned: nothing is recorded" in caplog.text
    assert "Runs: desk (solver), trace " in caplog.text
    assert outcomes(recorder) == {"q": "unknown"}


def test_results_are_not_kept_alive(recorder: SpanRecorder) -> None:
    """A program's results are the program's: knowing them by sight keeps none of them."""
    result = asyncio.run(run_team("q"))  # type: ignore[arg-type]
    kept = weakref.ref(result)
    del result
    gc.collect()

    assert kept() is None
    assert outcomes(recorder) == {"q": "unknown"}


def test_run_ended_long_ago_is_forgotten_without_growth(recorder: SpanRecorder) -> None:
    """Of more runs than are remembered the first are gone; the rest can still be named."""
    for number in range(run_outcome.MOST_RUNS + 5):
        run_outcome._runs.begin(_Taker(), f"{number + 1:032x}", name="", conversation_id=None, begins_trace=True)

    assert len(run_outcome._runs.latest(10_000)) == run_outcome.MOST_RUNS
    assert not blamespan.record_outcome("failed", trace_id=f"{1:032x}")
    assert blamespan.record_outcome("failed", trace_id=f"{9:032x}")


class _Taker:
    def take(self, outcome: str, reason: str) -> None:
        """Take it."""


def test_result_and_trace_id_together_are_refused() -> None:
    """One of them names the run."""
    with pytest.raises(ConfigError, match="expected result= or trace_id=, got both"):
        blamespan.record_outcome("failed", result={}, trace_id="1" * 32)


def test_odd_results_never_break_the_program(recorder: SpanRecorder) -> None:
    """Cycles and objects that raise when looked at are no reason to raise into the program."""
    odd: dict[str, Any] = {}
    odd["itself"] = odd

    class Raises:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(name)

    shield_host.strict = False
    assert not blamespan.record_outcome("failed", result=odd)
    assert not blamespan.record_outcome("failed", result=Raises())
    assert outcomes(recorder) == {}
