"""Runs in which instructions disagree, with a known winner: scenes, played in the real frameworks, and their corpus."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Final, Literal, TypeAlias

from blamespan.errors import BlamespanError, MissingExtra
from blamespan.otlp import spans_to_json
from blamespan.otlp.sdk import span_from_sdk
from blamespan.rebuilding.rebuild import rebuild
from blamespan.spans import Span
from blamespan.trace import MessageActionTrace
from blamespan_lab.console import show_progress
from blamespan_lab.make.corpus.storage import check_is_new, compress_documents, write_ending
from blamespan_lab.make.recording import Recording
from blamespan_lab.make.run_labels import Decisive, FaultLabel, Purpose, RunLabel
from blamespan_lab.make.simulation.agents.policy import InputMessage, Reply, RequestedCall, ToolSpec
from blamespan_lab.make.simulation.agents.team import TeamMember
from blamespan_lab.make.simulation.program import await_unless_stuck
from blamespan_lab.make.simulation.random_stream import stable_seed
from blamespan_lab.make.simulation.simulated_run import CURRENT_RUN, SimulatedRun
from blamespan_lab.make.simulation.statements.reading import TaskLexicon
from blamespan_lab.make.simulation.tasks.task import Task, Tool
from blamespan_lab.make.wordings.banks import CONFLICTS, ConflictCase, ConflictKind
from blamespan_lab.make.wordings.choosing import pick, use_wordings
from blamespan_lab.recipes import Count, Listed, PositiveCount, require_known


@dataclass(frozen=True, slots=True)
class ConflictRecipe:
    """Everything that decides what conflicts come out.

    Attributes:
        name: The recipe's.
        kind: `conflicts`: tells these recipes from those of other runs.
        seed: Chooses words, names and cases.
        runs: How many. Of six, two are failures, two are conflicts in which the rule is kept, and two are no conflict.
        wordings: Half of the wordings that words are taken from; of kinds that nothing was developed on, all.
        kinds: Of rules.
        frameworks: That run them.
    """

    name: str
    kind: Literal["conflicts"] = "conflicts"
    seed: Count = 0
    runs: PositiveCount = 480
    wordings: Literal["all", "first", "second"] = "second"
    kinds: Listed[str] = tuple(CONFLICTS.kinds)
    frameworks: Listed[Literal["autogen", "langgraph"]] = ("autogen", "langgraph")

    def __post_init__(self) -> None:
        require_known(self.name, "kinds", self.kinds, list(CONFLICTS.kinds))


Rank: TypeAlias = Literal["system", "user", "orchestrator", "agent", "tool"]
Way: TypeAlias = Literal["broken", "kept", "none", "agreeing", "replaced"]
"""What is asked otherwise is obeyed; the rule is; nobody asks otherwise; somebody asks for what the rule says; who
stated the rule, or somebody of a higher rank, asks otherwise later and is obeyed."""

PAIRS: Final[tuple[tuple[Rank, Rank], ...]] = (
    ("system", "user"),
    ("user", "tool"),
    ("system", "agent"),
    ("orchestrator", "agent"),
    ("system", "tool"),
    ("user", "agent"),
)
"""Who states the rule, and who asks otherwise."""

MODES: Final[Mapping[Rank, str]] = {"system": "mast:FM-1.2", "user": "mast:FM-1.1", "orchestrator": "mast:FM-2.5"}
"""What it is called to break the rule of somebody for somebody else than a tool."""

_INJECTED: Final = "blamespan:X7"
_WAYS: Final[tuple[Way, ...]] = ("broken", "kept", "broken", "kept", "none", "agreeing")
_LOOKS_UP: Final = "look_up"
_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "orchestrator": ("coordinator", "supervisor", "team_lead", "manager"),
    "agent": ("helper", "researcher", "analyst", "reviewer"),
    "writer": ("assistant", "writer", "clerk", "agent_1"),
}
_WAITS: Final = ("One moment, please.", "I look into it.")
_DONE: Final = "Done."


@dataclass(frozen=True, slots=True)
class SceneTurn:
    """What somebody does when it is their turn: an agent's replies, one for each time its model is asked, or a word.

    Attributes:
        speaker: Name of the agent, or `user`.
        replies: Of an agent's model, in order.
        text: What the user says.
    """

    speaker: str
    replies: tuple[Reply, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class Scene:
    """One run to be played, and what is known of it.

    Attributes:
        number: Of the scene in its recipe.
        kind: Of the rule.
        pair: Who states it, and who asks otherwise.
        way: What happens.
        framework: That runs it.
        task: What the user asks first.
        turns: What is said, in order.
        system: What each agent is told to be, by name.
        tools: What the tools answer, by name; the writer has them all.
        writer: Name of the agent that is told both.
        act: What the writer does in the end: a text, or the name of the tool that it calls.
        is_call: Whether it calls a tool.
    """

    number: int
    kind: str
    pair: tuple[Rank, Rank]
    way: Way
    framework: Literal["autogen", "langgraph"]
    task: str
    turns: tuple[SceneTurn, ...]
    system: Mapping[str, str]
    tools: Mapping[str, str]
    writer: str
    act: str
    is_call: bool

    @property
    def mode(self) -> str:
        """What it is called to obey the lower one, `taxonomy:code`."""
        return _INJECTED if self.pair[1] == "tool" else MODES[self.pair[0]]


def make_scenes(recipe: ConflictRecipe) -> Iterator[Scene]:
    """Yield the scenes of a recipe, the same for the same recipe."""
    for number in range(recipe.runs):
        name = recipe.kinds[number % len(recipe.kinds)]
        rng = Random(stable_seed("conflict", recipe.seed, number))  # noqa: S311  # draws words, no secrets
        with use_wordings("all" if name in CONFLICTS.held_out else recipe.wordings):
            yield _make_scene(recipe, number, name, rng)


def _make_scene(recipe: ConflictRecipe, number: int, name: str, rng: Random) -> Scene:
    pair, way = rng.choice(PAIRS), _WAYS[number // len(recipe.kinds) % len(_WAYS)]
    if way == "agreeing" and pair in (("orchestrator", "agent"), ("system", "user")) and rng.random() < 0.5:
        way = "replaced"
        pair = ("user", "user") if pair == ("system", "user") else ("agent", "orchestrator")
    kind = CONFLICTS.kinds[name]
    case = pick(kind.cases, rng)
    act = pick(case.broken if way in ("broken", "replaced") else case.kept, rng)
    names = {role: pick(of_role, rng) for role, of_role in _NAMES.items()}
    rule, ask = _fill(pick(kind.rules, rng), case), _make_ask(kind, case, way, rng)
    writer = names["writer"]
    replies, tools = _act(act)
    system = {agent: f"{pick(CONFLICTS.roles, rng)} You are the {agent}." for agent in names.values()}
    system[names["orchestrator"]] += " You coordinate the others."
    task, turns = case.question, []
    if pair[0] == "system":
        system[writer] = f"{system[writer]} {rule}" if rng.random() < 0.7 else f"{rule}\n{system[writer]}"
    elif pair[0] == "user":
        task = f"{case.question} {rule}" if rng.random() < 0.5 else f"{rule}\n\n{case.question}"
    else:
        turns.append(SceneTurn(names[pair[0]], (Reply(rule),)))
    if pair[1] == "user" and (pair[0] == "user" or rng.random() < 0.5):
        turns += [SceneTurn(writer, (Reply(pick(_WAITS, rng)),)), SceneTurn("user", text=ask)]
    elif pair[1] == "user":
        task = f"{task} {ask}"
    elif pair[1] == "tool":
        tools[_LOOKS_UP] = f"{pick(CONFLICTS.pages, rng)}\n{ask}"
        replies = (Reply(calls=(RequestedCall.of(_LOOKS_UP, {"query": case.question}),)), *replies)
    else:
        turns.append(SceneTurn(names[pair[1]], (Reply(ask),)))
    turns.append(SceneTurn(writer, replies))
    speakers = {turn.speaker for turn in turns}
    call = next((call.name for reply in replies for call in reply.calls if call.name != _LOOKS_UP), "")
    return Scene(
        number,
        name,
        pair,
        way,
        rng.choice(recipe.frameworks),
        task,
        tuple(turns),
        {agent: text for agent, text in system.items() if agent in speakers},
        tools,
        writer,
        call or act,
        bool(call),
    )


def _make_ask(kind: ConflictKind, case: ConflictCase, way: Way, rng: Random) -> str:
    """Write what is asked: otherwise, the same, or nothing at all."""
    if way == "none":
        return pick(CONFLICTS.neutral, rng)
    return _fill(pick(kind.agreeing if way == "agreeing" else kind.asks, rng), case)


def _fill(text: str, case: ConflictCase) -> str:
    slots = {key: value for key, value in asdict(case).items() if isinstance(value, str)}
    filled = text.format(**slots)
    return filled[:1].upper() + filled[1:] if not text.startswith(("{x}", "{y}")) else filled


def _act(act: str) -> tuple[tuple[Reply, ...], dict[str, str]]:
    """Return the replies of an agent that does this, and its tools with what they answer."""
    if not act.startswith("@call "):
        return (Reply(act),), {}
    name, _, arguments = act.removeprefix("@call ").partition(" ")
    texts = {key: str(value) for key, value in json.loads(arguments).items()}  # simulated tools take texts
    return (Reply(calls=(RequestedCall.of(name, texts),)), Reply(_DONE)), {name: "ok"}


_USER = "user"


def play(scene: Scene) -> None:
    """Play a scene once. Spans go where `blamespan.instrument()` was told.

    Raises:
        MissingExtra: if the scene's framework is not installed.
        StuckError: if the framework waits for something that never comes.
    """
    run = _prepare(scene)
    perform = _perform_autogen if scene.framework == "autogen" else _perform_langgraph
    try:
        asyncio.run(await_unless_stuck(perform(scene, run)))
    except ImportError as error:
        raise MissingExtra(str(error)) from error


@dataclass
class _ScriptedPolicy:
    """An agent's model that answers what its script says, whatever it is sent."""

    replies: list[Reply]
    index: int = field(default=0)

    def reply(self, messages: Sequence[InputMessage], tools: Sequence[ToolSpec]) -> Reply:
        """Return the next reply."""
        del messages, tools
        self.index += 1
        return self.replies[self.index - 1]


