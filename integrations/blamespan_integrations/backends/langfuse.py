"""Langfuse: `langfuse+https://cloud.langfuse.com`. Source: its public API, `/api/public/traces` and `/scores`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from blamespan.errors import ConfigError, NotWritten, UnreadableInput
from blamespan.evaluations import as_langfuse_score
from blamespan.importing.backends import Address, Reader, Writer
from blamespan.importing.selection import Selection
from blamespan.trace import MessageActionTrace
from blamespan_integrations.backends._api import AnswerTooLarge, BackendApi, objects_in, read_headers, text_in
from blamespan_integrations.backends._traces import TraceReader
from blamespan_integrations.backends._writing import BatchWriter, Result, list_evaluations
from blamespan_integrations.importers._span_files import SpanItem, read_records
from blamespan_integrations.importers.langfuse import (
    OBSERVATION_ID,
    TRACE_ID,
    observations_in,
    spans_of_observation,
)

_KEYS = ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY")
_HEADERS = "BLAMESPAN_LANGFUSE_HEADERS"
_TRACES: Final = "/api/public/traces"
_SCORES: Final = "/api/public/scores"
_A_PAGE = 64
"""Traces listed at once: halved, and halved again, where they are too large together. Langfuse gives at most 100."""
_LOST_PAGES = 3
"""So many pages in a row that cannot be read end the list."""
_OWN_FILTERS = ("name", "userId", "sessionId", "version", "release", "environment", "tags")
"""Filters that Langfuse's list of traces knows; of runs they could not be told."""


class LangfuseBackend:
    """Reads a project of Langfuse, and scores its observations; the keys say which project."""

    name = "langfuse"
    description = f"Langfuse; loses resources, events and times below a millisecond. Keys: {' and '.join(_KEYS)}"

    def reader(self, address: Address, selection: Selection) -> Reader:
        """Read the project that the keys are of."""
        api = _api(address)
        return TraceReader(
            address.name,
            api,
            selection,
            find=lambda: _find_traces(api, selection),
            fetch=lambda trace_id: _fetch_trace(api, trace_id),
            asked=_OWN_FILTERS,
        )

    def writer(self, address: Address, on_failure: Callable[[NotWritten], None]) -> Writer:
        """Score observations; one score for each observation, name and tracer."""
        api = _api(address)
        return BatchWriter(lambda results: _score(api, results), api.close, on_failure)


def _api(address: Address) -> BackendApi:
    public, secret = (os.environ.get(name, "") for name in _KEYS)
    if not public or not secret:
        raise ConfigError(f"expected Langfuse's keys, got none. Set {' and '.join(_KEYS)}")
    return BackendApi(
        "Langfuse", address.base, headers=read_headers(_HEADERS), auth=(public, secret), keys=" and ".join(_KEYS)
    )


def _find_traces(api: BackendApi, selection: Selection) -> Iterator[str | UnreadableInput]:
    """Read the numbered pages of traces; one that cannot be had is named, and the next ones are read."""
    options: list[tuple[str, str | int]] = [("orderBy", "timestamp.asc")]
    if selection.since:
        options.append(("fromTimestamp", selection.since.isoformat()))
    if selection.until:
        options.append(("toTimestamp", selection.until.isoformat()))
    options += [(key, value) for key, value in selection.filters.items() if key in _OWN_FILTERS]
    number, pages, lost = 1, 1, 0
    before: list[str] = []
    while number <= pages and lost < _LOST_PAGES:
        try:
            ids, pages = _page(api, options, number, _A_PAGE)
            if not ids:
                return
            if ids == before:
                yield UnreadableInput(f"{_TRACES}: expected page {number} of the traces, got the one before again.")
                return
            yield from ids
            lost, before = 0, ids
        except UnreadableInput as error:
            yield UnreadableInput(f"page {number} of the list of traces cannot be read: {error}")
            lost += 1
        number += 1
    if lost:
        yield UnreadableInput(f"{_TRACES}: the list of traces ends with page {number - 1}; more of them are not known.")


def _page(api: BackendApi, options: Sequence[tuple[str, str | int]], number: int, size: int) -> tuple[list[str], int]:
    """Read a page's ids, and how many pages there are; of one that is too large each half."""
    try:
        answer = api.get_object(_TRACES, [*options, ("page", number), ("limit", size)])
    except AnswerTooLarge:
        if size == 1:
            raise
        first, pages = _page(api, options, 2 * number - 1, size // 2)
        second, _ = _page(api, options, 2 * number, size // 2)
        return first + second, -(-pages // 2)
    traces = list(objects_in(answer, "data", _TRACES))
    meta = answer.get("meta")
    n_pages = meta.get("totalPages") if isinstance(meta, Mapping) else None
    is_full = len(traces) >= size
    return (
        [trace_id for trace in traces if (trace_id := text_in(trace, "id"))],
        n_pages if isinstance(n_pages, int) else number + is_full,
    )


def _fetch_trace(api: BackendApi, trace_id: str) -> Iterator[SpanItem]:
    path = f"{_TRACES}/{quote(trace_id, safe='')}"
    return read_records(observations_in(path, api.get_object(path)), spans_of_observation)


def _score(api: BackendApi, results: Sequence[Result]) -> None:
    """Send one request for each score; an abstention is none."""
    for result in results:
        for evaluation in list_evaluations(result):
            if evaluation.score is not None:
                score = _in_own_ids(as_langfuse_score(evaluation), evaluation.span_id, result[0].trace)
                api.post(_SCORES, json.dumps(score).encode(), "application/json")


def _in_own_ids(score: dict[str, Any], span_id: str, trace: MessageActionTrace) -> dict[str, Any]:
    """Name trace and observation as Langfuse does, where its ids are not OpenTelemetry's.

    The run's own observation is no step, so that its id is not known then: the score is the trace's.
    """
    own_traces = [step.attributes[TRACE_ID] for step in trace.steps if TRACE_ID in step.attributes]
    own_ids = {s.span_id: s.attributes[OBSERVATION_ID] for s in trace.steps if OBSERVATION_ID in s.attributes}
    named = {**score, **({"traceId": own_traces[0]} if own_traces else {})}
    if own_ids:
        named.pop("observationId", None)
    return {**named, **({"observationId": own_ids[span_id]} if span_id in own_ids else {})}
