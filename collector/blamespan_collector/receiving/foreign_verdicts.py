"""Renames what senders say in the words of a verdict: further on, only this collector's own verdict stands in them.

See docs/why/decisions.md, 045.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol

from google.protobuf.internal.containers import RepeatedCompositeFieldContainer
from google.protobuf.message import Message
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from blamespan.annotate import is_verdict_word, received_word

MARKS = re.compile(
    rb"blamespan\.(?:run\.complete|blame\.|claim\.|contradiction\.|error\.|failure\.|schema\.|tracer\.|evidence|finding|likeness|"
    rb"revision|abstained|partial|verdict|verif)"
)
"""Occurs in the bytes of whatever has a word of a verdict, or says that its run ended: one look for both, as looking
through the attributes of every span would double the time of reading."""


class _Owner(Protocol):
    @property
    def attributes(self) -> RepeatedCompositeFieldContainer[KeyValue]: ...


def span_without_verdicts(span: Span) -> bytes | None:
    """Put what a span says in the words of a verdict under `blamespan.received.*`, on its events and links, too.

    Args:
        span: As read; is changed.

    Returns:
        It serialised; None where it has none of the words.
    """
    return _rename_in(span, (span, *span.events, *span.links))


def resource_without_verdicts(header: bytes) -> bytes:
    """Return a serialised `ResourceSpans` without the words of a verdict, likewise."""
    if not MARKS.search(header):
        return header
    group = ResourceSpans.FromString(header)
    return _rename_in(group, (group.resource,)) or header


def scope_without_verdicts(header: bytes) -> bytes:
    """Return a serialised `ScopeSpans` without the words of a verdict, likewise."""
    if not MARKS.search(header):
        return header
    scoped = ScopeSpans.FromString(header)
    return _rename_in(scoped, (scoped.scope,)) or header


def _rename_in(message: Message, owners: Iterable[_Owner]) -> bytes | None:
    is_changed = [_rename(owner.attributes) for owner in owners]
    return message.SerializeToString() if any(is_changed) else None


def _rename(attributes: RepeatedCompositeFieldContainer[KeyValue]) -> bool:
    """Rename attributes with the words of a verdict; what was received under their new names before makes room.

    Returns:
        Whether there were any.
    """
    foreign = [item for item in attributes if is_verdict_word(item.key)]
    if not foreign:
        return False
    taken = {received_word(item.key) for item in foreign}
    others = [item for item in attributes if item.key not in taken]
    for item in foreign:
        item.key = received_word(item.key)
    if len(others) < len(attributes):
        copies = [KeyValue.FromString(item.SerializeToString()) for item in others]
        del attributes[:]
        attributes.extend(copies)
    return True
