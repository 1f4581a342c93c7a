"""Going on with a LangGraph run from its own checkpoint, where the graph's checkpointer still has it.

The checkpoint is copied into a checkpointer of ours before anything is changed: the user's thread stays as it is.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from blamespan import conventions as words
from blamespan_lab.rerun.playback import Correction, Playback, PromptWatcher
from blamespan_lab.rerun.script import Script
from blamespan_lab.rerun.user_program import Ran, UserProgram, answer_of, is_graph

_THREAD = "blamespan"


def go_on_from_checkpoint(
    program: UserProgram,
    script: Script,
    correction: Correction,
    models: PromptWatcher,
    most_asked: float,
    later: Sequence[Correction] = (),
) -> tuple[Ran, tuple[tuple[str, str], ...], int, str] | None:
    """Put a node's message right at its checkpoint, and let the graph go on from there.

    Args:
        program: Makes the graph.
        script: The recording.
        correction: Of the message.
        models: Hears what models are told.
        most_asked: Most times that models may be asked.
        later: Of further steps, which are put right when they come.

    Returns:
        How it ended, what was said from the step on, how often models were asked, and what keeps it from saying
        anything; None where there is no such checkpoint: the step is no node's own message, several nodes ran beside
        it, or the checkpointer does not know the thread or must be awaited.
    """
    step = script.trace.steps[correction.step]
    thread = step.attributes.get(words.CONVERSATION_ID)
    if not isinstance(thread, str) or step.kind == "tool_call" or inspect.iscoroutinefunction(program.factory):
        return None
    graph = program.make()
    if not is_graph(graph) or not getattr(graph, "checkpointer", None):
        program.give_back(graph)
        return None
    repeated = [other for other in script.trace.steps[correction.step + 1 :] if _is_like(other, step)]
    fork = _fork(graph, thread, step.agent, step.content, correction.text, len(repeated))
    if fork is None:
        program.give_back(graph)
        return None
    forked, config = fork
    with Playback(
        script, models, correction.step, correction.text, later=later, most_asked=most_asked, starts_live=True
    ) as playback:
        try:
            answer, error = answer_of(asyncio.run(forked.ainvoke(None, config))), ""
        except (Exception, SystemExit) as failure:  # whatever a graph raises
            answer, error = "", f"{type(failure).__name__}: {failure}"
    said = ((step.agent, correction.text), *playback.said)
    if error:
        return Ran("", None if program.check is None else False, error), said, playback.asked, playback.trouble
    return program.judged(answer, script.trace.task), said, playback.asked, playback.trouble


def _is_like(other: Any, step: Any) -> bool:
    return bool(other.agent == step.agent and other.content == step.content and other.kind == step.kind)


def _fork(
    graph: Any, thread: str, node: str, content: str, text: str, skipped: int
) -> tuple[Any, dict[str, Any]] | None:
    """Copy the checkpoint before the node said *content*, and write *text* there in its place.

    Args:
        graph: The user's.
        thread: Which of its checkpointer's threads.
        node: Who said it.
        content: What it said.
        text: What it says instead.
        skipped: How many times it said the same again later in the run.
    """
    from langgraph.checkpoint.memory import InMemorySaver  # a graph is here, so it is installed

    config = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    try:
        history = list(graph.get_state_history(config))  # the latest first
    except Exception:  # a checkpointer that must be awaited, or is gone: the run is run again from its start
        return None
    for snapshot in history:
        if len(snapshot.tasks) != 1 or snapshot.tasks[0].name != node:
            continue
        changed, count = _replace(snapshot.tasks[0].result, content, text)
        if count != 1:
            continue
        if skipped:
            skipped -= 1
            continue
        own = InMemorySaver()
        saved = graph.checkpointer.get_tuple(snapshot.config)
        forked = graph.copy(update={"checkpointer": own})
        at: Any = {"configurable": {"thread_id": _THREAD, "checkpoint_ns": ""}}
        at = own.put(at, saved.checkpoint, saved.metadata, saved.checkpoint["channel_versions"])
        forked.update_state(at, changed, as_node=node)
        return forked, {"configurable": {"thread_id": _THREAD}}
    return None


def _replace(value: Any, content: str, text: str) -> tuple[Any, int]:
    """Replace the text *content* in what a node gave; returns how often it stood there, too."""
    if isinstance(value, str):
        return (text, 1) if value == content else (value, 0)
    if isinstance(value, Mapping):
        items = {key: _replace(item, content, text) for key, item in value.items()}
        return {key: item for key, (item, _) in items.items()}, sum(count for _, count in items.values())
    if isinstance(value, list | tuple):
        parts = [_replace(item, content, text) for item in value]
        return type(value)(item for item, _ in parts), sum(count for _, count in parts)
    if getattr(value, "content", None) == content and hasattr(value, "model_copy"):
        return value.model_copy(update={"content": text}), 1
    return value, 0
