"""How a step is said, what kind of step it is, and what trouble is around it: features by name.

Dims: N merged steps; every value is (N,).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from blamespan_tracer.representation.analysis import Analysis
from blamespan_tracer.representation.claims import Floats
from blamespan_tracer.representation.cues import CUES
from blamespan_tracer.representation.reading import Flag, Mask, Reading

__all__ = ["structure", "surface", "trouble"]

_LEAST_CHARS, _MOST_NAME = 60, 80
"""What is shorter may be no sentence; and of a name, the characters that are looked at."""


def surface(run: Analysis) -> Iterator[tuple[str, Floats]]:
    """Return how it is said: which words hint at what, how long, in code, as a question."""
    reading, said = run.reading, run.segments.is_said
    words = run.per_step(reading.count(reading.has(Flag.WORD)), said)
    size = words.clip(min=1)
    cues = {cue: run.per_step(reading.cue[:, place], said) for place, cue in enumerate(CUES)}
    yield from ((f"{cue} words", counts / size) for cue, counts in cues.items())
    for name, cue in (("says end", "end"), ("hedges", "hedge"), ("objects", "object")):
        yield name, (cues[cue] > 0).astype(np.float64)
    yield "agrees", ((cues["agree"] > 0) & (cues["object"] == 0)).astype(np.float64)
    yield "checks", (cues["check"] > 0).astype(np.float64)
    yield "words", np.log1p(words)
    yield "characters", np.log1p([sum(len(step.content) for step in merged.said) for merged in run.steps])
    yield "words of the run", words / max(words[run.decides].sum(), 1)
    in_code = run.per_step(reading.count(reading.in_code), said)
    tokens = run.per_step(reading.count(np.ones(len(reading.token), np.bool_)), said)
    yield "code share", in_code / tokens.clip(min=1)
    yield "has code", (run.per_step(reading.count(reading.has(Flag.FENCE)), said) > 0).astype(np.float64)
    asks = _asks_last(run)
    yield "asks last", asks.astype(np.float64)
    before = np.concatenate([[False], asks[:-1]])
    yield "answers a question", before.astype(np.float64)
    yield "says nothing", (words == 0).astype(np.float64)
    broken = _break_off(reading, tuple({merged.agent.lower() for merged in run.steps} - {""}))
    yield "breaks off", (run.per_step(broken, said & ~run.segments.is_call) > 0).astype(np.float64)
    yield "results' words", np.log1p(run.per_step(reading.count(reading.has(Flag.WORD)), run.segments.is_result))


def _break_off(reading: Reading, names: tuple[str, ...]) -> Mask:
    """Return which segments end within a sentence, or within code: (G,).

    That is after a word that goes on ("of", "the"), or, if they are more than a few words, after any small letter; but
    not after the name of an agent, whose turn it is.
    """
    last_flags = np.zeros(len(reading.texts), np.int64)
    last_flags[reading.segment] = reading.flags
    found = []
    for text, flags, is_cut in zip(reading.texts, last_flags.tolist(), reading.is_cut.tolist(), strict=True):
        written = text.rstrip()
        end = written[-1:]
        goes_on = end.isalpha() and bool(flags & Flag.STOP)
        goes_on = goes_on or (end.islower() and len(text) >= _LEAST_CHARS)
        is_named = written[-_MOST_NAME:].lower().endswith(names)
        found.append((goes_on and not is_named) or (text.count("```") % 2 and not is_cut))
    return np.array(found, np.bool_)


def _asks_last(run: Analysis) -> Mask:
    """Return which steps end in a question, but for what is left of the line."""
    reading = run.reading
    asks = np.zeros(len(run.steps), np.bool_)
    marks = np.flatnonzero(reading.has(Flag.QUESTION | Flag.ENDS_SENTENCE) & (reading.flags != Flag.ENDS_SENTENCE))
    last = np.full(len(reading.texts), -1)
    ends = reading.has(Flag.WORD | Flag.NUMBER | Flag.QUESTION)
    last[reading.segment[ends]] = np.flatnonzero(ends)
    closing = np.isin(last, marks) & run.segments.is_said | (np.isin(last, marks) & run.segments.is_given)
    owner = run.segments.owner[closing]
    asks[owner[owner >= 0]] = True
    return asks


def structure(run: Analysis) -> Iterator[tuple[str, Floats]]:
    """Return what kind of step it is, and where it stands among its agent's."""
    kinds = [{step.kind for step in merged.said} for merged in run.steps]
    for name, kind in (
        ("is call", "tool_call"),
        ("is plan", "plan"),
        ("is handoff", "handoff"),
        ("is memory", "memory"),
        ("is termination", "termination"),
    ):
        yield name, np.array([kind in of for of in kinds], np.float64)
    yield "has result", np.array([bool(merged.results) for merged in run.steps], np.float64)
    yield "status is error", np.array([any(s.status == "error" for s in m.said) for m in run.steps], np.float64)
    yield "raised", np.array([any(s.error for s in m.said) for m in run.steps], np.float64)
    taken = np.bincount(run.agent[run.decides], minlength=int(run.agent.max(initial=0)) + 1)
    yield "steps of its agent", taken[run.agent] / max(run.decides.sum(), 1)
    yield "follows another", np.concatenate([[0.0], (run.agent[1:] != run.agent[:-1]).astype(np.float64)])[: len(kinds)]
    durations = [sum(s.end_ns - s.start_ns for s in m.said) / 1e9 for m in run.steps]
    yield "duration", np.log1p(np.array(durations, np.float64).clip(0, 1e9))
    usage = [[s.usage for s in m.said if s.usage] for m in run.steps]
    for name, spent in (
        ("tokens written", [sum(u.output_tokens for u in of) for of in usage]),
        ("tokens read", [sum(u.input_tokens for u in of) for of in usage]),
    ):
        yield name, np.log1p(np.array(spent, np.float64).clip(0, 1e12))
    seen: set[tuple[str, str]] = set()
    repeats = np.zeros(len(kinds))
    for place, merged in enumerate(run.steps):
        calls = {(merged.agent, step.content) for step in merged.said if step.kind == "tool_call"}
        repeats[place] = bool(calls & seen)
        seen |= calls
    yield "same call before", repeats
    last = np.flatnonzero(run.decides)[-1:]
    yield "ends the run", np.isin(np.arange(len(kinds)), last).astype(np.float64)


