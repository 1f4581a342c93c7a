"""Reading and writing spans: OTLP protobuf, OTLP-JSON and the OpenTelemetry SDK's own objects.

Each codec reads into `blamespan.spans.Span` and writes it again. What the record has no field for
(trace state, flags, dropped counts, schema URLs) comes back from the object the span was read from.
"""

from blamespan.otlp.json import request_from_json, request_to_json, spans_from_json, spans_to_json
from blamespan.otlp.proto import spans_from_proto, spans_to_proto

__all__ = [
    "request_from_json",
    "request_to_json",
    "spans_from_json",
    "spans_from_proto",
    "spans_to_json",
    "spans_to_proto",
]
