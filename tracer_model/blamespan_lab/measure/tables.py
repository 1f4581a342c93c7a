"""What `blamespan lab evaluate` prints of its figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
from rich.markup import escape

from blamespan.analysis.showing.legible import counted, printable
from blamespan_lab.console import print_table
from blamespan_lab.measure.aegis import AegisFigures, F1Scores
from blamespan_lab.measure.generated import GeneratedFigures
from blamespan_lab.measure.labels import Among, LabelFigures, Right
from blamespan_lab.measure.outcomes import OutcomeFiguresOfFile
from blamespan_lab.measure.pairs import PairFigures
from blamespan_lab.measure.programs import ProgramFigures, ShareOfRuns
from blamespan_lab.measure.schemata import SchemaFigures
from blamespan_lab.measure.who_and_when import SubsetFigures


def print_aegis(tracer: str, figures: AegisFigures) -> None:
    """Print the scores of *tracer* above those of the baselines."""
    unseen: Any = figures["unseen_questions"]  # figures beside a count
    rows: list[tuple[str, Mapping[str, Any]]] = [  # Any: figures of several shapes, printed alike
        (tracer, figures),
        ("  names as spelled", figures["exact_names"]),
        *([(f"  {counted(unseen['n'], 'run')} of unseen questions", unseen)] if unseen and unseen["n"] else []),
        *figures["baselines"].items(),
    ]
    low, high = figures["pair_ci"]
    print_table(
        f"AEGIS, {figures['n']} runs, F1 in % (micro / macro); pair micro-F1 within {low:.1f} to {high:.1f} (95 %)",
        ["", "pair", "agent", "mode"],
        [[title, *(_format_f1(row[part]) for part in ("pair", "agent", "mode"))] for title, row in rows],
    )


def _format_f1(scores: F1Scores) -> str:
    return f"{scores['micro_f1']:.1f} / {scores['macro_f1']:.1f}"


def print_steps(title: str, tracer: str, figures: SubsetFigures) -> None:
    """Print what *tracer* gets right above the baselines.

    Args:
        title: Of the runs; any text.
        tracer: Its name.
        figures: Of these runs.
    """
    (step_low, step_high), (agent_low, agent_high) = figures["step_ci"], figures["agent_ci"]
    rows = [
        [tracer, *(f"{figures[key]:.1f}" for key in ("step", "agent", "top3", "within1", "within3"))],
        *([name, f"{row['step']:.1f}", f"{row['agent']:.1f}"] for name, row in figures["baselines"].items()),
    ]
    print_table(
        f"{escape(printable(title))}, {counted(figures['n'], 'run')}, {figures['abstained']} abstained, right in %; "
        f"95 % intervals: step {step_low:.1f} to {step_high:.1f}, agent {agent_low:.1f} to {agent_high:.1f}",
        ["", "step", "agent", "top 3", "within 1", "within 3"],
        rows,
    )


def print_generated(corpus: str, tracer: str, figures: GeneratedFigures) -> None:
    """Print what *tracer* gets right on the runs of *corpus*, in all and by their kinds, and how often it is wrong."""
    rows: list[tuple[str, Mapping[str, Any]]] = [(tracer, figures), *figures["baselines"].items()]
    for part, values in figures["by"].items():
        rows += [(f"  {part} {value}", row) for value, row in values.items()]
    low, high = figures["step_ci"]
    print_table(
        f"{corpus}, {counted(figures['n'], 'failed run')}, right in %; step within {low:.1f} to {high:.1f} (95 %), "
        f"{figures['abstained']} abstained",
        ["", "runs", "step", "agent", "mode"],
        [[title, str(row["n"]), *(f"{row[key]:.1f}" for key in ("step", "agent", "mode"))] for title, row in rows],
    )
    low, high = figures["false_alarms_ci"]
    click.echo(
        f"step among the three most blamed {figures['top3']:.1f} %; step set holds it in {figures['coverage']:.1f} % "
        f"with {figures['set_size']:.1f} steps, {figures['set_share']:.0f} % of those that could be blamed; "
        f"calibration error of the decisive step's share {figures['step_ece']:.3f}"
    )
    click.echo(
        f"false alarms {figures['false_alarms']:.1f} % ({low:.1f} to {high:.1f}) of {figures['sound']} sound runs"
    )
    quotes = figures["evidence"]
    click.echo(
        f"quotes what differs from the sound twin in {quotes['right']:.1f} % of {quotes['n']} decisive steps that were "
        f"found; a sentence drawn from them {quotes['drawn']:.1f} %"
    )


def print_pairs(corpus: str, tracer: str, figures: PairFigures) -> None:
    """Print how the blame follows edits, in all and by kind and source."""
    low, high = figures["step_ci"]
    rows = [(f"{part} {value}", row) for part, values in figures["by"].items() for value, row in values.items()]
    print_table(
        f"{corpus}, {figures['n']} pairs, {tracer}; step within {low:.1f} to {high:.1f} % (95 %), an even guess "
        f"{figures['chance']:.1f} %",
        ["", "pairs", "edited step, %", "share gained"],
        [
            ["all", str(figures["n"]), f"{figures['step']:.1f}", f"{figures['gain']:+.3f}"],
            *([name, str(row["n"]), f"{row['step']:.1f}", f"{row['gain']:+.3f}"] for name, row in rows),
        ],
    )
    low, high = figures["gain_ci"]
    click.echo(f"among the three most blamed {figures['top3']:.1f} %; its agent blamed most {figures['agent']:.1f} %")
    click.echo(f"share gained by the edit within {low:+.3f} to {high:+.3f} (95 %)")
    click.echo(f"same step blamed as in the untouched run {figures['same_step']:.1f} %")
    click.echo(f"decoys blamed there {figures['decoys']:.1f} % of {figures['n_decoys']}")
    click.echo(f"failed against sound, AUC {figures['auc']:.3f}")
    click.echo(
        f"step sets hold the edited step in {figures['coverage']:.1f} %; "
        f"calibration error of the decisive step's share {figures['step_ece']:.3f}"
    )
    if moved := figures.get("moved"):
        low, high = moved["followed_ci"]
        click.echo(
            f"moved to another agent, {moved['n']} mistakes: followed to both {moved['followed']:.1f} % ({low:.1f} to "
            f"{high:.1f}, even guess {moved['chance']:.1f}), same step blamed {moved['same_step']:.1f} %"
        )


_PROGRAM_ROWS = {
    "false_alarms": "sound runs called failed",
    "step": "failed: step",
    "agent": "failed: agent",
    "mode": "failed: mode",
    "called_failed": "called failed unaided",
    "precision": "alarms that are right",
    "same_step": "same step named in the sound twin",
    "followed": "moved mistakes followed",
    "evidence": "right steps whose quotation shows the mistake",
}


def print_programs(title: str, tracer: str, figures: ProgramFigures) -> None:
    """Print each figure of programs that there are cases for."""
    shares: list[tuple[str, ShareOfRuns]] = [(label, figures[key]) for key, label in _PROGRAM_ROWS.items()]  # type: ignore[literal-required]
    print_table(
        f"{escape(printable(title))}, {tracer}",
        ["", "cases", "of", "%", "95 %"],
        [
            [
                label,
                str(share["hits"]),
                str(share["n"]),
                f"{share['percent']:.1f}",
                "{:.1f} to {:.1f}".format(*share["ci"]),
            ]
            for label, share in shares
            if share["n"]
        ],
    )


def print_outcomes(figures: Mapping[str, OutcomeFiguresOfFile]) -> None:
    """Print how well failed runs are told from sound ones, file by file."""
    sizes = list(next(iter(figures.values()))["own"])
    print_table(
        "failed against sound, area under the ROC curve: the tracer alone, a head of the others' runs, of its own",
        ["", "failed", "sound", "tracer", "others", *sizes],
        [
            [
                name,
                str(row["failed"]),
                str(row["sound"]),
                f"{row['tracer']:.2f}",
                "" if row["left_out"] is None else f"{row['left_out']:.2f}",
                *(f"{row['own'][size]:.2f}" for size in sizes),
            ]
            for name, row in figures.items()
        ],
    )


def print_labels(judge: str, figures: LabelFigures, unmatched: Mapping[str, int]) -> None:
    """Print how far *judge* agrees with people, beside how far people agree; on stderr, which labels say nothing."""
    people = ", ".join(f"{printable(who)} {count}" for who, count in figures["people"].items())
    click.echo(f"labels       {people}")
    if figures["few"]:
        click.echo(f"too few      {figures['n']} labelled runs: read the intervals; figures of so few are anecdotes")
    among = figures["among"]
    rows: list[tuple[str, Right, Among | None]] = [
        ("step", figures["step"], among["step"]),
        ("agent", figures["agent"], among["agent"]),
        ("error mode", figures["mode"], among["mode"]),
        ("failed or not, by the tracer alone", figures["failed"], among["failed"]),
        ("step, blind labels", figures["blind_step"], None),
        ("false alarms", figures["false_alarms"], None),
        ("failures missed", figures["missed"], None),
    ]
    if figures["recorded"]:
        title = f"failed or not, {figures['recorded']} outcomes recorded"
        rows.insert(4, (title, figures["failed_recorded"], None))
    print_table(
        f"{judge}, {counted(figures['n'], 'labelled run')}, right in % by their labels, and people among themselves",
        ["", "tracer", "95 %", "runs", "people", "coeff.", "runs"],
        [[title, *_tracer_cells(right), *_people_cells(people_row)] for title, right, people_row in rows],
    )
    click.echo("95 %: Wilson. coeff.: Krippendorff's alpha, for steps Bennett's S; 1 full agreement, 0 as by chance")
    for pair in figures["kappas"]:
        parts = ", ".join(
            f"{part} {_format_coefficient(value)}"
            for part, value in (("failed", pair["failed"]), ("agent", pair["agent"]), ("mode", pair["mode"]))
        )
        click.echo(
            f"Cohen's kappa of {' and '.join(map(printable, pair['who']))}, {counted(pair['n'], 'run')}: {parts}"
        )
    if figures["disputed"]:
        click.echo(f"{counted(figures['disputed'], 'run')} disputed: people name different steps; left out of `step`")
    if figures["step_ece"] is not None:
        bins = "; ".join(
            f"{part['stated']:.2f} said, {part['right']:.2f} right ({part['n']})" for part in figures["calibration"]
        )
        click.echo(f"calibration error of the decisive step's share {figures['step_ece']:.3f}: {bins}")
    if figures["failure_ece"] is not None:
        click.echo(f"calibration error of the failure score {figures['failure_ece']:.3f}")
    for key, reason in (
        ("of_other_runs", "of other runs"),
        ("misfits", "on a step that the run does not have"),
        ("ambiguous", "of traces with several runs: give the traces instead of results"),
    ):
        if unmatched[key]:
            click.echo(f"{counted(unmatched[key], 'label')} {reason}", err=True)


def _tracer_cells(right: Right) -> list[str]:
    if not right["n"]:
        return ["", "", "0"]
    low, high = right["interval"]
    return [f"{right['percent']:.1f}", f"{low:.1f} to {high:.1f}", str(right["n"])]


def _people_cells(among: Among | None) -> list[str]:
    if among is None or not among["n"]:
        return ["", "", ""]
    return [f"{among['percent']:.1f}", _format_coefficient(among["alpha"]), str(among["n"])]


def _format_coefficient(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def print_schemata(title: str, figures: SchemaFigures) -> None:
    """Print what schemata find of other runs' failures, and in sound runs."""
    rows = [
        (
            "a schema of the mode matches at the decisive step",
            figures["known"],
            figures["recall"],
            figures["recall_ci"],
        ),
        ("any schema matches there", figures["known"], figures["at_step"], figures["at_step_ci"]),
        ("any schema matches in the failed run", figures["known"], figures["in_run"], figures["in_run_ci"]),
        ("any schema matches in a sound run", figures["sound"], figures["false_matches"], figures["false_matches_ci"]),
        (
            *("any schema matches in the failure's sound twin", figures["twins"], figures["false_matches_twins"]),
            figures["false_matches_twins_ci"],
        ),
    ]
    print_table(
        f"{escape(printable(title))}: {figures['schemata']} schemata, {figures['refused']} failures refused, "
        f"{figures['known']} of {figures['failures']} failures of a known mode; a run is read in "
        f"{figures['read_ms']:.0f} ms and matched in {figures['match_ms']:.1f} ms",
        ["", "runs", "%", "95 %"],
        [[name, str(count), f"{value:.1f}", f"{low:.1f} to {high:.1f}"] for name, count, value, (low, high) in rows],
    )
