"""The commands `blamespan lab train` and `blamespan lab evaluate`; everything heavy is imported when one runs."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from blamespan.analysis.showing.legible import counted
from blamespan.cli import SuggestingGroup, make_folder
from blamespan.errors import ConfigError, UnreadableInput
from blamespan.labels.file import LABELS_FILE
from blamespan.plugins import load_part, require
from blamespan.tracers import DEFAULT_TRACER

if TYPE_CHECKING:
    from blamespan.attribution import Attribution
    from blamespan.importing.recorded import RecordedRun
    from blamespan.labels.people import PersonLabel
    from blamespan.tracers import Tracer
    from blamespan_lab.make.edits.generate import Side
    from blamespan_lab.measure.labels import Joined, Labels
    from blamespan_tracer.alternatives.lexicon import Lexicon

_PATH = click.Path(path_type=Path)
_BATCH_RUNS = 50


@click.command()
@click.argument("recipe", required=False)
@click.option(
    "--data", type=_PATH, help="Folder that holds the files the recipe names; or traces.  [without a recipe: the store]"
)
@click.option(
    "--labels",
    type=_PATH,
    is_flag=False,
    flag_value=Path(LABELS_FILE),
    metavar="[FILE]",
    help="Instead of a recipe: learn from people which steps decide failures.  [without FILE: beside the store]",
)
@click.option(
    "--outcomes", is_flag=True, help="Instead of a recipe: learn which runs failed, from --data or the store."
)
@click.option(
    "--out", type=_PATH, help="Run directory, below runs/ by default; without a recipe the folder, beside the store."
)
@click.option(
    "--updates", type=click.IntRange(min=1), help="Language models: of each stage, to see that it starts and fits."
)
def train(
    recipe: str | None,
    data: Path | None,
    labels: Path | None,
    out: Path | None,
    updates: int | None,
    *,
    outcomes: bool,
) -> None:
    """Train a tracer by RECIPE, or teach `auto` by labels.

    RECIPE is a bundled name or a TOML file. Labels are those of `blamespan annotate`, and known outcomes.

    Example:  blamespan lab train lexical --data ~/data/aegis

    Example:  blamespan lab train --labels labels.jsonl --data traces/
    """
    from blamespan_lab.console import log_to_stderr
    from blamespan_lab.recipes import find_recipe, peek
    from blamespan_lab.train import RECIPES

    if out is not None:
        make_folder(out)  # before hours of training
    if outcomes and recipe is None:
        with log_to_stderr("learning outcomes"):
            _learn_outcomes(data, labels, out)
        return
    if outcomes or (recipe is None) == (labels is None):
        raise ConfigError(
            "expected a RECIPE, --labels FILE or --outcomes, got none or several. See `blamespan lab train --help`"
        )
    if labels is not None:
        with log_to_stderr("learning from labels"):
            _learn_steps(labels, data, out)
        return
    assert recipe is not None
    path = find_recipe(recipe, RECIPES)
    model = str(peek(path, "model") or "lexical")
    if model not in _TRAIN:
        raise ConfigError(
            f"{path.name}: expected model as one of {', '.join(_TRAIN)}, got {model!r}. Correct the recipe"
        )
    if updates is not None and model != "language-model":
        raise ConfigError(f"--updates is for recipes of language models, got it for {str(path)!r}. Leave it out")
    if data is None:
        raise ConfigError("expected --data FOLDER, got none. It holds the files that the recipe names")
    with log_to_stderr(f"training {path.stem}"):
        _TRAIN[model](path, data, out or _run_folder(path.stem), updates)


def _train_lexical(path: Path, data: Path, out: Path, _: int | None) -> None:
    from blamespan_lab.recipes import read_recipe
    from blamespan_lab.train import RECIPES
    from blamespan_lab.train.lexical import LexicalRecipe, train_lexical

    recipe = read_recipe(LexicalRecipe, path, RECIPES)
    trained = train_lexical(recipe, data, out)
    held_out = trained.held_out
    click.echo(f"held out     {counted(held_out.n, 'run')} of {recipe.data.held_out_percent} % of the questions")
    click.echo(f"pair F1      {held_out.pair_f1:.1f} %")
    click.echo(f"agent F1     {held_out.agent_f1:.1f} %")
    click.echo(f"mode F1      {held_out.mode_f1:.1f} %")
    click.echo(f"penalty      {held_out.penalty:g}")
    click.echo(f"features     {len(trained.lexicon.keys)}")
    click.echo(
        f"weights      {trained.weights} ({trained.weights.stat().st_size / 1e6:.1f} MB, {trained.lexicon.digest})"
    )


def _train_auto(path: Path, data: Path, out: Path, _: int | None) -> None:
    from blamespan_lab.measure.who_and_when import evaluate_subset
    from blamespan_lab.recipes import read_recipe
    from blamespan_lab.train import RECIPES
    from blamespan_lab.train.auto import AutoRecipe, train_auto

    recipe = read_recipe(AutoRecipe, path, RECIPES)
    trained = train_auto(recipe, path.parent, data, out)
    log: dict[str, object] = {"recipe": asdict(recipe), "digest": trained.digest}
    for title, verdicts in (("cross_fitted", trained.cross_fitted), ("left_out", trained.left_out)):
        log[title] = rows = {
            subset: evaluate_subset(runs, verdicts[subset]) for subset, runs in trained.labelled.items()
        }
        for subset, figures in rows.items():
            click.echo(
                f"{title.replace('_', ' ')} {subset}, {counted(figures['n'], 'run')}: step {figures['step']:.1f} %, "
                f"agent {figures['agent']:.1f} %, top 3 {figures['top3']:.1f} %"
            )
    log["by_labels"] = {subset: list(map(asdict, curve)) for subset, curve in trained.by_labels.items()}
    (out / "log.json").write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8")
    for subset, curve in trained.by_labels.items():
        for point in curve:
            click.echo(
                f"left out {subset}, {point.n_labels} labels of its own (used in {point.used:.0f} %): step "
                f"{point.step:.1f} % (standard deviation {point.step_spread:.1f}), agent {point.agent:.1f} %"
            )
    click.echo(f"weights      {trained.path} ({trained.path.stat().st_size / 1e6:.1f} MB, {trained.digest})")


def _train_language_model(path: Path, data: Path, out: Path, updates: int | None) -> None:
    """Train a language model; *updates* replaces those of each stage, to see that it starts, and what it takes."""
    from blamespan_lab.recipes import read_recipe
    from blamespan_lab.train import RECIPES
    from blamespan_lab.train.language_model import LanguageModelRecipe, train_language_model

    recipe = read_recipe(LanguageModelRecipe, path, RECIPES)
    if updates is not None:
        grpo = replace(recipe.grpo, updates=updates if recipe.grpo.updates else 0)
        recipe = replace(recipe, sft=replace(recipe.sft, updates=updates), grpo=grpo)
    trained = train_language_model(recipe, data, out)
    figures = trained.held_out
    click.echo(f"SFT          loss {trained.loss[0]:.3f} to {trained.loss[1]:.3f}, first and last fifth of the updates")
    if recipe.grpo.updates:
        click.echo(
            f"GRPO         reward {trained.reward[0]:.3f} to {trained.reward[1]:.3f}, an even draw "
            f"{trained.reward_of_chance:.3f}; {trained.constant_groups:.0%} of the groups taught nothing"
        )
    if trained.left_out:
        click.echo(f"left out     {counted(trained.left_out, 'run')} longer than {recipe.data.context} tokens")
    click.echo(
        f"held out     {figures.n} failed runs: step {figures.step:.1f} %, chance {figures.chance:.1f} %; agent "
        f"{figures.agent:.1f} %"
    )
    click.echo(f"auto         step {figures.auto_step:.1f} %, agent {figures.auto_agent:.1f} % on the same runs")
    memory = "" if math.isnan(trained.gpu_gib) else f", {trained.gpu_gib:.1f} GiB of the GPU at most"
    click.echo(f"took         {trained.wall_s:.0f} s{memory}")
    use = f"BLAMESPAN_LANGUAGE_MODEL_ADAPTER={trained.adapter} blamespan analyze FILE --tracer language-model"
    click.echo(f"use it       {use}")


_TRAIN: Mapping[str, Callable[[Path, Path, Path, int | None], None]] = {
    "auto": _train_auto,
    "language-model": _train_language_model,
    "lexical": _train_lexical,
}
"""Trains by a recipe, prints its figures, and writes a run directory, by the recipe's `model`."""


