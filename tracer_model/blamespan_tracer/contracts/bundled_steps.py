"""The bundled contracts on single steps."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator

import numpy as np

from blamespan.trace import Step
from blamespan_tracer.contracts.contract import Finding
from blamespan_tracer.contracts.run import Run
from blamespan_tracer.representation.claims import Floats, is_common
from blamespan_tracer.representation.equations import equations
from blamespan_tracer.representation.facts import Conflict
from blamespan_tracer.representation.reading import Ints, is_number, spelled
from blamespan_tracer.representation.signs.figures import is_slip

__all__ = [
    "arguments_are_known",
    "arguments_are_well_formed",
    "calls_are_new",
    "hand_offs_arrive",
    "numbers_have_a_source",
    "objections_are_heard",
    "own_words_stand",
    "results_are_believed",
    "speaks_for_itself",
    "steps_are_new",
    "sums_hold",
    "task_is_kept",
    "tool_errors_are_met",
]


def sums_hold(run: Run) -> Iterator[Finding]:
    """Work out written sums again."""
    for step in run.decisions:
        if step.kind == "tool_call":
            continue
        text = _read(step)
        found = equations(text)
        wrong = next((equation for equation in found if not equation.holds), None)
        if wrong is not None:
            yield Finding(step.index, "fail", text[wrong.start : wrong.end], f"comes to {wrong.left:.12g}")
        elif found:
            yield Finding(step.index, "pass")


def results_are_believed(run: Run) -> Iterator[Finding]:
    """Compare what agents state with what tools answered about the same subject."""
    segments = run.analysis.segments
    for conflict in run.analysis.facts.conflicts:
        if segments.is_result[conflict.earlier] and segments.is_said[conflict.later]:
            yield _contradiction(run, conflict, "a tool answered")


def task_is_kept(run: Run) -> Iterator[Finding]:
    """Compare what agents state with what the task says of the same subject."""
    for conflict in run.analysis.facts.conflicts:
        if conflict.earlier == 0 and _are_numbers(conflict) and run.analysis.segments.is_said[conflict.later]:
            yield _contradiction(run, conflict, "the task says")


def own_words_stand(run: Run) -> Iterator[Finding]:
    """Look for an agent that gives a subject another value than it did before, without a word of correction.

    What it gives another value time and again is a state that changes, like the part of a page on a screen.
    """
    segments = run.analysis.segments
    own = [
        conflict
        for conflict in run.analysis.facts.conflicts
        if segments.speaker[conflict.earlier] == segments.speaker[conflict.later] >= 0
        and segments.is_said[conflict.earlier]
        and segments.is_said[conflict.later]
    ]
    times = Counter((int(segments.speaker[conflict.later]), conflict.subject) for conflict in own)
    for conflict in own:
        changes = times[int(segments.speaker[conflict.later]), conflict.subject] >= _CHANGES
        if changes or run.hints(conflict.later - 1, "object", "redo", "contrast"):
            yield Finding(conflict.later - 1, "pass")
        else:
            yield _contradiction(run, conflict, "it said before")


_CHANGES = 3
"""Times that an agent gives one thing another value from which on it speaks of a state."""


def _contradiction(run: Run, conflict: Conflict, who: str) -> Finding:
    step = run.trace.steps[conflict.later - 1]  # segment 0 is the task
    earlier, later = conflict.values
    quote = run.sentence_with(step, *conflict.subject, later)
    is_shown = later in quote.lower().replace(",", "")
    is_invented = run.brings_in(step.index, later) and not conflict.is_computed and step.kind != "tool_call"
    subject = " ".join(conflict.subject)
    return Finding(
        step.index,
        "fail" if is_shown and is_invented else "inconclusive",
        quote,
        f"{who} {earlier[:60]!r} of {subject[:60]!r}, here it is {later[:60]!r}",
    )


def _are_numbers(conflict: Conflict) -> bool:
    """Check whether both values are numbers: of two names in a task, both may be right."""
    return is_number(conflict.values[1])


def steps_are_new(run: Run) -> Iterator[Finding]:
    """Look for messages that say again what the same agent said before."""
    repetition = run.analysis.repetition
    for place, merged in enumerate(run.analysis.steps):
        if not merged.can_be_blamed or any(step.kind == "tool_call" for step in merged.said):
            continue
        step = merged.said[0]
        if len(step.content) < _LEAST_CHARS:
            continue
        if repetition.own[place] > _REPEATED:
            yield Finding(step.index, "fail", step.content, f"{repetition.own[place]:.0%} of it was said before")
        else:
            yield Finding(step.index, "pass")


_REPEATED, _LEAST_CHARS = 0.9, 60


def calls_are_new(run: Run) -> Iterator[Finding]:
    """Look for calls made before by the same agent, with the same arguments, and answered without an error."""
    answered: set[tuple[str, str]] = set()
    for step in run.decisions:
        if step.kind != "tool_call":
            continue
        key = (step.agent, step.content)
        is_again = key in answered
        yield Finding(step.index, "fail" if is_again else "pass", step.content, "this was called and answered before")
        results = run.results_of.get(step.index, [])
        if results and not any(_is_error(run, result) for result in results):
            answered.add(key)


def tool_errors_are_met(run: Run) -> Iterator[Finding]:
    """Look at what an agent does after its tool failed: call again, say so, or go on as if nothing happened."""
    for call, results in run.results_of.items():
        asked = run.trace.steps[call]
        if not run.trace.can_be_blamed(asked) or not _is_error(run, results[-1]):
            continue
        step = run.next_own_decision(asked)
        if step is None:
            continue
        is_met = step.kind in ("tool_call", "handoff") or run.hints(step.index, *_MEETS_AN_ERROR)
        yield Finding(step.index, "pass" if is_met else "fail", step.content, "goes on although its tool failed")


_MEETS_AN_ERROR = ("error", "inability", "hedge", "object", "negation", "redo", "check")


def arguments_are_well_formed(run: Run) -> Iterator[Finding]:
    """Look for calls that tools refuse for their name or arguments, and for arguments that are broken JSON."""
    for step in run.decisions:
        if step.kind != "tool_call":
            continue
        refused = next((r for r in run.results_of.get(step.index, []) if _REFUSED.search(r.content[:2_000])), None)
        broken = _broken_json(step.content)
        if refused is not None or broken:
            yield Finding(step.index, "fail", step.content, "refused by the tool" if refused else "broken arguments")
        else:
            yield Finding(step.index, "pass")


_REFUSED = re.compile(
    r"(?i)unexpected keyword argument|missing \d{1,3} required|validation error|invalid (?:json|arguments?|tool)|"
    r"unknown (?:tool|function)|(?:tool|function) .{0,60}(?:does not exist|not found|is not available)|"
    r"not a valid tool|no such tool|JSONDecodeError"
)


def _broken_json(content: str) -> bool:
    """Check whether a call's arguments begin like a JSON object and are none."""
    begin = content.find("{")
    if begin < 0 or len(content) > 100_000:
        return False
    text = content[begin:].rstrip()
    text = text[:-1] if content[:begin].endswith("(") and text.endswith(")") else text
    try:
        json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return not text.startswith("{'")  # Python's own spelling, which some frameworks record
    return False


