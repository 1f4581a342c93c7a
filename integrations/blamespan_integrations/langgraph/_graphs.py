"""From LangChain's callbacks to the spans of graph runs: which run is what, and who belongs to whom."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any
from weakref import WeakSet

from langchain_core.outputs import LLMResult
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command
from opentelemetry.context import Context

from blamespan import conventions as words
from blamespan.trace import Agent
from blamespan_integrations.langgraph import _words as own_words
from blamespan_integrations.langgraph._calls import CallRecorder
from blamespan_integrations.langgraph._convert import answer_of, packets_of, read_input, task_of
from blamespan_integrations.langgraph._frames import (
    ChainFrame,
    ChatFrame,
    Definition,
    Frame,
    GraphFrame,
    NodeFrame,
    OutermostRun,
    StartedRunnable,
    ToolFrame,
    find_actor,
)
from blamespan_integrations.langgraph._names import DEFAULT_GRAPH_NAME
from blamespan_integrations.langgraph._nodes import NodeRecorder
from blamespan_integrations.langgraph._order import subgraph_predecessors
from blamespan_integrations.recording import Recorder, RunSpan, around

MAX_RUNS = 4_096
"""Runs going on at once; beyond it the oldest is taken for abandoned. Each holds its run's messages."""
MAX_REMEMBERED = 256
"""Outermost runnables that may turn out to be graphs. Each holds its input; one that never ends stays."""
_MAX_TASK_CHARS = 4_096
"""Kept of what a run was asked, for the runs that go on from its checkpoints."""
_HIDDEN_TAG = "langsmith:hidden"
_START = "__start__"
_PUSH = "__pregel_push"


