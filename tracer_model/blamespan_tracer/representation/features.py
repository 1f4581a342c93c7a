"""What stands out about each step, against the other steps of its run.

Every feature is scale-free: a share, a flag, a cosine, or a standard score among the decisions of the run
(name ending in `, z`). None tells a step's number, a name, or how long the run is.

Dims: N merged steps, F features.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.representation.analysis import Analysis
from blamespan_tracer.representation.claims import Floats
from blamespan_tracer.representation.cues import CUES
from blamespan_tracer.representation.manner import structure, surface, trouble
from blamespan_tracer.representation.reading import Mask
from blamespan_tracer.representation.signs.oddities import oddities, summed
from blamespan_tracer.representation.substance import contradictions, influence, likeness, provenance

__all__ = ["STEP_FEATURES", "step_features"]

_ALIKE = 1e-9
"""Values that spread less are equal: they differ by rounding."""

_CLIP = 4.0
"""Standard scores end here: in a long run one odd step may stand 50 deviations out."""

_RATES = tuple(f"{cue} words" for cue in CUES)
_FLAGS = (
    *("asks last", "has code", "is call", "is plan", "is handoff", "is memory", "is termination", "has result"),
    *("status is error", "raised", "answers a question", "follows another"),
    *("error in result", "error before", "error after", "says error after error"),
    *("says end", "hedges", "objects", "agrees", "checks", "reaches the end"),
    *("contradicts the task", "contradicts a result", "contradicts another", "contradicts itself"),
    *("contradicted by a result", "contradicted by another", "overridden", "sum is wrong", "value is left later"),
    *("answer is the last one", "answer is its last one", "no answer"),
    *("says nothing", "same call before", "ends the run", "names nobody new"),
    *("result fails", "fails for good", "result gives orders", "a number nothing explains", "a mistakable number"),
    *("other call, same result", "is refuted", "refutes what is right", "refutes what is wrong", "a wrong sum stands"),
    *("lacks something", "is the first to lack it", "lacks what was said", "lacks what the task gives"),
    *("drops what is lacked later", "only names something", "is the first to only name it", "only names what was said"),
    *("only names what the task gives", "drops what is only named later", "alters another's code"),
    *("picks the right one", "picks a wrong one", "picks what was refused", "a value of others"),
    *("its result is told of another", "tells a result of another", "has another tool's arguments"),
    "says the task without a name",
    *(
        "ends on another answer",
        "breaks off",
        "its code breaks",
        "its code lacks a number",
        "its code has a new number",
    ),
    *(
        "leaves out for good",
        "leaves out a name for good",
        "turns a comparison round",
        "rewords a rule",
        "a digit slips",
    ),
    *("first to give the last answer", "contradicts and stands", "is answered by whom it addresses"),
    *("is odd", "is the first odd one", "is odd and reaches the end"),
    *("carries the last answer", "works out the last answer", "begins the last answer"),
    *("is odd and carries the last answer", "is the first odd one that carries it"),
)
_SHARES = (
    *("words of the run", "steps of its agent", "task words covered", "task claims covered", "code share"),
    *("new claims", "new numbers", "new names", "unknown arguments", "claims from task", "claims from results"),
    *("claims from others", "claims from itself", "result claims used", "own claims used later", "users of its claims"),
    *("new words", "words taken up later", "support by others", "answer shared by others", "end owes to it"),
    *("objections to it", "objections by it", "agreement after", "sums wrong"),
    *("said by itself before", "said by others before", "said by task or tool before", "said again later"),
    *("like the task", "like the step before", "like the step after", "like its own before", "like its own others"),
    *("like the others", "like the plan", "like the end", "like the last result"),
    *("call misfits", "same call, other result", "unexplained numbers", "mistakable numbers"),
    *("numbers of others", "lacked later", "leaves out what the task gives", "leaves out names of the task"),
    *("hears", "misses what it heard", "is heard", "is addressed to", "is followed", "odd before it"),
)
_SIZES = (
    "result is odd",
    "words",
    "characters",
    "claims",
    "numbers",
    "results' words",
    "duration",
    "tokens written",
    "tokens read",
)
_SCORED = (*_SIZES, *_RATES, *(name for name in _SHARES if name not in ("words of the run", "steps of its agent")))

STEP_FEATURES = (
    *_FLAGS,
    *_SHARES,
    *(f"{name}, z" for name in _SCORED),
)
"""What each column means."""


def step_features(run: Analysis) -> NDArray[np.float32]:
    """Compute the (N, F) features of a run, of what `analyse` found in it."""
    found: dict[str, Floats] = {}
    for part in (surface, structure, trouble, provenance, contradictions, influence, likeness):
        found.update(part(run))
    found.update(oddities(run))
    found.update(summed(found, run.decides))
    if not run.steps:
        return np.zeros((0, len(STEP_FEATURES)), np.float32)
    plain = np.stack([found[name] for name in (*_FLAGS, *_SHARES)], axis=1)
    scored = _scored(np.stack([found[name] for name in _SCORED], axis=1), run.decides)
    table = np.concatenate([plain, scored], axis=1)
    table[~run.decides] = 0.0
    return table.astype(np.float32)


def _scored(table: Floats, decides: Mask) -> Floats:
    """Return each value its standard score among the decisions of the run; 0 where all are alike."""
    if decides.sum() < 2:
        return np.zeros_like(table)
    judged = table[decides]
    spread = judged.std(axis=0)
    scores: Floats = (table - judged.mean(axis=0)) / np.where(spread > _ALIKE, spread, np.inf)
    return scores.clip(-_CLIP, _CLIP)