def _learn_steps(labels_file: Path, data: Path | None, out: Path | None) -> None:
    """Learn a head for steps from people's labels, print what it changes, and write it.

    Raises:
        BlamespanError: if there are too few labels, or the labels or the store cannot be read.
    """
    from blamespan.labels.people import by_run
    from blamespan.learnt_files import STEP_HEAD_FILE
    from blamespan_lab.train.step_head import agreed_run, learn_step_head, read_steps
    from blamespan_tracer.auto.tracer import AutoTracer
    from blamespan_tracer.heads import name_for_team

    runs, folder = _runs_to_learn_from(data)
    labels = by_run(_read_labels(_find_labels(labels_file, folder)))
    labelled = [
        (run, about)
        for run in runs
        if (about := [label for label in labels.get(run.trace.trace_id, ()) if label.concerns(run.trace)])
    ]
    if not labelled:
        raise UnreadableInput(
            f"expected labels of these {len(runs)} runs, got {sum(map(len, labels.values()))} labels of which none is "
            "about one of them. Were they made of another team? Give the traces that were labelled with --data"
        )
    agreed = [known for run, about in labelled if (known := agreed_run(run, about)) is not None]
    head, figures = learn_step_head(read_steps(agreed, AutoTracer.bundled()))
    named = name_for_team(STEP_HEAD_FILE, head.figures["agents"]) if data is None else STEP_HEAD_FILE
    path = (out or folder) / named
    digest = head.save(path)
    click.echo(f"labels    {figures.n} failures, agreed on and found among the runs")
    for title, step, (low, high), agent in (
        ("before", figures.before, figures.before_interval, figures.agent_before),
        ("after", figures.after, figures.after_interval, figures.agent_after),
    ):
        click.echo(f"{title:9} {step:.1f} % of the steps right ({low:.1f} to {high:.1f}), {agent:.1f} % of the agents")
    click.echo(
        f"changed   {figures.mended} mended, {figures.broken} broken; each run by a head that has not seen its task"
    )
    click.echo(f"written   {path} ({digest})")
    _say_whether_used(path, is_better=head.is_better, is_in_store=data is None and out is None)
    if os.environ.get("BLAMESPAN_JUDGE_URL", "").strip():
        _learn_combination(agreed, None if data is None and out is None else path.parent, folder)


