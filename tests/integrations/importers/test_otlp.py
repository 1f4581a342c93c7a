"""OTLP in every form that the OpenTelemetry Collector and people write it: the same runs from all of them."""

from __future__ import annotations

import base64
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from blamespan.errors import UnreadableInput
from blamespan.importing.recorded import RecordedRun
from blamespan_integrations.importers._otlp_documents import read_span_groups
from blamespan_integrations.importers._span_files import rebuild_runs
from blamespan_integrations.importers.otlp_json import OtlpJsonImporter
from blamespan_integrations.importers.otlp_proto import OtlpProtoImporter
from tests.integrations.dialects.recordings import FOLDER, trace_of
from tests.integrations.importers.files import errors_in, groups_of, matching, runs_in, traces_in

NAME = "openinference.autogen-swarm"
LINES = (FOLDER / f"{NAME}.jsonl").read_bytes()
DOCUMENTS: list[dict[str, Any]] = [json.loads(line) for line in LINES.splitlines()]
WHOLE = {"resourceSpans": [group for document in DOCUMENTS for group in document["resourceSpans"]]}


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def framed(*messages: bytes) -> bytes:
    """Write messages behind their lengths, as the Collector's file exporter does."""
    return b"".join(len(message).to_bytes(4, "big") + message for message in messages)


def varint(value: int) -> bytes:
    """Write a length of three bytes, as protobuf does."""
    return bytes([value & 127 | 128, value >> 7 & 127 | 128, value >> 14])


def requests() -> list[bytes]:
    return [ExportTraceServiceRequest(resource_spans=[group]).SerializeToString() for group in groups_of(NAME)]


def in_tempo_words(*, ids: Callable[[str], str]) -> dict[str, Any]:
    """Rewrite the whole document with the names and ids that Tempo has used over time."""
    batches = json.loads(json.dumps(WHOLE["resourceSpans"]))
    for batch in batches:
        for scoped in batch["scopeSpans"]:
            for span in scoped["spans"]:
                for owner in (span, *span.get("links", ())):
                    owner |= {key: ids(owner[key]) for key in ("traceId", "spanId", "parentSpanId") if key in owner}
        batch["instrumentationLibrarySpans"] = [
            {"instrumentationLibrary": scoped["scope"], "spans": scoped["spans"]} for scoped in batch.pop("scopeSpans")
        ]
    return {"batches": batches}


def as_base64(digits: str) -> str:
    return base64.b64encode(bytes.fromhex(digits)).decode()


