"""`blamespan lab evaluate generated`: a tracer on runs whose decisive step replay has shown, and on sound runs.

What it quotes is measured on failed runs that have a sound twin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from blamespan.analysis.summary.statistics import wilson
from blamespan.attribution import Attribution
from blamespan.errors import UnreadableInput
from blamespan.importing.recorded import RecordedRun
from blamespan.taxonomy import canonical
from blamespan.trace import MessageActionTrace
from blamespan_lab.statistics import expected_calibration_error, interval, percent
from blamespan_tracer.tokens import sentences_of


class Rights(TypedDict):
    """Percent of failed runs."""

    n: int
    step: float
    agent: float
    mode: float


class GeneratedFigures(Rights):
    """What `evaluate generated` prints; percent but for counts, `ece` and `set_size`.

    `step_ece` is how far the decisive step's share is from how often it is right. `coverage` is how often the step set
    holds the decisive step, `set_size` how many steps it has on average and `set_share` of all that could be blamed.
    """

    step_ci: list[float]
    agent_ci: list[float]
    mode_ci: list[float]
    top3: float
    abstained: int
    step_ece: float
    coverage: float
    set_size: float
    set_share: float
    false_alarms: float
    false_alarms_ci: list[float]
    sound: int
    evidence: EvidenceFigures
    by: dict[str, dict[str, Rights]]
    baselines: dict[str, Rights]


@dataclass(frozen=True, slots=True)
class _RightParts:
    step: bool
    agent: bool
    mode: bool


def evaluate_generated(runs: Sequence[RecordedRun], verdicts: Sequence[Attribution]) -> GeneratedFigures:
    """Score *verdicts* on labelled runs.

    A failed run counts where replay has verified its decisive step; an abstention is wrong. Its mode is right if the
    likeliest mode of the blamed agent is one of the label's, both canonical. A sound run is a false alarm unless the
    tracer abstains or says that it probably did not fail.

    Raises:
        UnreadableInput: if no run is labelled so.
    """
    pairs = list(zip(runs, verdicts, strict=True))
    failed = [(run, verdict) for run, verdict in pairs if run.origin is not None and run.origin.decisive is not None]
    sound = [(run, verdict) for run, verdict in pairs if run.trace.outcome == "succeeded"]
    if not failed:
        raise UnreadableInput(
            f"expected runs with a decisive step, got {len(runs)} without. Make them: blamespan lab generate"
        )
    answers = [_rate(run, verdict) for run, verdict in failed]
    sets = [verdict.step_set for _, verdict in failed]
    is_covered = [_decisive_step(run) in chosen for (run, _), chosen in zip(failed, sets, strict=True)]
    judged = [row for row, (_, verdict) in enumerate(failed) if verdict.decisive_step is not None]
    alarms = [verdict.calls_failed for _, verdict in sound]
    return {
        **_rights(answers),
        "step_ci": list(interval([answer.step for answer in answers])),
        "agent_ci": list(interval([answer.agent for answer in answers])),
        "mode_ci": list(interval([answer.mode for answer in answers])),
        "top3": percent([_decisive_step(run) in rank_steps(verdict)[:3] for run, verdict in failed]),
        "abstained": len(failed) - len(judged),
        "step_ece": measure_step_ece([verdict for _, verdict in failed], [answer.step for answer in answers]),
        "coverage": percent(is_covered),
        "set_size": float(np.mean([len(chosen) for chosen in sets])),
        "set_share": 100
        * float(
            np.mean([len(chosen) / count_blamable(run.trace) for (run, _), chosen in zip(failed, sets, strict=True)])
        ),
        "false_alarms": percent(alarms),
        "false_alarms_ci": [100 * end for end in wilson(sum(alarms), len(alarms))],
        "sound": len(sound),
        "evidence": evaluate_evidence(runs, verdicts),
        "by": {name: _by([part(run) for run, _ in failed], answers) for name, part in _PARTS.items()},
        "baselines": _baselines([run for run, _ in failed]),
    }


_PARTS: dict[str, Callable[[RecordedRun], str]] = {
    "family": lambda run: run.origin.family if run.origin else "",
    "topology": lambda run: run.origin.topology if run.origin else "",
    "framework": lambda run: run.origin.framework if run.origin else "",
    "purpose": lambda run: run.origin.purpose if run.origin else "",
}


def _rate(run: RecordedRun, verdict: Attribution) -> _RightParts:
    decisive = _decisive_step(run)
    agent = run.trace.steps[decisive].agent
    labelled = {
        str(canonical(fault.mode)[0]) for fault in run.faults or () if fault.step == decisive and fault.mode is not None
    }
    blamed = verdict.agents[0].agent if verdict.agents else None
    named = verdict.mode_of(blamed)
    return _RightParts(
        verdict.decisive_step == decisive,
        blamed == agent,
        named is not None and str(canonical(named.mode)[0]) in labelled,
    )


def _rights(answers: Sequence[_RightParts]) -> Rights:
    return {
        "n": len(answers),
        "step": percent([answer.step for answer in answers]),
        "agent": percent([answer.agent for answer in answers]),
        "mode": percent([answer.mode for answer in answers]),
    }


def _by(parts: Sequence[str], answers: Sequence[_RightParts]) -> dict[str, Rights]:
    return {
        name: _rights([answer for part, answer in zip(parts, answers, strict=True) if part == name])
        for name in sorted(set(parts))
    }


def _decisive_step(run: RecordedRun) -> int:
    assert run.origin is not None
    assert run.origin.decisive is not None  # the caller has chosen these
    return run.origin.decisive


def rank_steps(verdict: Attribution) -> list[int]:
    """Return the steps that have any blame, the most blamed first."""
    return [step.index for step in sorted(verdict.steps, key=lambda step: (-step.score, step.index)) if step.score > 0]


def count_blamable(trace: MessageActionTrace) -> int:
    """Count the steps that somebody could be blamed for, at least 1."""
    return max(sum(trace.can_be_blamed(step) for step in trace.steps), 1)


def measure_step_ece(verdicts: Sequence[Attribution], rights: Sequence[bool]) -> float:
    """Return how far the share of the step blamed most is from how often it is right, where there is a verdict."""
    judged = [
        (verdict, right) for verdict, right in zip(verdicts, rights, strict=True) if verdict.decisive_step is not None
    ]
    if not judged:
        return 0.0
    stated: NDArray[np.float32] = np.array(
        [verdict.steps[verdict.decisive_step or 0].score for verdict, _ in judged], np.float32
    )
    return expected_calibration_error(stated, np.array([right for _, right in judged]))


def _baselines(runs: Sequence[RecordedRun]) -> dict[str, Rights]:
    """Score uniform guesses over what can be blamed, and the first and the last of it."""
    open_ = [[step for step in run.trace.steps if run.trace.can_be_blamed(step)] for run in runs]
    chance = [1 / len(steps) for steps in open_]
    agent_chance = [1 / len({step.agent for step in steps}) for steps in open_]
    rows: dict[str, Rights] = {
        "random": {
            "n": len(runs),
            "step": 100 * float(np.mean(chance)),
            "agent": 100 * float(np.mean(agent_chance)),
            "mode": 0.0,
        }
    }
    for name, index in (("first decision", 0), ("last decision", -1)):
        guesses = [steps[index] for steps in open_]
        rows[name] = {
            "n": len(runs),
            "step": percent([guess.index == _decisive_step(run) for guess, run in zip(guesses, runs, strict=True)]),
            "agent": percent(
                [
                    guess.agent == run.trace.steps[_decisive_step(run)].agent
                    for guess, run in zip(guesses, runs, strict=True)
                ]
            ),
            "mode": 0.0,
        }
    return rows


_ALL = 10_000


class EvidenceFigures(TypedDict):
    """How often a quote is of what differs; percent but for `n`.

    `n` decisive steps were found, quoted, and differ from their twin's in some sentences and not in others; `right` is
    how often the quote stands nowhere in the twin's step, `drawn` how often a sentence drawn from the step would.
    """

    n: int
    right: float
    drawn: float


def evaluate_evidence(runs: Sequence[RecordedRun], verdicts: Sequence[Attribution]) -> EvidenceFigures:
    """Hold what is quoted of decisive steps against the same step of the sound twin, which is among *runs*."""
    by_id = {run.trace.trace_id: run for run in runs}
    rights, drawn = [], []
    for run, verdict in zip(runs, verdicts, strict=True):
        decisive = run.origin.decisive if run.origin is not None else None
        twin = by_id.get(run.origin.twin) if run.origin is not None else None
        quote = next((item.quote for item in verdict.evidence if item.index == decisive), None)
        if decisive is None or twin is None or quote is None or verdict.decisive_step != decisive:
            continue
        step = run.trace.steps[decisive]
        same_step = twin.trace.steps[decisive] if decisive < len(twin.trace.steps) else None
        if same_step is None or same_step.agent != step.agent:
            continue
        differs = [sentence not in same_step.content for sentence in sentences_of(step.content, _ALL)]
        if any(differs) and not all(differs):
            rights.append(quote not in same_step.content)
            drawn.append(sum(differs) / len(differs))
    return {"n": len(rights), "right": percent(rights), "drawn": percent(drawn)}
