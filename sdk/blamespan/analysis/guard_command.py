"""`blamespan guard`: what a policy says, and what it would have done."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from blamespan.guarding.policy import Policy
    from blamespan.guarding.trying import TriedRun

from blamespan.analysis.showing.legible import counted, printable
from blamespan.analysis.showing.notices import readable
from blamespan.cli import SuggestingGroup

_MOST_LINES = 40


@click.group("guard", cls=SuggestingGroup)
def guard_command() -> None:
    """Check a guard's policy, and try it on recorded runs.

    A program is guarded by `blamespan.guard("policy.toml")`; docs/how-to/guard.md shows how.

    Example:  blamespan guard try policy.toml traces.jsonl
    """


@guard_command.command()
@click.argument("policy", type=click.Path(path_type=Path))
@click.option(
    "--traces", multiple=True, metavar="SOURCE", help="Recorded runs: names that are not in them are unknown."
)
@click.option("--agent", "agents", multiple=True, metavar="NAME", help="An agent of the program; several times.")
@click.option("--tool", "tools", multiple=True, metavar="NAME", help="A tool of the program; several times.")
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON document.")
def check(
    policy: Path, traces: tuple[str, ...], agents: tuple[str, ...], tools: tuple[str, ...], wants_json: bool
) -> None:
    """Print what POLICY says, what contradicts itself in it, and which names are unknown.

    The exit code is 1 if a name is unknown, and 2 if the file is no policy.

    Example:  blamespan guard check policy.toml --traces traces.jsonl
    """
    from blamespan.guarding.policy import read_policy
    from blamespan.guarding.watching import make_watcher

    read = read_policy(policy)
    if read.findings:
        make_watcher([read], "")  # names of checks are known or refused
    known_agents, known_tools = _names_in(traces)
    unknown = list(read.find_unknown_names(agents={*known_agents, *agents}, tools={*known_tools, *tools}))
    sentences = list(_describe(read))
    if wants_json:
        click.echo(json.dumps({"policy": str(policy), "says": sentences, "notes": read.notes, "unknown": unknown}))
    else:
        for sentence in sentences:
            click.echo(printable(sentence))
        for note in read.notes:
            click.echo(f"contradiction: {printable(note)}")
        for line in unknown:
            click.echo(f"unknown: {printable(line)}")
    if unknown:
        sys.exit(1)


@guard_command.command("try")
@click.argument("policy", type=click.Path(path_type=Path))
@click.argument("sources", nargs=-1)
@click.option(
    "--json", "wants_json", is_flag=True, help="Print one JSON object for each run, and one for all at the end."
)
@click.option("--all", "every", is_flag=True, help="Print what it would only have observed, too.")
def try_policy(policy: Path, sources: tuple[str, ...], wants_json: bool, every: bool) -> None:
    """Print what POLICY would have done on the recorded runs in SOURCES, step by step.

    SOURCES are as for `blamespan analyze`: files, folders, runs in this machine's store, or nothing for all of these.
    The last lines hold its decisions, but for `observe`, against how the runs ended: precision is the share of the runs
    it would have disturbed that failed, recall the share of the failed ones that it would have disturbed. The exit code
    is 1 if a file could not be read.

    Example:  blamespan guard try policy.toml traces.jsonl
    """
    from blamespan.analysis.sources import runs_in
    from blamespan.errors import UnreadableInput
    from blamespan.guarding.policy import read_policy
    from blamespan.guarding.trying import try_run

    read = read_policy(policy)
    counts: Counter[str] = Counter()
    refused: list[UnreadableInput] = []
    for run in readable(runs_in(sources), refused):
        tried = try_run([read], run.trace)
        counts.update(_count(tried))
        if wants_json:
            click.echo(json.dumps({"source": run.source, "trace_id": run.trace.trace_id, **_as_json(tried)}))
        else:
            _print_run(run.source, tried, every=every)
    figures = _figures(counts)
    if wants_json:
        click.echo(json.dumps(figures))
    else:
        _print_figures(figures)
    if refused:
        sys.exit(1)


def _names_in(traces: Sequence[str]) -> tuple[set[str], set[str]]:
    from blamespan.analysis.sources import runs_in
    from blamespan.conventions import TOOL_NAME
    from blamespan.errors import UnreadableInput

    agents: set[str] = set()
    tools: set[str] = set()
    for run in runs_in(traces) if traces else ():
        if isinstance(run, UnreadableInput):
            raise run
        agents.update(agent.name for agent in run.trace.agents)
        for step in run.trace.steps:
            if step.kind == "tool_call":
                name = step.attributes.get(TOOL_NAME)
                tools.add(name if isinstance(name, str) else step.content.partition("(")[0].strip())
    return agents, tools


_AGENT_PHRASES: Final = {
    "tools": "may call {}, and no other tool",
    "forbidden": "may not call {}, in whatever spelling",
    "code": "may use {} in code, beside pure modules",
    "recipients": "may address {}, and nobody else",
}
_PHRASES: Final = {
    "required": "is given",
    "type": "is a {}",
    "at_least": "is at least {:g}",
    "at_most": "is at most {:g}",
    "one_of": "is one of {}",
    "none_of": "is none of {}",
    "pattern": "is as a whole as {} says",
    "forbidden_pattern": "has no part as {} says, wherever it stands",
    "hosts": "names no host but {}",
    "recipients": "names no recipient but {}",
    "max_chars": "has at most {} characters",
    "check": "keeps the check {!r}",
    "suspicion": "is less suspicious than {:g}",
    "schema": "does not show the known failure {!r}",
    "unsupported_reaches": "brings no claim without support to {} agents",
    "calls": "makes at most {} calls",
    "model_calls": "makes at most {} calls of models",
    "tool_calls": "makes at most {} calls of tools",
    "tokens": "takes at most {} tokens",
    "seconds": "takes at most {:g} seconds",
    "money": "costs at most {:g}",
}
_PERIODS: Final = {"agent": "each agent in a run", "run": "each run", "day": "each day"}


def _describe(policy: Policy) -> Iterator[str]:
    """Say in sentences what a policy says."""
    for agent in policy.agents.values():
        who = "Every agent" if agent.agent == "*" else f"{agent.agent!r}"
        for key, phrase in _AGENT_PHRASES.items():
            names = getattr(agent, key)
            if names is not None and (names or key != "forbidden"):
                yield f"{who} {phrase.format(_list(names))}. Else: {', then '.join(agent.action)}."
    subjects: list[tuple[Any, str]] = [(rule, f"{rule.argument!r} of {rule.tool!r}") for rule in policy.arguments]
    subjects += [(rule, "a message") for rule in policy.texts] + [(rule, "a step") for rule in policy.findings]
    subjects += [(rule, _PERIODS[rule.per]) for rule in policy.budgets]
    for rule, subject in subjects:
        of = "" if rule.agent == "*" else f" of {rule.agent!r}"
        values = {key: getattr(rule, key, None) for key in _PHRASES}
        said = [
            _PHRASES[key].format(_show(value)) for key, value in values.items() if value not in (None, "", (), False)
        ]
        yield f"{rule.name}: {subject}{of} {', and '.join(said)}. Else: {', then '.join(rule.action)}."
    yield f"Where the guard itself fails, the step {'passes' if policy.fail == 'open' else 'is stopped'}."


def _show(value: Any) -> Any:
    return _list(value) if isinstance(value, tuple) else repr(value.text) if hasattr(value, "text") else value


def _list(items: Sequence[object]) -> str:
    return ", ".join(f"{item!r}" for item in items) or "nothing"


def _count(tried: TriedRun) -> Counter[str]:
    outcome = tried.trace.outcome
    counts = Counter({"runs": 1, outcome: 1})
    counts.update(f"action {step.action}" for step in tried.steps)
    if tried.is_disturbed:
        counts.update(("disturbed", f"disturbed {outcome}"))
    return counts


def _figures(counts: Counter[str]) -> dict[str, Any]:
    failed, succeeded = counts["failed"], counts["succeeded"]
    caught, false = counts["disturbed failed"], counts["disturbed succeeded"]
    return {
        "runs": counts["runs"],
        "disturbed": counts["disturbed"],
        "actions": {key.removeprefix("action "): n for key, n in sorted(counts.items()) if key.startswith("action ")},
        "failed": failed,
        "succeeded": succeeded,
        "disturbed_failed": caught,
        "disturbed_succeeded": false,
        "precision": caught / (caught + false) if caught + false else None,
        "recall": caught / failed if failed else None,
    }


def _print_figures(figures: dict[str, Any]) -> None:
    actions = ", ".join(f"{count} {action}" for action, count in figures["actions"].items()) or "none"
    click.echo(f"{counted(figures['runs'], 'run')}, {figures['disturbed']} disturbed; decisions: {actions}")
    if not (figures["failed"] or figures["succeeded"]):
        click.echo("how the runs ended is not known: no precision. docs/how-to/outcomes.md says how to tell it")
        return
    for name, part, whole in (
        ("precision", "disturbed_failed", figures["disturbed_failed"] + figures["disturbed_succeeded"]),
        ("recall", "disturbed_failed", figures["failed"]),
        ("sound runs disturbed", "disturbed_succeeded", figures["succeeded"]),
    ):
        share = f"{100 * figures[part] / whole:.1f} %" if whole else "-"
        click.echo(f"{name:22}{share:>8}   {figures[part]} of {whole}")


def _as_json(tried: TriedRun) -> dict[str, Any]:
    shown = ("actions", "rule", "kind", "reason", "tool")  # advice may quote
    steps = [
        {
            **{key: getattr(step, key) for key in ("step", "agent", "action")},
            "decisions": [{key: getattr(decision, key) for key in shown} for decision in step.decisions],
        }
        for step in tried.steps
    ]
    return {"outcome": tried.trace.outcome, "disturbed": tried.is_disturbed, "steps": steps}


def _print_run(source: str, tried: TriedRun, *, every: bool) -> None:
    shown = [step for step in tried.steps if every or step.action != "observe"]
    if not shown:
        return
    click.echo(f"{printable(source)}   {counted(len(tried.trace.steps), 'step')}   {tried.trace.outcome}")
    for step in shown[:_MOST_LINES]:
        first = step.decisions[0]
        reason = f"{printable(first.rule)[:24]:24}  {printable(first.reason)}"
        click.echo(f"{step.step:4}  {step.action:8}  {printable(step.agent)[:24]:24}  {reason}".rstrip())
    if len(shown) > _MOST_LINES:
        click.echo(f"      {len(shown) - _MOST_LINES} more. All of them: --json")
