"""Graphs and nodes of LangGraph: whose turn it is, what a node says without a model, and where what it writes goes."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from langgraph._internal._constants import (
    CONFIG_KEY_CHECKPOINT_NS,
    CONFIG_KEY_SCRATCHPAD,
    CONFIG_KEY_SEND,
    INTERRUPT,
    RESUME,
)
from langgraph.errors import GraphInterrupt
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Interrupt

from blamespan.host_safety import shield_host
from blamespan.intercepting.boundaries import Mail, RunScope, Said, Where, current_run
from blamespan.intercepting.listeners import active
from blamespan_integrations.interception import _langgraph_convert
from blamespan_integrations.interception._around import Original, iterate_within, within
from blamespan_integrations.interception._langgraph_convert import following, reroute, spoken_text, with_spoken_text
from blamespan_integrations.interception._offering import (
    AtWork,
    OfferedModelCall,
    acting_for,
    agent_where,
    find_agent_name,
    join_questions,
    offer_mail,
    read_answers,
)

_MODEL_NODES = ("model", "agent")
_HIDDEN = "__"
"""How the names of nodes begin that are LangGraph's own."""


@dataclass(slots=True)
class Node:
    """A node at work.

    Attributes:
        task: LangGraph's.
        graph: The graph it belongs to.
        has_asked: Whether it has asked a model, or is a graph itself.
        has_spoken: Whether its own function has returned.
        text: What it says.
        has_goto: Whether it names who is next.
        agent: Its name, as spans call it where they are recorded.
        where: Its span.
        answers: What a person has answered and was not asked for yet, by question.
    """

    task: Any
    graph: Any
    has_asked: bool = False
    has_spoken: bool = False
    text: str = ""
    has_goto: bool = False
    agent: str = ""
    where: Where | None = None
    answers: dict[str, bool] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its name: of prebuilt agents, whose nodes are all called alike, the agent's."""
        agent_name = self.task.config.get("metadata", {}).get("lc_agent_name")
        name: str = self.task.name
        return agent_name if name in _MODEL_NODES and isinstance(agent_name, str) and agent_name else name

    @property
    def is_tools(self) -> bool:
        """Whether it only runs tools for others."""
        return isinstance(self.function, ToolNode)

    @property
    def function(self) -> Any:
        """What of it is the program's own."""
        return next(iter(getattr(self.task.proc, "steps", ())), self.task.proc)


current_node: ContextVar[Node | None] = ContextVar("blamespan-node", default=None)
_graph: ContextVar[Any] = ContextVar("blamespan-graph", default=None)


def ask_by_interrupt(question: str) -> bool | None:
    """Ask a person as LangGraph's `interrupt` does; None outside a graph's node, where nobody can be asked.

    LangGraph gives an answer to whatever asks first. Here it belongs to the questions that were shown: all those of one
    node stand in one interrupt, which names them, and any other is asked anew.

    Raises:
        GraphInterrupt: until the graph is resumed with an answer.
    """
    node = current_node.get()
    if node is None:
        return None
    if question in node.answers:
        return node.answers.pop(question)
    raise _stop_to_ask(node, [question])


def _stop_to_ask(node: Node, questions: list[str]) -> GraphInterrupt:
    config = node.task.config["configurable"]
    value = {
        "blamespan": "guard",
        "question": join_questions(questions),
        "questions": questions,
        "answers": ["yes", "no"],
        "place": len(config[CONFIG_KEY_SCRATCHPAD].resume),
    }
    return GraphInterrupt((Interrupt.from_ns(value=value, ns=config[CONFIG_KEY_CHECKPOINT_NS]),))


def _take_answers(node: Node, run: RunScope) -> None:
    """Take what a person has answered to this node, and keep it as the first of the answers that LangGraph keeps.

    There what the program itself asks in the node does not find it, and finds its own in their order.
    """
    config = node.task.config["configurable"]
    scratchpad = config.get(CONFIG_KEY_SCRATCHPAD)
    if scratchpad is None:
        return
    answers = scratchpad.resume
    asked = run.asked.get(Interrupt.from_ns(value=None, ns=config[CONFIG_KEY_CHECKPOINT_NS]).id)
    kept = answers.pop(0) if answers and _is_ours(answers[0]) else None
    if asked is not None:
        place = asked["place"] - (kept is not None)
        answer = answers.pop(place) if place < len(answers) else scratchpad.get_null_resume(True)
        if answer is not None:
            given = read_answers(asked["questions"], answer)
            kept = {"blamespan": "guard", "given": {**(kept or {"given": {}})["given"], **given}}
    if kept is not None:
        answers.insert(0, kept)
        scratchpad.interrupt_counter()
        node.answers = dict(kept["given"])