def arguments_are_known(run: Run) -> Iterator[Finding]:
    """Look for identifiers and long numbers in a call that nothing before it mentions."""
    claims, segments = run.analysis.claims, run.analysis.segments
    in_call = segments.is_call[claims.segment]
    fresh = in_call & (claims.source == claims.segment)
    seen: set[int] = set(claims.segment[in_call].tolist())
    for place in sorted(seen):
        step = run.trace.steps[place - 1]
        if not run.trace.can_be_blamed(step):
            continue
        unknown = _spelled(run, claims.claim[fresh & (claims.segment == place)]) if fresh.any() else []
        telling = [token for token in unknown if len(token) > 3 and any(char.isdecimal() for char in token)]
        quote = run.sentence_with(step, telling[0]) if telling else ""
        yield Finding(
            step.index, "inconclusive" if telling else "pass", quote, f"nobody mentioned {telling[:3]!r} before"
        )


def numbers_have_a_source(run: Run) -> Iterator[Finding]:
    """Look for numbers that nothing before them has, and that no two known numbers give."""
    claims, segments = run.analysis.claims, run.analysis.segments
    judged = claims.is_number & segments.is_said[claims.segment] & ~claims.in_code & ~segments.is_call[claims.segment]
    value = np.array([float(token) for token in _spelled(run, claims.claim[claims.is_number])])
    values = np.zeros(len(claims.claim))
    values[claims.is_number] = value
    order = np.flatnonzero(claims.is_number)
    for place in np.unique(claims.segment[judged]).tolist():
        here = judged & (claims.segment == place)
        fresh = here & (claims.source == place)
        given = [float(number) for number in run.analysis.inputs.few_until(place)]
        known = np.concatenate([values[order[claims.segment[order] <= place][-_MAX_KNOWN:]], given])
        step = run.trace.steps[place - 1]
        worked_out = {side for each in equations(_read(step)) for side in (each.left, each.right)}  # see `sums_hold`
        unknown = [
            each
            for each in np.flatnonzero(fresh).tolist()
            if not is_common(values[each]) and values[each] not in worked_out
        ]
        sources = run.analysis.inputs.numbers_until(place)
        odd = [
            each for each in unknown if not _is_derived(values[each], known) or is_slip(spelled(values[each]), sources)
        ]
        token = _spelled(run, claims.claim[odd[:1]])[0] if odd else ""
        quote = run.sentence_with(step, token) if odd else ""
        yield Finding(step.index, "fail" if odd else "pass", quote, f"nothing before it gives {token!r}")


