"""A judge in several processes at once: the collector's worker, workers of an analysis, and some that are killed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from blamespan import conventions as words
from blamespan.cli import cli
from blamespan.errors import ConfigError
from blamespan.otlp import request_from_json
from blamespan.rebuilding.emit import emit
from blamespan.trace import MessageActionTrace
from blamespan_tracer.alternatives.endpoint import Endpoint
from blamespan_tracer.alternatives.llm_judge.budget import ACCOUNT, BudgetSpent, TokenBudget, shared_account
from blamespan_tracer.alternatives.llm_judge.settings import Bound, JudgeSettings
from blamespan_tracer.alternatives.llm_judge.tracer import JudgeTracer
from tests.tracer_model.alternatives.llm_judge.serving import judge, runs, served, verdict, write_file

HERE = Path(__file__).parents[4]
GOOD = {"say": verdict()}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No account and no cache but those a test names."""
    monkeypatch.setenv("BLAMESPAN_JUDGE_MODEL", "small")
    monkeypatch.setenv("BLAMESPAN_JUDGE_CACHE", "off")
    monkeypatch.setenv(ACCOUNT, "")
    monkeypatch.setenv("BLAMESPAN_JUDGE_EMBEDDED", "none")


def judging(url: str, cache: Path, account: Path) -> subprocess.Popen[str]:
    """Start a process that judges eight runs, one after the other."""
    told = (
        "import sys; from pathlib import Path; "
        "from tests.tracer_model.alternatives.llm_judge.serving import judge, runs; "
        "found = judge(sys.argv[1], concurrency=1, cache=Path(sys.argv[2]), account=Path(sys.argv[3]))"
        ".attribute(runs(8)); print([each.decisive_step for each in found])"
    )
    arguments = [sys.executable, "-c", told, url, str(cache), str(account)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, cwd=HERE)


def test_processes_share_a_cache_and_an_account_and_one_is_killed(tmp_path: Path) -> None:
    """`kill -9` in the middle leaves whole answers; the others finish, and nobody pays for a kept one again."""
    cache, account = tmp_path / "kept", tmp_path / "account"
    with served({**GOOD, "wait_s": 0.15}) as server:
        working = [judging(server.url, cache, account) for _ in range(3)]
        until_s = time.monotonic() + 60
        while len(list(cache.rglob("*.json"))) < 2 and time.monotonic() < until_s:
            time.sleep(0.01)
        working[0].kill()
        said = [each.communicate(timeout=60)[0] for each in working]
        last = judge(server.url, cache=cache, account=account)
        last.attribute(runs(8))
        n_asked = len(server.asked())

    assert said[1:] == [f"{[2] * 8}\n"] * 2
    assert [json.loads(path.read_text())["text"] for path in cache.rglob("*.json")] == [json.dumps(verdict())] * 8
    n_counted = int(last.account.split()[0])
    assert n_asked - n_counted <= ("held back" in last.account)  # of what the killed one had under way
    assert n_counted <= n_asked


