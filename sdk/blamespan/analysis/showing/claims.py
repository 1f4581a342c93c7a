"""Where the claims of a run's final answer come from, where the package that follows them is installed.

The tracer's part `follow_answer` is called with a run, and whether somebody waits. It returns an `AnswerProvenance`:
mentions of values, and which of them each goes back to; None of a run that would take too long. Here that is laid out
for people: a chain for each claim, bounded, with texts cleaned.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

from rich.console import Console
from rich.text import Text

from blamespan.analysis.showing.legible import clean, printable
from blamespan.analysis.showing.marks import line, marks_of
from blamespan.pipeline import ask_part
from blamespan.plugins import find_part, load_part
from blamespan.trace import MessageActionTrace

__all__ = [
    "ShownAnswer",
    "ShownClaim",
    "ShownMention",
    "answer_of",
    "claims_as_json",
    "last_word",
    "mention_place",
    "print_answer",
]

_logger = logging.getLogger("blamespan.claims")

_MOST_CLAIMS: Final = 40
_MOST_MENTIONS: Final = 8
"""Of one chain: the first half of them and the last half."""
_MOST_OPERANDS: Final = 4
_MOST_SUSPECTS: Final = 5
_QUOTE_CHARS: Final = 70


class _ShownAncestor(Protocol):
    """A mention, as the package that follows claims has it."""

    @property
    def mention(self) -> Any: ...
    @property
    def kind(self) -> str: ...
    @property
    def sources(self) -> Sequence[int]: ...
    @property
    def calculation(self) -> str: ...
    @property
    def claim(self) -> Any: ...
    @property
    def confirmation(self) -> Any: ...
    @property
    def is_suspect(self) -> bool: ...


class _Provenance(Protocol):
    """What that package says of a run's answer."""

    @property
    def step(self) -> int | None: ...
    @property
    def claims(self) -> Sequence[int]: ...
    @property
    def ancestors(self) -> Sequence[_ShownAncestor]: ...
    @property
    def suspects(self) -> Sequence[_ShownAncestor]: ...

    def chain(self, index: int) -> Sequence[_ShownAncestor]: ...
    def is_unsupported(self, index: int) -> bool: ...


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


@dataclass(frozen=True, slots=True)
class ShownClaim:
    """A claim of the answer and what it goes back to.

    Attributes:
        mentions: The claim as the answer states it, then those it goes back to, one after the other.
        n_hidden: How many in the middle are left out.
        operands: What the last one is calculated from, each up to its own beginning.
        n_operands: How many of these there are.
        is_unsupported: Whether it begins with an agent that has no source, also as an operand.
    """

    mentions: tuple[ShownMention, ...]
    n_hidden: int
    operands: tuple[ShownClaim, ...]
    n_operands: int
    is_unsupported: bool


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """Where a run's answer comes from.

    Attributes:
        step: Index of the step that gives it, or None where no agent states a value.
        agent: Whose.
        claims: Unsupported ones first, of them those that a source contradicts; else as the answer states them.
        n_claims: How many it states.
        n_unsupported: How many of them go back to an agent without a source.
        suspects: Who stated the unsupported ones first, the earliest first.
        n_suspects: How many of these there are.
    """

    step: int | None
    agent: str
    claims: tuple[ShownClaim, ...]
    n_claims: int
    n_unsupported: int
    suspects: tuple[ShownMention, ...]
    n_suspects: int

    @property
    def n_hidden(self) -> int:
        """How many claims are left out."""
        return self.n_claims - len(self.claims)


def answer_of(trace: MessageActionTrace, *, may_take_long: bool = False) -> ShownAnswer | None:
    """Follow the claims of a run's answer.

    Args:
        trace: The run.
        may_take_long: Whether somebody asked for it, rather than waits for a page.

    Returns:
        None where the package is not installed, the run is too large, or it breaks.
    """
    if find_part("follow_answer", _logger, "claims are not followed") is None:
        return None
    failure = f"the claims of trace {trace.trace_id} are not followed"
    return ask_part(lambda: read_answer(trace, may_take_long=may_take_long), _logger, failure)


def read_answer(trace: MessageActionTrace, *, may_take_long: bool = False) -> ShownAnswer | None:
    """Do as `answer_of`, for who wants to know why there is none.

    Raises:
        MissingExtra: if the package is not installed.
    """
    provenance = cast(_Follow, load_part("follow_answer"))(trace, at_once=not may_take_long)
    return None if provenance is None else _Layout(trace, provenance).lay_out()


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


