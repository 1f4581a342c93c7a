"""`blamespan guard`: what a policy says, and what it would have done."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from blamespan.guarding.decisions import Decision
    from blamespan.guarding.policy import ArgumentRule, Budget, Policy, SignRule
    from blamespan.guarding.trying import TriedRun

from blamespan.cli import SuggestingGroup

__all__ = ["guard_command"]

_MOST_LINES = 40


@click.group("guard", cls=SuggestingGroup)
def guard_command() -> None:
    """Check a guard's policy, and try it on recorded runs.

    A program is guarded by `blamespan.guard("policy.toml")`; docs/guard.md shows how.

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
    if read.signs:
        make_watcher([read], "")  # names of checks are known or refused
    known_agents, known_tools = _names_in(traces)
    unknown = [
        *_unknown("agent", read.named_agents, {*known_agents, *agents}),
        *_unknown("tool", read.named_tools, {*known_tools, *tools}),
    ]
    sentences = list(_describe(read))
    if wants_json:
        click.echo(json.dumps({"policy": str(policy), "says": sentences, "notes": read.notes, "unknown": unknown}))
    else:
        for sentence in sentences:
            click.echo(_printable(sentence))
        for note in read.notes:
            click.echo(f"contradiction: {_printable(note)}")
        for line in unknown:
            click.echo(f"unknown: {_printable(line)}")
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
    for run in runs_in(sources):
        if isinstance(run, UnreadableInput):
            counts["unreadable"] += 1
            click.echo(f"blamespan: {_printable(str(run))}", err=True)
            continue
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
    if counts["unreadable"]:
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


def _unknown(kind: str, names: Sequence[str], known: set[str]) -> Iterator[str]:
    for name in names if known else ():
        if name not in known:
            near = get_close_matches(name, sorted(known), n=1, cutoff=0.0)[0]
            yield f"{kind} {name!r}. Nearest known: {near!r}"


def _describe(policy: Policy) -> Iterator[str]:
    """Say in sentences what a policy says."""
    for rule in policy.agents.values():
        who = "Every agent" if rule.agent == "*" else f"{rule.agent!r}"
        then = f" Else: {_join(rule.action)}."
        if rule.tools is not None:
            yield f"{who} may call {_list(rule.tools)}, and no other tool.{then}"
        if rule.forbidden:
            yield f"{who} may not call {_list(rule.forbidden)}, in whatever spelling.{then}"
        if rule.code is not None:
            yield f"{who} may use {_list(rule.code)} in code, beside pure modules.{then}"
        if rule.recipients is not None:
            yield f"{who} may address {_list(rule.recipients)}, and nobody else.{then}"
    for argument in policy.arguments:
        yield f"{argument.name}: {_describe_argument(argument)}"
    for text in policy.texts:
        forbidden = (
            f"no message{_of(text.agent)} has a part as {text.forbidden_pattern.text!r} says, wherever it stands"
        )
        yield f"{text.name}: {forbidden}. Else: {_join(text.action)}."
    for sign in policy.signs:
        yield f"{sign.name}: where {_describe_sign(sign)}{_of(sign.agent)}: {_join(sign.action)}."
    for budget in policy.budgets:
        yield f"{budget.name}: {_describe_budget(budget)}"
    yield f"Where the guard itself fails, the step {'passes' if policy.fail == 'open' else 'is stopped'}."


_PHRASES: Final = {
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
}


def _describe_argument(rule: ArgumentRule) -> str:
    values = {name: getattr(rule, name) for name in _PHRASES}
    written = {
        name: _list(value) if isinstance(value, tuple) else repr(value.text) if hasattr(value, "text") else value
        for name, value in values.items()
        if value not in (None, "", ())
    }
    said = [*(["is given"] if rule.required else []), *(_PHRASES[name].format(text) for name, text in written.items())]
    return f"{rule.argument!r} of {rule.tool!r}{_of(rule.agent)} {', and '.join(said)}. Else: {_join(rule.action)}."


def _describe_sign(rule: SignRule) -> str:
    if rule.check is not None:
        return f"a step breaks the check {rule.check!r}"
    if rule.suspicion is not None:
        return f"the suspicion is {rule.suspicion:g} or more"
    if rule.schema is not None:
        return f"the known failure {rule.schema!r} shows"
    return f"a claim without support reaches {rule.unsupported_reaches} agents"


def _describe_budget(budget: Budget) -> str:
    limits = ", ".join(f"{limit:g} {unit.replace('_', ' ')}" for unit, limit in budget.limits.items())
    per = {"agent": "for each agent in a run", "run": "for each run", "day": "for each day"}[budget.per]
    return f"at most {limits} {per}{_of(budget.agent)}. Else: {_join(budget.action)}."


def _of(agent: str) -> str:
    return "" if agent == "*" else f" of {agent!r}"


def _list(items: Sequence[object]) -> str:
    return ", ".join(f"{item!r}" for item in items) or "nothing"


def _join(actions: Sequence[str]) -> str:
    return ", then ".join(actions)


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
    click.echo(f"{figures['runs']} runs, {figures['disturbed']} disturbed; decisions: {actions}")
    if not (figures["failed"] or figures["succeeded"]):
        click.echo("how the runs ended is not known: no precision. docs/outcomes.md says how to tell it")
        return
    for name, part, whole in (
        ("precision", "disturbed_failed", figures["disturbed_failed"] + figures["disturbed_succeeded"]),
        ("recall", "disturbed_failed", figures["failed"]),
        ("sound runs disturbed", "disturbed_succeeded", figures["succeeded"]),
    ):
        share = f"{100 * figures[part] / whole:.1f} %" if whole else "-"
        click.echo(f"{name:22}{share:>8}   {figures[part]} of {whole}")


def _as_json(tried: TriedRun) -> dict[str, Any]:
    return {
        "outcome": tried.trace.outcome,
        "disturbed": tried.is_disturbed,
        "steps": [
            {
                "step": step.step,
                "agent": step.agent,
                "action": step.action,
                "decisions": [_decision_as_json(decision) for decision in step.decisions],
            }
            for step in tried.steps
        ],
    }


def _decision_as_json(decision: Decision) -> dict[str, Any]:
    return {
        "actions": decision.actions,
        "rule": decision.rule,
        "kind": decision.kind,
        "reason": decision.reason,
        "tool": decision.tool,
    }


def _print_run(source: str, tried: TriedRun, *, every: bool) -> None:
    shown = [step for step in tried.steps if every or step.action != "observe"]
    if not shown:
        return
    click.echo(f"{_printable(source)}   {len(tried.trace.steps)} steps   {tried.trace.outcome}")
    for step in shown[:_MOST_LINES]:
        first = step.decisions[0]
        reason = f"{_printable(first.rule)[:24]:24}  {_printable(first.reason)}"
        click.echo(f"{step.step:4}  {step.action:8}  {_printable(step.agent)[:24]:24}  {reason}".rstrip())
    if len(shown) > _MOST_LINES:
        click.echo(f"      {len(shown) - _MOST_LINES} more. All of them: --json")


def _printable(text: str) -> str:
    from blamespan.analysis.showing.legible import printable

    return printable(text)