def test_analysis_in_two_processes_keeps_one_budget(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Workers count into the account of whoever started them: the bound holds for all, and the end tells the sum."""
    for trace in runs(8):
        write_file(tmp_path / f"{trace.trace_id}.json", trace)
    monkeypatch.setenv("BLAMESPAN_JUDGE_BUDGET_TOKENS", "13000")
    monkeypatch.setenv("BLAMESPAN_JUDGE_ANSWER_TOKENS", "4000")
    with served({**GOOD, "wait_s": 0.05, "usage": {"prompt_tokens": 2_000, "completion_tokens": 3_000}}) as server:
        monkeypatch.setenv("BLAMESPAN_JUDGE_URL", server.url)
        asked = ["analyze", str(tmp_path), "--tracer", "judge", "--processes", "2", "--json"]
        done = CliRunner().invoke(cli, asked, catch_exceptions=False)
        n_asked = len(server.asked())

    assert 0 < n_asked * 5_000 <= 13_000
    verdicts = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["abstained"] for each in verdicts].count("the budget of 13,000 tokens is spent") == 8 - n_asked
    assert f"blamespan: {n_asked} questions to small; {n_asked * 2_000:,} tokens asked" in done.stderr


def test_tracers_of_one_process_begin_new_accounts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A second analysis has its own budget; an account that somebody named is everybody's."""
    monkeypatch.setenv("BLAMESPAN_JUDGE_URL", "http://127.0.0.1:9/v1")
    first, second = shared_account(), shared_account()
    inherited = os.environ[ACCOUNT]
    monkeypatch.setenv(ACCOUNT, str(tmp_path / "named"))

    assert first != second
    assert str(second) == inherited
    assert shared_account() == tmp_path / "named" == JudgeSettings.from_environment().account


def test_account_outlives_its_process(tmp_path: Path) -> None:
    """What was held back by a process that is gone stays held back: it may have been paid for."""
    before = TokenBudget(Bound(100), account=tmp_path / "account")
    gone = before.reserve(30, 20)
    gone.__enter__()
    after = TokenBudget(Bound(100), account=tmp_path / "account")

    with pytest.raises(BudgetSpent, match="the budget of 100 tokens is spent"):
        after.reserve(40, 20).__enter__()
    with after.reserve(30, 20) as held:
        held.output_tokens, held.is_answered = 5, True  # estimated anew, as the server does not say
    assert (after.counts["output"], after.counts["held_output"]) == (5, 20)


@pytest.mark.parametrize("content", [b"no database", None])
def test_account_that_cannot_be_used_is_refused(tmp_path: Path, content: bytes | None) -> None:
    """Before anything is asked: a budget that nobody counts is none."""
    path = tmp_path / "account" if content else tmp_path / "nowhere" / "account"
    if content:
        path.write_bytes(content * 100)
    settings = JudgeSettings(Endpoint("http://127.0.0.1:9/v1", "small"), account=path)

    with pytest.raises(ConfigError, match=re.escape(f"{ACCOUNT} must be a file that the judge can count in, got")):
        JudgeTracer(settings)


@pytest.mark.slow
def test_collector_lives_with_a_slow_and_a_dead_judge(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each run gets its verdict or the reason for none, within the deadline, from one and the same worker."""
    pytest.importorskip("blamespan_collector.command")
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    from blamespan.otlp.sdk import span_to_sdk
    from tests.collector.test_command import started

    path, traces = tmp_path / "traces.jsonl", runs(3)
    monkeypatch.setenv("BLAMESPAN_TRACER", "judge")
    monkeypatch.delenv("BLAMESPAN_TRACER_DEADLINE_S", raising=False)
    with served(GOOD, {**GOOD, "wait_s": 100}) as server:
        monkeypatch.setenv("BLAMESPAN_JUDGE_URL", server.url)
        told = {"journal": tmp_path / "journal", "quiet_s": 0.1, "deadline_s": 10}
        with started("--out", str(path), **told) as (process, ready):
            waited = []
            for trace in traces:
                began_s = time.monotonic()
                spans = [span_to_sdk(span) for span in emit(replace(trace, outcome="unknown"))]
                OTLPSpanExporter(f"http://{ready['http']}/v1/traces").export(spans)
                until_written(path, trace)
                waited.append(time.monotonic() - began_s)
                if trace is traces[1]:
                    server.asked()  # ends the server
            process.terminate()
            _, log = process.communicate(timeout=60)

    said = [reason(path, trace) for trace in traces]
    assert said[0] is None
    assert said[1] in ("the judge did not answer: timeout", "the judge's time was over before it could answer")
    assert said[2] == "the judge did not answer: ConnectError, check BLAMESPAN_JUDGE_URL"
    assert max(waited) < 30  # 8 s for the slow one; the rest is the machine's
    assert "another starts in" not in log
    assert process.returncode == 0


def lines_of(path: Path, trace: MessageActionTrace) -> Sequence[str]:
    text = path.read_text() if path.exists() else ""
    return [line for line in text.splitlines() if trace.trace_id in line]


def until_written(path: Path, trace: MessageActionTrace) -> None:
    until_s = time.monotonic() + 60
    while not lines_of(path, trace):
        assert time.monotonic() < until_s, "the run was not written"
        time.sleep(0.05)


def reason(path: Path, trace: MessageActionTrace) -> str | None:
    [line] = lines_of(path, trace)
    found = {
        entry.key: entry.value.string_value
        for resource in request_from_json(line).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
        for entry in span.attributes
    }
    assert words.TRACER_NAME in found
    return found.get(words.ABSTAINED)