@contextmanager
def _keeping_answers(node: Node) -> Iterator[None]:
    """Have LangGraph keep what a person has answered to a node that stops once more."""
    try:
        yield
    except GraphInterrupt:
        config = node.task.config["configurable"]
        answers = config[CONFIG_KEY_SCRATCHPAD].resume
        if answers and _is_ours(answers[0]) and not any(channel == RESUME for channel, _ in node.task.writes):
            config[CONFIG_KEY_SEND]([(RESUME, answers)])
        raise


def _is_ours(value: Any) -> bool:
    return isinstance(value, dict) and value.get("blamespan") == "guard"


def find_requester(call_id: str, tool: str) -> tuple[str, tuple[str, ...]]:
    """Find which agent's model asked for a call, and who else may have where only the graph's edges tell."""
    node, run = current_node.get(), current_run.get()
    if node is None:
        return "", ()
    if not node.is_tools:
        return node.name, ()
    owner = node.task.config.get("metadata", {}).get("lc_agent_name")
    if isinstance(owner, str) and owner:
        return owner, ()
    requests = run.requests if run is not None else {}
    if requester := requests.get(call_id) if call_id else requests.get(tool):
        return requester, ()
    leading = _nodes_before(node.graph, node.name)
    return (leading[0], ()) if len(leading) == 1 else (node.name, leading)


def _nodes_before(graph: Any, name: str) -> tuple[str, ...]:
    """List the nodes from which edges lead to one; all other nodes where that cannot be read."""
    builder = getattr(graph, "builder", None)
    leading = {start for start, end in getattr(builder, "edges", ()) if end == name}
    leading |= {start for starts, end in getattr(builder, "waiting_edges", ()) if end == name for start in starts}
    for start, branches in getattr(builder, "branches", {}).items():
        if any(branch.ends is None or name in branch.ends.values() for branch in branches.values()):
            leading.add(start)
    return tuple(sorted(node for node in leading or set(_names(graph)) if not node.startswith(_HIDDEN)))


