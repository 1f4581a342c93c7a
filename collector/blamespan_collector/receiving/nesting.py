"""Reads protobuf messages no deeper than every later stage can read them, at the speed of protobuf itself.

protobuf reads a hundred levels below the message that it is given. A span alone may therefore be three levels deeper
than the same span in its request, which is what files, back ends and the page read. So a message is read here as if it
stood under as many more levels as `MAX_DEPTH` leaves of protobuf's own limit: groups, which need no lengths.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from typing import Any, Generic, TypeVar

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError, Message

from blamespan_collector.wire.protobuf import FieldBudget, TooDeep, delimit, spend, tag_of

MAX_DEPTH = 64
"""Messages below the request, in each other: 29 lists or 19 maps in an attribute of a span. protobuf in C++, Java, Rust
and Python reads 100, OTLP-JSON takes up to four brackets for three of them, and Python a thousand of those."""

_INNER, _FIELD = 1, 2
_GROUP_BEGINS, _GROUP_ENDS = bytes((_INNER << 3 | 3,)), bytes((_INNER << 3 | 4,))
_MOST_LEVELS = 200

_M = TypeVar("_M", bound=Message)


class BoundedReader(Generic[_M]):
    """Reads messages of one type. May be used from several threads.

    Args:
        kind: The type.
        depth: How many messages lie between one of these and its request; 0 for the request itself.

    Attributes:
        tag: Of the fields that `read` takes.
    """

    tag = tag_of(_FIELD)

    def __init__(self, kind: type[_M], depth: int) -> None:
        self._level: Any = _level_with(kind.DESCRIPTOR)  # a type made here: nothing else knows it
        self._most_levels = MAX_DEPTH - depth
        levels_read = _levels_read(self._level)
        self._is_bounded = levels_read is not None
        self._padding = levels_read - self._most_levels - 1 if levels_read is not None else 0
        self._before, self._after = _GROUP_BEGINS * self._padding, _GROUP_ENDS * self._padding

    def read(self, fields: bytes) -> Sequence[_M]:
        """Return the messages in *fields*: each one length-delimited, under `tag`.

        Raises:
            TooDeep: if one holds messages more than `MAX_DEPTH` below the request.
            DecodeError: if one is no such message, or so deep that protobuf itself does not read it.
            NotProtobuf: likewise, where protobuf knows no limit.
        """
        if not self._is_bounded:
            spend(fields, 0, len(fields), self._level.DESCRIPTOR, FieldBudget(sys.maxsize), self._most_levels + 1)
        try:
            level = self._level.FromString(b"".join((self._before, fields, self._after)))
        except DecodeError:
            self._level.FromString(fields)  # where that works, it was the depth
            raise TooDeep(f"messages lie in each other more than {MAX_DEPTH} deep") from None
        for _ in range(self._padding):
            level = level.inner
        messages: Sequence[_M] = level.messages
        return messages

    def read_one(self, content: bytes) -> _M:
        """Return one message. Raises as `read`."""
        return self.read(delimit(self.tag, content))[0]


@cache
def _level_with(kind: Descriptor) -> type[Message]:
    """Make a message type that holds messages of *kind*, and itself as a group."""
    package = f"blamespan.nesting.{kind.full_name}"
    file = FileDescriptorProto(
        name=f"blamespan/nesting/{kind.full_name}.proto",
        package=package,
        syntax="proto2",
        dependency=[kind.file.name],
    )
    level = file.message_type.add(name="Level")
    level.field.add(
        name="inner",
        number=_INNER,
        label=FieldDescriptorProto.LABEL_OPTIONAL,
        type=FieldDescriptorProto.TYPE_GROUP,
        type_name=f".{package}.Level",
    )
    level.field.add(
        name="messages",
        number=_FIELD,
        label=FieldDescriptorProto.LABEL_REPEATED,
        type=FieldDescriptorProto.TYPE_MESSAGE,
        type_name=f".{kind.full_name}",
    )
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.Level"))


def _levels_read(level: type[Message]) -> int | None:
    """Return how many levels below a message protobuf reads; None where it knows no limit near a hundred."""
    for levels in range(MAX_DEPTH + 1, _MOST_LEVELS):
        try:
            level.FromString(_GROUP_BEGINS * levels + _GROUP_ENDS * levels)
        except DecodeError:
            return levels - 1
    return None