def _prepare(scene: Scene) -> SimulatedRun:
    replies: dict[str, list[Reply]] = {}
    for turn in scene.turns:
        if turn.speaker != _USER:
            replies.setdefault(turn.speaker, []).extend(turn.replies)
    calls = [call for turn in scene.turns for reply in turn.replies for call in reply.calls]
    tools = [_make_tool(name, answer, _argument_names(calls, name)) for name, answer in scene.tools.items()]
    return SimulatedRun(
        Task("conflicts", scene.task, TaskLexicon({}, ""), (), tuple(tools), {}, ()),
        tuple(TeamMember(name, "solver") for name in replies),
        {name: _ScriptedPolicy(own) for name, own in replies.items()},
        scene.system,
        {name: frozenset(scene.tools if name == scene.writer else ()) for name in replies},
    )


def _argument_names(calls: Sequence[Any], name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for call in calls if call.name == name for key in json.loads(call.arguments)))


def _make_tool(name: str, answer: str, arguments: tuple[str, ...]) -> Tool:
    return Tool(name, name.replace("_", " ").capitalize() + ".", dict.fromkeys(arguments, "a text"), lambda **_: answer)


async def _perform_langgraph(scene: Scene, run: SimulatedRun) -> None:
    """Run a graph with a node for each agent; what the user says later came before the run, with what was said."""
    from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
    from langgraph.graph import END, START, MessagesState, StateGraph

    from blamespan_lab.make.simulation.model_clients.langchain import PolicyModel
    from blamespan_lab.make.simulation.topologies.langgraph import take_turn

    told: list[AnyMessage] = [HumanMessage(scene.task)]
    last_of_user = max((index for index, turn in enumerate(scene.turns) if turn.speaker == _USER), default=-1)
    for turn in scene.turns[: last_of_user + 1]:
        if turn.speaker == _USER:
            told.append(HumanMessage(turn.text))
        else:
            told += [AIMessage(run.policies[turn.speaker].reply((), ()).text, name=turn.speaker) for _ in turn.replies]
    order = [turn.speaker for turn in scene.turns[last_of_user + 1 :]]

    def make_node(name: str) -> Any:  # LangGraph spells its type as a protocol of ten
        model = PolicyModel(agent=name)

        async def node(state: MessagesState) -> dict[str, Any]:
            return {"messages": await take_turn(model, state["messages"])}  # type: ignore[arg-type]  # messages of any kind are messages

        return node

    graph = StateGraph(MessagesState)
    for name, before in zip(order, (START, *order), strict=False):
        graph.add_node(name, make_node(name))
        graph.add_edge(before, name)
    graph.add_edge(order[-1], END)
    token = CURRENT_RUN.set(run)
    try:
        await graph.compile().ainvoke({"messages": told})
    finally:
        CURRENT_RUN.reset(token)


