"""Failed runs that fail alike are one incident, in the store that the page and alerts read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from blamespan import conventions as words
from blamespan.cli import cli
from blamespan.pipeline import attribute_traces
from blamespan.rebuilding.emit import emit
from blamespan.spans import Span
from blamespan_collector.alerting.alerting import ReceiverLane
from blamespan_collector.alerting.receivers import NotTold
from blamespan_collector.store import Incident, IncidentRule, RunQuery, RunStore, RunWriter, close_incident
from tests.collector.fakes import Clock, request
from tests.collector.paging import LastStepsTracer, annotated
from tests.sdk.talks import talk

LIKENESS = "reviewer, message, mast:FM-3.3"
HOUR_NS = 3_600 * 10**9


def failing(number: int, **changes: object) -> list[Span]:
    """A run that fails as the others do."""
    [spans] = annotated(talk(number, **changes))  # type: ignore[arg-type]
    return spans


def payload(spans: Sequence[Span]) -> bytes:
    return request(spans).SerializeToString()


class Heard:
    """A receiver in memory that is up or down."""

    def __init__(self, *, hears_states: bool = False) -> None:
        self.name, self.hears_states, self.is_up = "memory", hears_states, True
        self.messages: list[list[tuple[str, str, int]]] = []

    def send(self, incidents: Sequence[Incident]) -> None:
        if not self.is_up:
            raise NotTold("down")
        self.messages.append([(one.agent, one.state, one.runs) for one in incidents])


def writer(path: Path, clock: Clock, after: int = 1) -> RunWriter:
    return RunWriter(path, rule=IncidentRule(after, quiet_s=3_600), sync="normal", now_ns=clock)


def only(path: Path) -> Incident:
    [incident] = RunStore(path).incidents()
    return incident


def test_runs_that_fail_alike_are_one_incident(path: Path, clock: Clock) -> None:
    """It says who, what, how often, since when, and in which runs; its runs are found by it."""
    into = writer(path, clock)
    for number in range(1, 4):
        into.put([payload(failing(number))])
        clock.now_ns += HOUR_NS // 2

    incident = only(path)
    assert (incident.service, incident.likeness, incident.state) == ("team", LIKENESS, "open")
    assert (incident.runs, incident.opened, incident.first_ns) == (3, 1, 10**18)
    assert (incident.first_trace, incident.last_trace) == (f"{1:032x}", f"{3:032x}")
    assert incident.quote == "Checked, that is right."
    assert [run.trace_id for run in RunStore(path).search(RunQuery(incident=incident.id, limit=2))] == [
        f"{3:032x}",
        f"{2:032x}",
    ]


def test_another_agent_or_service_is_another_incident_and_a_sound_run_is_none(path: Path, clock: Clock) -> None:
    """The sound twins of the law above."""
    other = [replace(span, resource={"service.name": "shop"}) for span in failing(2)]
    into = writer(path, clock)
    into.put(
        [payload(one) for one in (failing(1), other, failing(3, agents=("a", "b")), failing(4, outcome="succeeded"))]
    )

    assert sorted((one.service, one.agent) for one in RunStore(path).incidents()) == [
        ("shop", "reviewer"),
        ("team", "a"),
        ("team", "reviewer"),
    ]


def test_what_comes_again_counts_once(path: Path, clock: Clock) -> None:
    """A batch that is sent again after a kill adds nothing; nor does the rest of a run."""
    into, spans = writer(path, clock), failing(1)
    into.put([payload(spans)])
    into.put([payload(spans), payload(spans[:1])])

    assert only(path).runs == 1


def test_it_opens_at_the_nth_run(path: Path, clock: Clock) -> None:
    """Fewer are counted, and those before a quiet hour count no more."""
    into = writer(path, clock, after=3)
    states = []
    for number, hours in ((1, 0), (2, 0), (3, 2), (4, 0), (5, 0)):
        clock.now_ns += hours * HOUR_NS
        into.put([payload(failing(number))])
        states.append(only(path).state)

    assert states == ["counted"] * 4 + ["open"]
    assert (only(path).runs, only(path).since) == (5, 3)


def test_it_closes_after_quiet_and_opens_again(path: Path, clock: Clock) -> None:
    """Quiet closes it at the next look; the next run opens it again, at the first."""
    into = writer(path, clock, after=2)
    into.put([payload(failing(1)), payload(failing(2))])
    clock.now_ns += 2 * HOUR_NS
    into.prune()
    assert (only(path).state, only(path).state_ns) == ("quiet", clock.now_ns)

    into.put([payload(failing(3))])

    assert (only(path).state, only(path).opened, only(path).runs, only(path).since) == ("open", 2, 3, 1)


def test_a_person_closes_it_and_it_opens_when_it_comes_again(path: Path, clock: Clock) -> None:
    """What is closed says so; to close it twice is said, too."""
    into = writer(path, clock)
    into.put([payload(failing(1))])

    assert close_incident(path, only(path).id, clock.now_ns)
    assert only(path).state == "closed"
    assert not close_incident(path, only(path).id, clock.now_ns)
    into.put([payload(failing(2))])
    assert (only(path).state, only(path).opened) == ("open", 2)


def test_a_run_that_turns_out_sound_is_counted_no_more(path: Path, clock: Clock) -> None:
    """A later verdict moves a run to another incident, or out of all of them."""
    into, trace = writer(path, clock), talk(1, outcome="unknown")
    [judged] = attribute_traces([emit(trace)], LastStepsTracer())
    into.put([payload(judged.on(emit(trace), is_complete=True))])
    assert only(path).runs == 1

    [said] = attribute_traces([emit(replace(trace, outcome="succeeded"))], LastStepsTracer(), revision=1)
    sound = [span.with_attributes({words.RUN_OUTCOME: "succeeded"}) for span in said.beside(is_complete=True)]
    into.put([payload(sound)])

    assert RunStore(path).incidents() == []


def test_it_outlives_its_runs(path: Path, clock: Clock) -> None:
    """Runs are let go as they age; what was counted stays."""
    into = writer(path, clock)
    into.put([payload(failing(1))])
    clock.now_ns += 30 * 24 * HOUR_NS
    into.prune()

    assert RunStore(path).search() == []
    assert (only(path).runs, only(path).state) == (1, "quiet")


def test_incidents_are_bounded(path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents that are named anew in each run do not fill the disk; open incidents go last."""
    monkeypatch.setattr("blamespan_collector.store.incidents._MOST", 5)
    into = writer(path, clock)
    into.put([payload(failing(n, agents=("a", f"{'x' * n} y"), contents=("one", "two"))) for n in range(1, 9)])
    into.prune()

    kept = RunStore(path).incidents()
    assert len(kept) == 5


