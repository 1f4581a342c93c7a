"""What of a graph's run is going on right now: one frame for each LangChain run that has started and not ended.

A frame is where children belong: the run, a node, a tool, a model call, or a plain runnable between them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langgraph.types import Send
from opentelemetry.context import Context

from blamespan.trace import Agent
from blamespan_integrations.langgraph._convert import NodeInput
from blamespan_integrations.langgraph._memory import AgentMemory, GraphMemory
from blamespan_integrations.recording import AgentSpan, Around, ChatSpan, RunSpan, StepRef, ToolSpan

_STEP_TAG, _PART_TAG = "graph:step:", "seq:step:"


@dataclass(slots=True)  # not frozen: one is made for every runnable, and freezing doubles that cost
class StartedRunnable:
    """A LangChain run that starts, as callbacks describe it."""

    id: int
    parent_id: int | None
    name: str
    inputs: Any
    tags: Sequence[str]
    metadata: Mapping[str, Any]

    @property
    def position_in_graph(self) -> tuple[int | None, bool]:
        """LangGraph's number of the superstep, if this is a node; and whether it is a part of one, as edges are."""
        is_part = False
        for tag in self.tags:
            if tag.startswith(_STEP_TAG) and (number := tag[len(_STEP_TAG) :]).lstrip("-").isdigit():
                return int(number), False
            is_part = is_part or tag.startswith(_PART_TAG)
        return None, is_part

    @property
    def is_graph(self) -> bool:
        """Return whether this, outside every run we know, is a graph. LangGraph before 1.1 does not say."""
        is_lost = self.parent_id is not None and "langgraph_step" in self.metadata  # its run was never seen
        return "ls_integration" in self.metadata and not is_lost


_KEPT = 8
"""Supersteps: those before the last are dropped now and then."""

_MAX_ERRORS = 32
"""Exceptions on their way up at one time: each holds on to the frames that it has passed through."""

_MAX_PARTS = 256
"""Of a task's input and result that are told apart."""


@dataclass(frozen=True, slots=True)
class OpenToolCall:
    """A tool call that an agent asked for: who asked, and with which step, if in this run."""

    agent: str
    step: StepRef | None


@dataclass(slots=True, weakref_slot=True)
class OutermostRun:
    """The run of an outermost graph, and what its frames share.

    Nodes of one superstep run in parallel threads. Every access here is a single operation on a dict,
    list or set, or belongs to one node.
    """

    id: int
    name: str
    span: RunSpan
    thread_id: str | None
    n_given_messages: int
    """How many messages the program gave it."""
    memory: GraphMemory = field(default_factory=GraphMemory)
    has_state: bool = False
    """Whether a node has been given the state yet."""
    agents: dict[str, Agent] = field(default_factory=dict)
    uses_model: set[str] = field(default_factory=set)
    """Agents that have called a model."""
    owners: dict[str, tuple[str, int | None]] = field(default_factory=dict)
    """Where the agent of each name stands, and in which graph: two that share a name get two names."""
    calls: dict[str, OpenToolCall] = field(default_factory=dict)
    """Tool calls that agents asked for, by the model's id of the call."""
    unanswered: dict[str, OpenToolCall] = field(default_factory=dict)
    """Those of them that no tool has answered yet."""
    attempts: dict[str, int] = field(default_factory=dict)
    """How often each node's task was begun, by checkpoint namespace: equal across retries."""
    open: dict[int, Frame] = field(default_factory=dict)
    """Its frames by LangChain's run id, in the order they started."""
    errors: dict[int, BaseException] = field(default_factory=dict)
    """What its steps raised and may meet again, by identity: an exception that several spans see is one step's failure.

    An exception holds its frames, which hold LangGraph's loop and the state: none is kept for longer than it rises.
    """
    is_interrupted: bool = False
    around: Around = field(default_factory=Around)
    """Within which step of another framework's it takes place."""
    task: str = ""
    """What was asked first, by this run's caller or that of the run it goes on from."""
    goes_on: str = ""
    """How it is related to the run whose checkpoint it starts from, if it goes on from there."""

    def has_seen(self, error: BaseException) -> bool:
        """Check whether one of its steps has failed with this very exception."""
        return self.errors.get(id(error)) is error

    def remember(self, error: BaseException) -> None:
        """Keep *error*, by which a step has failed, until it has risen to the outermost graph."""
        self.errors[id(error)] = error
        if len(self.errors) > _MAX_ERRORS:
            self.errors.pop(list(self.errors)[0], None)  # noqa: RUF015 - one operation, unlike iter() and next()

    def forget(self, error: BaseException) -> None:
        """Let go of *error*: no other step can fail with it."""
        self.errors.pop(id(error), None)