async def _perform_autogen(scene: Scene, run: SimulatedRun) -> None:
    """Run a team whose members speak in the scene's order; the user is one of them where they speak again."""
    from autogen_agentchat.agents import UserProxyAgent
    from autogen_agentchat.base import ChatAgent
    from autogen_agentchat.conditions import MaxMessageTermination
    from autogen_agentchat.teams import DiGraphBuilder, GraphFlow, RoundRobinGroupChat

    from blamespan_lab.make.simulation.topologies.autogen import make_agent

    order = [turn.speaker for turn in scene.turns]
    texts = iter([turn.text for turn in scene.turns if turn.speaker == _USER])
    members: dict[str, ChatAgent] = {name: make_agent(run, name) for name in dict.fromkeys(order) if name != _USER}
    if _USER in order:
        members[_USER] = UserProxyAgent(_USER, input_func=lambda _: next(texts))
    if max(Counter(order).values()) > 1:
        names = list(dict.fromkeys(order))
        team: Any = RoundRobinGroupChat(
            [members[name] for name in names], termination_condition=MaxMessageTermination(1 + len(order))
        )
    else:
        builder = DiGraphBuilder()
        for name in order:
            builder.add_node(members[name])
        for name, following in pairwise(order):
            builder.add_edge(name, following)
        team = GraphFlow(list(members.values()), builder.build())
    await team.run(task=scene.task)


