"""`blamespan lab train` and `blamespan lab evaluate`, as a user runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from blamespan.cli import cli
from blamespan.errors import ConfigError
from tests.tracer_model.lab.train.test_lexical import write_aegis


def blamespan(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "blamespan", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with made-up AEGIS runs, Who&When runs and a recipe for them."""
    folder = tmp_path_factory.mktemp("data")
    write_aegis(folder / "aegis" / "train.jsonl", 40)
    for subset in ("algorithm-generated", "hand-crafted"):
        (folder / "who" / subset).mkdir(parents=True)
        for number in range(6):
            history = [
                {"role": f"Agent{place % 2}", "content": f"we do part {place} of {number}"} for place in range(5)
            ]
            run = {"question": f"q{number}", "history": history, "mistake_agent": "Agent1", "mistake_step": "1"}
            (folder / "who" / subset / f"{number}.json").write_text(json.dumps(run))
    recipe = '[data]\ntrain = "aegis/train.jsonl"\nmin_agents = 1\n[fit]\npenalties = [0.01]\n'
    (folder / "tiny.toml").write_text(recipe)
    return folder


@pytest.mark.slow
def test_training_says_how_good_it_is_and_where_the_weights_lie(data: Path, tmp_path: Path) -> None:
    """Figures go to stdout, talk to stderr, and the weights can be evaluated at once."""
    done = blamespan("lab", "train", data / "tiny.toml", "--data", data, "--out", tmp_path / "out")

    assert done.returncode == 0, done.stderr
    assert "pair F1" in done.stdout
    assert str(tmp_path / "out" / "lexical.safetensors") in done.stdout
    assert "40 runs read" in done.stderr
    measured = blamespan(
        *("lab", "evaluate", "aegis", "--data", data / "aegis" / "train.jsonl", "--json"),
        *("--tracer", tmp_path / "out" / "lexical.safetensors"),
    )
    found = json.loads(measured.stdout)
    assert (found["n"], found["unseen_questions"]["n"]) == (40, 0)
    assert found["pair"]["micro_f1"] > found["baselines"]["every_agent_commonest_mode"]["pair"]["micro_f1"]


@pytest.mark.slow
def test_aegis_document_has_exactly_the_documented_keys(data: Path) -> None:
    """With --json one document comes, with the baseline that was asked for, and nothing else on stdout."""
    train_file = data / "aegis" / "train.jsonl"
    done = blamespan("lab", "evaluate", "aegis", "--data", train_file, "--train", train_file, "--json")

    found = json.loads(done.stdout)

    keys = "n pair agent mode pair_ci exact_names unseen_questions baselines abstained tracer"
    assert set(found) == set(keys.split())
    assert found["baselines"]["tfidf_one_vs_rest"]["pair"]["micro_f1"] > 50
    assert found["tracer"]["name"] == "lexical"


@pytest.mark.slow
def test_who_and_when_document_has_exactly_the_documented_keys(data: Path) -> None:
    """Both subsets come with the same figures and the same baselines."""
    done = blamespan("lab", "evaluate", "who-and-when", "--data", data / "who", "--json")

    found = json.loads(done.stdout)

    keys = "n step agent top3 within1 within3 step_ci agent_ci abstained baselines"
    assert {subset: set(figures) for subset, figures in found.items()} == {
        "algorithm-generated": set(keys.split()),
        "hand-crafted": set(keys.split()),
    }
    assert found["hand-crafted"]["baselines"]["best_constant_step"] == {"step": 100.0, "agent": 100.0}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("benchmark", "place", "row"),
    [("aegis", "aegis/train.jsonl", "every_agent_commonest_mode"), ("who-and-when", "who", "random")],
)
def test_tables_are_aligned_and_plain_when_piped(data: Path, benchmark: str, place: str, row: str) -> None:
    """Without --json a table comes, without colour codes where nobody looks."""
    done = blamespan("lab", "evaluate", benchmark, "--data", data / place)

    assert done.returncode == 0, done.stderr
    assert row in done.stdout
    assert "\x1b" not in done.stdout


def test_unreadable_weights_are_a_failure(data: Path, tmp_path: Path) -> None:
    """No misuse: the command was right, the file is not."""
    (tmp_path / "bad.safetensors").write_bytes(b"nothing")

    arguments = ["lab", "evaluate", "aegis", "--data", str(data / "aegis" / "train.jsonl")]
    done = CliRunner().invoke(cli, [*arguments, "--tracer", str(tmp_path / "bad.safetensors")])

    assert "expected lexical weights" in str(done.exception)
    assert not isinstance(done.exception, ConfigError)


def test_help_needs_no_torch() -> None:
    """`blamespan --help` stays quick: listing the commands imports neither torch nor numpy."""
    program = (
        "import sys; from blamespan_lab.command import evaluate, train; "
        "sys.exit(any(name in sys.modules for name in ('torch', 'numpy', 'safetensors')))"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
