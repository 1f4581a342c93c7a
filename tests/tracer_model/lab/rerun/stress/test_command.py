"""The command `blamespan lab stress`, its tables and its page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from blamespan.errors import ConfigError
from blamespan_lab.rerun.stress.campaign import StressCampaign
from blamespan_lab.rerun.stress.command import stress
from blamespan_lab.rerun.stress.containment import Caught
from blamespan_lab.rerun.stress.page import page
from blamespan_lab.rerun.stress.recipe import StressRecipe
from blamespan_lab.rerun.stress.table import print_campaign, print_comparison
from blamespan_lab.rerun.stress.trial import FaultTrial, Planned

ROOT = Path(__file__).parents[5]
HOSTILE = "\"><script>alert('x')</script>\x1b[31m<img src=//evil>\u202e[bold]"


def done(*, is_verified: bool = True, name: str = "team") -> StressCampaign:
    """Make a campaign in which every text is hostile."""
    trials = (
        FaultTrial(
            Planned("aegis:FM-3.2", "response", HOSTILE, 0, 0), HOSTILE, succeeded=False, is_changed=True, error=HOSTILE
        ),
        FaultTrial(
            Planned("blamespan:X1", "response", "solver", 0, 0),
            "x",
            succeeded=True,
            caught=Caught(HOSTILE, "objection", 1),
            tier="reasoning",
        ),
        FaultTrial(Planned("blamespan:X4", "tool", "solver", 0, 0), missed=HOSTILE),
    )
    return StressCampaign(name + HOSTILE, StressRecipe("mine"), 2, {1: HOSTILE}, is_verified, trials, 5)


def printed(campaign: StressCampaign) -> str:
    console = Console(file=StringIO(), width=200)
    print_campaign(console, campaign, every=False)
    print_comparison(console, [campaign, done(name="other")])
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


class Tags(HTMLParser):
    """Lists the tags of a page, and those never closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        if tag not in ("meta", "rect", "line"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()


def test_page_shows_hostile_text_and_obeys_none_of_it() -> None:
    """Whatever agents are called and say is text; nothing is loaded and nothing runs."""
    text = page([done()])

    tags = Tags(text)
    assert not tags.seen & {"script", "img", "link", "iframe", "a", "b"}
    assert tags.open == []
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "default-src 'none'" in text


def test_page_and_table_say_what_the_campaign_says() -> None:
    """Shares come with their interval and with what they are of."""
    text, table = page([done()]), printed(done())

    assert "50.0 % flipped the outcome (95 % interval 9.5 to 90.5, n = 2)" in text
    assert "flipped: 50 (9-91) of 2 %" in table
    assert "5 more were planned than the budget allows" in table
    assert "<td>reasoning</td><td>1</td><td>100 % (21 to 100)</td>" in text
    assert " ".join(next(line for line in table.splitlines() if line.startswith("reasoning")).split()) == (
        "reasoning 1 100 (21-100) of 1"
    )


def test_terminal_is_not_obeyed_to_hostile_text() -> None:
    """Control characters and markup of a trace do nothing to the terminal."""
    table = printed(done())

    assert "\x1b" not in table
    assert "\u202e" not in table
    assert "[bold]" in table


def test_unverified_campaign_says_so() -> None:
    """Table and page tell that changed answers are counted instead."""
    assert "nothing is verified" in printed(done(is_verified=False))
    assert "nothing is verified" in page([done(is_verified=False)])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "expected either a program as module:factory or --bundled"),
        (["a:b", "--bundled", "chain"], "expected either a program as module:factory or --bundled"),
        (["a:b"], "expected at least one task for the program"),
        (["--bundled", "chian"], "Did you mean 'chain'?"),
        (["--bundled", "debate", "--framework", "autogen"], "Ask for --framework langgraph"),
        (["--bundled", "chain", "--task", "x"], "bring their own tasks"),
        (["a:b", "--tasks", "nowhere.txt"], "--tasks must be a text file"),
        (["--bundled", "chain", "--out", "no/where.html"], "--out must be a file that can be written"),
        (["--bundled", "chain", "--recipe", "quik"], "Did you mean 'quick'?"),
    ],
)
def test_misuse_says_what_to_do(arguments: list[str], said: str) -> None:
    """Nothing is run, and the message names what is expected."""
    found = CliRunner().invoke(stress, arguments)

    assert isinstance(found.exception, ConfigError)
    assert said in str(found.exception)


@pytest.mark.timeout(300)
def test_json_is_all_that_is_on_stdout(tmp_path: Path) -> None:
    """The program's own words go to stderr; the document holds every trial; the page lies where it was asked for."""
    pytest.importorskip("langgraph")
    tasks = tmp_path / "tasks.txt"
    tasks.write_text("How many?\n\nHow many rooms?\n", encoding="utf-8")
    recipe = tmp_path / "six.toml"
    recipe.write_text("budget = 6\nkinds = ['mas-fire:hallucination', 'mas-fire:memory-loss', 'aegis:FM-3.1']\n")
    teams = "tests.tracer_model.lab.rerun.stress.teams"
    arguments = [f"{teams}:graph", "--check", f"{teams}:is_right", "--tasks", str(tasks), "--recipe", str(recipe)]
    out = tmp_path / "report.html"

    ran = subprocess.run(
        [sys.executable, "-m", "blamespan", "lab", "stress", *arguments, "--json", "--out", str(out)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        check=False,
        timeout=280,
    )

    (document,) = json.loads(ran.stdout)
    assert ran.returncode == 0
    assert (document["tasks"], len(document["trials"]), document["is_verified"]) == (2, 6, True)
    assert "this program talks" in ran.stderr
    assert "&lt;b&gt;boss" in out.read_text(encoding="utf-8")
