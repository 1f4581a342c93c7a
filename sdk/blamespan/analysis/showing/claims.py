"""Where the claims of a run's final answer come from, where the package that follows them is installed.

The tracer's part `follow_answer` is called with a run, and whether somebody waits. It returns an `AnswerProvenance`:
mentions of values, and which of them each goes back to; None of a run that would take too long. Here that is laid out
for people: a chain for each claim, bounded, with texts cleaned.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from rich.console import Console
from rich.text import Text

from blamespan.analysis.showing.findings import BrokenRule
from blamespan.analysis.showing.legible import clean, counted, printable
from blamespan.analysis.showing.marks import line, marks_of
from blamespan.attribution import Attribution, Evidence
from blamespan.pipeline import ask_part
from blamespan.plugins import find_part, load_part
from blamespan.trace import MessageActionTrace

_logger = logging.getLogger("blamespan.claims")

_MOST_CLAIMS: Final = 40
_MOST_MENTIONS: Final = 8
"""Of one chain: the first half of them and the last half."""
_MOST_OPERANDS: Final = 4
_MOST_SUSPECTS: Final = 5
_QUOTE_CHARS: Final = 70
_LEAST_SURPRISE: Final = 3.0
"""Nats, of a contradiction that counts: weaker ones stand beside one in seven claims of sound runs (measured)."""

Standing: TypeAlias = Literal["has a source", "suspected", "no source", "contradicted"]
"""What is to be thought of a claim. It is `suspected` where it, or what it goes back to, stands in a suspected step."""

_STANDINGS: Final[tuple[Standing, ...]] = ("has a source", "suspected", "no source", "contradicted")
"""The worse, the later: a claim has the worst of all that it goes back to."""
_COUNTED_AS: Final[Mapping[Standing, str]] = {"suspected": "from suspected steps", "no source": "without a source"}

_AFTER_NAME = re.compile(r"[A-Z][\w-]*\.? #?$")
"""Before a number that names something: `ICE 74`, `Invoice 7`."""


_Provenance: TypeAlias = Any
"""An `AnswerProvenance` of the package that follows claims, which this one does not import."""
_Ancestor: TypeAlias = Any
"""A mention in it, with what it goes back to."""


@dataclass(frozen=True, slots=True)
class ShownMention:
    """A value, and where it stands; texts are cleaned.

    Attributes:
        step: Index of the step; None for the task.
        agent: Who took the step, or empty.
        kind: `task`, `input`, `tool`, `user`, `agent`, `calculation` or `unsupported`.
        value: As it is written there.
        quote: The words around it.
        calculation: How it is calculated, where it is.
        contradicted: What a source says instead, where one does, and
        contradicted_step: whose step that is; None for the task.
        span_id: The step's span, or empty.
        is_doubted: Whether an agent states it in a suspected step, or against a source.
    """

    step: int | None
    agent: str
    kind: str
    value: str
    quote: str
    calculation: str = ""
    contradicted: str = ""
    contradicted_step: int | None = None
    span_id: str = ""
    is_doubted: bool = False


@dataclass(frozen=True, slots=True)
class ShownClaim:
    """A claim of the answer and what it goes back to.

    Attributes:
        mentions: The claim as the answer states it, then those it goes back to, one after the other.
        n_hidden: How many in the middle are left out.
        operands: What the last one is calculated from, each up to its own beginning.
        n_operands: How many of these there are.
        is_unsupported: Whether it begins with an agent that has no source, also as an operand.
        standing: What is to be thought of it.
    """

    mentions: tuple[ShownMention, ...]
    n_hidden: int
    operands: tuple[ShownClaim, ...]
    n_operands: int
    is_unsupported: bool
    standing: Standing = "has a source"


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """Where a run's answer comes from.

    Attributes:
        step: Index of the step that gives it, or None where no agent states a value.
        agent: Whose.
        claims: Contradicted ones first, then those that the task does not state itself: amounts, dates and times before
            other numbers, and these before names and identifiers.
        n_claims: How many it states.
        n_unsupported: How many of them go back to an agent without a source.
        suspects: Who stated the unsupported ones first, the earliest first.
        n_suspects: How many of these there are.
        standings: How many of the claims stand how; the worst first.
    """

    step: int | None
    agent: str
    claims: tuple[ShownClaim, ...]
    n_claims: int
    n_unsupported: int
    suspects: tuple[ShownMention, ...]
    n_suspects: int
    standings: tuple[tuple[Standing, int], ...] = ()

    @property
    def summary(self) -> str:
        """Count the claims that are not to be relied on, in words."""
        counts = [f"{count} {_COUNTED_AS.get(standing, standing)}" for standing, count in self.standings
                  if standing != "has a source"]  # fmt: skip
        return ", ".join(counts) or "each with a source"

    @property
    def n_hidden(self) -> int:
        """How many claims are left out."""
        return self.n_claims - len(self.claims)


def answer_of(
    trace: MessageActionTrace,
    verdict: Attribution | None = None,
    rules: Sequence[BrokenRule] | None = None,
    *,
    may_take_long: bool = False,
) -> ShownAnswer | None:
    """Follow the claims of a run's answer.

    Args:
        trace: The run.
        verdict: On it: claims of suspected steps are doubted.
        rules: Those that it breaks, if they were checked: claims of steps that break one are doubted.
        may_take_long: Whether somebody asked for it, rather than waits for a page.

    Returns:
        None where the package is not installed, the run is too large, or it breaks.
    """
    if find_part("follow_answer", _logger, "claims are not followed") is None:
        return None
    failure = f"the claims of trace {trace.trace_id} are not followed"
    return ask_part(lambda: read_answer(trace, verdict, rules, may_take_long=may_take_long), _logger, failure)


def read_answer(
    trace: MessageActionTrace,
    verdict: Attribution | None = None,
    rules: Sequence[BrokenRule] | None = None,
    *,
    may_take_long: bool = False,
) -> ShownAnswer | None:
    """Do as `answer_of`, for who wants to know why there is none.

    Raises:
        MissingExtra: if the package is not installed.
    """
    provenance = load_part("follow_answer")(trace, at_once=not may_take_long)
    return None if provenance is None else _Layout(trace, provenance, verdict, rules or ()).lay_out()


def claims_as_json(trace: MessageActionTrace, answer: ShownAnswer) -> Mapping[str, Any]:
    """Write it as one JSON document."""
    return {
        "trace_id": trace.trace_id,
        "answer": None if answer.step is None else {"step": answer.step, "agent": answer.agent},
        "claims": [_claim_as_json(claim) for claim in answer.claims],
        "claims_left_out": answer.n_hidden,
        "unsupported": answer.n_unsupported,
        "suspects": [_mention_as_json(mention) for mention in answer.suspects],
        "suspects_left_out": answer.n_suspects - len(answer.suspects),
    }


def _claim_as_json(claim: ShownClaim) -> dict[str, Any]:
    return {
        "claim": claim.mentions[0].value,
        "is_unsupported": claim.is_unsupported,
        "standing": claim.standing,
        "mentions": [_mention_as_json(mention) for mention in claim.mentions],
        "mentions_left_out": claim.n_hidden,
        "operands": [_claim_as_json(operand) for operand in claim.operands],
        "operands_left_out": claim.n_operands - len(claim.operands),
    }


def _mention_as_json(mention: ShownMention) -> dict[str, Any]:
    document: dict[str, Any] = {
        "kind": mention.kind,
        "step": mention.step,
        "agent": mention.agent,
        "span_id": mention.span_id,
        "value": mention.value,
        "quote": mention.quote,
    }
    if mention.calculation:
        document["calculation"] = mention.calculation
    if mention.contradicted:
        document["contradicted_by"] = {"step": mention.contradicted_step, "quote": mention.contradicted}
    return document


_STYLES: Final[Mapping[Standing, str]] = {
    "has a source": "green",
    "suspected": "yellow",
    "no source": "red",
    "contradicted": "red",
}


def print_answer(console: Console, answer: ShownAnswer) -> None:
    """Print where a run's answer comes from: a claim, then through whom it went, back to where it begins."""
    if answer.step is None:
        console.print(Text("no step of an agent states a value that could be followed"))
        return
    marks = marks_of(console)
    title = f"answer: step {answer.step} {line(answer.agent)}, {counted(answer.n_claims, 'claim')}, {answer.summary}"
    _print_line(console, Text(title, style="bold"))
    for suspect in answer.suspects:
        where = f"step {suspect.step} {line(suspect.agent)}"
        _print_line(console, Text(f"first said without a source: {where}, {suspect.quote}", style="red"))
    if answer.n_suspects > len(answer.suspects):
        _print_line(console, Text(f"and {answer.n_suspects - len(answer.suspects)} more", style="dim"))
    for claim in answer.claims:
        console.print()
        style = _STYLES[claim.standing]
        first = claim.mentions[0]
        _print_line(
            console,
            Text.assemble((first.value, f"bold {style}"), (f" {claim.standing}  ", style), (first.quote, "dim")),
        )
        _print_chain(console, claim, "  ", marks.builds_on)
    if answer.n_hidden:
        console.print()
        _print_line(
            console, Text(f"{counted(answer.n_hidden, 'more claim')}: --json gives them, up to a bound", style="dim")
        )


