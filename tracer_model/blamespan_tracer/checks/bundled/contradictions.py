"""Values that contradict the task or a tool: what the ledger says of them."""

from __future__ import annotations

from collections.abc import Iterator

from blamespan_tracer.checks.bundled.numbers import is_spoken
from blamespan_tracer.checks.check import ExaminedRun, Finding, Source, step_check
from blamespan_tracer.checks.reading import ReadStep
from blamespan_tracer.ledger import Claim, Contradiction, Value
from blamespan_tracer.ledger.derivations import find_count
from blamespan_tracer.ledger.equations import is_common
from blamespan_tracer.ledger.ledger import TASK

_LEAST_WORDS = 4
"""Words beside two values that agree where both are values of one thing."""

_MEASURED = ("number", "date", "time")
"""Forms of values of which a thing has one: of two names in a text both may be right."""


@step_check(
    "result-believed", "What a tool answered is not contradicted by who reads it.", mode="blamespan:X3", trust=0.6
)
def agents_believe_results(run: ExaminedRun, read: ReadStep) -> Iterator[Finding]:
    """Compare what agents state with what tools answered about the same thing, in the same words or as a record."""
    by_words = list(_list_contradicted(read))
    told = {(claim.mention, one.source.step) for claim, one in by_words}
    by_records = ((claim, one) for claim in read.claims for one in claim.contradictions if one.kind == "record")
    for claim, one in (*by_words, *(item for item in by_records if (item[0].mention, item[1].source.step) not in told)):
        source = None if one.source.step == TASK else run.step_at(one.source.step)
        if source is not None and source.kind == "tool_result" and not one.source.is_input:
            said = Source(source.index, run.sentence_with(source, one.source.value.text))
            yield _describe(run, read, claim, one, "a tool answered", said)


@step_check("task-kept", "What the task states is not contradicted.", mode="mast:FM-1.1", trust=0.5)
def agents_keep_the_task(run: ExaminedRun, read: ReadStep) -> Iterator[Finding]:
    """Compare what agents state with what the task says of the same thing."""
    for claim, one in _list_contradicted(read):
        if one.source.step == TASK:
            said = Source(None, run.sentence_in(run.trace.task, one.source.value.text))
            yield _describe(run, read, claim, one, "the task says", said)


def _list_contradicted(read: ReadStep) -> Iterator[tuple[Claim, Contradiction]]:
    """Yield the values that no source has and no written calculation gives, each with another one of the same thing."""
    for claim in read.claims:
        value = claim.mention.value
        if value.form not in _MEASURED or claim.is_argument or claim.support is not None:
            continue
        if claim.calculated.operands == "beside" or not is_spoken(value, read.step.content):
            continue
        if value.form == "number" and is_common(value.amount):
            continue
        for one in claim.contradictions:
            if one.kind == "context" and one.agreement >= _LEAST_WORDS and not _is_counted(value, one.source.value):
                yield claim, one


def _is_counted(value: Value, other: Value) -> bool:
    """Check whether a date or a time is counted from another one: "since yesterday"."""
    return value.form != "number" and find_count(value.key, value.form, [other.key], ()) is not None


def _describe(run: ExaminedRun, read: ReadStep, claim: Claim, one: Contradiction, who: str, said: Source) -> Finding:
    value, right = claim.mention.value, one.source.value
    return Finding(
        read.step.index,
        "fail",
        run.sentence_with(read.step, value.text),
        f"{who} {right.text[:60]!r}, here it is {value.text[:60]!r}",
        source=said,
        wrong=value.key,
        right=right.key,
    )
