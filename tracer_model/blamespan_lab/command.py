"""The commands `blamespan train` and `blamespan evaluate`; everything heavy is imported when one runs."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from blamespan.tracers import DEFAULT_TRACER
from blamespan_lab.feedback.command import evaluate_feedback
from blamespan_lab.measuring.clean import evaluate_on_clean
from blamespan_lab.measuring.steps import evaluate_on_steps, print_steps
from blamespan_lab.training.labels_command import evaluate_on_labels

if TYPE_CHECKING:
    from blamespan.attribution import Attribution
    from blamespan.importing.recorded import RecordedRun
    from blamespan.tracers import Tracer
    from blamespan_tracer.lexicon import Lexicon

__all__ = ["evaluate", "train"]

_FOLDER = click.Path(path_type=Path)
_BATCH_RUNS = 50


@click.command()
@click.argument("recipe", type=_FOLDER, required=False)
@click.option("--data", type=_FOLDER, required=True, help="Folder that holds the files the recipe names; or traces.")
@click.option(
    "--labels", type=_FOLDER, metavar="FILE", help="Instead of a recipe: tune the network on people's labels."
)
@click.option("--out", type=_FOLDER, help="Run directory; with --labels the weights file.  [default: below runs/]")
@click.option("--seed", type=click.IntRange(min=0), help="Instead of the recipe's.")
@click.option(
    "--updates", type=click.IntRange(min=1), help="Language models: of each stage, to see that it starts and fits."
)
def train(
    recipe: Path | None, data: Path, labels: Path | None, out: Path | None, seed: int | None, updates: int | None
) -> None:
    """Train a tracer by RECIPE, a TOML file, or tune the network on the labels of `blamespan annotate`.

    Example:  blamespan train tracer_model/recipes/lexical.toml --data ~/data/aegis

    Example:  blamespan train --labels labels.jsonl --data traces/ --out tuned.safetensors
    """
    from blamespan.errors import ConfigError
    from blamespan_lab.toml_records import peek

    if (recipe is None) == (labels is None):
        raise ConfigError(
            "expected a RECIPE or --labels FILE, got neither or both. `blamespan train --help` shows both"
        )
    model = peek(recipe, "model") if recipe is not None else ""
    if updates is not None and model not in ("causal", "contrastive"):
        raise ConfigError(
            f"--updates is for recipes of language models, got it for {(recipe or labels)!s}. Leave it out"
        )
    if labels is not None:
        from blamespan_lab.training.labels_command import tune_network

        with _talk("tuning the network"):
            tune_network(labels, data, out or _run_folder("tuned") / "network.safetensors", seed or 0)
        return
    assert recipe is not None
    if model == "network":
        _train_network(recipe, data, out, seed)
    elif model in ("causal", "contrastive"):
        from blamespan_lab.language_model.command import train_causal_model, train_contrastive_model

        trained = train_causal_model if model == "causal" else train_contrastive_model
        with _talk(f"training {recipe.stem}"):
            trained(recipe, data, out or _run_folder(recipe.stem), seed, updates)
    else:
        _train_lexical(recipe, data, out, seed)


def _train_lexical(recipe: Path, data: Path, out: Path | None, seed: int | None) -> None:
    from dataclasses import replace

    from blamespan_lab.training.lexical import train as train_by
    from blamespan_lab.training.recipe import read_recipe

    settings = read_recipe(recipe)
    if seed is not None:
        settings = replace(settings, seed=seed)
    with _talk(f"training {settings.name}"):
        trained = train_by(settings, data, out or _run_folder(settings.name))
    held = trained.held_out
    click.echo(f"held out     {held.n} runs of {settings.data.held_out_percent} % of the questions")
    click.echo(f"pair F1      {held.pair_f1:.1f} %")
    click.echo(f"agent F1     {held.agent_f1:.1f} %")
    click.echo(f"mode F1      {held.mode_f1:.1f} %")
    click.echo(f"penalty      {held.penalty:g}")
    click.echo(f"features     {len(trained.lexicon.keys)}")
    click.echo(
        f"weights      {trained.weights} ({trained.weights.stat().st_size / 1e6:.1f} MB, {trained.lexicon.digest})"
    )


def _train_network(recipe: Path, data: Path, out: Path | None, seed: int | None) -> None:
    from dataclasses import replace

    from blamespan_lab.network.recipe import read_network_recipe
    from blamespan_lab.network.training import train_network

    settings = read_network_recipe(recipe)
    if seed is not None:
        settings = replace(settings, seed=seed)
    with _talk(f"training {settings.name}"):
        trained = train_network(settings, data, out or _run_folder(settings.name))
    for what, held in (
        ("tasks", trained.held_out.tasks),
        ("families, topologies", trained.held_out.recipes),
        ("tasks of labelled mistakes", trained.held_out.reasoning),
        ("teams of transcripts", trained.held_out.transcripts),
        ("teams of transcripts, bare", trained.held_out.bare),
    ):
        if held is not None:
            click.echo(f"held-out {what}: {held.n} failed and {held.sound} sound runs")
            mode = "" if held.mode is None else f", mode {held.mode:.1f} %"
            click.echo(f"  step {held.step:.1f} %, agent {held.agent:.1f} %{mode}")
            if held.sound:
                click.echo(f"  false alarms {held.false_alarms:.1f} % of the sound runs")
            click.echo(f"  step sets hold the decisive step in {held.coverage:.1f} %")
    if trained.held_out.agents is not None:
        click.echo(f"held-out AEGIS questions: the most blamed agent is at fault in {trained.held_out.agents:.1f} %")
    size = trained.weights.stat().st_size / 1e6
    click.echo(f"weights {trained.weights} ({size:.1f} MB, {trained.network.digest})")


def _run_folder(name: str) -> Path:
    return Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"


_TRACER = click.option(
    "--tracer", "name", default=DEFAULT_TRACER, show_default=True, help="An installed tracer, or a weights file."
)


@click.group()
def evaluate() -> None:
    """Measure a tracer on labelled runs, beside baselines."""


@evaluate.command("aegis")
@click.option("--data", type=_FOLDER, required=True, help="AEGIS file, e.g. validation.jsonl.xz.")
@click.option("--tracer", "name", default="lexical", show_default=True, help="An installed tracer, or a weights file.")
@click.option("--train", "train_file", type=_FOLDER, help="AEGIS training file: adds a plain TF-IDF baseline (~1 min).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
def evaluate_on_aegis(data: Path, name: str, train_file: Path | None, *, as_json: bool) -> None:
    """Score (agent, mode) pairs on AEGIS.

    Example:  blamespan evaluate aegis --data ~/data/aegis/validation.jsonl.xz
    """
    from blamespan_lab.measuring.aegis import evaluate_aegis
    from blamespan_lab.measuring.table import read_runs

    with _talk("evaluating on AEGIS"):
        tracer = _tracer(name)
        runs = list(read_runs("aegis", data))
        verdicts = _attribute(tracer, runs)
        more: dict[str, list[Set[tuple[str, str]]]] = {}
        if train_file is not None:
            from blamespan_lab.measuring.tfidf import tfidf_answers

            more["tfidf_one_vs_rest"] = [*tfidf_answers(list(read_runs("aegis", train_file)), runs)]
        lexicon: Lexicon | None = getattr(tracer, "lexicon", None)
        is_seen = None if lexicon is None else [lexicon.has_seen(run.trace.task) for run in runs]
        found = evaluate_aegis(runs, verdicts, tracer=tracer.identity, is_seen=is_seen, more=more)
    if as_json:
        click.echo(json.dumps(found))
        return
    unseen = found["unseen_questions"]
    rows: list[tuple[str, Mapping[str, Any]]] = [  # Any: figures of several shapes, printed alike
        (tracer.identity.name, found),
        ("  names as spelled", found["exact_names"]),
        *([(f"  {unseen['n']} runs of unseen questions", unseen)] if unseen and unseen["n"] else []),
        *found["baselines"].items(),
    ]
    low, high = found["pair_ci"]
    _print_table(
        f"AEGIS, {found['n']} runs, F1 in % (micro / macro); pair micro-F1 within {low:.1f} to {high:.1f} (95 %)",
        ["", "pair", "agent", "mode"],
        [[title, *(_micro_macro(figures[part]) for part in ("pair", "agent", "mode"))] for title, figures in rows],
    )


@evaluate.command("who-and-when")
@click.option("--data", type=_FOLDER, required=True, help="Folder that holds algorithm-generated and hand-crafted.")
@_TRACER
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
def evaluate_on_who_and_when(data: Path, name: str, *, as_json: bool) -> None:
    """Score decisive steps and agents on Who&When.

    Example:  blamespan evaluate who-and-when --data ~/data/who_and_when
    """
    from blamespan_lab.measuring.who_and_when import SUBSETS, evaluate_subset, read_subset

    with _talk("evaluating on Who&When"):
        runs = {subset: read_subset(data / subset) for subset in SUBSETS}
        tracer = _tracer(name)
        found = {subset: evaluate_subset(each, _attribute(tracer, each)) for subset, each in runs.items()}
    if as_json:
        click.echo(json.dumps(found))
        return
    for subset, figures in found.items():
        print_steps(f"Who&When {subset}", tracer.identity.name, figures)
    click.echo("best_*: chosen on these very labels, an upper bound for a constant", err=True)


@evaluate.command("generated")
@click.option("--data", type=_FOLDER, required=True, help="Folder that `blamespan generate` made.")
@click.option("--side", type=click.Choice(["all", "train", "held-out"]), default="all", show_default=True)
@_TRACER
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
def evaluate_on_generated(data: Path, side: Literal["all", "train", "held-out"], name: str, *, as_json: bool) -> None:
    """Score decisive steps, agents, modes and false alarms on a generated corpus.

    Example:  blamespan evaluate generated --data ~/data/heldout --tracer network
    """
    from blamespan_lab.corpus.storage import read_corpus
    from blamespan_lab.measuring.generated import evaluate_generated

    with _talk("evaluating on a generated corpus"):
        tracer = _tracer(name)
        runs = list(read_corpus(data, side))
        found = evaluate_generated(runs, _attribute(tracer, runs))
    if as_json:
        click.echo(json.dumps(found))
        return
    rows: list[tuple[str, Mapping[str, Any]]] = [(tracer.identity.name, found), *found["baselines"].items()]
    for part, values in found["by"].items():
        rows += [(f"  {part} {value}", figures) for value, figures in values.items()]
    low, high = found["step_ci"]
    _print_table(
        f"{data.name}, {found['n']} failed runs, right in %; step within {low:.1f} to {high:.1f} (95 %), "
        f"{found['abstained']} abstained",
        ["", "runs", "step", "agent", "mode"],
        [[title, str(each["n"]), *(f"{each[key]:.1f}" for key in ("step", "agent", "mode"))] for title, each in rows],
    )
    low, high = found["false_alarms_ci"]
    click.echo(
        f"step among the three most blamed {found['top3']:.1f} %; step set holds it in {found['coverage']:.1f} % with "
        f"{found['set_size']:.1f} steps, {found['set_share']:.0f} % of those that could be blamed; calibration error "
        f"of the decisive step's share {found['step_ece']:.3f}"
    )
    click.echo(f"false alarms {found['false_alarms']:.1f} % ({low:.1f} to {high:.1f}) of {found['sound']} sound runs")
    quotes = found["evidence"]
    click.echo(
        f"quotes what differs from the sound twin in {quotes['right']:.1f} % of {quotes['n']} decisive steps that were "
        f"found; a sentence drawn from them {quotes['drawn']:.1f} %"
    )


evaluate.add_command(evaluate_on_clean)
evaluate.add_command(evaluate_on_labels)
evaluate.add_command(evaluate_on_steps)
evaluate.add_command(evaluate_feedback)


def _tracer(name: str) -> Tracer:
    """Load the installed tracer *name*, or the weights file it is the path of."""
    if name.endswith(".safetensors"):
        return _trained(Path(name))
    from blamespan.tracers import load_tracer

    return load_tracer(name)


def _trained(path: Path) -> Tracer:
    """Load weights of whatever model they are."""
    from blamespan_tracer.lexical import LexicalTracer
    from blamespan_tracer.network.tracer import NetworkTracer
    from blamespan_tracer.network.weights import Network, is_network

    if is_network(path):
        return NetworkTracer(Network.load(path), LexicalTracer.bundled().lexicon)
    return LexicalTracer.load(path)


def _attribute(tracer: Tracer, runs: Sequence[RecordedRun]) -> list[Attribution]:
    from blamespan_lab.progress import tracked

    verdicts: list[Attribution] = []
    for start in tracked(range(0, len(runs), _BATCH_RUNS), "attributing"):
        verdicts += tracer.attribute([run.trace for run in runs[start : start + _BATCH_RUNS]])
    return verdicts


def _micro_macro(scores: Mapping[str, float]) -> str:
    return f"{scores['micro_f1']:.1f} / {scores['macro_f1']:.1f}"


@contextmanager
def _talk(title: str) -> Iterator[None]:
    """Send the package's log to stderr while a command runs, and say how long it took."""
    from rich.console import Console
    from rich.logging import RichHandler

    console = Console(stderr=True)
    handler = RichHandler(console=console, show_path=False, show_level=False, markup=False)
    logs = [logging.getLogger(package) for package in ("blamespan_lab", "blamespan_tracer")]
    for log in logs:
        log.addHandler(handler)
        log.setLevel(logging.INFO)
    start_s = time.perf_counter()
    try:
        yield
        logs[0].info("%s took %.1f s", title, time.perf_counter() - start_s)
    finally:
        for log in logs:
            log.removeHandler(handler)


def _print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print aligned columns, the first to the left; names out of a data set never come in here."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for place, column in enumerate(header):
        table.add_column(column, justify="right" if place else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row, *[""] * (len(header) - len(row)))
    console = Console(file=sys.stdout)
    console.print(table)
    console.print()
