"""A team that was learnt is judged better everywhere, another team as before, and what cannot be learnt is said."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import blamespan
from blamespan import conventions as words
from blamespan.cli import cli
from blamespan.errors import BlamespanError, ConfigError, UnreadableInput
from blamespan.importing.recorded import RecordedRun
from blamespan.labels.file import LabelsFile
from blamespan.learning import LearnSettings
from blamespan.learnt_files import STEP_HEAD_FILE
from blamespan.spans import Span
from blamespan.tracers import load_tracer
from blamespan_collector.store import RunWriter
from blamespan_lab.learn.campaign import Budget, Cost, Made, cost_of
from blamespan_lab.learn.command import learn as learn_command
from blamespan_lab.learn.folder import Done
from blamespan_lab.learn.report import figures_of, lines_of
from blamespan_lab.learn.teaching import _put_into_use
from blamespan_lab.learn.training import Trained, train_team
from blamespan_lab.learn.worker import WrittenFault
from blamespan_lab.rerun.user_program import read_tasks
from blamespan_tracer.heads import name_for_team
from blamespan_tracer.step_head import StepHead
from tests.sdk.builders import span
from tests.tracer_model.lab.buying_team import AGENTS, WRONG, label_of, trace_of
from tests.tracer_model.schemata.test_command import written


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Trained]:
    """A folder with what 24 labelled failures of a team taught, and the figures."""
    folder = tmp_path_factory.mktemp("taught")
    traces = [trace_of(number) for number in range(24)]
    modes = ("mast:FM-3.2", "mast:FM-2.4")
    labels = [label_of(trace, modes[number % 2]) for number, trace in enumerate(traces)]
    return folder, train_team([RecordedRun("x", trace) for trace in traces], labels, folder)


def test_what_was_learnt_is_measured_on_other_tasks_and_kinds_beside_what_needs_no_tracer(
    taught: tuple[Path, Trained],
) -> None:
    """A team whose auditor always errs: naming the auditor always is as good, and so is a head that has not seen."""
    trained = taught[1]

    assert trained.steps is not None
    assert trained.left_out is not None
    assert trained.steps.after > trained.steps.before + 50
    assert (trained.left_out.agent, trained.left_out.place) == (100.0, 100.0)
    assert trained.left_out.after > trained.left_out.before + 50
    assert trained.outcomes is None
    assert "at least 20 failed and 20 sound runs" in trained.why_no_outcomes
    assert trained.unused == 0


def test_head_beside_the_store_is_used_for_its_team_and_not_for_another(
    taught: tuple[Path, Trained], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No variable is needed; of a run with other agents the tracer says what it says by itself, of a mixed one less."""
    own, others = trace_of(900), trace_of(900, agents=("Ada", "Bob", "Eve", "Joe"))
    mixed = trace_of(900, agents=("Planner", "Buyer", "Eve", "Auditor"))
    runs = [own, mixed, others]
    before = load_tracer("auto").attribute(runs)
    monkeypatch.setenv("BLAMESPAN_STORE", str(tmp_path / "runs.db"))
    (tmp_path / "runs.db").touch()
    head = replace(StepHead.load(taught[0] / STEP_HEAD_FILE), is_better=True)
    head.save(tmp_path / STEP_HEAD_FILE)
    after = load_tracer("auto").attribute(runs)

    gains = [now.steps[WRONG].score - then.steps[WRONG].score for now, then in zip(after, before, strict=True)]
    assert after[0].decisive_step == WRONG
    assert after[2] == before[2]
    assert gains[0] > gains[1] > 0
    assert head.figures["agents"] == sorted(AGENTS)


