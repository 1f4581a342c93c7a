"""What is asked of Jaeger's query API, read from its parameters; pure.

Source: Jaeger's `query_parser.go` (`/api/traces`) and `apiv3/query_parser.go` (`/api/v3`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal

MAX_TRACES = 1_500
"""Most traces of one answer: the most that Jaeger's UI asks for. More are asked for in vain."""

_DEFAULT_TRACES = 100
_DEFAULT_LOOKBACK_NS = 2 * 86_400 * 10**9
_NS_PER_US = 1_000
_MAX_TAGS = 20
_TRACE_ID = re.compile(r"[0-9a-fA-F]{1,32}")
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_UNIT_NS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9}
_UNIT_NS |= {"h": 3_600 * 10**9, "d": 86_400 * 10**9}
_AMOUNT = re.compile(r"([0-9]{1,15}(?:\.[0-9]{0,15})?|\.[0-9]{1,15})(ns|us|µs|μs|ms|s|m|h|d)")
_RFC3339 = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,18}))?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Parameters = Mapping[str, Sequence[str]]
"""All values of each parameter, in order; as in Jaeger the first counts."""


class QueryRefused(ValueError):
    """A parameter is missing or wrong; the message says what was expected."""


@dataclass(frozen=True, slots=True)
class TraceQuery:
    """Which traces are wanted: those with a span that all of this is true of.

    Attributes:
        since_ns: Unix time that it started at, or later.
        until_ns: Unix time that it started at, or before.
        service: That made it; empty for any.
        operation: Its name; empty for any.
        tags: Tags of it, of its process or of its logs, as text.
        min_duration_ns: How long it took at least.
        max_duration_ns: How long it took at most; None for however long.
        limit: Most traces that are given.
    """

    since_ns: int
    until_ns: int
    service: str = ""
    operation: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    min_duration_ns: int = 0
    max_duration_ns: int | None = None
    limit: int = _DEFAULT_TRACES


def search_query(given: Parameters, now_ns: int) -> TraceQuery:
    """Read the parameters of `/api/traces`.

    Raises:
        QueryRefused: if one is missing or wrong.
    """
    service = _first(given, "service")
    if not service:
        raise QueryRefused("parameter 'service' is required: /api/services lists them")
    until_ns = _microseconds(given, "end", now_ns)
    since_ns = _microseconds(given, "start", until_ns - _lookback_ns(given))
    return TraceQuery(
        since_ns,
        until_ns,
        service,
        _first(given, "operation"),
        _search_tags(given),
        *_durations(given, ("minDuration",), ("maxDuration",)),
        limit=_limit(given, ("limit",)),
    )


def find_query(given: Parameters) -> TraceQuery:
    """Read the parameters of `/api/v3/traces` and `/api/v3/trace-summaries`.

    Each may be written in camel case, as Jaeger does from 2.21 on, or in snake case, as before; with or without
    `query.` before it.

    Raises:
        QueryRefused: if one is missing or wrong.
    """
    times = _v3("start_time_min"), _v3("start_time_max")
    if not all(_first(given, *names) for names in times):
        raise QueryRefused("query.start_time_min and query.start_time_max are required, as 2026-01-31T12:00:00Z")
    since_ns, until_ns = (_moment(value, name) for name, value in (_first_of(given, names) for names in times))
    return TraceQuery(
        since_ns,
        until_ns,
        _first(given, *_v3("service_name")),
        _first(given, *_v3("operation_name", "span_name")),
        _json_tags(_first(given, *_v3("attributes", "tags")), "query.attributes"),
        *_durations(given, _v3("duration_min"), _v3("duration_max")),
        limit=_limit(given, _v3("search_depth", "num_traces")),
    )


def _v3(*names: str) -> tuple[str, ...]:
    """List how the parameters *names*, given in snake case, may be written: the spelling that counts most first."""
    camel = [re.sub("_(.)", lambda match: match[1].upper(), name) for name in names]
    both = dict.fromkeys(form for pair in zip(camel, names, strict=True) for form in pair)
    return (*(f"query.{form}" for form in both), *both)


def dependencies_query(given: Parameters) -> tuple[int, int]:
    """Read the parameters of `/api/v3/dependencies`: Unix times in nanoseconds, the earlier one first.

    Raises:
        QueryRefused: if one is missing or wrong.
    """
    since, until = _first(given, "startTime", "start_time"), _first(given, "endTime", "end_time")
    if not (since and until):
        raise QueryRefused("startTime and endTime are required, as 2026-01-31T12:00:00Z")
    since_ns, until_ns = _moment(since, "startTime"), _moment(until, "endTime")
    if until_ns <= since_ns:
        raise QueryRefused(f"endTime must be after startTime, got {until[:64]!r} and {since[:64]!r}")
    return since_ns, until_ns


