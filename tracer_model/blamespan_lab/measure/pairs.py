"""Measure whether a verdict follows what was said: edited runs beside untouched ones, decoys, and moves."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NotRequired, TypedDict

import numpy as np

from blamespan.attribution import Attribution
from blamespan.errors import UnreadableInput
from blamespan.importing.recorded import RecordedRun
from blamespan.trace import MessageActionTrace
from blamespan_lab.make.edits.generate import LabelledPair
from blamespan_lab.make.edits.kinds import EditableRun, find_moves
from blamespan_lab.make.edits.pairs import make_pair
from blamespan_lab.measure.generated import count_blamable, measure_step_ece, rank_steps
from blamespan_lab.statistics import interval, percent, separation

_MOVES_PER_RUN = 2


@dataclass(frozen=True, slots=True)
class PairVerdicts:
    """The verdicts on the runs of one pair; None for a decoy that is not there."""

    untouched: Attribution
    edited: Attribution
    decoy: Attribution | None


@dataclass(frozen=True, slots=True)
class Move:
    """One mistake that two agents make in turn, words otherwise equal.

    Attributes:
        first: The run in which the earlier agent makes it.
        first_step: Index of its step.
        second: The run in which the later agent makes it.
        second_step: Index of its step.
    """

    first: MessageActionTrace
    first_step: int
    second: MessageActionTrace
    second_step: int


class MoveFigures(TypedDict):
    """What `evaluate pairs` prints of moved mistakes; percent, but for `n`.

    `followed` is how often the blame lies on the mistake in both runs of a move, `step` how often in a run, `same_step`
    how often both runs have the same step blamed. `chance` is an even guess in both runs.
    """

    n: int
    followed: float
    followed_ci: list[float]
    step: float
    same_step: float
    chance: float


class PairFigures(TypedDict):
    """What `evaluate pairs` prints; percent, but for `n`, `gain`, `auc` and `step_ece`.

    `step` is how often the edited step is blamed most, `top3` how often it is among the three most blamed, `agent` how
    often its agent is. `gain` is the edited step's share in the edited run, less its share in the untouched one.
    `same_step` is how often the untouched run's most blamed step is the same. `decoys` is how often the same words are
    blamed most where their source agrees with them, in runs called failed. `auc` is how well the failure score tells
    edited runs from untouched ones and decoys. `step_ece` is how far the share of the step blamed most is from how
    often that step is the edited one, `coverage` how often the step set holds the edited step. `chance` is an even
    guess among the steps that could be blamed. `moved` is there where two agents of a run can make one mistake.
    """

    n: int
    step: float
    step_ci: list[float]
    top3: float
    agent: float
    gain: float
    gain_ci: list[float]
    same_step: float
    decoys: float
    n_decoys: int
    auc: float
    step_ece: float
    coverage: float
    chance: float
    moved: NotRequired[MoveFigures]
    by: dict[str, dict[str, dict[str, float]]]


def join_verdicts(
    pairs: Sequence[LabelledPair], runs: Sequence[RecordedRun], verdicts: Sequence[Attribution]
) -> list[PairVerdicts]:
    """Join each of *pairs* with the verdicts on its runs.

    Args:
        pairs: The pairs.
        runs: Of `runs_of_pairs`.
        verdicts: One for each of *runs*, in the same order.
    """
    of_run = {run.trace.trace_id: verdict for run, verdict in zip(runs, verdicts, strict=True)}
    return [
        PairVerdicts(
            of_run[pair.untouched.trace.trace_id],
            of_run[pair.edited.trace.trace_id],
            of_run[pair.decoy.trace.trace_id] if pair.decoy is not None else None,
        )
        for pair in pairs
    ]


def evaluate_pairs(pairs: Sequence[LabelledPair], verdicts: Sequence[PairVerdicts]) -> PairFigures:
    """Score *verdicts* on *pairs*.

    Raises:
        UnreadableInput: if there is none.
    """
    if not pairs:
        raise UnreadableInput("expected pairs to measure on, got none. Make them: blamespan lab generate edits")
    rows = list(zip(pairs, verdicts, strict=True))
    hits = [verdict.edited.decisive_step == pair.step for pair, verdict in rows]
    gains = [gain for pair, verdict in rows if (gain := _gain(pair, verdict)) is not None]
    decoys = [
        verdict.decoy.decisive_step == pair.step and verdict.decoy.calls_failed
        for pair, verdict in rows
        if verdict.decoy is not None
    ]
    edited = [verdict.edited.failure_score for verdict in verdicts]
    sound = [one.failure_score for verdict in verdicts for one in (verdict.untouched, verdict.decoy) if one is not None]
    return {
        "n": len(rows),
        "step": percent(hits),
        "step_ci": list(interval(hits)),
        "top3": percent([pair.step in rank_steps(verdict.edited)[:3] for pair, verdict in rows]),
        "agent": percent([_blames_agent(pair, verdict.edited) for pair, verdict in rows]),
        "gain": float(np.mean(gains)) if gains else 0.0,
        "gain_ci": [end / 100 for end in interval(gains)],
        "same_step": percent([verdict.edited.decisive_step == verdict.untouched.decisive_step for _, verdict in rows]),
        "decoys": percent(decoys),
        "n_decoys": len(decoys),
        "auc": separation(np.array(edited), np.array(sound)),
        "step_ece": measure_step_ece([verdict.edited for verdict in verdicts], hits),
        "coverage": percent([pair.step in verdict.edited.step_set for pair, verdict in rows]),
        "chance": 100 * float(np.mean([1 / count_blamable(pair.edited.trace) for pair, _ in rows])),
        "by": {name: _score_parts(rows, key) for name, key in _PARTS.items()},
    }


def list_moves(pairs: Sequence[LabelledPair], *, seed: int = 0) -> list[Move]:
    """Make moved mistakes from the untouched runs of *pairs*, at most two of each run; the same for the same seed."""
    runs = {pair.untouched.trace.trace_id: pair.untouched.trace for pair in pairs}
    names = list(
        dict.fromkeys(
            value.text
            for trace in runs.values()
            for row in EditableRun(trace).values
            for value in row
            if value.form == "name"
        )
    )
    moves = []
    for trace_id, trace in sorted(runs.items()):
        if len({step.agent for step in trace.steps if trace.can_be_blamed(step)}) < 2:
            continue
        draws = random.Random(f"{seed} {trace_id} moved")  # noqa: S311  # draws places, no secrets
        found = islice(find_moves(EditableRun(trace, names), draws), _MOVES_PER_RUN)
        for first, second in found:
            one, other = make_pair(trace, first, ""), make_pair(trace, second, "")
            if one is not None and other is not None:
                moves.append(Move(one.edited, first.step, other.edited, second.step))
    return moves


def evaluate_moves(moves: Sequence[Move], verdicts: Sequence[tuple[Attribution, Attribution]]) -> MoveFigures:
    """Score the verdicts on both runs of each of *moves*.

    Raises:
        UnreadableInput: if there is none.
    """
    if not moves:
        raise UnreadableInput(
            "expected moved mistakes to measure on, got none: no run has two agents that copy one value"
        )
    hits = [
        (first.decisive_step == move.first_step, second.decisive_step == move.second_step)
        for move, (first, second) in zip(moves, verdicts, strict=True)
    ]
    followed = [all(both) for both in hits]
    return {
        "n": len(moves),
        "followed": percent(followed),
        "followed_ci": list(interval(followed)),
        "step": percent([hit for both in hits for hit in both]),
        "same_step": percent([first.decisive_step == second.decisive_step for first, second in verdicts]),
        "chance": 100 * float(np.mean([1 / count_blamable(move.first) ** 2 for move in moves])),
    }


_PARTS: Mapping[str, Callable[[LabelledPair], str]] = {
    "kind": lambda pair: pair.kind,
    "source": lambda pair: pair.source,
}


def _score_parts(
    rows: Sequence[tuple[LabelledPair, PairVerdicts]], key: Callable[[LabelledPair], str]
) -> dict[str, dict[str, float]]:
    parts: dict[str, dict[str, float]] = {}
    for name in sorted({key(pair) for pair, _ in rows}):
        part = [(pair, verdict) for pair, verdict in rows if key(pair) == name]
        gains = [gain for pair, verdict in part if (gain := _gain(pair, verdict)) is not None]
        parts[name] = {
            "n": len(part),
            "step": percent([verdict.edited.decisive_step == pair.step for pair, verdict in part]),
            "gain": float(np.mean(gains)) if gains else 0.0,
        }
    return parts


def _gain(pair: LabelledPair, verdict: PairVerdicts) -> float | None:
    """Compute what the edited step's share gains over the untouched run; None where that has no such step."""
    before = pair.untouched_step
    if before is None:
        return None
    return verdict.edited.steps[pair.step].score - verdict.untouched.steps[before].score


def _blames_agent(pair: LabelledPair, verdict: Attribution) -> bool:
    return bool(verdict.agents) and verdict.agents[0].agent == pair.edited.trace.steps[pair.step].agent
