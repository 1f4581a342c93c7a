"""Receivers are told of incidents: who, when, why, the quote and the link; once an hour at most, and never in vain."""

from __future__ import annotations

import io
import json
import logging
import socket
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from click.testing import CliRunner
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from blamespan.cli import cli
from blamespan.errors import ConfigError
from blamespan_collector.alerting.alerting import Alerting, ReceiverLane
from blamespan_collector.alerting.receivers import AppriseReceiver, LogReceiver, kind_of, write_events
from blamespan_collector.alerting.text import write_alert
from blamespan_collector.delivering.backend import BackendAccess
from blamespan_collector.store import Incident, RunStore, RunWriter, close_incident
from tests.collector.backends import HttpBackend, serving
from tests.collector.fakes import Clock
from tests.collector.test_incidents import HOUR_NS, Heard, failing, payload, writer
from tests.collector.working import until

LINK = "http://blame.example"
SECRET = "s3cr3tT0ken"


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """What a collector at level DEBUG would write to stderr."""
    written = io.StringIO()
    handler, root = logging.StreamHandler(written), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield written
    root.removeHandler(handler)
    root.setLevel(level)


def incident_in(path: Path, clock: Clock, **changes: Any) -> Incident:
    into = writer(path, clock)
    into.put([payload(failing(1, **changes))])
    into.close()
    return RunStore(path).incidents(1)[0]


def test_an_incident_is_told_once_an_hour_while_it_goes_on(path: Path, clock: Clock) -> None:
    """Ten thousand runs in a minute are one message; an hour later one more, with the count of then; then silence."""
    heard, into = Heard(), writer(path, clock)
    lane = ReceiverLane(path, heard, clock)
    for number in range(1, 40):
        into.put([payload(failing(number))])
        lane.step()
    clock.now_ns += HOUR_NS
    lane.step()
    clock.now_ns += HOUR_NS
    lane.step()

    assert heard.messages == [[("reviewer", "open", 1)], [("reviewer", "open", 39)]]


def test_a_sound_store_tells_nobody(path: Path, clock: Clock) -> None:
    """The sound twin."""
    writer(path, clock).put([payload(failing(1, outcome="succeeded"))])
    heard = Heard()
    ReceiverLane(path, heard, clock).step()

    assert heard.messages == []


