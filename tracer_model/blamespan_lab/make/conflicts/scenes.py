"""Scenes: who states a rule, who asks otherwise, and what the agent does that is told both.

A rule stands in a system prompt, in the user's task, or in an orchestrator's message. Otherwise asks somebody of lower
rank: the user, a tool's answer, another agent. What an agent obeys is in the script, so that it is known.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from random import Random
from typing import Final, Literal, TypeAlias

from blamespan_lab.make.conflicts.recipe import ConflictRecipe
from blamespan_lab.make.simulation.agents.policy import Reply, RequestedCall
from blamespan_lab.make.simulation.random_stream import stable_seed
from blamespan_lab.make.wordings.banks import CONFLICTS, ConflictCase, ConflictKind
from blamespan_lab.make.wordings.choosing import pick, use_wordings

__all__ = ["MODES", "PAIRS", "Rank", "Scene", "SceneTurn", "Way", "make_scenes"]

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