def test_two_writers_of_one_store_count_together(path: Path, clock: Clock) -> None:
    """Two collectors, or a collector and programs: each run counts once, in one incident."""

    def put(numbers: range) -> None:
        into = writer(path, clock)
        for number in numbers:
            into.put([payload(failing(number))])
        into.close()

    threads = [threading.Thread(target=put, args=[range(start, start + 40)]) for start in (1, 21)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert only(path).runs == 60


def test_status_lists_incidents_and_closes_one(path: Path, clock: Clock) -> None:
    """What is open stands there with its runs; to close what is not open is refused, and says what is."""
    into = writer(path, clock)
    into.put([payload(failing(1))])
    once = CliRunner().invoke(cli, ["status", "--store", str(path)])
    into.put([payload(failing(2))])
    incident = only(path)

    shown = CliRunner().invoke(cli, ["status", "--store", str(path)])
    wrong = CliRunner().invoke(cli, ["status", "--store", str(path), "--close", "nothing"])
    closed = CliRunner().invoke(cli, ["status", "--store", str(path), "--close", incident.id, "--json"])

    assert f"{incident.id}        1 run, last" in once.stdout
    assert f"{incident.id}       2 runs, last" in shown.stdout
    assert "incidents     1 open\n" in shown.stdout
    assert str(wrong.exception) == f"expected one of {incident.id}, got --close 'nothing'"
    assert json.loads(closed.stdout)["incidents"] == {
        "counts": {"counted": 0, "open": 0, "quiet": 0, "closed": 1},
        "open": [],
    }


_KILLED = """
import sys
from pathlib import Path
from tests.collector.test_incidents import failing, payload, Clock, writer
into = writer(Path(sys.argv[1]), Clock())
for number in range(1, 10_000):
    into.put([payload(failing(number))])
    print(number, flush=True)
"""


def test_a_kill_loses_no_run_that_was_stored(path: Path, clock: Clock) -> None:
    """The count and the runs are one transaction: after SIGKILL they agree."""
    with subprocess.Popen([sys.executable, "-c", _KILLED, path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while int(process.stdout.readline()) < 30:
            pass
        os.kill(process.pid, signal.SIGKILL)

    stored = len(RunStore(path).search(RunQuery(limit=10_000)))
    assert only(path).runs == stored >= 30
    writer(path, clock).put([payload(failing(1)), payload(failing(20_000))])
    assert only(path).runs == stored + 1


@pytest.mark.slow
def test_ten_thousand_alike_failures_are_one_incident_and_one_message(path: Path, clock: Clock) -> None:
    """A team that fails in each run for a minute costs its store little, and people one message."""
    heard = Heard()
    lane, into = ReceiverLane(path, heard, clock), writer(path, clock)
    spans = failing(1)
    payloads = [payload([replace(span, trace_id=f"{n:032x}") for span in spans]) for n in range(1, 10_001)]
    before_s, before_bytes = time.process_time(), psutil.Process().memory_info().rss
    for start in range(0, len(payloads), 100):
        into.put(payloads[start : start + 100])
        lane.step()
        clock.now_ns += 60 * 10**9 // 100
    took_s, grown_bytes = time.process_time() - before_s, psutil.Process().memory_info().rss - before_bytes
    print(f"stored and counted in {took_s:.1f} s of CPU, {grown_bytes / 2**20:.0f} MiB more")  # noqa: T201

    assert (only(path).runs, len(heard.messages)) == (10_000, 1)
    assert took_s < 30
    assert grown_bytes < 64 * 2**20