def _learn_combination(runs: Sequence[RecordedRun], out: Path | None, folder: Path) -> None:
    """Fit how the embedded verdict and the judge's answer become one, print what it changes, and write it.

    Raises:
        ConfigError: if a variable of the judge is wrong.
        UnreadableInput: if fewer labelled failures have an answer than that takes.
    """
    from blamespan.learnt_files import JUDGE_HEAD_FILE
    from blamespan_lab.train.judge_head import FEWEST, ask_about, learn_combination
    from blamespan_tracer.alternatives.llm_judge.budget import shared_account
    from blamespan_tracer.alternatives.llm_judge.settings import JudgeSettings
    from blamespan_tracer.alternatives.llm_judge.tracer import JudgeTracer
    from blamespan_tracer.auto.tracer import AutoTracer
    from blamespan_tracer.heads import name_for_team

    n_failed = sum(bool(run.faults) for run in runs)
    if n_failed < FEWEST:
        click.echo(f"The judge is not fitted: that takes {FEWEST} labelled failures, got {n_failed}", err=True)
        return
    # Not with a head for steps: one that was learnt from the same labels would look better than it is
    tracer = JudgeTracer(replace(JudgeSettings.from_environment(), account=shared_account()), AutoTracer.bundled())
    asked = ask_about(runs, tracer)
    click.echo(f"judge     {tracer.account}")
    head, figures = learn_combination(asked)
    named = name_for_team(JUDGE_HEAD_FILE, head.figures["agents"]) if out is None else JUDGE_HEAD_FILE
    path = (folder if out is None else out) / named
    digest = head.save(path)
    click.echo(
        f"together  {figures.fitted:.1f} % of {figures.n} steps right; the tracer alone {figures.embedded:.1f} %, the "
        f"judge alone {figures.judge:.1f} %, by the stated weights {figures.stated:.1f} %"
    )
    click.echo(f"written   {path} ({digest})")
    _say_whether_used(path, is_better=head.is_better, is_in_store=out is None)


