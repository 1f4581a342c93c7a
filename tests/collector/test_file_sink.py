"""A file gets every line once, whatever ends the process; its lines are OTLP-JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blamespan.errors import ConfigError
from blamespan.otlp import request_from_json
from blamespan_collector.delivering.file_sink import FileSink, line
from tests.collector.fakes import request, run
from tests.collector.test_worker import foreign_request

BODIES = [request(run(number)).SerializeToString() for number in range(1, 6)]
LINES = [line("traces", body) for body in BODIES]


async def written(sink: FileSink, bodies: Sequence[bytes]) -> str:
    return (await sink.send("traces", bodies)).cursor


async def resumed(path: Path, place: str, upcoming: Sequence[bytes]) -> FileSink:
    """Start again with what was noted."""
    sink = FileSink(str(path))
    sink.resume({"traces": (place, upcoming), "logs": ("", []), "metrics": ("", [])})
    return sink


@pytest.mark.parametrize("survived", [0, 1, len(LINES[2]) - 1, len(LINES[2]), len(LINES[2]) + 7])
async def test_lines_written_but_not_noted_come_once(tmp_path: Path, survived: int) -> None:
    """Killed between writing a batch and noting it, or in the middle of it: the file holds each line once."""
    path = tmp_path / "out.jsonl"
    sink = FileSink(str(path))
    place = await written(sink, BODIES[:2])
    await sink.close()
    with path.open("ab") as file:
        file.write(b"".join(LINES[2:4])[:survived])
    sink = await resumed(path, place, BODIES[2:])
    await written(sink, BODIES[2:])
    await sink.close()

    assert path.read_bytes() == b"".join(LINES)


async def test_what_others_added_stays(tmp_path: Path) -> None:
    """Only what we would write next, byte for byte, is cut; anything else is somebody's."""
    path = tmp_path / "out.jsonl"
    sink = FileSink(str(path))
    place = await written(sink, BODIES[:1])
    await sink.close()
    with path.open("ab") as file:
        file.write(b"a note without an end")
    sink = await resumed(path, place, BODIES[1:])
    await written(sink, BODIES[1:2])
    await sink.close()

    assert path.read_bytes() == LINES[0] + b"a note without an end\n" + LINES[1]


async def test_file_that_was_moved_away_is_begun_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Log rotation: lines go to the file at the path, while we run and after a restart."""
    path = tmp_path / "out.jsonl"
    sink = FileSink(str(path))
    await written(sink, BODIES[:1])
    path.rename(tmp_path / "out.1")
    place = await written(sink, BODIES[1:2])
    await sink.close()
    path.rename(tmp_path / "out.2")
    sink = await resumed(path, place, BODIES[2:])
    await written(sink, BODIES[2:3])
    await sink.close()

    found = [(tmp_path / name).read_bytes() for name in ("out.1", "out.2", "out.jsonl")]
    assert found == LINES[:3]
    assert caplog.messages == [f"{path} was replaced or cut since the last start: lines go on at its end"]


async def test_file_that_was_emptied_is_gone_on_with(tmp_path: Path) -> None:
    """A file cut to nothing beside us is no reason to cut it again or to stop."""
    path = tmp_path / "out.jsonl"
    sink = FileSink(str(path))
    place = await written(sink, BODIES[:2])
    await sink.close()
    path.write_bytes(b"")
    sink = await resumed(path, place, BODIES[2:])
    await written(sink, BODIES[2:3])
    await sink.close()

    assert path.read_bytes() == LINES[2]


def test_file_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    """A folder that is not there is named before anything starts."""
    with pytest.raises(ConfigError, match="expected a file to append traces to, got"):
        FileSink(str(tmp_path / "missing" / "out.jsonl"))


def test_line_reads_back_as_what_it_was() -> None:
    """Everything that OTLP-JSON has a name for survives; fields of versions to come have none."""
    message = foreign_request()
    message.resource_spans[0].scope_spans[0].spans[0].attributes.add(key="odd").value.double_value = float("-inf")
    back = request_from_json(line("traces", message.SerializeToString()))
    message.DiscardUnknownFields()  # type: ignore[attr-defined]  # the stubs lack it

    assert back == message


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_VALUES = st.recursive(
    st.fixed_dictionaries({"stringValue": _TEXT})
    | st.fixed_dictionaries({"boolValue": st.booleans()})
    | st.fixed_dictionaries({"intValue": st.integers(-(2**63), 2**63 - 1).map(str)})
    | st.fixed_dictionaries({"doubleValue": st.floats(allow_nan=False, allow_infinity=False)})
    | st.just({}),
    lambda inner: st.fixed_dictionaries({"arrayValue": st.fixed_dictionaries({"values": st.lists(inner, max_size=3)})}),
    max_leaves=5,
)


@given(st.lists(st.tuples(_TEXT, _VALUES), max_size=4), _TEXT, st.integers(0, 2**64 - 1), st.integers(0, 2))
@settings(max_examples=150, deadline=None)
def test_line_is_what_protobufs_own_mapping_gives(
    attributes: list[tuple[str, object]], name: str, time_ns: int, code: int
) -> None:
    """Our own writer, three times as fast, gives what protobuf's gives, with ids in hex."""
    document = {
        "resourceSpans": [
            {
                "scopeSpans": [
                    {
                        "spans": [
                            {
                                "name": name,
                                "startTimeUnixNano": str(time_ns),
                                "attributes": [{"key": key, "value": value} for key, value in attributes],
                                "status": {"code": code},
                                "events": [{"name": name}],
                            }
                        ]
                    }
                ]
            }
        ]
    }
    message = json_format.ParseDict(document, ExportTraceServiceRequest())
    expected = json_format.MessageToDict(message, use_integers_for_enums=True)

    assert json.loads(line("traces", message.SerializeToString())) == json.loads(json.dumps(expected))


def test_logs_name_their_spans_in_hex() -> None:
    """In OTLP-JSON ids are hex, also those of log records."""
    message = ExportLogsServiceRequest()
    record = message.resource_logs.add().scope_logs.add().log_records.add(trace_id=b"t" * 16, span_id=b"s" * 8)
    record.body.string_value = "said"
    (found,) = json.loads(line("logs", message.SerializeToString()))["resourceLogs"][0]["scopeLogs"][0]["logRecords"]

    assert found == {"body": {"stringValue": "said"}, "traceId": "74" * 16, "spanId": "73" * 8}


def test_line_holds_every_field_that_otlp_knows() -> None:
    """Whatever a span, its resource or a value can say is in the line; what newer versions of OTLP add fails here."""
    request_ = ExportTraceServiceRequest()
    _fill(request_, 0)

    assert request_from_json(line("traces", request_.SerializeToString())) == request_


def _fill(message: Message, depth: int) -> None:
    """Set every field, and of alternatives the last one."""
    for field in message.DESCRIPTOR.fields:
        is_several = field.label == field.LABEL_REPEATED
        if field.message_type is not None:
            if depth < 9:
                within = getattr(message, field.name)
                _fill(within.add() if is_several else within, depth + 1)
        elif is_several:
            getattr(message, field.name).append("text")
        else:
            setattr(message, field.name, _EXAMPLES.get(field.type, 7))


_EXAMPLES = {FieldDescriptor.TYPE_STRING: "text", FieldDescriptor.TYPE_BYTES: b"12345678", FieldDescriptor.TYPE_ENUM: 1}
