"""`blamespan show --html`: one file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import re
from html import unescape
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blamespan.cli import cli
from blamespan.otlp import request_from_json, request_to_json, spans_from_proto, spans_to_proto
from blamespan.rebuilding.emit import emit
from blamespan.rebuilding.rebuild import rebuild
from blamespan.trace import MessageActionTrace
from blamespan_collector.page import report
from tests.collector.documents import HOSTILE, OURS, Document
from tests.sdk.broken_packages import NOT_CHECKED, break_checks
from tests.sdk.talks import talk


def written(path: Path, *traces: MessageActionTrace) -> Path:
    """Write runs as OTLP-JSON lines."""
    requests = [ExportTraceServiceRequest(resource_spans=spans_to_proto(emit(one))) for one in traces]
    path.write_text("".join(f"{request_to_json(one)}\n" for one in requests))
    return path


def reported(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["show", *map(str, arguments)])


def test_report_stands_alone(tmp_path: Path) -> None:
    """The file loads nothing, and its policy lets nothing run but the style and the script that are in it."""
    source = written(tmp_path / "traces.jsonl", talk(1), talk(2, task="Count the lamps."))
    done = reported(source, "--html", tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', unescape(text))

    assert done.exit_code == 0, done.output
    assert policy
    assert policy[1].startswith("default-src 'none'; ")
    for tag in ("style", "script"):
        [body] = re.findall(rf"<{tag}(?: type=\"module\")?>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy[1]
    assert not re.search(r"""(?:src|href)=["'](?!#)""", text)
    assert "Count the lamps." in text
    assert str(tmp_path) not in text


def test_report_says_why_no_check_could_be_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As the page does; nothing on the log says it again."""
    break_checks(monkeypatch)
    done = reported(written(tmp_path / "traces.jsonl", talk(1)), "--html", tmp_path / "report.html")

    assert (done.exit_code, caplog.messages) == (0, [])
    assert NOT_CHECKED in unescape((tmp_path / "report.html").read_text())


def test_report_holds_the_runs_as_otlp_json(tmp_path: Path) -> None:
    """What `Copy as OTLP-JSON` copies is the run with its verdict."""
    source = written(tmp_path / "traces.jsonl", talk(1, HOSTILE, task=HOSTILE[1]))
    reported(source, "--html", tmp_path / "report.html")
    [document] = re.findall(r'id="run-1-otlp">(.*?)</script>', (tmp_path / "report.html").read_text(), re.DOTALL)
    spans = list(spans_from_proto(request_from_json(document).resource_spans))
    rebuilt = rebuild(spans)

    assert [step.content for step in rebuilt.steps] == HOSTILE
    assert any("blamespan.failure.score" in span.attributes for span in spans)


def test_hostile_runs_stay_text(tmp_path: Path) -> None:
    """Neither the pages nor the data in them can end the element they stand in."""
    source = written(
        tmp_path / "<script>alert(1)<!--.jsonl", *(talk(n, HOSTILE, task=text, agents=(text, "b")) for n, text in
        enumerate(HOSTILE, 1))
    )  # fmt: skip
    reported(source, "--html", tmp_path / "report.html")
    page = Document((tmp_path / "report.html").read_text())

    assert page.tags <= OURS | {"style"}
    assert page.suspicious == []
    assert all(link.startswith("#") for link in page.links)
    assert len(page.scripts) == 1 + len(HOSTILE)


def test_runs_left_out_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More runs than a page shows are left out, and it says how many; --run chooses one."""
    monkeypatch.setattr(report, "_MOST_RUNS", 2)
    source = written(tmp_path / "traces.jsonl", *map(talk, range(1, 6)))
    done = reported(source, "--html", tmp_path / "report.html")

    assert "2 runs, " in done.output
    assert "3 are left out: name fewer runs" in done.output
    assert "3 more are left out" in (tmp_path / "report.html").read_text()
    assert "1 run, " in reported(source, "--html", tmp_path / "report.html", "--run", 4).output


@pytest.mark.parametrize(
    ("content", "out", "code", "said"),
    [
        ("", "r.html", 1, "expected"),
        ("no json\n", "r.html", 1, "expected"),
        (None, "no/such/folder/r.html", 1, "expected a file to write to, got --html"),
    ],
)
def test_bad_input_is_named(tmp_path: Path, content: str | None, out: str, code: int, said: str) -> None:
    """Files that hold no run, and places that cannot be written, end with what was expected."""
    source = tmp_path / "traces.jsonl"
    written(source, talk(1)) if content is None else source.write_text(content)
    done = reported(source, "--html", tmp_path / out)

    assert done.exit_code == code
    assert said in f"{done.output}{done.exception}"
