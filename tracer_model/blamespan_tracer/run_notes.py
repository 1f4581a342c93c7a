"""What is written on the spans of a run beside the verdict on it.

Where the claims of its answer come from; which known failures it shows, where the user keeps some.
"""

from __future__ import annotations

import json
import logging
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from blamespan import conventions as words
from blamespan.annotate import cut
from blamespan.pipeline import RunNotes, ask_part
from blamespan.spans import Attributes
from blamespan.trace import AttributeValue, MessageActionTrace
from blamespan_tracer.ledger.ledger import read_ledger
from blamespan_tracer.ledger.provenance import Ancestor, AnswerProvenance, is_quickly_read, trace_answer
from blamespan_tracer.schemata.file import schemata_in_use
from blamespan_tracer.schemata.matching import SchemaMatch, match_schemata

_log = logging.getLogger("blamespan")

_VARIABLE: Final = "BLAMESPAN_CLAIMS"
_MAX_VALUE_BYTES: Final = 160


def note_run(trace: MessageActionTrace) -> RunNotes:
    """Return what is written on the spans of a run beside the verdict; the part `note_run` of `blamespan`."""
    wants_claims = os.environ.get(_VARIABLE, "").strip().lower() != "none"
    schemata = schemata_in_use()
    if not (wants_claims or schemata) or not is_quickly_read(trace):
        return RunNotes()
    ledger = read_ledger(trace)
    claims = known = RunNotes()
    if wants_claims:
        failure = f"where the claims of trace {trace.trace_id} come from is not noted"
        claims = ask_part(lambda: _note_claims(trace, trace_answer(trace, ledger)), _log, failure) or claims
    if schemata:
        failure = f"known failures are not noted on trace {trace.trace_id}"
        known = ask_part(lambda: _note_schemata(match_schemata(trace, schemata, ledger=ledger)), _log, failure) or known
    steps = {index: {**claims.steps.get(index, {}), **known.steps.get(index, {})}
             for index in claims.steps.keys() | known.steps.keys()}  # fmt: skip
    return RunNotes({**claims.run, **known.run}, steps)


def _note_schemata(matches: Sequence[SchemaMatch]) -> RunNotes:
    """Write the surest match of each step on its span, and the surest one of all on the run's."""
    if not matches:
        return RunNotes()
    steps: dict[int, Attributes] = {}
    for match in matches:
        steps.setdefault(match.step, {words.SCHEMA_NAME: match.schema.name, words.SCHEMA_SCORE: match.score})
    surest = matches[0]
    run: dict[str, AttributeValue] = {
        words.SCHEMA_NAME: surest.schema.name,
        words.SCHEMA_SCORE: surest.score,
        words.SCHEMA_SPAN_ID: surest.span_id,
        words.SCHEMA_SEEN: len(surest.schema.seen),
    }
    if surest.schema.seen:
        run[words.SCHEMA_SEEN_TRACE_ID] = surest.schema.seen[0].trace_id
    return RunNotes(run, steps)


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
