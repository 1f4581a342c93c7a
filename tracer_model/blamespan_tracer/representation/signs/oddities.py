"""What is odd about a step: its calls and results, its numbers, what it heard; and which is the first odd step.

Dims: N merged steps; every value is (N,).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from blamespan.trace import MessageActionTrace
from blamespan_tracer.representation.analysis import Analysis
from blamespan_tracer.representation.claims import Floats
from blamespan_tracer.representation.reading import Mask
from blamespan_tracer.representation.sentences import Sentence, read_sentences
from blamespan_tracer.representation.signs.calls import find_calls
from blamespan_tracer.representation.signs.code_changes import altered_code
from blamespan_tracer.representation.signs.code_checks import find_code_checks
from blamespan_tracer.representation.signs.corrections import find_corrections
from blamespan_tracer.representation.signs.figures import find_figures, slipped_digits
from blamespan_tracer.representation.signs.hearing import find_hearing
from blamespan_tracer.representation.signs.lacking import find_lacking
from blamespan_tracer.representation.signs.lineage import find_lineage
from blamespan_tracer.representation.signs.pairings import numbers_of_others, values_of_others
from blamespan_tracer.representation.signs.picks import find_picks
from blamespan_tracer.representation.signs.restating import find_restating
from blamespan_tracer.representation.signs.second_answers import second_answers

__all__ = ["oddities", "summed"]

_LEAST = 1e-9
"""What is less is rounding."""

_ODD = (
    *("sum is wrong", "contradicts the task", "contradicts a result", "contradicts itself", "contradicted by a result"),
    *("result fails", "fails for good", "result gives orders", "a number nothing explains", "a mistakable number"),
    *("same call, other result", "other call, same result", "unknown arguments", "numbers of others"),
    *("refutes what is right", "alters another's code", "drops what is lacked later"),
    *("picks a wrong one", "picks what was refused", "ends on another answer"),
    *("its code breaks", "its code lacks a number", "its code has a new number"),
    *("turns a comparison round", "rewords a rule", "a digit slips"),
)
"""Features that say, each by itself, that something is odd."""


def oddities(trace: MessageActionTrace, run: Analysis) -> Iterator[tuple[str, Floats]]:
    """Tell what is odd about calls, numbers and code, what is lacking, who heard what, and what the end rests on."""
    sentences = read_sentences(run.reading, run.claims, run.facts.stated)
    yield from _of_calls(trace, run)
    yield from _of_numbers(trace, run, sentences)
    yield from _of_statements(run, sentences)
    yield from _of_lineage(run, sentences)
    yield from _of_code(run)
    yield from _of_lacking(run, sentences)
    yield from _of_hearing(trace, run)


def _of_calls(trace: MessageActionTrace, run: Analysis) -> Iterator[tuple[str, Floats]]:
    calls = find_calls(trace, run.reading, run.segments, run.routine, len(run.steps))
    yield "call misfits", calls.misfit
    yield "same call, other result", calls.other_result
    yield "other call, same result", calls.stale_result
    yield "result fails", calls.fails
    yield "fails for good", calls.fails_for_good
    yield "result gives orders", (calls.orders > 0).astype(np.float64)
    yield "result is odd", calls.odd_result


def _of_numbers(
    trace: MessageActionTrace, run: Analysis, sentences: Sequence[Sentence]
) -> Iterator[tuple[str, Floats]]:
    reading, segments, n_steps = run.reading, run.segments, len(run.steps)
    figures = find_figures(reading, segments, run.claims, n_steps)
    yield "unexplained numbers", figures.unexplained
    yield "a number nothing explains", (figures.unexplained > 0).astype(np.float64)
    yield "mistakable numbers", figures.mistakable
    yield "a mistakable number", (figures.mistakable > 0).astype(np.float64)
    yield "a digit slips", slipped_digits(reading, segments, sentences, n_steps)
    yield "numbers of others", numbers_of_others(trace, reading, segments, sentences, n_steps)
    yield "a value of others", values_of_others(reading, segments, run.facts.given, sentences, n_steps)


def _of_statements(run: Analysis, sentences: Sequence[Sentence]) -> Iterator[tuple[str, Floats]]:
    reading, segments, n_steps = run.reading, run.segments, len(run.steps)
    yield "ends on another answer", second_answers(reading, segments, run.facts.given, sentences, n_steps)
    restating = find_restating(reading, segments, run.facts, sentences, n_steps)
    yield "leaves out what the task gives", restating.omits
    yield "leaves out for good", restating.omits_for_good
    yield "leaves out names of the task", restating.omits_names
    yield "leaves out a name for good", restating.omits_names_for_good
    yield "turns a comparison round", restating.turns_round
    yield "rewords a rule", restating.rewords
    corrections = find_corrections(reading, segments, run.facts.refuted, run.equations, n_steps)
    yield "is refuted", corrections.refuted
    yield "refutes what is right", corrections.refutes_right
    yield "refutes what is wrong", corrections.refutes_wrong
    yield "a wrong sum stands", corrections.stands
    picks = find_picks(reading, segments, sentences, n_steps)
    yield "picks the right one", picks.right
    yield "picks a wrong one", picks.wrong
    yield "picks what was refused", picks.refused


def _of_lineage(run: Analysis, sentences: Sequence[Sentence]) -> Iterator[tuple[str, Floats]]:
    lineage = find_lineage(run, sentences)
    yield "carries the last answer", lineage.carries
    yield "works out the last answer", lineage.works_out
    yield "begins the last answer", lineage.begins


def _of_code(run: Analysis) -> Iterator[tuple[str, Floats]]:
    code = find_code_checks(run.reading, run.segments, len(run.steps))
    yield "its code breaks", code.breaks
    yield "its code lacks a number", code.lacks_number
    yield "its code has a new number", code.new_number
    yield "alters another's code", altered_code(run.reading, run.segments, len(run.steps))


def _of_lacking(run: Analysis, sentences: Sequence[Sentence]) -> Iterator[tuple[str, Floats]]:
    lacking = find_lacking(run.reading, run.segments, run.facts.given, sentences, run.decides)
    yield "lacks something", lacking.said.lacks
    yield "is the first to lack it", lacking.said.first
    yield "lacks what was said", lacking.said.known
    yield "lacks what the task gives", lacking.said.given
    yield "drops what is lacked later", lacking.said.drops
    yield "lacked later", lacking.said.later
    yield "only names something", lacking.named.lacks
    yield "is the first to only name it", lacking.named.first
    yield "only names what was said", lacking.named.known
    yield "only names what the task gives", lacking.named.given
    yield "drops what is only named later", lacking.named.drops


def _of_hearing(trace: MessageActionTrace, run: Analysis) -> Iterator[tuple[str, Floats]]:
    hearing = find_hearing(trace, run.steps, run.owner, int(run.agent.max(initial=-1)) + 1)
    yield "hears", hearing.hears
    yield "misses what it heard", hearing.misses
    yield "is heard", hearing.heard
    yield "is addressed to", hearing.addressed
    yield "is answered by whom it addresses", hearing.answered


def summed(found: Mapping[str, Floats], decides: Mask) -> Iterator[tuple[str, Floats]]:
    """Tell which steps are odd in any way, and which is the first."""
    odd = np.any([found[name] > _LEAST for name in _ODD], axis=0) & decides
    before = np.cumsum(odd) - odd
    yield "is odd", odd.astype(np.float64)
    yield "is the first odd one", (odd & (before == 0)).astype(np.float64)
    yield "is odd and reaches the end", (odd & (found["reaches the end"] > 0)).astype(np.float64)
    yield "odd before it", before / max(odd.sum(), 1)
    carries = odd & (found["carries the last answer"] > 0)
    yield "is odd and carries the last answer", carries.astype(np.float64)
    yield "is the first odd one that carries it", (carries & (np.cumsum(carries) == 1)).astype(np.float64)
