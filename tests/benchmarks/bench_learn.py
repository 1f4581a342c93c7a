"""What learning a team is worth, on tasks it has not seen.

    scripts/bench learn [--quick] [--only TEAM] [--folder FOLDER] [--json]
    scripts/bench learn --recorded TRACES TRACES ...

The teams of `examples/learn` (AutoGen: orders; LangGraph: flats) and of `learn_teams` (AutoGen: incidents; LangGraph:
reports) answer by what they read, so that a fault has consequences. Each is learnt on 30 tasks; then faults are put
into runs of 30 other tasks, by another seed, and the tracer is asked with what it learnt and without. It knows that
these failed; whether sound runs are called failed is asked without saying how they ended. Exit code 1 where a bar is
missed.

`learn_worth` says by which assumption a retry or a guard mends a fault.

With --recorded it is asked what is usual in runs of others, whose outcome is known: learnt from the sound runs of half
of the tasks, and held against the other half; then the other way round.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from random import Random
from shutil import copyfile
from tempfile import TemporaryDirectory

import click
from tests.benchmarks.learn_worth import make_schemata, retry, run_guarded
from tests.benchmarks.machine import describe, versions

import blamespan
from blamespan.analysis.sources import runs_in
from blamespan.analysis.summary.statistics import Share
from blamespan.attribution import NOBODY_KNOWS
from blamespan.cores import cores
from blamespan.errors import UnreadableInput
from blamespan.importing.recorded import RecordedRun
from blamespan.learnt_files import OUTCOME_HEAD_FILE, STEP_HEAD_FILE, USUAL_COURSE_FILE
from blamespan.taxonomy import canonical, mode
from blamespan_lab.learn.campaign import Budget
from blamespan_lab.learn.folder import Done, LearnFolder
from blamespan_lab.learn.teaching import make_recipe, make_runs
from blamespan_tracer.auto.tracer import AutoTracer
from blamespan_tracer.checks import apply_checks
from blamespan_tracer.checks.usual_course import learn_usual_courses

PLACES = (Path(__file__).resolve().parents[2] / "examples" / "learn", Path(__file__).parent / "learn_teams")
LEARNT_FILES = (USUAL_COURSE_FILE, STEP_HEAD_FILE, OUTCOME_HEAD_FILE)
ABSENCES = ("mast:FM-2.4", "mast:FM-3.1", "mast:FM-3.2")
"""What is not there: a fact, the rest of the run, a check."""


def make_orders(count: int, seed: int) -> list[str]:
    """Write tasks for the team that prices orders."""
    draws = Random(seed)  # the same tasks each time
    customers = ("Delta Ltd", "Orion Inc", "Maple Co", "Nova Ltd", "Harbor Inc", "Quill Co", "Tern Ltd")
    goods = ("lamp", "chair", "mat", "desk", "stool", "clock", "vase")
    texts = []
    for number in range(count):
        items = [f"{draws.randrange(2, 9)} {name}s" for name in draws.sample(goods, draws.choice([2, 3, 4]))]
        name = customers[number % len(customers)]
        member = f", and {name} is a member" if draws.random() < 0.5 else ""
        texts.append(
            f"Order for {name}: {', '.join(items[:-1])} and {items[-1]}. Members of the club get 10 % off the goods"
            f"{member}. Delivery costs 15 euro unless the goods come to more than 300 euro. What is to be paid?"
        )
    return texts


def make_flats(count: int, seed: int) -> list[str]:
    """Write tasks for the team that finds flats; other seeds, other cities."""
    draws, people = Random(seed), ("Ms Weber", "Mr Okafor", "Ms Lindt", "Mr Costa", "Ms Novak", "Mr Hale")
    cities = draws.sample(("Lyon", "Bergen", "Porto", "Graz", "Ghent", "Turku", "Brno", "Leeds", "Bologna", "Basel"), 6)
    return [
        f"Find a flat in {cities[number % len(cities)]} for {people[number % len(people)]}: at most "
        f"{draws.randrange(8, 12) * 100} euro a month, at least {draws.choice([1, 2, 2, 3])} rooms. "
        f"{draws.choice(['There is a dog, so a dog must be welcome.', 'No pets move in.'])} "
        "Of all that suit, name the one that is nearest to the station."
        for number in range(count)
    ]


TEAMS: dict[str, tuple[str, Callable[[int, int], list[str]]]] = {
    "orders": ("orders_autogen", make_orders),
    "incidents": ("incidents_autogen", lambda count, seed: import_module("incidents_autogen").make_tasks(count, seed)),
    "flats": ("flats_langgraph", make_flats),
    "reports": ("reports_langgraph", lambda count, seed: import_module("reports_langgraph").make_tasks(count, seed)),
}


@dataclass(frozen=True)
class Row:
    """One figure of one team.

    Attributes:
        what: What is measured.
        before: Without what was learnt; None where that is no question.
        after: With it.
        bar: What it must reach, in words.
        is_met: Whether it does.
    """

    what: str
    before: Share | float | None
    after: Share | float
    bar: str = ""
    is_met: bool = True


def main() -> None:
    parser = argparse.ArgumentParser("scripts/bench learn", description="What learning a team is worth.")
    parser.add_argument("--quick", action="store_true", help="few faults: rough")
    parser.add_argument("--only", choices=sorted(TEAMS), help="this team alone")
    parser.add_argument("--folder", type=Path, help="keep the campaigns there, and go on with those that are there")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument("--recorded", type=Path, nargs="+", help="what is usual in these runs, instead")
    chosen = parser.parse_args()
    if chosen.recorded:
        for path in chosen.recorded:
            click.echo(f"{path.name}: {measure_recorded(path)}")
        return
    sys.path[:0] = map(str, PLACES)
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, PLACES))
    names = [chosen.only] if chosen.only else list(TEAMS)
    with TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        tables = {name: measure(name, folder / name, is_quick=chosen.quick) for name in names}
    if chosen.json:
        click.echo(json.dumps({name: [_as_json(row) for row in rows] for name, rows in tables.items()}))
    else:
        click.echo(
            ", ".join(
                f"{key} {value}"
                for key, value in {**describe(), **versions(("langgraph", "autogen-agentchat"))}.items()
            )
        )
        for name, rows in tables.items():
            click.echo(f"\n{name} ({TEAMS[name][0]})")
            for row in rows:
                mark = "" if row.is_met else "  MISSED"
                click.echo(f"  {row.what:46} {_format(row.before):>22} {_format(row.after):>22}  {row.bar}{mark}")
    sys.exit(any(not row.is_met for rows in tables.values() for row in rows))


def measure(name: str, folder: Path, *, is_quick: bool) -> list[Row]:
    """Learn a team, and ask about runs of other tasks."""
    module, make_tasks = TEAMS[name]
    program, check = f"{module}:make", f"{module}:is_right"
    n_tasks, n_faults = (10, 60) if is_quick else (30, 300)
    began_s = _cpu_s()
    learnt = blamespan.learn(program, make_tasks(n_tasks, 1), check, out=folder, budget=n_faults, use=False)
    took_min = (_cpu_s() - began_s) / 60 / 2
    fresh = LearnFolder(folder / "fresh", {})
    tasks, recipe = make_tasks(n_tasks, 2), make_recipe(seed=1)
    made = make_runs(program, check, tasks, fresh, recipe, Budget(n_faults // 2))
    runs = fresh.runs()
    failed = [done for done in made.of("flipped") if done.is_replayed]
    sound = [done for done in (*made.of("clean"), *made.of("harmless")) if done.succeeded]
    kinds = {kind for done in failed if (kind := _kind(done)) in ABSENCES}
    clean = [done for done in sound if done.what == "clean"]
    before, usual, after = AutoTracer.bundled(), _use(folder, (USUAL_COURSE_FILE,)), _use(folder, LEARNT_FILES)
    named = {tracer: _named(tracer, failed, runs) for tracer in (before, usual, after)}
    told = {tracer: _called_failed(tracer, failed, runs) for tracer in (before, usual, after)}
    agents = [runs[done.trace_id].trace.steps[done.decisive or 0].agent for done in failed]
    always = max(agents.count(agent) for agent in agents)
    steps, figures, made_runs = named[before], learnt.figures["steps"], learnt.figures["runs"]
    by_anybody = retry(after, failed, runs, names_anybody=True)
    os.environ["BLAMESPAN_SCHEMATA"] = str(make_schemata(folder))
    guarded = run_guarded(program, check, tasks, fresh, recipe, cores())
    absent = [index for index, done in enumerate(failed) if _kind(done) in kinds]
    return [
        _row(
            "usual course alone, absences: found, step",
            None,
            [told[usual][i] and named[usual][0][i] for i in absent],
            ">= 60 %",
            lambda was, now: now >= 0.60,
        ),
        _row("usual course alone, all kinds: step", steps[0], named[usual][0]),
        _row(
            "usual course alone, sound without fault disturbed",
            _called_failed(before, clean, runs),
            _called_failed(usual, clean, runs),
            "<= 3 %",
            lambda was, now: now <= 0.03,
        ),
        _row(
            "step named, fresh tasks",
            steps[0],
            named[after][0],
            "+25 points, >= 85 %",
            lambda was, now: now >= was + 0.25 and now >= 0.85,
        ),
        _row("agent named, fresh tasks", steps[1], named[after][1]),
        _row("kind of error named, fresh tasks", steps[2], named[after][2]),
        Row("always this agent, fresh tasks: agent", None, Share(always, len(agents))),
        _row(
            "absences, fresh tasks: step",
            [steps[0][i] for i in absent],
            [named[after][0][i] for i in absent],
            ">= 70 %",
            lambda was, now: now >= 0.70,
        ),
        Row(
            "kinds left out, cross-fitted: step",
            figures["before"],
            figures["kinds_left_out"],
            "+10 points",
            figures["kinds_left_out"] >= figures["before"] + 10,
        ),
        Row("always this agent; this place, cross-fitted", figures["always_this_place"], figures["always_this_agent"]),
        _row(
            "sound runs called failed, fresh tasks",
            _called_failed(before, sound, runs),
            _called_failed(after, sound, runs),
            "<= 3 %",
            lambda was, now: now <= 0.03,
        ),
        _row("failed runs called failed, fresh tasks", told[before], told[after]),
        _row(
            "replayed label is the injected step",
            None,
            [True] * made_runs["replayed_where_injected"]
            + [False] * (made_runs["placed"] - made_runs["replayed_where_injected"]),
            ">= 95 %",
            lambda was, now: now >= 0.95,
        ),
        _row("one retry, a random agent named: solved", None, by_anybody),
        _row("one retry with feedback: solved", retry(before, failed, runs), retry(after, failed, runs)),
        _row(
            "guarded by schemata: solved under the same faults",
            guarded.before,
            guarded.after,
            "+10 points",
            lambda was, now: now >= was + 0.10,
        ),
        _row("guarded by schemata: sound disturbed", None, guarded.disturbed, "<= 2 %", lambda was, now: now <= 0.02),
        Row("from command to use, minutes of two free cores", None, took_min, "<= 5", is_quick or took_min <= 5),
    ]


def measure_recorded(path: Path) -> str:
    """Say how many runs of a file leave the usual course of its sound runs of other tasks."""
    traces = [run.trace for run in runs_in([path]) if not isinstance(run, UnreadableInput)]
    tasks = sorted({trace.task for trace in traces})
    broken: dict[str, list[bool]] = {"succeeded": [], "failed": []}
    for half in (set(tasks[::2]), set(tasks[1::2])):
        sound = [trace for trace in traces if trace.outcome == "succeeded" and trace.task in half]
        courses = learn_usual_courses(sound)
        for trace in traces:
            if trace.task not in half and trace.outcome in broken and courses.course_of(trace) is not None:
                results = apply_checks(courses.checks(), trace)
                broken[trace.outcome].append(any(result.outcome == "fail" for result in results))
    disturbed, found = (_format(Share(sum(hits), len(hits))) if hits else "none" for hits in broken.values())
    return f"sound runs disturbed {disturbed}; failed ones found {found}"


def _use(folder: Path, names: Sequence[str]) -> AutoTracer:
    """Make the tracer with some of what was learnt, where that is better."""
    used = folder / "-".join(["used", *names])
    used.mkdir(exist_ok=True)
    for name in names:
        if (folder / name).exists():
            copyfile(folder / name, used / name)
    os.environ["BLAMESPAN_LEARNT"] = str(used)
    return AutoTracer.in_use()


def _cpu_s() -> float:
    """Return the seconds of a core that this process and those that it ended took: others may load the machine."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _named(tracer: AutoTracer, failed: Sequence[Done], runs: dict[str, RecordedRun]) -> tuple[list[bool], ...]:
    """Tell of each failure whether its step, its agent and its kind of error are named."""
    traces = [runs[done.trace_id].trace for done in failed]
    verdicts = tracer.attribute(traces)
    steps = [verdict.decisive_step == done.decisive for verdict, done in zip(verdicts, failed, strict=True)]
    agents = [
        verdict.decisive_step is not None
        and trace.steps[verdict.decisive_step].agent == trace.steps[done.decisive or 0].agent
        for verdict, trace, done in zip(verdicts, traces, failed, strict=True)
    ]
    kinds = [
        done.fault is not None
        and any(canonical(verdict.modes[0].mode)[0] == canonical(mode(name))[0] for name in done.fault.modes)
        if verdict.modes
        else False
        for verdict, done in zip(verdicts, failed, strict=True)
    ]
    return steps, agents, kinds


