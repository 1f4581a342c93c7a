"""A campaign finds what decided each failure, goes on where it was killed, and says why nothing comes of a team."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import blamespan
from blamespan.errors import BlamespanError, ConfigError
from blamespan.labels.file import read_labels
from blamespan.labels.people import PersonLabel
from blamespan_lab.learn.campaign import Budget, Campaign, Made
from blamespan_lab.learn.folder import Done, LearnFolder
from blamespan_lab.learn.teaching import make_recipe, require_failures
from blamespan_lab.learn.worker import CleanRun, Order, Worker
from blamespan_lab.rerun.worker_pool import RunEnded
from tests.tracer_model.lab.learn import teams

pytestmark = pytest.mark.timeout(300)
pytest.importorskip("autogen_agentchat")
pytest.importorskip("langgraph")

TEAMS = "tests.tracer_model.lab.learn.teams"
EXAMPLES = Path(__file__).parents[4] / "examples" / "learn"
ORDERS = [
    "Order for Delta Ltd: 2 chairs and 3 lamps. Members of the club get 10 % off the goods, and Delta Ltd is a member. "
    "Delivery costs 15 euro unless the goods come to more than 300 euro. What is to be paid?",
    "Order for Nova Ltd: 4 mats, 2 vases and 5 stools. Members of the club get 10 % off the goods. Delivery costs 15 "
    "euro unless the goods come to more than 300 euro. What is to be paid?",
]
FLATS = [
    "Find a flat in Lyon for Ms Weber: at most 1000 euro a month, at least 2 rooms. No pets move in. Of all that suit, "
    "name the one that is nearest to the station.",
    "Find a flat in Graz for Mr Hale: at most 900 euro a month, at least 1 rooms. He keeps a dog. Of all that suit, "
    "name the one that is nearest to the station.",
]


class InProcess:
    """Carries orders out in this process, where a pool has others for it."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.asked: list[Order] = []

    def ask(self, order: Order) -> Any:
        """Do what a process of a pool does."""
        self.asked.append(order)
        return self._worker.carry_out(order)


@pytest.fixture(autouse=True)
def _apart(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    blamespan.uninstrument()
    yield
    blamespan.uninstrument()


def pool_of(program: str, check: str = "is_right", module: str = TEAMS) -> InProcess:
    return InProcess(Worker.open(f"{module}:{program}", f"{module}:{check}", make_recipe()))


def campaign(pool: Any, folder: Path, tasks: list[str], faults: int = 12) -> Campaign:
    return Campaign(tasks, make_recipe(), Budget(faults), pool, LearnFolder(folder, {"program": "x"}), 1)


def made(program: str, folder: Path, *, check: str = "is_right", faults: int = 12) -> Made:
    return campaign(pool_of(program, check), folder, teams.TASKS, faults).make()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Made, Path]:
    """A campaign of the team that nothing went wrong with, and its folder."""
    folder = tmp_path_factory.mktemp("whole")
    done = made("team", folder)
    blamespan.uninstrument()
    return done, folder


@pytest.mark.parametrize(("module", "tasks"), [("orders_autogen", ORDERS), ("flats_langgraph", FLATS)])
def test_replay_finds_the_step_that_a_fault_was_put_into(module: str, tasks: list[str], tmp_path: Path) -> None:
    """In AutoGen and LangGraph: put right, the run succeeds; of answers that were rewritten, it is their very step."""
    done = campaign(pool_of("make", module=module), tmp_path, tasks).make()
    labels = {label.trace_id: label for label in read_labels(tmp_path / "labels.jsonl")}
    runs = LearnFolder(tmp_path, {"program": "x"}).runs()

    flipped = done.of("flipped")
    said = [one for one in flipped if one.fault is not None and one.fault.mechanism == "response"]
    replayed = [one for one in said if one.is_replayed]
    assert len(flipped) >= 4
    assert done.is_repeatable
    assert len(replayed) >= 0.9 * len(said)
    assert [one.decisive for one in replayed] == [one.fault.step for one in replayed if one.fault is not None]
    assert {labels[one.trace_id].source for one in replayed} == {"replayed"}
    assert {runs[one.trace_id].trace.outcome for one in flipped} == {"failed"}
    assert {runs[one.trace_id].trace.outcome for one in done.of("harmless")} == {"succeeded"}
    assert {labels[one.trace_id].answer for one in (*done.of("harmless"), *done.of("clean"))} == {"no_failure"}


def test_sound_twin_is_blamed_for_nothing(whole: tuple[Made, Path]) -> None:
    """The runs without a fault are labelled as sound, as the check told, and name no step."""
    done, folder = whole
    clean = {one.trace_id for one in done.of("clean")}

    labels = [label for label in read_labels(folder / "labels.jsonl") if label.trace_id in clean]
    assert [(label.answer, label.source, label.decisive) for label in labels] == [("no_failure", "told", None)] * 6


@pytest.mark.parametrize("killed_after", [5, 11])
def test_killed_campaign_goes_on_where_it_was(
    killed_after: int, whole: tuple[Made, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it was at when it was killed, the same command ends as if nothing had been, and does nothing twice."""
    add, count = LearnFolder.add, iter(range(1_000))

    def add_until_killed(self: LearnFolder, done: Done, *rest: Any) -> None:
        if next(count) == killed_after:
            raise KeyboardInterrupt
        add(self, done, *rest)

    pool = pool_of("team")
    monkeypatch.setattr(LearnFolder, "add", add_until_killed)
    with pytest.raises(KeyboardInterrupt):
        campaign(pool, tmp_path / "killed", teams.TASKS).make()
    monkeypatch.setattr(LearnFolder, "add", add)
    with (tmp_path / "killed" / "journal.jsonl").open("a") as journal:
        journal.write('{"key": "fault half a li')
    before = len(LearnFolder(tmp_path / "killed", {"program": "x"}).done)
    again = campaign(pool, tmp_path / "killed", teams.TASKS).make()

    assert before == killed_after
    assert [(one.key, one.what, one.decisive) for one in again.done] == [
        (one.key, one.what, one.decisive) for one in whole[0].done
    ]
    assert len(LearnFolder(tmp_path / "killed", {"program": "x"}).runs()) == sum(
        bool(one.trace_id) for one in whole[0].done
    )


def test_folder_of_another_campaign_is_refused(tmp_path: Path) -> None:
    """What was made of another team is not mixed with this one's."""
    LearnFolder(tmp_path, {"program": "mine:make"})

    with pytest.raises(ConfigError, match=r"begun with another program\. Choose another with --out FOLDER"):
        LearnFolder(tmp_path, {"program": "yours:make"})


def test_folder_of_an_earlier_version_is_refused(tmp_path: Path) -> None:
    """Records that this version does not write are one sentence, and what it says to do helps."""
    LearnFolder(tmp_path, {"program": "x"})
    with (tmp_path / "journal.jsonl").open("a") as journal:
        journal.write('{"key": "fault", "what": "failed", "written": 1}\n')

    with pytest.raises(ConfigError, match=r"of another one \(.*'written'.*\)\. Choose another with --out FOLDER"):
        LearnFolder(tmp_path, {"program": "x"})


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_full_disk_is_said_with_what_to_do(tmp_path: Path) -> None:
    """What cannot be written ends the campaign with a sentence; what was written is whole."""
    folder = LearnFolder(tmp_path, {"program": "x"})
    (tmp_path / "runs.jsonl").symlink_to("/dev/full")

    with pytest.raises(BlamespanError, match=r"No space left on device\. Make room and run the same command again"):
        Campaign(teams.TASKS, make_recipe(), Budget(4), pool_of("team"), folder, 1).make()  # type: ignore[arg-type]
    assert LearnFolder(tmp_path, {"program": "x"}).done == {}


def test_disk_that_gets_full_within_a_line_is_said(tmp_path: Path) -> None:
    """A part of a line is written before the disk is full: the run is not done, and is made again; nor is its label."""
    resource = pytest.importorskip("resource")
    folder, done = LearnFolder(tmp_path, {"program": "x"}), Done("clean 0", "clean", "why " * 400)
    label = PersonLabel("0" * 31 + "1", "no_failure", "learn", comment="so " * 400)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, hard))
    try:
        with pytest.raises(BlamespanError, match="File too large"):
            folder.add(done)
        with pytest.raises(ConfigError, match="File too large"):
            folder.add(done, label=label)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert LearnFolder(tmp_path, {"program": "x"}).done == {}
    folder.add(done, label=label)
    assert LearnFolder(tmp_path, {"program": "x"}).done == {"clean 0": done}
    assert [said.comment for said in read_labels(folder.labels_path, [])] == [label.comment]


def test_team_that_answers_otherwise_each_time_is_told(tmp_path: Path) -> None:
    """It is noticed, and each replay is made more often."""
    done = made("restless", tmp_path)

    assert not done.is_repeatable
    assert any(one.is_replayed and one.runs > 3 for one in done.of("flipped"))


