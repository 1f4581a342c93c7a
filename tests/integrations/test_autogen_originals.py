"""Beside another instrumentation of AutoGen, switched on and off in any order, everything is given back as it was."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from autogen_agentchat import agents, teams
from autogen_core import tools
from autogen_ext.models import openai
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor
from opentelemetry.sdk.trace import TracerProvider

from blamespan_integrations.autogen import AutoGenInstrumentor

MOST_SWITCHES = 6


def orders() -> Iterator[list[str]]:
    """Yield every order of switching two instrumentations on and off that ends with both off."""
    for length in range(2, MOST_SWITCHES + 1):
        for names in product(("ours", "peer"), repeat=length):
            signs = ["+" if names[:place].count(name) % 2 == 0 else "-" for place, name in enumerate(names)]
            if names.count("ours") % 2 == names.count("peer") % 2 == 0:
                yield [f"{sign}{name}" for sign, name in zip(signs, names, strict=True)]


def methods() -> dict[str, Any]:
    classes = [BaseInstrumentor]
    for module in (agents, teams, tools, openai):
        for found in vars(module).values():
            classes += [one for one in getattr(found, "__mro__", ()) if one is not object]
    return {f"{one.__module__}.{one.__name__}.{name}": value for one in classes for name, value in vars(one).items()}


def test_originals_come_back_after_any_order() -> None:
    """Each method is the very one that was there, whoever was on first and whoever left first."""
    peer = pytest.importorskip("openinference.instrumentation.autogen_agentchat").AutogenAgentChatInstrumentor()
    instrumentors, provider = {"ours": AutoGenInstrumentor(), "peer": peer}, TracerProvider(shutdown_on_exit=False)
    before, left = methods(), {}
    for order in orders():
        for step in order:
            if step[0] == "+":
                instrumentors[step[1:]].instrument(tracer_provider=provider, skip_dep_check=True)
            else:
                instrumentors[step[1:]].uninstrument()
        after = methods()
        if changed := [name for name, value in before.items() if after[name] is not value and name[-9:] != "_abc_impl"]:
            left[" ".join(order)] = changed
            break

    assert left == {}
