"""What the agents of a team are called, and what they are told to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import Literal, TypeAlias

from blamespan_lab.wordings import say

__all__ = ["CASTS", "DUTIES", "Member", "Role", "cast_of", "instructions"]

Role: TypeAlias = Literal["planner", "researcher", "solver", "verifier", "reporter", "orchestrator", "debater", "judge"]
"""What an agent does. A team's code is written by its solver and tried by its verifier."""

_ROLE_NAMES: Mapping[Role, tuple[str, ...]] = MappingProxyType(
    {
        "planner": ("planner", "strategist", "coordinator"),
        "researcher": ("researcher", "retriever", "librarian"),
        "solver": ("solver", "analyst", "worker"),
        "verifier": ("verifier", "critic", "reviewer"),
        "reporter": ("reporter", "writer", "summariser"),
        "orchestrator": ("orchestrator", "manager", "lead"),
        "debater": ("debater", "panelist", "expert"),
        "judge": ("judge", "moderator", "aggregator"),
    }
)
_PEOPLE = (
    "Alice",
    "Boris",
    "Chen",
    "Dalia",
    "Emil",
    "Farah",
    "Goran",
    "Hana",
    "Ivo",
    "Jana",
    "Karim",
    "Lena",
    "Milo",
    "Nadia",
)
_SIGNS = (
    "alpha",
    "bravo",
    "charlie",
    "delta",
    "echo",
    "foxtrot",
    "golf",
    "hotel",
    "india",
    "juliett",
    "kilo",
    "lima",
    "mike",
)
_PLACES = (
    "north_desk",
    "south_desk",
    "east_desk",
    "west_desk",
    "front_desk",
    "back_desk",
    "upper_desk",
    "lower_desk",
    "side_desk",
)

CASTS: tuple[str, ...] = ("roles", "titles", "people", "neutral", "signs", "desks")
"""Kinds of names. In all but the first two a name says nothing of what its bearer does, and `people` wear the names of
other runs' people, in another order."""

DUTIES: Mapping[Role, tuple[str, ...]] = MappingProxyType(
    {
        "planner": ("You plan: [say|set out] in which order [things|the parts] are to be found and worked out.",),
        "researcher": (
            "You look things up with your tools and report what you found, [no more and no less|as it stands].",
        ),
        "solver": ("You work out the answer from what is known, [step by step|one thing after the other].",),
        "verifier": (
            "You check what the others say: work it out again or look it up again, and object where it is wrong.",
            "You verify the [results|figures] of the others [yourself|on your own], and correct what does not hold.",
        ),
        "reporter": ("You give the final answer [to the question|], from what the others found.",),
        "orchestrator": ("You lead the team: [say|decide] who is next and what they are to do.",),
        "debater": ("You work out the answer yourself, then weigh it against the others'.",),
        "judge": ("You weigh the answers of the others and give the one that stands.",),
    }
)
"""What each role is told. A verifier reads its duty: one that is not told to check, or to trust, checks nothing."""


@dataclass(frozen=True, slots=True)
class Member:
    """One agent of a team."""

    name: str
    role: Role


def cast_of(roles: Sequence[Role], cast: str, rng: Random) -> tuple[Member, ...]:
    """Give each of *roles* a name of the kind *cast*; each name once."""
    if cast in ("roles", "titles"):
        wanted = [_ROLE_NAMES[role][0 if cast == "roles" else rng.randint(1, 2)] for role in roles]
        names = [_numbered(name, wanted[:place]) for place, name in enumerate(wanted)]
    elif cast == "neutral":
        names = [f"Agent_{number}" for number in rng.sample(range(1, len(roles) + 1), k=len(roles))]
    else:
        pool = {"people": _PEOPLE, "signs": _SIGNS, "desks": _PLACES}[cast]
        drawn = rng.sample(pool, k=min(len(roles), len(pool)))
        wanted = [drawn[place % len(drawn)] for place in range(len(roles))]  # a large team: some bear a number
        names = [_numbered(name, wanted[:place]) for place, name in enumerate(wanted)]
    return tuple(Member(name, role) for name, role in zip(names, roles, strict=True))


def instructions(member: Member, team: Sequence[Member], closes: bool, rng: Random) -> str:
    """Write what *member* is told to be."""
    parts = [f"You are {member.name}, one of a team.", say(rng.choice(DUTIES[member.role]), rng)]
    others = [each.name for each in team if each.name != member.name]
    if others:
        parts.append(f"The others are {', '.join(others)}.")
    if closes:
        parts.append("When the question is answered [and nothing is left to do|], say APPROVED.")
    return say(" ".join(parts), rng)


def _numbered(name: str, taken: Sequence[str]) -> str:
    count = sum(1 for other in taken if other == name)
    return f"{name}_{count + 1}" if count else name