class GraphRecorder:
    """Records every run of a graph with *recorder*.

    What it keeps is keyed by LangChain's run ids and is dropped when a run ends, or when LangGraph's loop is gone
    without having ended; what never ends is bounded by `MAX_RUNS` and `MAX_REMEMBERED`. Safe to call from several
    threads.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._nodes = NodeRecorder(recorder)
        self._calls = CallRecorder(recorder, self._nodes)
        self._frames: dict[int, Frame] = {}
        self._runs: OrderedDict[int, OutermostRun] = OrderedDict()
        self._waiting: OrderedDict[int, StartedRunnable] = OrderedDict()
        self._vanished: deque[int] = deque()
        """Runs whose loop is gone: the garbage collector, which comes any time, notes them; the next run ends them."""
        self._lock = threading.Lock()
        """For the two that drop their oldest; never held while a span starts or ends."""
        _all.add(self)

    def context_of(self, run_id: int | None) -> Context | None:
        """Return the context under which children of a LangChain run belong; None outside graphs."""
        frame = self._frames.get(run_id) if run_id is not None else None
        return frame.context if frame is not None else None

    def run_of(self, run_id: int) -> OutermostRun | None:
        """Return the run whose outermost graph is the LangChain run *run_id*."""
        with self._lock:
            waiting = self._waiting.pop(run_id, None)
        frame = self._begin_run(waiting) if waiting is not None else self._frames.get(run_id)
        return frame.run if isinstance(frame, GraphFrame) and frame.run.id == run_id else None

    def vanish(self, run_id: int) -> None:
        """Note that nobody is left who could end the run of the LangChain run *run_id*. Safe within a finalizer."""
        if run_id in self._runs:
            self._vanished.append(run_id)

    def define(self, run_id: int, definition: Definition) -> None:
        """Note which graph LangChain's run *run_id* is."""
        self.run_of(run_id)
        frame = self._frames.get(run_id)
        if isinstance(frame, GraphFrame | ChainFrame):
            frame.definition = definition

    def run_around(self, run_id: int | None) -> OutermostRun | None:
        """Return the run that the LangChain run *run_id* is part of."""
        frame = self._frames.get(run_id) if run_id is not None else None
        return frame.run if frame is not None else None

    def time_out(self, run_id: int, error: TimeoutError) -> None:
        """End the nodes of a graph's run that were still at work when the time of their superstep was up."""
        graph = self._frames.get(run_id)
        if isinstance(graph, GraphFrame) and not graph.run.has_seen(error):
            opened = graph.run.open.items()
            self._fail_nodes(
                [key for key, frame in opened if isinstance(frame, NodeFrame) and frame.graph is graph], error
            )

    def fail_task(self, task_id: str, error: Exception) -> None:
        """End the node whose execution LangGraph calls *task_id*, which has failed by *error*."""
        nodes = [(key, frame) for key, frame in list(self._frames.items()) if isinstance(frame, NodeFrame)]
        self._fail_nodes([key for key, node in nodes if node.task_id == task_id], error)

    def _fail_nodes(self, run_ids: Iterable[int], error: Exception) -> None:
        for run_id in run_ids:
            node = self._close(run_id)
            if isinstance(node, NodeFrame):
                self._nodes.fail(node, error)

    def note_edges(self, run_id: int, tasks: Collection[tuple[str, Sequence[str], Sequence[str]]]) -> None:
        """Note which edges of a graph's run were taken; see `Graph.took`."""
        graph = self._frames.get(run_id)
        if isinstance(graph, GraphFrame):
            graph.note_edges(tasks)
            if not graph.is_inner:
                graph.run.errors.clear()  # what a step has caught by now rises no further

    def record_cached(
        self, run_id: int, name: str, inputs: Any, metadata: Mapping[str, Any], writes: Sequence[tuple[str, Any]]
    ) -> None:
        """Record a node, or a task, that need not run.

        Args:
            run_id: LangChain's id of its graph's run.
            name: Its name there.
            inputs: What it would have been given.
            metadata: LangGraph's `langgraph_*` metadata of the execution.
            writes: What the cache says it wrote, by channel.
        """
        frame = self._frames.get(run_id)
        graph = self._graph(run_id, frame)
        if graph is None:
            return
        superstep, path = int(metadata.get("langgraph_step") or 0), list(metadata.get("langgraph_path") or ())
        if len(path) > 2 and path[0] == _PUSH and path[-1] is True:
            caller = next(
                candidate
                for candidate in reversed(graph.run.open.values())
                if isinstance(candidate, NodeFrame) and candidate.graph is graph
            )
            graph = self._tasks(caller)
            superstep = max(graph.supersteps, default=0) + 1
        self._nodes.record_cached(graph, name, superstep, inputs, metadata, writes)

    def close(self) -> None:
        """End every span still open, as of runs that nobody waited for."""
        for run in list(self._runs.values()):
            self._end_run(run, is_complete=False)

    def forget(self) -> None:
        """Drop every run without ending it: in a forked process they are another's, and so is whoever holds a lock."""
        self._frames, self._runs, self._waiting = {}, OrderedDict(), OrderedDict()
        self._vanished.clear()
        self._lock = threading.Lock()

    # --- runnables -----------------------------------------------------------------------------------
    def begin(self, started: StartedRunnable) -> None:
        """Begin a runnable: a graph, a node, or anything between."""
        frame = self._frames.get(started.parent_id) if started.parent_id is not None else None
        superstep, is_edge = started.position_in_graph
        if superstep is not None:
            self._begin_node(started, superstep, frame)
        elif frame is None and started.is_graph:
            self._begin_run(started)
        elif frame is None:
            self._remember(self._waiting, started.id, started)
        elif self._is_task(started, frame):
            self._begin_task(started, frame)
        else:
            is_edge = is_edge and isinstance(frame, NodeFrame)
            self._open(started.id, ChainFrame(frame.run, frame, started.name, started.inputs, is_edge))

    def end(self, run_id: int, output: Any) -> None:
        """End a runnable that returned *output*."""
        frame = self._close(run_id)
        if isinstance(frame, NodeFrame):
            self._nodes.end(frame, output)
        elif isinstance(frame, ChainFrame) and frame.is_edge and isinstance(frame.frame, NodeFrame):
            frame.frame.sends += packets_of(output)
        elif isinstance(frame, GraphFrame):
            self._end_graph(run_id, frame, output)

    def fail(self, run_id: int, error: BaseException) -> None:
        """End a runnable that raised *error*."""
        frame = self._close(run_id)
        if isinstance(frame, NodeFrame):
            self._nodes.fail(frame, error)
        elif isinstance(frame, GraphFrame) and run_id == frame.run.id:
            is_steering = isinstance(error, GraphBubbleUp)
            frame.run.is_interrupted |= is_steering
            is_failure = isinstance(error, Exception) and not is_steering
            frame.has_failed = is_failure
            frame.run.around.note_steps(frame.tail())
            self._end_run(frame.run, is_complete=is_failure, error=error if is_failure else None)
        elif isinstance(frame, GraphFrame):
            frame.has_failed = isinstance(error, Exception) and not isinstance(error, GraphBubbleUp)
            if frame.own_span is not None:
                frame.own_span.end(error=error if frame.has_failed else None, is_complete=frame.has_failed)

    # --- tools and models ----------------------------------------------------------------------------
    def begin_tool(
        self,
        run_id: int,
        parent_id: int | None,
        serialized: Mapping[str, Any],
        arguments: Any,
        call_id: str | None,
    ) -> None:
        """Begin a tool; outside graphs it is none of ours."""
        frame = self._frames.get(parent_id) if parent_id is not None else None
        if frame is not None:
            self._open(run_id, self._calls.begin_tool(frame, serialized, arguments, call_id))

    def end_tool(self, run_id: int, output: Any) -> None:
        """End a tool that returned *output*."""
        tool = self._close(run_id)
        if isinstance(tool, ToolFrame):
            self._calls.end_tool(tool, output)

    def fail_tool(self, run_id: int, error: BaseException) -> None:
        """End a tool that raised *error*."""
        tool = self._close(run_id)
        if isinstance(tool, ToolFrame):
            self._calls.fail_tool(tool, error)

    def begin_chat(
        self,
        run_id: int,
        parent_id: int | None,
        serialized: Mapping[str, Any] | None,
        sent: Sequence[Any],
        metadata: Mapping[str, Any],
        asked: Mapping[str, Any],
    ) -> None:
        """Begin a model call; outside graphs it is none of ours."""
        frame = self._frames.get(parent_id) if parent_id is not None else None
        if frame is not None:
            self._open(run_id, self._calls.begin_chat(frame, serialized, sent, metadata, asked))

    def end_chat(self, run_id: int, result: LLMResult) -> None:
        """End a model call that was answered."""
        chat = self._close(run_id)
        if isinstance(chat, ChatFrame):
            self._calls.end_chat(chat, result)

    def fail_chat(self, run_id: int, error: BaseException) -> None:
        """End a model call that failed."""
        chat = self._close(run_id)
        if isinstance(chat, ChatFrame):
            self._calls.fail_chat(chat, error)

    # --- runs ----------------------------------------------------------------------------------------
    def _end_vanished(self) -> None:
        while self._vanished:
            with suppress(IndexError):  # another thread was faster
                run = self._runs.get(self._vanished.popleft())
                if run is not None:
                    self._end_run(run, is_complete=False)

    def _begin_run(self, started: StartedRunnable) -> GraphFrame:
        self._end_vanished()
        thread_id = started.metadata.get("thread_id")
        thread_id = str(thread_id) if thread_id is not None else None
        lost: list[str] = []
        task = task_of(started.inputs, lambda what: lost.append(f"{words.INPUT_MESSAGES}: {what}"))
        span = self._recorder.start_run(started.name, task=task, conversation_id=thread_id)
        for what in lost:
            span.lose(what)
        n_given = 0 if isinstance(started.inputs, Command) else len(read_input(started.inputs).messages)
        run = OutermostRun(started.id, started.name, span, thread_id, n_given, around=around())
        if started.inputs is not None and not isinstance(started.inputs, Command):
            texts = [str(part.get("content", "")) for message in task for part in message.parts]
            run.task = "\n".join(filter(None, texts))[:_MAX_TASK_CHARS]
        graph = GraphFrame(run, started.name, span.context, origin=run.around.predecessors)
        self._remember(self._runs, run.id, run)
        self._open(started.id, graph)
        return graph

    def _end_graph(self, run_id: int, graph: GraphFrame, output: Any) -> None:
        if run_id == graph.run.id:
            graph.run.around.note_steps(graph.tail())
            self._end_run(graph.run, output=output, is_complete=not graph.run.is_interrupted)
            return
        graph.output = output
        if graph.own_span is not None:
            graph.own_span.end()

    def _end_run(
        self, run: OutermostRun, *, output: Any = None, error: BaseException | None = None, is_complete: bool = True
    ) -> None:
        with self._lock:
            if self._runs.pop(run.id, None) is None:
                return
        for run_id, frame in reversed(list(run.open.items())):  # children before those they belong to
            self._frames.pop(run_id, None)
            self._abandon(frame)
        run.open.clear()
        run.errors.clear()
        if run.is_interrupted:
            run.span.add({words.RUN_INTERRUPTED: True})
        answer = answer_of(output, run.span.loss_recorder(words.OUTPUT_MESSAGES))
        agents = [_without_model(agent, run) for agent in run.agents.values()]
        run.span.end(output=answer, agents=agents, error=error, is_complete=is_complete, result=output)

    def _abandon(self, frame: Frame) -> None:
        """End the span of a frame that its run has outlived."""
        if isinstance(frame, NodeFrame):
            self._nodes.cancel(frame)
        elif isinstance(frame, ToolFrame):
            frame.span.add({own_words.STEP_CANCELLED: True})
            frame.span.end()
        elif isinstance(frame, ChatFrame):
            frame.span.end()
        elif isinstance(frame, GraphFrame) and frame.own_span is not None:
            frame.own_span.end(is_complete=False)

    # --- graphs and nodes ----------------------------------------------------------------------------
    def _begin_node(self, started: StartedRunnable, superstep: int, frame: Frame | None) -> None:
        graph = self._graph(started.parent_id, frame)
        if graph is None:
            return
        if started.name == _START or _HIDDEN_TAG in started.tags:
            self._open(started.id, ChainFrame(graph.run, graph, started.name))
            return
        node = self._nodes.begin(graph, started.name, superstep, started.inputs, started.metadata)
        self._open(started.id, node)

    def _graph(self, run_id: int | None, frame: Frame | None) -> GraphFrame | None:
        """Find the graph that a node's parent is; a plain runnable with a node in it turns out to be one."""
        if isinstance(frame, GraphFrame):
            return frame
        if isinstance(frame, ChainFrame) and run_id is not None:
            graph = self._begin_inner(frame)
            graph.definition = frame.definition
            self._open(run_id, graph)
            return graph
        with self._lock:
            waiting = self._waiting.pop(run_id, None) if run_id is not None else None
        return self._begin_run(waiting) if waiting is not None else None

    def _begin_inner(self, frame: ChainFrame) -> GraphFrame:
        by = find_actor(frame)
        if isinstance(by, NodeFrame):
            return self._begin_member(frame, by)
        own_span = self._recorder.start_run(frame.name, parent=by.context)
        origin = [by.span.call] if isinstance(by, ToolFrame) else []
        return GraphFrame(frame.run, frame.name, own_span.context, origin=origin, is_inner=True, own_span=own_span)

    def _begin_member(self, frame: ChainFrame, node: NodeFrame) -> GraphFrame:
        """Begin a graph within a node. The span of a node that is that graph goes on as it; others get their own."""
        own_span, name = None, frame.name
        if node.name in node.graph.definition.subgraphs and not node.members:
            self._make_team(node, node.agent if name == DEFAULT_GRAPH_NAME else name)
        else:
            own_span = self._recorder.start_run(name, parent=self._make_team(node, node.agent).context)
        context, origin = (own_span or node).context, subgraph_predecessors(node, frame.inputs)
        graph = GraphFrame(node.run, name, context, node, origin, is_inner=True, own_span=own_span)
        node.members.append(graph)
        return graph

    def _make_team(self, node: NodeFrame, name: str) -> RunSpan:
        """Let a node's span go on as that of a team, if it does not yet."""
        if node.team_span is None:
            self._nodes.give_span(node)
            assert node.span is not None
            node.team_span = node.span.as_run(name)
        return node.team_span

    def _is_task(self, started: StartedRunnable, frame: Frame) -> bool:
        """Return whether this is a task of the functional API, which a node (the entrypoint) has called."""
        path: Sequence[Any] = started.metadata.get("langgraph_path") or ()
        if not (len(path) > 2 and path[0] == _PUSH and path[-1] is True):
            return False
        by = find_actor(frame)
        return isinstance(by, NodeFrame) and started.metadata.get("langgraph_checkpoint_ns") != by.namespace

    def _begin_task(self, started: StartedRunnable, frame: Frame) -> None:
        caller = find_actor(frame)
        assert isinstance(caller, NodeFrame)
        tasks = self._tasks(caller)
        generation = max(tasks.supersteps, default=0) + 1
        self._open(started.id, self._nodes.begin(tasks, started.name, generation, started.inputs, started.metadata))

    def _tasks(self, caller: NodeFrame) -> GraphFrame:
        if caller.tasks is None:
            context = self._make_team(caller, caller.name).context
            caller.tasks = GraphFrame(caller.run, caller.name, context, caller, list(caller.builds_on), is_inner=True)
            caller.tasks.has_tasks = True
            caller.members.append(caller.tasks)
        return caller.tasks

    # --- what is open --------------------------------------------------------------------------------

    def _open(self, run_id: int, frame: Frame) -> None:
        self._frames[run_id] = frame
        frame.run.open[run_id] = frame

    def _close(self, run_id: int) -> Frame | None:
        if self._waiting:
            self._waiting.pop(run_id, None)
        frame = self._frames.pop(run_id, None)
        if frame is not None:
            frame.run.open.pop(run_id, None)
        return frame

    def _remember(self, among: OrderedDict[Any, Any], key: Any, value: Any) -> None:
        """Keep *value*; what is over the limit goes, the oldest first."""
        is_runs = among is self._runs
        with self._lock:
            among[key] = value
            is_over = len(among) > (MAX_RUNS if is_runs else MAX_REMEMBERED)
            oldest = next(iter(among.values())) if is_over else None
            if is_over and not is_runs:
                among.popitem(last=False)
        if is_over and is_runs and oldest is not None:
            self._end_run(oldest, is_complete=False)


_all: WeakSet[GraphRecorder] = WeakSet()


def _after_fork() -> None:
    for recorder in _all:
        recorder.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _without_model(agent: Agent, run: OutermostRun) -> Agent:
    """Return an agent as an executor where others called a model and it never did: it does what its author wrote.

    Where no node called a model that LangChain knows of, nobody can tell who decides by one.
    """
    is_plain = bool(run.uses_model) and agent.name not in run.uses_model
    return replace(agent, role="executor") if is_plain and agent.role == "agent" else agent
