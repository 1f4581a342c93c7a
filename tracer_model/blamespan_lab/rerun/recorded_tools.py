"""Tools that answer from a recording, so that nothing that they do to the world is done again."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

from blamespan import conventions as words
from blamespan.injecting.injection import Injection
from blamespan.intercepting.boundaries import Answer, ContentT, Opportunity, Where
from blamespan_lab.rerun.playback import current_attributes, exception_of
from blamespan_lab.rerun.script import RecordedResult, read_arguments


class RecordedTools(Injection):
    """Answers every call of a tool from a recording, within a `with` block.

    A call that was recorded several times is answered in that order, and the last answer stands for all further ones.

    Args:
        results: The recording.

    Attributes:
        may_run: Whether a call that was not recorded runs; else none is let through.
        lacks: The first call that was not recorded and not run; empty if there was none.
    """

    def __init__(self, results: Iterable[RecordedResult]) -> None:
        super().__init__((), everywhere=True)
        self._results: defaultdict[tuple[str, str], deque[RecordedResult]] = defaultdict(deque)
        for result in results:
            if not result.lost:
                self._results[result.tool, repr(result.arguments)].append(result)
        self.may_run = False
        self.lacks = ""

    def change(self, at: Opportunity, content: ContentT, where: Callable[[], Where | None]) -> Any:
        """Answer in place of a tool; what it gives is of the same type as *content*."""
        del where
        if not isinstance(content, Answer) or not content.is_due:
            return content
        arguments = current_attributes().get(words.TOOL_ARGUMENTS, at.arguments)
        waiting = self._results.get((at.tool, repr(read_arguments(arguments))))
        if not waiting and self.may_run:
            return content
        if not waiting:
            self.lacks = self.lacks or f"{at.tool}({arguments})"
            return Answer("this call was not recorded", "RuntimeError", is_due=True)
        result = waiting.popleft() if len(waiting) > 1 else waiting[0]
        return Answer(result.text, exception_of(result), is_due=bool(result.text or result.error))