def read_trace_id(text: str) -> str:
    """Read a trace id of up to 32 hex digits, and write it with 32.

    Raises:
        QueryRefused: if it is none.
    """
    if _TRACE_ID.fullmatch(text) is None:
        raise QueryRefused(f"cannot parse trace id: expected 1 to 32 hex digits, got {text[:64]!r}")
    return text.lower().zfill(32)


def read_duration(text: str, name: str) -> int:
    """Read a duration as Go writes them, `1h15m30.918s`, into nanoseconds.

    Raises:
        QueryRefused: if it is none.
    """
    parts = _AMOUNT.findall(text) if len(text) <= 100 else []
    if not parts or "".join(amount + unit for amount, unit in parts) != text:
        if text == "0":
            return 0
        raise QueryRefused(f"unable to parse param '{name}': expected a duration such as 1.2s, 100ms or 500us, "
                           f"got {text[:64]!r}")  # fmt: skip
    return int(sum(Decimal(amount) * _UNIT_NS[unit] for amount, unit in parts))


def _first(given: Parameters, *names: str) -> str:
    return _first_of(given, names)[1]


def _first_of(given: Parameters, names: Sequence[str]) -> tuple[str, str]:
    """Return which of *names* has a value, and the value; the first name and an empty text where none has."""
    return next(((name, given[name][0]) for name in names if any(given.get(name, ())[:1])), (names[0], ""))


def _limit(given: Parameters, names: Sequence[str]) -> int:
    name, text = _first_of(given, names)
    if not text:
        return _DEFAULT_TRACES
    if _WHOLE.fullmatch(text) is None or int(text) < 1:
        raise QueryRefused(f"unable to parse param '{name}': expected a whole number above 0, got {text[:64]!r}")
    return min(int(text), MAX_TRACES)


def _durations(given: Parameters, least: Sequence[str], most: Sequence[str]) -> tuple[int, int | None]:
    (min_name, shortest), (max_name, longest) = _first_of(given, least), _first_of(given, most)
    min_ns = read_duration(shortest, min_name) if shortest else 0
    max_ns = read_duration(longest, max_name) if longest else None
    if max_ns is not None and max_ns < min_ns:
        raise QueryRefused(f"'{max_name}' should be greater than '{min_name}', got {longest!r} and {shortest!r}")
    return min_ns, max_ns or None  # as in Jaeger 0 is no bound


def _microseconds(given: Parameters, name: str, default_ns: int) -> int:
    text = _first(given, name)
    if not text:
        return default_ns
    if _WHOLE.fullmatch(text) is None:
        raise QueryRefused(f"unable to parse param '{name}': expected Unix time in microseconds, got {text[:64]!r}")
    return int(text) * _NS_PER_US


def _lookback_ns(given: Parameters) -> int:
    """Read `lookback`, which Jaeger's UI sends beside `start`; as there a word such as `custom` says nothing."""
    text = _first(given, "lookback")
    return read_duration(text, "lookback") if text[:1].isdigit() else _DEFAULT_LOOKBACK_NS


def _search_tags(given: Parameters) -> dict[str, str]:
    tags: dict[str, str] = {}
    for tag in given.get("tag", ()):
        key, colon, value = tag.partition(":")
        if not colon or not key:
            raise QueryRefused(f"malformed 'tag' parameter, expecting key:value, received: {tag[:64]!r}")
        tags[key] = value
    for tag in given.get("tags", ()):
        tags |= _json_tags(tag, "tags")
    return _few(tags)


def _json_tags(text: str, name: str) -> dict[str, str]:
    if not text:
        return {}
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, dict) or not all(isinstance(value, str) for value in read.values()):
        raise QueryRefused(
            f"malformed '{name}' parameter, cannot unmarshal JSON: expected an object of texts such as "
            f'{{"error":"true"}}, got {text[:64]!r}'
        )
    return _few(read)


def _few(tags: dict[str, str]) -> dict[str, str]:
    if len(tags) > _MAX_TAGS:
        raise QueryRefused(f"expected {_MAX_TAGS} tags at most, got {len(tags)}")
    return tags


def _moment(text: str, name: str) -> int:
    """Read RFC 3339 into Unix nanoseconds, all digits of a fraction that count."""
    match = _RFC3339.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        zone = "+00:00" if match[4] in "Zz" else match[4]
        whole = datetime.fromisoformat(f"{match[1]}T{match[2]}{zone}") - _EPOCH
    except (ValueError, OverflowError):
        raise QueryRefused(
            f"malformed parameter {name}: expected a time such as 2026-01-31T12:00:00.5Z, got {text[:64]!r}"
        ) from None
    return whole // timedelta(seconds=1) * 10**9 + int((match[3] or "")[:9].ljust(9, "0"))
