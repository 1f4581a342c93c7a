"""What is odd about a step: its calls and results, its numbers, what it heard; and which is the first odd step.

Dims: N merged steps; every value is (N,).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from blamespan.trace import MessageActionTrace
from blamespan_tracer.representation.analysis import Analysis
from blamespan_tracer.representation.claims import Floats
from blamespan_tracer.representation.reading import Mask
from blamespan_tracer.representation.sentences import read_sentences
from blamespan_tracer.representation.signs.calls import find_calls
from blamespan_tracer.representation.signs.code_changes import altered_code
from blamespan_tracer.representation.signs.code_checks import find_code_checks
from blamespan_tracer.representation.signs.corrections import find_corrections
from blamespan_tracer.representation.signs.figures import find_figures, slipped_digits
from blamespan_tracer.representation.signs.hearing import find_hearing
from blamespan_tracer.representation.signs.lacking import find_lacking
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
    *("turns a comparison round", "a digit slips"),
)
"""Features that say, each by itself, that something is odd."""


def oddities(trace: MessageActionTrace, run: Analysis) -> Iterator[tuple[str, Floats]]:
    """Tell what is odd about calls, numbers, and who heard what."""
    n_steps, n_agents = len(run.steps), int(run.agent.max(initial=-1)) + 1
    calls = find_calls(trace, run.reading, run.segments, run.routine, n_steps)
    sentences = read_sentences(run.reading, run.claims, run.facts.stated)
    figures = find_figures(run.reading, run.segments, run.claims, n_steps)
    numbers = numbers_of_others(trace, run.reading, run.segments, sentences, n_steps)
    corrections = find_corrections(run.reading, run.segments, run.facts.refuted, n_steps)
    lacking = find_lacking(run.reading, run.segments, run.facts.given, sentences, run.decides)
    picks = find_picks(run.reading, run.segments, sentences, n_steps)
    code = find_code_checks(run.reading, run.segments, n_steps)
    restating = find_restating(run.reading, run.segments, run.facts, sentences, n_steps)
    others = values_of_others(run.reading, run.segments, run.facts.given, sentences, n_steps)
    second = second_answers(run.reading, run.segments, run.facts.given, sentences, n_steps)
    hearing = find_hearing(trace, run.steps, run.owner, n_agents)
    yield from (
        ("call misfits", calls.misfit),
        ("same call, other result", calls.other_result),
        ("other call, same result", calls.stale_result),
        ("result fails", calls.fails),
        ("fails for good", calls.fails_for_good),
        ("result gives orders", (calls.orders > 0).astype(np.float64)),
        ("result is odd", calls.odd_result),
        ("unexplained numbers", figures.unexplained),
        ("a number nothing explains", (figures.unexplained > 0).astype(np.float64)),
        ("mistakable numbers", figures.mistakable),
        ("a digit slips", slipped_digits(run.reading, run.segments, sentences, n_steps)),
        ("a mistakable number", (figures.mistakable > 0).astype(np.float64)),
        ("numbers of others", numbers),
        ("a value of others", others),
        ("ends on another answer", second),
        ("its code breaks", code.breaks),
        ("its code lacks a number", code.lacks_number),
        ("its code has a new number", code.new_number),
        ("leaves out what the task gives", restating.omits),
        ("leaves out for good", restating.omits_for_good),
        ("leaves out names of the task", restating.omits_names),
        ("leaves out a name for good", restating.omits_names_for_good),
        ("turns a comparison round", restating.turns_round),
        ("rewords a rule", restating.rewords),
        ("is refuted", corrections.refuted),
        ("refutes what is right", corrections.refutes_right),
        ("refutes what is wrong", corrections.refutes_wrong),
        ("a wrong sum stands", corrections.stands),
        ("alters another's code", altered_code(run.reading, run.segments, n_steps)),
        ("picks the right one", picks.right),
        ("picks a wrong one", picks.wrong),
        ("picks what was refused", picks.refused),
        ("lacks something", lacking.said.lacks),
        ("is the first to lack it", lacking.said.first),
        ("lacks what was said", lacking.said.known),
        ("lacks what the task gives", lacking.said.given),
        ("drops what is lacked later", lacking.said.drops),
        ("lacked later", lacking.said.later),
        ("only names something", lacking.named.lacks),
        ("is the first to only name it", lacking.named.first),
        ("only names what was said", lacking.named.known),
        ("only names what the task gives", lacking.named.given),
        ("drops what is only named later", lacking.named.drops),
        ("hears", hearing.hears),
        ("misses what it heard", hearing.misses),
        ("is heard", hearing.heard),
        ("is addressed to", hearing.addressed),
        ("is answered by whom it addresses", hearing.answered),
    )


def summed(found: Mapping[str, Floats], decides: Mask) -> Iterator[tuple[str, Floats]]:
    """Tell which steps are odd in any way, and which is the first."""
    odd = np.any([found[name] > _LEAST for name in _ODD], axis=0) & decides
    before = np.cumsum(odd) - odd
    yield "is odd", odd.astype(np.float64)
    yield "is the first odd one", (odd & (before == 0)).astype(np.float64)
    yield "is odd and reaches the end", (odd & (found["reaches the end"] > 0)).astype(np.float64)
    yield "odd before it", before / max(odd.sum(), 1)
