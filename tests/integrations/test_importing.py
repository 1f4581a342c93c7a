"""What waits for a framework's import happens then, once, and leaves the import as it is."""

from __future__ import annotations

import importlib
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from blamespan_integrations.patching import AfterImport


@pytest.fixture
def framework(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[str]:
    """A package `NAME` with a submodule `NAME.part`, and one, `NAME.broken`, that cannot be imported."""
    name = "framework_" + "".join(letter if letter.isalnum() else "_" for letter in request.node.name)
    package = tmp_path / name
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "part.py").write_text("import sys\nWHOLE = sys.modules[__package__] is not None\n")
    (package / "broken.py").write_text("raise ImportError('no such driver')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name
    for module in [one for one in sys.modules if one.startswith(name)]:
        del sys.modules[module]


def test_call_waits_for_the_import(framework: str) -> None:
    """Nothing happens before the program imports the framework, and it happens once, also by a submodule."""
    calls: list[str] = []
    AfterImport(framework).arm(lambda: calls.append("patched"))
    before = list(calls)
    importlib.import_module(f"{framework}.part")
    importlib.reload(importlib.import_module(framework))

    assert (before, calls) == ([], ["patched"])


def test_what_is_imported_already_is_called_at_once(framework: str) -> None:
    """A framework that came first is not waited for, however often that is asked."""
    importlib.import_module(framework)
    calls: list[str] = []
    hook = AfterImport(framework)
    for number in range(2):
        hook.arm(lambda number=number: calls.append(f"patched {number}"))  # type: ignore[misc]

    assert calls == ["patched 0", "patched 1"]


def test_disarmed_hook_is_inert(framework: str) -> None:
    """Switched off before the import came, it does nothing; switched on again, it does what was said last."""
    calls: list[str] = []
    hook = AfterImport(framework)
    hook.arm(lambda: calls.append("first"))
    hook.disarm()
    hook.arm(lambda: calls.append("second"))
    hook.disarm()
    hook.arm(lambda: calls.append("third"))
    importlib.import_module(framework)
    other = AfterImport(f"{framework}.part")
    other.arm(lambda: calls.append("never"))
    other.disarm()
    importlib.import_module(f"{framework}.part")

    assert calls == ["third"]


def test_errors_of_the_import_are_the_programs(framework: str) -> None:
    """A module that cannot be imported raises what it raises without us, every time."""
    calls: list[str] = []
    AfterImport(f"{framework}.broken").arm(lambda: calls.append("patched"))
    AfterImport(f"{framework}.missing").arm(lambda: calls.append("patched"))
    for _ in range(2):
        with pytest.raises(ImportError, match="no such driver"):
            importlib.import_module(f"{framework}.broken")
    with pytest.raises(ModuleNotFoundError, match=f"No module named '{framework}.missing'"):
        importlib.import_module(f"{framework}.missing")

    assert calls == []


def _run(code: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


_BEGIN = """
import sys
import blamespan
from blamespan.testing import SpanRecorder
recorder = SpanRecorder()
print(*blamespan.instrument(tracer_provider=recorder.provider))
FRAMEWORKS = "autogen_core", "autogen_agentchat", "langgraph", "langchain_core", "agent_framework"
print(*[name for name in FRAMEWORKS if name in sys.modules])
"""


def test_frameworks_are_imported_by_the_program_alone() -> None:
    """`instrument()` names the frameworks that will be recorded, and imports none; what comes later is recorded."""
    pytest.importorskip("langgraph")
    pytest.importorskip("autogen_agentchat")
    printed = _run(
        _BEGIN
        + textwrap.dedent("""
        from langgraph.func import entrypoint, task
        @task
        def double(number):
            return 2 * number
        @entrypoint()
        def desk(number):
            return entrypoint.final(value=double(number).result(), save=None)
        assert desk.invoke(21) == 42
        import asyncio
        import autogen_agentchat
        from autogen_agentchat.conditions import MaxMessageTermination
        from autogen_agentchat.teams import RoundRobinGroupChat
        from autogen_agentchat.agents import AssistantAgent
        from autogen_ext.models.replay import ReplayChatCompletionClient
        solver = AssistantAgent("solver", ReplayChatCompletionClient(["36"]))
        asyncio.run(RoundRobinGroupChat([solver], termination_condition=MaxMessageTermination(2)).run(task="q"))
        print(*[span.name.split()[0] + ":" + span.name.split()[-1] for span in recorder.spans()])
        """)
    )

    assert printed[:3] == ["agent_framework", "autogen", "langgraph"]
    assert {"invoke_agent:double", "invoke_workflow:desk", "invoke_agent:solver"} <= set(printed[3:])
    assert not {"autogen_core", "autogen_agentchat", "langgraph", "langchain_core", "agent_framework"} & set(
        printed[3:]
    )


def test_switched_off_before_the_import_nothing_is_recorded() -> None:
    """`uninstrument()` holds for frameworks that come later, and `instrument()` after it again."""
    pytest.importorskip("langgraph")
    printed = _run(
        _BEGIN
        + textwrap.dedent("""
        blamespan.uninstrument()
        import langgraph.graph as graph
        import langchain_core.tracers.context as hooks
        builder = graph.StateGraph(graph.MessagesState)
        builder.add_node("solver", lambda state: {"messages": [("assistant", "36")]})
        builder.add_edge(graph.START, "solver")
        builder.compile().invoke({"messages": [("user", "q")]})
        print(len(recorder.spans()), sum("blamespan" in str(hook) for hook in hooks._configure_hooks))
        blamespan.instrument(tracer_provider=recorder.provider)
        builder.compile().invoke({"messages": [("user", "q")]})
        print(len(recorder.spans()))
        """)
    )

    assert printed[-3:] == ["0", "0", "2"]
