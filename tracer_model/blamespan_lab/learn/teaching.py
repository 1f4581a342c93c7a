"""`blamespan.learn(...)`: a team is run clean and with faults, and the tracer learns the failures of this very team."""

from __future__ import annotations

import hashlib
import logging
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blamespan.analysis.showing.legible import counted
from blamespan.analysis.sources import runs_in
from blamespan.cli import make_folder
from blamespan.cores import cores
from blamespan.errors import BlamespanError, ConfigError, TracerUnavailable, UnreadableInput
from blamespan.importing.recorded import RecordedRun
from blamespan.labels.file import LABELS_FILE, read_labels
from blamespan.labels.people import PersonLabel
from blamespan.learning import LearnSettings, Learnt, Progress
from blamespan.learnt_files import OUTCOME_HEAD_FILE, STEP_HEAD_FILE, USUAL_COURSE_FILE
from blamespan.plugins import load_part, require
from blamespan_lab.learn.campaign import BY, Budget, Campaign, Made, cost_of
from blamespan_lab.learn.folder import LearnFolder
from blamespan_lab.learn.report import figures_of, lines_of
from blamespan_lab.learn.training import Trained, train_team
from blamespan_lab.learn.worker import CleanRun, RecordedTrial, open_worker
from blamespan_lab.rerun.stress.recipe import StressRecipe
from blamespan_lab.rerun.stress.watching import longest_trace
from blamespan_lab.rerun.worker_pool import RunEnded, WorkerPool
from blamespan_tracer.checks.usual_course import UsualCourses
from blamespan_tracer.heads import name_for_team
from blamespan_tracer.outcome_head import OutcomeHead
from blamespan_tracer.step_head import StepHead

if TYPE_CHECKING:
    from blamespan_lab.learn.language_model import TaughtModel

_MECHANISMS = ("response", "prompt", "memory", "tool")
"""Where faults are put in; of a message that goes astray nobody's decision is to blame."""
_RUNS_PER_FAILURE = 3
"""It, its replay with the step put right, and one with the step as it was."""

_log = logging.getLogger(__name__)


def learn(
    program: str | Callable[[], Any] | None,
    tasks: Sequence[str],
    check: str | Callable[[str, str], Any] | None,
    settings: LearnSettings,
    on_progress: Progress,
) -> Learnt:
    """Do as `blamespan.learn` says."""
    require("sklearn", "learn")
    if settings.model is not None:
        from blamespan_lab.learn.language_model import open_language_model

        open_language_model(settings.model)  # what is wrong with it is said before a run is spent
    began_s = time.monotonic()
    name, check_name, runs = _name_of(program), _name_of(check), settings.runs
    if name is None and not runs:
        raise ConfigError("expected a program as module:factory, or recorded runs, got neither. Name one of them")
    recorded, said = list(_read_recorded(runs)), _read_said(settings.labels, runs)
    default = Path("runs") / "learn" / (name or "recorded").replace(":", ".")
    folder = Path(settings.out) if settings.out is not None else default
    made: Made | None = None
    if name is not None:
        recipe = make_recipe(timeout_s=settings.timeout_s, writer=settings.writer)
        kept = LearnFolder(folder, _identity(name, check_name, tasks, recipe))
        budget, processes = Budget.of(settings), settings.processes
        made = make_runs(name, check_name, tasks, kept, recipe, budget, processes=processes, on_progress=on_progress)
        recorded += kept.runs().values()
        said += _own_labels(kept)
    if not recorded:
        raise UnreadableInput(f"{', '.join(map(str, runs))}: expected recorded runs to learn from, got none")
    make_folder(folder)
    on_progress("learning", 0, 1)
    with_fault = {done.trace_id for done in made.done if done.fault is not None} if made is not None else set()
    trained = train_team(recorded, said, folder, with_fault=with_fault)
    on_progress("learning", 1, 1)
    worth = {
        USUAL_COURSE_FILE: bool(trained.courses.teams),
        STEP_HEAD_FILE: trained.step_head,
        OUTCOME_HEAD_FILE: trained.outcome_head,
    }
    better = [name for name, is_better in worth.items() if is_better]
    place = _put_into_use(folder, better) if settings.use and better else None
    taught = _teach(settings.model, trained, folder, on_progress) if settings.model is not None else None
    figures = figures_of(made, trained, settings, taught, seconds=time.monotonic() - began_s)
    return Learnt(lines_of(figures, folder, better, place), figures, folder, bool(better) and settings.use)


