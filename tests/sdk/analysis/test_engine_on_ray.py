"""A Ray cluster gives the rows of one machine, bit for bit, also where a node is killed midway."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import blamespan
from blamespan.analysis.command import analyze as command
from blamespan.analysis.line import engine_for, listed
from blamespan.analysis.outcomes import AttributedOutcome, Wanted
from blamespan.analysis.results.rows import read_rows
from blamespan.importing.selection import Selection
from tests.sdk.analysis.archives import archive
from tests.sdk.analysis.slow_tracer import SlowTracer

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore")]
ray = pytest.importorskip("ray")
pytest.importorskip("ray.data")

ROOT = Path(__file__).parents[3]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head without a core to work on, and three nodes with one each."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    nodes = [made.add_node(num_cpus=1) for _ in range(3)]
    ray.init(address=made.address, log_to_driver=False, logging_level="ERROR")
    made.nodes = nodes
    yield made
    ray.shutdown()
    made.shutdown()


def test_cluster_gives_the_rows_of_one_machine(cluster: Any, tmp_path: Path) -> None:
    """Rows, errors and their order are those of one process, also as a folder of parquet."""
    del cluster
    folder = archive(tmp_path / "a", [range(n, n + 9) for n in range(1, 60, 10)])
    (folder / "bad.json").write_text("{}")

    alone = CliRunner().invoke(command, [str(folder), "--out", str(tmp_path / "one"), "--processes", "1"])
    several = CliRunner().invoke(command, [str(folder), "--out", str(tmp_path / "many"), "--engine", "ray"])

    assert (tmp_path / "one/part-00000.parquet").read_bytes() == (tmp_path / "many/part-00000.parquet").read_bytes()
    assert len(list(read_rows(tmp_path / "many"))) == 54
    assert (several.stderr, several.exit_code) == (alone.stderr, 1)


def test_killed_node_loses_nothing(cluster: Any, tmp_path: Path) -> None:
    """What it was doing, and what it held, is done again elsewhere: the rows are the same, and none comes twice."""
    folder = archive(tmp_path / "a", [range(n, n + 5) for n in range(1, 200, 10)])
    for file in folder.iterdir():  # each large enough to be a unit of its own
        file.write_text(file.read_text() + " " * 2_200_000 + "\n")
    tracer = SlowTracer(0.1)
    expected = [result.row() for result in blamespan.analyze(folder, tracer=SlowTracer(0.0), processes=1)]

    engine = engine_for("ray", tracer, "", None)
    lines = []
    for outcome in engine.outcomes(listed([str(folder)], None, Selection()), Wanted(whole=None)):
        if isinstance(outcome, AttributedOutcome) and outcome.result:
            lines.append(outcome.result.row())
        if len(lines) == 10 and len(cluster.nodes) == 3:
            cluster.remove_node(cluster.nodes.pop(), allow_graceful=False)

    assert len(cluster.nodes) == 2
    assert lines == expected