def _print_chain(console: Console, claim: ShownClaim, indent: str, arrow: str) -> None:
    parts = [mention_place(mention) for mention in claim.mentions]
    if claim.n_hidden:
        parts.insert(len(parts) // 2, f"({claim.n_hidden} more)")
    last = claim.mentions[-1]
    end = last_word(last)
    chain = f" {arrow} ".join([*parts, *([end] if end else [])])
    _print_line(console, Text(indent + chain, style="red" if claim.is_unsupported else ""), hang=len(indent) + 2)
    for mention in claim.mentions:
        if mention.contradicted:
            source = "the task" if mention.contradicted_step is None else f"step {mention.contradicted_step}"
            _print_line(console, Text(f"{indent}{source} has instead: {mention.contradicted}", style="yellow"))
    for operand in claim.operands:
        _print_line(console, Text(f"{indent}{operand.mentions[0].value}:", style="dim"))
        _print_chain(console, operand, indent + "  ", arrow)
    if claim.n_operands > len(claim.operands) and claim.operands:
        _print_line(
            console, Text(f"{indent}and {counted(claim.n_operands - len(claim.operands), 'more number')}", style="dim")
        )


def mention_place(mention: ShownMention) -> str:
    """Say where a mention stands, in a few words."""
    if mention.step is None:
        return "the task"
    what = {"tool": " (tool)", "user": " (user)", "input": " (given)"}.get(mention.kind, "")
    return f"step {mention.step} {line(mention.agent)}{what}"


def last_word(mention: ShownMention) -> str:
    """Say what the earliest mention of a chain rests on, beside where it stands; empty where that says it."""
    if mention.kind == "unsupported":
        return "nothing: no source"
    if mention.kind == "calculation":
        return f"calculated: {mention.calculation}" if mention.calculation else "calculated"
    return "no source then, confirmed later" if mention.kind == "confirmed" else ""


def _print_line(console: Console, text: Text, hang: int = 4) -> None:
    for number, part in enumerate(text.wrap(console, max(20, console.width - hang))):
        part.rstrip()
        console.print(Text.assemble(" " * hang if number else "", part), no_wrap=True, crop=False, overflow="ignore")


class _Layout:
    """Lays out a provenance; each mention once, however many chains it stands in."""

    def __init__(
        self,
        trace: MessageActionTrace,
        provenance: _Provenance,
        verdict: Attribution | None,
        rules: Sequence[BrokenRule],
    ) -> None:
        self._trace, self._provenance = trace, provenance
        self._shown: dict[int, ShownMention] = {}
        self._suspected = {rule.step for rule in rules if rule.outcome == "fail"}
        self._evidence: tuple[Evidence, ...] = ()
        if verdict is not None and verdict.abstained is None and verdict.names_suspects:
            self._suspected |= {verdict.decisive_step, *verdict.step_set}
            self._evidence = tuple(item for item in verdict.evidence if item.contradicts is not None)
        self._standings = self._list_standings()

    def lay_out(self) -> ShownAnswer:
        provenance = self._provenance
        step = provenance.step
        ranked = sorted(provenance.claims, key=self._rank)
        standings = [self._standings[index] for index in ranked]
        return ShownAnswer(
            step=step,
            agent="" if step is None else clean(self._trace.steps[step].agent),
            claims=tuple(self._claim(index, deep=True) for index in ranked[:_MOST_CLAIMS]),
            n_claims=len(ranked),
            n_unsupported=sum(map(provenance.is_unsupported, ranked)),
            suspects=tuple(self._mention(ancestor) for ancestor in provenance.suspects[:_MOST_SUSPECTS]),
            n_suspects=len(provenance.suspects),
            standings=tuple((one, standings.count(one)) for one in reversed(_STANDINGS) if one in standings),
        )

    def _list_standings(self) -> list[Standing]:
        """Return for each ancestor the worst standing of it and all that it goes back to."""
        worst: list[int] = []
        ancestors = self._provenance.ancestors
        for ancestor in reversed(ancestors):  # sources stand behind what they are sources of
            own = _STANDINGS.index(self._stand_alone(ancestor))
            worst.append(max(own, *(worst[len(ancestors) - 1 - source] for source in ancestor.sources), 0))
        return [_STANDINGS[number] for number in reversed(worst)]

    def _stand_alone(self, ancestor: _Ancestor) -> Standing:
        """Return the standing of a mention, whatever it goes back to."""
        if ancestor.claim is None:
            return "has a source"
        if self._find_contradiction(ancestor, _LEAST_SURPRISE)[0]:
            return "contradicted"
        if ancestor.is_suspect:
            return "no source"
        return "suspected" if ancestor.mention.step in self._suspected else "has a source"

    def _rank(self, index: int) -> tuple[bool, bool, int, int]:
        """Return the sort key of a claim: what the answer is about comes first."""
        mention = self._provenance.ancestors[index].mention
        standing, is_given = self._standings[index], self._provenance.chain(index)[-1].kind == "task"
        value = mention.value
        before = self._trace.steps[mention.step].content[: value.start][-40:]
        is_name = value.form in ("name", "identifier") or (value.form == "number" and _AFTER_NAME.search(before))
        is_bare = value.form == "number" and not value.unit and value.text.isdigit()
        about = 2 if is_name else 1 if is_bare or value.form == "quotation" else 0
        return standing != "contradicted", is_given, about, -_STANDINGS.index(standing)

    def _claim(self, index: int, *, deep: bool) -> ShownClaim:
        chain = self._provenance.chain(index)
        half = _MOST_MENTIONS // 2
        kept = [*chain[:half], *chain[-half:]] if len(chain) > _MOST_MENTIONS else chain
        operands = chain[-1].sources if chain[-1].kind == "calculation" else ()
        return ShownClaim(
            mentions=tuple(self._mention(ancestor) for ancestor in kept),
            n_hidden=len(chain) - len(kept),
            operands=tuple(self._claim(source, deep=False) for source in operands[:_MOST_OPERANDS]) if deep else (),
            n_operands=len(operands),
            is_unsupported=self._provenance.is_unsupported(index),
            standing=self._standings[index],
        )

    def _mention(self, ancestor: _Ancestor) -> ShownMention:
        shown = self._shown.get(id(ancestor))
        if shown is None:
            shown = self._shown[id(ancestor)] = self._show(ancestor)
        return shown

    def _show(self, ancestor: _Ancestor) -> ShownMention:
        mention = ancestor.mention
        is_task = mention.step < 0
        step = None if is_task else self._trace.steps[mention.step]
        against, against_step = self._find_contradiction(
            ancestor, 0.0 if ancestor.kind == "unsupported" else _LEAST_SURPRISE
        )
        return ShownMention(
            step=None if is_task else mention.step,
            agent="" if step is None else clean(step.agent),
            kind="confirmed" if ancestor.kind == "unsupported" and not ancestor.is_suspect else ancestor.kind,
            value=printable(clean(mention.value.text)),
            quote=self._quote(mention),
            calculation=ancestor.calculation,
            contradicted=against,
            contradicted_step=against_step,
            span_id="" if step is None else step.span_id,
            is_doubted=self._stand_alone(ancestor) in ("contradicted", "suspected"),
        )

    def _find_contradiction(self, ancestor: _Ancestor, least: float) -> tuple[str, int | None]:
        """Return what a source has instead of an agent's claim, and at which step; empty where none has.

        The ledger says so, with a surprise of *least* or more, or less where the verdict quotes both as evidence.
        """
        claim = ancestor.claim
        if claim is None:
            return "", None
        against = [
            one
            for one in claim.contradictions
            if not one.is_repaired and (one.surprise >= least or self._is_evidence(ancestor.mention, one.source))
        ]
        if not against:
            return "", None
        source = max(against, key=lambda one: one.surprise).source
        return self._quote(source), None if source.step < 0 else source.step

    def _is_evidence(self, mention: Any, source: Any) -> bool:
        """Check whether the verdict quotes a value, and the one of a source that contradicts it."""
        return any(
            item.contradicts is not None
            and (item.index, item.contradicts.index) == (mention.step, None if source.step < 0 else source.step)
            and mention.value.text in item.quote
            and source.value.text in item.contradicts.quote
            for item in self._evidence
        )

    def _quote(self, mention: Any) -> str:
        """Return the words around a value, on one line."""
        if mention.step < 0:
            text = self._trace.task
        else:
            step = self._trace.steps[mention.step]
            text = step.input_text if mention.is_input else step.content
        start, stop = mention.value.start, mention.value.start + len(mention.value.text)
        begin = max(0, start - _QUOTE_CHARS // 2, text.rfind("\n", 0, start) + 1)
        line_end = text.find("\n", stop)
        end = min(len(text) if line_end < 0 else line_end, stop + _QUOTE_CHARS // 2)
        if begin and text[begin - 1].isalnum():
            begin = next((place + 1 for place in range(begin, start) if text[place].isspace()), begin)
        if end < len(text) and text[end].isalnum():
            end = next((place for place in range(end - 1, stop, -1) if text[place].isspace()), end)
        return printable(clean(text[begin:end])).strip(" *_#`-")
