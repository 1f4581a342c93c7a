"""What a step shows that a schema can ask for: findings of failure, its wording in the abstract, its neighbours."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Final

from blamespan.likeness import fold_agent, tool_of
from blamespan.trace import MessageActionTrace, Step
from blamespan_tracer.auto.claim_model import name_form
from blamespan_tracer.auto.observed_run import measure_contradiction, strongest_contradiction
from blamespan_tracer.checks.in_use import apply_checks_in_use
from blamespan_tracer.ledger import Ledger, find_values, read_ledger
from blamespan_tracer.tokens import text_ends

LEAST_STRENGTH: Final = 2.0
"""In nats: what speaks less than that against a claim is no sign of failure."""

_MAX_CHARS: Final = 6_000
"""Of a longer text the first and last half of this many characters are read for its wording."""
_MAX_WORDS: Final = 1_500
_MAX_NAMES: Final = 100
_WORD = re.compile(r"<[a-z]{1,20}>|[^\W\d_]{1,40}|\d{1,40}|[=+*/%$]")


@dataclass(frozen=True, slots=True)
class StepFindings:
    """What a step shows.

    Attributes:
        step: It.
        agent: Who takes it, folded.
        tool: What it calls, or empty.
        findings: What stands out about it, each with how strongly, in nats.
        quotes: Words that show the findings.
        before: The step before it.
        after: The step after it; empty at the end.
        shown: All of that and the wording, as features that schemata ask for.
    """

    step: Step
    agent: str
    tool: str
    findings: Mapping[str, float]
    quotes: tuple[str, ...]
    before: str
    after: str
    shown: frozenset[str]


def read_findings(trace: MessageActionTrace, ledger: Ledger | None = None) -> list[StepFindings]:
    """Read what each step shows that an agent can be blamed for, in order.

    Args:
        trace: A run, or a prefix of one.
        ledger: Its claims, where they are read already.
    """
    results = apply_checks_in_use(trace)
    findings: dict[int, dict[str, float]] = defaultdict(dict)
    quotes: dict[int, list[tuple[float, str]]] = defaultdict(list)
    for claim in chain.from_iterable((ledger or read_ledger(trace)).claims):
        contradiction = strongest_contradiction(claim)
        strength = 0.0 if contradiction is None else measure_contradiction(claim, contradiction)
        if contradiction is None or strength < LEAST_STRENGTH:
            continue
        step, value = claim.mention.step, claim.mention.value
        finding = f"{contradiction.kind}: {name_form(claim)}"
        findings[step][finding] = max(strength, findings[step].get(finding, 0.0))
        quotes[step].append((-strength, trace.steps[step].content[max(0, value.start - 60) : value.stop + 60]))
    for result in results:
        if result.step is not None and result.outcome == "fail":
            findings[result.step][f"check {result.check.name}, fail"] = LEAST_STRENGTH
            if result.quote:
                quotes[result.step].append((-LEAST_STRENGTH, result.quote))
    agents = [agent.name for agent in trace.agents]
    return [
        _describe_step(trace, step, findings.get(step.index, {}), sorted(quotes.get(step.index, ())), agents)
        for step in trace.steps
        if trace.can_be_blamed(step)
    ]


def _describe_step(
    trace: MessageActionTrace,
    step: Step,
    findings: Mapping[str, float],
    quotes: Sequence[tuple[float, str]],
    agents: Sequence[str],
) -> StepFindings:
    agent, tool = fold_agent(step.agent), tool_of(step)
    before, after = (_describe_neighbour(trace, step, step.index + shift) for shift in (-1, 1))
    shown = {f"kind {step.kind}", f"tool {tool}", f"agent {agent}", f"before {before}", f"after {after}"}
    shown |= {f"finding {finding}" for finding in findings}
    if step.error:
        shown.add(f"error {step.error}")
    words = abstract_words(step.content, agents)
    shown |= {f"words {pair}" for pair in pairs_of(words)}
    shown |= {f"words {word}" for word in words}
    return StepFindings(
        step, agent, tool, findings, tuple(quote for _, quote in quotes[:3]), before, after, frozenset(shown)
    )


def abstract_words(text: str, agents: Iterable[str] = ()) -> list[str]:
    """Return the words of a text in small letters, with its values abstracted to their form: `<number>`, `<name>`.

    Args:
        text: Any text; of a long one its ends are read.
        agents: Names that become `<agent>`.
    """
    text = " ".join(text_ends(text)) if len(text) > _MAX_CHARS else text
    text = text[: _MAX_CHARS // 2] + " " + text[-_MAX_CHARS // 2 :] if len(text) > _MAX_CHARS else text
    names = sorted({name for name in agents if len(name) > 2}, key=len, reverse=True)[:_MAX_NAMES]
    for name in names:
        if name in text:
            text = text.replace(name, " <agent> ")
    pieces: list[str] = []
    done = 0
    values = (value for value in find_values(text) if value.form not in ("opposite", "quotation"))
    for value in sorted(values, key=lambda value: value.start):
        if value.start >= done:
            pieces += [text[done : value.start], f" <{value.form}> "]
            done = value.stop
    pieces.append(text[done:])
    words = _WORD.findall("".join(pieces).casefold())[:_MAX_WORDS]
    return ["<number>" if word.isdigit() else word for word in words]


def pairs_of(words: Sequence[str]) -> frozenset[str]:
    """Return the pairs of neighbours among words; of fewer than four the words themselves."""
    if len(words) < 4:
        return frozenset(words)
    return frozenset(f"{first} {second}" for first, second in pairwise(words))


def _describe_neighbour(trace: MessageActionTrace, step: Step, index: int) -> str:
    """Describe a step beside another: its kind, its tool, and whether the same agent takes it."""
    if not 0 <= index < len(trace.steps):
        return "" if index > 0 else "task"
    other = trace.steps[index]
    tool = tool_of(other)
    whose = "same agent" if other.agent == step.agent else "another"
    error = ", error" if other.status == "error" or other.error else ""
    return f"{other.kind}{f' {tool}' if tool else ''} by {whose}{error}"
