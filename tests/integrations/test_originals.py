"""Whoever wraps a framework's functions, and whoever leaves first: in the end each is the framework's own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

import blamespan
from blamespan.guarding.policy import parse_policy
from blamespan.intercepting import listeners
from tests.integrations.hosts import INSTALLED, host, recording

PREFIXES = {
    "autogen": ("autogen_",),
    "langgraph": ("langgraph", "langchain_core"),
    "agent_framework": ("agent_framework",),
}
"""How the modules of each framework begin."""
NOT_SET = ("__abstractmethods__", "_abc_impl", "__dict__", "__weakref__")
POLICY = parse_policy({"texts": [{"forbidden_pattern": "secret"}]})
WRAPPERS: dict[str, Callable[[str], AbstractContextManager[Any]]] = {
    "recording": recording,
    "guard": lambda _: blamespan.guard(POLICY),
    "faults": lambda _: blamespan.inject("aegis:FM-3.2"),
}


def everything_of(framework: str) -> dict[tuple[int, str], Any]:
    """Collect each attribute of each class and module of a framework that is loaded, by its owner's identity."""
    modules = {id(module): module for name, module in sys.modules.items() if name.startswith(PREFIXES[framework])}
    classes = {id(one): one for module in modules.values() for one in vars(module).values() if isinstance(one, type)}
    return {
        (key, name): value.__func__ if isinstance(value, staticmethod) else value
        for key, owner in (modules | classes).items()
        for name, value in vars(owner).items()
        if name not in NOT_SET
    }


@pytest.mark.parametrize(
    ("one", "other", "is_first_in_first_out"),
    [
        ("recording", "guard", True),
        ("guard", "recording", True),
        ("recording", "faults", True),
        ("faults", "recording", True),
        ("recording", "guard", False),
        ("guard", "faults", True),
        ("faults", "faults", False),
    ],
)
@pytest.mark.parametrize("framework", INSTALLED)
def test_originals_come_back_in_whatever_order_wrappers_leave(
    framework: str, one: str, other: str, is_first_in_first_out: bool
) -> None:
    """Each attribute of each class and module of the framework is the very object it was, and none is new."""
    host(framework)  # loads it
    for name in (one, other):
        with WRAPPERS[name](framework):  # loads what is loaded late
            pass
    before = everything_of(framework)
    first, second = WRAPPERS[one](framework), WRAPPERS[other](framework)
    first.__enter__()
    inside = everything_of(framework)
    second.__enter__()
    (first if is_first_in_first_out else second).__exit__(None, None, None)
    still_inside = everything_of(framework)
    (second if is_first_in_first_out else first).__exit__(None, None, None)
    after = everything_of(framework)

    assert all(any(now[key] is not value for key, value in before.items()) for now in (inside, still_inside))
    assert after.keys() == before.keys()
    assert [key for key, value in before.items() if after[key] is not value] == []
    assert listeners.active() == ()