def test_each_team_has_a_head_of_its_own(
    taught: tuple[Path, Trained], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A team that is learnt later leaves the other's head as it was, and its own judges nobody else."""
    others = ("Ada", "Bob", "Eve", "Joe")
    runs = [trace_of(900), trace_of(900, agents=others), trace_of(900, agents=(*AGENTS[:1], *others[1:]))]
    RunWriter(tmp_path / "runs.db").close()
    monkeypatch.setenv("BLAMESPAN_STORE", str(tmp_path / "runs.db"))
    before = load_tracer("auto").attribute(runs)
    head = replace(StepHead.load(taught[0] / STEP_HEAD_FILE), is_better=True)
    elsewhere = replace(head, agents=others, figures={**head.figures, "agents": sorted(others)})
    for number, learnt in enumerate((head, elsewhere, head)):
        folder = tmp_path / str(number)
        folder.mkdir()
        learnt.save(folder / STEP_HEAD_FILE)
        _put_into_use(folder, [STEP_HEAD_FILE])
    both = load_tracer("auto").attribute(runs)
    listed = CliRunner().invoke(cli, ["status"]).output
    with monkeypatch.context() as elsewhere_set:  # as the collector does
        elsewhere_set.setenv("BLAMESPAN_STORE", "none")
        elsewhere_set.setenv("BLAMESPAN_LEARNT", str(tmp_path))
        by_folder = load_tracer("auto").attribute(runs)
    (tmp_path / name_for_team(STEP_HEAD_FILE, others)).unlink()
    one = load_tracer("auto").attribute(runs)

    assert len(list(tmp_path.glob("*.safetensors"))) == 1
    assert by_folder == both
    assert both[0] == one[0]
    assert both[0].steps != before[0].steps
    assert both[1].steps != before[1].steps
    assert one[1:] == before[1:]  # not its team: it knows none, and one of four
    for team in (AGENTS, others):
        assert f"step head     in use: {', '.join(sorted(team))}: " in listed


def test_head_of_another_version_beside_the_store_costs_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody asked for it by name, so the tracer judges as it does without."""
    before = load_tracer("auto").attribute([trace_of(900)])
    monkeypatch.setenv("BLAMESPAN_STORE", str(tmp_path / "runs.db"))
    (tmp_path / "runs.db").touch()
    (tmp_path / STEP_HEAD_FILE).write_bytes(b"of another version")

    assert load_tracer("auto").attribute([trace_of(900)]) == before
    assert "what was learnt is not used: expected a head for steps" in caplog.text


def test_labels_of_another_team_are_counted_and_said(tmp_path: Path) -> None:
    """They teach nothing, and the report asks whose they are."""
    traces = [trace_of(number) for number in range(9)]
    others = [label_of(trace_of(number)) for number in range(500, 507)]
    trained = train_team([RecordedRun("x", trace) for trace in traces], others, tmp_path)
    lines = lines_of(figures_of(None, trained, LearnSettings(), seconds=1.0), tmp_path, [], None)

    assert trained.unused == 7
    assert "expected at least 8 labelled failures" in lines[2]
    assert "7 labels about other runs: made of another team?" in lines[6]


@pytest.mark.parametrize("others", [0, 2])
def test_runs_of_another_team_are_said(others: int, tmp_path: Path) -> None:
    """What a program's runs are mixed with is named where no agent is the same; a team alone is not remarked upon."""
    traces = [trace_of(number) for number in range(9)]
    traces += [trace_of(900 + number, agents=("Ada", "Bob", "Eve", "Joe")) for number in range(others)]
    trained = train_team([RecordedRun("x", trace) for trace in traces], [], tmp_path)
    line = lines_of(
        figures_of(replace(made_of(), tasks=30), trained, LearnSettings(), seconds=1.0), tmp_path, [], None
    )[-1]

    assert ("Runs of 2 teams that share no agent were learnt as one" in line) == bool(others)


def test_train_refuses_labels_of_another_team_with_a_sentence(tmp_path: Path) -> None:
    """Of labels that fit none of the runs, it is said that they do not fit."""
    (tmp_path / "run.txt").write_text("task: Add.\n\nada: It is 4.\n")
    LabelsFile(tmp_path / "labels.jsonl").add(label_of(trace_of(1)))
    done = CliRunner().invoke(
        cli, ["lab", "train", "--labels", str(tmp_path / "labels.jsonl"), "--data", str(tmp_path / "run.txt")]
    )

    assert isinstance(done.exception, UnreadableInput | SystemExit)
    assert "Were they made of another team?" in str(done.exception) + done.output


def made_of() -> Made:
    fault = WrittenFault("solver", "aegis:FM-2.4", "response", "drop-fact", ("mast:FM-2.4",), 1)
    done = [Done(f"clean {task}", "clean", succeeded=True) for task in range(5)]
    done += [Done(f"fault {n}", "flipped", fault=fault, decisive=1, is_replayed=True, calls=4) for n in range(9)]
    return Made(tuple(done), 5, True, 0, 1.0)


def test_report_says_what_is_few(taught: tuple[Path, Trained], tmp_path: Path) -> None:
    """Five tasks, one agent: lines that say so, and what to add."""
    trained = taught[1]
    lines = lines_of(figures_of(made_of(), trained, LearnSettings(), seconds=65.0), tmp_path, [], None)
    many = figures_of(replace(made_of(), tasks=30), trained, LearnSettings(), seconds=65.0)
    more = lines_of(many, tmp_path, [STEP_HEAD_FILE], tmp_path)
    restless = lines_of(
        figures_of(replace(made_of(), is_repeatable=False), trained, LearnSettings(), seconds=1.0), tmp_path, [], None
    )

    assert len(lines) == 7
    assert "at the step the fault was put into in 9 of 9" in lines[0]
    assert "14 runs, 36 model calls" in lines[5]
    assert "To add: tasks; 5 tasks will not do" in lines[6]
    assert lines[6].startswith("use       nothing: it is not measurably better")
    assert "One agent: it is always to blame" in more[6]
    assert "answers otherwise each time" in restless[0]


def test_tasks_are_texts_or_objects(tmp_path: Path) -> None:
    """A task on each line; a line that is none is named."""
    (tmp_path / "tasks.jsonl").write_text('{"task": "Add."}\n\n"Divide."\n{"question": "How many?"}\n')
    (tmp_path / "tasks.txt").write_text('Add.\n {"task": 1}\n')
    (tmp_path / "wrong.jsonl").write_text('{"task": "Add."}\n{"answer": 4}\n')

    assert read_tasks(tmp_path / "tasks.jsonl") == ["Add.", "Divide.", "How many?"]
    assert read_tasks(tmp_path / "tasks.txt") == ["Add.", '{"task": 1}']
    with pytest.raises(ConfigError, match=r'wrong\.jsonl:2: expected \{"task": "\.\.\."\} or a JSON text'):
        read_tasks(tmp_path / "wrong.jsonl")
    with pytest.raises(ConfigError, match="--tasks must be a text file"):
        read_tasks(tmp_path / "nowhere.jsonl")


def test_misuse_is_said_before_anything_runs() -> None:
    """No program and no runs, no tasks, a function that no other process can import."""
    with pytest.raises(ConfigError, match="expected a program as module:factory, or recorded runs"):
        blamespan.learn()
    with pytest.raises(ConfigError, match="expected a function that other processes can import"):
        blamespan.learn(lambda: None, ["Add."])
    with pytest.raises(BlamespanError, match="expected a list of tasks"):
        blamespan.learn("teams:team", out="runs/learn/nothing")


def test_recorded_sound_runs_teach_what_is_usual_without_a_label(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From 24 sound runs alone: a run without its auditor then looks failed, its sound twin does not."""
    monkeypatch.setenv("BLAMESPAN_STORE", str(tmp_path / "runs.db"))
    (tmp_path / "runs.db").touch()
    path = written(tmp_path / "traces.jsonl", *(trace_of(number, outcome="succeeded") for number in range(24)))
    learnt = blamespan.learn(runs=[path], out=tmp_path / "learnt")
    twin = replace(trace_of(900, outcome="unknown"))
    steps = [step for step in twin.steps if step.agent != "Auditor"]
    lacking = replace(twin, steps=tuple(replace(step, index=index) for index, step in enumerate(steps)))
    lacks, sound = load_tracer("auto").attribute([lacking, twin])

    assert learnt.lines[1].endswith("habits of 4 agents, by 24 sound runs and no label")
    assert learnt.lines[-1].startswith("use       what is usual, from now on")
    assert (lacks.word, lacks.agents[0].agent) == ("looks failed", "Clerk")
    assert sound.word == "no sign of failure"


def test_money_is_a_bound_by_the_table_of_prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a million tokens read at 1 and a tenth written at 4 cost 0.9; a bound without prices is refused."""
    (tmp_path / "prices.toml").write_text('["gpt-4o"]\ninput = 1\noutput = 4\n')
    with pytest.raises(ConfigError, match="a bound of 5 US dollars needs a table of prices, got none"):
        blamespan.learn("teams:team", ["Add."], max_cost=5.0)
    monkeypatch.setenv("BLAMESPAN_PRICES", str(tmp_path / "prices.toml"))
    budget = Budget.of(LearnSettings(max_cost=1.0))

    assert cost_of([chat("gpt-4o-2024-08-06", 500_000, 100_000)]) == Cost(1, 600_000, pytest.approx(0.9))
    assert not budget.is_spent(cost_of([chat("gpt-4o", 500_000, 100_000)]), minutes=900.0)
    assert budget.is_spent(cost_of([chat("gpt-4o", 500_000, 200_000)]), minutes=0.0)
    assert not budget.is_spent(cost_of([chat("other", 0, 0)]), minutes=0.0)
    with pytest.raises(ConfigError, match="a bound of 1 US dollars needs the price of each model, got none of one"):
        budget.is_spent(cost_of([chat("gpt-4o", 1, 1), chat("other", 1, 1)]), minutes=0.0)
    assert Budget.of(LearnSettings(minutes=2.0)).is_spent(Cost(), minutes=2.0)


def chat(model: str, read: int, written: int) -> Span:
    counts = {words.INPUT_TOKENS: read, words.OUTPUT_TOKENS: written, words.RESPONSE_MODEL: model}
    return span(1, "chat", attributes={words.OPERATION: words.OPERATION_CHAT, **counts})


def test_setting_that_is_not_known_is_refused_with_the_nearest() -> None:
    """A typing error must not cost a campaign."""
    with pytest.raises(ConfigError, match=r"no setting 'budgets'\. Did you mean 'budget'"):
        blamespan.learn("teams:team", ["Add."], budgets=3)


def test_every_option_is_a_setting() -> None:
    """The command and `blamespan.learn` take the same settings, by the same names."""
    options = {option.name for option in learn_command.params} - {"program", "tasks_file", "check"}

    assert options - {"dry_run", "wants_json"} == {one.name for one in fields(LearnSettings)}


def test_help_shows_a_real_example() -> None:
    """The first example is the one of the page."""
    done = CliRunner().invoke(cli, ["learn", "--help"])

    assert "blamespan learn my_team:make --tasks tasks.jsonl --check my_team:is_right" in done.output
    assert done.exit_code == 0
