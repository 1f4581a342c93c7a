"""The tiers by which a team tolerates faults, and what a run shows of them: retries, rules, who is told to verify.

Source: MAS-FIRE (arXiv 2602.19843). We add what it does not count: a fault that nobody took up is masked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from blamespan import conventions as words
from blamespan.spans import Span
from blamespan.trace import MessageActionTrace
from blamespan_tracer.instructions.conflicts import read_systems
from blamespan_tracer.tokens import split_sentences

Tier: TypeAlias = Literal["mechanism", "rule", "prompt", "reasoning", "masked"]
"""What kept a fault from doing harm: the framework made a call that broke again; a rule in code (the guard, a node
without a model, an edge of the workflow) refused it; an agent that is told to verify caught it; an agent that is not
told to did; or nobody took it up."""

TIERS: tuple[Tier, ...] = ("mechanism", "rule", "prompt", "reasoning", "masked")

_VERIFIES = re.compile(
    r"\b(?:verif|double-check|cross-check|re-?check|review|validat|critici[sz]|critique|scrutini[sz]|proof-?read|audit|"
    r"inspect|(?:find|correct|mend|spot) (?:\w+ )?(?:errors|mistakes)|object\b|"
    r"(?:check|confirm|make sure|look (?:again|over))\w*\b(?=.*\b(?:that|whether|if|answers?|numbers?|figures?|values?|"
    r"results?|claims?|statements?|drafts?|messages?|sources?|work|others?|it|them|everything|correct)\b))",
    re.IGNORECASE | re.DOTALL,
)
_NOT = re.compile(r"\b(?:not|never|no need|nobody|nothing|without|trust)\b|n't\b", re.IGNORECASE)
_CALLS = (words.OPERATION_CHAT, words.OPERATION_TOOL, words.OPERATION_AGENT)


@dataclass(frozen=True, slots=True)
class Defences:
    """What a run shows of a team's defences.

    Attributes:
        retries: Calls that broke and were made again with success, no model deciding that; by what and whose they are.
        rules: What the guard did beyond observing, by rule and action.
        sent_back: Agents to whom the workflow gave another turn right after one of theirs, once for each turn.
        coded: Nodes that act without any model.
        verifiers: Agents whose instructions ask them to verify.
    """

    retries: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    sent_back: tuple[str, ...] = ()
    coded: frozenset[str] = frozenset()
    verifiers: frozenset[str] = frozenset()


def read_defences(trace: MessageActionTrace, spans: Iterable[Span]) -> Defences:
    """Read the defences of a run off its trace and its spans."""
    of_run = {span.span_id: span for span in spans if span.trace_id == trace.trace_id}
    calls = sorted((span for span in of_run.values() if _operation(span) in _CALLS), key=lambda span: span.start_ns)
    events = [event.attributes for span in of_run.values() for event in span.events if event.name == words.GUARD_EVENT]
    acted = [said for said in events if said.get(words.GUARD_ACTION) != "observe"]
    return Defences(
        retries=tuple(_find_retries(calls, {key: _agent_of(span, of_run) for key, span in of_run.items()})),
        rules=tuple(f"{said.get(words.GUARD_RULE)} {said.get(words.GUARD_ACTION)}" for said in acted),
        sent_back=tuple(_find_sent_back(calls)),
        coded=frozenset(agent.name for agent in trace.agents if agent.role == "executor"),
        verifiers=frozenset(
            agent
            for agent, texts in read_systems(trace).items()
            if any(is_own and asks_to_verify(text) for _, text, is_own in texts)
        ),
    )


def asks_to_verify(text: str) -> bool:
    """Check whether instructions ask an agent to verify what it hears."""
    found = ((sentence, _VERIFIES.search(sentence)) for sentence in split_sentences(text))
    return any(match is not None and not _NOT.search(sentence[: match.start()]) for sentence, match in found)


def _operation(span: Span) -> object:
    return span.attributes.get(words.OPERATION)


def _agent_of(span: Span, spans: Mapping[str, Span]) -> str:
    """Return whose a span is, as it says or the nearest above it does."""
    above: Span | None = span
    for _ in spans:  # a span that is above itself ends it, too
        if above is None or words.AGENT_NAME in above.attributes:
            break
        above = spans.get(above.parent_id or "")
    return "" if above is None else str(above.attributes.get(words.AGENT_NAME, ""))


def _find_retries(calls: Sequence[Span], agents: Mapping[str, str]) -> Iterator[str]:
    """Yield the calls of models, tools and agents that broke and were made again, before any model decided anything."""
    for place, broken in enumerate(calls):
        if broken.status != "error":
            continue
        same = (*_call(broken), agents[broken.span_id])
        for span in calls[place + 1 :]:
            if span.start_ns < broken.end_ns:
                continue
            if (*_call(span), agents[span.span_id]) == same:
                if span.status != "error":
                    yield " ".join(same)
                    break
            elif _operation(span) == words.OPERATION_CHAT or _operation(broken) == words.OPERATION_AGENT:
                break


def _call(span: Span) -> tuple[str, ...]:
    """Return what is asked: of a tool, by its arguments; of a model, whatever model answers."""
    asked = (words.TOOL_NAME, words.TOOL_ARGUMENTS) if _operation(span) == words.OPERATION_TOOL else ()
    return (str(_operation(span)), *(str(span.attributes.get(key, "")) for key in asked))


def _find_sent_back(calls: Sequence[Span]) -> Iterator[str]:
    """Yield who has two turns one after the other, no tool called and no other agent asked between."""
    turn: Span | None = None
    for span in calls:
        if turn is not None and span.start_ns < turn.end_ns:
            continue  # it is a part of the turn, or goes on beside it
        is_agent = _operation(span) == words.OPERATION_AGENT
        if turn is not None and is_agent and turn.status != "error" and turn.parent_id == span.parent_id:
            name = str(span.attributes.get(words.AGENT_NAME, ""))
            if name == turn.attributes.get(words.AGENT_NAME):
                yield name
        turn = span if is_agent else None
