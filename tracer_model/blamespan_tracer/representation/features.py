"""What stands out about each step, against the other steps of its run.

Every feature is scale-free: a share, a flag, a cosine, or a standard score among the decisions of the run
(name ending in `, z`). None tells a step's number, a name, or how long the run is.

Dims: G segments, N merged steps, F features.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.representation.analysis import Analysis, added
from blamespan_tracer.representation.claims import Floats
from blamespan_tracer.representation.cues import CUES
from blamespan_tracer.representation.reading import Flag, Mask

__all__ = ["STEP_FEATURES", "step_features"]

_ALIKE = 1e-9
"""Values that spread less are equal: they differ by rounding."""

_CLIP = 4.0
"""Standard scores end here: in a long run one odd step may stand 50 deviations out."""

_RATES = tuple(f"{cue} words" for cue in CUES)
_FLAGS = (
    *("asks last", "has code", "is call", "is plan", "is handoff", "is memory", "is termination", "has result"),
    *("status is error", "raised", "merged several", "answers a question", "follows another"),
    *("error in result", "error before", "error after", "says error after error"),
    *("says end", "hedges", "objects", "agrees", "checks", "reaches the end"),
    *("contradicts the task", "contradicts a result", "contradicts another", "contradicts itself"),
    *("contradicted by a result", "contradicted by another", "overridden", "sum is wrong", "value is left later"),
    *("answer is the last one", "answer is its last one", "no answer"),
    *("says nothing", "same call before", "ends the run", "names nobody new"),
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
)
_SIZES = ("words", "characters", "claims", "numbers", "results' words", "duration", "tokens written", "tokens read")
_SCORED = (*_SIZES, *_RATES, *(name for name in _SHARES if name not in ("words of the run", "steps of its agent")))

STEP_FEATURES = (
    *_FLAGS,
    *_SHARES,
    *(f"{name}, z" for name in _SCORED),
)
"""What each column means."""


def step_features(run: Analysis) -> NDArray[np.float32]:
    """Compute the (N, F) features of a run."""
    found: dict[str, Floats] = {}
    for part in (_surface, _structure, _trouble, _provenance, _contradictions, _influence, _similar):
        found.update(part(run))
    if not run.steps:
        return np.zeros((0, len(STEP_FEATURES)), np.float32)
    plain = np.stack([found[name] for name in (*_FLAGS, *_SHARES)], axis=1)
    scored = _scored(np.stack([found[name] for name in _SCORED], axis=1), run.decides)
    table = np.concatenate([plain, scored], axis=1)
    table[~run.decides] = 0.0
    return table.astype(np.float32)


def _scored(table: Floats, decides: Mask) -> Floats:
    """Give each value its standard score among the decisions of the run; 0 where all are alike."""
    if decides.sum() < 2:
        return np.zeros_like(table)
    judged = table[decides]
    spread = judged.std(axis=0)
    scores: Floats = (table - judged.mean(axis=0)) / np.where(spread > _ALIKE, spread, np.inf)
    return scores.clip(-_CLIP, _CLIP)


def _surface(run: Analysis) -> Iterator[tuple[str, Floats]]:
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
    yield "results' words", np.log1p(run.per_step(reading.count(reading.has(Flag.WORD)), run.segments.is_result))


def _asks_last(run: Analysis) -> Mask:
    """Tell which steps end in a question, but for what is left of the line."""
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


def _structure(run: Analysis) -> Iterator[tuple[str, Floats]]:
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
    yield "merged several", np.array([len(merged.said) > 1 for merged in run.steps], np.float64)
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


def _trouble(run: Analysis) -> Iterator[tuple[str, Floats]]:
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


def _provenance(run: Analysis) -> Iterator[tuple[str, Floats]]:
    """Tell where each step's claims come from."""
    claims, segments, n_steps = run.claims, run.segments, len(run.steps)
    owner, source = segments.owner[claims.segment], segments.owner[claims.source]
    said = segments.is_said[claims.segment]
    fresh = claims.segment == claims.source
    earlier = said & ~fresh & (source != owner)

    def total(of: Mask) -> Floats:
        return added(owner[of], claims.weight[of], n_steps)

    every = total(said)
    whole = np.where(every > 0, every, 1.0)
    is_fresh = said & (fresh | (source == owner)) & ~claims.in_code & ~segments.is_result[claims.source]
    yield "claims", np.log1p(np.bincount(owner[said], minlength=n_steps))
    yield "numbers", np.log1p(np.bincount(owner[said & claims.is_number], minlength=n_steps))
    yield "new claims", total(is_fresh) / whole
    yield "new numbers", total(is_fresh & claims.is_number) / whole
    new_names = total(is_fresh & ~claims.is_number)
    yield "new names", new_names / whole
    yield "names nobody new", (new_names == 0).astype(np.float64)
    in_call = said & segments.is_call[claims.segment]
    called = total(in_call)
    yield "unknown arguments", total(in_call & is_fresh) / np.where(called > 0, called, 1.0)
    from_given, from_result = segments.is_given[claims.source], segments.is_result[claims.source]
    yield "claims from task", total(said & from_given) / whole
    yield "claims from results", total(said & from_result) / whole
    same = segments.speaker[claims.source] == segments.speaker[claims.segment]
    yield "claims from others", total(earlier & ~from_given & ~from_result & ~same) / whole
    yield "claims from itself", total(earlier & ~from_given & ~from_result & same) / whole
    of_task = (segments.owner[claims.source] < 0) & said
    asked = claims.weight[claims.segment == 0].sum()
    yield "task claims covered", total(of_task) / max(asked, 1e-9) if asked > 0 else np.zeros(n_steps)
    yield from _uptake(run, is_fresh, total(is_fresh))
    yield from _words(run)


