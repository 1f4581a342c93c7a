"""Numbers that a step brings in, and whether anything explains them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from blamespan_tracer.checks.check import Finding, check
from blamespan_tracer.checks.examined_run import ExaminedRun
from blamespan_tracer.representation.claims import Floats, is_common
from blamespan_tracer.representation.equations import equations
from blamespan_tracer.representation.reading import spelled
from blamespan_tracer.representation.signs.figures import is_slip

_MAX_KNOWN = 60
"""Numbers that one may have been worked out from: those of the step, and the latest before it."""


@check("number-has-source", "A number stands in what is known, or follows from it.", mode="blamespan:X1", trust=0.4)
def numbers_have_a_source(run: ExaminedRun) -> Iterator[Finding]:
    """Look for numbers that nothing before them has, and that no two known numbers give."""
    claims, segments, inputs = run.analysis.claims, run.analysis.segments, run.analysis.inputs
    is_judged = claims.is_number & segments.is_said[claims.segment] & ~claims.in_code
    is_judged &= ~segments.is_call[claims.segment]
    numbers = np.flatnonzero(claims.is_number)
    values = np.zeros(len(claims.claim))
    values[numbers] = [float(token) for token in run.spell_claims(claims.claim[numbers])]
    for segment in np.unique(claims.segment[is_judged]).tolist():
        is_fresh = is_judged & (claims.segment == segment) & (claims.source == segment)
        own_inputs = [float(number) for number in inputs.few_until(segment)]
        known = np.concatenate([values[numbers[claims.segment[numbers] <= segment][-_MAX_KNOWN:]], own_inputs])
        step = run.trace.steps[segment - 1]
        sides = {side for sum_ in equations(run.read_text(step)) for side in (sum_.left, sum_.right)}  # see `sum-holds`
        unknown = [
            row for row in np.flatnonzero(is_fresh).tolist() if not is_common(values[row]) and values[row] not in sides
        ]
        sources = inputs.numbers_until(segment)
        odd = [row for row in unknown if not _is_derived(values[row], known) or is_slip(spelled(values[row]), sources)]
        token = run.spell_claims(claims.claim[odd[:1]])[0] if odd else ""
        quote = run.sentence_with(step, token) if odd else ""
        yield Finding(step.index, "fail" if odd else "pass", quote, f"nothing before it gives {token!r}")


def _is_derived(value: float, known: Floats) -> bool:
    """Check whether two of *known* by a basic operation, or several in a row added up, give *value*, as rounded."""
    others = known[known != value]
    sums = np.concatenate([[0.0], np.cumsum(others)])
    left, right = others[:, None], others[None, :]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        tables = (
            *(left + right, left - right, left * right, left / right, left * right / 100),
            sums[:, None] - sums[None, :],
        )
        return any(bool((np.abs(table - value) <= abs(value) * 0.005 + 1e-9).any()) for table in tables)