@dataclass(slots=True)
class NodeEnd:
    """How a node ended, for those that build on it.

    Attributes:
        task_id: LangGraph's id of its execution.
        refs: The steps it ended with: its message, or its tools' answers, or its members' last messages.
        sends: Packets it sent.
        output: What it returned, if it is a task.
    """

    task_id: str
    refs: list[StepRef] = field(default_factory=list)
    sends: list[Send] = field(default_factory=list)
    output: Any = None


@dataclass(frozen=True, slots=True)
class Definition:
    """What LangGraph tells of a graph that the program has compiled.

    Attributes:
        id: Its identity; None where LangGraph does not tell.
        is_prebuilt: Whether it is what `create_agent` or `create_react_agent` makes.
        subgraphs: Those of its nodes that are graphs themselves, by name.
    """

    id: int | None = None
    is_prebuilt: bool = False
    subgraphs: Collection[str] = ()


UNKNOWN = Definition()


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """What a node is whenever it is executed.

    Attributes:
        agent: Its name as an agent of the run.
        agent_id: Where it stands, where that is not its name.
        memory: What it knows: a team's only agent may share the team's name, but not its memory.
        is_hook: Whether it is a middleware's hook, which is a step only if it says something.
    """

    agent: str
    agent_id: str | None
    memory: AgentMemory
    is_hook: bool


@dataclass(slots=True)
class GraphFrame:
    """A graph at work; or the tasks of a functional entrypoint.

    Attributes:
        context: Under which its nodes' spans start.
        node: Within which it runs; None for the outermost, and under a tool.
        origin: The steps that its first nodes build on.
        is_inner: Whether it is not the outermost.
        own_span: Its span, where neither the run's nor the node's span stands for it.
        supersteps: How the nodes of each superstep ended; old ones are dropped.
        edges: Who wrote each of LangGraph's channels that no node has followed yet; None until LangGraph tells.
        member_texts: Texts that its members have said, where it is not the outermost.
        failed: How each node failed last, by name.
        definition: What the program has compiled.
        has_tasks: Whether its nodes are the tasks of a functional entrypoint.
        makers: The tasks that made each object, by its identity.
        loose: The steps of its tasks that no other task builds on, by index.
        has_failed: Whether it came to an end by failing.
        output: What it gave back.
        parts: What its nodes are as agents, by node and owner.
    """

    run: OutermostRun
    name: str
    context: Context
    node: NodeFrame | None = None
    origin: list[StepRef] = field(default_factory=list)
    is_inner: bool = False
    own_span: RunSpan | None = None
    supersteps: dict[int, list[NodeEnd]] = field(default_factory=dict)
    edges: dict[str, list[NodeEnd]] | None = None
    member_texts: set[str] = field(default_factory=set)
    failed: dict[str, StepRef] = field(default_factory=dict)
    definition: Definition = UNKNOWN
    has_tasks: bool = False
    makers: dict[int, NodeEnd] = field(default_factory=dict)
    loose: dict[int, StepRef] = field(default_factory=dict)
    has_failed: bool = False
    output: Any = None
    parts: dict[tuple[str, str | None], NodeIdentity] = field(default_factory=dict)

    def note_end(self, superstep: int, how: NodeEnd) -> None:
        """Remember how a node ended; what no later node can build on is forgotten."""
        self.supersteps.setdefault(superstep, []).append(how)
        if self.has_tasks:
            self.makers.update((id(part), how) for part in list_parts(how.output))
            self.loose.update((ref.index, ref) for ref in how.refs)
        if len(self.supersteps) > _KEPT:
            for old in [number for number in self.supersteps if number < superstep - 1]:
                self.supersteps.pop(old, None)

    def note_edges(self, tasks: Collection[tuple[str, Sequence[str], Sequence[str]]]) -> None:
        """Note which edges were taken in a superstep.

        Args:
            tasks: Of each its id, the channels that triggered it, and those that it wrote.
        """
        edges = self.edges = self.edges or {}
        last = {ended.task_id: ended for ended in self.supersteps[max(self.supersteps)]} if self.supersteps else {}
        for _, triggers, _ in tasks:
            for trigger in triggers:
                edges.pop(trigger, None)
        for task_id, _, written in tasks:
            if (ended := last.get(task_id)) is not None:
                for channel in written:
                    edges.setdefault(channel, []).append(ended)

    def tail(self) -> list[StepRef]:
        """List the steps it ended with so far."""
        if self.has_failed and self.failed:
            return list(self.failed.values())
        if self.has_tasks:
            return [self.loose[index] for index in sorted(self.loose)]
        last = max(self.supersteps, default=None)
        return [] if last is None else [ref for ended in self.supersteps[last] for ref in ended.refs]

    def build_on(self, refs: Iterable[StepRef]) -> None:
        """Note that a task of it builds on *refs*."""
        for ref in refs:
            self.loose.pop(ref.index, None)


