"""What reading traces one by one has in common: which ids, and from a trace's spans to its runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from blamespan.errors import ConfigError, UnreadableInput
from blamespan.importing.backends import Address
from blamespan.importing.recorded import RecordedRun
from blamespan.importing.selection import Selection
from blamespan_integrations.backends._api import BackendApi
from blamespan_integrations.importers._grouping import Told, rebuilt_runs

__all__ = ["TraceReader", "not_writable"]

TRACE_ID = "trace_id"


def not_writable(address: Address, product: str) -> ConfigError:
    """Say that a back end that is asked at *address* takes spans elsewhere."""
    return ConfigError(
        f"expected where to write verdicts, got {address.name!r}: {product} takes spans over OTLP, at another port. "
        "Write it like --write-back http://localhost:4318"
    )


class TraceReader:
    """Reads a back end trace by trace: what is wrong with one keeps no other back.

    Args:
        name: Of the source, for messages and runs.
        api: To ask; closed with the reader.
        selection: Which runs are wanted.
        found: Finds their traces' ids, in any order, perhaps twice.
        told: Asks for the spans of one trace.
        asked: Filters that `found` asks the back end for.
    """

    def __init__(
        self,
        name: str,
        api: BackendApi,
        selection: Selection,
        *,
        found: Callable[[], Iterable[str | UnreadableInput]],
        told: Callable[[str], Iterable[Told]],
        asked: Iterable[str] = (),
    ) -> None:
        self._name = name
        self._api = api
        self._found = found
        self._told = told
        self._selection = selection
        pushed = {TRACE_ID, *asked}
        self.remaining = replace(
            selection,
            filters={key: value for key, value in selection.filters.items() if key not in pushed},
            limit=None,
        )

    def trace_ids(self) -> Iterator[str | UnreadableInput]:
        """Yield each wanted trace's id once, up to the limit; a trouble on the way is an error in its place."""
        if TRACE_ID in self._selection.filters:
            yield self._selection.filters[TRACE_ID]
            return
        seen: set[str] = set()
        try:
            for item in self._found():
                if isinstance(item, UnreadableInput):
                    yield item
                elif item not in seen:
                    seen.add(item)
                    yield item
                    if len(seen) == self._selection.limit:
                        return
        except UnreadableInput as error:
            yield UnreadableInput(f"{self._name}: the list of traces ends after {len(seen)}: {error}")

    def runs(self, trace_ids: Sequence[str]) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield the runs of these traces; for a trace that cannot be read as a whole, one error."""
        return self._runs(trace_ids, keeps_spans=False)

    def runs_with_spans(self, trace_ids: Sequence[str]) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield the runs of these traces likewise, each with its spans."""
        return self._runs(trace_ids, keeps_spans=True)

    def _runs(self, trace_ids: Sequence[str], *, keeps_spans: bool) -> Iterator[RecordedRun | UnreadableInput]:
        for trace_id in trace_ids:
            try:
                told = list(self._told(trace_id))
            except UnreadableInput as error:
                yield UnreadableInput(f"{self._name}:{trace_id}: {error}")
                continue
            yield from rebuilt_runs(self._name, told, keeps_spans=keeps_spans)

    def close(self) -> None:
        """Close the connections."""
        self._api.close()