def _learn_outcomes(data: Path | None, labels_file: Path | None, out: Path | None) -> None:
    """Learn a head for outcomes, print how well it tells failed runs from sound ones, and write it.

    Raises:
        BlamespanError: if too few outcomes are known, or the store cannot be read.
    """
    require("sklearn", "learn")
    from blamespan.labels.people import by_run
    from blamespan.learnt_files import OUTCOME_HEAD_FILE
    from blamespan_lab.train.outcome_head import apply_labels, learn_head, read_outcomes
    from blamespan_tracer.auto.tracer import AutoTracer
    from blamespan_tracer.heads import name_for_team

    runs, folder = _runs_to_learn_from(data)
    if data is None and (folder / LABELS_FILE).exists():
        labels_file = labels_file or folder / LABELS_FILE
    labels = by_run(_read_labels(_find_labels(labels_file, folder))) if labels_file is not None else {}
    known = read_outcomes(
        [apply_labels(run.trace, labels.get(run.trace.trace_id, ())) for run in runs], AutoTracer.bundled()
    )
    head, figures = learn_head(known)
    team = head.figures["agents"]
    path = (out or folder) / (name_for_team(OUTCOME_HEAD_FILE, team) if data is None else OUTCOME_HEAD_FILE)
    digest = head.save(path)
    click.echo(f"runs      {figures.n_failed} failed and {figures.n_sound} sound")
    click.echo(f"head      AUC {figures.head:.3f} ({figures.head_interval[0]:.3f} to {figures.head_interval[1]:.3f}), "
               "each run by a head that has not seen its task")  # fmt: skip
    click.echo(f"tracer    AUC {figures.tracer:.3f} by itself; the head gains {figures.gain_interval[0]:+.3f} to "
               f"{figures.gain_interval[1]:+.3f}")  # fmt: skip
    click.echo(f"written   {path} ({digest})")
    _say_whether_used(path, is_better=figures.is_better, is_in_store=data is None and out is None)


def _runs_to_learn_from(data: Path | None) -> tuple[list[RecordedRun], Path]:
    """Return the runs in *data*, else those in the store, and the folder that a head is written into.

    Raises:
        BlamespanError: if the store cannot be read.
    """
    if data is not None:
        return list(_readable_runs([data])), Path()
    store, judged = load_part("stored_runs")(None)
    return [run for run, _ in judged], store.parent


def _find_labels(labels_file: Path, folder: Path) -> Path:
    """Return the file that is named; where no other is named and there is none here, the one beside the store."""
    is_elsewhere = labels_file == Path(LABELS_FILE) and not labels_file.exists()
    return folder / LABELS_FILE if is_elsewhere else labels_file


def _say_whether_used(head: Path, *, is_better: bool, is_in_store: bool) -> None:
    """Say on stderr who uses a head that was learnt, and from when on."""
    if not is_better:
        click.echo("It is not measurably better, so the tracer does not use it. Label or record more runs", err=True)
    elif is_in_store:
        click.echo("The collector uses it from its next start on", err=True)
    else:
        click.echo(f"Use it with: BLAMESPAN_LEARNT={head.parent} blamespan analyze TRACES", err=True)


def _run_folder(name: str) -> Path:
    return Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"


