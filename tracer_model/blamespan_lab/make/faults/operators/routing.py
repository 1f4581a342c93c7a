"""Operators on messages between agents: lost, sent astray, sent back, many times over, or to everybody."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from types import MappingProxyType
from typing import TypeAlias

from blamespan.intercepting.boundaries import Mail, Opportunity

RoutingOperator: TypeAlias = Callable[[Mail, Opportunity, Random], Mail | None]
"""Gives the message as it goes astray, or None where that cannot be."""


def lose_message(mail: Mail, at: Opportunity, rng: Random) -> Mail | None:
    """Have nobody hear it."""
    return replace(mail, receivers=()) if mail.receivers else None


def send_many(mail: Mail, at: Opportunity, rng: Random) -> Mail | None:
    """Have everybody hear it again and again."""
    return replace(mail, copies=mail.copies * rng.randint(4, 8)) if mail.receivers else None


def misroute(mail: Mail, at: Opportunity, rng: Random) -> Mail | None:
    """Have somebody else go on than who should."""
    others = [name for name in at.others if name not in mail.following]
    return replace(mail, following=(rng.choice(others),)) if mail.following and others else None


def send_back(mail: Mail, at: Opportunity, rng: Random) -> Mail | None:
    """Have the one go on who spoke before, instead of the next."""
    if not (mail.following or mail.is_last):
        return None
    before = [name for name in at.run.speakers if name != at.agent and name in at.others]
    if not before or mail.following == (before[-1],):
        return None
    return replace(mail, following=(before[-1],))


def send_to_all(mail: Mail, at: Opportunity, rng: Random) -> Mail | None:
    """Have everybody go on at once."""
    everybody = tuple(dict.fromkeys((*mail.following, *at.others)))
    return replace(mail, following=everybody) if mail.following and len(everybody) > len(mail.following) else None


ROUTING_OPERATORS: Mapping[str, RoutingOperator] = MappingProxyType(
    {
        operator.__name__.replace("_", "-"): operator
        for operator in (lose_message, send_many, misroute, send_back, send_to_all)
    }
)
"""Operators on a message's way, by name."""
