"""What the documents say is true: links lead somewhere, commands and options exist, figures were measured."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from blamespan.cli import cli
from blamespan.errors import ConfigError
from blamespan.importing.recorded import importers
from blamespan.taxonomy import AEGIS, EXTENSION, MAST
from blamespan.variables import VARIABLES
from blamespan_collector.options import list_settings
from blamespan_tracer.alternatives.endpoint import JUDGE, MANIPULATOR, Endpoint
from blamespan_tracer.alternatives.language_model import LanguageModelTracer
from blamespan_tracer.alternatives.llm_judge.settings import JudgeSettings
from tests.figures import PAGES, fill, find, read_rows, shipped_digest
from tests.reference import PAGES as GENERATED
from tests.reference import variables, walk

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/*.md")]
DOCUMENTS = [path for path in DOCUMENTS if "generated" not in path.parts]
MOST_WORDS = 40_000


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_document_says_what_is_there(document: Path) -> None:
    """Its links, commands, options and scripts exist, and no paragraph stands twice in it."""
    text = document.read_text()

    assert broken_links(document) == []
    assert unknown_commands(text) == set()
    assert unknown_scripts(text) == set()
    assert repeated_paragraphs(text) == []


def broken_links(document: Path) -> list[str]:
    """Return the links to files, headings and generated pages that are not there."""
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = document.parent / name if name else document
        if target.parent.name == "generated":
            is_there = target.stem in GENERATED
        else:
            is_there = target.exists() and (not anchor or anchor in headings(target))
        broken += [] if is_there else [link]
    return broken


def headings(document: Path) -> set[str]:
    """Return the anchors of a document's headings."""
    lines = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", line.lower()).strip().replace(" ", "-") for line in lines}


def unknown_commands(text: str) -> set[str]:
    """Return the commands in code that the program does not have, and the options that theirs do not have."""
    code = re.findall(r"(?:^ *\$ |`|^    )(?:[A-Z_]+=\S+ )*(blamespan [a-z][^`\n|#]*)", text, re.MULTILINE)
    unknown = set()
    for line in code:
        words = line.split()
        known = next((OFFERED[found] for count in (4, 3, 2) if (found := " ".join(words[:count])) in OFFERED), None)
        if known is None:
            unknown.add(" ".join(words[:3]))
        else:
            unknown |= {f"{line.strip()}: {word}" for word in words if word.startswith("--") and word not in known}
    return unknown


def unknown_scripts(text: str) -> set[str]:
    """Return the scripts and benchmarks that cannot be run."""
    scripts = {f"scripts/{name}" for name in re.findall(r"\bscripts/([a-z]+(?:-[a-z]+)*)\b(?![./])", text)}
    benches = {f"tests/benchmarks/bench_{name}.py" for name in re.findall(r"\bscripts/bench ([a-z]+)", text)}
    return {name for name in scripts if not os.access(ROOT / name, os.X_OK)} | {
        name for name in benches if not (ROOT / name).exists()
    }


def repeated_paragraphs(text: str) -> list[str]:
    """Return the paragraphs that stand twice, however their lines are broken."""
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
    prose = Counter(part for part in paragraphs if len(part) > 80 and part[0].isalpha())
    return [part for part, count in prose.items() if count > 1]


def _offered() -> dict[str, set[str]]:
    """Return the options of every command and group, by its words."""
    return {
        " ".join(words): {name for option in command.params for name in option.opts} | {"--help"}
        for words, command in walk(cli, ("blamespan",))
    }


OFFERED = _offered()


def test_what_is_wrong_in_a_document_is_found(tmp_path: Path) -> None:
    """A link to nowhere, a command or an option that is gone, and a doubled paragraph are each named."""
    page = tmp_path / "page.md"
    page.write_text("# One\n[a](no.md) [b](#one) [c](#two) [d](generated/checks.md) [e](generated/none.md)\n")

    assert broken_links(page) == ["no.md", "#two", "generated/none.md"]
    assert unknown_commands("`blamespan blame x`\n    $ blamespan analyze x --jsonn\n`blamespan lab train r.toml`") == {
        "blamespan blame x",
        "blamespan analyze x --jsonn: --jsonn",
    }
    assert unknown_scripts("`scripts/test`, `scripts/bench guard`, `scripts/nothing`") == {"scripts/nothing"}
    assert len(repeated_paragraphs(f"{'Word ' * 20}\n\n{'Word ' * 20}")) == 1


