"""How many attributes one span may have: ours are the last to go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import SpanLimits

from blamespan import conventions as words
from blamespan.trace import AttributeValue

__all__ = ["Room", "span_limits"]

_OWN = 40
"""Attributes kept free for ours: a span has at most 25 of them, and a verdict adds 12 more."""

_RANKED = (
    *(words.OPERATION, words.AGENT_NAME, words.TOOL_NAME, words.STEP_INDEX, words.STEP_KIND),
    *(words.STEP_RESULT_INDEX, words.RUN_COMPLETE, words.LOST, words.OUTPUT_MESSAGES, words.TOOL_ARGUMENTS),
    *(words.TOOL_RESULT, words.ERROR_TYPE, words.INPUT_MESSAGES, words.MESSAGE_ID, words.MESSAGE_RECIPIENTS),
)
"""What a trace cannot be rebuilt without comes first."""


class Room:
    """Counts the attributes of one span, of which the SDK drops the oldest when there are too many.

    Args:
        limit: Most attributes the span may have; None for any number.
        own: Ours, as set when the span started.
    """

    __slots__ = ("_extras", "_limit", "_own")

    def __init__(self, limit: int | None, own: Mapping[str, AttributeValue]) -> None:
        self._limit = limit
        self._own = own
        self._extras = 0

    def extras(self, extras: dict[str, AttributeValue]) -> tuple[dict[str, AttributeValue], str | None]:
        """Choose what of an integration's attributes fits beside ours.

        Returns:
            Those that fit, and what to say of the others.
        """
        room = len(extras) if self._limit is None else max(0, self._limit - _OWN - self._extras)
        self._extras += min(room, len(extras))
        if len(extras) <= room:
            return extras, None
        return dict(list(extras.items())[:room]), f"{len(extras) - room} attributes: over the limit of {self._limit}"

    def is_tight(self, span: trace.Span, more: int) -> bool:
        """Return whether *more* attributes do not fit, or others have pushed out some of ours."""
        if self._limit is None:
            return False
        had = getattr(span, "attributes", None)
        return had is not None and len(had) + more >= self._limit

    def squeezed(self, found: Mapping[str, AttributeValue]) -> dict[str, AttributeValue]:
        """Give all of ours that fit, the most needed ones: set again, they push out what is not ours."""
        own = {**self._own, **found, words.LOST: [*_as_list(found.get(words.LOST)), _PUSHED_OUT.format(self._limit)]}
        ranks = {key: rank for rank, key in enumerate(_RANKED)}
        ranked = sorted(own, key=lambda key: ranks.get(key, len(ranks)))[: self._limit]
        return {key: own[key] for key in ranked}


_PUSHED_OUT = "attributes: over the limit of {}"


def span_limits(provider: trace.TracerProvider) -> SpanLimits:
    """Find the limits of *provider*'s spans: its own, where it is the SDK's; else what the variables say."""
    found: Any = getattr(provider, "_span_limits", None)  # the SDK has no other way to ask
    return found if isinstance(found, SpanLimits) else SpanLimits()


def _as_list(value: AttributeValue) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []
