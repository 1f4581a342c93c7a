"""What a second opinion costs, what is sent, who is asked about, and what the combination gains, without an LLM.

    scripts/bench judge --data FOLDER [--json]

FOLDER holds `who_and_when_dev`, `aegis` and `tau_bench`, as their makers publish them. Long runs are those of the
hand-crafted half of Who&When, with steps of other, sound runs before and behind them until they have 100 to 560.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, Final

import click
import numpy as np
from tests.benchmarks.judge_simulated import JUDGES, LabelledFailure, measure
from tests.benchmarks.machine import describe

from blamespan.attribution import Attribution
from blamespan.importing.recorded import RecordedRun
from blamespan.trace import MessageActionTrace, Step
from blamespan_lab.recorded_runs import SUBSETS, read_labelled_steps, read_recorded, read_subset
from blamespan_tracer.alternatives.endpoint import Endpoint
from blamespan_tracer.alternatives.llm_judge.combination import STATED, chance_right, gain_of_asking
from blamespan_tracer.alternatives.llm_judge.settings import JudgeSettings
from blamespan_tracer.alternatives.llm_judge.shown_run import ShownRun, shown_steps
from blamespan_tracer.alternatives.rendering import estimated_tokens
from blamespan_tracer.auto.tracer import AutoTracer

_SETTINGS: Final = JudgeSettings(Endpoint("", "nobody"))
_ANSWER_TOKENS: Final = 400
"""Of an answer with its reasons and three suspects."""
_PRICES: Final = (1.0, 5.0)
"""Of a million tokens asked and answered, to show what a run costs; in whatever currency."""
_GAINS: Final = (0.0, 0.05, 0.1, 0.2, 0.3)
_LABELS: Final = (20, 40, None)
_LONGEST: Final = (100, 560)
_MOST_RUNS: Final = 100
_BARS: Final = {"inside_whole": 98.0, "inside_windows": 85.0}
"""Percent of labelled steps that must be sent."""
_FILLERS: Final = ("magentic", "longweb", "playedsurf", "playedweb")
_TRANSCRIPTS: Final = Path(__file__).parents[2] / "tracer_model" / "transcripts"


@dataclass(frozen=True, slots=True)
class SentFigures:
    """What is sent of the failed runs of one kind, were all of them asked about.

    Attributes:
        runs: Of what.
        n: How many.
        n_whole: Of them shown whole.
        tokens: Of the first question, by our estimate: the median, and
        tokens_p95: the 95th percentile.
        cost: Of the first question and its answer, by `_PRICES`: the median, and
        cost_p95: the 95th percentile.
        inside_whole: Percent of labelled steps that stand in what is sent, of runs shown whole; None without labels.
        inside_windows: Percent of them that stand there in full, of other runs.
        n_windows: Labelled runs of the latter.
        shown: Mean percent of the steps of these runs that stand in full.
    """

    runs: str
    n: int
    n_whole: int
    tokens: float
    tokens_p95: float
    cost: float
    cost_p95: float
    inside_whole: float | None
    inside_windows: float | None
    n_windows: int
    shown: float | None


@dataclass(frozen=True, slots=True)
class AskedFigures:
    """Which labelled failures are asked about at one setting.

    Attributes:
        least_gain: The setting.
        n: Failures.
        asked: Percent that are asked about.
        right_unasked: Percent of the others whose step the embedded verdict names.
        right_asked: Percent of the asked ones whose step it names.
    """

    least_gain: float
    n: int
    asked: float
    right_unasked: float | None
    right_asked: float | None


def measure_sent(name: str, runs: Sequence[RecordedRun], verdicts: Sequence[Attribution]) -> SentFigures:
    """Measure what is sent of some runs."""
    tokens, whole, windows, shares = [], [], [], []
    n_whole = 0
    for run, verdict in zip(runs, verdicts, strict=True):
        shown = ShownRun.of(run.trace, verdict, _SETTINGS.context_tokens)
        question = shown.question()
        tokens.append(estimated_tokens(question.prompt(_SETTINGS.taxonomy) + question.document))
        n_whole += shown.is_whole
        step = run.faults[0].step if run.faults else None
        if not shown.is_whole:
            shares.append(len(shown.about) / len(shown.case.by_step))
        if step is None:
            continue
        inside = shown_steps(question.document)
        if shown.is_whole:
            whole.append(step in inside)
        else:
            windows.append(step in inside and step in shown.about)
    costs = [(n * _PRICES[0] + _ANSWER_TOKENS * _PRICES[1]) / 1e6 for n in tokens]
    return SentFigures(
        name, len(runs), n_whole,
        *(float(np.percentile(values, at)) for values in (tokens, costs) for at in (50, 95)),
        inside_whole=_percent(whole), inside_windows=_percent(windows), n_windows=len(windows),
        shown=None if not shares else 100 * float(np.mean(shares)),
    )  # fmt: skip


def measure_asked(failures: Sequence[LabelledFailure]) -> list[AskedFigures]:
    """Measure which failures are asked about, at each setting."""
    chances = np.array([chance_right(failure.trace, failure.verdict) for failure in failures])
    is_right = np.array([failure.verdict.decisive_step == failure.step for failure in failures])
    figures = []
    for least in _GAINS:
        gains = np.array([gain_of_asking(chance, STATED.accuracy) for chance in chances])
        is_asked = gains >= least
        figures.append(
            AskedFigures(
                least,
                len(failures),
                100 * float(is_asked.mean()),
                _percent(is_right[~is_asked].tolist()),
                _percent(is_right[is_asked].tolist()),
            )
        )
    return figures


def lengthen(run: RecordedRun, fillers: Sequence[MessageActionTrace], random: Random) -> RecordedRun:
    """Put steps of sound runs before and behind a labelled one until it has as many steps as drawn."""
    assert run.faults is not None
    wanted = random.randint(*_LONGEST)
    before: list[Step] = []
    behind: list[Step] = []
    tasks = [run.trace.task]
    while len(before) + len(behind) + len(run.trace.steps) < wanted:
        filler = random.choice(fillers)
        (before if random.random() < 0.5 else behind).extend(filler.steps)
        tasks.append(filler.task)
    steps, known = list[Step](), list[int]()
    for part in (before, run.trace.steps, behind):
        offset = len(steps)
        for step in part:
            inputs = tuple(offset + index for index in step.inputs if part is run.trace.steps)
            steps.append(replace(step, index=len(steps), span_id=f"{len(steps) + 1:016x}", inputs=inputs))
        known.append(offset)
    spoken = {agent.name: agent for trace in (run.trace, *fillers) for agent in trace.agents}
    agents = tuple(spoken[name] for name in dict.fromkeys(step.agent for step in steps))
    trace = replace(run.trace, task="\n".join(tasks), steps=tuple(steps), agents=agents)
    step = run.faults[0].step
    assert step is not None
    return replace(run, trace=trace, faults=(replace(run.faults[0], step=known[1] + step),))


def _read_failed(path: Path, n: int) -> Iterator[RecordedRun]:
    runs = (run for run in read_recorded(path) if run.trace.outcome == "failed" or run.faults)
    yield from islice((replace(run, trace=replace(run.trace, outcome="failed")) for run in runs), n)


def _fillers() -> list[MessageActionTrace]:
    runs = [run.trace for name in _FILLERS for run in read_recorded(_TRANSCRIPTS / f"{name}.txt")]
    return [
        trace
        for trace in runs
        if trace.outcome == "succeeded" and not any(s.kind == "tool_result" for s in trace.steps)
    ]


def _percent(is_so: Sequence[bool]) -> float | None:
    return 100 * sum(is_so) / len(is_so) if len(is_so) else None


def run_all(data: Path) -> dict[str, Any]:
    """Measure everything."""
    tracer = AutoTracer.bundled()
    random = Random(0)  # no secret hangs on it
    subsets = {name: read_subset(data / "who_and_when_dev" / name) for name in SUBSETS}
    fillers = _fillers()
    held_out = [
        run
        for folder in ("programs_held_out", "held_out")
        for path in sorted((_TRANSCRIPTS / folder).glob("*.txt"))
        for run in read_labelled_steps(path)
    ]
    kinds = {
        "Who&When, algorithm-generated": subsets[SUBSETS[0]],
        "Who&When, hand-crafted": subsets[SUBSETS[1]],
        "transcripts held out": held_out,
        "AEGIS": list(_read_failed(data / "aegis" / "validation.jsonl.xz", _MOST_RUNS)),
        "tau-bench, airline": list(_read_failed(data / "tau_bench" / "gpt-4o-airline.json.xz", _MOST_RUNS)),
        "100 to 560 steps": [lengthen(run, fillers, random) for run in subsets[SUBSETS[1]]],
    }
    sent, failures = [], []
    for name, runs in kinds.items():
        click.echo(f"{name}: {len(runs)} runs", err=True)
        verdicts = tracer.attribute([run.trace for run in runs])
        sent.append(measure_sent(name, runs, verdicts))
        if name in list(kinds)[:3]:
            failures += [
                LabelledFailure(run.trace, verdict, step)
                for run, verdict in zip(runs, verdicts, strict=True)
                if run.faults
                and (step := run.faults[0].step) is not None
                and run.trace.can_be_blamed(run.trace.steps[step])
                and verdict.decisive_step is not None
            ]
    combined = [
        {"labels": labels or "all others", **asdict(measure(name, failures, labels))}
        for name in JUDGES
        for labels in _LABELS
    ]
    return {
        "machine": describe(),
        "sent": [asdict(figures) for figures in sent],
        "asked": [asdict(figures) for figures in measure_asked(failures)],
        "combined": combined,
    }


def main() -> None:
    """Measure, and print tables or JSON."""
    parser = argparse.ArgumentParser("scripts/bench judge", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    figures = run_all(arguments.data)
    if arguments.json:
        json.dump(figures, sys.stdout)
    else:
        _print(figures)
    sys.exit(int(_misses_a_bar(figures)))


def _misses_a_bar(figures: dict[str, Any]) -> bool:
    """Check whether fewer labelled steps are sent than wanted, or the combination is worse than the better opinion."""
    whole, windows = ([row[key] for row in figures["sent"] if row[key] is not None] for key in _BARS)
    is_worse = any(row["gain"] < -row["noise"] for row in figures["combined"])
    return is_worse or min(whole) < _BARS["inside_whole"] or min(windows) < _BARS["inside_windows"]


def _print(figures: dict[str, Any]) -> None:
    for name in ("sent", "asked", "combined"):
        click.echo(f"\n{name}")
        for row in figures[name]:
            cells = (f"{key} {round(value, 4) if isinstance(value, float) else value}" for key, value in row.items())
            click.echo("  " + ", ".join(cells))


if __name__ == "__main__":
    main()
