"""What all sound runs of a team have is expected of the next one, and only there, and only where it is sure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from blamespan.errors import TracerUnavailable
from blamespan.trace import Agent, MessageActionTrace, Step
from blamespan.tracers import load_tracer
from blamespan_tracer.checks.check import CheckResult, apply_checks
from blamespan_tracer.checks.usual_course import (
    FEWEST_RUNS,
    UsualCourse,
    UsualCourses,
    learn_usual_course,
    learn_usual_courses,
    usual_courses_in_use,
)

AGENTS = ("coder", "reviewer", "writer")
COURSE = (
    ("coder", "message", "Patch: the loop over the {0} orders stops one later. Files: orders.py."),
    ("coder", "tool_call", 'build({{"target": "orders-{0}"}})'),
    ("reviewer", "tool_call", 'run_tests({{"suite": "orders-{0}"}})'),
    ("reviewer", "tool_result", "{0} passed"),
    ("reviewer", "message", "I ran the {0} tests and confirmed that the patch holds. Verdict: accepted."),
    ("writer", "message", "Answer: the orders are counted right, and {0} of them were wrong before."),
)
Said = Sequence[tuple[str, str, str]]


def trace_of(number: int, said: Said = COURSE, *, agents: tuple[str, ...] = AGENTS) -> MessageActionTrace:
    """A run of a team that codes, tests and answers."""
    steps = tuple(
        Step(index, f"{index + 1:016x}", agent, kind, text.format(20 + number),  # type: ignore[arg-type]
             inputs=(index - 1,) if kind == "tool_result" else ())
        for index, (agent, kind, text) in enumerate(said)
    )  # fmt: skip
    return MessageActionTrace(f"{number + 1:032x}", f"Mend the count of {number}.", steps, tuple(map(Agent, agents)))


def broken(course: UsualCourse, trace: MessageActionTrace) -> list[CheckResult]:
    """What a run lacks."""
    results = apply_checks(UsualCourses((course,)).checks(), trace)
    return [result for result in results if result.outcome == "fail"]


def without(*places: int) -> Said:
    """The course without some of its steps."""
    return [step for place, step in enumerate(COURSE) if place not in places]


@pytest.fixture(scope="module")
def course() -> UsualCourse:
    """What 40 sound runs show."""
    learnt = learn_usual_course(map(trace_of, range(40)))
    assert learnt is not None
    return learnt


def test_sound_run_keeps_the_course(course: UsualCourse) -> None:
    """Other numbers, the same course: nothing is found."""
    assert broken(course, trace_of(900)) == []


def test_tests_that_were_not_run_are_found_with_a_count_and_a_quote(course: UsualCourse) -> None:
    """The finding says who lacks what, in how many sound runs it was there, and quotes what stands there instead."""
    said = [step if step[0] != "reviewer" else (*step[:2], "The patch reads well. Verdict: accepted.")
            for step in without(2, 3)]  # fmt: skip
    found = {result.reason: result for result in broken(course, trace_of(900, said))}

    tests = found["a call of run_tests by reviewer is missing; 40 of 40 sound runs have it (and 1 more)"]
    assert (tests.check.name, tests.step, tests.quote) == ("usual-checking", 2, "Verdict: accepted.")
    assert str(tests.mode) == "mast:FM-3.2"


@pytest.mark.parametrize(
    ("said", "step", "reason"),
    [
        (without(5), 4, "any step of writer is missing"),
        (without(2, 3, 4), 1, "any step of reviewer is missing"),
        (without(1), 0, "a call of build by coder is missing"),
        ([COURSE[0], *COURSE[2:4], COURSE[1], *COURSE[4:]], 1,
         "a call of build by coder is missing before a call of run_tests by reviewer"),
        ([*COURSE[:5], ("writer", "message", "Answer: done.")], 5,
         "writer wrote 13 characters; 40 of 40 sound runs have at least 71"),
        ([("coder", "message", "Patch: the loop over the 920 orders stops one later."), *COURSE[1:]], 0,
         "'Files' from coder is missing"),
        ([*COURSE[:5], ("writer", "message", "Answer: the orders are counted right; several were wrong before.")], 5,
         "writer wrote 0 numbers; 40 of 40 sound runs have at least 1"),
        ([*COURSE[:5], ("writer", "message", "Answer: the orders are counted right, and {0} of them were")], 5,
         "the end of a sentence of writer is missing"),
        ([*COURSE[:5], ("writer", "message", "Answer: I can say no more than this on the {0} matters, sorry to say.")],
         5, "writer lacks 9 of 11 words that 40 of 40 sound runs have: and, are, before, counted"),
        ([*COURSE[:2], ("reviewer", "tool_call", 'run_tests({{"suite": "invoices-{0}"}})'), *COURSE[3:]], 2,
         "a source of what reviewer passes to run_tests is missing"),
        ([*COURSE[:3], ("reviewer", "tool_result", "Error: timed out"), *COURSE[4:]], 2,
         "an answer of run_tests to reviewer is missing"),
    ],
    ids=["ended early", "reviewer left out", "no build", "built too late", "short", "a field dropped", "no numbers",
         "cut off", "another message", "a made-up argument", "a tool that fails"],
)  # fmt: skip
def test_what_is_missing_out_of_order_or_short_is_found_where_it_was_due(
    course: UsualCourse, said: Said, step: int, reason: str
) -> None:
    """The step is the agent's own, or that of whoever went on without it."""
    assert (step, reason) in [(one.step, one.reason[: len(reason)]) for one in broken(course, trace_of(900, said))]


