"""Jaeger, and whatever else answers its query API: v3, as blamespan's own collector, or v1, as VictoriaTraces.

`jaeger://host:16686/service` reads one service, `jaeger://host:16686` all; what stands before the service is where the
API lies: `jaeger://host:10428/select/jaeger/service`. Source: Jaeger 2, `/api/v3`; Jaeger 1, `/api`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Protocol
from urllib.parse import quote

from blamespan.errors import NotWritten, UnreadableInput
from blamespan.importing.backends import Address, Reader, Writer
from blamespan.importing.selection import RUN_WORDS, Selection
from blamespan.spans import Span
from blamespan_integrations.backends._api import BackendApi, BackendError, read_headers
from blamespan_integrations.backends._traces import DAY_NS, SECOND_NS, TraceReader, find_in_range, not_writable
from blamespan_integrations.importers._records import json_objects_of
from blamespan_integrations.importers._span_files import SpanItem
from blamespan_integrations.importers.jaeger import read_chunk, read_ui_trace

_HEADERS = "BLAMESPAN_JAEGER_HEADERS"
_AT_ONCE = 100
"""Traces asked for: a search answers with all their spans."""
_FINEST_NS = 1_000_000
_WIDEST_NS = 32 * DAY_NS
_SERVICE = "service.name"
_TRACES_V3 = "/api/v3/traces"
_TRACES_V1 = "/api/traces"
_SERVICES = ("/api/v3/services", "/api/services")
_NOT_FOUND = 404
_NO_SUCH_API = frozenset({400, 404, 405, 410, 501})
"""How servers say that they do not have a version of the API: 404, and VictoriaTraces 400."""
_NS_PER_US = 1_000


class JaegerBackend:
    """Reads Jaeger by its query API."""

    name = "jaeger"
    description = f"Jaeger's API, v3 or v1, by service and time; by v3 loses nothing. Headers: {_HEADERS}"

    def reader(self, address: Address, selection: Selection) -> Reader:
        """Read the service that the URL names, or all."""
        base, service = address.base_and_last()
        api = BackendApi("Jaeger", base, headers=read_headers(_HEADERS), keys=_HEADERS)
        versions = _Versions(api, base)
        wanted = selection.filters.get(_SERVICE, service)
        asked = {_SERVICE, *(key for key in selection.filters if key not in RUN_WORDS)}
        return TraceReader(
            address.name,
            api,
            selection,
            find=lambda: _find_traces(versions, wanted, selection, address.name),
            fetch=lambda trace_id: versions.spoken.trace(trace_id),
            asked=asked,
        )

    def writer(self, address: Address, on_failure: Callable[[NotWritten], None]) -> Writer:
        """Refuse: Jaeger takes spans over OTLP."""
        raise not_writable(address, "Jaeger")


class _Version(Protocol):
    """One version of the query API."""

    def search(
        self, service: str, tags: Mapping[str, str], range_ns: tuple[int, int], limit: int
    ) -> list[tuple[int, str]]:
        """Ask for at most so many traces that began in a range: when each began, and its id."""
        ...

    def trace(self, trace_id: str) -> Iterator[SpanItem]:
        """Ask for the spans of a trace."""
        ...


class _Versions:
    """Finds out which version of the API a server speaks, when it is first asked.

    Attributes:
        services: What it calls the services that it has spans of.
    """

    def __init__(self, api: BackendApi, base: str) -> None:
        self._api = api
        self._base = base
        self._spoken: _Version | None = None
        self.services: list[str] = []

    @property
    def spoken(self) -> _Version:
        """The version that is spoken.

        Raises:
            BackendError: if neither is: the message names the URLs that were asked.
        """
        if self._spoken is None:
            troubles: list[str] = []
            for path, version, key in ((_SERVICES[0], _V3, "services"), (_SERVICES[1], _V1, "data")):
                services = self._query(path, key, troubles)
                if services is not None:
                    self.services, self._spoken = services, version(self._api)
                    break
            else:
                asked = " or ".join(self._base + path for path in _SERVICES)
                raise BackendError(
                    f"expected Jaeger's query API at {asked}, got neither: "
                    f"{' '.join(troubles)} Where it lies deeper, write the path before the service, as "
                    "jaeger://host:10428/select/jaeger/service"
                )
        return self._spoken

    def _query(self, path: str, key: str, troubles: list[str]) -> list[str] | None:
        """Ask for the services; None, and the trouble noted, where there is no such API."""
        try:
            answer = self._api.get_object(path)
        except BackendError as error:
            if error.status is not None and error.status not in _NO_SUCH_API:
                raise
            if error.status is None and not error.is_address_wrong:
                raise  # nobody is there: no other path would be answered
            troubles.append(str(error))
            return None
        named = answer.get(key, None if answer else [])
        if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
            troubles.append(f"{self._base}{path}: expected the names of services, got {str(answer)[:60]!r}.")
            return None
        return sorted(named)


def _find_traces(versions: _Versions, service: str, selection: Selection, name: str) -> Iterator[str | UnreadableInput]:
    version = versions.spoken
    tags = {key: value for key, value in selection.filters.items() if key not in (*RUN_WORDS, _SERVICE)}
    for wanted in [service] if service else versions.services:
        yield from find_in_range(
            lambda start_ns, end_ns, limit, wanted=wanted: version.search(wanted, tags, (start_ns, end_ns), limit),  # type: ignore[misc]
            selection,
            name=f"{name} service {wanted}",
            at_once=_AT_ONCE,
            finest_ns=_FINEST_NS,
            widest_ns=_WIDEST_NS,
        )


class _V3:
    """`/api/v3`."""

    def __init__(self, api: BackendApi) -> None:
        self._api = api

    def search(
        self, service: str, tags: Mapping[str, str], range_ns: tuple[int, int], limit: int
    ) -> list[tuple[int, str]]:
        """Ask under the names of today's API and of those before it."""
        params: dict[str, str | int] = {
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
            params["query.attributes"] = json.dumps(tags)
        try:
            body = self._api.get(_TRACES_V3, list(params.items()))
        except BackendError as error:
            if error.status == _NOT_FOUND:  # how Jaeger says that there are none
                return []
            raise
        return _starts(_read_chunks(body, _TRACES_V3))

    def trace(self, trace_id: str) -> Iterator[SpanItem]:
        """Ask for the spans of a trace."""
        path = f"{_TRACES_V3}/{quote(trace_id, safe='')}"
        return _read_chunks(self._api.get(path), path)


class _V1:
    """`/api`, which Jaeger's UI asked before: times in microseconds, and what is wrong in `errors`."""

    def __init__(self, api: BackendApi) -> None:
        self._api = api

    def search(
        self, service: str, tags: Mapping[str, str], range_ns: tuple[int, int], limit: int
    ) -> list[tuple[int, str]]:
        """Ask for traces of a service."""
        params: dict[str, str | int] = {
            "service": service,
            "start": range_ns[0] // _NS_PER_US,
            "end": range_ns[1] // _NS_PER_US,
            "limit": limit,
        }
        if tags:
            params["tags"] = json.dumps(tags)
        return _starts(self._fetch(_TRACES_V1, list(params.items())))

    def trace(self, trace_id: str) -> Iterator[SpanItem]:
        """Ask for the spans of a trace."""
        path = f"{_TRACES_V1}/{quote(trace_id, safe='')}"
        items = list(self._fetch(path))
        if not items:
            raise UnreadableInput(f"{path}: expected a trace, got none.")
        yield from items

    def _fetch(self, path: str, options: list[tuple[str, str | int]] | None = None) -> Iterator[SpanItem]:
        answer = self._api.get_object(path, options or [])
        traces = answer.get("data") or []
        if not isinstance(traces, list) or (answer.get("errors") and not traces):
            raise UnreadableInput(f"{path}: expected traces, got {str(answer)[:120]!r}.")
        for number, trace in enumerate(traces):
            yield from read_ui_trace(trace, f"{path} trace {number}")


def _starts(items: Iterator[SpanItem]) -> list[tuple[int, str]]:
    """List the traces of an answer: when each began, and its id."""
    starts: dict[str, int] = {}
    for item in items:
        if isinstance(item, Span):  # what is wrong with the others is said when their traces are read
            starts[item.trace_id] = min(item.start_ns, starts.get(item.trace_id, item.start_ns))
    return [(start_ns, trace_id) for trace_id, start_ns in starts.items()]


def _read_chunks(body: bytes, location: str) -> Iterator[SpanItem]:
    for item in json_objects_of(body, location, "a chunk of Jaeger's answer"):
        if isinstance(item, UnreadableInput):
            raise item
        if "error" in item.value:
            raise UnreadableInput(f"{item.location}: expected spans, got the error {str(item.value['error'])[:120]!r}.")
        if item.value:
            yield from read_chunk(item.value, item.location)


def _time(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns // SECOND_NS, UTC).strftime(f"%Y-%m-%dT%H:%M:%S.{time_ns % SECOND_NS:09d}Z")