def _called_failed(tracer: AutoTracer, done: Sequence[Done], runs: dict[str, RecordedRun]) -> list[bool]:
    untold = [replace(runs[one.trace_id].trace, outcome="unknown") for one in done]
    return [verdict.failure_score > NOBODY_KNOWS for verdict in tracer.attribute(untold)]


def _kind(done: Done) -> str:
    modes = done.fault.modes if done.fault is not None else ()
    return next((name for name in modes if name in ABSENCES), "")


def _row(what, before, after, bar="", is_met=lambda was, now: True) -> Row:  # type: ignore[no-untyped-def]
    now = Share(sum(after), len(after))
    was = None if before is None else Share(sum(before), len(before))
    return Row(what, was, now, bar, is_met(was.value if was else 0.0, now.value))


def _format(value: Share | float | None) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.1f}"
    low, high = value.interval
    return f"{value.count} of {value.total}: {100 * value.value:.0f} % ({100 * low:.0f}-{100 * high:.0f})"


def _as_json(row: Row) -> dict[str, object]:
    def plain(value: Share | float | None) -> object:
        return [value.count, value.total] if isinstance(value, Share) else value

    return {"what": row.what, "before": plain(row.before), "after": plain(row.after), "bar": row.bar, "met": row.is_met}


if __name__ == "__main__":
    main()