def print_answer(console: Console, answer: ShownAnswer) -> None:
    """Print where a run's answer comes from: a claim, then through whom it went, back to where it begins."""
    if answer.step is None:
        console.print(Text("no step of an agent states a value that could be followed"))
        return
    marks = marks_of(console)
    count = f"{answer.n_claims} claim{'' if answer.n_claims == 1 else 's'}"
    verdict = f"{answer.n_unsupported} without a source" if answer.n_unsupported else "each with a source"
    _print_line(console, Text(f"answer: step {answer.step} {line(answer.agent)}, {count}, {verdict}", style="bold"))
    for suspect in answer.suspects:
        where = f"step {suspect.step} {line(suspect.agent)}"
        _print_line(console, Text(f"first said without a source: {where}, {suspect.quote}", style="red"))
    if answer.n_suspects > len(answer.suspects):
        _print_line(console, Text(f"and {answer.n_suspects - len(answer.suspects)} more", style="dim"))
    for claim in answer.claims:
        console.print()
        style = "bold red" if claim.is_unsupported else "bold green"
        first = claim.mentions[0]
        _print_line(console, Text.assemble((first.value, style), "  ", (first.quote, "dim")))
        _print_chain(console, claim, "  ", marks.builds_on)
    if answer.n_hidden:
        console.print()
        _print_line(console, Text(f"{answer.n_hidden} more claims: --json gives them, up to a bound", style="dim"))


def _print_chain(console: Console, claim: ShownClaim, indent: str, arrow: str) -> None:
    parts = [mention_place(mention) for mention in claim.mentions]
    if claim.n_hidden:
        parts.insert(len(parts) // 2, f"({claim.n_hidden} more)")
    last = claim.mentions[-1]
    end = last_word(last)
    chain = f" {arrow} ".join([*parts, *([end] if end else [])])
    _print_line(console, Text(indent + chain, style="red" if claim.is_unsupported else ""), hang=len(indent) + 2)
    if last.contradicted:
        source = "the task" if last.contradicted_step is None else f"step {last.contradicted_step}"
        _print_line(console, Text(f"{indent}{source} has instead: {last.contradicted}", style="yellow"))
    for operand in claim.operands:
        _print_line(console, Text(f"{indent}{operand.mentions[0].value}:", style="dim"))
        _print_chain(console, operand, indent + "  ", arrow)
    if claim.n_operands > len(claim.operands) and claim.operands:
        _print_line(console, Text(f"{indent}and {claim.n_operands - len(claim.operands)} more numbers", style="dim"))


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

    def __init__(self, trace: MessageActionTrace, provenance: _Provenance) -> None:
        self._trace, self._provenance = trace, provenance
        self._shown: dict[int, ShownMention] = {}

    def lay_out(self) -> ShownAnswer:
        provenance = self._provenance
        step = provenance.step
        unsupported = {index for index in provenance.claims if provenance.is_unsupported(index)}
        ranked = sorted(
            provenance.claims, key=lambda index: (index not in unsupported, not self._is_contradicted(index))
        )
        return ShownAnswer(
            step=step,
            agent="" if step is None else clean(self._trace.steps[step].agent),
            claims=tuple(self._claim(index, deep=True) for index in ranked[:_MOST_CLAIMS]),
            n_claims=len(ranked),
            n_unsupported=len(unsupported),
            suspects=tuple(self._mention(ancestor) for ancestor in provenance.suspects[:_MOST_SUSPECTS]),
            n_suspects=len(provenance.suspects),
        )

    def _is_contradicted(self, index: int) -> bool:
        """Check whether a source says something else than the unsupported mention that a claim begins with."""
        claim = self._provenance.chain(index)[-1].claim
        return claim is not None and bool(claim.contradictions)

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
        )

    def _mention(self, ancestor: _ShownAncestor) -> ShownMention:
        shown = self._shown.get(id(ancestor))
        if shown is None:
            shown = self._shown[id(ancestor)] = self._show(ancestor)
        return shown

    def _show(self, ancestor: _ShownAncestor) -> ShownMention:
        mention = ancestor.mention
        is_task = mention.step < 0
        step = None if is_task else self._trace.steps[mention.step]
        against, against_step = "", None
        if ancestor.kind == "unsupported" and ancestor.claim is not None and ancestor.claim.contradictions:
            source = max(ancestor.claim.contradictions, key=lambda one: one.surprise).source
            against, against_step = self._quote(source), None if source.step < 0 else source.step
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


class _Follow(Protocol):
    def __call__(self, trace: MessageActionTrace, *, at_once: bool) -> _Provenance | None: ...
