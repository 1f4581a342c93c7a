"""What a program can see of its own graphs is the same with and without us."""

from __future__ import annotations

import asyncio
import copy
import inspect
import logging
import random
import re
import sqlite3
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langchain_core.tracers.context import collect_runs
from langgraph.checkpoint.base import id as checkpoint_id
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.pregel import _checkpoint, _loop, _retry
from langgraph.types import Command, interrupt
from opentelemetry import context as otel_context
from opentelemetry.trace import SpanContext

from blamespan.testing import SpanRecorder
from blamespan_integrations.langgraph import LangGraphInstrumentor
from blamespan_integrations.langgraph._loop import CheckpointOrigin, find_origin, remember_origin
from tests.integrations.ends import frames_of_the_program, noises
from tests.integrations.ends import recorded as recorded_quietly
from tests.integrations.hosts import recording
from tests.integrations.langgraph_programs import Words, asks_for, calculator, chain, named, says

MODES: Any = ["values", "updates", "tasks", "checkpoints", "debug", "messages", "custom"]
THREAD: Any = {"configurable": {"thread_id": "t"}, "metadata": {"mine": "x"}, "tags": ["mine"]}
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}|run--\S+")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(?:\+00:00)?|0x[0-9a-f]+")


def plain(value: Any) -> Any:
    """Make what is drawn by lot, and the time, the same; handlers are counted by none."""
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items() if key != "callbacks"}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    shown = _TIME.sub("TIME", _ID.sub("ID", repr(value)))
    return shown.replace(" id='ID',", "")  # LangGraph gives a message its id before or after it is saved, by chance


def team(**options: Any) -> Any:
    return calculator(asks_for("add", a=1, b=2), "It is 3.", checkpointer=InMemorySaver(), **options)


ASK: Any = {"messages": [("user", "1 + 2?")]}


def streams() -> Any:
    def write(_: Words) -> dict[str, list[str]]:
        get_stream_writer()({"progress": 1})
        return {"words": ["1"]}

    graph = chain(("one", write), ("two", says("2")), checkpointer=InMemorySaver())
    return list(graph.stream({"words": []}, THREAD, stream_mode=MODES)), list(
        team().stream(ASK, THREAD, stream_mode=MODES)
    )


def async_streams() -> Any:
    async def go() -> Any:
        return [chunk async for chunk in team().astream(ASK, THREAD, stream_mode=MODES, subgraphs=True)]

    return asyncio.run(go())


def events() -> Any:
    async def go() -> Any:
        return [event async for event in team().astream_events(ASK, THREAD, version="v2")]

    return asyncio.run(go())


def states() -> Any:
    graph = team()
    graph.invoke(ASK, THREAD)
    graph.update_state(THREAD, {"messages": [("user", "and 2?")]})
    return [graph.get_state(THREAD), *graph.get_state_history(THREAD), graph.checkpointer.storage.keys()]


def resumed() -> Any:
    graph = chain(("ask", lambda _: {"words": [interrupt("well?")]}), checkpointer=InMemorySaver())
    asked = graph.invoke({"words": []}, THREAD)
    return asked, graph.get_state(THREAD), graph.invoke(Command(resume="yes"), THREAD), graph.get_state(THREAD)


def configs() -> Any:
    seen: list[Any] = []

    def look(_: Words, config: RunnableConfig) -> dict[str, list[str]]:
        seen.append({key: value for key, value in config.items() if key != "callbacks"})
        seen.append([sorted(config["configurable"]), len(inspect.stack(0)), threading.active_count()])
        return {"words": ["1"]}

    chain(("one", look)).invoke({"words": []}, THREAD)
    seen[0]["configurable"] = None
    return seen


def tracers() -> Any:
    """What LangChain's own tracers, LangSmith's among them, are given."""
    with collect_runs() as runs:
        team().invoke(ASK, THREAD)
    return [_tree(run) for run in runs.traced_runs]


def _tree(run: Any) -> Any:
    return (
        run.name,
        run.run_type,
        run.inputs,
        run.outputs,
        run.tags,
        run.extra,
        run.error,
        list(map(_tree, run.child_runs)),
    )


def errors() -> Any:
    def bad(_: Words) -> None:
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ValueError("second") from error

    try:
        chain(("bad", bad)).invoke({"words": []})
    except ValueError as error:
        return error, error.__cause__, error.__context__, getattr(error, "__notes__", []), frames_of_the_program(error)


def logs_and_warnings() -> Any:
    with noises(logging.DEBUG) as (warned, records):
        team().invoke(ASK, THREAD)
        asyncio.run(team().ainvoke(ASK, THREAD))
    return warned, [record for record in records if not record.startswith("asyncio")]


def surroundings() -> Any:
    before = otel_context.get_current()
    team().invoke(ASK, THREAD)
    return otel_context.get_current() == before, threading.active_count(), sys.getrecursionlimit(), sys.gettrace()


