"""What a program can see of its own teams is the same with and without us."""

from __future__ import annotations

import asyncio
import copy
import pickle
import re
import threading
from collections.abc import Callable
from typing import Any

import pytest
from autogen_agentchat.base import TaskResult
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from opentelemetry import context as otel_context

from tests.integrations.autogen_runs import Raises, assistant, calls
from tests.integrations.ends import frames_of_the_program, noises
from tests.integrations.ends import recorded as recorded_quietly

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"datetime\.datetime\([^)]*\)+|0x[0-9a-f]+|'created_at': '[^']*'")


def plain(value: Any) -> str:
    """Make what is drawn by lot, and the time, the same."""
    return _TIME.sub("TIME", _ID.sub("ID", repr(value)))


def add(one: int, other: int) -> int:
    """Add two numbers."""
    return one + other


def team() -> RoundRobinGroupChat:
    writer = assistant("writer", calls(("add", {"one": 1, "other": 2})), "It is 3.", "fine", tools=[add])
    ending = MaxMessageTermination(4)
    return RoundRobinGroupChat([writer, assistant("critic", "well done")], termination_condition=ending)


async def components() -> Any:
    made = team()
    before = made.dump_component().model_dump()
    await made.run(task="go")
    return before, made.dump_component().model_dump(), [one.dump_component() for one in made._participants]


async def states() -> Any:
    made, again = team(), team()
    await made.run(task="go")
    state = await made.save_state()
    await again.load_state(state)
    return state, await again.save_state(), await made._participants[0].save_state()  # type: ignore[union-attr]


async def streams() -> Any:
    items = [item async for item in team().run_stream(task="go")]
    return [item.model_dump() for item in items]


async def errors() -> Any:
    caught = []
    for failing in (Raises("bad"), RoundRobinGroupChat([Raises("bad")], max_turns=1)):
        try:
            await failing.run(task="go")
        except Exception as error:
            frames = frames_of_the_program(error)
            said = str(error).partition("Traceback")[0]  # AutoGen writes the stack there, in which our wrappers are
            caught.append(
                (type(error), said, error.__cause__, error.__context__, getattr(error, "__notes__", []), frames)
            )
    return caught


async def logs_and_warnings() -> Any:
    with noises() as texts:
        await team().run(task="go")
    return texts


async def copies() -> Any:
    result = await team().run(task="go")
    again = pickle.loads(pickle.dumps(result))
    made = team()
    unpicklable = []
    for one in (made, made._participants[0], add):
        try:
            pickle.dumps(one)
        except Exception as error:
            unpicklable.append(type(error))
    return isinstance(again, TaskResult), again, copy.deepcopy(result), sorted(vars(made)), unpicklable


async def surroundings() -> Any:
    before, tasks = otel_context.get_current(), len(asyncio.all_tasks())
    await team().run(task="go")
    return otel_context.get_current() == before, len(asyncio.all_tasks()) - tasks, threading.active_count()


VIEWS: dict[str, Callable[[], Any]] = {
    view.__name__: view for view in (components, states, streams, errors, logs_and_warnings, copies, surroundings)
}


@pytest.mark.parametrize("view", VIEWS)
def test_program_sees_the_same(view: str) -> None:
    """Components, states, streams, exceptions, logs, warnings, pickles, tasks and threads are the same."""
    bare = plain(asyncio.run(VIEWS[view]()))
    with recorded_quietly("autogen"):
        watched = plain(asyncio.run(VIEWS[view]()))

    assert watched == bare