_TRACER = click.option(
    "--tracer", "name", default=DEFAULT_TRACER, show_default=True, help="An installed tracer, or a weights file."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")


@click.group(cls=SuggestingGroup)
def evaluate() -> None:
    """Measure a tracer on labelled runs, beside baselines."""


@evaluate.command("aegis")
@click.option("--data", type=_PATH, required=True, help="AEGIS file, e.g. validation.jsonl.xz.")
@click.option("--tracer", "name", default="lexical", show_default=True, help="An installed tracer, or a weights file.")
@click.option("--train", "train_file", type=_PATH, help="AEGIS training file: adds a plain TF-IDF baseline (~1 min).")
@_JSON
def evaluate_on_aegis(data: Path, name: str, train_file: Path | None, *, as_json: bool) -> None:
    """Score (agent, mode) pairs on AEGIS.

    Example:  blamespan lab evaluate aegis --data ~/data/aegis/validation.jsonl.xz
    """
    from blamespan_lab.console import log_to_stderr
    from blamespan_lab.measure.aegis import evaluate_aegis
    from blamespan_lab.measure.tables import print_aegis
    from blamespan_lab.recorded_runs import read_runs

    with log_to_stderr("evaluating on AEGIS"):
        tracer = _load_tracer(name)
        runs = list(read_runs("aegis", data))
        verdicts = _attribute(tracer, runs)
        more: dict[str, list[Set[tuple[str, str]]]] = {}
        if train_file is not None:
            from blamespan_lab.measure.aegis import tfidf_answers

            more["tfidf_one_vs_rest"] = [*tfidf_answers(list(read_runs("aegis", train_file)), runs)]
        lexicon: Lexicon | None = getattr(tracer, "lexicon", None)
        is_seen = None if lexicon is None else [lexicon.has_seen(run.trace.task) for run in runs]
        figures = evaluate_aegis(runs, verdicts, tracer=tracer.identity, is_seen=is_seen, more=more)
    if as_json:
        click.echo(json.dumps(figures))
    else:
        print_aegis(tracer.identity.name, figures)


@evaluate.command("who-and-when")
@click.option("--data", type=_PATH, required=True, help="Folder that holds algorithm-generated and hand-crafted.")
@_TRACER
@_JSON
def evaluate_on_who_and_when(data: Path, name: str, *, as_json: bool) -> None:
    """Score decisive steps and agents on Who&When.

    Example:  blamespan lab evaluate who-and-when --data ~/data/who_and_when
    """
    from blamespan_lab.console import log_to_stderr
    from blamespan_lab.measure.tables import print_steps
    from blamespan_lab.measure.who_and_when import evaluate_subset
    from blamespan_lab.recorded_runs import SUBSETS, read_subset

    with log_to_stderr("evaluating on Who&When"):
        subsets = {subset: read_subset(data / subset) for subset in SUBSETS}
        tracer = _load_tracer(name)
        figures = {subset: evaluate_subset(runs, _attribute(tracer, runs)) for subset, runs in subsets.items()}
    if as_json:
        click.echo(json.dumps(figures))
        return
    for subset in SUBSETS:
        print_steps(f"Who&When {subset}", tracer.identity.name, figures[subset])
    click.echo("best_*: chosen on these very labels, an upper bound for a constant", err=True)


@evaluate.command("steps")
@click.argument("paths", metavar="TRACES...", nargs=-1, required=True)
@_TRACER
@_JSON
def evaluate_on_steps(paths: Sequence[str], name: str, *, as_json: bool) -> None:
    """Score decisive steps on those runs of TRACES, of any format, whose labels name one.

    Each file by itself, then all together, beside what chance and plain rules score.

    Example:  blamespan lab evaluate steps ~/data/bigbench_mistake/*.jsonl.xz
    """
    from blamespan_lab.console import log_to_stderr
    from blamespan_lab.measure.tables import print_steps
    from blamespan_lab.measure.who_and_when import evaluate_subset
    from blamespan_lab.recorded_runs import read_labelled_steps

    with log_to_stderr("evaluating labelled steps"):
        runs = {str(path): read_labelled_steps(path) for path in dict.fromkeys(paths)}
        tracer = _load_tracer(name)
        verdicts = {path: _attribute(tracer, runs_in_file) for path, runs_in_file in runs.items()}
        files = {path: evaluate_subset(runs_in_file, verdicts[path]) for path, runs_in_file in runs.items()}
        every = evaluate_subset(list(chain.from_iterable(runs.values())), list(chain.from_iterable(verdicts.values())))
    if as_json:
        click.echo(json.dumps({"tracer": tracer.identity.name, "all": every, "files": files}))
        return
    for path, figures in files.items():
        print_steps(Path(path).name, tracer.identity.name, figures)
    if len(files) > 1:
        print_steps(f"all {len(files)} files", tracer.identity.name, every)
    click.echo("best_*: chosen on these very labels, an upper bound for a constant", err=True)


@evaluate.command("generated")
@click.option("--data", type=_PATH, required=True, help="Folder that `blamespan lab generate` made.")
@_TRACER
@_JSON
def evaluate_on_generated(data: Path, name: str, *, as_json: bool) -> None:
    """Score decisive steps, agents, modes and false alarms on a generated corpus.

    The tracer is not told that a sound run succeeded.

    Example:  blamespan lab evaluate generated --data ~/data/heldout
    """
    from blamespan_lab.console import log_to_stderr
    from blamespan_lab.make.corpus.storage import read_corpus
    from blamespan_lab.measure.clean import hide_outcome
    from blamespan_lab.measure.generated import evaluate_generated
    from blamespan_lab.measure.tables import print_generated

    with log_to_stderr("evaluating on a generated corpus"):
        tracer = _load_tracer(name)
        runs = list(read_corpus(data))
        asked = [hide_outcome(run) if run.trace.outcome == "succeeded" else run for run in runs]
        figures = evaluate_generated(runs, _attribute(tracer, asked))
    if as_json:
        click.echo(json.dumps(figures))
    else:
        print_generated(data.name, tracer.identity.name, figures)


@evaluate.command("clean")
@click.argument("paths", metavar="TRACES...", nargs=-1, required=True)
@_TRACER
@_JSON
def evaluate_on_clean(paths: Sequence[str], name: str, *, as_json: bool) -> None:
    """Count false alarms on those runs of TRACES, of any format, that are known to have succeeded.

    The tracer is not told how a run ended.

    Example:  blamespan lab evaluate clean ~/data/tau_bench/gpt-4o-airline.json.xz
    """
    from blamespan_lab.measure.clean import evaluate_clean, hide_outcome
    from blamespan_lab.recorded_runs import read_recorded

    runs = [run for path in paths for run in read_recorded(path) if run.trace.outcome == "succeeded"]
    if not runs:
        raise UnreadableInput(f"expected runs that succeeded in {', '.join(paths)}, got none. Name other files")
    verdicts = _attribute(_load_tracer(name), [hide_outcome(run) for run in runs])
    figures = evaluate_clean(verdicts, tracer=name)
    if as_json:
        click.echo(json.dumps(figures))
        return
    low, high = figures["false_alarms_ci"]
    click.echo(f"{counted(figures['n'], 'run')} that succeeded, {name}: {figures['abstained']} without a verdict")
    click.echo(f"false alarms {figures['false_alarms']:.1f} % ({low:.1f} to {high:.1f})")
    if figures["failure_score"] is not None:
        click.echo(f"median failure score of the others {figures['failure_score']:.2f}")


@evaluate.command("checks")
@click.argument("paths", nargs=-1, required=True, type=_PATH)
@click.option(
    "--played",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    help="Transcripts that AutoGen or LangGraph plays and records.",
)
@_JSON
def evaluate_checks(paths: Sequence[Path], played: Sequence[Path], *, as_json: bool) -> None:
    """Count how many sound runs and labelled mistakes of PATHS, of any format, break each bundled check.

    A run is sound if it succeeded or is labelled as free of errors. A check that at most 1 % of them break, and at most
    1 % of the played ones, raises the alarm of the tracer `auto` by itself. Recordings of others seldom say what agents
    were given; played ones do. What a broken check says of a step, its weight, is how much more often it is broken
    where a mistake is labelled than in sound runs. What --json prints is what `weights/check_rates.json` holds.

    Example:  blamespan lab evaluate checks ~/data/tau_bench/*.xz ~/data/outcomes/*.xz
    """
    from blamespan_lab.measure.check_rates import count_broken
    from blamespan_lab.recorded_runs import read_recorded
    from blamespan_tracer.checks.alarms import PLAYED, weigh

    corpora = {path.name.partition(".")[0]: read_recorded(path) for path in paths}
    if played:
        from blamespan_lab.measure.playing import play

        corpora[PLAYED] = iter(play([run for path in played for run in read_recorded(path)]))
    rates = count_broken(corpora)
    n_runs, n_mistakes = sum(rates["runs"].values()), sum(rates["mistakes"].values())
    if not n_runs:
        raise UnreadableInput(f"expected sound runs in {', '.join(map(str, paths))}, got none. Name other files")
    if as_json:
        click.echo(json.dumps(rates))
        return
    click.echo(f"{counted(n_runs, 'sound run')}: {', '.join(f'{corpus} {n}' for corpus, n in rates['runs'].items())}")
    click.echo(
        f"{counted(n_mistakes, 'mistake')}: {', '.join(f'{corpus} {n}' for corpus, n in rates['mistakes'].items())}"
    )
    weights = weigh(rates)
    for name, broken in rates["broken"].items():
        by_corpus = ", ".join(f"{corpus} {n}" for corpus, n in broken.items())
        found = ", ".join(f"{corpus} {n}" for corpus, n in rates["found"][name].items())
        share = 100 * sum(broken.values()) / n_runs
        click.echo(
            f"{name:28} {share:5.2f} %  {weights[name]:4.1f} nats  sound: {by_corpus or 0}; mistakes: {found or 0}"
        )


@evaluate.command("programs")
@click.argument("paths", nargs=-1, required=True, type=_PATH)
@click.option("--played", is_flag=True, help="Judge each transcript as AutoGen or LangGraph plays it and records it.")
@_TRACER
@_JSON
def evaluate_on_programs(paths: Sequence[Path], name: str, *, played: bool, as_json: bool) -> None:
    """Score mistakes beside their sound twins, for each of PATHS: files, or folders of transcripts.

    How many sound runs are called failed; of failed ones step, agent and mode, how many are called failed by a tracer
    that is not told, whether the sound twin has the same step blamed, whether a mistake is followed to another agent,
    and whether a quotation shows it.

    Example:  blamespan lab evaluate programs tracer_model/transcripts/tiny --played
    """
    for package in ("autogen_ext", "langgraph") if played else ():
        require(package, "demo")
    from blamespan_lab.console import log_to_stderr
    from blamespan_lab.measure.programs import evaluate_programs
    from blamespan_lab.measure.tables import print_programs
    from blamespan_lab.recorded_runs import read_recorded

    with log_to_stderr("evaluating programs"):
        tracer = _load_tracer(name)
        figures = {}
        for path in dict.fromkeys(paths):
            files = sorted(path.glob("*.txt")) if path.is_dir() else [path]
            runs = [run for file in files for run in read_recorded(file) if run.faults is not None]
            if not runs:
                raise UnreadableInput(
                    f"expected labelled runs in {str(path)!r}, got none. Name a file or folder that has some"
                )
            if played:
                from blamespan_lab.measure.playing import play

                runs = play(runs)
            figures[str(path)] = evaluate_programs(runs, tracer)
    if as_json:
        click.echo(json.dumps({"tracer": tracer.identity.name, "played": played, "paths": figures}))
        return
    for title, rows in figures.items():
        print_programs(title, tracer.identity.name, rows)


@evaluate.command("outcomes")
@click.argument("paths", metavar="TRACES...", nargs=-1, required=True)
@_JSON
def evaluate_on_outcomes(paths: Sequence[str], *, as_json: bool) -> None:
    """Measure how well failed runs are told from sound ones in TRACES: by the tracer alone, by heads for outcomes.

    The tracer is not told how a run ended. A head learns from the other files, and from 40, 100 and all runs of the
    same file with other tasks.

    Example:  blamespan lab evaluate outcomes ~/data/outcomes/*.jsonl.xz
    """
    require("sklearn", "learn")
    from blamespan_lab.console import log_to_stderr
    from blamespan_lab.measure.outcomes import evaluate_outcomes
    from blamespan_lab.measure.tables import print_outcomes
    from blamespan_lab.recorded_runs import read_recorded
    from blamespan_lab.train.outcome_head import read_outcomes
    from blamespan_tracer.auto.tracer import AutoTracer

    with log_to_stderr("evaluating on outcomes"):
        tracer = AutoTracer.bundled()
        files = {}
        for path in paths:
            try:
                known = read_outcomes([run.trace for run in read_recorded(path)], tracer)
            except UnreadableInput as error:
                raise UnreadableInput(f"{path}: {error}") from error
            files[Path(path).name.partition(".")[0]] = known
        figures = evaluate_outcomes(files, (40, 100))
    if as_json:
        click.echo(json.dumps(figures))
    else:
        print_outcomes(figures)


@evaluate.command("pairs")
@click.option("--data", type=_PATH, required=True, help="Folder that `blamespan lab generate edits` made.")
@click.option(
    "--side",
    type=click.Choice(["all", "train", "every-kind", "held-out", "new-sources"]),
    default="held-out",
    show_default=True,
    help="Held-out kinds in held-out sources; other kinds in these; other kinds, or every one, in other sources; all.",
)
@_TRACER
@_JSON
def evaluate_on_pairs(data: Path, side: Side, name: str, *, as_json: bool) -> None:
    """Measure whether the blame follows a mistake that was put into one step, and leaves where its source agrees.

    One mistake is also moved from one agent to another: `moved` is how often the blame follows to both. The tracer is
    not told how a run ended.

    Example:  blamespan lab evaluate pairs --data ~/data/edits
    """
    from blamespan.importing.recorded import RecordedRun
    from blamespan_lab.console import log_to_stderr
    from blamespan_lab.make.edits.generate import read_pairs, runs_of_pairs
    from blamespan_lab.measure.clean import hide_outcome
    from blamespan_lab.measure.pairs import evaluate_moves, evaluate_pairs, join_verdicts, list_moves
    from blamespan_lab.measure.tables import print_pairs

    with log_to_stderr("evaluating on pairs"):
        tracer = _load_tracer(name)
        pairs = list(read_pairs(data, side))
        runs = [hide_outcome(run) for run in runs_of_pairs(pairs)]
        figures = evaluate_pairs(pairs, join_verdicts(pairs, runs, _attribute(tracer, runs)))
        moves = list_moves(pairs)
        if moves:
            both = [RecordedRun("moved", trace) for move in moves for trace in (move.first, move.second)]
            verdicts = _attribute(tracer, [hide_outcome(run) for run in both])
            figures["moved"] = evaluate_moves(moves, list(zip(verdicts[::2], verdicts[1::2], strict=True)))
    if as_json:
        click.echo(json.dumps(figures))
    else:
        print_pairs(data.name, tracer.identity.name, figures)


@evaluate.command("schemata")
@click.option("--data", type=_PATH, required=True, help="Folder that `blamespan lab generate` made.")
@_JSON
def evaluate_on_schemata(data: Path, *, as_json: bool) -> None:
    """Measure whether failures are known again by schemata of other runs' failures, and sound runs left alone.

    Example:  blamespan lab evaluate schemata --data corpora/small
    """
    from blamespan_lab.console import log_to_stderr
    from blamespan_lab.make.corpus.storage import read_corpus
    from blamespan_lab.measure.schemata import evaluate_schemata
    from blamespan_lab.measure.tables import print_schemata

    with log_to_stderr("evaluating schemata"):
        figures = evaluate_schemata(list(read_corpus(data, "all")))
    if as_json:
        click.echo(json.dumps(figures))
    else:
        print_schemata(data.name, figures)


@evaluate.command("labels")
@click.argument("results_or_traces", nargs=-1, required=True)
@click.option("--labels", "labels_file", type=_PATH, required=True, metavar="FILE", help="What people said of them.")
@click.option("--tracer", "name", default=DEFAULT_TRACER, show_default=True, help="For traces: who judges, or weights.")
@_JSON
def evaluate_on_labels(results_or_traces: tuple[str, ...], labels_file: Path, name: str, *, as_json: bool) -> None:
    """Score verdicts by what people said, beside how far people agree.

    Verdicts come from results of `analyze`, or are made now from traces.

    Example:  blamespan lab evaluate labels results.jsonl --labels labels.jsonl
    """
    from blamespan.labels.people import by_run
    from blamespan_lab.measure.labels import evaluate_labels
    from blamespan_lab.measure.tables import print_labels

    labels = by_run(_read_labels(labels_file))
    joined = _join_labels(results_or_traces, name, labels)
    figures = {judge: evaluate_labels(part.verdicts) for judge, part in joined.items() if part.verdicts}
    if not figures:
        misfits = sum(part.misfits + part.ambiguous for part in joined.values())
        reason = (
            f"; {misfits} name a step that the run does not have, or one of several runs of a trace" if misfits else ""
        )
        said = counted(sum(map(len, labels.values())), "label")
        raise UnreadableInput(
            f"expected labels of these runs, got {said} of which none fits{reason}. "
            "Give the traces that were labelled, or their results"
        )
    unmatched = {judge: joined[judge].count_unmatched(labels) for judge in figures}
    if as_json:
        click.echo(json.dumps({judge: {**figures[judge], **unmatched[judge]} for judge in figures}))
        return
    for judge in figures:
        print_labels(judge, figures[judge], unmatched[judge])


def _join_labels(paths: Sequence[str], name: str, labels: Labels) -> dict[str, Joined]:
    """Read results where *paths* hold some, else judge traces."""
    from blamespan.analysis.results.rows import read_rows
    from blamespan_lab.measure.labels import join_results, join_runs

    try:
        for path in paths:
            list(islice(read_rows(Path(path)), 1))
    except UnreadableInput:
        tracer = _load_tracer(name)
        identity = tracer.identity
        return {f"{identity.name} {identity.version}": join_runs(_readable_runs(paths), tracer, labels)}
    return join_results(chain.from_iterable(read_rows(Path(path)) for path in paths), labels)


def _read_labels(path: Path) -> list[PersonLabel]:
    """Read the labels at *path*, at least one; print on stderr which are left out."""
    from blamespan.analysis.showing.legible import printable
    from blamespan.labels.file import read_labels

    refused: list[UnreadableInput] = []
    labels = read_labels(path, refused)
    for error in refused[:5]:
        click.echo(f"blamespan: left out: {printable(str(error))}", err=True)
    if not labels:
        raise UnreadableInput(f"expected labels in {str(path)!r}, got none. Make some with: blamespan annotate TRACES")
    return labels


def _readable_runs(paths: Sequence[str | Path]) -> Iterator[RecordedRun]:
    """Yield the recorded runs of *paths*; print on stderr what cannot be read."""
    from blamespan.analysis.showing.notices import readable
    from blamespan.analysis.sources import runs_in

    return readable(runs_in(paths), [])


def _load_tracer(name: str) -> Tracer:
    """Load the installed tracer *name*, or the weights file it is the path of, whatever model they are of."""
    from blamespan.tracers import load_tracer

    if not name.endswith(".safetensors"):
        return load_tracer(name)
    from blamespan_tracer.alternatives.lexical import LexicalTracer
    from blamespan_tracer.auto.tracer import AutoTracer
    from blamespan_tracer.auto.weights import AutoWeights
    from blamespan_tracer.weights_file import format_of

    path = Path(name)
    if format_of(path).startswith("blamespan-auto-"):
        return AutoTracer(AutoWeights.load(path))
    return LexicalTracer.load(path)


def _attribute(tracer: Tracer, runs: Sequence[RecordedRun]) -> list[Attribution]:
    from blamespan_lab.console import show_progress

    verdicts: list[Attribution] = []
    for start in show_progress(range(0, len(runs), _BATCH_RUNS), "attributing"):
        verdicts += tracer.attribute([run.trace for run in runs[start : start + _BATCH_RUNS]])
    return verdicts
