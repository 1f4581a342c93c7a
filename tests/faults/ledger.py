"""What was sent, what was acknowledged, what arrived where: and what is wrong with that."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from blamespan.annotate import is_verdict_word
from tests.faults.traffic import SpanKey, key_of


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a span holds, as 8 bytes each: all of it, and what its sender wrote (without verdicts)."""

    whole: bytes
    sent: bytes


@dataclass(slots=True)
class Count:
    """What happened to the acknowledged spans at one sink.

    Attributes:
        delivered: Spans that arrived, each counted once.
        lost: Acknowledged, and never arrived.
        repeated_identical: Arrivals of a span that had arrived, with the same content.
        repeated_different: Arrivals of a span that had arrived, with other content: the crime.
        altered: Spans that lack something their sender wrote, or have it otherwise.
        added: Spans nobody sent: verdicts that came late.
        annotated: Spans with a verdict on them.
        resent: Deliveries of spans that were asked for again, as a backend had lost what it took.
    """

    delivered: int = 0
    lost: int = 0
    repeated_identical: int = 0
    repeated_different: int = 0
    altered: int = 0
    added: int = 0
    annotated: int = 0
    resent: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


@dataclass(slots=True)
class Arrivals:
    """What one sink got.

    Attributes:
        repeats_allowed: Whether identical repeats are no fault: an answer that got lost leaves no choice.
    """

    name: str
    repeats_allowed: bool
    seen: dict[SpanKey, list[Fingerprint]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, request: ExportTraceServiceRequest) -> None:
        found = list(fingerprints(request))
        with self.lock:
            for key, fingerprint in found:
                self.seen.setdefault(key, []).append(fingerprint)

    def forget(self, request: ExportTraceServiceRequest) -> None:
        """Undo one `add`."""
        found = list(fingerprints(request))
        with self.lock:
            for key, fingerprint in found:
                self.seen[key].remove(fingerprint)
                if not self.seen[key]:
                    del self.seen[key]

    def missing(self, keys: Iterable[SpanKey]) -> list[SpanKey]:
        return [key for key in keys if key not in self.seen]

    def count(self, sent: dict[SpanKey, bytes], acknowledged: set[SpanKey]) -> Count:
        with self.lock:
            counts = Counter[str]()
            for key, arrivals in self.seen.items():
                counts["delivered" if key in sent else "added"] += 1
                same = sum(one.whole == arrivals[0].whole for one in arrivals) - 1
                counts["repeated_identical"] += same
                counts["repeated_different"] += len(arrivals) - 1 - same
                counts["altered"] += key in sent and any(one.sent != sent[key] for one in arrivals)
                counts["annotated"] += any(one.whole != one.sent for one in arrivals)
            counts["lost"] = len(self.missing(acknowledged))
            return Count(**counts)


class Ledger:
    """The senders' own books. Used from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.sent: dict[SpanKey, bytes] = {}
        self.acknowledged: set[SpanKey] = set()

    def send(self, body: bytes) -> None:
        """Note what is about to be sent for the first time."""
        found = {key: one.sent for key, one in fingerprints(ExportTraceServiceRequest.FromString(body))}
        with self._lock:
            self.sent.update(found)

    def copy_acknowledged(self) -> set[SpanKey]:
        """Return what is acknowledged now."""
        with self._lock:
            return self.acknowledged.copy()

    def acknowledge(self, keys: Iterable[SpanKey]) -> None:
        with self._lock:
            self.acknowledged.update(keys)


def fingerprints(request: ExportTraceServiceRequest) -> Iterator[tuple[SpanKey, Fingerprint]]:
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            header = _header(resource, scope)
            for span in scope.spans:
                yield key_of(span), _fingerprint(header, span)


def _header(resource: ResourceSpans, scope: ScopeSpans) -> bytes:
    attributes = sorted(one.SerializeToString(deterministic=True) for one in resource.resource.attributes)
    return b"".join([*attributes, scope.scope.SerializeToString(deterministic=True)])


def _fingerprint(header: bytes, span: Span) -> Fingerprint:
    attributes = sorted((one.key, one.SerializeToString(deterministic=True)) for one in span.attributes)
    bare = Span()
    bare.CopyFrom(span)
    del bare.attributes[:]
    rest = header + bare.SerializeToString(deterministic=True)
    sent = [value for key, value in attributes if not is_verdict_word(key)]
    whole = [value for _, value in attributes]
    return Fingerprint(_digest(rest, whole), _digest(rest, sent))


def _digest(rest: bytes, attributes: list[bytes]) -> bytes:
    return blake2b(b"\0".join([rest, *attributes]), digest_size=8).digest()
