"""What the documents say is true: their commands run, their links lead somewhere, their examples work."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from blamespan.analysis.showing.modes import modes_page
from blamespan.cli import cli
from blamespan.taxonomy import AEGIS, EXTENSION, MAST
from tests.constructs import PAGE, constructs, page
from tests.figures import PAGES, fill, find, read_rows, shipped_digest

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    """No document points at a file that is not there."""
    links = re.findall(r"\]\(([^)#]+)\)", document.read_text())

    assert [link for link in links if "://" not in link and not (document.parent / link).exists()] == []


def test_commands_that_documents_name_exist() -> None:
    """Every `blamespan` command in a code block or a code span of a document is one that the program has."""
    named = {
        (document.name, name)
        for document in DOCUMENTS
        for name in re.findall(
            r"(?:^|`|\$ |^    )blamespan ([a-z]+)\b(?! [a-z]+ [a-z]+ [a-z]+)", document.read_text(), re.MULTILINE
        )
    }
    offered = set(cli.list_commands(click.Context(cli)))

    assert {(document, name) for document, name in named if name not in offered} == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_is_said_twice(document: Path) -> None:
    """No paragraph stands twice in a document, however its lines are broken."""
    paragraphs = [" ".join(part.split()) for part in document.read_text().split("\n\n")]
    prose = [part for part in paragraphs if len(part) > 80 and part[0].isalpha()]

    assert [part for part, count in Counter(prose).items() if count > 1] == []


def test_readme_is_short() -> None:
    """A newcomer reads it whole: the rest has its own documents."""
    text = re.sub(r"```.*?```|<!--.*?-->", "", (ROOT / "README.md").read_text(), flags=re.DOTALL)

    assert len(text.split()) <= 700


@pytest.mark.parametrize("page", [page for page in PAGES if "<!-- " in page.read_text()], ids=lambda page: page.name)
def test_figures_are_those_that_were_measured(page: Path) -> None:
    """Tables and figures of README and docs are what docs/figures.json says of the weights in the package."""
    assert fill(page.read_text(), read_rows(), shipped_digest()) == page.read_text(), "out of date: run scripts/figures"


def test_readme_states_no_other_figure_of_quality() -> None:
    """Each number of the section stands in the table that is written; besides it only the size of the intervals."""
    section = (ROOT / "README.md").read_text().partition("## How good is it?")[2].partition("\n## ")[0]
    outside = re.sub(r"<!-- figures: .*?<!-- end of figures -->", "", section, flags=re.DOTALL)

    assert "| n |" in section
    assert re.findall(r"\d+", outside) == ["95"]


def test_figure_that_is_not_measured_is_refused() -> None:
    """A changed number is put right, a row or figure that is not there is an error, and other weights are said."""
    rows, shipped = read_rows(), shipped_digest()
    text = "finds <!-- small/step -->99.9<!----> % of them"
    fresh = {"small": rows["small"] | {"figures": {"n": [4], "step": [50, 15, 85]}, "weights": shipped}}
    table = "<!-- figures: short -->\n| old |\n<!-- end of figures -->"

    assert fill(text, fresh, shipped) == "finds <!-- small/step -->50.0 (15.0 to 85.0)<!----> % of them"
    assert "50 (15-85) | - | - | `small` |\n<!-- end" in fill(table, fresh, shipped)
    assert "With other weights than the package has: `small`." in fill(table, fresh, "0" * 12)
    with pytest.raises(KeyError):
        fill("<!-- no-row/step --><!---->", fresh, shipped)


def test_rows_say_where_their_figures_stand() -> None:
    """A path leads through keys, indices and items of lists that are chosen by what they say."""
    document = {"all": {"n": 4}, "figures": [{"tracer": "a", "per_s": [1, 2]}, {"tracer": "b", "per_s": [3, 4]}]}

    assert (find(document, "all/n"), find(document, "figures/tracer=b/per_s/0")) == (4, 3)
    with pytest.raises(KeyError):
        find(document, "figures/tracer=c/per_s/0")


def test_scripts_of_the_readme_exist() -> None:
    """The two commands that the README opens with are there and can be run."""
    scripts = set(re.findall(r"^\$ (scripts/\w+)", (ROOT / "README.md").read_text(), re.MULTILINE))

    assert scripts == {"scripts/demo", "scripts/test"}
    assert all((ROOT / script).stat().st_mode & 0o100 for script in scripts)


def test_architecture_names_every_module_of_the_sdk() -> None:
    """A stranger finds each file of the sdk on the map."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    modules = {path.name for path in (ROOT / "sdk" / "blamespan").glob("*.py")} - {"__init__.py", "__main__.py"}

    assert {name for name in modules if name not in text and not name.startswith("_")} == set()


