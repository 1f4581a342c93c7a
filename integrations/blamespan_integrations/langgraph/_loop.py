"""What LangGraph does without a callback: go on from a checkpoint, pause at a breakpoint, answer from a cache.

A few methods of LangGraph's loop are wrapped to hear of these; each where a release has it, and none changes
what it returns. State, config, metadata and what streams emit stay as they are.

Which run wrote which checkpoint is kept in this process, by thread, namespace and checkpoint, so that a run that goes
on from there links to it. Where the program asks for it (`link_checkpoints=True`) it also stands in the checkpoint's
metadata, under keys of ours, and a run in another process links as well.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any
from weakref import WeakKeyDictionary, finalize, ref

from langgraph.errors import GraphInterrupt, NodeTimeoutError
from langgraph.pregel.protocol import PregelProtocol
from langgraph.types import Command
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from blamespan import conventions as words
from blamespan.host_safety import shield_host
from blamespan_integrations.langgraph import _words as own_words
from blamespan_integrations.langgraph._callbacks import report
from blamespan_integrations.langgraph._frames import Definition, OpenToolCall, OutermostRun
from blamespan_integrations.langgraph._graphs import GraphRecorder
from blamespan_integrations.patching import Patches

_RUN_KEY = "blamespan.traceparent"
"""str: the run that wrote a checkpoint, as W3C `traceparent`."""
_CALLS_KEY = "blamespan.calls"
"""str: JSON, the agents that asked for the tool calls still open, by call id."""
OURS = (_RUN_KEY, _CALLS_KEY)
"""The keys of ours in a checkpoint's metadata."""
_MAX_CHECKPOINTS = 10_000
"""The latest, about 500 bytes each: of a run one for every superstep."""
_PROPAGATOR = TraceContextTextMapPropagator()


@dataclass(frozen=True, slots=True)
class CheckpointOrigin:
    """The run that wrote a checkpoint.

    Attributes:
        run: Its span.
        calls: The agents that asked for the tool calls still open, by call id.
        task: What was asked first; known within this process alone.
    """

    run: SpanContext
    calls: Mapping[str, str]
    task: str = ""

    @property
    def metadata(self) -> dict[str, str]:
        """Return it as a checkpoint's metadata say it."""
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier, trace.set_span_in_context(NonRecordingSpan(self.run)))
        metadata = {_RUN_KEY: carrier["traceparent"]} if carrier else {}
        return metadata | ({_CALLS_KEY: json.dumps(dict(self.calls))} if self.calls else {})


_Key = tuple[str, str, str]
_origins: dict[_Key, CheckpointOrigin] = {}
"""The oldest first. Of the process, not of an instrumentor: recording may be switched off and on between two runs."""


def remember_origin(config: Mapping[str, Any], checkpoint_id: str, origin: CheckpointOrigin) -> None:
    """Keep *origin* of a checkpoint of the thread that *config* names."""
    if not origin.run.is_valid:
        return
    _origins[_key(config, checkpoint_id)] = origin
    with suppress(StopIteration, RuntimeError):  # another thread is at it. No lock: a finalizer may save a checkpoint
        while len(_origins) > _MAX_CHECKPOINTS:
            _origins.pop(next(iter(_origins)), None)


def find_origin(config: Mapping[str, Any], checkpoint_id: str, metadata: Mapping[str, Any]) -> CheckpointOrigin | None:
    """Return the origin of a checkpoint as kept in this process, else as its *metadata* say, else None."""
    origin = _origins.get(_key(config, checkpoint_id))
    if origin is not None:
        return origin
    run = _span_context(metadata.get(_RUN_KEY))
    return CheckpointOrigin(run, json.loads(metadata.get(_CALLS_KEY) or "{}")) if run is not None else None


def _key(config: Mapping[str, Any], checkpoint_id: str) -> _Key:
    named = config.get("configurable") or {}
    return str(named.get("thread_id", "")), str(named.get("checkpoint_ns", "")), checkpoint_id


def _span_context(traceparent: object) -> SpanContext | None:
    if not isinstance(traceparent, str):
        return None
    span = trace.get_current_span(_PROPAGATOR.extract({"traceparent": traceparent}, Context()))
    return span.get_span_context() if isinstance(span, NonRecordingSpan) and span.get_span_context().is_valid else None


_LOOP = "langgraph.pregel._loop"
_NOT_BY_A_RUN = ("update", "fork")
"""Sources of checkpoints that `update_state` writes: the run is the one that wrote the checkpoint before."""
_MAX_UPDATES = 16
_PREBUILT = ("langchain.agents.factory", "langgraph.prebuilt.chat_agent_executor")
_EDGE_CHANNELS = ("branch:to:", "join:")
"""How LangGraph's channels for edges begin; others are keys of the state."""


