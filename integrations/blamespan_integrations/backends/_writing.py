"""What writing verdicts back has in common: counting, and naming what was not taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice

from blamespan.attribution import Attribution
from blamespan.errors import NotWritten, UnreadableInput
from blamespan.evaluations import Evaluation, evaluations_of
from blamespan.importing.recorded import RecordedRun

Result = tuple[RecordedRun, Attribution]

_AT_ONCE = 50
"""Runs written at once."""


class BatchWriter:
    """Writes results in batches; of a batch that is refused each result is written on its own.

    Args:
        send: Writes results, all or none; raises `UnreadableInput` where they are not taken.
        close: Closes what *send* needs.
        on_failure: Told of each run whose verdict was not taken.
        note: What whoever wrote verdicts there should know, or empty.
        why_skipped: Returns why a result is not written, or an empty text for one that is.
    """

    def __init__(
        self,
        send: Callable[[list[Result]], None],
        close: Callable[[], None],
        on_failure: Callable[[NotWritten], None],
        note: str = "",
        why_skipped: Callable[[Result], str] = lambda result: "",
    ) -> None:
        self._note = note
        self.written = 0
        self.failed = 0
        self._send = send
        self._close = close
        self._on_failure = on_failure
        self._why_skipped = why_skipped
        self._skipped: Counter[str] = Counter()

    @property
    def notes(self) -> list[str]:
        """What whoever wrote verdicts should know: what was not to be written, and of the back end."""
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(self._skipped.items()))
        skipped = [f"verdicts not written back: {reasons}"] if reasons else []
        return skipped + [self._note] * bool(self._note and self.written)

    def write(self, results: Iterable[Result]) -> None:
        """Write the verdicts on runs; one that is refused does not keep the others back."""
        source = filter(self._is_wanted, results)
        while batch := list(islice(source, _AT_ONCE)):
            try:
                self._send(batch)
                self.written += len(batch)
            except UnreadableInput as error:
                if len(batch) == 1:
                    self._refuse(batch[0], error)
                else:
                    self._write_each(batch)

    def close(self) -> None:
        """Let go of connections; nothing is left to write."""
        self._close()

    def _is_wanted(self, result: Result) -> bool:
        reason = self._why_skipped(result)
        self._skipped.update([reason] if reason else [])
        return not reason

    def _write_each(self, batch: list[Result]) -> None:
        for result in batch:
            try:
                self._send([result])
                self.written += 1
            except UnreadableInput as error:
                self._refuse(result, error)

    def _refuse(self, result: Result, error: UnreadableInput) -> None:
        self.failed += 1
        self._on_failure(NotWritten(f"{result[0].source}: the verdict was not written: {error}"))


def list_evaluations(result: Result) -> list[Evaluation]:
    """Return a verdict as evaluations of spans, and of the trace where the run has no span of its own."""
    run, verdict = result
    service = run.trace.resource.get("service.name")
    return evaluations_of(
        verdict,
        run_span_id=run.root_id or "",
        ends_ns={step.span_id: step.end_ns for step in run.trace.steps},
        numbers={},
        service=service if isinstance(service, str) else "",
    )
