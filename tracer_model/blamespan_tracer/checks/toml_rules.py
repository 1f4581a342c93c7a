"""Checks written in TOML: which steps are meant, and what must or must not be near them.

    [[check]]
    name = "search-before-answer"
    title = "Who answers has searched before."
    mode = "mast:FM-3.2"
    when = { kind = ["message"], agent = "Assistant", text = "(?i)final answer" }
    require = { kind = ["tool_call"], tool = "search", in = "before", by = "same" }

The keys are those of `StepPattern` and `StepRule`; `docs/how-to/checks.md` lists them. Patterns are RE2's: linear in
the text, so that neither a pattern nor a hostile text can hang the tracer, and without look-around and back references.
They match anywhere in a text.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import re2  # type: ignore[import-untyped]

from blamespan.errors import ConfigError
from blamespan.strict_tables import read_choice, read_flag, read_text, read_toml, read_whole_number, refuse_unknown_keys
from blamespan.taxonomy import mode
from blamespan.trace import AgentRole, Step, StepKind, StepStatus
from blamespan_tracer.checks.check import Check, ExaminedRun, Finding, Outcome

RuleScope: TypeAlias = Literal["step", "result", "before", "after", "task", "run"]
"""Where to look: in the step itself, in what tools answered to it, in earlier steps, in later steps, in the task, or in
all steps of the run."""

Suspect: TypeAlias = Literal["step", "found", "next"]
"""Who breaks the rule: the step that is meant, what was found, or the next decision. A step that cannot be blamed hands
it to the next decision too."""

_MOST = 1_000_000
"""Steps, at most, of `within`, and times of `at_least` and `at_most`."""

_MAX_PATTERN_CHARS = 1_000
_MAX_TEXT_CHARS = 1_000_000
"""Of a longer text the beginning is searched."""


@dataclass(frozen=True, slots=True)
class StepPattern:
    """Which steps are meant: those that fit every key.

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
class StepRule:
    """What is to be found, and where.

    Attributes:
        pattern: What a step must fit to be found; of the task and of results, only its text counts.
        scope: Where to look.
        by: Whose steps count: the same agent's, another's, or anybody's.
        within: For `before` and `after`: at most this many steps away; 0 means any distance.
        at_least: How often it must be found, where it is required.
        at_most: How often it may be found, where it is forbidden.
    """

    pattern: StepPattern
    scope: RuleScope = "step"
    by: Literal["same", "other", "anybody"] = "anybody"
    within: int = 0
    at_least: int = 1
    at_most: int = 0


def read_toml_checks(path: Path) -> tuple[Check, ...]:
    """Read the checks of a TOML file.

    Raises:
        ConfigError: if it cannot be read, is no TOML, has an unknown key (the nearest one is named), a value that does
            not fit, a pattern that RE2 does not take, or two checks of one name.
    """
    document = read_toml(path, "checks", "docs/how-to/checks.md shows the form")
    where = path.name
    refuse_unknown_keys(document, ("check",), where)
    entries = document.get("check")
    if not isinstance(entries, list) or not entries:
        raise ConfigError(
            f"{where}: expected at least one [[check]], got {entries!r}. docs/how-to/checks.md has examples"
        )
    checks = tuple(_read_check(entry, f"{where}, check {number}") for number, entry in enumerate(entries, 1))
    names = [check.name for check in checks]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"{where}: expected every name once, got {twice!r} twice. Rename one of them")
    return checks


_KEYS = ("name", "title", "mode", "trust", "symptom", "when", "require", "forbid", "blame")