def copies() -> Any:
    graph = team()
    again = copy.deepcopy(graph)
    return (
        type(again),
        sorted(vars(again)),
        sorted(vars(graph)),
        graph.get_graph().to_json(),
        graph.get_input_jsonschema(),
    )


def signatures() -> Any:
    classes = (_loop.PregelLoop, _loop.SyncPregelLoop, _loop.AsyncPregelLoop)
    functions = [(f"{owner.__name__}.{name}", value) for owner in classes for name, value in vars(owner).items()]
    functions += [(name, value) for name, value in vars(_retry).items()]
    return [
        (
            name,
            value.__name__,
            value.__qualname__,
            value.__module__,
            value.__doc__,
            str(inspect.signature(value)),
        )
        for name, value in functions
        if inspect.isfunction(value)
    ]


VIEWS: dict[str, Callable[[], Any]] = {
    view.__name__: view
    for view in (
        *(
            streams,
            async_streams,
            events,
            states,
            resumed,
            configs,
            tracers,
            errors,
            logs_and_warnings,
            surroundings,
            copies,
        ),
        signatures,
    )
}


@pytest.mark.parametrize("view", VIEWS)
def test_program_sees_the_same(view: str) -> None:
    """Streams, events, states, configs, tracers, errors, logs, threads, copies and signatures are the same."""
    bare = plain(VIEWS[view]())
    with recorded_quietly("langgraph"):
        watched = plain(VIEWS[view]())

    assert watched == bare


class _Clock:
    """Stands for the modules `time` and `datetime` where checkpoints are made: every moment is the same."""

    UTC = UTC
    timezone = timezone

    @staticmethod
    def time_ns() -> int:
        return 0

    @staticmethod
    def now(_: object = None) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)


def _saved(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Run a program on an SQLite file and read all of it, chance and time being the same at every call."""
    from langgraph.checkpoint import sqlite as checkpoint_sqlite

    monkeypatch.setattr(checkpoint_id, "time", _Clock)
    monkeypatch.setattr(checkpoint_id, "_last_v6_timestamp", None)
    draws = random.Random(7)  # a thread of an earlier test may draw from `random` meanwhile
    monkeypatch.setattr(checkpoint_id, "random", draws)
    monkeypatch.setattr(checkpoint_sqlite, "random", draws)
    monkeypatch.setattr(_checkpoint, "datetime", _Clock)
    with checkpoint_sqlite.SqliteSaver.from_conn_string(str(path)) as saver:
        nodes: Any = [("one", says("1")), ("ask", lambda _: {"words": [interrupt("well?")]}), ("two", says("2"))]
        graph = chain(*nodes, checkpointer=saver)
        graph.invoke({"words": []}, THREAD)
        graph.update_state(THREAD, {"words": ["edited"]})
        graph.invoke(Command(resume="yes"), THREAD)
    with sqlite3.connect(path) as database:
        tables = ("checkpoints", "writes")
        return [sorted(database.execute(f"select * from {table}").fetchall(), key=repr) for table in tables]


def test_checkpoints_are_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is saved of a run, its edits and its resume is byte for byte the same, metadata included."""
    bare = _saved(tmp_path / "bare", monkeypatch)
    with recording("langgraph"):
        watched = _saved(tmp_path / "watched", monkeypatch)

    assert watched == bare


def test_links_in_checkpoints_are_there_where_asked_for(tmp_path: Path) -> None:
    """`link_checkpoints` adds keys of ours to a checkpoint's metadata; without it a resumed run links all the same."""
    graph = chain(("ask", lambda _: {"words": [interrupt("well?")]}), checkpointer=InMemorySaver())
    keys, linked = [], []
    for asked, thread in ((None, "a"), (True, "b")):
        recorder = SpanRecorder()
        LangGraphInstrumentor().instrument(tracer_provider=recorder.provider, link_checkpoints=asked)
        config: Any = {"configurable": {"thread_id": thread}}
        graph.invoke({"words": []}, config)
        LangGraphInstrumentor().uninstrument()  # recording may be off in between
        LangGraphInstrumentor().instrument(tracer_provider=recorder.provider, link_checkpoints=asked)
        graph.invoke(Command(resume="yes"), config)
        LangGraphInstrumentor().uninstrument()
        keys.append(any(key.startswith("blamespan") for key in graph.get_state(config).metadata))
        first, resumed = named(recorder, "invoke_workflow chain")
        linked.append([link.span_id for link in resumed.links] == [first.span_id])

    assert (keys, linked) == ([False, True], [True, True])


def test_links_of_the_latest_checkpoints_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of who wrote which checkpoint is bounded: the oldest is forgotten first."""
    monkeypatch.setattr("blamespan_integrations.langgraph._loop._MAX_CHECKPOINTS", 3)
    origin = CheckpointOrigin(SpanContext(1, 1, is_remote=False), {})
    for number in range(5):
        remember_origin({"configurable": {"thread_id": "t"}}, str(number), origin)

    found = [find_origin({"configurable": {"thread_id": "t"}}, str(number), {}) for number in range(5)]
    assert found == [None, None, origin, origin, origin]
