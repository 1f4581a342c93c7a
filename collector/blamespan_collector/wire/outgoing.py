"""What goes out: bytes of one kind, and how much is in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["traces", "logs", "metrics", "verdicts"]
"""An OTLP export request of one signal, or the verdicts of one trace as JSON."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Bytes on their way.

    Attributes:
        kind: What they are.
        spans: How many spans, log records or metrics are in them; for verdicts, how many verdicts.
        payload: An OTLP export request, or JSON.
    """

    kind: Kind
    spans: int
    payload: bytes
