"""What is said, or called, again."""

from __future__ import annotations

from collections.abc import Iterator

from blamespan_tracer.checks.check import ExaminedRun, Finding, check, step_check
from blamespan_tracer.checks.reading import LEAST_CHARS, ReadStep


@step_check(
    "step-new", "A message is not said twice.", mode="mast:FM-1.3", trust=0.5, is_symptom=True, is_mended_later=True
)
def steps_are_new(run: ExaminedRun, read: ReadStep) -> Iterator[Finding]:
    """Look for messages that say again what the same agent said before."""
    step = read.step
    if step.kind == "tool_call" or len(step.content) < LEAST_CHARS:
        return
    if read.is_repeated:
        yield Finding(step.index, "fail", step.content, f"{read.repeated:.0%} of it was said before")
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
