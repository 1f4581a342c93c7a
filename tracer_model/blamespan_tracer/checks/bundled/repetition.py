"""What is said, or called, again."""

from __future__ import annotations

from collections.abc import Iterator

from blamespan_tracer.checks.check import ExaminedRun, Finding, check

REPEATED, LEAST_CHARS = 0.9, 60
"""Share of a message from which on it is a repetition, and length of a message that can be one."""


@check("step-new", "A message is not said twice.", mode="mast:FM-1.3", trust=0.5, is_symptom=True, is_mended_later=True)
def steps_are_new(run: ExaminedRun) -> Iterator[Finding]:
    """Look for messages that say again what the same agent said before."""
    shares = run.analysis.repetition.own
    for row, merged in enumerate(run.analysis.steps):
        if not merged.can_be_blamed or any(step.kind == "tool_call" for step in merged.origins):
            continue
        step = merged.origins[0]
        if len(step.content) < LEAST_CHARS:
            continue
        if shares[row] > REPEATED:
            yield Finding(step.index, "fail", step.content, f"{shares[row]:.0%} of it was said before")
        else:
            yield Finding(step.index, "pass")


@check(
    "call-new",
    "An answered call is not made again.",
    mode="mast:FM-1.3",
    trust=0.4,
    is_symptom=True,
    is_mended_later=True,
)
def calls_are_new(run: ExaminedRun) -> Iterator[Finding]:
    """Look for calls made before by the same agent, with the same arguments, and answered without an error."""
    answered: set[tuple[str, str]] = set()
    for step in run.decisions:
        if step.kind != "tool_call":
            continue
        key = (step.agent, step.content)
        is_again = key in answered
        yield Finding(step.index, "fail" if is_again else "pass", step.content, "this was called and answered before")
        results = run.results_of.get(step.index, [])
        if results and not any(run.is_error(result) for result in results):
            answered.add(key)
