"""What stands out about each step, against the other steps of its run: features, found by their names.

Every feature is scale-free: a share, a flag, a cosine, or a standard score among the decisions of the run (name ending
in `, z`). None tells a step's number, a name, or how long the run is. A check adds three.

Dims: N merged steps, F features, K checks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.alternatives.network.evidence import EVIDENCE
from blamespan_tracer.alternatives.network.representation.analysis import Analysis, sum_by
from blamespan_tracer.alternatives.network.representation.claims import Floats
from blamespan_tracer.alternatives.network.representation.lineage import find_lineage
from blamespan_tracer.alternatives.network.representation.reading import Flag, Mask
from blamespan_tracer.checks.check import Check, CheckResult
from blamespan_tracer.cues import CUES

_ALIKE = 1e-9
"""Values that spread less are equal: they differ by rounding."""

_CLIP = 4.0
"""Standard scores end here: in a long run one odd step may stand 50 deviations out."""

_SCORE = ", z"
"""Ends the name of a standard score."""

_FLAGS = (
    *("asks last", "has code", "is call", "is plan", "is handoff", "is memory", "is termination", "has result"),
    *("status is error", "raised", "answers a question", "follows another"),
    *("error in result", "error before", "error after", "says error after error"),
    *("says end", "hedges", "objects", "agrees", "checks", "reaches the end", "value is left later"),
    *("answer is the last one", "answer is its last one", "no answer", "first to give the last answer"),
    *("says nothing", "same call before", "ends the run", "names nobody new", "is answered by whom it addresses"),
    *("is odd", "is the first odd one", "is odd and reaches the end"),
    *("carries the last answer", "works out the last answer", "begins the last answer"),
    *("is odd and carries the last answer", "is the first odd one that carries it"),
)
_SHARES = (
    *("words of the run", "steps of its agent", "task words covered", "task claims covered", "code share"),
    *("new claims", "new numbers", "new names", "claims from task", "claims from results"),
    *("claims from others", "claims from itself", "result claims used", "own claims used later", "users of its claims"),
    *("new words", "words taken up later", "support by others", "answer shared by others", "end owes to it"),
    *("objections to it", "objections by it", "agreement after"),
    *("said by itself before", "said by others before", "said by task or tool before", "said again later"),
    *("like the task", "like the step before", "like the step after", "like its own before", "like its own others"),
    *("like the others", "like the plan", "like the end", "like the last result"),
    *("hears", "misses what it heard", "is heard", "is addressed to", "is followed", "odd before it"),
)
_SIZES = (
    *("result is odd", "words", "characters", "claims", "numbers", "results' words", "duration"),
    *("tokens written", "tokens read"),
)
_EVIDENCE = tuple(name for evidence in EVIDENCE for name in evidence.names if name not in _SIZES)
_SCORED = (
    *_SIZES,
    *(f"{cue} words" for cue in CUES),
    *(name for name in _SHARES if name not in ("words of the run", "steps of its agent")),
    *(name for evidence in EVIDENCE for name in evidence.names if name in evidence.shares),
)

STEP_FEATURES = (*_FLAGS, *_SHARES, *_EVIDENCE, *(f"{name}{_SCORE}" for name in _SCORED))
"""The features of a step, but for those of checks."""

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
"""What says, each by itself, that a step is odd. Networks learnt what these come to together."""

_ASPECTS = ("broken", "first", "so far")
"""What a model sees of a check."""


def step_features(run: Analysis, names: Sequence[str] = STEP_FEATURES) -> NDArray[np.float32]:
    """Return the (N, F) features of a run that have these *names*, in their order; 0 where a step cannot be blamed."""
    if not run.steps or not names:
        return np.zeros((len(run.steps), len(names)), np.float32)
    is_score = np.array([name.endswith(_SCORE) for name in names])
    wanted = [name.removesuffix(_SCORE) for name in names]
    columns: dict[str, Floats] = {}
    for describe in (*_DESCRIPTIONS, *(evidence.describe for evidence in EVIDENCE)):
        columns.update(describe(run))
    columns.update(_sum_up(columns, run.decides))
    table = np.stack([columns[name] for name in wanted], axis=1).astype(np.float64)
    table[:, is_score] = _standardise(table[:, is_score], run.decides)
    table[~run.decides] = 0.0
    return table.astype(np.float32)


def _standardise(table: Floats, decides: Mask) -> Floats:
    """Return each value's standard score among the decisions of the run; 0 where all are alike."""
    if decides.sum() < 2:
        return np.zeros_like(table)
    own = table[decides]
    spread = own.std(axis=0)
    scores: Floats = (table - own.mean(axis=0)) / np.where(spread > _ALIKE, spread, np.inf)
    return scores.clip(-_CLIP, _CLIP)


