"""`blamespan status`: what is stored, what is known of how runs ended, and what the tracer has learnt from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import click

from blamespan.errors import BlamespanError
from blamespan.labels.file import LABELS_FILE, read_labels
from blamespan.plugins import load_part
from blamespan_collector.local_runs import local_stores
from blamespan_collector.options import local_store
from blamespan_collector.store import RunStore

__all__ = ["OUTCOME_HEAD_FILE", "SCHEMATA_FILE", "STEP_HEAD_FILE", "status"]

OUTCOME_HEAD_FILE: Final = "outcomes.safetensors"
"""Name of the head for outcomes, where `blamespan train --outcomes` writes it beside a store."""

STEP_HEAD_FILE: Final = "steps.safetensors"
"""Name of the head for steps, where `blamespan train --labels` writes it beside a store."""

SCHEMATA_FILE: Final = "schemata.toml"
"""Name of the file in which `blamespan schemata` keeps known failures beside a store."""


@click.command()
@click.option("--store", metavar="FILE", type=click.Path(path_type=Path), help="Store of blamespan collect.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
def status(store: Path | None, *, as_json: bool) -> None:
    """Say what is stored, how many runs have a known outcome, and what was learnt from them.

    Example:  blamespan status
    """
    path = store or next(iter(local_stores()), local_store())
    document = _describe(path)
    if as_json:
        click.echo(json.dumps(document, indent=2))
        return
    counts = document["runs"]
    click.echo(f"store         {document['store']}")
    click.echo(f"runs          {sum(counts.values())}")
    click.echo(f"outcomes      {counts['failed']} failed, {counts['succeeded']} succeeded, {counts['unknown']} unknown")
    click.echo(f"labels        {document['labels']} in {LABELS_FILE}")
    click.echo(f"outcome head  {_format_outcome_head(document['outcome_head'])}")
    click.echo(f"step head     {_format_step_head(document['step_head'])}")


def _describe(path: Path) -> dict[str, Any]:
    """Lay out what there is to say of a store.

    Raises:
        BlamespanError: if the store or a file beside it cannot be read.
    """
    labels = path.parent / LABELS_FILE
    return {
        "store": str(path),
        "runs": RunStore(path).count_outcomes(),
        "labels": len(read_labels(labels)) if labels.exists() else 0,
        "outcome_head": _describe_head(path.parent / OUTCOME_HEAD_FILE, "outcome_figures"),
        "step_head": _describe_head(path.parent / STEP_HEAD_FILE, "step_figures"),
    }


def _describe_head(path: Path, part: str) -> dict[str, Any] | None:
    try:
        read = load_part(part)(path)
    except BlamespanError as error:
        return {"path": str(path), "is_in_use": False, "error": str(error)}
    return None if read is None else {"path": str(path), "is_in_use": read[0], **read[1]}


def _format_outcome_head(head: dict[str, Any] | None) -> str:
    if head is None:
        return "none: blamespan train --outcomes learns one from 20 failed and 20 sound runs"
    if "error" in head:
        return str(head["error"])
    low, high = head["auc_interval"]
    return (
        f"{_say_use(head)}: AUC {head['auc']:.2f} ({low:.2f} to {high:.2f}) on {head['failed']} failed and "
        f"{head['sound']} sound runs it had not seen; the tracer by itself {head['tracer_auc']:.2f}"
    )


def _format_step_head(head: dict[str, Any] | None) -> str:
    if head is None:
        return "none: blamespan train --labels learns one from 8 labelled failures, better from 25"
    if "error" in head:
        return str(head["error"])
    low, high = head["after_interval"]
    return (
        f"{_say_use(head)}: {head['after']:.0f} % of the steps right ({low:.0f} to {high:.0f}) on {head['labels']} "
        f"failures it had not seen; the tracer by itself {head['before']:.0f} %"
    )


def _say_use(head: dict[str, Any]) -> str:
    return "in use" if head["is_in_use"] else "not in use, as it is not measurably better"
