"""Which dialect a span is in, and whose words count where several recorded the same."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache

from blamespan import conventions as words
from blamespan.dialects.composition import compose
from blamespan.dialects.reading import Dialect, SpanReading
from blamespan.errors import BlamespanError
from blamespan.plugins import broken_entry, load_entry, plugins
from blamespan.spans import Span

_logger = logging.getLogger("blamespan.dialects")
_OUR_SCOPES = "blamespan"
_STEP_ROLES = ("agent", "tool", "chain", "delivery")
_MAX_SCOPES = 1_024
"""Scope names remembered: they come from outside, so there may be any number of them."""


def in_our_words(spans: Sequence[Span]) -> Sequence[Span]:
    """Translate spans of other instrumentations to our words.

    Args:
        spans: Of one trace, each once.

    Returns:
        One span for each, in order and with the same id; the given sequence itself where none is foreign. Those
        are for reading: they hold attributes that their instrumentation never wrote.
    """
    spoken = {name for name in {span.scope.name for span in spans} if _of_scope(name) is not _OURS}
    if not spoken:
        return spans
    read = _readings(spans, spoken)
    if not read:
        return spans
    try:
        translated = compose(spans, _chosen(spans, read))
    except Exception:  # what is made of others' spans must never cost a trace
        _logger.exception("trace %s is read as it stands, not in its dialect", spans[0].trace_id)
        return spans
    return [translated.get(span.span_id, span) for span in spans]


def is_foreign(span: Span) -> bool:
    """Check whether a span is of a dialect that may hold a run's steps."""
    dialect = _dialect_of(span)
    return dialect is not None and words.STEP_KIND not in span.attributes


def _readings(spans: Sequence[Span], spoken: set[str]) -> dict[str, tuple[str, SpanReading]]:
    """Read every foreign span; keyed by span id, with the dialect's name."""
    readings: dict[str, tuple[str, SpanReading]] = {}
    for span in spans:
        dialect = _dialect_of(span) if span.scope.name in spoken else None
        if dialect is None or words.STEP_KIND in span.attributes:
            continue
        try:
            reading = dialect.read(span)
        except Exception:
            _logger.debug("span %s cannot be read as %s", span.span_id, dialect.name, exc_info=True)
            continue
        if reading is not None:
            readings[span.span_id] = (dialect.name, reading)
    return readings


def _chosen(spans: Sequence[Span], read: Mapping[str, tuple[str, SpanReading]]) -> dict[str, SpanReading]:
    """Choose per process whose steps count: our own, else those of the dialect that says most."""
    of_process: dict[object, list[Span]] = defaultdict(list)
    for span in spans:
        of_process[_process(span)].append(span)
    chosen: dict[str, SpanReading] = {}
    for members in of_process.values():
        ours = any(words.STEP_KIND in span.attributes for span in members)
        by_dialect: dict[str, dict[str, SpanReading]] = defaultdict(dict)
        for span in members:
            if span.span_id in read:
                dialect, reading = read[span.span_id]
                by_dialect[dialect][span.span_id] = reading
        chosen |= _choose_once(by_dialect, ours=ours)
    return chosen


def _choose_once(by_dialect: Mapping[str, Mapping[str, SpanReading]], *, ours: bool) -> dict[str, SpanReading]:
    """Keep the steps of one dialect, and of the others what it leaves out: model calls, the run itself."""
    ranked = sorted(by_dialect.values(), key=_weight, reverse=True)
    chosen: dict[str, SpanReading] = {}
    left_out = {"model", "run"} if not ours else set()
    for rank, readings in enumerate(ranked):
        roles = {reading.role for reading in readings.values()}
        for span_id, reading in readings.items():
            is_heard = (rank == 0 and not ours) or reading.role in left_out
            chosen[span_id] = reading if is_heard else reading.as_other()
        left_out -= roles
    return chosen


def _weight(readings: Mapping[str, SpanReading]) -> int:
    return sum(1 + 2 * reading.has_content for reading in readings.values() if reading.role in _STEP_ROLES) + sum(
        len(reading.outputs) for reading in readings.values() if reading.role == "run"
    )


def _process(span: Span) -> object:
    keys = ("service.name", "service.instance.id", "process.pid")
    return tuple(repr(span.resource[key]) for key in keys if key in span.resource)


class _Ours:
    """Stands for our own scopes where a dialect could stand."""


_OURS = _Ours()


def _dialect_of(span: Span) -> Dialect | None:
    known = _of_scope(span.scope.name)
    if isinstance(known, _Ours):
        return None
    if known is not None:
        return known
    attributes = span.attributes
    return next((dialect for mark, dialect in _marks() if mark in attributes), None)


@lru_cache(maxsize=_MAX_SCOPES)
def _of_scope(name: str) -> Dialect | _Ours | None:
    if name.startswith(_OUR_SCOPES):
        return _OURS
    return next((dialect for scope, dialect in _scopes() if name.startswith(scope)), None)


@cache
def _scopes() -> Sequence[tuple[str, Dialect]]:
    """List the beginnings of scope names, longest first: the closest match counts."""
    scopes = [(scope, dialect) for dialect in load_dialects() for scope in dialect.scopes]
    return sorted(scopes, key=lambda pair: -len(pair[0]))


@cache
def _marks() -> Sequence[tuple[str, Dialect]]:
    """List the marks; one's own before those that are everybody's."""
    marks = [(mark, dialect) for dialect in load_dialects() for mark in dialect.marks]
    return sorted(marks, key=lambda pair: pair[0].startswith("gen_ai."))


@cache
def load_dialects() -> Sequence[Dialect]:
    """Load what the entry points of the group `blamespan.dialects` offer, once."""
    dialects: list[Dialect] = []
    for entry in plugins("blamespan.dialects").values():
        try:
            dialects.append(load_entry(entry)())
        except Exception as error:  # a third party's; the others still work
            reason = error if isinstance(error, BlamespanError) else broken_entry(entry, error)
            _logger.warning("%s", reason, exc_info=_logger.isEnabledFor(logging.DEBUG))
    return dialects