def _sum_up(columns: Mapping[str, Floats], decides: Mask) -> Iterator[tuple[str, Floats]]:
    """Return which steps are odd in any way, and which is the first."""
    is_odd = np.any([columns[name] > _ALIKE for name in _ODD], axis=0) & decides
    before = np.cumsum(is_odd) - is_odd
    yield "is odd", is_odd.astype(np.float64)
    yield "is the first odd one", (is_odd & (before == 0)).astype(np.float64)
    yield "is odd and reaches the end", (is_odd & (columns["reaches the end"] > 0)).astype(np.float64)
    yield "odd before it", before / max(is_odd.sum(), 1)
    carries = is_odd & (columns["carries the last answer"] > 0)
    yield "is odd and carries the last answer", carries.astype(np.float64)
    yield "is the first odd one that carries it", (carries & (np.cumsum(carries) == 1)).astype(np.float64)


def name_check_features(check: Check) -> tuple[str, ...]:
    """Return the names of the three columns that a check has."""
    return tuple(f"{check.name}: {aspect}" for aspect in _ASPECTS)


def check_features(checks: Sequence[Check], results: Sequence[CheckResult], run: Analysis) -> NDArray[np.float32]:
    """Lay out the results of checks on the merged steps of a run.

    Args:
        checks: The K checks, whose order is that of the columns.
        results: What they come to on the run; those of other checks are left out.
        run: The same run.

    Returns:
        (N, 3 K) float32: for each check whether the step breaks it (1, or 0.5 where that is left open), whether it
        is the first to do so, and which share of all that breaks it has come by then, 1 from the last on.
    """
    row_of = {step.index: row for row, merged in enumerate(run.steps) for step in merged.origins}
    column_of = {check.name: 3 * number for number, check in enumerate(checks)}
    table = np.zeros((len(run.steps), 3 * len(checks)), np.float32)
    for result in results:
        if result.step in row_of and result.check.name in column_of and result.outcome != "pass":
            cell = row_of[result.step], column_of[result.check.name]
            table[cell] = max(table[cell], 1.0 if result.outcome == "fail" else 0.5)
    broken = table[:, ::3]
    so_far = np.cumsum(broken, axis=0)
    whole = so_far[-1:] if len(run.steps) else so_far
    table[:, 1::3] = (broken > 0) & (so_far == broken)
    table[:, 2::3] = so_far / np.where(whole > 0, whole, 1)
    return table


def _describe_words(run: Analysis) -> Iterator[tuple[str, Floats]]:
    """Return how it is said: which words hint at what, how long, in code, as a question."""
    reading, is_said = run.reading, run.segments.is_said
    words = run.per_step(reading.count(reading.has(Flag.WORD)), is_said)
    size = words.clip(min=1)
    cues = {cue: run.per_step(reading.cue[:, column], is_said) for column, cue in enumerate(CUES)}
    yield from ((f"{cue} words", counts / size) for cue, counts in cues.items())
    for name, cue in (("says end", "end"), ("hedges", "hedge"), ("objects", "object")):
        yield name, (cues[cue] > 0).astype(np.float64)
    yield "agrees", ((cues["agree"] > 0) & (cues["object"] == 0)).astype(np.float64)
    yield "checks", (cues["check"] > 0).astype(np.float64)
    yield "words", np.log1p(words)
    yield "characters", np.log1p([sum(len(step.content) for step in merged.origins) for merged in run.steps])
    yield "words of the run", words / max(words[run.decides].sum(), 1)
    in_code = run.per_step(reading.count(reading.in_code), is_said)
    tokens = run.per_step(reading.count(np.ones(len(reading.token), np.bool_)), is_said)
    yield "code share", in_code / tokens.clip(min=1)
    yield "has code", (run.per_step(reading.count(reading.has(Flag.FENCE)), is_said) > 0).astype(np.float64)
    asks = _mark_last_questions(run)
    yield "asks last", asks.astype(np.float64)
    before = np.concatenate([[False], asks[:-1]])
    yield "answers a question", before.astype(np.float64)
    yield "says nothing", (words == 0).astype(np.float64)
    yield "results' words", np.log1p(run.per_step(reading.count(reading.has(Flag.WORD)), run.segments.is_result))


def _mark_last_questions(run: Analysis) -> Mask:
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


