"""Measure a tracer on programs that stand beside their sound twins: `blamespan lab evaluate programs`.

The runs of one task in one file belong together: the first sound one, one or more with a mistake at different steps
(the second is the *moved* one: sound but for a mistake of another agent), and decoys, which are sound as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypedDict

from blamespan.analysis.summary.statistics import wilson
from blamespan.attribution import Attribution
from blamespan.importing.recorded import RecordedRun
from blamespan.tracers import Tracer
from blamespan_lab.measure.clean import hide_outcome
from blamespan_lab.statistics import percent

_SHORTEST_WORD = 3
"""Characters of a word that says something: `not` does, `of` does not."""
_WORD = re.compile(r"\w+(?:[.,:/@-]\w+)*")


class ShareOfRuns(TypedDict):
    """How many of *n* cases, in percent as well, with the 95 % interval of Wilson."""

    n: int
    hits: int
    percent: float
    ci: list[float]


class ProgramFigures(TypedDict):
    """What `evaluate programs` prints.

    Attributes:
        false_alarms: Sound runs called failed, decoys among them.
        step: Failed runs whose mistaken step is the decisive one; the tracer is told that they failed.
        agent: Failed runs whose mistaken agent is blamed most.
        mode: Failed runs whose error mode is the first that is named.
        called_failed: Failed runs called failed by a tracer that is not told.
        precision: Of the runs called failed, those that did.
        same_step: Failed runs whose decisive step is the same as in the sound twin, told nothing of either.
        followed: Pairs of runs with one mistake at two agents, whose steps are named in both.
        evidence: Of the right steps, those that a quotation shows: the words by which the step differs from the twin's.
    """

    false_alarms: ShareOfRuns
    step: ShareOfRuns
    agent: ShareOfRuns
    mode: ShareOfRuns
    called_failed: ShareOfRuns
    precision: ShareOfRuns
    same_step: ShareOfRuns
    followed: ShareOfRuns
    evidence: ShareOfRuns


@dataclass(frozen=True, slots=True)
class _Case:
    """A failed run, its sound twin, and the verdicts on them: of the failed one also as told that it failed."""

    run: RecordedRun
    twin: RecordedRun | None
    told: Attribution
    unaided: Attribution
    twin_verdict: Attribution | None

    @property
    def is_right(self) -> bool:
        return self.told.decisive_step in mistaken_steps(self.run)

    @property
    def shows_mistake(self) -> bool:
        """Whether a quotation holds a word that the mistaken step has and its twin lacks, or the other way round."""
        steps = mistaken_steps(self.run)
        content = self.run.trace.steps[steps[0]].content
        other = self.twin.trace.steps[steps[0]].content if self.twin and steps[0] < len(self.twin.trace.steps) else ""
        wrong, missing = _telling_words(content, other), _telling_words(other, content)
        return any(
            item.index in steps and (wrong & _words(item.quote) or (source and missing & _words(source.quote)))
            for item in self.told.evidence
            for source in [item.contradicts]
        )


def evaluate_programs(runs: Sequence[RecordedRun], tracer: Tracer) -> ProgramFigures:
    """Score *tracer* on the runs of files of programs, in their order."""
    unaided = dict(zip(map(id, runs), _ask(tracer, [hide_outcome(run) for run in runs]), strict=True))
    failed = [run for run in runs if run.faults and run.faults[0].step is not None]
    told = dict(zip(map(id, failed), _ask(tracer, failed), strict=True))
    sound = [run for run in runs if run.trace.outcome == "succeeded"]
    twins: dict[tuple[str, str], RecordedRun] = {}
    for run in sound:
        twins.setdefault(_program(run), run)
    cases = []
    for run in failed:
        twin = twins.get(_program(run))
        cases.append(_Case(run, twin, told[id(run)], unaided[id(run)], unaided[id(twin)] if twin else None))
    alarms = [run for run in runs if unaided[id(run)].calls_failed]
    programs = [list(group) for _, group in groupby(cases, key=lambda case: _program(case.run))]
    return {
        "false_alarms": _share(unaided[id(run)].calls_failed for run in sound),
        "step": _share(case.is_right for case in cases),
        "agent": _share(_blames_agent(case) for case in cases),
        "mode": _share(_names_mode(case) for case in cases),
        "called_failed": _share(case.unaided.calls_failed for case in cases),
        "precision": _share(run.trace.outcome == "failed" for run in alarms),
        "same_step": _share(
            case.unaided.decisive_step == case.twin_verdict.decisive_step for case in cases if case.twin_verdict
        ),
        "followed": _share(all(case.is_right for case in program[:2]) for program in programs if len(program) > 1),
        "evidence": _share(case.shows_mistake for case in cases if case.is_right),
    }


def mistaken_steps(run: RecordedRun) -> list[int]:
    """List the steps that are right answers: the labelled one and, of a call, the message that asks for it.

    There is none where no step is labelled.
    """
    step = run.faults[0].step if run.faults else None
    if step is None:
        return []
    label = run.trace.steps[step]
    earlier = range(step - 1, -1, -1) if label.kind == "tool_call" else ()
    asks = [index for index in earlier if _asks_for(run.trace.steps[index].content, label.content)]
    return [step, *(index for index in asks[:1] if run.trace.steps[index].agent == label.agent)]


def _ask(tracer: Tracer, runs: Sequence[RecordedRun]) -> list[Attribution]:
    """Return a verdict on each run: alone, so that none is judged by what the others are like."""
    return [tracer.attribute([run.trace])[0] for run in runs]


def _program(run: RecordedRun) -> tuple[str, str]:
    return run.source.partition(":")[0], run.trace.task


def _asks_for(content: str, call: str) -> bool:
    return "".join(call.split()) in "".join(content.split())


def _blames_agent(case: _Case) -> bool:
    return (
        bool(case.told.agents) and case.run.faults is not None and case.told.agents[0].agent == case.run.faults[0].agent
    )


def _names_mode(case: _Case) -> bool:
    return bool(case.told.modes) and case.run.faults is not None and case.told.modes[0].mode == case.run.faults[0].mode


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def _telling_words(text: str, other: str) -> set[str]:
    """Return what *text* says and *other* does not: its values, or where there is none its longer words."""
    words = _words(text) - _words(other)
    values = {word for word in words if any(character.isdigit() for character in word)}
    return values or {word for word in words if len(word) >= _SHORTEST_WORD}


def _share(cases: Iterable[bool]) -> ShareOfRuns:
    hits = list(cases)
    ends = wilson(sum(hits), len(hits))
    return {"n": len(hits), "hits": sum(hits), "percent": percent(hits), "ci": [100 * end for end in ends]}
