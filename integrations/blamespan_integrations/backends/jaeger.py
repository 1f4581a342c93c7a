"""Jaeger, and whatever else answers its v3 query API, as blamespan's own collector does.

`jaeger://host:16686/service` reads one service, `jaeger://host:16686` all. Source: Jaeger 2, `/api/v3`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from urllib.parse import quote

from blamespan.backends import Address, Reader, Writer
from blamespan.errors import NotWritten, UnreadableInput
from blamespan.selection import RUN_WORDS, Selection
from blamespan.spans import Span
from blamespan_integrations.backends._http import Api, Unanswered, headers_from
from blamespan_integrations.backends._traces import TraceReader, not_writable
from blamespan_integrations.backends._windows import DAY_NS, SECOND_NS, found_in_range
from blamespan_integrations.importers._grouping import Told
from blamespan_integrations.importers._json_values import json_objects_of
from blamespan_integrations.importers.jaeger import told_by_chunk

__all__ = ["JaegerBackend"]

_HEADERS = "BLAMESPAN_JAEGER_HEADERS"
_AT_ONCE = 100
"""Traces asked for: a search answers with all their spans."""
_FINEST_NS = 1_000_000
_WIDEST_NS = 32 * DAY_NS
_SERVICE = "service.name"
_TRACES = "/api/v3/traces"
_NOT_FOUND = 404


class JaegerBackend:
    """Reads Jaeger by its v3 query API."""

    name = "jaeger"
    description = f"Jaeger's v3 API, by service and time; loses nothing. Headers: {_HEADERS}"

    def reader(self, address: Address, selection: Selection) -> Reader:
        """Read the service that the URL names, or all."""
        base, service = address.base_and_last()
        api = Api("Jaeger", base, headers=headers_from(_HEADERS), keys=_HEADERS)
        wanted = selection.filters.get(_SERVICE, service)
        asked = {_SERVICE, *(key for key in selection.filters if key not in RUN_WORDS)}
        return TraceReader(
            address.name,
            api,
            selection,
            found=lambda: _found(api, wanted, selection, address.name),
            told=lambda trace_id: _told(api, trace_id),
            asked=asked,
        )

    def writer(self, address: Address, on_failure: Callable[[NotWritten], None]) -> Writer:
        """Refuse: Jaeger takes spans over OTLP."""
        raise not_writable(address, "Jaeger")


def _found(api: Api, service: str, selection: Selection, name: str) -> Iterator[str | UnreadableInput]:
    services = [service] if service else _services(api)
    tags = {key: value for key, value in selection.filters.items() if key not in (*RUN_WORDS, _SERVICE)}
    for one in services:
        yield from found_in_range(
            lambda start_ns, end_ns, limit, one=one: _search(api, one, tags, (start_ns, end_ns), limit),  # type: ignore[misc]
            selection,
            name=f"{name} service {one}",
            at_once=_AT_ONCE,
            finest_ns=_FINEST_NS,
            widest_ns=_WIDEST_NS,
        )


def _services(api: Api) -> list[str]:
    answer = api.get_object("/api/v3/services")
    named = answer.get("services", [] if not answer else None)
    if not isinstance(named, list):
        raise UnreadableInput(
            f"expected the names of services from Jaeger, got {str(answer)[:60]!r}. Is this its address?"
        )
    return sorted(name for name in named if isinstance(name, str))


def _search(
    api: Api, service: str, tags: dict[str, str], range_ns: tuple[int, int], limit: int
) -> list[tuple[int, str]]:
    """Ask under the names of today's API and of those before it."""
    said: dict[str, str | int] = {
        "query.serviceName": service,
        "query.service_name": service,
        "query.startTimeMin": _time(range_ns[0]),
        "query.start_time_min": _time(range_ns[0]),
        "query.startTimeMax": _time(range_ns[1]),
        "query.start_time_max": _time(range_ns[1]),
        "query.searchDepth": limit,
        "query.search_depth": limit,
        "query.num_traces": limit,
    }
    if tags:
        said["query.attributes"] = json.dumps(tags)
    try:
        body = api.get(_TRACES, list(said.items()))
    except Unanswered as error:
        if error.status == _NOT_FOUND:  # how Jaeger says that there are none
            return []
        raise
    starts: dict[str, int] = {}
    for told in _told_by(body, _TRACES):
        if isinstance(told, Span):  # what is wrong with the others is told when their traces are read
            starts[told.trace_id] = min(told.start_ns, starts.get(told.trace_id, told.start_ns))
    return [(start_ns, trace_id) for trace_id, start_ns in starts.items()]


def _told(api: Api, trace_id: str) -> Iterator[Told]:
    path = f"{_TRACES}/{quote(trace_id, safe='')}"
    return _told_by(api.get(path), path)


def _told_by(body: bytes, place: str) -> Iterator[Told]:
    for found in json_objects_of(body, place, "a chunk of Jaeger's answer"):
        if isinstance(found, UnreadableInput):
            raise found
        if "error" in found.value:
            raise UnreadableInput(f"{found.place}: expected spans, got the error {str(found.value['error'])[:120]!r}.")
        if found.value:
            yield from told_by_chunk(found.value, found.place)


def _time(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns // SECOND_NS, UTC).strftime(f"%Y-%m-%dT%H:%M:%S.{time_ns % SECOND_NS:09d}Z")
