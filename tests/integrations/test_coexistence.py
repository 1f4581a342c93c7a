"""Beside other instrumentations, in any order: nothing of ours doubled, no parent broken, everything given back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from functools import cache
from importlib.util import find_spec
from typing import Any

import pytest

from tests.integrations.coexistence_programs import PEERS

ORDERS = (
    "+ours +peer run -ours run -peer run",
    "+peer +ours run -ours run -peer run",
    "+ours +peer run -peer run -ours run",
    "+ours +peer run -ours +ours run -peer -ours",
    "+peer +ours run -peer run -ours run",
)
pytestmark = pytest.mark.slow

FRAMEWORKS = {"autogen": "autogen_agentchat", "langgraph": "langgraph"}
OURS = {
    "autogen": [
        "invoke_workflow RoundRobinGroupChat",
        *("invoke_agent solver", "chat ReplayChatCompletionClient", "execute_tool add"),
        *("invoke_agent checker", "chat ReplayChatCompletionClient"),
    ],
    "autogen_openai": ["invoke_workflow RoundRobinGroupChat", "invoke_agent solver", "chat gpt-4o"],
    "langgraph": [
        "invoke_workflow calculator",
        *("invoke_agent solver", "chat ScriptedModel", "execute_tool add"),
        *("invoke_agent solver", "chat ScriptedModel", "invoke_agent checker", "chat ScriptedModel"),
    ],
    "langgraph_openai": ["invoke_workflow chain", "invoke_agent solver"],
}
"""What we record of each program when nobody else is there."""


def installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def runs(peer: str, order: str) -> list[dict[str, Any]]:
    """Give what came of *order*; a process of its own went through all orders of a peer."""
    module, _, program = PEERS[peer]
    needed = [module, FRAMEWORKS[program.partition("_")[0]], *(["tiktoken"] if program == "autogen_openai" else [])]
    missing = [name for name in needed if not installed(name)]
    if missing:
        pytest.skip(f"not installed here: {', '.join(missing)}; the dev group of pyproject.toml has it")
    return all_runs(peer)[ORDERS.index(order)]


@cache
def all_runs(peer: str) -> list[list[dict[str, Any]]]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.integrations.coexistence_programs", peer, *ORDERS],
        env={key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "BLAMESPAN_"))},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[list[dict[str, Any]]] = json.loads(done.stdout)
    return found


def ours(run: dict[str, Any]) -> list[str]:
    return [name for scope, name, _, _ in run["spans"] if scope.startswith("blamespan.")]


@pytest.mark.parametrize("first", ["ours", "peer"])
@pytest.mark.parametrize("peer", PEERS)
def test_order_of_activation_does_not_matter(peer: str, first: str) -> None:
    """Whoever is switched on first: our spans are what they are alone, in one trace, and the peer's are there."""
    program = PEERS[peer][2]
    second = "peer" if first == "ours" else "ours"

    both, one, none = runs(peer, f"+{first} +{second} run -ours run -peer run")

    assert Counter(ours(both)) == Counter(OURS[program])
    assert "?" not in [parent for _, _, parent, _ in both["spans"]]
    assert len({trace for scope, _, _, trace in both["spans"] if scope.startswith("blamespan.")}) == 1
    assert len(both["spans"]) > len(ours(both))
    assert (ours(one), len(one["spans"]) > 0) == ([], True)
    assert none["spans"] == []
    assert both["answer"] == one["answer"] == none["answer"]


@pytest.mark.parametrize("first", ["ours", "peer"])
@pytest.mark.parametrize("peer", ["openinference-langchain"])
def test_a_graphs_run_is_one_trace_of_all(peer: str, first: str) -> None:
    """Spans of another instrumentation of the same callbacks belong to the trace of our run, whoever was on first."""
    both, *_ = runs(peer, f"+{first} +{'peer' if first == 'ours' else 'ours'} run -ours run -peer run")

    assert len({trace for _, _, _, trace in both["spans"]}) == 1
    assert [name for _, name, parent, _ in both["spans"] if parent == ""] == ["invoke_workflow calculator"]


@pytest.mark.parametrize("first", ["ours", "peer"])
@pytest.mark.parametrize("peer", PEERS)
def test_peer_that_leaves_takes_nothing_along(peer: str, first: str) -> None:
    """When the peer is switched off, we go on recording and it does not; then nobody does."""
    program = PEERS[peer][2]
    second = "peer" if first == "ours" else "ours"

    both, one, none = runs(peer, f"+{first} +{second} run -peer run -ours run")

    assert Counter(ours(one)) == Counter(OURS[program])  # also where the peer puts back what it found before us
    assert len(one["spans"]) == len(ours(one))
    assert none["spans"] == []
    assert both["answer"] == one["answer"] == none["answer"]


def test_switching_on_again_beside_a_peer_records_once() -> None:
    """Our wrapper within a peer's steps aside for good: switched on again, we record once."""
    _, last = runs("openinference-autogen", "+ours +peer run -ours +ours run -peer -ours")

    assert Counter(ours(last)) == Counter(OURS["autogen"])


def test_peers_model_call_stands_below_our_agent() -> None:
    """A call of OpenAI's own client within an agent nests under it, so that its tokens find their agent."""
    for peer, parent in (("genai-openai", "invoke_agent solver"), ("genai-openai-autogen", "chat gpt-4o")):
        run, *_ = runs(peer, "+peer +ours run -ours run -peer run")

        assert [p for scope, _, p, _ in run["spans"] if not scope.startswith("blamespan.")] == [parent]
