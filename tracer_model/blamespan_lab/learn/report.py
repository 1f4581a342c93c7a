"""What was learnt, as figures for programs and in a few lines for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blamespan.analysis.showing.legible import counted
from blamespan.learning import LearnSettings
from blamespan.learnt_files import OUTCOME_HEAD_FILE, STEP_HEAD_FILE, USUAL_COURSE_FILE
from blamespan_lab.learn.campaign import Made, total_cost
from blamespan_lab.learn.training import Trained
from blamespan_tracer.checks.usual_course import FEWEST_RUNS

if TYPE_CHECKING:
    from blamespan_lab.learn.language_model import TaughtModel

_USES = {USUAL_COURSE_FILE: "what is usual", STEP_HEAD_FILE: "steps", OUTCOME_HEAD_FILE: "outcomes"}
"""What each file that learning writes is for."""
_MOST_NAMED = 5
_FEW_TASKS = 15
_ENOUGH = 60
"""Failures from which on more of them add little."""


def figures_of(
    made: Made | None,
    trained: Trained,
    settings: LearnSettings,
    taught: TaughtModel | str | None = None,
    *,
    seconds: float,
) -> dict[str, Any]:
    """Lay out what was made and learnt, for JSON.

    Args:
        made: What the campaign made; None where recorded runs alone were learnt from.
        trained: What was learnt.
        settings: The user's, with prices.
        taught: A language model that was taught the same, or why there is none; None where none was asked for.
        seconds: That it all took.
    """
    steps, left_out, outcomes, teams = trained.steps, trained.left_out, trained.outcomes, trained.courses.teams
    return {
        "runs": _describe_runs(made, settings),
        "usual": {
            "sound_runs": trained.n_sound,
            "teams": len(teams),
            "agents": sum(len(team.agents) for team in teams),
            "habits": sum(len(team.habits) for team in teams),
        },
        "steps": None
        if steps is None or left_out is None
        else {
            "failures": steps.n,
            "before": trained.by_itself,
            "usual_course": steps.before,
            "after": steps.after,
            "after_interval": list(steps.after_interval),
            "agent_before": steps.agent_before,
            "agent_after": steps.agent_after,
            "always_this_agent": left_out.agent,
            "always_this_place": left_out.place,
            "kinds_left_out": left_out.after,
            "kind_before": None if steps.kinds is None else steps.kinds.before,
            "kind_after": None if steps.kinds is None else steps.kinds.after,
            "is_used": trained.step_head,
        },
        "no_steps": trained.why_not,
        "outcomes": None
        if outcomes is None
        else {
            "failed": outcomes.n_failed,
            "sound": outcomes.n_sound,
            "auc": outcomes.head,
            "auc_before": outcomes.tracer,
            "false_alarms": outcomes.false_alarms,
            "false_alarms_before": outcomes.tracer_false_alarms,
            "is_used": trained.outcome_head,
        },
        "no_outcomes": trained.why_no_outcomes,
        "model": None if taught is None or isinstance(taught, str) else _describe_model(taught),
        "no_model": taught if isinstance(taught, str) else "",
        "well_known": list(trained.known),
        "not_yet_known": list(trained.unknown),
        "labels_of_other_runs": trained.unused,
        "teams": trained.n_teams,
        "seconds": seconds,
    }


def _describe_runs(made: Made | None, settings: LearnSettings) -> dict[str, Any] | None:
    if made is None:
        return None
    cost = total_cost(made.done)
    flipped, clean = made.of("flipped"), made.of("clean")
    replayed = [done for done in flipped if done.is_replayed]
    placed = [done for done in replayed if done.fault is not None and done.fault.step is not None
              and done.fault.mechanism == "response"]  # fmt: skip
    return {
        "tasks": made.tasks,
        "sound": sum(done.succeeded is True for done in clean),
        "failed_clean": sum(done.succeeded is False for done in made.done if done.key.startswith("clean ")),
        "check_raised": sum("the check raised" in done.error for done in made.done),
        **{what: len(made.of(what)) for what in ("flipped", "harmless", "missed", "hung", "void")},
        "why_void": _commonest(done.reason for done in made.of("void") if done.key.startswith("fault ")),
        "replayed": len(replayed),
        "placed": len(placed),
        "replayed_where_injected": sum(done.fault is not None and done.decisive == done.fault.step for done in placed),
        "is_repeatable": made.is_repeatable,
        "agents": len({done.fault.agent for done in made.done if done.fault is not None}),
        "all": sum(done.runs for done in made.done),
        "model_calls": cost.calls,
        "tokens": cost.tokens,
        "usd": cost.usd,
        "planned": made.planned,
    }


def _describe_model(taught: TaughtModel) -> dict[str, Any]:
    return {**asdict(taught), "adapter": str(taught.adapter), "is_better": taught.figures.is_better}


def _commonest(reasons: Any) -> str:
    counts = Counter(reason for reason in reasons if reason)
    return counts.most_common(1)[0][0] if counts else ""


def lines_of(figures: Mapping[str, Any], folder: Path, better: Sequence[str], place: Path | None) -> tuple[str, ...]:
    """Say it in a line for each thing."""
    runs, steps, outcomes = figures["runs"], figures["steps"], figures["outcomes"]
    return (
        f"made      {_say_runs(runs)}",
        f"usual     {_say_usual(figures['usual'])}",
        f"steps     {_say_steps(steps) if steps is not None else figures['no_steps']}",
        f"outcomes  {_say_outcomes(outcomes) if outcomes is not None else figures['no_outcomes']}",
        *([f"model     {_say_model(figures)}"] if figures["model"] or figures["no_model"] else []),
        f"known     {_say_known(figures)}",
        f"cost      {_say_cost(runs, figures['seconds'])}; kept in {folder}",
        f"use       {_say_use(better, place, folder)}{_say_what_to_add(figures)}",
    )


def _say_runs(runs: Mapping[str, Any] | None) -> str:
    if runs is None:
        return "nothing; learnt from recorded runs"
    faults = runs["flipped"] + runs["harmless"]
    parts = [
        f"{counted(runs['flipped'], 'failure')} by {counted(faults, 'fault')} in {runs['sound']} sound tasks of "
        f"{runs['tasks']}, {runs['replayed']} mended by replay"
    ]
    if runs["placed"]:
        parts.append(f"at the step the fault was put into in {runs['replayed_where_injected']} of {runs['placed']}")
    if not runs["is_repeatable"]:
        parts.append("the program answers otherwise each time, so each replay was made three times")
    if runs["hung"]:
        parts.append(f"{counted(runs['hung'], 'run')} hung or broke")
    if runs["why_void"]:
        parts.append(f"{runs['void']} say nothing ({runs['why_void']})")
    if runs["check_raised"]:
        parts.append(f"the check raised on {counted(runs['check_raised'], 'answer')}, which counts as wrong")
    return "; ".join(parts)


def _say_usual(usual: Mapping[str, Any]) -> str:
    if not usual["agents"]:
        return f"nothing yet: {counted(usual['sound_runs'], 'sound run')}, {FEWEST_RUNS} show what is usual"
    return (
        f"{counted(usual['habits'], 'habit')} of {counted(usual['agents'], 'agent')}, by "
        f"{counted(usual['sound_runs'], 'sound run')} and no label"
    )


def _say_steps(steps: Mapping[str, Any]) -> str:
    low, high = steps["after_interval"]
    return (
        f"{steps['before']:.0f} -> {steps['after']:.0f} % named right ({low:.0f} to {high:.0f}) on {steps['failures']} "
        f"failures of tasks not learnt; by what is usual alone {steps['usual_course']:.0f} %; kinds left out "
        f"{steps['kinds_left_out']:.0f} %; always this agent {steps['always_this_agent']:.0f} %, always this place "
        f"{steps['always_this_place']:.0f} %{_say_kinds(steps)}"
    )


def _say_kinds(steps: Mapping[str, Any]) -> str:
    before, after = steps["kind_before"], steps["kind_after"]
    return "" if after is None else f"; kind of error named right {before:.0f} -> {after:.0f} %"


def _say_outcomes(outcomes: Mapping[str, Any]) -> str:
    return (
        f"AUC {outcomes['auc_before']:.2f} -> {outcomes['auc']:.2f} on {outcomes['failed']} failed and "
        f"{outcomes['sound']} sound runs of tasks not learnt; sound called failed "
        f"{100 * outcomes['false_alarms_before']:.0f} -> {100 * outcomes['false_alarms']:.0f} %"
    )


def _say_model(figures: Mapping[str, Any]) -> str:
    model = figures["model"]
    if model is None:
        return str(figures["no_model"])
    measured = model["figures"]
    step, agent, small_step, small_agent = (
        f"{value:.0f} % ({low:.0f} to {high:.0f})"
        for value, (low, high) in (measured[key] for key in ("step", "agent", "small_step", "small_agent"))
    )
    use = (
        f"better, so use it: BLAMESPAN_LANGUAGE_MODEL_ADAPTER={model['adapter']} with --tracer language-model"
        if model["is_better"]
        else f"not measurably better, so it is not used; its adapter is in {model['adapter']}"
    )
    return (
        f"step {step}, agent {agent} on {measured['n']} failures of {measured['tasks']} other tasks; the small "
        f"one {small_step}, {small_agent}; {model['seconds']:.0f} s on {model['device']}; {use}"
    )


def _say_known(figures: Mapping[str, Any]) -> str:
    well, badly = figures["well_known"], figures["not_yet_known"]
    parts = [f"well: {', '.join(well[:_MOST_NAMED])}" if well else "nothing well yet"]
    if badly:
        parts.append(f"not yet: {', '.join(badly[:_MOST_NAMED])}")
    return "; ".join(parts)


def _say_cost(runs: Mapping[str, Any] | None, seconds: float) -> str:
    took = f"{int(seconds) // 60} min {int(seconds) % 60} s"
    if runs is None:
        return took
    money = f", ${runs['usd']:,.2f}" if runs["usd"] else ""
    return (
        f"{counted(runs['all'], 'run')}, {counted(runs['model_calls'], 'model call')}, "
        f"{counted(runs['tokens'], 'token')}{money}, {took}"
    )


def _say_use(better: Sequence[str], place: Path | None, folder: Path) -> str:
    if not better:
        return "nothing: it is not measurably better than the tracer by itself"
    named = " and ".join(_USES[name] for name in better)
    if place is None:
        return f"{named}, where you say so: BLAMESPAN_LEARNT={folder}"
    return f"{named}, from now on: analyze, embedded programs, the collector at its next start ({place})"


def _say_what_to_add(figures: Mapping[str, Any]) -> str:
    runs, steps = figures["runs"], figures["steps"]
    if figures["labels_of_other_runs"]:
        return f". {counted(figures['labels_of_other_runs'], 'label')} about other runs: made of another team?"
    if runs is not None and figures["teams"] > 1:
        return f". Runs of {figures['teams']} teams that share no agent were learnt as one: learn each by itself"
    if runs is not None and runs["tasks"] < _FEW_TASKS:
        return f". To add: tasks; {counted(runs['tasks'], 'task')} will not do, 20 or more show what holds on others"
    if runs is not None and runs["agents"] == 1:
        return ". One agent: it is always to blame, so only its steps can be learnt"
    if steps is None or steps["failures"] < _ENOUGH:
        return ". To add: a larger --budget, for more failures"
    return ""