@dataclass(slots=True)
class NodeFrame:
    """A node at work, or a task of a functional entrypoint.

    Attributes:
        run: The run it belongs to.
        graph: The graph it belongs to.
        name: Its name in the graph.
        agent: Its name as an agent of the run.
        agent_id: Where it stands, where that is not its name.
        superstep: LangGraph's number of it within the graph's run.
        namespace: LangGraph's checkpoint namespace of the execution.
        memory: What it knows.
        input: What it was given.
        builds_on: The steps it builds on.
        attributes: What its span says beyond the conventions.
        start_ns: When it began, Unix time.
        calls: Tool calls it was started to execute, by id: the call, and who asked, if the message says.
        is_hook: Whether it is a middleware's hook, which is a step only if it says something.
        uses_model: Whether it has called a model.
        span: Its span. A node that only executes tools, or a hook, has none until it does something else.
        team_span: The same span, once the node has turned out to be a team: its members speak, not it.
        members: The graphs within it; the tasks of an entrypoint are one.
        tasks: That one.
        answers: Of the tools it executed for others, by call id.
        sends: The packets its conditional edges send.
    """

    run: OutermostRun
    graph: GraphFrame
    name: str
    agent: str
    agent_id: str | None
    superstep: int
    namespace: str
    memory: AgentMemory
    input: NodeInput
    builds_on: list[StepRef]
    attributes: dict[str, str | int | bool]
    start_ns: int
    calls: Mapping[str, tuple[Mapping[str, Any], str | None]]
    is_hook: bool
    uses_model: bool = False
    span: AgentSpan | None = None
    team_span: RunSpan | None = None
    members: list[GraphFrame] = field(default_factory=list)
    tasks: GraphFrame | None = None
    answers: dict[str, StepRef] = field(default_factory=dict)
    sends: list[Send] = field(default_factory=list)

    @property
    def task_id(self) -> str:
        """LangGraph's id of the execution."""
        return self.namespace.rpartition(":")[2]

    @property
    def context(self) -> Context:
        """Under which its children's spans start."""
        if self.team_span is not None:
            return self.team_span.context
        return self.span.context if self.span is not None else self.graph.context


class _CallFrame:
    """What a call of a tool and one of a model have in common."""

    __slots__ = ()
    span: ToolSpan | ChatSpan
    frame: Frame

    @property
    def run(self) -> OutermostRun:
        """The run it belongs to."""
        return self.frame.run

    @property
    def context(self) -> Context:
        """Under which its children's spans start."""
        return self.span.context


@dataclass(slots=True)
class ToolFrame(_CallFrame):
    """A tool at work.

    Attributes:
        span: Its span.
        frame: Where it belongs.
        agent: Who asked for it.
        call_id: The model's id of the call.
        executor: The node that executes it for that agent; None where the agent does so itself.
    """

    span: ToolSpan
    frame: Frame
    agent: str | None
    call_id: str | None
    executor: NodeFrame | None


@dataclass(slots=True)
class ChatFrame(_CallFrame):
    """A model call going on, and on whose behalf."""

    span: ChatSpan
    frame: Frame
    agent: str | None


@dataclass(slots=True)
class ChainFrame:
    """A plain runnable: a conditional edge, a prompt, a sequence; or a graph before its first node starts.

    Attributes:
        run: The run it belongs to.
        frame: Where it belongs.
        name: Its name.
        inputs: What it is given.
        is_edge: Whether it may decide where a node leads.
        definition: If it is a graph, what the program has compiled.
    """

    run: OutermostRun
    frame: Frame
    name: str
    inputs: Any = None
    is_edge: bool = False
    definition: Definition = UNKNOWN

    @property
    def context(self) -> Context:
        """Under which its children's spans start."""
        return self.frame.context


def list_parts(value: Any) -> list[Any]:
    """List a value and what it holds, but for what may be one object by chance."""
    parts, index = [value], 0
    while index < len(parts) < _MAX_PARTS:
        part, index = parts[index], index + 1
        if type(part) is dict:
            parts += part.values()
        elif type(part) in (list, tuple, set):
            parts += part
    return [part for part in parts if not isinstance(part, bool | int | tuple | None)]


Frame = GraphFrame | NodeFrame | ToolFrame | ChatFrame | ChainFrame


def find_actor(frame: Frame) -> GraphFrame | NodeFrame | ToolFrame:
    """Find whose doing *frame* is: the nearest node, tool or graph, itself included."""
    while isinstance(frame, ChainFrame | ChatFrame):
        frame = frame.frame
    return frame
