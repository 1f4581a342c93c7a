"""Cuts protobuf messages along their fields without reading what is in them.

Only so can a request be cut into traces that go on byte for byte as they came, with fields that we do not
know; and only so is it known how many messages a body holds before any is made: two bytes can stand for an
object of a hundred.

Source: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from google.protobuf.descriptor import Descriptor

_VARINT, _FIXED64, _DELIMITED, _GROUP_BEGINS, _GROUP_ENDS, _FIXED32 = range(6)
_MAX_VARINT_BYTES = 10
_MAX_TAG_BYTES, _MAX_TAG = 5, 2**32 - 1
_MAX_DEPTH = 100
"""As protobuf's own, like the two of tags: what it does not read must not be cut, either."""


class NotProtobuf(ValueError):
    """The bytes are cut off or something else."""


class TooDeep(NotProtobuf):
    """Messages lie in each other deeper than is read."""


class TooManyFields(ValueError):
    """A message has more fields than its budget allows."""


class FieldBudget:
    """How many fields may still be cut, over all messages of one body."""

    def __init__(self, most: int) -> None:
        self.left = most


class Field(NamedTuple):
    """A length-delimited field: `start` of its tag, and where its content lies."""

    start: int
    content: int
    end: int


def tag_of(number: int) -> int:
    """Return the tag of a length-delimited field."""
    return number << 3 | _DELIMITED


def split(body: bytes, start: int, end: int, tag: int, budget: FieldBudget) -> tuple[list[Field], bytes]:
    """Find a message's fields with *tag*; give them, and all others as they stand.

    Args:
        body: What the message lies in.
        start: Where it begins.
        end: Where it ends.
        tag: See `tag_of`.
        budget: Every field takes one from it.

    Raises:
        NotProtobuf: if the bytes are not a message.
        TooManyFields: if the budget is spent.
    """
    fields: list[Field] = []
    others: list[bytes] = []
    at = start
    while at < end:
        began = at
        field_tag = body[at]
        if field_tag < 0x80:  # a tag of one byte, as nearly all are
            at += 1
        else:
            field_tag, at = _tag(body, at, end)
        kind = field_tag & 7
        if kind == _DELIMITED:
            size, at = _varint(body, at, end)
            stop = at + size
        else:
            stop = _field_end(body, at, end, field_tag, budget)
        if stop > end or field_tag < 8:
            raise NotProtobuf(f"the field at byte {began} is cut off")
        budget.left -= 1
        if budget.left < 0:
            raise TooManyFields("too many fields")
        if field_tag == tag:
            fields.append(Field(began, at, stop))
        else:
            others.append(body[began:stop])
        at = stop
    return fields, b"".join(others)


def spend(
    body: bytes, start: int, end: int, kind: Descriptor, budget: FieldBudget, max_depth: int = _MAX_DEPTH
) -> None:
    """Take one from *budget* for each field of a message and of all messages in it.

    Args:
        body: What the message lies in.
        start: Where it begins.
        end: Where it ends.
        kind: What it is.
        budget: What may be spent.
        max_depth: How many messages may lie in each other below this one.

    Raises:
        NotProtobuf: if the bytes are not a message.
        TooDeep: if messages lie deeper.
        TooManyFields: if the budget is spent.
    """
    above: list[tuple[int, int, Descriptor]] = []
    at, stop, of = start, end, kind
    while at < stop or above:
        if at == stop:
            at, stop, of = above.pop()
            continue
        tag, at = _tag(body, at, stop)
        inner = None
        if tag & 7 == _DELIMITED:
            size, at = _varint(body, at, stop)
            inner = _messages(of).get(tag >> 3)
        else:
            size = _field_end(body, at, stop, tag, budget) - at
        if at + size > stop:
            raise NotProtobuf(f"the field at byte {at} is cut off")
        if inner is not None and len(above) >= max_depth:
            raise TooDeep(f"the message at byte {at} is nested too deep")
        budget.left -= 1
        if budget.left < 0:
            raise TooManyFields("too many fields")
        if inner is None:
            at += size
        else:
            above.append((at + size, stop, of))
            at, stop, of = at, at + size, inner


@cache
def _messages(kind: Descriptor) -> dict[int, Descriptor]:
    """List the fields of a message that hold messages."""
    return {field.number: field.message_type for field in kind.fields if field.message_type is not None}


def delimit(tag: int, content: bytes) -> bytes:
    """Write a length-delimited field."""
    size = len(content)
    head = bytearray((tag,))
    while size > 0x7F:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    return bytes(head) + content


def _field_end(body: bytes, at: int, end: int, tag: int, budget: FieldBudget) -> int:
    """Return where a field ends whose tag ends at *at*."""
    kind = tag & 7
    if kind == _VARINT:
        return _varint(body, at, end)[1]
    if kind == _DELIMITED:
        size, at = _varint(body, at, end)
        return at + size
    if kind == _FIXED64:
        return at + 8
    if kind == _FIXED32:
        return at + 4
    if kind == _GROUP_BEGINS:
        return _group_end(body, at, end, tag, budget)
    raise NotProtobuf(f"the byte before {at} begins no field")


def _group_end(body: bytes, at: int, end: int, tag: int, budget: FieldBudget) -> int:
    """Return where a group ends. OTLP has none, protobuf skips them; every field in one takes one from *budget*."""
    open_groups = [tag >> 3]
    while open_groups:
        inner, at = _tag(body, at, end)
        if inner & 7 == _GROUP_BEGINS:
            open_groups.append(inner >> 3)
        elif inner & 7 != _GROUP_ENDS:
            at = _field_end(body, at, end, inner, budget)
        elif open_groups.pop() != inner >> 3:
            raise NotProtobuf(f"the group that ends before byte {at} is another one")
        if len(open_groups) > _MAX_DEPTH:
            raise TooDeep(f"the group at byte {at} is nested too deep")
        budget.left -= 1
        if budget.left < 0:
            raise TooManyFields("too many fields")
    return at


def _tag(body: bytes, at: int, end: int) -> tuple[int, int]:
    tag, content = _varint(body, at, end)
    if content - at > _MAX_TAG_BYTES or tag > _MAX_TAG:
        raise NotProtobuf(f"byte {at} begins no field")
    return tag, content


def _varint(body: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    for index in range(at, min(end, at + _MAX_VARINT_BYTES)):
        byte = body[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, index + 1
        shift += 7
    raise NotProtobuf(f"the number at byte {at} is cut off")