@pytest.mark.parametrize(("example", "blamed"), [("autogen_quickstart", "solver"), ("langgraph_quickstart", "solver")])
def test_quick_starts_print_spans_with_verdicts(example: str, blamed: str) -> None:
    """A stranger who runs an example sees who is to blame, without a collector, a key or a network."""
    program = ROOT / "examples" / f"{example}.py"

    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=100, check=False)

    assert done.returncode == 0, done.stderr
    spans = [line for line in done.stdout.splitlines() if line.startswith("invoke_")]
    assert len([line for line in spans if "blamespan.blame.score" in line]) == 2, done.stdout
    assert [line for line in spans if "blamespan.blame.agent" in line and blamed in line]


def test_demo_shows_who_failed(tmp_path: Path) -> None:
    """The demo blames the agent that went wrong in both failing runs, and nobody in the clean ones."""
    done = subprocess.run(
        [sys.executable, "-m", "blamespan", "demo", "--out", tmp_path],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    runs = done.stdout.split("\n\n")
    failing = [run for run in runs if "gone wrong" in run]
    clean = [run for run in runs if ", clean" in run]
    assert [re.findall(r"^ +>\d+  (\w+)", run, re.MULTILINE) for run in failing] == [["analyst"], ["researcher"]]
    assert ["no sign of failure" in run for run in clean] == [True, True]
    assert not any(re.search(r"^ +>", run, re.MULTILINE) for run in clean)
    assert (tmp_path / "annotated.jsonl").read_text().count("\n") == 4


def test_constructs_are_as_the_tests_say() -> None:
    """docs/constructs.md is what `scripts/constructs` writes."""
    written = PAGE.read_text() if PAGE.exists() else ""

    assert written == page(constructs(ROOT / "tests" / "integrations")), "out of date: run scripts/constructs"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_scripts_that_documents_name_can_be_run(document: Path) -> None:
    """No document tells a reader to run a script or benchmark that is not there."""
    text = document.read_text()
    named = {f"scripts/{name}" for name in re.findall(r"\bscripts/([a-z]+(?:-[a-z]+)*)\b(?![./])", text)}
    benches = {f"tests/benchmarks/bench_{name}.py" for name in re.findall(r"\bscripts/bench ([a-z]+)", text)}

    assert {name for name in named if not os.access(ROOT / name, os.X_OK)} == set()
    assert {name for name in benches if not (ROOT / name).exists()} == set()


def test_error_modes_are_as_the_taxonomy_says() -> None:
    """docs/error-modes.md lists every mode, and the command prints each of them."""
    printed = CliRunner().invoke(cli, ["modes", "--json"]).stdout.splitlines()

    assert (ROOT / "docs" / "error-modes.md").read_text() == modes_page()
    assert {json.loads(line)["code"] for line in printed} == {
        str(mode) for taxonomy in (MAST, AEGIS, EXTENSION) for mode in taxonomy.values()
    }


def test_versions_of_peers_fit_ours() -> None:
    """The recorders we are measured beside never ask for another version of what constraints.txt pins."""
    ours, peers = (_pins(ROOT / name) for name in ("constraints.txt", "tests/benchmarks/peers.txt"))

    assert {name: (ours[name], peers[name]) for name in ours.keys() & peers.keys() if ours[name] != peers[name]} == {}


def _pins(path: Path) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==(\S+)$", path.read_text(), re.MULTILINE))
