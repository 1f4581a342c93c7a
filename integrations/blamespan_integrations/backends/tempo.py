"""Grafana Tempo: `tempo://host:3200`. Source: Tempo 2 and 3, `/api/search`, `/api/v2/traces/{id}`, TraceQL."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from blamespan.errors import NotWritten, UnreadableInput
from blamespan.importing.backends import Address, Reader, Writer
from blamespan.importing.selection import RUN_WORDS, Selection
from blamespan_integrations.backends._api import BackendApi, BackendError, objects_in, read_headers, text_in
from blamespan_integrations.backends._traces import DAY_NS, SECOND_NS, TraceReader, find_in_range, not_writable
from blamespan_integrations.importers._span_files import SpanItem
from blamespan_integrations.importers._span_values import trace_id_of
from blamespan_integrations.importers.tempo import read_tempo_answer

_HEADERS = "BLAMESPAN_TEMPO_HEADERS"
_AT_ONCE = 500
_SEARCH = "/api/search"
_NOT_FOUND = 404
_PARTIAL = ("PARTIAL", 1)
_PLAIN = re.compile(r"[A-Za-z_][\w.-]*")
_LITERAL = re.compile(r"-?\d+(\.\d+)?|true|false")


class TempoBackend:
    """Reads Grafana Tempo by search and by trace id."""

    name = "tempo"
    description = f"Grafana Tempo; values that it cut at 2,048 bytes stay cut. Headers, as for a tenant: {_HEADERS}"

    def reader(self, address: Address, selection: Selection) -> Reader:
        """Read all traces that its search finds."""
        api = BackendApi("Tempo", address.base, headers=read_headers(_HEADERS), keys=_HEADERS)
        asked = {key: value for key, value in selection.filters.items() if key not in RUN_WORDS}
        query = traceql(asked)
        return TraceReader(
            address.name,
            api,
            selection,
            find=lambda: find_in_range(
                lambda start_ns, end_ns, limit: _search(api, query, (start_ns, end_ns), limit),
                selection,
                name=address.name,
                at_once=_AT_ONCE,
                finest_ns=SECOND_NS,
                widest_ns=DAY_NS,
            ),
            fetch=lambda trace_id: _fetch_trace(api, trace_id),
            asked=asked,
        )

    def writer(self, address: Address, on_failure: Callable[[NotWritten], None]) -> Writer:
        """Refuse: Tempo takes spans over OTLP."""
        raise not_writable(address, "Tempo")


def traceql(filters: Mapping[str, str]) -> str:
    """Write filters as a query: each must hold of some span, or of its process. What looks like a number is one too."""
    return " && ".join(f"{{ {_condition(key, value)} }}" for key, value in filters.items()) or "{ }"


def _condition(key: str, value: str) -> str:
    name = f".{key}" if _PLAIN.fullmatch(key) else f".{_quote(key)}"
    text = f"{name} = {_quote(value)}"
    return f"{text} || {name} = {value}" if _LITERAL.fullmatch(value) else text


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _search(api: BackendApi, query: str, range_ns: tuple[int, int], limit: int) -> list[tuple[int, str]]:
    start_s, end_s = range_ns[0] // SECOND_NS, -(-range_ns[1] // SECOND_NS)
    answer = api.get_object(_SEARCH, [("q", query), ("start", start_s), ("end", end_s), ("limit", limit)])
    if "traces" not in answer and "metrics" in answer:
        return []  # how some versions say that there are none
    return [_read_match(trace) for trace in objects_in(answer, "traces", _SEARCH)]


def _read_match(trace: Mapping[str, Any]) -> tuple[int, str]:
    """Read a trace's start and id, which Tempo writes without zeros at its front."""
    start = str(trace.get("startTimeUnixNano", "0"))
    return int(start) if start.isdecimal() else 0, trace_id_of(text_in(trace, "traceID"), _SEARCH)


def _fetch_trace(api: BackendApi, trace_id: str) -> Iterator[SpanItem]:
    path = f"/api/v2/traces/{quote(trace_id, safe='')}"
    try:
        answer = api.get_object(path)
    except BackendError as error:
        if error.status != _NOT_FOUND:
            raise
        path = path.replace("/v2", "")  # Tempo before 2.7
        answer = api.get_object(path)
    if answer.get("status") in _PARTIAL:
        yield UnreadableInput(
            f"{path}: expected a whole trace, got part of one ({str(answer.get('message', ''))[:120]!r}). "
            "Tempo's max_bytes_per_trace may be below it."
        )
    yield from read_tempo_answer(answer, path)