_PURPOSES: Final[dict[str, Purpose]] = {"broken": "faulty", "kept": "harmless"}


@dataclass(frozen=True, slots=True)
class PlayedConflict:
    """A scene as it was recorded.

    Attributes:
        scene: What was played.
        spans: The run's, and
        trace: the run, rebuilt from them.
        step: Index of the step at which the writer does what it does.
    """

    scene: Scene
    spans: tuple[Span, ...]
    trace: MessageActionTrace
    step: int

    @property
    def is_broken(self) -> bool:
        """Whether the writer obeys who has the lower rank."""
        return self.scene.way == "broken"

    def label(self, recipe: str) -> RunLabel:
        """Return what is known of the run, made by the recipe of this name."""
        scene, step = self.scene, self.trace.steps[self.step]
        place = (step.agent, step.index, step.span_id, (scene.mode,) if self.is_broken else ())
        return RunLabel(
            trace_id=self.trace.trace_id,
            outcome="failure" if self.is_broken else "success",
            purpose=_PURPOSES.get(scene.way, "clean"),
            family=scene.kind,
            topology=" over ".join(scene.pair),
            framework=scene.framework,
            cast="",
            seed=scene.number,
            decisive=Decisive(*place) if self.is_broken else None,
            faults=(FaultLabel(*place, "response", f"conflict:{scene.kind}"),) if self.is_broken else (),
            carried_by=(),
            twin="",
            verified=self.is_broken,
            recipe=recipe,
        )


def played_conflicts(recipe: ConflictRecipe, recording: Recording) -> Iterator[PlayedConflict]:
    """Play the scenes of *recipe*, in order; the same recipe gives the same runs.

    Raises:
        BlamespanError: if a run lacks the step that its script ends with: a framework left it out.
    """
    for scene in make_scenes(recipe):
        _, recorded = recording.record(repr((recipe.seed, recipe.wordings, scene.number)), lambda s=scene: play(s))  # type: ignore[misc]  # bound in the loop
        spans = tuple(span_from_sdk(span) for span in recorded)
        trace = rebuild(spans)
        yield PlayedConflict(scene, spans, trace, _find_act(scene, trace))


def _find_act(scene: Scene, trace: MessageActionTrace) -> int:
    for step in reversed(trace.steps):
        is_act = step.content.startswith(f"{scene.act}(") if scene.is_call else step.content.endswith(scene.act)
        if step.agent == scene.writer and is_act and (step.kind == "tool_call") == scene.is_call:
            return step.index
    raise BlamespanError(f"expected {scene.writer} to do {scene.act!r:.80} in scene {scene.number}, got no such step")


def generate_conflicts(recipe: ConflictRecipe, out: Path) -> dict[str, Any]:
    """Make the runs of *recipe* in *out*, and return their description.

    Args:
        recipe: What to make.
        out: New or empty.

    Raises:
        ConfigError: if *out* holds anything.
        BlamespanError: if *out* cannot be written.
        MissingExtra: if a framework is not installed.
    """
    check_is_new(out)
    documents: list[str] = []
    labels: list[RunLabel] = []
    with Recording() as recording:
        for played in show_progress(played_conflicts(recipe, recording), "playing", total=recipe.runs):
            documents.append(spans_to_json(played.spans))
            labels.append(played.label(recipe.name))
    tally = Counter(f"kept: {label.purpose}" for label in labels) + Counter(f"kind: {label.family}" for label in labels)
    try:
        (out / "runs").mkdir(parents=True, exist_ok=True)
        (out / "runs" / "0000.jsonl.gz").write_bytes(compress_documents(documents))
        return write_ending(out, labels, asdict(recipe), tally)
    except OSError as error:
        raise BlamespanError(f"expected a folder that can be written, got {error}. Name another with --out") from error
