"""What an AutoGen program says leaves the process only as it was allowed to."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from autogen_agentchat.base import TaskResult
from autogen_agentchat.conditions import TextMentionTermination
from autogen_agentchat.teams import RoundRobinGroupChat, SelectorGroupChat, Swarm
from opentelemetry.instrumentation.utils import suppress_instrumentation

from blamespan.testing import SpanRecorder
from blamespan_integrations.autogen import AutoGenInstrumentor
from tests.integrations.autogen_runs import Raises, assistant, calls

CANARY = "canary-7f3a"


def look(page: str) -> str:
    """Find canary-7f3a."""
    raise LookupError(f"no {page} canary-7f3a")


def read(page: str) -> dict[str, str]:
    """Read canary-7f3a."""
    return {"canary-7f3a": page}


class Broken(Raises):
    async def on_messages(self, messages: Sequence[Any], cancellation_token: Any) -> Any:
        raise LookupError("canary-7f3a")


def team(kind: str) -> Any:
    tools = calls(("look", {"page": CANARY}), ("read", {"page": CANARY}), thought=CANARY)
    options = {"description": CANARY, "system_message": CANARY}
    writer = assistant("writer", tools, CANARY, tools=[look, read], handoffs=["critic"], **options)
    critic = assistant("critic", CANARY, CANARY, **options)
    if kind == "round robin":
        return RoundRobinGroupChat([writer, critic], termination_condition=TextMentionTermination(CANARY, ["critic"]))
    if kind == "swarm":
        handing = assistant("writer", calls(("transfer_to_critic", {})), handoffs=["critic"], **options)
        return Swarm([handing, critic], max_turns=2)
    if kind == "selector":
        chooser = assistant("chooser", "writer", CANARY, "critic")._model_client
        return SelectorGroupChat([writer, critic], chooser, max_turns=2, selector_prompt=f"{CANARY} {{participants}}")
    return RoundRobinGroupChat([Broken("writer"), critic], max_turns=2)


async def result(team: Any) -> TaskResult | None:
    try:
        found: TaskResult = await team.run(task=f"task {CANARY}")
    except Exception:
        return None
    return found


def exported(kind: str, **content: Any) -> list[str]:
    recorder = SpanRecorder()
    AutoGenInstrumentor().instrument(tracer_provider=recorder.provider, **content)
    try:
        asyncio.run(result(team(kind)))
    finally:
        AutoGenInstrumentor().uninstrument()
    return [span.to_json() for span in recorder.finished()]


@pytest.mark.parametrize("kind", ["round robin", "swarm", "selector", "raises"])
def test_no_content_leaves_an_autogen_program(kind: str) -> None:
    """A word in the task, messages, thoughts, arguments, results, errors, descriptions and prompts is in no span."""
    spans = exported(kind, capture_content=False)

    assert len(spans) > 1
    assert [text for text in spans if CANARY in text] == []


@pytest.mark.parametrize("kind", ["round robin", "swarm", "selector", "raises"])
def test_own_mask_sees_all_an_autogen_program_says(kind: str) -> None:
    """What the program's own function takes out is in no span either, and without it the word is."""
    masked = exported(kind, mask=lambda text: text.replace(CANARY, "*"))

    assert [text for text in masked if CANARY in text] == []
    assert any(CANARY in text for text in exported(kind))


def test_suppressed_team_is_not_recorded() -> None:
    """Within `suppress_instrumentation()` a team works and leaves no span."""
    recorder = SpanRecorder()
    AutoGenInstrumentor().instrument(tracer_provider=recorder.provider)
    try:
        with suppress_instrumentation():
            done = asyncio.run(result(team("round robin")))
    finally:
        AutoGenInstrumentor().uninstrument()

    assert done is not None
    assert recorder.spans() == []