_MAX_KNOWN = 60
"""Numbers that one may have been worked out from: those of the step, and the latest before it."""


def _is_derived(value: float, known: Floats) -> bool:
    """Check whether two of *known* by a basic operation, or several in a row added up, give *value*, as rounded."""
    others = known[known != value]
    sums = np.concatenate([[0.0], np.cumsum(others)])
    one, other = others[:, None], others[None, :]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        given = (one + other, one - other, one * other, one / other, one * other / 100, sums[:, None] - sums[None, :])
        return any(bool((np.abs(each - value) <= abs(value) * 0.005 + 1e-9).any()) for each in given)


def _spelled(run: Run, claims: Ints) -> list[str]:
    return [run.analysis.reading.tokens[token] for token in run.analysis.claims.token[claims].tolist()]


def speaks_for_itself(run: Run) -> Iterator[Finding]:
    """Look for an agent that writes another's part: a line that begins with the other's name and a colon."""
    names = {agent.name for agent in run.trace.agents if len(agent.name) > 2}
    for step in run.decisions:
        if step.kind not in ("message", "plan"):
            continue
        lines = [line.strip(" *#_") for line in _read(step).split("\n")]
        played = next((line for line in lines if _speaker_of(line) in names - {step.agent}), None)
        yield Finding(step.index, "inconclusive" if played else "pass", played or "", "speaks in another's name")


def _speaker_of(line: str) -> str:
    name, colon, _ = line[:80].partition(":")
    return name.strip(" *_") if colon else ""


def hand_offs_arrive(run: Run) -> Iterator[Finding]:
    """Look for hand-offs to somebody the run does not know, and to somebody who then never acts."""
    names = {agent.name for agent in run.trace.agents}
    last_of = {step.agent: step.index for step in run.trace.steps}
    for step in run.decisions:
        if step.kind != "handoff" or not step.recipients:
            continue
        known = [name for name in step.recipients if name in names]
        if not known:
            yield Finding(step.index, "fail", step.content, f"nobody is called {step.recipients[0][:60]!r}")
        elif all(last_of.get(name, -1) < step.index for name in known):
            yield Finding(step.index, "fail", step.content, f"{known[0][:60]!r} never acts on it")
        else:
            yield Finding(step.index, "pass")


def objections_are_heard(run: Run) -> Iterator[Finding]:
    """Look for an agent that, after an objection to it, says the same again."""
    analysis = run.analysis
    for objecting, objected in zip(analysis.objecting.tolist(), analysis.objected.tolist(), strict=True):
        said = analysis.steps[objected].said[-1]
        answer = run.next_own_decision(said)
        while answer is not None and answer.index < analysis.steps[objecting].said[0].index:
            answer = run.next_own_decision(answer)
        if answer is None or answer.kind != "message":
            continue
        place = int(analysis.segments.owner[answer.index + 1])
        is_deaf = analysis.repetition.own[place] > _REPEATED and len(answer.content) >= _LEAST_CHARS
        yield Finding(answer.index, "fail" if is_deaf else "pass", answer.content, "says again what was objected to")


def _is_error(run: Run, result: Step) -> bool:
    if result.status == "error" or result.error:
        return True
    return bool(_ERROR.search(result.content[:400]))


_ERROR = re.compile(
    r"(?i)^\W{0,4}(?:error|exception|traceback|failed|failure)\b|\b\w{2,40}(?:Error|Exception)\s*[:(]|"
    r"Traceback \(most recent|exit ?code:? [1-9]|\btimed out\b|\bHTTP (?:4|5)\d\d\b"
)


def _read(step: Step) -> str:
    text = step.content
    return text if len(text) <= 8_000 else text[:8_000]