def test_a_receiver_that_is_down_is_told_later(path: Path, clock: Clock) -> None:
    """Delayed, not lost: also what went quiet meanwhile; a new process goes on from the store."""
    heard, into = Heard(), writer(path, clock)
    heard.is_up = False
    lane = ReceiverLane(path, heard, clock)
    into.put([payload(failing(1))])
    waits = [lane.step() for _ in range(6)]
    clock.now_ns += 2 * HOUR_NS
    into.prune()
    heard.is_up = True
    ReceiverLane(path, heard, clock).step()

    assert waits == [2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert heard.messages == [[("reviewer", "quiet", 1)]]


def test_what_a_person_closed_is_not_told(path: Path, clock: Clock) -> None:
    """Whoever closes an incident knows of it; when it comes again within the hour, the hour is waited for."""
    heard, into = Heard(), writer(path, clock)
    lane = ReceiverLane(path, heard, clock)
    into.put([payload(failing(1))])
    lane.step()
    close_incident(path, RunStore(path).incidents()[0].id, clock.now_ns)
    into.put([payload(failing(2))])
    lane.step()
    assert len(heard.messages) == 1

    clock.now_ns += HOUR_NS
    lane.step()
    assert heard.messages[1:] == [[("reviewer", "open", 2)]]


def test_many_new_incidents_are_one_message(path: Path, clock: Clock) -> None:
    """A flood of different failures does not flood people."""
    heard, into = Heard(), writer(path, clock)
    into.put([payload(failing(n, agents=("a", f"b{'x' * n} y"), contents=("one", "two"))) for n in range(1, 30)])
    ReceiverLane(path, heard, clock).step()

    assert [len(message) for message in heard.messages] == [29]
    title, body = write_alert(RunStore(path).incidents(), LINK)
    assert title == "29 incidents"
    assert body.count("?incident=") == 10
    assert "19 more" in body


def test_two_collectors_on_a_store_tell_once(path: Path, clock: Clock) -> None:
    """Who takes an incident first tells of it; what a killed collector had taken another tells later."""
    incident_in(path, clock)
    first, second = Heard(), Heard()
    claimed = ReceiverLane(path, first, clock)._claim()
    ReceiverLane(path, second, clock).step()
    assert (len(claimed), second.messages) == (1, [])

    clock.now_ns += 121 * 10**9
    ReceiverLane(path, second, clock).step()
    assert len(second.messages) == 1


def test_log_back_ends_hear_each_state(path: Path, clock: Clock) -> None:
    """Opened, quiet, opened again: an event each, at once."""
    heard, into = Heard(hears_states=True), writer(path, clock)
    lane = ReceiverLane(path, heard, clock)
    for number in (1, 2):
        into.put([payload(failing(number)), payload(failing(10 + number))])
        lane.step()
        clock.now_ns += 2 * HOUR_NS
        into.prune()
        lane.step()

    assert heard.messages == [
        [("reviewer", state, runs)] for state, runs in (("open", 2), ("quiet", 2), ("open", 4), ("quiet", 4))
    ]


def test_text_says_who_when_why_quote_and_link(path: Path, clock: Clock) -> None:
    """Everything that a person needs to decide whether to look."""
    incident = incident_in(path, clock)

    title, body = write_alert([incident], LINK)

    assert title == "reviewer (team): Incorrect verification, 1 run"
    assert body.splitlines() == [
        "Who:   reviewer in team",
        "When:  first 2001-09-09 01:46 UTC, last 2001-09-09 01:46 UTC",
        "Why:   Incorrect verification (mast:FM-3.3); alike: reviewer, message, mast:FM-3.3",
        "Quote: “Checked, that is right.”",
        f"See:   {LINK}/?incident={incident.id}",
        f"Close: there, or blamespan status --close {incident.id}",
    ]


def test_hostile_text_mentions_nobody(path: Path, clock: Clock) -> None:
    """A run cannot call a channel, forge a link, move a cursor or write a line of its own."""
    incident = incident_in(
        path,
        clock,
        agents=("a", "<!here> b\nSee: x"),
        contents=("one", "@everyone [x](http://evil) \x1b[31m<!channel>"),
    )

    _, body = write_alert([incident], LINK)
    assert not any(sign in body for sign in ("<!", "@everyone", "](", "\x1b", "\nSee: x"))
    assert len(body.splitlines()) == 6


def test_a_web_hook_gets_the_alert(path: Path, clock: Clock) -> None:
    """A real server gets real JSON, by Apprise."""
    incident = incident_in(path, clock)
    backend = HttpBackend()
    with serving(backend) as url:
        receiver = AppriseReceiver(f"{url.replace('http', 'json')}/{SECRET}", "json", LINK)
        ReceiverLane(path, receiver, clock).step()

    [asked] = backend.asked
    assert asked.target.strip("/") == SECRET
    assert json.loads(asked.body)["title"] == "reviewer (team): Incorrect verification, 1 run"
    assert incident.id in json.loads(asked.body)["message"]


def test_a_mail_server_gets_the_alert(path: Path, clock: Clock) -> None:
    """A real SMTP server gets a real mail."""
    incident = incident_in(path, clock)
    mails: list[bytes] = []

    class Handler:
        async def handle_DATA(self, server: object, session: object, envelope: Any) -> str:  # noqa: N802
            mails.append(envelope.content)
            return "250 OK"

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = Controller(Handler(), hostname="127.0.0.1", port=port)
    server.start()
    try:
        to = f"mailto://127.0.0.1:{port}?from=blamespan@example.com&to=ann@example.com&mode=insecure&format=text"
        ReceiverLane(path, AppriseReceiver(to, "mailto", LINK), clock).step()
    finally:
        server.stop()

    assert len(mails) == 1
    assert b"reviewer (team)" in mails[0]
    assert incident.id.encode() in mails[0]


@pytest.mark.parametrize("status", [401, 404, 500])
def test_no_secret_in_logs_errors_or_the_store(path: Path, clock: Clock, logged: io.StringIO, status: int) -> None:
    """Where a receiver refuses or is gone, the log says so, and nothing of its URL; the store has its kind alone."""
    incident_in(path, clock)
    with serving(HttpBackend([(status, {})])) as url:
        told = f"{url.replace('http://', f'json://ann:{SECRET}@')}/hooks/{SECRET}?+X-Key={SECRET}"
        lane = ReceiverLane(path, AppriseReceiver(told, "json", LINK), clock)
        lane.step()
    lane.failures = 0
    lane.step()

    said = [line for line in logged.getvalue().splitlines() if "alerts" in line]
    assert len(said) == 2
    assert all(line.startswith("json does not take alerts now, and is tried until it does: ") for line in said)
    assert str(status) in said[0]
    assert SECRET not in logged.getvalue()
    assert SECRET.encode() not in b"".join(file.read_bytes() for file in path.parent.iterdir())


@pytest.mark.parametrize("url", [f"nothing://{SECRET}", SECRET, f"slack://{SECRET}", f"http//{SECRET}@x"])
def test_a_url_that_is_none_is_refused_without_being_shown(url: str, logged: io.StringIO) -> None:
    """One sentence that says which, and how to try it."""
    with pytest.raises(ConfigError, match=r"alerts-to: expected the URL of a receiver") as refused:
        AppriseReceiver(url, kind_of(url), LINK)

    assert SECRET not in str(refused.value) + logged.getvalue()


def test_settings_keep_the_secret(tmp_path: Path) -> None:
    """A file with a table, or the variable; what is printed of it is the kind."""
    config = tmp_path / "collector.toml"
    config.write_text(f'[alerts]\nto = ["json://127.0.0.1:9/{SECRET}"]\nlink = "{LINK}"\n')
    options = ["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--page", "127.0.0.1:0", "--journal", str(tmp_path)]
    options += ["--store", str(tmp_path / "store" / "runs.db")]

    checked = CliRunner().invoke(cli, ["collect", "--config", str(config), "--check", *options, "--tracer", "checks"])

    assert "alerts-to = json://***" in checked.stdout
    assert "alerts: to json; no incident is open" in checked.stdout
    assert SECRET not in checked.output
    config.write_text(f'[alerts]\nto = [["json://{SECRET}"]]\n')
    wrong = CliRunner().invoke(cli, ["collect", "--config", str(config), "--check", *options])
    assert "alerts-to must be a list of strings" in str(wrong.exception)
    assert SECRET not in f"{wrong.exception} {wrong.output}"


def test_dry_run_shows_the_alert_and_sends_nothing(tmp_path: Path, clock: Clock) -> None:
    """`--check` says what receivers would be told."""
    incident = incident_in(tmp_path / "store" / "runs.db", clock)
    backend = HttpBackend()
    with serving(backend) as url:
        hook = url.replace("http", "json")
        options = ["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--page", "127.0.0.1:0", "--tracer", "checks"]
        options += ["--store", str(tmp_path / "store" / "runs.db")]
        checked = CliRunner().invoke(
            cli, ["collect", "--check", *options, "--journal", str(tmp_path)],
            env={"BLAMESPAN_ALERTS_TO": f"{hook}/a,b {hook}/c"},
        )  # fmt: skip

    assert checked.exit_code == 0, checked.output
    assert "alerts: to json, json 2; this is what they would be told:" in checked.stdout
    assert f"/?incident={incident.id}" in checked.stdout
    assert backend.asked == []


def test_a_log_back_end_gets_the_event(path: Path, clock: Clock) -> None:
    """A real OTLP/HTTP server gets an event that names the incident and its latest run."""
    incident = incident_in(path, clock)
    backend = HttpBackend()
    with serving(backend) as url:
        ReceiverLane(path, LogReceiver(url, BackendAccess()), clock).step()

    [asked] = backend.asked
    assert (asked.target, asked.body) == ("/v1/logs", write_events([incident]))
    [record] = ExportLogsServiceRequest.FromString(asked.body).resource_logs[0].scope_logs[0].log_records
    assert (record.event_name, record.trace_id.hex()) == ("blamespan.incident", incident.last_trace)
    values = {item.key: item.value.string_value or item.value.int_value for item in record.attributes}
    assert (values["blamespan.incident.id"], values["blamespan.incident.state"]) == (incident.id, "open")
    assert values["blamespan.incident.runs"] == 1


def test_a_hung_receiver_holds_up_nobody(path: Path, clock: Clock) -> None:
    """Each has a thread of its own; the store is written meanwhile."""
    let_go, heard = threading.Event(), Heard()

    class Hung(Heard):
        def send(self, incidents: Sequence[Incident]) -> None:
            let_go.wait(30)

    hung = Hung()
    hung.name = "hung"
    into = RunWriter(path, sync="normal")
    into.put([payload(failing(1))])
    alerting = Alerting(path, [hung, heard], look_every_s=0.02)
    alerting.start()
    try:
        until(lambda: heard.messages and alerting.n_open)
        into.put([payload(failing(2))])
    finally:
        let_go.set()
        alerting.stop()

    assert heard.messages == [[("reviewer", "open", 1)]]
    assert alerting.n_open == 1
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT runs FROM incidents").fetchall() == [(2,)]
