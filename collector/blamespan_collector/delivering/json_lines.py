"""What is in the outbox as OTLP-JSON lines."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any

import orjson
from google.protobuf import json_format
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blamespan.otlp.json import request_to_document
from blamespan_collector.worker.state import Kind

__all__ = ["line"]

_IDS = ("traceId", "spanId")


def line(kind: Kind, payload: bytes) -> bytes:
    """Write one serialised OTLP export request as a line of OTLP-JSON, with its end."""
    return orjson.dumps(_document(kind, payload), option=orjson.OPT_APPEND_NEWLINE)


def _document(kind: Kind, payload: bytes) -> dict[str, Any]:
    if kind == "traces":
        return request_to_document(ExportTraceServiceRequest.FromString(payload))
    request: Message = (ExportLogsServiceRequest if kind == "logs" else ExportMetricsServiceRequest).FromString(payload)
    document = json_format.MessageToDict(request, use_integers_for_enums=True)
    for owner in _owners(document):
        for key in _IDS:
            if isinstance(owner.get(key), str):
                owner[key] = binascii.hexlify(base64.b64decode(owner[key])).decode()
    return document


def _owners(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Find the log records and exemplars, which name spans."""
    todo: list[Any] = [document]
    while todo:
        item = todo.pop()
        if isinstance(item, list):
            todo += item
        elif isinstance(item, dict):
            yield item
            todo += [value for key, value in item.items() if key not in ("attributes", "body")]
