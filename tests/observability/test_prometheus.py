"""The dashboards and rules, asked of a real Prometheus that scrapes a real collector.

`scripts/observability` gets Debian's Prometheus where there is none. PROMETHEUS names another folder to look in.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from blamespan_collector.receiving.intake import IntakeCounts
from blamespan_collector.service.metrics import Metrics
from blamespan_collector.worker.counts import WorkerCounts
from tests.collector.test_command import started
from tests.observability.example import EXAMPLE, queries

yaml = pytest.importorskip("yaml")
PATHS = os.pathsep.join(filter(None, (os.environ.get("PROMETHEUS"), os.environ.get("PATH"))))
PROMETHEUS, PROMTOOL = shutil.which("prometheus", path=PATHS), shutil.which("promtool", path=PATHS)
pytestmark = [
    pytest.mark.prometheus,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not (PROMETHEUS and PROMTOOL), reason="no Prometheus: scripts/observability gets Debian's"),
]
RULES = EXAMPLE / "prometheus"
RUNS = 12
WITHIN_S = 240.0

Ask = Callable[..., Any]


def promtool(*arguments: str, folder: Path = RULES, told: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    assert PROMTOOL
    return subprocess.run([PROMTOOL, *arguments], cwd=folder, input=told, capture_output=True, timeout=60, check=False)


@contextmanager
def prometheus(folder: Path, monitor: str) -> Iterator[Ask]:
    """Run Prometheus on the example's own configuration, but for the address and a scrape every two seconds."""
    told = yaml.safe_load((RULES / "prometheus.yml").read_text())
    told["global"] = dict.fromkeys(("scrape_interval", "scrape_timeout", "evaluation_interval"), "2s")
    told["rule_files"] = [str(RULES / name) for name in told["rule_files"]]
    told["scrape_configs"][0]["static_configs"][0]["targets"] = [monitor]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(told))
    arguments = ["--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address=127.0.0.1:0"]
    assert PROMETHEUS
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([PROMETHEUS, *arguments], cwd=folder, stdout=log, stderr=log)
    try:
        found = until(lambda: re.search(r'"?Listening on"? address=(\S+)', (folder / "log").read_text()))
        with httpx.Client(base_url=f"http://{found[1]}/api/v1", trust_env=False, timeout=10) as client:

            def ask(path: str, **parameters: str | float) -> Any:
                answer = client.get(f"/{path}", params=parameters)
                assert answer.status_code == 200, f"{parameters}: {answer.text}"
                return answer.json()["data"]

            yield ask
    finally:
        process.terminate()
        process.wait(20)


def until(found: Callable[[], Any]) -> Any:
    """Wait until something is there."""
    until_s = time.monotonic() + WITHIN_S
    while time.monotonic() < until_s:
        if value := found():
            return value
        time.sleep(0.2)
    raise AssertionError(f"expected it within {WITHIN_S:g} s")


def value(ask: Ask, expression: str) -> float:
    result = ask("query", query=expression)["result"]
    return float(result[0]["value"][1]) if result else math.nan


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Scrape a collector that gets the example's sample runs."""
    folder = tmp_path_factory.mktemp("observability")
    out = ["--out", str(folder / "out.jsonl")]
    with (
        started(*out, journal=folder / "journal", monitor="127.0.0.1:0", quiet_s=0.2) as (_, told),
        prometheus(folder, told["monitor"]) as asked,
    ):
        until(lambda: value(asked, "count_over_time(up[1m])") >= 2)  # what rises is seen from its start
        send = [sys.executable, str(EXAMPLE / "send_runs.py"), "--runs", str(RUNS), "--pause-s", "0"]
        environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{told['http']}"}
        subprocess.run(send, env=environment, check=True, timeout=WITHIN_S, stdout=subprocess.DEVNULL)
        until(lambda: value(asked, "sum(blamespan_runs_total)") == RUNS)
        yield asked


@pytest.mark.parametrize(("title", "target"), [pytest.param(*found, id=found[0]) for found in queries()])
def test_every_query_of_every_panel_returns_data(ask: Ask, title: str, target: dict[str, Any]) -> None:
    """After a dozen runs no panel is empty, and no line is without a number."""
    if target.get("instant"):
        results = ask("query", query=target["expr"])["result"]
        numbers = [float(one["value"][1]) for one in results]
    else:
        now_s = time.time()
        results = ask("query_range", query=target["expr"], start=now_s - 300, end=now_s, step=5)["result"]
        numbers = [float(number) for one in results for _, number in one["values"]]

    assert any(map(math.isfinite, numbers)), title