def test_documents_are_read_to_their_end() -> None:
    """README takes minutes, and all documents together no more than a short book."""
    readme = re.sub(r"```.*?```|<!--.*?-->", "", (ROOT / "README.md").read_text(), flags=re.DOTALL)

    assert len(readme.split()) <= 700
    assert sum(len(path.read_text().split()) for path in DOCUMENTS) <= MOST_WORDS


def test_site_has_every_page() -> None:
    """Each page of docs/ and each generated one has a place in mkdocs.yml, and nothing else has."""
    named = set(re.findall(r"([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in DOCUMENTS if path.is_relative_to(ROOT / "docs")}

    assert named == pages | {f"reference/generated/{name}.md" for name in GENERATED}


def test_generated_pages_say_what_the_code_says() -> None:
    """Each has a title and a table or text of its own; the modes are those of the taxonomies."""
    pages = {name: write() for name, write in GENERATED.items()}
    for name, text in pages.items():
        assert text.startswith("# "), name
        assert len(text.split()) > 100, name
    printed = CliRunner().invoke(cli, ["lab", "modes", "--json"]).stdout.splitlines()
    modes = {str(mode) for taxonomy in (MAST, AEGIS, EXTENSION) for mode in taxonomy.values()}

    assert {json.loads(line)["code"] for line in printed} == modes
    assert all(f"`{mode}`" in pages["error-modes"] for mode in modes)
    shown = re.findall(r"<details markdown><summary>[^<>]+</summary>\n\n```text\n", pages["constructs"])
    assert len(shown) > 30


def test_every_variable_is_explained() -> None:
    """A variable that is read is a setting of the collector, or stands on a page by hand."""
    assert [name for name, pages in variables().items() if not pages] == []


def test_variables_are_those_that_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """`VARIABLES` has each that the code names, a setting of the collector is or a model asks for; and no other."""
    constants = {
        node.value
        for package in ("sdk", "integrations", "collector", "tracer_model")
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    asked = Asked({f"{prefix}_{name}": "http://a" for prefix in (JUDGE, MANIPULATOR) for name in ("URL", "MODEL")})
    with monkeypatch.context() as patched:
        patched.setattr(os, "environ", asked)
        JudgeSettings.from_environment()
        Endpoint.from_environment(MANIPULATOR)
        with pytest.raises(ConfigError, match="BLAMESPAN_LANGUAGE_MODEL"):
            LanguageModelTracer.from_environment()
    named = {name for name in constants | asked.names if re.fullmatch(r"BLAMESPAN(_[A-Z]+)+", name)}
    named |= {variable for _, settings in list_settings() for _, variable, *_ in settings}

    assert named - {JUDGE, MANIPULATOR} == VARIABLES


class Asked(dict[str, str]):
    """An environment that notes what it is asked for."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        super().__init__(variables)
        self.names: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.names.add(name)
        return super().get(name, default)


def test_messages_name_pages_that_exist() -> None:
    """An error or a comment that sends a reader to a page of docs/ names one that is there."""
    sources = [path for part in ("sdk", "integrations", "collector", "tracer_model/blamespan_tracer",
               "tracer_model/blamespan_lab", "scripts", "examples") for path in (ROOT / part).rglob("*")]  # fmt: skip
    texts = [path for path in sources if path.suffix in {".py", ".toml", ".md", ".yml", ""} and path.is_file()]
    named = {page for path in texts for page in re.findall(r"\bdocs/[a-z/-]+\.md", path.read_text(errors="ignore"))}

    assert len(named) > 5
    assert {page for page in named if not (ROOT / page).exists()} == set()


@pytest.mark.parametrize("page", [page for page in PAGES if "<!-- " in page.read_text()], ids=lambda page: page.name)
def test_figures_are_those_that_were_measured(page: Path) -> None:
    """Tables and figures of README and docs are what docs/figures.json says of the weights in the package."""
    assert fill(page.read_text(), read_rows()) == page.read_text(), "out of date: run scripts/figures"


def test_formats_are_those_that_can_be_read() -> None:
    """The page of formats lists every importer, and no other; whoever states their number states that one."""
    names = sorted(importer.name for importer in importers())
    rows = re.findall(r"(?m)^\| [^|]+ \| (`[^|]+) \| [^|]+ \|$", (ROOT / "docs/reference/formats.md").read_text())
    stated = [*re.findall(r"(\d+) formats", (ROOT / "README.md").read_text())]
    stated += re.findall(r"lists (\d+) of them", (ROOT / "docs/how-to/analyze.md").read_text())

    assert sorted(name for row in rows for name in re.findall("`([a-z].*?)`", row)) == names
    assert stated == [str(len(names))] * 2


def test_readme_states_no_other_figure_of_quality() -> None:
    """Each number of the section stands in the table that is written; besides it only the size of the intervals."""
    section = (ROOT / "README.md").read_text().partition("## How good is it?")[2].partition("\n## ")[0]
    outside = re.sub(r"<!-- figures: .*?<!-- end of figures -->", "", section, flags=re.DOTALL)

    assert "| n |" in section
    assert re.findall(r"\d+", outside) == ["95"]


def test_figure_that_is_not_measured_is_refused() -> None:
    """A changed number is put right, a row or figure that is not there is an error, and other weights are said."""
    rows = read_rows()
    shipped = shipped_digest(rows["small"]["command"])
    text = "finds <!-- small/step -->99.9<!----> % of them"
    fresh = {"small": rows["small"] | {"figures": {"n": [4], "step": [50, 15, 85]}, "weights": shipped}}
    older = {"small": fresh["small"] | {"weights": "0" * 12}}
    table = "<!-- figures: short -->\n| old |\n<!-- end of figures -->"

    assert fill(text, fresh) == "finds <!-- small/step -->50.0 (15.0 to 85.0)<!----> % of them"
    assert "50 (15-85) | - | - | `small` |\n<!-- end" in fill(table, fresh)
    assert "With other weights than the package has: `small`." in fill(table, older)
    with pytest.raises(KeyError):
        fill("<!-- no-row/step --><!---->", fresh)


def test_rows_say_where_their_figures_stand() -> None:
    """A path leads through keys, indices and items of lists that are chosen by what they say."""
    document = {"all": {"n": 4}, "figures": [{"tracer": "a", "per_s": [1, 2]}, {"tracer": "b", "per_s": [3, 4]}]}

    assert (find(document, "all/n"), find(document, "figures/tracer=b/per_s/0")) == (4, 3)
    with pytest.raises(KeyError):
        find(document, "figures/tracer=c/per_s/0")


def test_architecture_names_every_module_of_the_sdk() -> None:
    """A stranger finds each file of the sdk on the map."""
    text = (ROOT / "docs" / "why" / "architecture.md").read_text()
    modules = {path.name for path in (ROOT / "sdk" / "blamespan").glob("*.py")} - {"__init__.py", "__main__.py"}

    assert {name for name in modules if name not in text and not name.startswith("_")} == set()


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


def test_versions_of_peers_fit_ours() -> None:
    """The recorders we are measured beside never ask for another version of what constraints.txt pins."""
    ours, peers = (_pins(ROOT / name) for name in ("constraints.txt", "tests/benchmarks/peers.txt"))

    assert {name: (ours[name], peers[name]) for name in ours.keys() & peers.keys() if ours[name] != peers[name]} == {}


def _pins(path: Path) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==(\S+)$", path.read_text(), re.MULTILINE))