def trouble(run: Analysis) -> Iterator[tuple[str, Floats]]:
    """Return what went wrong at it and around it, and who objects."""
    error = CUES.index("error")
    cue = run.reading.cue[:, error]
    status = np.array([any(s.status == "error" or s.error for s in (*m.said, *m.results)) for m in run.steps], np.bool_)
    in_result = (run.per_step(cue, run.segments.is_result) > 0) | status[: len(run.steps)]
    said = run.per_step(cue, run.segments.is_said) > 0
    anything = in_result | said
    yield "error in result", in_result.astype(np.float64)
    yield "error before", np.concatenate([[0.0], anything[:-1]])[: len(anything)].astype(np.float64)
    after = np.concatenate([anything[1:], [False]])[: len(anything)]
    yield "error after", after.astype(np.float64)
    yield "says error after error", (said & np.concatenate([[False], in_result[:-1]])[: len(said)]).astype(np.float64)
    n_objections = max(len(run.objected), 1)
    yield "objections to it", np.bincount(run.objected, minlength=len(run.steps)) / n_objections
    yield "objections by it", np.bincount(run.objecting, minlength=len(run.steps)) / n_objections
    agree = CUES.index("agree")
    agrees = (run.per_step(run.reading.cue[:, agree], run.segments.is_said) > 0) & run.decides
    following = np.concatenate([agrees[1:] & (run.agent[1:] != run.agent[:-1]), [False]])[: len(agrees)]
    yield "agreement after", following.astype(np.float64)
    yield "sums wrong", run.wrong_sums / run.sums.clip(min=1)
    yield "sum is wrong", (run.wrong_sums > 0).astype(np.float64)
