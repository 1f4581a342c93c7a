"""What is written on the spans of a run beside the verdict on it: where the claims of its answer come from."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from blamespan import conventions as words
from blamespan.annotate import cut
from blamespan.pipeline import RunNotes
from blamespan.spans import Attributes
from blamespan.trace import AttributeValue, MessageActionTrace
from blamespan_tracer.ledger.provenance import Ancestor, AnswerProvenance, follow_answer

__all__ = ["note_run"]

_VARIABLE: Final = "BLAMESPAN_CLAIMS"
_MAX_VALUE_BYTES: Final = 160


def note_run(trace: MessageActionTrace) -> RunNotes:
    """Return what is written on the spans of a run beside the verdict; the part `note_run` of `blamespan`."""
    if os.environ.get(_VARIABLE, "").strip().lower() == "none":
        return RunNotes()
    provenance = follow_answer(trace, at_once=True)
    return RunNotes() if provenance is None else _note_claims(trace, provenance)


def _note_claims(trace: MessageActionTrace, provenance: AnswerProvenance) -> RunNotes:
    if provenance.step is None:
        return RunNotes()
    by_step: dict[int, list[Ancestor]] = defaultdict(list)
    for ancestor in provenance.ancestors:
        if ancestor.claim is not None:
            by_step[ancestor.mention.step].append(ancestor)
    run: dict[str, AttributeValue] = {
        words.CLAIM_COUNT: len(provenance.claims),
        words.CLAIM_UNSUPPORTED: sum(map(provenance.is_unsupported, provenance.claims)),
    }
    if provenance.suspects:
        run[words.CLAIM_SUSPECT_SPAN_ID] = trace.steps[provenance.suspects[0].mention.step].span_id
    return RunNotes(run, {step: _write_sources(trace, provenance, ancestors) for step, ancestors in by_step.items()})


def _write_sources(trace: MessageActionTrace, provenance: AnswerProvenance, claims: list[Ancestor]) -> Attributes:
    """Write as many sources as fit into an attribute; those without one first."""
    entries: list[str] = []
    size = 2
    written: set[str] = set()
    ranked = sorted(claims, key=lambda claim: (claim.kind != "unsupported", claim.mention.value.start))
    for claim in ranked:
        entry = json.dumps(_describe_source(trace, provenance, claim), ensure_ascii=False)
        if entry in written:
            continue
        written.add(entry)
        size += len(entry.encode("utf-8", "replace")) + 2
        if size <= words.MAX_ATTRIBUTION_BYTES:
            entries.append(entry)
    attributes: dict[str, AttributeValue] = {words.CLAIM_SOURCES: f"[{', '.join(entries)}]"}
    if len(entries) < len(written):
        attributes[words.CLAIM_LEFT_OUT] = len(written) - len(entries)
    return attributes


def _describe_source(trace: MessageActionTrace, provenance: AnswerProvenance, claim: Ancestor) -> Mapping[str, Any]:
    said: dict[str, Any] = {"claim": cut(claim.mention.value.text, _MAX_VALUE_BYTES)}
    sources = [provenance.ancestors[index].mention for index in claim.sources]
    if claim.kind == "calculation":
        said |= {"from": "calculation", "calculation": cut(claim.calculation, _MAX_VALUE_BYTES)}
        ids = dict.fromkeys(trace.steps[source.step].span_id for source in sources if source.step >= 0)
        return said | {"span_ids": list(ids)[:4]}
    if not sources:
        return said | {"from": "nothing"}
    kind = provenance.ancestors[claim.sources[0]].kind
    said["from"] = kind if kind in ("task", "input", "tool", "user") else "agent"
    if sources[0].step >= 0:
        step = trace.steps[sources[0].step]
        said |= {"agent": cut(step.agent, _MAX_VALUE_BYTES), "span_id": step.span_id}
    return said
