"""The agents of a team: their roles and names, what they are told to be, and how each of them writes.

How an agent writes, to the point or at length, goes by the run's seed and the agent's name alone: whether anything goes
wrong has no part in it. What a wordy agent adds states no value and no rule, and is read as nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Literal, TypeAlias

from blamespan_lab.make.data_files import read_data_file
from blamespan_lab.make.simulation.random_stream import RandomStream
from blamespan_lab.make.simulation.statements.writing import end_sentence, fill_phrase
from blamespan_lab.make.wordings import choose, choose_alternatives
from blamespan_lab.make.wordings.banks import ELABORATION

Role: TypeAlias = Literal["planner", "researcher", "solver", "verifier", "reporter", "orchestrator", "debater", "judge"]
"""What an agent does."""


@dataclass(frozen=True, slots=True)
class _TeamWords:
    """Names and duties; `titles` has three names for each role, the plain one first."""

    people: tuple[str, ...]
    signs: tuple[str, ...]
    desks: tuple[str, ...]
    titles: Mapping[Role, tuple[str, str, str]]
    duties: Mapping[Role, tuple[str, ...]]


_WORDS = read_data_file(_TeamWords, Path(__file__).with_suffix(".toml"))

CASTS: tuple[str, ...] = ("roles", "titles", "people", "neutral", "signs", "desks")
"""Kinds of names. In all but the first two a name says nothing of what its bearer does, and `people` wear the names of
other runs' people, in another order."""

DUTIES: Mapping[Role, tuple[str, ...]] = _WORDS.duties
"""What each role is told. A verifier reads its duty: one that is not told to check, or to trust, checks nothing."""


@dataclass(frozen=True, slots=True)
class TeamMember:
    """One agent of a team."""

    name: str
    role: Role


def name_team(roles: Sequence[Role], cast: str, rng: Random) -> tuple[TeamMember, ...]:
    """Name the *roles* by the kind *cast*, each name once."""
    if cast in ("roles", "titles"):
        wanted = [_WORDS.titles[role][0 if cast == "roles" else rng.randint(1, 2)] for role in roles]
        names = [_number_name(name, wanted[:index]) for index, name in enumerate(wanted)]
    elif cast == "neutral":
        names = [f"Agent_{number}" for number in rng.sample(range(1, len(roles) + 1), k=len(roles))]
    else:
        pool = {"people": _WORDS.people, "signs": _WORDS.signs, "desks": _WORDS.desks}[cast]
        drawn = rng.sample(pool, k=min(len(roles), len(pool)))
        wanted = [drawn[index % len(drawn)] for index in range(len(roles))]  # a large team: some bear a number
        names = [_number_name(name, wanted[:index]) for index, name in enumerate(wanted)]
    return tuple(TeamMember(name, role) for name, role in zip(names, roles, strict=True))


def write_instructions(member: TeamMember, team: Sequence[TeamMember], closes: bool, rng: Random) -> str:
    """Write what *member* is told to be."""
    parts = [f"You are {member.name}, one of a team.", choose_alternatives(rng.choice(DUTIES[member.role]), rng)]
    others = [other.name for other in team if other.name != member.name]
    if others:
        parts.append(f"The others are {', '.join(others)}.")
    if closes:
        parts.append("When the question is answered [and nothing is left to do|], say APPROVED.")
    return choose_alternatives(" ".join(parts), rng)


def _number_name(name: str, taken: Sequence[str]) -> str:
    count = sum(1 for other in taken if other == name)
    return f"{name}_{count + 1}" if count else name


_SHARES = (0.1, 0.3, 0.6)
"""Of wordy agents in a team; a third over all teams."""
_LAYOUTS: tuple[Literal["plain", "bold", "headings"], ...] = ("plain", "plain", "bold", "headings")


@dataclass(frozen=True, slots=True)
class WritingStyle:
    """How one agent writes throughout a run.

    Attributes:
        is_wordy: Whether it puts anything around what it says.
        layout: Whether the parts of its messages stand under headings.
    """

    is_wordy: bool = False
    layout: Literal["plain", "bold", "headings"] = "plain"

    def wrap(self, message: str, role: Role, phrase: str, *, is_known: bool, rng: Random) -> str:
        """Put what is asked before a message and a recap behind it.

        Args:
            message: The message.
            role: The agent's.
            phrase: What the question asks for.
            is_known: Whether there is an answer.
            rng: Chooses the wording.
        """
        if not self.is_wordy:
            return message
        recaps = ELABORATION.recaps_known if is_known else ELABORATION.recaps_open
        recaps = ELABORATION.recaps_orchestrator if role == "orchestrator" else recaps
        intro, recap = choose(ELABORATION.intros[role], rng), choose(recaps, rng)
        remarks = [choose(ELABORATION.remarks, rng) for _ in range(rng.choice((0, 1, 2, 2, 3)))]
        parts = {
            "task": fill_phrase(intro, phrase),
            "work": message,
            "recap": " ".join(dict.fromkeys([*remarks, fill_phrase(recap, phrase)])),
        }
        return "\n\n".join(self._add_heading(name, text, rng) for name, text in parts.items())

    def add_reason(self, statement: str, phrase: str, basis: str, rng: Random) -> str:
        """Write before a statement how one comes to it, most of the time.

        Args:
            statement: The statement, without its full stop.
            phrase: What it is about.
            basis: What it rests on; empty for what a tool told.
            rng: Chooses the wording.
        """
        if not self.is_wordy or rng.random() < 0.25:
            return statement
        bank = ELABORATION.reasons if basis else ELABORATION.sourced
        why = fill_phrase(choose(bank, rng), phrase).replace("{given}", f"the {basis}")
        after = choose(ELABORATION.afterthoughts, rng) if rng.random() < 0.3 else ""
        return f"{why} {end_sentence(statement)} {after}".strip()

    def _add_heading(self, name: str, text: str, rng: Random) -> str:
        if self.layout == "plain":
            return text
        heading = choose(ELABORATION.headings[name], rng)
        return f"## {heading}\n{text}" if self.layout == "headings" else f"**{heading}**\n{text}"


TERSE = WritingStyle()
"""Writes what it has to say and no more."""


def draw_style(seed: int, name: str) -> WritingStyle:
    """Draw how the agent *name* of the run *seed* writes."""
    share = RandomStream("voice", seed).rng("share").choice(_SHARES)
    rng = RandomStream("voice", seed, name).rng("own")
    return WritingStyle(rng.random() < share, rng.choice(_LAYOUTS))