def _read_check(value: object, where: str) -> Check:
    table = _as_table(value, where)
    refuse_unknown_keys(table, _KEYS, where)
    name = read_text(table.get("name", ""), f"{where}: name")
    if not name:
        raise ConfigError(f"{where}: expected a name, got {table.get('name')!r}. Name it like name = 'cites-a-source'")
    where = f"{where} ({name[:60]!r})"
    if ("require" in table) == ("forbid" in table):
        raise ConfigError(
            f"{where}: expected either require or forbid, got {sorted(table)!r}. Split it into two checks"
        )
    is_required = "require" in table
    title = read_text(table.get("title", name), f"{where}: title")
    check = _RuleCheck(
        _read_pattern(_as_table(table.get("when", {}), f"{where}: when"), f"{where}: when"),
        _read_rule(table["require" if is_required else "forbid"], f"{where}: {'require' if is_required else 'forbid'}"),
        is_required=is_required,
        suspect=read_choice(table.get("blame", "step"), get_args(Suspect), f"{where}: blame"),
        title=title,
    )
    trust = table.get("trust", 0.5)
    if isinstance(trust, bool) or not isinstance(trust, int | float) or not 0 <= trust <= 1:
        raise ConfigError(f"{where}: expected trust between 0 and 1, got {trust!r}. Leave it out for 0.5")
    return Check(
        name,
        title,
        check,
        mode(read_text(table["mode"], f"{where}: mode")) if "mode" in table else None,
        float(trust),
        is_symptom=read_flag(table.get("symptom", False), f"{where}: symptom"),
    )


def _read_rule(value: object, where: str) -> StepRule:
    table = dict(_as_table(value, where))
    own = ("in", "by", "within", "at_least", "at_most")
    refuse_unknown_keys(table, (*(field.name for field in fields(StepPattern) if field.name != "last"), *own), where)
    pattern = _read_pattern({key: value for key, value in table.items() if key not in own}, where)
    scope: RuleScope = read_choice(table.get("in", "step"), get_args(RuleScope), f"{where}: in")
    is_of_steps = scope not in ("task", "result")
    beyond_text = [field.name for field in fields(StepPattern) if field.name != "text" and getattr(pattern, field.name)]
    if not is_of_steps and (beyond_text or not pattern.text):
        raise ConfigError(
            f"{where}: expected only text with in = {scope!r}, got {beyond_text!r}. Other keys tell steps apart"
        )
    if pattern == StepPattern():
        raise ConfigError(f"{where}: expected something to look for, got {value!r}. Give it a text or a kind")
    return StepRule(
        pattern,
        scope,
        read_choice(table.get("by", "anybody"), ("same", "other", "anybody"), f"{where}: by"),
        read_whole_number(table.get("within", 0), f"{where}: within", most=_MOST),
        read_whole_number(table.get("at_least", 1), f"{where}: at_least", most=_MOST),
        read_whole_number(table.get("at_most", 0), f"{where}: at_most", most=_MOST),
    )


def _read_pattern(table: Mapping[str, Any], where: str) -> StepPattern:
    refuse_unknown_keys(table, tuple(field.name for field in fields(StepPattern)), where)
    values: dict[str, Any] = {}
    for key, value in table.items():
        at = f"{where}.{key}"
        if key in _CHOICES:
            values[key] = _choices(value, _CHOICES[key], at)
        elif key == "last":
            values[key] = read_flag(value, at)
        else:
            compile_pattern(read_text(value, at), at)
            values[key] = value
    return StepPattern(**values)


_CHOICES: Mapping[str, tuple[str, ...]] = {
    "kind": get_args(StepKind),
    "role": get_args(AgentRole),
    "status": get_args(StepStatus),
}


def _as_table(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where}: expected a table, got {value!r}. Write it like {{ text = '...' }}")
    return value


def _choices(value: object, choices: Sequence[str], where: str) -> tuple[str, ...]:
    items = value if isinstance(value, list) else [value]
    if not items:
        raise ConfigError(f"{where}: expected at least one of {', '.join(choices)}, got none. Leave the key out")
    return tuple(read_choice(item, choices, where) for item in items)


def compile_pattern(pattern: str, where: str) -> Any:  # re2 has no types
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