async def stream_graph(original: Original, self: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
    """Stand around `Pregel.stream`: the run begins here."""
    run = _enter_graph(self, args, kwargs)
    with shield_host("guard: read what was asked"):  # what is not known is asked anew
        if run is not None and (config := _resumed(self, args, kwargs)) is not None:
            kept = self.checkpointer
            run.asked = _read_asked(await kept.aget_tuple(config) if original.waits else kept.get_tuple(config))
    within_run = nullcontext if run is None else functools.partial(_inside, run, self)
    async for item in iterate_within(within_run, original.iterate(self, *args, **kwargs)):
        yield item


@contextmanager
def _inside(run: RunScope, graph: Any) -> Iterator[None]:
    node = current_node.get()
    around = acting_for.get() if node is None or node.graph is graph else (*acting_for.get(), node.name)
    with within(current_run, run), within(_graph, graph), within(acting_for, around):
        yield


_MOST_THREADS = 1_000
_runs_by_thread: OrderedDict[tuple[int, str], RunScope] = OrderedDict()
"""The latest run of each thread of a graph that keeps checkpoints: one that is resumed goes on with it."""


def _find_run(graph: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> RunScope:
    """Find the run that a graph goes on with, or begin one."""
    config, is_resumed = _read_call(graph, args, kwargs)
    if config is None:
        return RunScope()
    key = id(graph.checkpointer), str(config["configurable"]["thread_id"])
    run = _runs_by_thread.pop(key, None) if is_resumed else None
    run = _runs_by_thread[key] = run or RunScope()
    while len(_runs_by_thread) > _MOST_THREADS:
        _runs_by_thread.popitem(last=False)
    return run


def _read_call(graph: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, bool]:
    """Return a call's configuration, None where no thread is kept, and whether the call resumes one."""
    given = args[0] if args else kwargs.get("input")
    config = args[1] if len(args) > 1 else kwargs.get("config")
    config = config or getattr(graph, "config", None) or {}
    thread = (config.get("configurable") or {}).get("thread_id")
    is_kept = thread is not None and bool(getattr(graph, "checkpointer", None))
    return config if is_kept else None, given is None or (isinstance(given, Command) and given.resume is not None)


def _resumed(graph: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the configuration of a call that resumes a thread; None of any other, and within another graph."""
    config, is_resumed = _read_call(graph, args, kwargs)
    return config if current_run.get() is None and is_resumed else None


def _read_asked(saved: Any) -> dict[str, dict[str, Any]]:
    """Read from a checkpoint what a person was asked by a guard, whichever process did, by the interrupt's id."""
    writes = saved.pending_writes if saved is not None else None
    interrupts = [one for _, channel, items in writes or () if channel == INTERRUPT for one in items]
    return {one.id: one.value for one in interrupts if _is_ours(one.value)}


def _enter_graph(graph: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> RunScope | None:
    """Find or begin the run of a graph that starts; a graph within a node speaks for the node."""
    if not active():
        return None
    run, node = current_run.get() or _find_run(graph, args, kwargs), current_node.get()
    if node is not None:
        node.has_asked = True
    run.agents = tuple(dict.fromkeys((*run.agents, *_names(graph))))
    return run


def _names(graph: Any) -> list[str]:
    """List the nodes of a graph that are agents: not LangGraph's own, and not those that only run tools."""
    return [
        name
        for name, node in graph.nodes.items()
        if not name.startswith(_HIDDEN) and not isinstance(getattr(node, "bound", None), ToolNode)
    ]


async def invoke_node(original: Original, self: Any, *args: Any, **kwargs: Any) -> Any:
    """Stand around `RunnableCallable.invoke`: a node's own function."""
    node = _its_own(self)
    result = await original(self, *args, **kwargs)
    is_slow = any(listener.is_blocking for listener in active())
    return result if node is None else await original.call(is_slow, _offer_speech, node, result)


def _its_own(function: Any) -> Node | None:
    """Find the node at work if *function* is what of it is the program's own."""
    node = current_node.get()
    if node is None or node.has_spoken or node.function is not function or not active():
        return None
    node.agent = find_agent_name() or node.name
    node.where = agent_where()
    return node


def _offer_speech(node: Node, result: Any) -> Any:
    """Offer what a node says that has asked no model."""
    if node.has_spoken:  # `ainvoke` has called `invoke`
        return result
    node.has_spoken = True
    text = spoken_text(result)
    node.text = text or ""
    node.has_goto = isinstance(result, Command) and bool(result.goto)
    listeners = active()
    if node.has_asked or node.is_tools or not text or not listeners:
        return result
    call = OfferedModelCall(listeners, node.name, _langgraph_convert, alias=node.task.name, ask=ask_by_interrupt)
    answer = call.alter_answer(Said(text))
    node.text = answer.text
    return result if answer.text == text else with_spoken_text(result, answer.text)


async def run_node(
    foresee: Callable[[Node], list[str]], original: Original, task: Any, *args: Any, **kwargs: Any
) -> Any:
    """Stand around `run_with_retry`: a node from start to end.

    Args:
        foresee: Lists what a person is to be asked before a node's tools are called.
        original: The function.
        task: LangGraph's.
        args: What else it is called with.
        kwargs: The same, by name.
    """
    node = _begin(task, foresee)
    if node is None:
        return await original(task, *args, **kwargs)
    with _keeping_answers(node), within(current_node, node), AtWork(node.name):
        result = await original(task, *args, **kwargs)
    _send(node)
    return result


def _begin(task: Any, foresee: Callable[[Node], list[str]]) -> Node | None:
    """Begin a node; one that only runs tools asks about all of them before it runs any."""
    graph, run = _graph.get(), current_run.get()
    if graph is None or task.name not in graph.nodes or task.name.startswith(_HIDDEN) or not active():
        return None
    node = Node(task, graph)
    if run is not None:
        _take_answers(node, run)
    if node.is_tools and (questions := foresee(node)):
        with _keeping_answers(node):
            raise _stop_to_ask(node, questions)
    return node


def _send(node: Node) -> None:
    """Offer what a node writes; a node that runs tools for another sends nothing of its own."""
    if node.is_tools or not node.has_spoken:
        return
    writes = list(node.task.writes)
    tools = {
        name for name, node_spec in node.graph.nodes.items() if isinstance(getattr(node_spec, "bound", None), ToolNode)
    }
    nodes = following(writes)
    if tools.intersection(nodes):  # a call of a tool, no message yet
        return
    mail_before = Mail(node.text, receivers=nodes, following=nodes, is_last=not nodes, is_handoff=node.has_goto)
    mail = offer_mail(node.agent, mail_before, lambda: node.where, alias=node.task.name)
    if mail != mail_before:
        node.task.writes.clear()
        node.task.writes.extend(reroute(writes, mail_before, mail, node.graph.channels))
