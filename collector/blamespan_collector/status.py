"""`blamespan status`: what is stored, what is known of how runs ended, and what the tracer has learnt from it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from blamespan.analysis.showing.legible import counted, printable
from blamespan.errors import BlamespanError, ConfigError, UnreadableInput
from blamespan.labels.file import LABELS_FILE, LabelsFile
from blamespan.learnt_files import JUDGE_HEADS, OUTCOME_HEADS, STEP_HEADS, USUAL_COURSE_FILE
from blamespan.plugins import load_part
from blamespan_collector.local_runs import default_store
from blamespan_collector.store import Incident, RunStore, close_incident

_MOST_NAMED: Final = 6
_MOST_INCIDENTS: Final = 10


@click.command()
@click.option("--store", metavar="FILE", type=click.Path(path_type=Path), help="Store of blamespan collect.")
@click.option("--close", "closed", metavar="INCIDENT", help="Close an incident; it opens when it comes again.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
def status(store: Path | None, closed: str | None, *, as_json: bool) -> None:
    """Say what is stored, which incidents are open, and what was learnt.

    Example:  blamespan status
    """
    path = store or default_store()
    if closed is not None:
        _close(RunStore(path).path, closed)
    document = _describe(path)
    if as_json:
        click.echo(json.dumps(document, indent=2))
        return
    counts = document["runs"]
    click.echo(f"store         {document['store']}")
    click.echo(f"runs          {sum(counts.values())}")
    click.echo(f"outcomes      {counts['failed']} failed, {counts['succeeded']} succeeded, {counts['unknown']} unknown")
    incidents = ", ".join(f"{number} {state}" for state, number in document["incidents"]["counts"].items() if number)
    click.echo(f"incidents     {incidents or 'none'}")
    for incident in document["incidents"]["open"][:_MOST_INCIDENTS]:
        name = printable(" ".join(part for part in (incident["service"], incident["likeness"]) if part))
        click.echo(f"  {incident['id']}  {counted(incident['runs'], 'run'):>11}, last {incident['last'][:16]}  {name}")
    refused = f", {document['unreadable_labels']} unreadable lines" if document["unreadable_labels"] else ""
    click.echo(f"labels        {document['labels']} in {LABELS_FILE}{refused}")
    how = "blamespan learn finds it in 20 sound runs"
    click.echo(f"usual course  {_format_head(document['usual_course'], how, _describe_usual)}")
    how = "blamespan lab train --outcomes learns one from 20 failed and 20 sound runs"
    for head in document["outcome_heads"] or [None]:
        click.echo(f"outcome head  {_format_head(head, how, _describe_outcomes)}")
    how = "blamespan lab train --labels learns one from 8 labelled failures, better from 25"
    for head in document["step_heads"] or [None]:
        click.echo(f"step head     {_format_head(head, how, _describe_steps)}")
    for head in document["judge_heads"]:
        click.echo(f"judge head    {_format_head(head, '', _describe_judge)}")


def _describe(path: Path) -> dict[str, Any]:
    """Lay out what there is to say of a store.

    Raises:
        BlamespanError: if the store or a file beside it cannot be read.
    """
    path = RunStore(path).path
    refused: list[UnreadableInput] = []
    labels = LabelsFile(path.parent / LABELS_FILE).read(refused)
    return {
        "store": str(path),
        "runs": RunStore(path).count_outcomes(),
        "incidents": {
            "counts": RunStore(path).count_incidents(),
            "open": [_describe_incident(one) for one in RunStore(path).incidents(1_000) if one.state == "open"],
        },
        "labels": len(labels),
        "unreadable_labels": len(refused),
        "usual_course": _describe_head(path.parent / USUAL_COURSE_FILE, "usual_courses"),
        "outcome_heads": [_describe_head(head, "outcome_head") for head in sorted(path.parent.glob(OUTCOME_HEADS))],
        "step_heads": [_describe_head(head, "step_head") for head in sorted(path.parent.glob(STEP_HEADS))],
        "judge_heads": [_describe_head(head, "judge_head") for head in sorted(path.parent.glob(JUDGE_HEADS))],
    }


def _describe_incident(incident: Incident) -> dict[str, Any]:
    times = {
        name: datetime.fromtimestamp(time_ns / 1e9, UTC).isoformat(timespec="seconds")
        for name, time_ns in (("first", incident.first_ns), ("last", incident.last_ns), ("opened", incident.state_ns))
    }
    names = ("id", "service", "version", "likeness", "agent", "mode", "mode_name", "runs", "since", "quote")
    return {**{name: getattr(incident, name) for name in names}, **times, "last_trace": incident.last_trace}


def _close(path: Path, incident_id: str) -> None:
    """Close an incident.

    Raises:
        ConfigError: if there is no such incident that is open.
    """
    known = [incident.id for incident in RunStore(path).incidents(1_000) if incident.state in ("open", "counted")]
    if incident_id not in known or not close_incident(path, incident_id, time.time_ns()):
        some = f"one of {', '.join(known[:_MOST_INCIDENTS])}" if known else "an open incident, of which there is none"
        raise ConfigError(f"expected {some}, got --close {incident_id!r}")
    click.echo(f"blamespan: incident {incident_id} is closed", err=True)


def _describe_head(path: Path, part: str) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        head = load_part(part)(path)
    except BlamespanError as error:
        return {"path": str(path), "is_in_use": False, "error": str(error)}
    return {"path": str(path), "is_in_use": head.is_better, **head.figures}


def _format_head(head: dict[str, Any] | None, how: str, describe: Callable[[dict[str, Any]], str]) -> str:
    """Say whether a head is in use, and how good it is; where there is none, how to learn one."""
    if head is None:
        return f"none: {how}"
    if "error" in head:
        return str(head["error"])
    use = "in use" if head["is_in_use"] else "not in use, as it is not measurably better"
    return f"{use}: {describe(head)}"


def _name_team(head: dict[str, Any]) -> str:
    """Name the agents that a head knows; nothing where it does not say."""
    agents = [printable(agent) for agent in head.get("agents", ())]
    more = ", ..." if len(agents) > _MOST_NAMED else ""
    return f"{', '.join(agents[:_MOST_NAMED])}{more}: " if agents else ""


def _describe_usual(courses: dict[str, Any]) -> str:
    return "; ".join(f"{', '.join(team['agents'])} by {team['runs']} sound runs" for team in courses["teams"])


def _describe_outcomes(head: dict[str, Any]) -> str:
    low, high = head["auc_interval"]
    return (
        f"{_name_team(head)}AUC {head['auc']:.2f} ({low:.2f} to {high:.2f}) on {head['failed']} failed and "
        f"{head['sound']} sound runs it had not seen; the tracer by itself {head['tracer_auc']:.2f}"
    )


def _describe_judge(head: dict[str, Any]) -> str:
    return (
        f"{_name_team(head)}{head['fitted']:.0f} % of the steps right on {head['n']} failures it had not seen; by the "
        f"stated weights {head['stated']:.0f} %"
    )


def _describe_steps(head: dict[str, Any]) -> str:
    low, high = head["after_interval"]
    return (
        f"{_name_team(head)}{head['after']:.0f} % of the steps right ({low:.0f} to {high:.0f}) on {head['labels']} "
        f"failures it had not seen; the tracer by itself {head['before']:.0f} %"
    )