def _uptake(run: Analysis, is_fresh: Mask, fresh: Floats) -> Iterator[tuple[str, Floats]]:
    """Tell how much of what a step brings in, by word or by tool, is used later."""
    claims, segments, n_steps = run.claims, run.segments, len(run.steps)
    owner, source = segments.owner[claims.segment], segments.owner[claims.source]
    later = segments.is_said[claims.segment] & (source >= 0) & (source < owner)
    used = np.zeros(claims.n_claims, np.bool_)
    used[claims.claim[later]] = True
    taken = np.bincount(owner[is_fresh & used[claims.claim]], claims.weight[is_fresh & used[claims.claim]], n_steps)
    yield "own claims used later", taken / np.where(fresh > 0, fresh, 1.0)
    users = np.bincount(run.depends.source, minlength=n_steps)
    after = (run.decides.sum() - np.cumsum(run.decides)).clip(min=1)
    yield "users of its claims", (users / after).clip(max=1.0)
    brought = segments.is_result[claims.segment] & (claims.segment == claims.source)
    total = np.bincount(owner[brought], claims.weight[brought], n_steps)
    used_results = np.bincount(
        owner[brought & used[claims.claim]], claims.weight[brought & used[claims.claim]], n_steps
    )
    yield "result claims used", used_results / np.where(total > 0, total, 1.0)


def _words(run: Analysis) -> Iterator[tuple[str, Floats]]:
    """Tell how many of a step's words are new, how many go on, and how many of the task's it has."""
    reading, n_steps = run.reading, len(run.steps)
    at = np.flatnonzero(reading.has(Flag.WORD) & ~reading.has(Flag.STOP) & ~run.labels[reading.token])
    n_tokens = len(reading.tokens) + 1
    pair = np.unique((run.segments.owner[reading.segment[at]] + 1) * n_tokens + reading.token[at])
    row, token = pair // n_tokens, pair % n_tokens
    first, last = np.full(n_tokens, n_steps + 1), np.zeros(n_tokens, np.int64)
    np.minimum.at(first, token, row)
    np.maximum.at(last, token, row)
    size = np.bincount(row, minlength=n_steps + 1)[1:].clip(min=1)
    new = first[token] == row
    yield "new words", np.bincount(row[new], minlength=n_steps + 1)[1:] / size
    goes_on = new & (last[token] > row)
    n_new = np.bincount(row[new], minlength=n_steps + 1)[1:].clip(min=1)
    yield "words taken up later", np.bincount(row[goes_on], minlength=n_steps + 1)[1:] / n_new
    of_task = first[token] == 0
    yield "task words covered", np.bincount(row[of_task], minlength=n_steps + 1)[1:] / max((row == 0).sum(), 1)