def test_sums_are_those_of_the_runs_sent(ask: Ask) -> None:
    """What is known of the runs arrives as sent: a fifth keeps it to itself, of the others half fail."""
    rows = ask("query", query="sum by (outcome) (blamespan_runs_total)")["result"]
    found = {row["metric"]["outcome"]: float(row["value"][1]) for row in rows}

    assert found == {"failed": 5, "succeeded": 5, "unknown": 2}


def test_blame_is_counted_from_the_first(ask: Ask) -> None:
    """An agent's first blame is in the bars, as are the labels that their links need."""
    (target,) = [target for title, target in queries() if title == "Blame by agent and error mode A"]
    rows = ask("query", query=target["expr"])["result"]
    blamed = value(ask, 'sum(blamespan_runs_total{verdict=~".*failed"})')

    assert sum(float(row["value"][1]) for row in rows) == blamed > 0
    assert all(row["metric"]["mode"] == f"{row['metric']['taxonomy']}:{row['metric']['code']}" for row in rows)


def test_rules_can_be_evaluated(ask: Ask) -> None:
    """Prometheus evaluates each rule on what the collector tells, and none fires on a collector that is well."""
    until(lambda: all(rule["health"] != "unknown" for rule in rules(ask)))

    assert {rule["health"] for rule in rules(ask)} == {"ok"}
    assert [rule["name"] for rule in rules(ask) if rule["state"] == "firing"] == []


def rules(ask: Ask) -> list[dict[str, Any]]:
    return [rule for group in ask("rules")["groups"] for rule in group["rules"]]


def test_collectors_can_be_chosen(ask: Ask) -> None:
    """The variable at the top of the dashboards has something to choose from."""
    assert len(ask("query", query="blamespan_info")["result"]) == 1


def test_configuration_and_rules_are_prometheus_own() -> None:
    """promtool takes the configuration and the rules, and each rule does what its tests say."""
    done = [
        promtool("check", "config", "prometheus.yml"),
        promtool("check", "rules", "blamespan.rules.yml"),
        promtool("test", "rules", "blamespan.tests.yml"),
    ]

    assert [one.returncode for one in done] == [0, 0, 0], [one.stdout + one.stderr for one in done]


def test_every_rule_is_tried() -> None:
    """Each alert has a test in which it fires."""
    alerts = {
        rule["alert"]
        for group in yaml.safe_load((RULES / "blamespan.rules.yml").read_text())["groups"]
        for rule in group["rules"]
    }
    tried = {
        case["alertname"]
        for test in yaml.safe_load((RULES / "blamespan.tests.yml").read_text())["tests"]
        for case in test["alert_rule_test"]
        if "exp_alerts" in case
    }

    assert tried == alerts


def test_who_is_blamed_once_is_shown(tmp_path: Path) -> None:
    """A series that begins within the time shown counts what it began with; one that was there, what it rose by."""
    (target,) = [target for title, target in queries() if title == "Blame by agent A"]
    series = [("new", "_x15 1x5"), ("old", "7x21"), ("risen", "7x15 9x5"), ("restarted", "7x15 1x5")]
    test = {
        "interval": "1m",
        "input_series": [
            {"series": f'blamespan_blame_total{{instance="a", agent="{name}", mode="m"}}', "values": values}
            for name, values in series
        ],
        "promql_expr_test": [
            {
                "expr": target["expr"].replace("5m", "10m"),
                "eval_time": "20m",
                "exp_samples": [
                    {"labels": '{agent="new"}', "value": 1},
                    {"labels": '{agent="restarted"}', "value": 1 * 10 / 10},
                    {"labels": '{agent="risen"}', "value": 2 * 10 / 10},
                ],
            }
        ],
    }
    (tmp_path / "test.yml").write_text(yaml.safe_dump({"evaluation_interval": "1m", "tests": [test]}))
    done = promtool("test", "rules", "test.yml", folder=tmp_path)

    assert done.returncode == 0, (done.stdout + done.stderr).decode()


def test_prometheus_reads_what_strangers_are_named() -> None:
    """Names of agents from traces break neither Prometheus' parser nor its rules for names of metrics."""
    counts = WorkerCounts()
    counts.expect("lexical")
    names = ['a"} 1\nblamespan_forged{x="', "\x1b[31mred", "\u202egnp.exe", "x" * 10_000, "\ud800", "", "\\", "\0"]
    for name in names:
        counts.blame[name[:100], "mast:FM-1.1"] += 1
    metrics = Metrics(IntakeCounts())
    metrics.hear({"tracer": 'lex"ical\n/1', **counts.message()}, 0)
    done = promtool("check", "metrics", told=metrics.text())

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), json.dumps(str(done))
