"""One run drawn on a terminal: who did what, who builds on whom, and where the blame lies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from blamespan import conventions as words
from blamespan.analysis.showing.findings import BrokenRule
from blamespan.analysis.showing.legible import clean, counted, dollars, duration, number, when
from blamespan.analysis.showing.marks import AgentColumns, Marks, excerpt, line, marked, marks_of, rows, shortened
from blamespan.analysis.showing.run_view import RunView, StepView
from blamespan.analysis.showing.shown_run import ShownRun
from blamespan.analysis.showing.verdicts import (
    MOST_STEPS,
    SHARE_WORTH_A_LINE,
    cause_text,
    lead_text,
    mode_text,
    opinion_text,
    verification_text,
)
from blamespan.attribution import Attribution
from blamespan.guarding.recorded import GuardMark
from blamespan.trace import Usage

_SUSPECTS = 3
_LINES, _LINES_OF_SUSPECT = 2, 4
_WIDE = 100
_MOST_NAMED = 8
_DECISIVE = "bold red"


class Picture:
    """Draws a run.

    Args:
        console: Where to; its width and its colours are kept.
        run: Where the run comes from, and what is missing of it.
        view: The run laid out, with a verdict.
    """

    def __init__(self, console: Console, run: ShownRun, view: RunView) -> None:
        assert view.verdict is not None, "who draws has judged"
        self._console = console
        self._run = run
        self._view = view
        self._steps = view.steps
        self._verdict: Attribution = view.verdict
        self._marks: Marks = marks_of(console)
        self._lanes = AgentColumns(run.trace, console)
        self._highest = max((item.score for item in view.steps), default=0.0)

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
        item = self._steps[index]
        self._print_facts([Text(f"step {index}", style="bold"), *self._facts_of(item)])
        for name, text in self._known_of(item):
            self._print(Text.assemble((f"{name}: ", "dim"), line(text)))
        for rule in item.rules:
            self._print(_rule_text(rule))
        self._say(line(self._view.check_failure), "yellow")
        self._console.print()
        self._print(marked(clean(item.step.content), item.quotes, self._console, self._marks))
        if item.step.input_text:
            self._console.print()
            self._say("what it was given, beside what steps before it said:", "dim")
            self._print(Text(clean(item.step.input_text)))

    def _print_head(self) -> None:
        trace, verdict = self._run.trace, self._verdict
        self._print_facts([Text(fact, style="bold") for fact in self._headline()])
        self._say(f"task: {shortened(line(trace.task), 2 * self._console.width, self._marks)}" if trace.task else "")
        if verdict.abstained is not None:
            self._say(f"no verdict: {line(verdict.abstained)}", "bold yellow")
        elif verdict.cause is not None and self._view.decisive is None:
            self._say(cause_text(verdict.cause), _DECISIVE)
        elif self._view.decisive is None:
            self._say(f"{verdict.word}: --suspects names who would be to blame", "dim")
        else:
            self._print_verdict(self._view.decisive)
        if verdict.tracer.name:
            self._say(f"by {line(verdict.tracer.name)} {line(verdict.tracer.version)}", "dim")
        for opinion in verdict.opinions:
            self._say(line(opinion_text(opinion)), "dim")
        for note in self._run.notes:
            self._say(line(note), "yellow")
        for known in self._view.known:
            self._say(str(known), "yellow")
        for rule in self._view.broken:
            self._print(_rule_text(rule))
        self._say(line(self._view.check_failure), "yellow")
        self._print_agents()

    def _headline(self) -> list[str]:
        trace, verdict, view = self._run.trace, self._verdict, self._view
        took_ns = view.end_ns - view.start_ns
        return [
            line(self._run.source),
            *([trace.outcome] if trace.outcome != "unknown" else []),
            *([when(view.start_ns)] if when(view.start_ns) else []),
            counted(len(self._steps), "step"),
            counted(len(trace.agents), "agent"),
            *([duration(took_ns)] if took_ns > 0 else []),
            *([view.spent.text(self._marks.to)] if view.spent else []),
            *([f"failure {verdict.failure_score:.2f}"] if verdict.abstained is None else []),
        ]

    def _print_verdict(self, decisive: StepView) -> None:
        view, verdict, agent = self._view, self._verdict, decisive.step.agent
        what = f", for {line(mode_text(verdict, agent))}, likelihood {view.mode.score:.2f}" if view.mode else ""
        share = f"{decisive.score:.2f} of the blame"
        self._say(f"{lead_text(verdict)}: {line(agent)} at step {decisive.step.index}, {share}{what}", _DECISIVE)
        if view.suspects:
            others = (f"step {item.step.index} {line(item.agent)} {item.score:.2f}" for item in view.suspects)
            self._say(f"next suspects: {', '.join(others)}")
            self._say(view.order, "dim")
        if view.step_set:
            verb = "holds" if len(view.step_set) == 1 else "hold"
            named = _join_names([item.step.index for item in view.step_set])
            self._say(f"step set: {named} {verb} {view.held:.2f} of the blame")

    def _print_agents(self) -> None:
        """Print whose lane is whose, how much of the blame each holds, and what it cost."""
        priced = ((agent.name, agent.spent.usd) for agent in self._view.agents if agent.spent)
        costs = {name: f" {dollars(usd)}" for name, usd in priced if usd is not None}
        shares = {blame.agent: blame.score for blame in self._verdict.agents}
        self._print_facts(
            [
                Text.assemble(
                    (f"{self._marks.step} {shortened(line(agent), self._console.width // 2, self._marks)}", colour),
                    f" {shares.get(agent, 0.0):.2f}{costs.get(clean(agent), '')}",
                )
                for agent, colour in self._lanes.colours.items()
            ]
        )
        self._console.print()

    def _is_worth_a_line(self, index: int) -> bool:
        item, decisive = self._steps[index], self._view.decisive
        return (
            len(self._steps) <= MOST_STEPS
            or index in (0, len(self._steps) - 1)
            or item.score >= SHARE_WORTH_A_LINE
            or item.is_decisive
            or (decisive is not None and index in decisive.step.inputs)
        )

    def _print_step(self, index: int) -> None:
        item = self._steps[index]
        step, is_decisive = item.step, item.is_decisive
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
        body = [text for row in rows(self._facts_of(item), room) for text in self._fold(row, room)]
        if item.is_suspect and (mode := mode_text(self._verdict, step.agent)):
            body += self._fold(Text(line(mode), style="red" if is_decisive else "yellow"), room)
        body += self._content_lines(item, room)
        if item.guard is not None:
            style = "dim" if item.guard.action == "observe" else "yellow"
            body += self._fold(Text(_guard_text(item.guard), style=style), room, _LINES)
        if item.contradicts is not None:
            body += self._fold(Text(f"contradicts {self._contradicted_by(item)}", style="yellow"), room, _LINES)
        for rule in item.rules:
            body += self._fold(_rule_text(rule), room, _LINES)
        for text in body:
            self._console.print(Text.assemble(first, text), no_wrap=True, crop=False, overflow="ignore")
            first = others

    def _facts_of(self, item: StepView) -> list[Text]:
        """List who did what, with how much of the blame, building on what, and what it took."""
        marks, step, share, verification = self._marks, item.step, item.score, item.verification
        tool = step.attributes.get(words.TOOL_NAME)
        style = f"bold {self._lanes.colours[step.agent]}"
        facts = [Text(shortened(line(step.agent), max(12, self._console.width // 4), marks), style=style)]
        if step.kind != "message":
            facts.append(Text(f"{step.kind}{f' {line(tool)[:40]}' if isinstance(tool, str) else ''}"))
        if share > 0:
            facts.append(
                Text(f"{marks.bar(share, self._highest)} {share:.2f}", style="red" if item.is_decisive else "")
            )
        if verification is not None:
            style = "bold red" if verification.outcome == "confirmed" else "dim"
            facts.append(Text(verification_text(verification), style=style))
        if step.inputs:
            named = _join_names(step.inputs)
            if self._console.width >= _WIDE and len(step.inputs) <= _MOST_NAMED:
                named = ", ".join(f"{i} {shortened(line(self._steps[i].step.agent), 16, marks)}" for i in step.inputs)
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

    def _content_lines(self, item: StepView, room: int) -> list[Text]:
        """Return what a step says, suspects at more length, its evidence highlighted."""
        lines = _LINES_OF_SUSPECT if item.is_suspect else _LINES
        quotes = [line(quote) for quote in item.quotes]
        text = marked(excerpt(item.step.content, quotes, room * lines, self._marks), quotes, self._console, self._marks)
        if not item.is_suspect:
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

    def _known_of(self, item: StepView) -> list[tuple[str, str]]:
        step = item.step
        built = [other.step for other in self._steps if step.index in other.step.inputs]
        facts = (
            ("error mode", mode_text(self._verdict, step.agent) if item.is_suspect else ""),
            ("to", ", ".join(step.recipients)),
            ("builds on", ", ".join(f"{index} {self._steps[index].step.agent}" for index in step.inputs)),
            ("built on by", ", ".join(f"{other.index} {other.agent}" for other in built)),
            ("evidence", " … ".join(item.quotes)),
            ("contradicts", self._contradicted_by(item)),
            ("put to the test", verification_text(item.verification) if item.verification else ""),
            ("guard", _guard_text(item.guard) if item.guard else ""),
            ("began", when(step.start_ns)),
            ("status", step.status if step.status != "unset" else ""),
            ("span", step.span_id),
        )
        return [(name, text) for name, text in facts if text]

    def _contradicted_by(self, item: StepView) -> str:
        """Return where which words stand that a step contradicts; empty where it contradicts none."""
        if item.contradicts is None:
            return ""
        index, quote = item.contradicts.index, line(item.contradicts.quote)
        return f"the task: {quote}" if index is None else f"step {index} {line(self._steps[index].step.agent)}: {quote}"

    def _print_gap(self, steps: int) -> None:
        if steps > 0:
            self._say(f"    {self._marks.gap} {counted(steps, 'step')}", "dim")

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


def _rule_text(rule: BrokenRule) -> Text:
    verb = "breaks" if rule.outcome == "fail" else "leaves open"
    return Text(f"{verb} {line(rule.name)}: {line(rule.reason or rule.title)}", style="yellow")


def _join_names(indices: Sequence[int], most: int = _MOST_NAMED) -> str:
    named = ", ".join(map(str, indices[:most]))
    return f"{named} and {len(indices) - most} more" if len(indices) > most else named