def _describe_kind(run: Analysis) -> Iterator[tuple[str, Floats]]:
    """Return what kind of step it is, and where it stands among its agent's."""
    kinds = [{step.kind for step in merged.origins} for merged in run.steps]
    for name, kind in (
        ("is call", "tool_call"),
        ("is plan", "plan"),
        ("is handoff", "handoff"),
        ("is memory", "memory"),
        ("is termination", "termination"),
    ):
        yield name, np.array([kind in of for of in kinds], np.float64)
    yield "has result", np.array([bool(merged.results) for merged in run.steps], np.float64)
    yield "status is error", np.array([any(s.status == "error" for s in m.origins) for m in run.steps], np.float64)
    yield "raised", np.array([any(s.error for s in m.origins) for m in run.steps], np.float64)
    taken = np.bincount(run.agent[run.decides], minlength=int(run.agent.max(initial=0)) + 1)
    yield "steps of its agent", taken[run.agent] / max(run.decides.sum(), 1)
    yield "follows another", np.concatenate([[0.0], (run.agent[1:] != run.agent[:-1]).astype(np.float64)])[: len(kinds)]
    durations = [sum(s.end_ns - s.start_ns for s in m.origins) / 1e9 for m in run.steps]
    yield "duration", np.log1p(np.array(durations, np.float64).clip(0, 1e9))
    usage = [[s.usage for s in m.origins if s.usage] for m in run.steps]
    for name, spent in (
        ("tokens written", [sum(u.output_tokens for u in of) for of in usage]),
        ("tokens read", [sum(u.input_tokens for u in of) for of in usage]),
    ):
        yield name, np.log1p(np.array(spent, np.float64).clip(0, 1e12))
    earlier_calls: set[tuple[str, str]] = set()
    repeats = np.zeros(len(kinds))
    for row, merged in enumerate(run.steps):
        calls = {(merged.agent, step.content) for step in merged.origins if step.kind == "tool_call"}
        repeats[row] = bool(calls & earlier_calls)
        earlier_calls |= calls
    yield "same call before", repeats
    last = np.flatnonzero(run.decides)[-1:]
    yield "ends the run", np.isin(np.arange(len(kinds)), last).astype(np.float64)


def _describe_trouble(run: Analysis) -> Iterator[tuple[str, Floats]]:
    """Return what went wrong at it and around it, and who objects."""
    error = CUES.index("error")
    cue = run.reading.cue[:, error]
    status = np.array(
        [any(s.status == "error" or s.error for s in (*m.origins, *m.results)) for m in run.steps], np.bool_
    )
    in_result = (run.per_step(cue, run.segments.is_result) > 0) | status[: len(run.steps)]
    in_words = run.per_step(cue, run.segments.is_said) > 0
    anything = in_result | in_words
    yield "error in result", in_result.astype(np.float64)
    yield "error before", np.concatenate([[0.0], anything[:-1]])[: len(anything)].astype(np.float64)
    after = np.concatenate([anything[1:], [False]])[: len(anything)]
    yield "error after", after.astype(np.float64)
    yield (
        "says error after error",
        (in_words & np.concatenate([[False], in_result[:-1]])[: len(in_words)]).astype(np.float64),
    )
    n_objections = max(len(run.objected), 1)
    yield "objections to it", np.bincount(run.objected, minlength=len(run.steps)) / n_objections
    yield "objections by it", np.bincount(run.objecting, minlength=len(run.steps)) / n_objections
    agree = CUES.index("agree")
    agrees = (run.per_step(run.reading.cue[:, agree], run.segments.is_said) > 0) & run.decides
    following = np.concatenate([agrees[1:] & (run.agent[1:] != run.agent[:-1]), [False]])[: len(agrees)]
    yield "agreement after", following.astype(np.float64)


def _describe_provenance(run: Analysis) -> Iterator[tuple[str, Floats]]:
    """Return where each step's claims come from."""
    claims, segments, n_steps = run.claims, run.segments, len(run.steps)
    owner, source = segments.owner[claims.segment], segments.owner[claims.source]
    is_said = segments.is_said[claims.segment]
    is_earlier = is_said & (claims.segment != claims.source) & (source != owner)

    def total(of: Mask) -> Floats:
        return sum_by(owner[of], claims.weight[of], n_steps)

    stated = total(is_said)
    whole = np.where(stated > 0, stated, 1.0)
    is_fresh = run.is_brought_in
    yield "claims", np.log1p(np.bincount(owner[is_said], minlength=n_steps))
    yield "numbers", np.log1p(np.bincount(owner[is_said & claims.is_number], minlength=n_steps))
    yield "new claims", total(is_fresh) / whole
    yield "new numbers", total(is_fresh & claims.is_number) / whole
    new_names = total(is_fresh & ~claims.is_number)
    yield "new names", new_names / whole
    yield "names nobody new", (new_names == 0).astype(np.float64)
    is_of_user, is_of_tool = segments.is_given[claims.source], segments.is_result[claims.source]
    yield "claims from task", total(is_said & is_of_user) / whole
    yield "claims from results", total(is_said & is_of_tool) / whole
    is_own = segments.speaker[claims.source] == segments.speaker[claims.segment]
    yield "claims from others", total(is_earlier & ~is_of_user & ~is_of_tool & ~is_own) / whole
    yield "claims from itself", total(is_earlier & ~is_of_user & ~is_of_tool & is_own) / whole
    of_task = (segments.owner[claims.source] < 0) & is_said
    asked = claims.weight[claims.segment == 0].sum()
    yield "task claims covered", total(of_task) / max(asked, 1e-9) if asked > 0 else np.zeros(n_steps)
    yield from _describe_uptake(run, is_fresh, total(is_fresh))
    yield from _describe_new_words(run)