class _RuleCheck:
    """A check made from a rule."""

    def __init__(self, when: StepPattern, rule: StepRule, *, is_required: bool, suspect: Suspect, title: str) -> None:
        self._when, self._rule = _StepMatcher(when), rule
        self._wanted = _StepMatcher(rule.pattern)
        self._is_required, self._suspect, self._title = is_required, suspect, title

    def __call__(self, run: ExaminedRun) -> Iterator[Finding]:
        """Examine the steps that are meant."""
        finder = _Finder(run, self._rule, self._wanted)
        for step in run.trace.steps:
            quote = self._when.quote(run, step)
            if quote is None:
                continue
            matches = finder.near(step)
            is_kept = len(matches) >= self._rule.at_least if self._is_required else len(matches) <= self._rule.at_most
            outcome: Outcome = "pass" if is_kept else "fail"
            if not is_kept and self._is_required and finder.is_cut_off(step):
                outcome = "inconclusive"
            culprit = self._culprit(run, step, matches)
            if culprit is None:
                continue
            shown = quote if self._is_required and culprit is step else self._wanted.quote(run, culprit)
            yield Finding(culprit.index, outcome, shown or culprit.content, self._title)

    def _culprit(self, run: ExaminedRun, step: Step, matches: Sequence[int]) -> Step | None:
        if self._suspect == "found" and matches and matches[-1] >= 0:
            step = run.trace.steps[matches[-1]]
        if self._suspect == "next" or not run.trace.can_be_blamed(step):
            return run.next_decision(step.index)
        return step


class _Finder:
    """Finds, for one rule and one run, what is near a step; every text is searched once."""

    def __init__(self, run: ExaminedRun, rule: StepRule, wanted: _StepMatcher) -> None:
        self._run, self._rule, self._wanted = run, rule, wanted
        steps = run.trace.steps if rule.scope in ("before", "after", "run") else ()
        self._fitting = [step.index for step in steps if wanted.quote(run, step) is not None]
        self._by_agent: dict[str, list[int]] = {}
        for index in self._fitting:
            self._by_agent.setdefault(run.trace.steps[index].agent, []).append(index)

    def near(self, step: Step) -> list[int]:
        """Return the steps that fit, -1 for a fit outside of steps; no more than decide the rule."""
        rule = self._rule
        if rule.scope == "step":
            return [step.index] if self._wanted.quote(self._run, step) is not None else []
        if rule.scope in ("task", "result"):
            texts = [self._run.trace.task] if rule.scope == "task" else [r.content for r in self._results(step)]
            return [-1 for text in texts if self._wanted.is_in(text)]
        begin, end = self._range(step.index)
        enough = max(rule.at_least, rule.at_most + 1)
        if rule.by == "same":
            return _between(self._by_agent.get(step.agent, []), begin, end, enough)
        if rule.by == "anybody":
            return _between(self._fitting, begin, end, enough)
        matches: list[int] = []
        for agent, indices in self._by_agent.items():
            if agent != step.agent:
                matches += _between(indices, begin, end, enough)
        return sorted(matches)[:enough]

    def is_cut_off(self, step: Step) -> bool:
        """Check whether the run ended before all the steps came in which something was required."""
        rule = self._rule
        return rule.scope == "after" and step.index + rule.within >= len(self._run.trace.steps) and rule.within > 0

    def _range(self, index: int) -> tuple[int, int]:
        far, size = self._rule.within, len(self._run.trace.steps)
        if self._rule.scope == "before":
            return (max(0, index - far) if far else 0), index
        if self._rule.scope == "after":
            return index + 1, (min(size, index + far + 1) if far else size)
        return 0, size

    def _results(self, step: Step) -> list[Step]:
        return self._run.results_of.get(step.index, [])


def _between(indices: Sequence[int], begin: int, end: int, enough: int) -> list[int]:
    first = bisect_left(indices, begin)
    return [index for index in indices[first : first + enough] if index < end]


class _StepMatcher:
    """Matches steps with a pattern."""

    def __init__(self, pattern: StepPattern) -> None:
        self._pattern = pattern
        self._compiled = {
            key: compile_pattern(getattr(pattern, key), key) for key in _PATTERNS if getattr(pattern, key)
        }

    def quote(self, run: ExaminedRun, step: Step) -> str | None:
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