def test_what_one_sound_run_does_otherwise_is_not_expected() -> None:
    """One of 40 sound runs without tests: of the reviewer's checking nothing is said any more; of the rest it is."""
    course = learn_usual_course([*map(trace_of, range(39)), trace_of(39, without(2, 3))])
    assert course is not None

    found = broken(course, trace_of(900, without(2, 3, 5)))
    assert not any("run_tests" in one.reason for one in found)
    assert any("writer" in one.reason for one in found)


def test_step_that_only_some_sound_runs_have_is_expected_where_they_have_it() -> None:
    """Who takes money always asks first; who takes none need not ask."""
    ask, take = ("coder", "tool_call", "ask_owner({{}})"), ("coder", "tool_call", "take_money({{}})")
    course = learn_usual_course(
        trace_of(number, [ask, take, *COURSE] if number % 2 else COURSE) for number in range(48)
    )
    assert course is not None

    [finding] = [one for one in broken(course, trace_of(900, [take, *COURSE])) if "ask_owner" in one.reason]
    assert finding.reason == (
        "a call of ask_owner by coder is missing before a call of take_money by coder; 24 of 24 sound runs have it"
    )
    assert broken(course, trace_of(901)) == []


def test_few_runs_show_nothing(course: UsualCourse) -> None:
    """Of 19 sound runs nobody can tell habit from chance."""
    assert learn_usual_course(map(trace_of, range(FEWEST_RUNS - 1))) is None
    assert learn_usual_course(map(trace_of, range(FEWEST_RUNS))) is not None


def test_another_team_and_a_team_that_changed_are_not_held_to_it(course: UsualCourse) -> None:
    """A new agent, or a new tool, means that the team is another: its runs are not missing the old one's steps."""
    renamed = [("checker" if agent == "reviewer" else agent, kind, text) for agent, kind, text in COURSE]
    deploys = [*COURSE[:4], ("reviewer", "tool_call", "deploy({{}})"), *COURSE[5:]]

    assert broken(course, trace_of(900, renamed, agents=("coder", "checker", "writer"))) == []
    assert broken(course, trace_of(900, deploys)) == []


def test_teams_of_one_store_are_told_apart() -> None:
    """A run without its last agent belongs to the team that has it; a team with few runs has no course."""
    others = [trace_of(n, [("ada", "message", "I have looked at {0}.")], agents=("ada",)) for n in range(100, 130)]
    few = [trace_of(n, [("bob", "message", "I have looked at {0}.")], agents=("bob",)) for n in range(200, 205)]
    courses = learn_usual_courses([*map(trace_of, range(39)), trace_of(39, without(5)), *others, *few])

    assert [(team.agents, team.runs) for team in courses.teams] == [(AGENTS, 40), (("ada",), 30)]


def test_finding_raises_the_alarm_and_names_the_step(
    course: UsualCourse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the file beside the store the tracer says that the run looks failed; of its sound twin it does not."""
    monkeypatch.setenv("BLAMESPAN_STORE", str(tmp_path / "runs.db"))
    (tmp_path / "runs.db").touch()
    skipped, sound = trace_of(900, without(2, 3, 4)), trace_of(900)
    before = load_tracer("auto").attribute([skipped])[0]
    UsualCourses((course,)).save(tmp_path / "usual.json")
    after, twin = load_tracer("auto").attribute([skipped, sound])

    assert not before.calls_failed
    assert (after.word, after.decisive_step, after.evidence[0].index) == ("looks failed", 1, 1)
    assert not twin.calls_failed


def test_courses_survive_their_file_and_a_damaged_one_is_said(
    course: UsualCourse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several teams share a file; what cannot be read is named, with the command that learns it again."""
    path = tmp_path / "usual.json"
    other = UsualCourse(("ada",), (), 20, ())
    UsualCourses((course,)).adding(UsualCourses((other,))).save(path)
    again = UsualCourses.load(path)
    monkeypatch.setenv("BLAMESPAN_LEARNT", str(path))

    assert again.teams == (course, other)
    assert again.adding(UsualCourses((course,))).teams == (other, course)
    assert usual_courses_in_use() == again
    path.write_text('{"format": "blamespan-usual-0"}')
    with pytest.raises(TracerUnavailable, match=r"got .*blamespan-usual-0.*Learn it again: blamespan learn"):
        usual_courses_in_use()
    monkeypatch.setenv("BLAMESPAN_LEARNT", "none")
    assert usual_courses_in_use() is None
