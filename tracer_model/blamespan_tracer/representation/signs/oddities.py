"""What is odd about a step: its calls and results, its numbers, what it heard; and which is the first odd step.

Dims: N merged steps; every value is (N,).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from blamespan_tracer.representation.analysis import Analysis
from blamespan_tracer.representation.claims import Floats
from blamespan_tracer.representation.reading import Mask
from blamespan_tracer.representation.signs.asking import find_asking
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
    *("its result is told of another", "tells a result of another", "has another tool's arguments"),
    "says the task without a name",
    *("refutes what is right", "alters another's code", "drops what is lacked later"),
    *("picks a wrong one", "picks what was refused", "ends on another answer"),
    *("its code breaks", "its code lacks a number", "its code has a new number"),
    *("turns a comparison round", "rewords a rule", "a digit slips"),
)
"""Features that say, each by itself, that something is odd."""


def oddities(run: Analysis) -> Iterator[tuple[str, Floats]]:
    """Return what is odd about calls, numbers and code, what is lacking, who heard what, and what the end rests on."""
    yield from _of_calls(run)
    yield from _of_numbers(run)
    yield from _of_statements(run)
    yield from _of_lineage(run)
    yield from _of_code(run)
    yield from _of_lacking(run)
    yield from _of_hearing(run)


def _of_calls(run: Analysis) -> Iterator[tuple[str, Floats]]:
    asking = find_asking(run)
    yield "call misfits", asking.misfit
    yield "its result is told of another", asking.told_as_other
    yield "tells a result of another", asking.tells_as_other
    calls = find_calls(run)
    yield "same call, other result", calls.other_result
    yield "other call, same result", calls.stale_result
    yield "has another tool's arguments", calls.foreign
    yield "result fails", calls.fails
    yield "fails for good", calls.fails_for_good
    yield "result gives orders", (calls.orders > 0).astype(np.float64)
    yield "result is odd", calls.odd_result


def _of_numbers(run: Analysis) -> Iterator[tuple[str, Floats]]:
    figures = find_figures(run)
    yield "unexplained numbers", figures.unexplained
    yield "a number nothing explains", (figures.unexplained > 0).astype(np.float64)
    yield "mistakable numbers", figures.mistakable
    yield "a mistakable number", (figures.mistakable > 0).astype(np.float64)
    yield "a digit slips", slipped_digits(run)
    yield "numbers of others", numbers_of_others(run)
    yield "a value of others", values_of_others(run)


def _of_statements(run: Analysis) -> Iterator[tuple[str, Floats]]:
    yield "ends on another answer", second_answers(run)
    restating = find_restating(run)
    yield "leaves out what the task gives", restating.omits
    yield "leaves out for good", restating.omits_for_good
    yield "leaves out names of the task", restating.omits_names
    yield "leaves out a name for good", restating.omits_names_for_good
    yield "says the task without a name", restating.drops_name
    yield "turns a comparison round", restating.turns_round
    yield "rewords a rule", restating.rewords
    corrections = find_corrections(run)
    yield "is refuted", corrections.refuted
    yield "refutes what is right", corrections.refutes_right
    yield "refutes what is wrong", corrections.refutes_wrong
    yield "a wrong sum stands", corrections.stands
    picks = find_picks(run)
    yield "picks the right one", picks.right
    yield "picks a wrong one", picks.wrong
    yield "picks what was refused", picks.refused


def _of_lineage(run: Analysis) -> Iterator[tuple[str, Floats]]:
    lineage = find_lineage(run)
    yield "carries the last answer", lineage.carries
    yield "works out the last answer", lineage.works_out
    yield "begins the last answer", lineage.begins


def _of_code(run: Analysis) -> Iterator[tuple[str, Floats]]:
    code = find_code_checks(run)
    yield "its code breaks", code.breaks
    yield "its code lacks a number", code.lacks_number
    yield "its code has a new number", code.new_number
    yield "alters another's code", altered_code(run)


def _of_lacking(run: Analysis) -> Iterator[tuple[str, Floats]]:
    lacking = find_lacking(run)
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


def _of_hearing(run: Analysis) -> Iterator[tuple[str, Floats]]:
    hearing = find_hearing(run)
    yield "hears", hearing.hears
    yield "misses what it heard", hearing.misses
    yield "is heard", hearing.heard
    yield "is addressed to", hearing.addressed
    yield "is followed", hearing.followed
    yield "is answered by whom it addresses", hearing.answered


def summed(found: Mapping[str, Floats], decides: Mask) -> Iterator[tuple[str, Floats]]:
    """Return which steps are odd in any way, and which is the first."""
    odd = np.any([found[name] > _LEAST for name in _ODD], axis=0) & decides
    before = np.cumsum(odd) - odd
    yield "is odd", odd.astype(np.float64)
    yield "is the first odd one", (odd & (before == 0)).astype(np.float64)
    yield "is odd and reaches the end", (odd & (found["reaches the end"] > 0)).astype(np.float64)
    yield "odd before it", before / max(odd.sum(), 1)
    carries = odd & (found["carries the last answer"] > 0)
    yield "is odd and carries the last answer", carries.astype(np.float64)
    yield "is the first odd one that carries it", (carries & (np.cumsum(carries) == 1)).astype(np.float64)