def _contradictions(run: Analysis) -> Iterator[tuple[str, Floats]]:
    segments, n_steps = run.segments, len(run.steps)
    flags: Mapping[str, Floats] = {
        name: np.zeros(n_steps)
        for name in (
            *("contradicts the task", "contradicts a result", "contradicts another", "contradicts itself"),
            *("contradicted by a result", "contradicted by another", "overridden"),
        )
    }
    for conflict in run.facts.conflicts:
        earlier, later = int(segments.owner[conflict.earlier]), int(segments.owner[conflict.later])
        if segments.is_said[conflict.later]:
            kind = (
                "contradicts the task"
                if segments.is_given[conflict.earlier]
                else "contradicts a result"
                if segments.is_result[conflict.earlier]
                else "contradicts itself"
                if segments.speaker[conflict.earlier] == segments.speaker[conflict.later]
                else "contradicts another"
            )
            flags[kind][later] = 1.0
        if segments.is_said[conflict.earlier] and earlier != later:
            flags["overridden"][earlier] = 1.0
            by_result = "contradicted by a result" if segments.is_result[conflict.later] else "contradicted by another"
            if segments.is_result[conflict.later] or run.agent[earlier] != run.agent[later]:
                flags[by_result][earlier] = 1.0
    yield from flags.items()
    support = np.where(np.isnan(run.facts.support), 0.5, run.facts.support)
    known = run.segments.is_said & ~np.isnan(run.facts.support)
    n_known = run.per_step(known, run.segments.is_said)
    yield "support by others", np.where(n_known > 0, run.per_step(support, known) / n_known.clip(min=1), 0.5)
    yield from _answers(run)


def _answers(run: Analysis) -> Iterator[tuple[str, Floats]]:
    """Compare what each decision comes to with what the others, its agent and the run come to."""
    answer = np.full(len(run.steps), -1, np.int64)
    told = np.flatnonzero(run.segments.is_said & (run.facts.answer >= 0) & (run.segments.owner >= 0))
    answer[run.segments.owner[told]] = run.facts.answer[told]
    answer[~run.decides] = -1
    has = answer >= 0
    yield "no answer", (~has).astype(np.float64)
    final = answer[np.flatnonzero(has)[-1]] if has.any() else -1
    yield "answer is the last one", (has & (answer == final)).astype(np.float64)
    last_of = np.full(int(run.agent.max(initial=0)) + 1, -1)
    last_of[run.agent[has]] = answer[has]
    yield "answer is its last one", (has & (answer == last_of[run.agent])).astype(np.float64)
    width = len(run.reading.tokens) + 1
    times = np.bincount(answer[has], minlength=width)
    n_agents = len(last_of)
    _, which, counts = np.unique(run.agent[has] * width + answer[has], return_inverse=True, return_counts=True)
    by_own = counts[which]
    steps_of = np.bincount(run.agent[has], minlength=n_agents)
    others = has.sum() - steps_of[run.agent[has]]
    shared = np.zeros(len(answer))
    shared[has] = (times[answer[has]] - by_own) / others.clip(min=1)
    yield "answer shared by others", shared


def _influence(run: Analysis) -> Iterator[tuple[str, Floats]]:
    """Tell what the run's last decision owes to each step, through all that lies between."""
    n_steps = len(run.steps)
    owed = np.zeros(n_steps)
    decided = np.flatnonzero(run.decides)
    depends = run.depends
    if len(decided):
        with_sources = decided[np.isin(decided, depends.target)]
        owed[with_sources[-1] if len(with_sources) else decided[-1]] = 1.0
    into = np.bincount(depends.target, depends.weight, minlength=n_steps)
    for source, target, weight in zip(
        depends.source[::-1].tolist(), depends.target[::-1].tolist(), depends.weight[::-1].tolist(), strict=True
    ):
        if owed[target] > 0 and into[target] > 0:
            owed[source] += owed[target] * weight / into[target]
    yield "end owes to it", owed.clip(max=1.0)
    yield "reaches the end", (owed > 0).astype(np.float64)
    last_use = np.full(n_steps, -1)
    np.maximum.at(last_use, depends.source, depends.target)
    ends_early = (last_use >= 0) & (owed == 0)
    yield "value is left later", ends_early.astype(np.float64)


def _similar(run: Analysis) -> Iterator[tuple[str, Floats]]:
    same, said = run.similarity, run.repetition
    yield from (
        ("like the task", same.task),
        ("like the step before", same.before),
        ("like the step after", same.after),
        ("like its own before", same.own_before),
        ("like its own others", same.own),
        ("like the others", same.others),
        ("like the plan", same.plan),
        ("like the end", same.end),
        ("like the last result", same.result_before),
        ("said by itself before", said.own),
        ("said by others before", said.others),
        ("said by task or tool before", said.given),
        ("said again later", said.later),
    )
