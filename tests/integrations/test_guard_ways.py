"""No way leads to a forbidden tool, in either framework; without the guard every one does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from autogen_core import CancellationToken
from autogen_core.tools import FunctionTool, TextResultContent, ToolOverride, ToolResult
from autogen_ext.tools.mcp import McpWorkbench, StdioServerParams
from langchain_core.tools import StructuredTool

import blamespan
from blamespan.guarding.policy import parse_policy
from tests.integrations.guard_ways import AUTOGEN_WAYS, FORBIDDEN, LANGGRAPH_WAYS, PYTHON_CODES, SHELL_CODES, Way, code

WAYS = AUTOGEN_WAYS | LANGGRAPH_WAYS
FORBIDS = parse_policy({"agents": {"clerk": {"forbidden": [FORBIDDEN]}}})
OTHER = parse_policy(
    {
        "agents": {
            "clerk": {"forbidden": ["something_else"], "code": [FORBIDDEN]},
            "somebody": {"forbidden": [FORBIDDEN]},
        }
    }
)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_no_way_leads_to_a_forbidden_tool(way: Way) -> None:
    """Whatever the way, the tool is never called."""
    sent: list[Any] = []
    with blamespan.guard(FORBIDS) as guard:
        for seed in range(WAYS[way]):
            way(seed, sent)

    assert sent == []
    assert guard.counts["block"] >= WAYS[way]
    assert not guard.counts["error"]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_every_way_leads_to_a_tool_that_is_not_forbidden(way: Way) -> None:
    """The sound twin: the same program calls its tool where another one is forbidden, and without a guard."""
    guarded: list[Any] = []
    unguarded: list[Any] = []
    seed = 0 if way.__name__.startswith("code") else 12  # the first piece of code calls it by its name
    with blamespan.guard(OTHER) as guard:
        way(seed, guarded)
    way(seed, unguarded)

    assert set(guarded) == set(unguarded) != set()  # a paused graph may call it again
    assert not guard.counts


ALL_CODES = len(PYTHON_CODES) + len(SHELL_CODES)


@pytest.mark.parametrize("seed", range(ALL_CODES))
def test_code_that_calls_a_forbidden_tool_is_not_run(seed: int) -> None:
    """Each piece of code reaches the tool where nobody guards it, and does not where somebody does."""
    free: list[Any] = []
    guarded: list[Any] = []
    code(seed, free)
    with blamespan.guard(FORBIDS) as guard:
        code(seed, guarded)

    assert free != []
    assert guarded == []
    assert guard.counts["block"] == 1


def prepare_autogen(function: Any) -> tuple[Any, Callable[[], object]]:
    proper, other = (FunctionTool(function, "Transfer.", name=name) for name in (FORBIDDEN, "look"))
    return proper, lambda: asyncio.run(other.run_json({"amount": 5}, CancellationToken()))


def prepare_langgraph(function: Any) -> tuple[Any, Callable[[], object]]:
    proper, other = (
        StructuredTool.from_function(function, name=name, description="Transfer.") for name in (FORBIDDEN, "look")
    )
    return proper, lambda: other.invoke({"amount": 5})


@pytest.mark.parametrize("prepare", [prepare_autogen, prepare_langgraph])
@pytest.mark.parametrize(("forbidden", "expected"), [(FORBIDDEN, []), ("something_else", [5])])
def test_tool_that_was_made_before_the_guard_is_known(prepare: Any, forbidden: str, expected: list[int]) -> None:
    """A function that a forbidden tool has is forbidden by every name, also where the tool was there first."""
    sent: list[int] = []

    def transfer(amount: int) -> str:
        sent.append(amount)
        return "sent"

    proper, call = prepare(transfer)
    with blamespan.guard(parse_policy({"agents": {"*": {"forbidden": [forbidden]}}})):
        call()

    assert proper.name == FORBIDDEN
    assert sent == expected


@pytest.mark.parametrize(("forbidden", "is_called"), [(FORBIDDEN, False), ("look", False), ("something_else", True)])
def test_tool_of_a_server_is_forbidden_under_both_of_its_names(forbidden: str, is_called: bool) -> None:
    """A workbench of MCP may rename a tool: forbidden is what the server calls it, and what the model does."""
    asked: list[str] = []

    class Workbench(McpWorkbench):
        component_provider_override = "tests"

        async def call_tool(self, name: str, *args: Any, **kwargs: Any) -> ToolResult:
            asked.append(self._override_name_to_original.get(name, name))
            return ToolResult(name=name, result=[TextResultContent(content="sent")])

    workbench = Workbench(StdioServerParams(command="none"), tool_overrides={FORBIDDEN: ToolOverride(name="look")})
    with blamespan.guard(parse_policy({"agents": {"*": {"forbidden": [forbidden]}}})):
        result = asyncio.run(workbench.call_tool("look", {"amount": 5}))

    assert asked == ([FORBIDDEN] if is_called else [])
    assert ("was not called" in result.to_text()) is not is_called
