"""Rules on steps as tables: which steps are meant, and what must or must not be found near them.

Patterns are RE2's: linear in the text, so that neither a pattern nor a hostile text can hang the tracer, and without
look-around and back references. They match anywhere in a text.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import re2  # type: ignore[import-untyped]

from blamespan.errors import ConfigError
from blamespan.trace import Step
from blamespan_tracer.contracts.contract import Finding, Outcome
from blamespan_tracer.contracts.run import Run

__all__ = ["Blame", "Place", "Rule", "RuleCheck", "StepPattern", "compiled"]

Place: TypeAlias = Literal["step", "result", "before", "after", "task", "run"]
"""Where to look: in the step itself, in what tools answered to it, in earlier steps, in later steps, in the task, or in
all steps of the run."""

Blame: TypeAlias = Literal["step", "found", "next"]
"""Who breaks the rule: the step that is meant, what was found, or the next decision. A step that cannot be blamed hands
it to the next decision too."""

_MAX_PATTERN_CHARS = 1_000
_MAX_TEXT_CHARS = 1_000_000
"""Of a longer text the beginning is searched."""


@dataclass(frozen=True, slots=True)
class StepPattern:
    """Which steps are meant: those that fit every key given.

    Attributes:
        kind: One of these kinds.
        agent: The name of who acts.
        role: One of these roles: agent, user, executor.
        tool: The name of the called tool.
        text: What the step says.
        status: One of these: unset, ok, error.
        result: What a tool answered to it.
        recipient: The name of somebody it is addressed to.
        last: Whether it is the last decision of the run.
    """

    kind: tuple[str, ...] = ()
    agent: str = ""
    role: tuple[str, ...] = ()
    tool: str = ""
    text: str = ""
    status: tuple[str, ...] = ()
    result: str = ""
    recipient: str = ""
    last: bool | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """What is to be found, and where.

    Attributes:
        pattern: What a step must fit to be found; of the task and of results, only its text counts.
        place: Where to look.
        by: Whose steps count: the same agent's, another's, or anybody's.
        within: For `before` and `after`: at most this many steps away; 0 means any distance.
        at_least: How often it must be found, where it is required.
        at_most: How often it may be found, where it is forbidden.
    """

    pattern: StepPattern
    place: Place = "step"
    by: Literal["same", "other", "anybody"] = "anybody"
    within: int = 0
    at_least: int = 1
    at_most: int = 0


def compiled(pattern: str, where: str) -> Any:  # re2 has no types
    """Compile *pattern* for `search`.

    Raises:
        ConfigError: if it is too long or RE2 does not take it.
    """
    if len(pattern) > _MAX_PATTERN_CHARS:
        raise ConfigError(f"{where}: expected a pattern of at most {_MAX_PATTERN_CHARS} characters, got {len(pattern)}")
    try:
        return re2.compile(pattern, _options())
    except (re2.error, UnicodeError) as error:
        reason = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else str(error)
        raise ConfigError(
            f"{where}: expected a pattern that RE2 takes (no look-around or back references), got {pattern!r}: {reason}"
        ) from error


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False  # it would write to stderr; the error says the same
    return options


class RuleCheck:
    """A check made from a rule."""

    def __init__(self, when: StepPattern, rule: Rule, *, is_required: bool, blame: Blame, title: str) -> None:
        self._when, self._rule = _Matcher(when), rule
        self._wanted = _Matcher(rule.pattern)
        self._is_required, self._blame, self._title = is_required, blame, title

    def __call__(self, run: Run) -> Iterator[Finding]:
        """Examine the steps that are meant."""
        finder = _Finder(run, self._rule, self._wanted)
        for step in run.trace.steps:
            quote = self._when.quote(run, step)
            if quote is None:
                continue
            found = finder.near(step)
            is_kept = len(found) >= self._rule.at_least if self._is_required else len(found) <= self._rule.at_most
            outcome: Outcome = "pass" if is_kept else "fail"
            if not is_kept and self._is_required and finder.is_cut_off(step):
                outcome = "inconclusive"
            culprit = self._culprit(run, step, found)
            if culprit is None:
                continue
            shown = quote if self._is_required and culprit is step else self._wanted.quote(run, culprit)
            yield Finding(culprit.index, outcome, shown or culprit.content, self._title)

    def _culprit(self, run: Run, step: Step, found: Sequence[int]) -> Step | None:
        if self._blame == "found" and found and found[-1] >= 0:
            step = run.trace.steps[found[-1]]
        if self._blame == "next" or not run.trace.can_be_blamed(step):
            return run.next_decision(step.index)
        return step


class _Finder:
    """Finds, for one rule and one run, what is near a step; every text is searched once."""

    def __init__(self, run: Run, rule: Rule, wanted: _Matcher) -> None:
        self._run, self._rule, self._wanted = run, rule, wanted
        steps = run.trace.steps if rule.place in ("before", "after", "run") else ()
        self._fitting = [step.index for step in steps if wanted.quote(run, step) is not None]
        self._by_agent: dict[str, list[int]] = {}
        for index in self._fitting:
            self._by_agent.setdefault(run.trace.steps[index].agent, []).append(index)

    def near(self, step: Step) -> list[int]:
        """Return the steps that fit, -1 for a fit outside of steps; no more than decide the rule."""
        rule = self._rule
        if rule.place == "step":
            return [step.index] if self._wanted.quote(self._run, step) is not None else []
        if rule.place in ("task", "result"):
            texts = [self._run.trace.task] if rule.place == "task" else [r.content for r in self._results(step)]
            return [-1 for text in texts if self._wanted.is_in(text)]
        begin, end = self._range(step.index)
        enough = max(rule.at_least, rule.at_most + 1)
        if rule.by == "same":
            return _between(self._by_agent.get(step.agent, []), begin, end, enough)
        if rule.by == "anybody":
            return _between(self._fitting, begin, end, enough)
        found: list[int] = []
        for agent, indices in self._by_agent.items():
            if agent != step.agent:
                found += _between(indices, begin, end, enough)
        return sorted(found)[:enough]

    def is_cut_off(self, step: Step) -> bool:
        """Check whether the run ended before all the steps came in which something was required."""
        rule = self._rule
        return rule.place == "after" and step.index + rule.within >= len(self._run.trace.steps) and rule.within > 0

    def _range(self, index: int) -> tuple[int, int]:
        far, size = self._rule.within, len(self._run.trace.steps)
        if self._rule.place == "before":
            return (max(0, index - far) if far else 0), index
        if self._rule.place == "after":
            return index + 1, (min(size, index + far + 1) if far else size)
        return 0, size

    def _results(self, step: Step) -> list[Step]:
        return self._run.results_of.get(step.index, [])


def _between(indices: Sequence[int], begin: int, end: int, enough: int) -> list[int]:
    first = bisect_left(indices, begin)
    return [index for index in indices[first : first + enough] if index < end]


class _Matcher:
    """Tells whether a step fits a pattern."""

    def __init__(self, pattern: StepPattern) -> None:
        self._pattern = pattern
        self._compiled = {key: compiled(getattr(pattern, key), key) for key in _PATTERNS if getattr(pattern, key)}

    def quote(self, run: Run, step: Step) -> str | None:
        """Return the line of *step* that fits, all of it where no text is asked for, or None where it does not fit."""
        pattern = self._pattern
        if pattern.kind and step.kind not in pattern.kind:
            return None
        if pattern.status and step.status not in pattern.status:
            return None
        if pattern.role and run.role(step.agent) not in pattern.role:
            return None
        if pattern.last is not None and pattern.last != run.is_last_decision(step):
            return None
        if not self._fits("agent", step.agent) or not self._fits("tool", run.tool_of(step)):
            return None
        if "recipient" in self._compiled and not any(self._fits("recipient", name) for name in step.recipients):
            return None
        results = run.results_of.get(step.index, [])
        if "result" in self._compiled and not any(self._fits("result", result.content) for result in results):
            return None
        return self._line(step.content)

    def is_in(self, text: str) -> bool:
        """Check whether *text* fits the text asked for."""
        return self._fits("text", text)

    def _line(self, content: str) -> str | None:
        if "text" not in self._compiled:
            return content
        text = _encodable(content[:_MAX_TEXT_CHARS])
        match = self._compiled["text"].search(text)
        if match is None:
            return None
        begin = max(content.rfind("\n", 0, match.start()) + 1, match.end() - 150, 0)
        return content[min(begin, match.start()) :].split("\n", 1)[0] or content[match.start() : match.end()]

    def _fits(self, key: str, text: str) -> bool:
        search = self._compiled.get(key)
        return search is None or search.search(_encodable(text[:_MAX_TEXT_CHARS])) is not None


_PATTERNS = ("agent", "tool", "text", "result", "recipient")


def _encodable(text: str) -> str:
    """Replace what UTF-8 cannot hold, lone surrogates, character by character."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
