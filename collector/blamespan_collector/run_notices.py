"""What an embedded program writes to stderr: a line for each run that failed, and one at exit."""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from blamespan import conventions as words
from blamespan.analysis.showing.legible import counted, printable
from blamespan.analysis.showing.verdicts import cause_text
from blamespan.attribution import FAILURE_WORDS, NO_EVIDENCE, NO_SIGN, VerdictWord
from blamespan.pipeline import AttributedRun

_MOST_LINES: Final = 20
"""Lines about single runs; then the one at exit is enough."""
_MOST_RUNS: Final = 100_000
_TASK_CHARS: Final = 60
_REASON_CHARS: Final = 80
_SHOWN_DIGITS: Final = 12


class RunNotices:
    """Writes lines to stderr about runs that were judged.

    Args:
        see: Returns how to see one run, by its trace id; empty where it is not kept.
        see_all: How to see all runs; empty where they are not kept.
    """

    def __init__(self, see: Callable[[str], str], see_all: str) -> None:
        self._see = see
        self._see_all = see_all
        self._runs: OrderedDict[str, VerdictWord] = OrderedDict()
        """What the verdict on each run comes to."""
        self._told: OrderedDict[str, str] = OrderedDict()
        self._lines = 0

    def note_run(self, item: AttributedRun) -> None:
        """Note a verdict; write a line if the run failed, and it is not the line that was written before."""
        key = _key(item)
        blamed = next((part for part in (item, *item.earlier) if part.attribution.abstained is None), item)
        self._runs[key] = blamed.attribution.word
        for part in item.earlier:  # one run with this
            self._runs.pop(_key(part), None)
        while len(self._runs) > _MOST_RUNS:
            self._runs.popitem(last=False)
        if blamed.attribution.word not in FAILURE_WORDS:
            return
        line = _line(item, blamed)
        if self._told.get(key) == line or self._lines >= _MOST_LINES:
            return
        self._lines += 1
        self._told[key] = line
        see = self._see(blamed.trace.trace_id)
        _write(f"{line}. See it: {see}" if see else line)
        if self._lines == _MOST_LINES:
            _write(f"{_MOST_LINES} runs failed: further ones are counted at exit")

    def sum_up(self, *, is_alone: bool) -> None:
        """Write the line at exit, if there was a run.

        Args:
            is_alone: Whether no back end took them.
        """
        if not self._runs:
            return
        counts = Counter(self._runs.values())
        runs, looks = len(self._runs), counts["looks failed"]
        failed = [f"{counts['failed']} failed"] if counts["failed"] else []
        failed += [f"{looks} look{'s' if looks == 1 else ''} failed"] if looks else []
        if not failed:
            came_to = f", {NO_SIGN}"
        elif runs == 1:
            came_to = f", which {next(iter(self._runs.values()))}"
        else:
            came_to = f", of which {' and '.join(failed)}"
        kept = ", kept on this machine" if is_alone and self._see_all else ""
        see = f". See them: {self._see_all}" if self._see_all else ""
        _write(f"{counted(runs, 'run')}{came_to}{kept}{see}")

    def renewed(self) -> RunNotices:
        """Return the same for a forked child, which counts its own runs."""
        return RunNotices(self._see, self._see_all)


def shown_id(trace_id: str) -> str:
    """Return as much of a trace id as names it to `blamespan show`."""
    return trace_id[:_SHOWN_DIGITS]


def _key(item: AttributedRun) -> str:
    top = item.run.root or item.run.spans[0]
    return f"{item.trace.trace_id}/{top.span_id}"


def _line(item: AttributedRun, blamed: AttributedRun) -> str:
    run, verdict = item.trace, blamed.attribution
    name = item.run.root.text(words.WORKFLOW_NAME) if item.run.root else None
    title = f'"{_cut(run.task, _TASK_CHARS)}"' if run.task else _cut(name or run.trace_id, _TASK_CHARS)
    reason = _reason(item)
    said = f"run {title} {verdict.word}{f' ({reason})' if reason else ''}"
    if verdict.cause is not None:
        return f"{said}: {_cut(cause_text(verdict.cause), 2 * _REASON_CHARS)}"
    if verdict.abstained is not None or verdict.decisive_step is None:
        return f"{said}; nobody is blamed: {_cut(verdict.abstained or 'there is no decisive step', _REASON_CHARS)}"
    decisive = verdict.steps[verdict.decisive_step]
    where = f"{_cut(decisive.agent, _TASK_CHARS)} at step {decisive.index}"
    if not verdict.has_evidence:
        return f"{said}: suspects {where} ({NO_EVIDENCE})"
    mode = verdict.mode_of(decisive.agent)
    what = f", {printable(mode.mode.name)}" if mode is not None else ""
    return f"{said}: {where}{what}"


def _reason(item: AttributedRun) -> str:
    """Return why the program says that it failed."""
    reasons = [span for span in item.run.spans if span.text(words.RUN_OUTCOME) == "failed"]
    latest = max(reasons, key=lambda span: span.end_ns, default=None)
    return _cut(latest.text(words.RUN_OUTCOME_REASON) or "", _REASON_CHARS) if latest is not None else ""


def _cut(text: str, most: int) -> str:
    text = printable(text)
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _write(line: str) -> None:
    with suppress(Exception):  # at exit stderr may be gone
        stream = sys.stderr
        encoding = getattr(stream, "encoding", None) or "utf-8"
        stream.write(f"blamespan: {line}\n".encode(encoding, "replace").decode(encoding))
        stream.flush()
