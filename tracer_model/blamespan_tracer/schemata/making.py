"""Make a schema of a confirmed failure, and hold it against runs that were sound."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from blamespan.analysis.showing.legible import printable
from blamespan.errors import ConfigError
from blamespan.taxonomy import mode as find_mode
from blamespan.trace import MessageActionTrace
from blamespan_tracer.schemata.findings import StepFindings, abstract_words, pairs_of, read_findings
from blamespan_tracer.schemata.matching import match_findings
from blamespan_tracer.schemata.schema import DEFAULT_THRESHOLD, ErrorSchema, SeenFailure, Signature
from blamespan_tracer.tokens import sentences_of

_MAX_FINDINGS: Final = 5
"""The rarest findings of a step that a signature asks for."""
_MOST_USUAL: Final = 0.02
"""A finding that a larger share of sound steps shows is left out."""
_ENOUGH_SOUND: Final = 10
"""Sound runs from which on a signature is tried on them. With fewer, weak findings are left out; and the wording, where
there are findings and nobody quoted it: a sound step may have the same words about other values."""
_PLAIN_SURPRISE: Final = 3.0
_MAX_SENTENCES: Final = 40
_MAX_WORDS: Final = 40
_LEAST_WORDS: Final = 4
_MARGIN: Final = 0.01
"""By how much a threshold lies above the best score of a sound step."""
_HIGHEST_THRESHOLD: Final = 1.0
_EXAMPLE_CHARS: Final = 300
_UNNAMEABLE = re.compile(r"[^a-z0-9]+")


class SoundSteps:
    """Steps of sound runs, read once for all schemata that are held against them."""

    def __init__(self, traces: Sequence[MessageActionTrace] = ()) -> None:
        self._n_runs = len(traces)
        self._steps = [step for trace in traces for step in read_findings(trace)]
        self._shown: Counter[str] = Counter()
        for step in self._steps:
            self._shown.update(step.shown)

    def __len__(self) -> int:
        return self._n_runs

    def count(self, feature: str) -> int:
        """Count the sound steps that show a feature."""
        return self._shown[feature]

    def is_usual(self, finding: str) -> bool:
        """Check whether sound steps show a finding too often for it to say anything."""
        return self._shown[f"finding {finding}"] > _MOST_USUAL * len(self._steps)

    def best_score(self, schema: ErrorSchema) -> float:
        """Return the highest score that a sound step has, 0..1."""
        matches = match_findings(self._steps, [replace(schema, threshold=1e-6)])
        return matches[0].score if matches else 0.0


def make_schema(
    trace: MessageActionTrace,
    step: int,
    *,
    mode: str = "",
    quote: str = "",
    title: str = "",
    name: str = "",
    taken: Collection[str] = (),
    seen: SeenFailure | None = None,
    sound: SoundSteps | None = None,
) -> ErrorSchema:
    """Make a schema of a confirmed failure.

    Args:
        trace: The run.
        step: Index of the step that failed; it must be one that an agent can be blamed for.
        mode: The error mode, as `taxonomy:code`.
        quote: Words of the step that show it; where empty, those of the findings, else what it says that no other
            step says.
        title: What goes wrong.
        name: Unique name; made of the agent, the mode and a number where empty.
        taken: Names that there are.
        seen: Where it was confirmed.
        sound: Runs that were sound: the threshold lies above what they score.

    Raises:
        ConfigError: if the step cannot be blamed, shows nothing to know it by, or looks like sound ones.
    """
    steps = read_findings(trace)
    own = next((one for one in steps if one.step.index == step), None)
    if own is None:
        raise ConfigError(
            f"expected a step that an agent can be blamed for, got step {step} of {len(trace.steps)}. "
            "What tools answer and users say is not an agent's decision"
        )
    sound = sound or SoundSteps()
    is_tried = len(sound) >= _ENOUGH_SOUND
    telling = [
        finding for finding in own.findings if (not sound.is_usual(finding) if is_tried else _is_plain(finding, own))
    ]
    ranked = sorted(telling, key=lambda finding: (-own.findings[finding], finding))
    words = _choose_words(trace, own, steps, quote, sound)
    signature = Signature(
        kind=own.step.kind,
        tool=own.tool,
        agent=own.agent,
        error=own.step.error or "",
        findings=tuple(ranked[:_MAX_FINDINGS]),
        wording=" ".join(words) if is_tried or quote or not ranked else "",
        before=own.before,
        after=own.after,
    )
    if not (signature.findings or signature.wording or signature.error):
        raise ConfigError(
            f"expected step {step} to say or show something to know it by, got an empty one. Name another"
        )
    example = quote or (own.quotes[0] if own.quotes else own.step.content[:_EXAMPLE_CHARS])
    schema = ErrorSchema(
        name or _make_name(own, mode, taken),
        signature,
        printable(title),
        mode,
        example=printable(example)[:_EXAMPLE_CHARS],
        seen=() if seen is None else (seen,),
    )
    return _hold_against(schema, sound)


def _is_plain(finding: str, own: StepFindings) -> bool:
    """Check whether a finding speaks of failure where there are too few sound runs to try it on."""
    return own.findings[finding] >= _PLAIN_SURPRISE


def _hold_against(schema: ErrorSchema, sound: SoundSteps) -> ErrorSchema:
    """Return the schema with what sound steps do not show alone: its findings, its wording or both, and a threshold.

    Raises:
        ConfigError: if sound steps show both.
    """
    signature = schema.signature
    by_findings = replace(signature, wording="") if signature.findings or signature.error else None
    by_wording = replace(signature, findings=(), error="") if signature.wording else None
    best = {
        name: sound.best_score(replace(schema, signature=part))
        for name, part in (("findings", by_findings), ("wording", by_wording))
        if part is not None
    }
    kept = {name: score for name, score in best.items() if score + _MARGIN <= _HIGHEST_THRESHOLD}
    if not kept:
        raise ConfigError(
            f"expected a step that shows what sound runs do not, got a sound step with {min(best.values()):.2f} of its "
            "signature. Quote the words that are wrong with --quote, or name another step"
        )
    if "findings" not in kept:
        signature = replace(signature, findings=(), error="")
    if "wording" not in kept:
        signature = replace(signature, wording="")
    threshold = max(DEFAULT_THRESHOLD, round(max(kept.values()) + _MARGIN, 3))
    return replace(schema, signature=signature, threshold=threshold)


def _choose_words(
    trace: MessageActionTrace, own: StepFindings, steps: Sequence[StepFindings], quote: str, sound: SoundSteps
) -> list[str]:
    """Return the abstracted words of what is wrong: the quote, or the sentence that other steps say least of."""
    agents = [agent.name for agent in trace.agents]
    if quote:
        return abstract_words(quote, agents)[:_MAX_WORDS]
    said: Counter[str] = Counter()
    for other in steps:
        if other.step.index < own.step.index:
            said.update(pairs_of(abstract_words(other.step.content, agents)))
    said.update(pairs_of(abstract_words(trace.task, agents)))
    best: list[str] = []
    rank = (-1.0, 0)
    for sentence in sentences_of(own.step.content, _MAX_SENTENCES):
        words = abstract_words(sentence, agents)[:_MAX_WORDS]
        pairs = pairs_of(words)
        if len(words) < _LEAST_WORDS:
            continue
        is_quoted = any(part.strip() and part.strip() in sentence for part in own.quotes)
        new = sum(1.0 / (1.0 + said[pair] + sound.count(f"words {pair}")) for pair in pairs) / len(pairs)
        own_rank = (new + is_quoted, len(words))
        if own_rank > rank:
            best, rank = words, own_rank
    return best


def _make_name(own: StepFindings, mode: str, taken: Collection[str]) -> str:
    parts = [own.agent or own.step.kind, find_mode(mode).name if mode else own.step.kind]
    stem = "-".join(_UNNAMEABLE.sub("-", part.casefold()).strip("-") for part in parts)[:60].strip("-") or "failure"
    number = 1
    while (name := stem if number == 1 else f"{stem}-{number}") in taken:
        number += 1
    return name