def _teach(name: str, trained: Trained, folder: Path, on_progress: Progress) -> TaughtModel | str:
    """Teach a language model what the small one was taught; or say why that cannot be, which costs nothing else."""
    from blamespan_lab.learn.language_model import teach_language_model

    on_progress("teaching the language model", 0, 1)
    try:
        return teach_language_model(name, trained.labelled, trained.hits, folder)
    except BlamespanError as error:
        return str(error)
    finally:
        on_progress("teaching the language model", 1, 1)


def plan_lines(program: str, tasks: Sequence[str], check: str | None, settings: LearnSettings) -> list[str]:
    """Run one task once, and say what a campaign would do and cost."""
    _require_tasks(tasks)
    budget, timeout_s = settings.budget, settings.timeout_s
    recipe = make_recipe(timeout_s=timeout_s)
    with WorkerPool(open_worker, program, check, recipe, name=program, timeout_s=timeout_s) as pool:
        try:
            pool.ask(CleanRun(tasks[0]))  # imports the program
            began_s = time.monotonic()
            trial: RecordedTrial = pool.ask(CleanRun(tasks[0]))
        except RunEnded as ended:
            raise BlamespanError(
                f"expected {program!r} to end within {timeout_s:g} s on its first task, got a run that {ended}. "
                "Give it longer with --timeout, or mend it"
            ) from ended
    took_s = time.monotonic() - began_s
    cost = cost_of(trial.spans)
    calls, tokens = cost.calls, cost.tokens
    most = len(tasks) + 3 + _RUNS_PER_FAILURE * budget
    how = "is right" if trial.run.succeeded else trial.run.error or "is not right"
    tools = "run" if trial.is_sandbox else "are answered from recordings, as the factory does not say sandbox = True"
    at_once = settings.processes or cores()
    money = f", ${most * cost.usd:,.2f}" if cost.usd else ""
    plan = [
        f"first task  {how}; {', '.join(trial.run.agents) or 'no agent was seen'}; {counted(calls, 'model call')}",
        f"plan        {counted(len(tasks), 'task')} clean, at most {counted(budget, 'run')} with a fault, two replays "
        "of each failure",
        f"tools       {tools}",
        f"price       at most {counted(most, 'run')}, {counted(most * calls, 'model call')}, "
        f"{counted(most * tokens, 'token')}{money}, "
        f"{most * took_s / at_once / 60:.1f} min with {counted(at_once, 'process', 'processes')}",
    ]
    if settings.model is not None:
        from blamespan_lab.learn.language_model import describe_plan

        plan.append(f"model       {describe_plan(settings.model, longest_trace(trial.spans), budget)}")
    return plan


def make_recipe(*, seed: int = 0, timeout_s: float = 120.0, writer: str = "operators") -> StressRecipe:
    """Return which faults are put in: every kind that somebody's decision can be blamed for, round after round."""
    return StressRecipe("learn", seed=seed, runs=1_000, mechanisms=_MECHANISMS, writer=writer, timeout_s=timeout_s)


def _identity(name: str, check: str | None, tasks: Sequence[str], recipe: StressRecipe) -> dict[str, object]:
    digest = hashlib.sha256("\0".join(tasks).encode("utf-8", "surrogatepass")).hexdigest()
    return {"program": name, "check": check, "tasks": digest, "seed": recipe.seed, "writer": recipe.writer}


def make_runs(
    name: str,
    check: str | None,
    tasks: Sequence[str],
    folder: LearnFolder,
    recipe: StressRecipe,
    budget: Budget,
    *,
    processes: int | None = None,
    on_progress: Progress = lambda title, done, total: None,
) -> Made:
    """Run a team clean and with faults, and keep the runs and their labels in *folder*.

    Args:
        name: `module:factory`.
        check: `module:function`, or None.
        tasks: What it is asked.
        folder: Where a killed call goes on.
        recipe: Which faults.
        budget: How many.
        processes: Runs at once; all cores by default.
        on_progress: As for `learn`.

    Raises:
        ConfigError: if the program cannot be run.
        BlamespanError: if no task succeeds without a fault, or no fault makes any run fail.
    """
    _require_tasks(tasks)
    with WorkerPool(open_worker, name, check, recipe, name=name, timeout_s=recipe.timeout_s) as pool:
        made = Campaign(tasks, recipe, budget, pool, folder, processes or cores(), on_progress).make()
    require_failures(made, name)
    return made


