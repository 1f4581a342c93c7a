"""The one span representation: what OTLP, the OpenTelemetry SDK and files are all read into.

`rebuild`, `annotate` and the assembler see only this record; `blamespan.otlp` reads and writes it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from opentelemetry.trace import SpanKind

from blamespan.errors import MalformedSpan
from blamespan.trace import AttributeValue, StepStatus

_TRACE_ID, _SPAN_ID = (re.compile(rf"(?!0+\Z)[0-9a-f]{{{digits}}}").fullmatch for digits in (32, 16))

Attributes: TypeAlias = Mapping[str, AttributeValue]


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something that happened during a span, e.g. an exception."""

    name: str
    time_ns: int
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SpanLink:
    """A reference to another span that this one builds on."""

    trace_id: str
    span_id: str
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scope:
    """The instrumentation that made a span."""

    name: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """One ended span.

    Attributes:
        trace_id: 32 hex digits.
        span_id: 16 hex digits.
        parent_id: 16 hex digits, or None for a root.
        name: As recorded.
        kind: OpenTelemetry's span kind.
        start_ns: Unix time in nanoseconds.
        end_ns: Unix time in nanoseconds.
        attributes: Decoded values.
        status: `unset`, `ok` or `error`.
        status_message: What the status says, or empty.
        events: In order.
        links: In order.
        resource: Attributes of the process that made it.
        scope: The instrumentation that made it.
        origin: The object it was read from. Kept so that writing it again loses nothing that this
            record has no field for; never compared.

    Raises:
        MalformedSpan: if an id is not the right number of hex digits, or all zero.
    """

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    kind: SpanKind = SpanKind.INTERNAL
    start_ns: int = 0
    end_ns: int = 0
    attributes: Attributes = field(default_factory=dict)
    status: StepStatus = "unset"
    status_message: str = ""
    events: tuple[SpanEvent, ...] = ()
    links: tuple[SpanLink, ...] = ()
    resource: Attributes = field(default_factory=dict)
    scope: Scope = Scope()
    origin: object = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not _TRACE_ID(self.trace_id):
            raise _make_malformed_error("trace id", self.trace_id, 32)
        if not _SPAN_ID(self.span_id):
            raise _make_malformed_error("span id", self.span_id, 16)
        if self.parent_id is not None and not _SPAN_ID(self.parent_id):
            raise _make_malformed_error("parent id", self.parent_id, 16)

    def with_attributes(self, added: Attributes) -> Span:
        """Copy this span with *added* attributes, which win over those of the same key."""
        return replace(self, attributes={**self.attributes, **added}) if added else self

    def text(self, key: str) -> str | None:
        """Read an attribute that should be a string; None where it is absent or something else."""
        value = self.attributes.get(key)
        return value if isinstance(value, str) else None

    def integer(self, key: str) -> int | None:
        """Read an attribute that should be a whole number; None where it is absent or something else."""
        value = self.attributes.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None


def _make_malformed_error(what: str, value: str, digits: int) -> MalformedSpan:
    return MalformedSpan(f"a {what} must be {digits} lower-case hex digits, not all zero; got {value!r}")