def test_team_that_hangs_ends_with_a_sentence(tmp_path: Path) -> None:
    """Runs that were stopped are counted; where none ends, there is nothing to learn."""

    class Stopping:
        def ask(self, order: Order) -> Any:
            raise RunEnded("timed out")

    with pytest.raises(BlamespanError, match=r"got: it timed out \(6 of 6\)\. Only what works can be shown to break"):
        campaign(Stopping(), tmp_path, teams.TASKS).make()


def test_factory_that_hangs_is_waited_for_once(tmp_path: Path) -> None:
    """The first process that is not ready ends the campaign; the others are not waited for, they end with the pool."""
    is_over, began_s = threading.Event(), time.monotonic()

    class Opening:
        def ask(self, order: Order) -> Any:
            if isinstance(order, CleanRun) and order.task == teams.TASKS[0]:
                raise ConfigError("expected 'mine:make' to be ready")
            assert is_over.wait(60)
            raise RunEnded("broke")

    try:
        with pytest.raises(ConfigError, match="to be ready"):
            replace(campaign(Opening(), tmp_path, teams.TASKS), count=2).make()
    finally:
        is_over.set()
    assert time.monotonic() - began_s < 50


def test_run_that_hangs_by_a_fault_costs_that_run_alone(tmp_path: Path) -> None:
    """It is counted, and the others go on."""
    within = pool_of("team")

    class Stopping:
        def ask(self, order: Order) -> Any:
            if not isinstance(order, CleanRun) and len(within.asked) % 5 == 0:
                within.asked.append(order)
                raise RunEnded("timed out")
            return within.ask(order)

    done = campaign(Stopping(), tmp_path, teams.TASKS).make()

    assert done.of("hung")
    assert done.of("flipped")


@pytest.mark.parametrize(
    ("check", "reason"), [("never", "its answer is wrong"), ("raises", "the check raised KeyError: 'amount'")]
)
def test_tasks_that_all_fail_are_said_with_why(check: str, reason: str, tmp_path: Path) -> None:
    """A check that raises is told from answers that are wrong."""
    with pytest.raises(BlamespanError, match=rf"{reason} \(6 of 6\)"):
        made("team", tmp_path, check=check)


def test_check_that_always_says_yes_is_suspected(tmp_path: Path) -> None:
    """Answers changed, and not one was wrong."""
    done = made("team", tmp_path, check="always_yes")

    with pytest.raises(BlamespanError, match=r"gave another answer, and all are right.*Does the check always say yes"):
        require_failures(done, "team")


def test_faults_that_never_flip_are_said(whole: tuple[Made, Path]) -> None:
    """Where answers stay as they were, the check is not suspected."""
    done, _ = whole
    calm = replace(done, done=tuple(one for one in done.done if one.what != "flipped"))
    answers = {one.key.partition(" ")[2]: one.answer for one in done.of("clean")}
    same = tuple(replace(one, answer=answers.get(one.key.split(" ")[-2], one.answer)) for one in calm.done)

    with pytest.raises(BlamespanError, match=r"expected faults that make 'team' fail, got none") as error:
        require_failures(replace(done, done=same), "team")
    assert "always say yes" not in str(error.value)


def test_team_of_one_is_learnt(tmp_path: Path) -> None:
    """One agent errs at one of its steps."""
    done = made("alone", tmp_path)

    assert {one.fault.agent for one in done.of("flipped") if one.fault is not None} == {"solver"}


def test_tools_are_answered_from_recordings_unless_the_factory_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without `sandbox`, tools are called in clean runs alone; a call that nobody recorded makes a run void."""
    pool = pool_of("make", module="flats_langgraph")
    flats = sys.modules["flats_langgraph"]
    called: list[str] = []

    def counted(tool: Any) -> Any:
        given = tool.func

        def call(*arguments: str, **named: str) -> Any:
            called.append(tool.name)
            return given(*arguments, **named)

        return call

    for tool in flats.TOOLS.values():
        monkeypatch.setattr(tool, "func", counted(tool))
    monkeypatch.setattr(flats.make, "sandbox", False)
    done = campaign(pool, tmp_path, FLATS).make()
    runs = LearnFolder(tmp_path, {"program": "x"}).runs()

    calls = [step for one in done.of("clean") for step in runs[one.trace_id].trace.steps if step.kind == "tool_call"]
    assert len(called) == 2 * len(calls)  # each task was run clean twice
    assert any("which was not recorded" in one.reason for one in done.of("void"))
    assert done.of("flipped")
