"""How agents treat each other: whose part they play, whom they hand over to, and whether they listen."""

from __future__ import annotations

from collections.abc import Iterator

from blamespan_tracer.checks.bundled.repetition import LEAST_CHARS, REPEATED
from blamespan_tracer.checks.check import ExaminedRun, Finding, check


@check("speaks-for-itself", "An agent plays nobody else's part.", mode="mast:FM-1.2", trust=0.4)
def speaks_for_itself(run: ExaminedRun) -> Iterator[Finding]:
    """Look for an agent that writes another's part: a line that begins with the other's name and a colon."""
    names = {agent.name for agent in run.trace.agents if len(agent.name) > 2}
    for step in run.decisions:
        if step.kind not in ("message", "plan"):
            continue
        lines = [line.strip(" *#_") for line in run.read_text(step).split("\n")]
        part = next((line for line in lines if _speaker_of(line) in names - {step.agent}), None)
        yield Finding(step.index, "inconclusive" if part else "pass", part or "", "speaks in another's name")


def _speaker_of(line: str) -> str:
    name, colon, _ = line[:80].partition(":")
    return name.strip(" *_") if colon else ""


@check("hand-off-arrives", "Who is handed the work exists, and acts.", mode="blamespan:X6", trust=0.6)
def hand_offs_arrive(run: ExaminedRun) -> Iterator[Finding]:
    """Look for hand-offs to somebody the run does not know, and to somebody who then never acts."""
    names = {agent.name for agent in run.trace.agents}
    last_of = {step.agent: step.index for step in run.trace.steps}
    for step in run.decisions:
        if step.kind != "handoff" or not step.recipients:
            continue
        recipients = [name for name in step.recipients if name in names]
        if not recipients:
            yield Finding(step.index, "fail", step.content, f"nobody is called {step.recipients[0][:60]!r}")
        elif all(last_of.get(name, -1) < step.index for name in recipients):
            yield Finding(step.index, "fail", step.content, f"{recipients[0][:60]!r} never acts on it")
        else:
            yield Finding(step.index, "pass")


@check(
    "objection-heard",
    "Who is objected to does not say the same again.",
    mode="mast:FM-2.5",
    trust=0.5,
    is_symptom=True,
)
def objections_are_heard(run: ExaminedRun) -> Iterator[Finding]:
    """Look for an agent that, after an objection to it, says the same again."""
    analysis = run.analysis
    for objecting, objected in zip(analysis.objecting.tolist(), analysis.objected.tolist(), strict=True):
        target = analysis.steps[objected].said[-1]
        answer = run.next_own_decision(target)
        while answer is not None and answer.index < analysis.steps[objecting].said[0].index:
            answer = run.next_own_decision(answer)
        if answer is None or answer.kind != "message":
            continue
        row = int(analysis.segments.owner[answer.index + 1])
        is_deaf = analysis.repetition.own[row] > REPEATED and len(answer.content) >= LEAST_CHARS
        yield Finding(answer.index, "fail" if is_deaf else "pass", answer.content, "says again what was objected to")