TRACE = TracesData(resource_spans=groups_of(NAME)).SerializeToString()
FORMS: dict[str, tuple[str, bytes]] = {
    "json-lines": ("otlp-json", LINES),
    "json-lines-gzip": ("otlp-json", gzip.compress(LINES)),
    "json-lines-gzip-members": ("otlp-json", gzip.compress(LINES[:9_000]) + gzip.compress(LINES[9_000:])),
    "json-lines-xz": ("otlp-json", lzma.compress(LINES)),
    "json-lines-zstd": ("otlp-json", zstd(LINES)),
    "json-lines-zstd-frames": ("otlp-json", b"".join(zstd(line) for line in LINES.splitlines(keepends=True))),
    "json-lines-utf-16": ("otlp-json", LINES.decode().encode("utf-16")),
    "json-lines-utf-16-unmarked": ("otlp-json", LINES.decode().encode("utf-16-le")),
    "json-lines-utf-32": ("otlp-json", LINES.decode().encode("utf-32")),
    "json-lines-marked": ("otlp-json", b"\xef\xbb\xbf" + LINES),
    "json-lines-crlf": ("otlp-json", LINES.replace(b"\n", b"\r\n")),
    "json-document": ("otlp-json", json.dumps(WHOLE, indent=2).encode()),
    "json-list": ("otlp-json", json.dumps(DOCUMENTS, indent=1).encode()),
    "json-list-on-one-line": ("otlp-json", json.dumps(DOCUMENTS).encode()),
    "proto": ("otlp-proto", TRACE),
    "proto-gzip": ("otlp-proto", gzip.compress(TRACE)),
    "proto-requests-in-a-row": ("otlp-proto", b"".join(requests())),
    "proto-framed": ("otlp-proto", framed(*requests())),
    "proto-framed-zstd": ("otlp-proto", framed(*map(zstd, requests()))),
    "proto-framed-in-zstd": ("otlp-proto", zstd(framed(*requests()))),
    "json-framed-zstd": ("otlp-proto", framed(*map(zstd, LINES.splitlines()))),
    "tempo-v2-proto": ("otlp-proto", b"\x0a" + varint(len(TRACE)) + TRACE + b"\x18\x01"),
    "tempo-v1": ("tempo", json.dumps(in_tempo_words(ids=as_base64)).encode()),
    "tempo-v1-upper-case": ("tempo", json.dumps(in_tempo_words(ids=str.upper), indent=2).encode()),
    "tempo-v2": ("tempo", json.dumps({"trace": WHOLE, "metrics": {"inspectedBytes": "9"}}).encode()),
    "jaeger-v3": ("jaeger-v3", "\n".join(json.dumps({"result": document}) for document in DOCUMENTS).encode()),
    "jaeger-v3-on-one-line": ("jaeger-v3", "".join(json.dumps({"result": each}) for each in DOCUMENTS).encode()),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_every_form_tells_the_same_run(tmp_path: Path, form: str) -> None:
    """Whatever is around the spans, the whole trace is the one rebuilt from the spans as they were recorded."""
    name, data = FORMS[form]
    path = tmp_path / "export"
    path.write_bytes(data)

    assert matching(path) == [name]
    assert errors_in(path) == []
    assert traces_in(path) == [trace_of(NAME)]


@pytest.mark.parametrize("form", FORMS)
def test_a_form_cut_off_is_named(tmp_path: Path, form: str) -> None:
    """Cut in the middle or just before its end, a file gives errors that name it, never silence or a crash."""
    _, data = FORMS[form]
    path = tmp_path / "export"
    for size in (len(data) // 2, len(data) - 3):
        path.write_bytes(data[:size])
        errors = errors_in(path)

        assert errors
        assert all(message.startswith(("export", "expected")) for message in errors)


def test_cut_compression_keeps_what_was_read(tmp_path: Path) -> None:
    """A torn archive is one error; the traces before the tear are attributed."""
    path = tmp_path / "export.zst"
    other = LINES.replace(b'"traceId":"', b'"traceId":"f').replace(b'0","spanId', b'","spanId')
    for packed in (zstd(LINES) + zstd(other)[:-9], gzip.compress(LINES) + gzip.compress(other)[:40]):
        path.write_bytes(packed)

        assert traces_in(path)[:1] == [trace_of(NAME)]
        assert any("breaks off or is damaged" in message for message in errors_in(path))


def test_bad_lines_are_named_by_number_and_the_others_read(tmp_path: Path) -> None:
    """Broken JSON, another encoding, nesting without end, another format, a span without an id: each is named."""
    first, *rest = LINES.splitlines()
    no_id = first.replace(b'"spanId":"', b'"spanId":"00')
    name = DOCUMENTS[0]["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["name"]
    bad = [b'{"resourceSpans": [', b'{"resourceSpans": "caf\xe9"}', b"[" * 99_999, b'{"hello": 1}', b"7", no_id]
    path = tmp_path / "export.jsonl"
    path.write_bytes(b"\n".join([first, *bad, b'{"resourceMetrics": []}', *rest]))

    assert [message.split(", got")[0] for message in errors_in(path)] == [
        "export.jsonl:2: expected OTLP-JSON",
        "export.jsonl:3: expected UTF-8",
        "export.jsonl:4[0]: expected JSON nested at most 100 deep",
        "export.jsonl:5: expected an OTLP-JSON object with 'resourceSpans'",
        "export.jsonl:6: expected OTLP-JSON, a JSON object",
        f"export.jsonl:7: span {name!r}: expected a trace id of 16 bytes and a span id of 8",
    ]
    assert traces_in(path) == [trace_of(NAME)]


def test_line_without_end_is_named_and_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line longer than any export's is refused by its number, in memory of its limit, not of its length."""
    monkeypatch.setattr("blamespan_integrations.importers._records.MAX_LINE_BYTES", 5_000_000)
    first, *rest = LINES.splitlines()
    path = tmp_path / "export.jsonl"
    path.write_bytes(b"\n".join([first, b'{"resourceSpans": "' + b"x" * 7_000_000 + b'"}', *rest]))

    error, run = OtlpJsonImporter().read(path)

    assert f"{path}:2: expected a value of at most 5000000 characters, got more" in str(error)
    assert isinstance(run, RecordedRun)
    assert run.trace == trace_of(NAME)


def test_archive_that_unfolds_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few kilobytes that decompress to more than a line may hold are refused as that, not unfolded to their end."""
    monkeypatch.setattr("blamespan_integrations.importers._records.MAX_LINE_BYTES", 5_000_000)
    path = tmp_path / "export.zst"
    path.write_bytes(zstd(b'{"resourceSpans": "' + b"x" * 8_000_000))

    assert [message.split(", got")[0] for message in errors_in(path)] == [
        "export.zst:1: expected a value of at most 5000000 characters"
    ]


def test_spans_that_do_not_fit_into_memory_wait_on_disk(tmp_path: Path) -> None:
    """With hardly any memory to hold them, the traces are the same, in the same order."""
    names = (NAME, "openinference.langgraph-nodes", "openai-v2.openai-chat")
    spans = [span for name in names for span in read_span_groups(groups_of(name), "here")]
    spans = spans[::2] + spans[1::2]

    def traces(**limits: int) -> list[Any]:
        return [run.trace for run in rebuild_runs(tmp_path, spans, **limits) if isinstance(run, RecordedRun)]

    assert len(traces()) == 3
    assert traces(held_characters=20_000) == traces()
    assert traces(held_characters=0) == traces()


def test_an_id_that_means_two_spans_is_named(tmp_path: Path) -> None:
    """The same span twice counts once, as senders try again; two spans of one id are named, and the first counts."""
    path = tmp_path / "export.jsonl"
    path.write_bytes(LINES + LINES)

    assert errors_in(path) == []
    assert traces_in(path) == [trace_of(NAME)]

    path.write_bytes(LINES + LINES.splitlines()[0].replace(b'"name":"', b'"name":"another '))

    assert [message.split(", got")[0].split(": ", 1)[1] for message in errors_in(path)] == [
        "expected one span for each id"
    ]
    assert traces_in(path) == [trace_of(NAME)]


def test_jaeger_error_in_the_stream_is_named(tmp_path: Path) -> None:
    """An answer that ends in an error, as when a query is cut short, keeps the chunks before it."""
    path = tmp_path / "answer.json"
    chunk = json.dumps({"result": WHOLE})
    path.write_text(chunk + '\n{"error": {"httpCode": 500, "message": "deadline exceeded"}}')

    assert errors_in(path) == [
        "answer.json:2: expected a chunk of spans, got \"{'httpCode': 500, 'message': 'deadline exceeded'}\". "
        "Query again."
    ]
    assert traces_in(path) == [trace_of(NAME)]


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=300), place=st.integers(0, 10_000), form=st.sampled_from(["lines", "proto", "framed"]))
def test_damage_is_an_error_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, place: int, form: str
) -> None:
    """Whatever stands in a file, reading it gives runs and errors, and ends."""
    whole = {"lines": LINES, "proto": TRACE, "framed": framed(*requests())}[form]
    importer = OtlpJsonImporter() if form == "lines" else OtlpProtoImporter()
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(whole[:place] + data + whole[place + len(data) :])

    assert all(isinstance(item, RecordedRun | UnreadableInput) for item in importer.read(path))


def test_runs_name_their_file_and_trace(tmp_path: Path) -> None:
    """A run is told by its file and trace id."""
    path = tmp_path / "export.jsonl"
    path.write_bytes(LINES)
    (run,) = runs_in(path)

    assert run.source == f"{path}:{run.trace.trace_id}"