class _LoopHooks:
    """The wrappers around one recorder; `Any` stands for LangGraph's loop, which is not public."""

    def __init__(self, graphs: GraphRecorder, *, stamps_checkpoints: bool) -> None:
        self._graphs = graphs
        self._stamps_checkpoints = stamps_checkpoints
        self._runs: WeakKeyDictionary[Any, ref[OutermostRun]] = WeakKeyDictionary()
        """The run of each outermost loop, kept by the recorder: a run may hold its loop, by an exception's frames."""
        self._unread: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        """Where to read on, by loop: the checkpoint it starts from was not written by a run."""

    def first(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Hear of a loop that has loaded the checkpoint it starts from."""

        @functools.wraps(original)
        def wrapper(loop: Any, *args: Any, **kwargs: Any) -> Any:
            with shield_host("langgraph: tell which graph runs"):
                if loop.manager is not None:
                    subgraphs = [name for name, node in loop.nodes.items() if isinstance(node.bound, PregelProtocol)]
                    definition = Definition(id(loop.nodes), _is_prebuilt(loop), subgraphs)
                    self._graphs.define(loop.manager.run_id.int, definition)
            with shield_host("langgraph: find the run that a run goes on from"):
                self._begin(loop)
            return original(loop, *args, **kwargs)

        return wrapper

    def aenter(self, original: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """Read on from a checkpoint that was not written by a run, in an async program."""

        @functools.wraps(original)
        async def wrapper(loop: Any) -> Any:
            try:
                entered = await original(loop)
            except BaseException:
                self._unread.pop(loop, None)
                raise
            with shield_host("langgraph: find the run that a run goes on from"):
                config, updates = self._unread.pop(loop, None), 0
                while config is not None and updates < _MAX_UPDATES:
                    config, updates = self._read_on(loop, await loop.checkpointer.aget_tuple(config)), updates + 1
            return entered

        return wrapper

    def put(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Note which run a checkpoint is saved by, in its metadata only where the program asked for that."""

        @functools.wraps(original)
        def wrapper(loop: Any, *args: Any) -> Any:
            with shield_host("langgraph: note the run in a checkpoint"):
                args = self._note_origin(loop, args)
            return original(loop, *args)

        return wrapper

    def exit(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Hear how a loop ends, before LangGraph waits for what is still at work."""

        @functools.wraps(original)
        def wrapper(loop: Any, kind: Any, error: Any, traceback: Any) -> Any:
            with shield_host("langgraph: note where a run stopped"):
                self._end(loop, error)
            return original(loop, kind, error, traceback)

        return wrapper

    def run_with_timeout(self, original: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """Hear of a node whose time is up: callbacks are only told that it was cancelled."""

        @functools.wraps(original)
        async def wrapper(task: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return await original(task, *args, **kwargs)
            except NodeTimeoutError as error:
                with shield_host("langgraph: record a node's timeout"):
                    self._graphs.fail_task(task.id, error)
                raise

        return wrapper

    def after_tick(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Hear which edges were taken."""

        @functools.wraps(original)
        def wrapper(loop: Any) -> Any:
            try:
                if loop.manager is not None:
                    self._graphs.note_edges(loop.manager.run_id.int, [_edges_of(task) for task in loop.tasks.values()])
            except Exception as error:
                report("langgraph: note which edges were taken", error)
            return original(loop)

        return wrapper

    def match_cached(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Hear of nodes that need not run."""

        @functools.wraps(original)
        def wrapper(loop: Any) -> Any:
            matched = original(loop)
            if matched:
                self._record_cached(loop, matched)
            return matched

        return wrapper

    def amatch_cached(self, original: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """Hear of nodes that need not run, in an async program."""

        @functools.wraps(original)
        async def wrapper(loop: Any) -> Any:
            matched = await original(loop)
            if matched:
                self._record_cached(loop, matched)
            return matched

        return wrapper

    def _begin(self, loop: Any) -> None:
        run = self._graphs.run_of(loop.manager.run_id.int) if loop.manager is not None else None
        metadata = loop.checkpoint_metadata
        if any(key in metadata for key in OURS):
            loop.checkpoint_metadata = {key: value for key, value in metadata.items() if key not in OURS}
        if run is None:
            return
        self._runs[loop] = ref(run)
        finalize(loop, self._graphs.vanish, run.id).atexit = False
        is_addressed = bool(loop.config["configurable"].get("checkpoint_id"))
        if not (is_addressed or loop.input is None or isinstance(loop.input, Command)):
            return
        run.goes_on = "forks" if is_addressed else "continues"
        is_linked = self._link(run, loop.checkpoint_config, loop.checkpoint["id"], metadata)
        if is_linked or metadata.get("source") not in _NOT_BY_A_RUN:
            return
        config, updates = loop.prev_checkpoint_config, 0
        if hasattr(loop, "__aenter__"):
            self._unread[loop] = config
            return
        while config is not None and updates < _MAX_UPDATES:
            config, updates = self._read_on(loop, loop.checkpointer.get_tuple(config)), updates + 1

    def _read_on(self, loop: Any, saved: Any) -> Any:
        """Link to the run that wrote *saved*; where none did, tell where to read on."""
        run = self._run_of(loop)
        if run is None or saved is None or self._link(run, saved.config, saved.checkpoint["id"], saved.metadata):
            return None
        return saved.parent_config if saved.metadata.get("source") in _NOT_BY_A_RUN else None

    def _link(
        self, run: OutermostRun, config: Mapping[str, Any], checkpoint_id: str, metadata: Mapping[str, Any]
    ) -> bool:
        origin = find_origin(config, checkpoint_id, metadata)
        if origin is None:
            return False
        attributes = {words.LINK_RELATION: run.goes_on, own_words.LANGGRAPH_CHECKPOINT: checkpoint_id}
        run.span.span.add_link(origin.run, attributes)
        if origin.task and run.goes_on == "continues":
            run.task = origin.task
            run.span.add({words.RUN_TASK: origin.task})
        run.calls.update({call_id: OpenToolCall(agent, None) for call_id, agent in origin.calls.items()})
        return True

    def _run_of(self, loop: Any) -> OutermostRun | None:
        run_reference = self._runs.get(loop)
        return run_reference() if run_reference is not None else None

    def _note_origin(self, loop: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        run = self._run_of(loop)
        *before, config, checkpoint, metadata, new_versions = args
        if run is None or not isinstance(metadata, Mapping):
            return args
        calls = {call_id: call.agent for call_id, call in dict(run.unanswered).items()}
        origin = CheckpointOrigin(run.span.span.get_span_context(), calls, run.task)
        remember_origin(config, checkpoint["id"], origin)
        if not self._stamps_checkpoints:
            return args
        return (*before, config, checkpoint, {**metadata, **origin.metadata}, new_versions)

    def _end(self, loop: Any, error: Any) -> None:
        run_id = loop.manager.run_id.int if loop.manager is not None else None
        if isinstance(error, TimeoutError) and run_id is not None:
            self._graphs.time_out(run_id, error)
        run = self._graphs.run_around(run_id) if isinstance(error, GraphInterrupt) else None
        if run is None:
            return
        run.is_interrupted = True
        if loop.status in ("interrupt_before", "interrupt_after"):
            run.span.add({own_words.LANGGRAPH_BREAKPOINT: loop.status.removeprefix("interrupt_")})
        if loop.status == "interrupt_before":  # after a node, only later releases know the next yet
            run.span.add({own_words.LANGGRAPH_NEXT: list(dict.fromkeys(task.name for task in loop.tasks.values()))})

    def _record_cached(self, loop: Any, tasks: Sequence[Any]) -> None:
        for task in tasks:
            with shield_host("langgraph: record a node answered from a cache"):
                self._graphs.record_cached(
                    loop.manager.run_id.int, task.name, task.input, task.config["metadata"], list(task.writes)
                )


def _is_prebuilt(loop: Any) -> bool:
    """Return whether a graph is what `create_agent` or `create_react_agent` makes, by who wrote its model's node."""
    node = loop.nodes.get("model") or loop.nodes.get("agent")
    return getattr(getattr(getattr(node, "bound", None), "func", None), "__module__", None) in _PREBUILT


def _edges_of(task: Any) -> tuple[str, Sequence[str], Sequence[str]]:
    return task.id, task.triggers, [channel for channel, _ in task.writes if channel.startswith(_EDGE_CHANNELS)]


def wrap(patches: Patches, graphs: GraphRecorder, *, stamps_checkpoints: bool) -> None:
    """Report to *graphs* what LangGraph's loop does without a callback.

    Args:
        patches: What puts it in place.
        graphs: Where to record.
        stamps_checkpoints: Whether the run that saves a checkpoint is written into the checkpoint's metadata.
    """
    hooks = _LoopHooks(graphs, stamps_checkpoints=stamps_checkpoints)
    for owner_path, name, make in (
        (f"{_LOOP}:PregelLoop", "_first", hooks.first),
        (f"{_LOOP}:PregelLoop", "after_tick", hooks.after_tick),
        (f"{_LOOP}:AsyncPregelLoop", "__aenter__", hooks.aenter),
        (f"{_LOOP}:SyncPregelLoop", "__exit__", hooks.exit),
        (f"{_LOOP}:AsyncPregelLoop", "__aexit__", hooks.exit),
        (f"{_LOOP}:SyncPregelLoop", "_checkpointer_put_after_previous", hooks.put),
        (f"{_LOOP}:AsyncPregelLoop", "_checkpointer_put_after_previous", hooks.put),
        (f"{_LOOP}:SyncPregelLoop", "match_cached_writes", hooks.match_cached),
        (f"{_LOOP}:AsyncPregelLoop", "amatch_cached_writes", hooks.amatch_cached),
        ("langgraph.pregel._retry", "_arun_with_timeout", hooks.run_with_timeout),
    ):
        with shield_host("langgraph: hear of what has no callback"):
            patches.wrap(resolve_name(owner_path), name, make)