def require_failures(made: Made, name: str) -> None:
    """Make sure that a campaign has made something to learn from.

    Raises:
        BlamespanError: if no fault made any run fail; the message says what became of them.
    """
    flipped, harmless = made.of("flipped"), made.of("harmless")
    if not flipped and not made.of("hung"):
        answers = {done.key.partition(" ")[2]: done.answer for done in made.of("clean")}
        changed = sum(done.answer != answers.get(done.key.split(" ")[-2]) for done in harmless)
        always_yes = " Does the check always say yes?" if changed > len(harmless) / 2 else ""
        reasons = Counter(done.reason for done in (*made.of("missed"), *made.of("void")) if done.reason)
        why = f", most often as {reasons.most_common(1)[0][0]}" if reasons and not harmless else ""
        raise BlamespanError(
            f"expected faults that make {name!r} fail, got none: of {len(harmless)} runs with a fault {changed} gave "
            f"another answer, and all are right; {len(made.of('missed')) + len(made.of('void'))} faults came to nothing"
            f"{why}.{always_yes} Give a check that looks at the answer, other tasks, or a larger budget"
        )


def _require_tasks(tasks: Sequence[str]) -> None:
    if isinstance(tasks, str) or not tasks:
        raise ConfigError(f"expected a list of tasks for the program, got {tasks!r}. Give some, 20 or more at best")


def _own_labels(folder: LearnFolder) -> list[PersonLabel]:
    """Read the labels of the campaign, and of people who added to them."""
    if not folder.labels_path.exists():
        return []
    kept = {done.trace_id for done in folder.done.values()}
    refused: list[UnreadableInput] = []
    return [
        label for label in read_labels(folder.labels_path, refused) if label.by != BY or label.trace_id in kept
    ]  # fmt: skip


def _read_recorded(paths: Sequence[str | Path]) -> Iterator[RecordedRun]:
    for run in runs_in(list(paths)) if paths else ():
        if isinstance(run, UnreadableInput):
            _log.warning("left out: %s", run)
        else:
            yield run


def _read_said(labels: str | Path | None, runs: Sequence[str | Path]) -> list[PersonLabel]:
    """Read the labels that are named, else those beside the runs."""
    beside = [folder / LABELS_FILE for path in map(Path, runs) for folder in (path, path.parent)]
    paths = [Path(labels)] if labels is not None else [path for path in dict.fromkeys(beside) if path.is_file()]
    refused: list[UnreadableInput] = []
    said = [label for path in paths for label in read_labels(path, refused)]
    for error in refused[:5]:
        _log.warning("left out: %s", error)
    return said


def _put_into_use(folder: Path, files: Sequence[str]) -> Path:
    """Copy what is better beside this user's store, where the collector, `analyze` and embedded programs find it."""
    place: Path = load_part("store_folder")()
    try:
        place.mkdir(parents=True, exist_ok=True)
        for name in files:
            fresh, used_as = place / f".{name}.new", name
            if name == USUAL_COURSE_FILE:
                _read_courses(place / name).adding(UsualCourses.load(folder / name)).save(fresh)
            else:
                load = StepHead.load if name == STEP_HEAD_FILE else OutcomeHead.load
                used_as = name_for_team(name, load(folder / name).figures["agents"])
                shutil.copyfile(folder / name, fresh)
            fresh.replace(place / used_as)
    except OSError as error:
        raise BlamespanError(
            f"expected room for {files!r} in {str(place)!r}, got {error.strerror or error}. What was learnt is in "
            f"{str(folder)!r}: use it with BLAMESPAN_LEARNT={folder}"
        ) from error
    return place


def _read_courses(path: Path) -> UsualCourses:
    """Read the courses of other teams; none where there are none, or they cannot be read any more."""
    try:
        return UsualCourses.load(path) if path.exists() else UsualCourses(())
    except TracerUnavailable as error:
        _log.warning("what was usual before is learnt anew: %s", error)
        return UsualCourses(())


def _name_of(made: str | Callable[..., Any] | None) -> str | None:
    """Name a function as other processes import it.

    Raises:
        ConfigError: if they cannot.
    """
    if made is None or isinstance(made, str):
        return made
    module, name = getattr(made, "__module__", ""), getattr(made, "__qualname__", "")
    if not module or module == "__main__" or not name or "<" in name:
        raise ConfigError(
            f"expected a function that other processes can import, got {name or made!r} of {module or 'nowhere'!r}. "
            "Put it into a module, and name it like 'my_team:make'"
        )
    return f"{module}:{name}"
