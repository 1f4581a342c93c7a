"""Asking a person about one run, in the terminal, by keys alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from rich.console import Console
from rich.text import Text

from blamespan.analysis.labelling.choices import MODES, parse_mode
from blamespan.analysis.showing.legible import printable
from blamespan.analysis.showing.tables import print_run
from blamespan.attribution import Attribution
from blamespan.errors import ConfigError
from blamespan.importing.recorded import RecordedRun
from blamespan.labels.people import LabelAnswer, PersonLabel, ShownVerdict
from blamespan.taxonomy import ErrorMode
from blamespan.trace import MessageActionTrace

_HELP = """\
a  agree with the verdict          n  no failure: the run did what it should
s  another step (and mode)         x  it failed, but by no agent's fault
m  the step is right, another mode u  unsure: looked at, nothing claimed
r N  read step N in full           v  view every step
k  skip for now                    q  quit; the same command goes on here"""

Ask: TypeAlias = Callable[[str], str]
"""Asks one line; raises `EOFError` where input has ended, `KeyboardInterrupt` where the person wants to stop."""


class Left(Enum):
    """How a run was left without a label."""

    SKIPPED = "skipped"
    QUIT = "quit"
    UNFINISHED = "unfinished"
    """Input ended, or the person stopped, amid the questions of one answer."""


@dataclass(frozen=True, slots=True)
class Dialogue:
    """Shows runs to one person and asks for labels.

    Attributes:
        console: Where runs are shown.
        ask: How a line is asked for.
        by: Who answers.
        is_blind: Whether verdicts are kept from them.
    """

    console: Console
    ask: Ask
    by: str
    is_blind: bool = False

    def label(self, run: RecordedRun, verdict: Attribution) -> PersonLabel | Left:
        """Show a run and ask until there is an answer."""
        shown = Attribution.abstain(run.trace, "judge for yourself", verdict.tracer) if self.is_blind else verdict
        print_run(self.console, run.source, run.trace, shown, every=False)
        if run.trace.task:
            self.console.print(Text(f"task: {printable(run.trace.task)[:500]}", style="dim"))
        while True:
            key, _, rest = self.ask(self._question(shown)).strip().partition(" ")
            try:
                answer = self._ask_answer(key.casefold(), rest.strip(), run, shown)
            except (EOFError, KeyboardInterrupt):
                return Left.UNFINISHED
            if answer is not None:
                return answer

    def _question(self, shown: Attribution) -> str:
        agree = "[a]gree [m]ode " if shown.decisive_step is not None else ""
        agree = agree if shown.cause is None else "[a]gree "
        return f"{agree}[s]tep [n]o failure [x] no agent's fault [u]nsure, s[k]ip [q]uit [?]"

    def _ask_answer(self, key: str, rest: str, run: RecordedRun, shown: Attribution) -> PersonLabel | Left | None:
        """Do what a key asks for; None where the question is to be asked again."""
        plain: dict[str, LabelAnswer] = {"n": "no_failure", "x": "no_agent", "u": "unsure"}
        if key in ("q", "k"):
            return Left.QUIT if key == "q" else Left.SKIPPED
        if key == "a" and shown.cause is not None:
            key = "x"  # to agree is to say that no agent is to blame
        if key in plain:
            return self._make_label(run, plain[key], shown)
        if key in ("a", "m") and shown.decisive_step is not None and shown.cause is None:
            return self._agreed(run, shown, asks_mode=key == "m", typed=rest)
        if key == "s":
            return self._ask_correction(run, shown, rest)
        if key == "r":
            self._read(run.trace, rest)
        elif key == "v":
            print_run(self.console, run.source, run.trace, shown, every=True)
        else:
            self.console.print(_HELP, markup=False, highlight=False)
        return None

    def _agreed(self, run: RecordedRun, shown: Attribution, *, asks_mode: bool, typed: str) -> PersonLabel | None:
        """Take the step of the verdict, with its mode or another."""
        step = shown.decisive_step
        assert step is not None  # the caller has looked
        named = shown.mode_of(run.trace.steps[step].agent)
        if not asks_mode:
            return self._make_label(run, "agrees", shown, step=step, modes=[named.mode] if named else [])
        modes = self._modes(typed)
        return None if modes is None else self._make_label(run, "corrects", shown, step=step, modes=modes)

    def _ask_correction(self, run: RecordedRun, shown: Attribution, typed: str) -> PersonLabel | None:
        typed = typed or self.ask("which step? (its number; Enter goes back)").strip()
        step = _index(typed)
        if step is None:
            self._say(f"expected the number of a step, got {typed!r}") if typed else None
            return None
        try:
            PersonLabel.of(run.trace, "corrects", self.by, step=step)
        except ConfigError as error:
            self._say(str(error))
            return None
        modes = self._modes("")
        return None if modes is None else self._make_label(run, "corrects", shown, step=step, modes=modes)

    def _modes(self, typed: str) -> list[ErrorMode] | None:
        """Ask for an error mode; an empty list where the person does not know, None to go back."""
        while True:
            lines = (
                typed or self.ask("which error mode? (code or name; ? lists them; - unknown; Enter goes back)").strip()
            )
            typed = ""
            if lines == "-":
                return []
            if not lines:
                return None
            if lines == "?":
                for mode in MODES:
                    self.console.print(Text(f"{mode!s:16} {mode.name}: {mode.definition}"))
                continue
            try:
                return [parse_mode(lines)]
            except ConfigError as error:
                self._say(str(error))

    def _make_label(
        self,
        run: RecordedRun,
        answer: LabelAnswer,
        shown: Attribution,
        *,
        step: int | None = None,
        modes: list[ErrorMode] | None = None,
    ) -> PersonLabel:
        comment = "" if answer in ("agrees", "unsure") else self._comment()
        verdict = None if self.is_blind else said_by(shown)
        return PersonLabel.of(run.trace, answer, self.by, step=step, modes=modes or (), comment=comment, shown=verdict)

    def _comment(self) -> str:
        """Ask why; input that ends at this question has answered all that matters."""
        try:
            return self.ask("why? (a comment, or Enter)")
        except EOFError:
            return ""

    def _read(self, trace: MessageActionTrace, typed: str) -> None:
        step = _index(typed)
        if step is None or step >= len(trace.steps):
            self._say(f"expected the number of a step, 0 to {len(trace.steps) - 1}, got {typed!r}")
            return
        chosen = trace.steps[step]
        self.console.print(Text(f"step {step}, {printable(chosen.agent)}, {chosen.kind}", style="bold"))
        self.console.print(Text("\n".join(map(printable, chosen.content.splitlines())) or "no text recorded"))

    def _say(self, text: str) -> None:
        self.console.print(Text(printable(text), style="yellow"))


def said_by(verdict: Attribution) -> ShownVerdict:
    """Write down what a verdict says, for a label."""
    step = verdict.decisive_step if verdict.cause is None else None
    agent = "" if step is None else verdict.steps[step].agent
    named = verdict.mode_of(agent)
    return ShownVerdict(verdict.tracer, agent, step, str(named.mode) if named else "")


def _index(typed: str) -> int | None:
    return int(typed) if typed.isascii() and typed.isdigit() and len(typed) < 9 else None
