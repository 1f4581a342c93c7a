"""One run drawn on a terminal: who did what, who builds on whom, and where the blame lies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from blamespan import conventions as words
from blamespan.analysis.showing.judges import BrokenRule
from blamespan.analysis.showing.known_failures import KnownFailure
from blamespan.analysis.showing.legible import clean, duration, number, when
from blamespan.analysis.showing.marks import AgentColumns, Marks, excerpt, line, marked, marks_of, rows, shortened
from blamespan.analysis.showing.shown_run import ShownRun
from blamespan.analysis.showing.verdicts import (
    MOST_STEPS,
    SHARE_WORTH_A_LINE,
    contradicted_of,
    lead_text,
    mode_text,
    order_text,
    verification_text,
)
from blamespan.annotate import read_verifications
from blamespan.attribution import Attribution, Contradicted
from blamespan.guarding.recorded import GuardMark, read_guard_mark
from blamespan.trace import Step, Usage

__all__ = ["Picture"]

_SUSPECTS = 3
_LINES, _LINES_OF_SUSPECT = 2, 4
_WIDE = 100
_MOST_NAMED = 8
_DECISIVE = "bold red"


@dataclass(frozen=True, slots=True)
class _DrawnRun:
    """What is derived of a run once.

    Attributes:
        shares: Of the blame, per step.
        quotes: Evidence, as quoted, by step.
        contradicted: What steps contradict, by step.
        rules: Rules that are broken or left open, by step; those of the run under None.
        suspects: Indices of the steps that hold most of the blame, the decisive one included.
    """

    shares: Sequence[float]
    quotes: dict[int, list[str]]
    contradicted: dict[int, Contradicted]
    rules: dict[int | None, list[BrokenRule]]
    suspects: frozenset[int]


class Picture:
    """Draws a run.

    Args:
        console: Where to; its width and its colours are kept.
        run: What.
        verdict: Who is to blame.
        rules: What checks say; None where none were checked.
        known: Known failures that it shows.
    """

    def __init__(
        self,
        console: Console,
        run: ShownRun,
        verdict: Attribution,
        rules: Sequence[BrokenRule] | None = None,
        known: Sequence[KnownFailure] = (),
    ) -> None:
        self._known = known
        self._console = console
        self._run = run
        self._steps = run.trace.steps
        self._verdict = verdict
        self._marks: Marks = marks_of(console)
        self._lanes = AgentColumns(run.trace, console)
        self._has_rules = rules is not None
        self._facts = _facts(verdict, rules or ())
        self._verified = {item.index: item for item in verdict.verified or read_verifications(run.trace)}
        self._highest = max(self._facts.shares, default=0.0)

    def print_run(self, *, every: bool) -> None:
        """Draw the whole run.

        Args:
            every: Leave nothing out; else long runs show the suspects and what they build on.
        """
        self._print_head()
        shown = [index for index in range(len(self._steps)) if every or self._is_worth_a_line(index)]
        before = -1
        for index in shown:
            self._print_gap(index - before - 1)
            self._print_step(index)
            before = index
        self._print_gap(len(self._steps) - before - 1)
        hidden = len(self._steps) - len(shown)
        if hidden:
            self._say(f"{hidden} more steps, each below {SHARE_WORTH_A_LINE} of the blame: --all shows them", "dim")

    def print_step(self, index: int) -> None:
        """Draw one step whole: all of its text, what it was given, and all that is known of it."""
        step = self._steps[index]
        self._print_facts([Text(f"step {index}", style="bold"), *self._facts_of(step)])
        for name, text in self._known_of(step):
            self._print(Text.assemble((f"{name}: ", "dim"), line(text)))
        for rule in self._facts.rules[index]:
            self._print(_rule_text(rule))
        self._console.print()
        self._print(marked(clean(step.content), self._facts.quotes[index], self._console, self._marks))
        if step.input_text:
            self._console.print()
            self._say("what it was given, beside what steps before it said:", "dim")
            self._print(Text(clean(step.input_text)))

    def _print_head(self) -> None:
        trace, verdict = self._run.trace, self._verdict
        self._print_facts([Text(fact, style="bold") for fact in self._headline()])
        self._say(f"task: {shortened(line(trace.task), 2 * self._console.width, self._marks)}" if trace.task else "")
        if verdict.abstained is not None:
            self._say(f"no verdict: {line(verdict.abstained)}", "bold yellow")
        elif verdict.decisive_step is None:
            self._say(f"{verdict.word}: --suspects names who would be to blame", "dim")
        else:
            self._print_verdict(verdict, verdict.decisive_step)
        if verdict.tracer.name:
            self._say(f"by {line(verdict.tracer.name)} {line(verdict.tracer.version)}", "dim")
        for note in self._run.notes:
            self._say(line(note), "yellow")
        for known in self._known:
            self._say(str(known), "yellow")
        for rule in self._facts.rules[None]:
            self._print(_rule_text(rule))
        self._print_agents()

    def _headline(self) -> list[str]:
        trace, verdict = self._run.trace, self._verdict
        start_ns = min((step.start_ns for step in self._steps), default=0)
        took_ns = max((step.end_ns for step in self._steps), default=0) - start_ns
        usage = _add_usage(step.usage for step in self._steps)
        return [
            line(self._run.source),
            *([trace.outcome] if trace.outcome != "unknown" else []),
            *([when(start_ns)] if when(start_ns) else []),
            _format_count(len(self._steps), "step"),
            _format_count(len(trace.agents), "agent"),
            *([duration(took_ns)] if took_ns > 0 else []),
            *([self._tokens(usage)] if usage else []),
            *([f"failure {verdict.failure_score:.2f}"] if verdict.abstained is None else []),
        ]

    def _print_verdict(self, verdict: Attribution, decisive: int) -> None:
        step, shares = verdict.steps[decisive], self._facts.shares
        mode = verdict.mode_of(step.agent)
        what = f", for {line(mode_text(verdict, step.agent))}, likelihood {mode.score:.2f}" if mode else ""
        self._say(
            f"{lead_text(verdict)}: {line(step.agent)} at step {decisive}, {step.score:.2f} of the blame{what}",
            _DECISIVE,
        )
        ranked = verdict.ranked_steps()[: 1 + _SUSPECTS]
        if others := ranked[1:]:
            self._say("next suspects: " + ", ".join(f"step {i.index} {line(i.agent)} {i.score:.2f}" for i in others))
            self._say(order_text(verdict), "dim")
        if verdict.step_set:
            held = sum(shares[index] for index in verdict.step_set)
            verb = "holds" if len(verdict.step_set) == 1 else "hold"
            self._say(f"step set: {_join_names(verdict.step_set)} {verb} {held:.2f} of the blame")

    def _print_agents(self) -> None:
        """Print whose lane is whose, and how much of the blame each holds."""
        shares = {blame.agent: blame.score for blame in self._verdict.agents}
        self._print_facts(
            [
                Text.assemble(
                    (f"{self._marks.step} {shortened(line(agent), self._console.width // 2, self._marks)}", colour),
                    f" {shares.get(agent, 0.0):.2f}",
                )
                for agent, colour in self._lanes.colours.items()
            ]
        )
        self._console.print()

    def _is_worth_a_line(self, index: int) -> bool:
        facts, decisive = self._facts, self._verdict.decisive_step
        return (
            len(self._steps) <= MOST_STEPS
            or index in (0, len(self._steps) - 1)
            or facts.shares[index] >= SHARE_WORTH_A_LINE
            or index == decisive
            or (decisive is not None and index in self._steps[decisive].inputs)
        )

    def _print_step(self, index: int) -> None:
        step, is_suspect = self._steps[index], index in self._facts.suspects
        is_decisive = index == self._verdict.decisive_step
        sign = Text(
            self._marks.decisive if is_decisive else self._marks.step,
            style=_DECISIVE if is_decisive else self._lanes.colours[step.agent],
        )
        label = f"{'>' if is_decisive else ''}{index}"
        first = Text.assemble(
            (f"{label:>5} ", _DECISIVE if is_decisive else "dim"),
            self._lanes.at(index, step.agent, sign, self._marks),
            " ",
        )
        others = Text.assemble(" " * 6, self._lanes.beside(index, self._marks), " ")
        room = max(20, self._console.width - others.cell_len)
        body = [text for row in rows(self._facts_of(step), room) for text in self._fold(row, room)]
        if is_suspect and (mode := mode_text(self._verdict, step.agent)):
            body += self._fold(Text(line(mode), style="red" if is_decisive else "yellow"), room)
        body += self._content_lines(step, room, _LINES_OF_SUSPECT if is_suspect else _LINES)
        if (mark := read_guard_mark(step)) is not None:
            body += self._fold(
                Text(_guard_text(mark), style="dim" if mark.action == "observe" else "yellow"), room, _LINES
            )
        if index in self._facts.contradicted:
            body += self._fold(Text(f"contradicts {self._contradicted_by(index)}", style="yellow"), room, _LINES)
        for rule in self._facts.rules[index]:
            body += self._fold(_rule_text(rule), room, _LINES)
        for text in body:
            self._console.print(Text.assemble(first, text), no_wrap=True, crop=False, overflow="ignore")
            first = others

    def _facts_of(self, step: Step) -> list[Text]:
        """List who did what, with how much of the blame, building on what, and what it took."""
        marks, share = self._marks, self._facts.shares[step.index]
        is_decisive = step.index == self._verdict.decisive_step
        tool = step.attributes.get(words.TOOL_NAME)
        style = f"bold {self._lanes.colours[step.agent]}"
        facts = [Text(shortened(line(step.agent), max(12, self._console.width // 4), marks), style=style)]
        if step.kind != "message":
            facts.append(Text(f"{step.kind}{f' {line(tool)[:40]}' if isinstance(tool, str) else ''}"))
        if share > 0:
            facts.append(Text(f"{marks.bar(share, self._highest)} {share:.2f}", style="red" if is_decisive else ""))
        if (verification := self._verified.get(step.index)) is not None:
            style = "bold red" if verification.outcome == "confirmed" else "dim"
            facts.append(Text(verification_text(verification), style=style))
        if step.inputs:
            named = _join_names(step.inputs)
            if self._console.width >= _WIDE and len(step.inputs) <= _MOST_NAMED:
                named = ", ".join(f"{i} {shortened(line(self._steps[i].agent), 16, marks)}" for i in step.inputs)
            facts.append(Text(f"{marks.builds_on} {named}", style="dim"))
        if step.end_ns > step.start_ns:
            facts.append(Text(duration(step.end_ns - step.start_ns), style="dim"))
        if step.usage:
            facts.append(Text(self._tokens(step.usage), style="dim"))
        if step.status == "error" or step.error:
            facts.append(Text(f"error {line(step.error or '')}".rstrip(), style="bold red"))
        return facts

    def _tokens(self, usage: Usage) -> str:
        return f"{number(usage.input_tokens)} {self._marks.to} {number(usage.output_tokens)} tokens"

    def _content_lines(self, step: Step, room: int, lines: int) -> list[Text]:
        """Return what a step says, in so many lines, its evidence highlighted."""
        quotes = [line(quote) for quote in self._facts.quotes[step.index]]
        text = marked(excerpt(step.content, quotes, room * lines, self._marks), quotes, self._console, self._marks)
        if step.index not in self._facts.suspects:
            text.stylize_before("dim")
        return self._fold(text, room, lines)

    def _fold(self, text: Text, room: int, most: int = 6) -> list[Text]:
        """Break text into lines of *room* columns; what does not fit into *most* lines is cut."""
        lines = list(text.wrap(self._console, room))
        for text_line in lines:
            text_line.rstrip()
        if len(lines) > most:
            lines = lines[:most]
            lines[-1].truncate(room - len(self._marks.more))
            lines[-1].append(self._marks.more)
        return lines

    def _known_of(self, step: Step) -> list[tuple[str, str]]:
        built = [other for other in self._steps if step.index in other.inputs]
        mark = read_guard_mark(step)
        mode = mode_text(self._verdict, step.agent) if step.index in self._facts.suspects else ""
        return [
            (name, text)
            for name, text in (
                ("error mode", mode),
                ("to", ", ".join(step.recipients)),
                ("builds on", ", ".join(f"{index} {self._steps[index].agent}" for index in step.inputs)),
                ("built on by", ", ".join(f"{other.index} {other.agent}" for other in built)),
                ("evidence", " … ".join(self._facts.quotes[step.index])),
                ("contradicts", self._contradicted_by(step.index)),
                (
                    "put to the test",
                    verification_text(self._verified[step.index]) if step.index in self._verified else "",
                ),
                ("guard", _guard_text(mark) if mark is not None else ""),
                ("began", when(step.start_ns)),
                ("status", step.status if step.status != "unset" else ""),
                ("span", step.span_id),
            )
            if text
        ]

    def _contradicted_by(self, index: int) -> str:
        """Return where which words stand that a step contradicts; empty where it contradicts none."""
        contradicted = self._facts.contradicted.get(index)
        if contradicted is None:
            return ""
        if contradicted.index is None:
            return f"the task: {line(contradicted.quote)}"
        return f"step {contradicted.index} {line(self._steps[contradicted.index].agent)}: {line(contradicted.quote)}"

    def _print_gap(self, steps: int) -> None:
        if steps > 0:
            self._say(f"    {self._marks.gap} {_format_count(steps, 'step')}", "dim")

    def _print_facts(self, facts: Iterable[Text]) -> None:
        for row in rows(facts, self._console.width, gap=3):
            self._print(row)

    def _say(self, text: str, style: str = "") -> None:
        if text:
            self._print(Text(text, style=style))

    def _print(self, text: Text) -> None:
        """Print text in as many lines as it takes, none of which ends with a space."""
        for text_line in text.wrap(self._console, self._console.width):
            text_line.rstrip()
            self._console.print(text_line, no_wrap=True, crop=False, overflow="ignore")


def _guard_text(mark: GuardMark) -> str:
    return f"guard: {mark.action}, {line(mark.reason)} ({line(mark.rule)})"


def _facts(verdict: Attribution, rules: Sequence[BrokenRule]) -> _DrawnRun:
    quotes: dict[int, list[str]] = defaultdict(list)
    for item in verdict.evidence:
        quotes[item.index].append(item.quote)
    by_step: dict[int | None, list[BrokenRule]] = defaultdict(list)
    for rule in rules:
        by_step[rule.step].append(rule)
    decisive = () if verdict.decisive_step is None else (verdict.decisive_step,)
    return _DrawnRun(
        [step.score for step in verdict.steps],
        quotes,
        contradicted_of(verdict),
        by_step,
        frozenset((*verdict.step_set, *decisive)),
    )


def _rule_text(rule: BrokenRule) -> Text:
    verb = "breaks" if rule.outcome == "fail" else "leaves open"
    return Text(f"{verb} {line(rule.name)}: {line(rule.reason or rule.title)}", style="yellow")


def _add_usage(usages: Iterable[Usage | None]) -> Usage | None:
    counted = [usage for usage in usages if usage]
    if not counted:
        return None
    return Usage(sum(count.input_tokens for count in counted), sum(count.output_tokens for count in counted))


def _format_count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _join_names(indices: Sequence[int], most: int = _MOST_NAMED) -> str:
    named = ", ".join(map(str, indices[:most]))
    return f"{named} and {len(indices) - most} more" if len(indices) > most else named
