"""What it is worth to know a team's failures: retries that are told of them, and their schemata as a guard.

The models of these teams are rules: without its fault each run succeeds. So a fault must persist, by an assumption: an
agent errs alike again, unless it is told and heeds that. Whether it heeds is drawn once for each failure, the same
whoever tells it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, cast

from tests.tracer_model.lab.rerun.feedback.notes import Note, notes_in

import blamespan
from blamespan import conventions as words
from blamespan.guarding.policy import FindingRule, Policy
from blamespan.importing.recorded import RecordedRun
from blamespan.intercepting.boundaries import Mechanism
from blamespan.taxonomy import canonical, mode
from blamespan.trace import MessageActionTrace
from blamespan.tracers import Tracer
from blamespan_lab.learn.folder import Done, LearnFolder
from blamespan_lab.learn.worker import CleanRun, FaultRun, RecordedTrial, open_worker
from blamespan_lab.make.simulation.random_stream import stable_seed
from blamespan_lab.rerun.feedback.writing import feedback_on
from blamespan_lab.rerun.script import Script, script_of
from blamespan_lab.rerun.stress.recipe import StressRecipe
from blamespan_lab.rerun.stress.trial import Clean, Planned
from blamespan_lab.rerun.stress.watching import longest_trace, seen_in
from blamespan_lab.rerun.worker_pool import CarryOut, RunEnded, WorkerPool
from blamespan_tracer.heads import list_agents

HEED = 0.7
"""How likely an agent heeds what it is told: an assumption."""

POLICY = Policy(findings=(FindingRule(schema="*", action=("rewrite", "warn")),))
"""Whoever does what a known failure looks like is asked again, twice; then the next one is told."""


def retry(
    tracer: Tracer, failed: Sequence[Done], runs: dict[str, RecordedRun], *, names_anybody: bool = False
) -> list[bool]:
    """Tell of each failure whether one retry mends it that is told what *tracer* says of it.

    Args:
        tracer: It is told that the runs failed.
        failed: Failures whose decisive step is known.
        runs: By trace id.
        names_anybody: Whether the feedback names an agent at random instead.
    """
    traces = [runs[done.trace_id].trace for done in failed]
    is_solved = []
    for done, trace, verdict in zip(failed, traces, tracer.attribute(traces), strict=True):
        feedback = feedback_on(trace, verdict)
        if names_anybody and verdict.decisive_step is not None:
            feedback = replace(feedback, agent=_choose_anybody(trace, stable_seed("anybody", done.key)), quote="")
        text = feedback.text
        code = done.fault.modes[0] if done.fault is not None else ""
        agent = trace.steps[done.decisive or 0].agent
        is_solved.append(_draw(done) >= _share_left(notes_in(text), agent, len(list_agents(trace)), code, HEED))
    return is_solved


def _share_left(notes: Sequence[Note], agent: str, n_agents: int, code: str, heed: float) -> float:
    """Return the share of its mistakes of a kind that an agent still makes after feedback: the assumption, 0..1.

    Args:
        notes: What the feedback says.
        agent: Who erred.
        n_agents: In its team: feedback for all is heeded by each as far as its share goes.
        code: The kind, as `taxonomy:code`; feedback on another kind is heeded half.
        heed: How much attention feedback gets, 0..1.
    """
    left = 1.0
    for note in notes:
        if note.agent is None:
            left *= 1 - heed / n_agents
        elif note.agent == agent:
            is_same = note.mode is None or canonical(note.mode)[0] == canonical(mode(code))[0]
            left *= 1 - (heed if is_same else heed / 2)
    return left


def _choose_anybody(trace: MessageActionTrace, seed: int) -> str:
    """Choose somebody at random: a control for what merely naming somebody does."""
    names = sorted({step.agent for step in trace.steps if trace.can_be_blamed(step)})
    return Random(stable_seed("anybody", seed, len(trace.steps))).choice(names)


def _draw(done: Done) -> float:
    return Random(stable_seed("heeds", done.key)).random()


def make_schemata(folder: Path) -> Path:
    """Make schemata of all failures in a campaign's folder, as `blamespan schemata add` does; return their file."""
    path = folder / "schemata.toml"
    path.unlink(missing_ok=True)
    runs, labels = folder / "runs.jsonl", folder / "labels.jsonl"
    command = [sys.executable, "-m", "blamespan", "schemata", "add", runs, "--labels", labels, "--file", path]
    # a process of its own: this one has read the usual course of the team before
    subprocess.run(command, check=True, capture_output=True)
    return path


@dataclass(frozen=True)
class GuardedRuns:
    """Runs of a team under a guard.

    Attributes:
        before: Whether each run with a fault succeeded without the guard.
        after: Whether it does with it.
        disturbed: Whether the guard did anything in each run without a fault.
    """

    before: list[bool]
    after: list[bool]
    disturbed: list[bool]


def run_guarded(
    program: str, check: str, tasks: Sequence[str], fresh: LearnFolder, recipe: StressRecipe, processes: int
) -> GuardedRuns:
    """Run a campaign's runs again under `POLICY`, with the schemata that the environment names.

    Args:
        program: `module:factory`.
        check: `module:function`.
        tasks: Of the campaign.
        fresh: Its folder.
        recipe: Its faults.
        processes: Runs at once.
    """
    runs = fresh.runs()
    clean: dict[int, tuple[Clean, Script]] = {}
    with_fault = []
    for done in fresh.done.values():
        if done.what == "clean" and done.succeeded:
            trace, run = _read(runs[done.trace_id], done)
            clean[int(done.key.split()[-1])] = run, script_of(trace, runs[done.trace_id].spans)
        elif done.what in ("flipped", "harmless"):
            with_fault.append(done)
    with (
        WorkerPool(open_guarded, program, check, recipe, name=program, timeout_s=recipe.timeout_s) as pool,
        ThreadPoolExecutor(processes) as threads,
    ):

        def try_fault(done: Done) -> bool:
            planned = _read_plan(done)
            twin, script = clean[planned.task]
            try:
                trial: RecordedTrial = pool.ask(FaultRun(tasks[planned.task], planned, twin, script.results))
            except RunEnded:
                return False
            heeds = done.what == "harmless" or _draw(done) < HEED  # who does not says the same again: the run fails
            return bool(trial.run.succeeded) and heeds

        def is_disturbed(task: int) -> bool:
            trial: RecordedTrial = pool.ask(CleanRun(tasks[task]))
            events = [event for span in trial.spans for event in span.events if event.name == words.GUARD_EVENT]
            return any(event.attributes.get(words.GUARD_ACTION) != "observe" for event in events)

        after = list(threads.map(try_fault, with_fault))
        disturbed = list(threads.map(is_disturbed, clean))
    return GuardedRuns([done.what == "harmless" for done in with_fault], after, disturbed)


def open_guarded(program: str, check: str, recipe: StressRecipe) -> CarryOut:
    """Open a worker that runs the program under `POLICY`."""
    blamespan.guard(POLICY).__enter__()  # as long as the process
    return open_worker(program, check, recipe)


def _read(run: RecordedRun, done: Done) -> tuple[MessageActionTrace, Clean]:
    trace = longest_trace(run.spans)
    if trace is None:
        raise ValueError(f"expected agents in the run {done.key!r}, got none")
    seen = seen_in(run.spans, done.answer, done.succeeded, done.error)
    return trace, Clean(seen, {name: (name,) for name in seen.agents})


def _read_plan(done: Done) -> Planned:
    kind, mechanism, *role, task, number = cast(Any, done.key.split(" "))[1:]
    return Planned(kind, cast(Mechanism, mechanism), " ".join(role), int(task), int(number))
