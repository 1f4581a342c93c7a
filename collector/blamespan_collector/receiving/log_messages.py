"""Finds the messages of agents and models among log records: some instrumentations send them there, not on spans.

They go on as the logs they are; for the verdict, those of each trace are journalled once more beside them.

Source: OpenTelemetry GenAI conventions, events; `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=EVENT_ONLY`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from blamespan_collector.journal import NewEntry
from blamespan_collector.journal.entries import pack_keys

_PREFIX = "gen_ai."
_NO_MESSAGES = ("gen_ai.evaluation.",)
"""Verdicts of us and others: what is judged must not hold them."""
_MOST_RECORD_BYTES = 8 * 1024 * 1024
"""As for a span: a larger one goes on, and is not read for the verdict."""


@dataclass(slots=True)
class _Messages:
    keys: list[tuple[bytes, bytes, int]] = field(default_factory=list)
    records: list[LogRecord] = field(default_factory=list)


def message_entries(body: bytes, received_ns: int) -> list[NewEntry]:
    """Make an entry of each trace's messages in a serialised `ExportLogsServiceRequest`; none where it has none.

    Args:
        body: A request that could be read before.
        received_ns: Unix time in ns at which it came.
    """
    if _PREFIX.encode() not in body:  # nearly all logs
        return []
    traces: dict[bytes, _Messages] = {}
    for group in ExportLogsServiceRequest.FromString(body).resource_logs:
        for scoped in group.scope_logs:
            for record in scoped.log_records:
                if _is_message(record):
                    messages = traces.setdefault(record.trace_id, _Messages())
                    messages.keys.append((record.span_id, b"", 0))
                    messages.records.append(record)
    return [
        NewEntry("events", trace_id, pack_keys(messages.keys), _payload(messages.records), received_ns)
        for trace_id, messages in traces.items()
    ]


def _is_message(record: LogRecord) -> bool:
    if len(record.trace_id) != 16 or len(record.span_id) != 8 or not any(record.trace_id) or not any(record.span_id):
        return False
    name = record.event_name or _event_name(record)
    return name.startswith(_PREFIX) and not name.startswith(_NO_MESSAGES) and record.ByteSize() <= _MOST_RECORD_BYTES


def _event_name(record: LogRecord) -> str:
    """Read the name of before records had a field for it."""
    return next((item.value.string_value for item in record.attributes if item.key == "event.name"), "")


def _payload(records: list[LogRecord]) -> bytes:
    request = ExportLogsServiceRequest()
    request.resource_logs.add().scope_logs.add().log_records.extend(records)
    return request.SerializeToString(deterministic=True)