def _describe_uptake(run: Analysis, is_fresh: Mask, fresh: Floats) -> Iterator[tuple[str, Floats]]:
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


def _describe_new_words(run: Analysis) -> Iterator[tuple[str, Floats]]:
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


def _describe_support(run: Analysis) -> Iterator[tuple[str, Floats]]:
    """Return who else states the same, and what it comes to."""
    support = np.where(np.isnan(run.facts.support), 0.5, run.facts.support)
    has_support = run.segments.is_said & ~np.isnan(run.facts.support)
    n_segments = run.per_step(has_support, run.segments.is_said)
    shares = run.per_step(support, has_support) / n_segments.clip(min=1)
    yield "support by others", np.where(n_segments > 0, shares, 0.5)
    yield from _describe_answers(run)


def _describe_answers(run: Analysis) -> Iterator[tuple[str, Floats]]:
    """Compare what each decision comes to with what the others, its agent and the run come to."""
    answer = np.full(len(run.steps), -1, np.int64)
    answering = np.flatnonzero(run.segments.is_said & (run.facts.answer >= 0) & (run.segments.owner >= 0))
    answer[run.segments.owner[answering]] = run.facts.answer[answering]
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


def _describe_influence(run: Analysis) -> Iterator[tuple[str, Floats]]:
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


def _describe_likeness(run: Analysis) -> Iterator[tuple[str, Floats]]:
    """Return what it is like, and what of it was said before or is said again."""
    same, repetition = run.similarity, run.repetition
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
        ("said by itself before", repetition.own),
        ("said by others before", repetition.others),
        ("said by task or tool before", repetition.sources),
        ("said again later", repetition.later),
    )


_MAX_INPUTS = 256
"""Inputs of a step that are looked at, the latest: time stays linear in the length of a run."""


def _describe_hearing(run: Analysis) -> Iterator[tuple[str, Floats]]:
    """Return who was given what; 0 where the trace tells nothing of inputs and recipients."""
    steps, n_steps, n_agents = run.steps, len(run.steps), int(run.agent.max(initial=-1)) + 1
    hears, misses, n_hearers, addressed, answered = np.zeros((5, n_steps))
    followers: list[set[str]] = [set() for _ in steps]
    inputs_before: dict[str, frozenset[int]] = {}
    owners = np.array(run.owner, np.int64)
    for row, merged in enumerate(steps):
        first = merged.origins[0]
        latest = np.array(first.inputs[-_MAX_INPUTS:], np.int64)
        inputs = frozenset(owners[latest].tolist()) - {row}
        if first.index:
            hears[row] = min(len(first.inputs) / first.index, 1.0)
        before = inputs_before.get(merged.agent, frozenset())
        misses[row] = len(before - inputs) / max(len(before), 1) if inputs or before else 0.0
        if merged.can_be_blamed and inputs:
            n_hearers[list(inputs)] += 1
            followers[owners[first.inputs[-1]]].add(merged.agent)
        inputs_before[merged.agent] = inputs
        names = {name for step in merged.origins for name in step.recipients}
        addressed[row] = min(len(names) / max(n_agents - 1, 1), 1.0)
        following = steps[row + 1].agent if row + 1 < n_steps else ""
        answered[row] = float(following in names)
    n_followers = np.array([len(own - {step.agent}) for step, own in zip(steps, followers, strict=True)], np.float64)
    after = np.clip(run.decides.sum() - np.cumsum(run.decides), 1, None)
    yield "hears", hears
    yield "misses what it heard", misses
    yield "is heard", np.minimum(n_hearers / after, 1.0)
    yield "is addressed to", addressed
    yield "is followed", n_followers / max(n_agents - 1, 1)
    yield "is answered by whom it addresses", answered


def _describe_lineage(run: Analysis) -> Iterator[tuple[str, Floats]]:
    """Return what the last answer rests on."""
    lineage = find_lineage(run)
    yield "carries the last answer", lineage.carries
    yield "works out the last answer", lineage.works_out
    yield "begins the last answer", lineage.begins


_DESCRIPTIONS = (
    *(_describe_words, _describe_kind, _describe_trouble, _describe_provenance, _describe_support),
    *(_describe_influence, _describe_likeness, _describe_lineage, _describe_hearing),
)
