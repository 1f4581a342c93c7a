"""The page of constructs says what the tests say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.constructs import Construct, constructs, page

SOURCE = '''
import pytest

SHARED = """
    run 0: complete
    task: go
    agents: a
    0 a: message 'hi'
"""


@pytest.mark.construct("LangGraph", "invoke")
def test_invoke(recorder):
    """One trace. And more
    about it."""
    assert drawn(recorder) == literal(SHARED)


@pytest.mark.parametrize("mode", [pytest.param("x", marks=pytest.mark.construct("LangGraph", "stream"))])
async def test_stream(recorder, mode):
    """The same | trace."""
    assert drawn(recorder) == literal(SHARED)


class TestTeams:
    @pytest.mark.construct("AutoGen", "Swarm <handoff>")
    @pytest.mark.construct("Zebra", "Swarm")
    def test_swarm(self):
        """A handoff names
        whom it is addressed to"""
        assert draw(trace) == """task: go
agents: a, b"""


def test_not_a_construct():
    """Not listed."""
    print("agents: none")
'''

DRAWING = "run 0: complete\ntask: go\nagents: a\n0 a: message 'hi'"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "test_some.py").write_text(SOURCE)
    (tmp_path / "programs.py").write_text('@pytest.mark.construct("A", "b")\ndef no_test(): ...\n')
    return tmp_path


def test_marked_tests_are_rows(folder: Path) -> None:
    """Functions and methods, plain and async, marked by decorator or by parameter, in the order of lines."""
    says = "A handoff names whom it is addressed to"
    swarm = ("task: go\nagents: a, b",)

    assert constructs(folder) == [
        Construct("LangGraph", "invoke", "One trace.", (DRAWING,), "test_some.py", "test_invoke"),
        Construct("LangGraph", "stream", "The same | trace.", (DRAWING,), "test_some.py", "test_stream"),
        Construct("AutoGen", "Swarm <handoff>", says, swarm, "test_some.py", "test_swarm"),
        Construct("Zebra", "Swarm", says, swarm, "test_some.py", "test_swarm"),
    ]


def test_page_shows_each_drawing_once(folder: Path) -> None:
    """Frameworks have a section each; constructs that give one trace share its drawing; texts cannot break the page."""
    text = page(constructs(folder))

    assert [line for line in text.splitlines() if line.startswith(("##", "<details", "| stream"))] == [
        "## AutoGen",
        "<details markdown><summary>Swarm &lt;handoff></summary>",
        "## LangGraph",
        "| stream | The same \\| trace. | `test_some.py::test_stream` |",
        "<details markdown><summary>invoke; stream</summary>",
        "## Zebra",
        "<details markdown><summary>Swarm</summary>",
    ]
    assert text.count(DRAWING) == 1


@pytest.mark.parametrize(
    ("marked", "message"),
    [
        ('construct("AutoGen")\ndef test_a(): "Says."', "two texts, got \"pytest.mark.construct('AutoGen')\""),
        ('construct("AutoGen", NAME)\ndef test_a(): "Says."', "mark.construct('AutoGen', NAME)\". Write both out"),
        ('construct("AutoGen", "Swarm")\ndef test_a(): ...', "'test_a' is marked as a construct and must say"),
    ],
)
def test_rows_that_say_nothing_are_refused(tmp_path: Path, marked: str, message: str) -> None:
    """A mark without a name, or a test without a sentence, is an error that names the file and line."""
    (tmp_path / "test_some.py").write_text(f"@pytest.mark.{marked}\n")

    with pytest.raises(ValueError, match=r"test_some\.py:[12]: ") as error:
        constructs(tmp_path)

    assert message in str(error.value)
