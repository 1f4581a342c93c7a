"""What a step states: where it comes from, what it contradicts, what it leads to and what it is like.

Dims: N merged steps; every value is (N,).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from blamespan_tracer.representation.analysis import Analysis, added
from blamespan_tracer.representation.claims import Floats, is_common
from blamespan_tracer.representation.reading import Flag, Mask, is_number

__all__ = ["contradictions", "influence", "likeness", "provenance"]


def provenance(run: Analysis) -> Iterator[tuple[str, Floats]]:
    """Return where each step's claims come from."""
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
    is_routine = np.isin(claims.segment * len(run.reading.tokens) + claims.token[claims.claim], run.routine)
    is_common = np.array(
        [_is_common(run.reading.tokens[token]) for token in claims.token.tolist()] or [False], np.bool_
    )
    in_call = said & segments.is_call[claims.segment] & ~is_routine & ~is_common[claims.claim]
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


def _is_common(token: str) -> bool:
    return is_number(token) and is_common(float(token))


def _uptake(run: Analysis, is_fresh: Mask, fresh: Floats) -> Iterator[tuple[str, Floats]]:
    """Return how much of what a step brings in, by word or by tool, is used later."""
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
    """Return how many of a step's words are new, how many go on, and how many of the task's it has."""
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


def contradictions(run: Analysis) -> Iterator[tuple[str, Floats]]:
    """Return what it contradicts, and what contradicts it."""
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
    against = np.maximum.reduce([value for name, value in flags.items() if name.startswith("contradicts ")])
    yield "contradicts and stands", against * (1 - flags["overridden"])
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
    gives = np.flatnonzero(has & (answer == final))[:1]
    yield "first to give the last answer", np.isin(np.arange(len(answer)), gives).astype(np.float64)
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


def influence(run: Analysis) -> Iterator[tuple[str, Floats]]:
    """Return what the run's last decision owes to each step, through all that lies between."""
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


def likeness(run: Analysis) -> Iterator[tuple[str, Floats]]:
    """Return what it is like, and what of it was said before or is said again."""
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
