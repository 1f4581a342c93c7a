"""A run may fail by its task or by a tool: no agent is blamed, and the words are quoted. Each has its sound twin."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from blamespan import conventions as words
from blamespan.analysis.mcp_server import explain
from blamespan.analysis.showing.shown_run import ShownRun
from blamespan.annotate import annotate, read_verdict
from blamespan.attribution import Attribution, Cause, Contradicted, check_verdict
from blamespan.cli import cli
from blamespan.errors import MalformedVerdict
from blamespan.importing.recorded import RecordedRun
from blamespan.rebuilding.emit import emit
from blamespan.rebuilding.rebuild import rebuild_run
from blamespan.rebuilding.runs import split_runs
from blamespan.trace import MessageActionTrace
from blamespan_integrations.importers.transcript import TranscriptImporter
from blamespan_tracer.auto.causes import contradicting_values
from blamespan_tracer.auto.tracer import AutoTracer

TRACER = AutoTracer.bundled()

DEAD = """
=== run
outcome: {outcome}
agents: planner, searcher
task:
What is the price of ticket 4711? Ask the fare service.

--- planner
Searcher, look up the fare of ticket 4711.
--- searcher calls
get_fare({{"ticket": 4711}})
--- searcher fails
{failure}
--- searcher calls
get_fare({{"ticket": 4711}})
--- searcher {second}
--- searcher
{said}
--- planner
{last}
"""
FAILURE = "HTTP 503 Service Unavailable"
FAILS, ANSWERS = f"fails\n{FAILURE}", 'gets\n{"ticket": 4711, "fare_eur": 80}'
DOWN = "The fare service is unavailable."
GIVES_UP = "I could not find the price of ticket 4711, because the fare service does not answer."

TORN = """
=== run
outcome: {outcome}
agents: planner, booker
task:
Book a hotel in Rome for two nights. {first} Keep the hotel near the station. {second}

--- planner
Booker, find a hotel near the station.
--- booker calls
search({{"city": "Rome"}})
--- booker gets
{{"hotel": "Roma Uno", "total_eur": 480}}
--- booker
Roma Uno costs 480 euros for two nights.
--- planner
{last}
"""
ASKS = "I cannot book: the task says that the budget is 500 euros and also that it is 400 euros. Which one is right?"

LACKING = """
=== run
outcome: {outcome}
agents: planner, analyst
task:
{task}

--- planner
Analyst, read sales_q3.csv and sum the totals.
--- analyst calls
read_file({{"path": "sales_q3.csv"}})
--- analyst {answer}
--- analyst
There is no such file.
--- planner
I cannot do this: the file sales_q3.csv was not attached. Please provide it.
"""
SUM = 'Sum the column "total" of the attached file sales_q3.csv.'
NO_FILE = "fails\nFileNotFoundError: no such file"


def read(tmp_path: Path, text: str, **parts: str) -> MessageActionTrace:
    path = tmp_path / "run.txt"
    path.write_text(text.format(**parts))
    [run] = TranscriptImporter().read(path)
    assert isinstance(run, RecordedRun), run
    return run.trace


def judged(trace: MessageActionTrace) -> Attribution:
    return check_verdict(TRACER.attribute([trace])[0], trace)


def dead(tmp_path: Path, outcome: str = "unknown", **changed: str) -> MessageActionTrace:
    parts = {"failure": FAILURE, "second": FAILS, "said": DOWN, "last": GIVES_UP, **changed}
    return read(tmp_path, DEAD, outcome=outcome, **parts)


def torn(tmp_path: Path, second: str = "Note that the budget is 400 euros.", **changed: str) -> MessageActionTrace:
    parts = {"first": "The budget is 500 euros.", "outcome": "failed", "last": ASKS, **changed}
    return read(tmp_path, TORN, second=second, **parts)


@pytest.mark.parametrize("outcome", ["unknown", "failed"])
@pytest.mark.parametrize(
    "failure", [FAILURE, "TimeoutError: timed out after 30 s", '{"error": "502 Bad Gateway"}', "Connection refused"]
)
def test_a_tool_that_stays_down_is_to_blame(tmp_path: Path, failure: str, outcome: str) -> None:
    """It was called again, every call failed by itself, and the run says so: nobody of the team is blamed."""
    verdict = judged(dead(tmp_path, outcome, failure=failure, second=f"fails\n{failure}"))

    assert verdict.cause == Cause(
        "tool", "get_fare", 4, failure, "its last 2 calls failed, and no call went through after them"
    )
    assert (verdict.word, verdict.names_suspects) == ("looks failed" if outcome == "unknown" else "failed", False)


@pytest.mark.parametrize(
    "changed",
    [
        {"second": ANSWERS, "said": "Ticket 4711 costs 80 euros.", "last": "The price of ticket 4711 is 80 euros."},
        {"second": ANSWERS},
        {"last": "The price of ticket 4711 is 95 euros."},
        {"failure": "ValueError: ticket must be text", "second": "fails\nValueError: ticket must be text"},
        {"outcome": "succeeded"},
    ],
    ids=["recovered", "answer ignored", "made up", "wrong arguments", "known to have succeeded"],
)
def test_a_tool_is_not_to_blame_for_agents(tmp_path: Path, changed: dict[str, str]) -> None:
    """A retry that went well, whether heeded or not, a made-up answer, wrong arguments: these are agents' matters."""
    assert judged(dead(tmp_path, **changed)).cause is None


def test_an_agent_that_ignored_a_good_retry_is_still_blamed(tmp_path: Path) -> None:
    """The answer was there: who says that the service is down is named."""
    verdict = judged(dead(tmp_path, "failed", second=ANSWERS))

    assert verdict.names_suspects
    assert verdict.agents[0].agent == "searcher"


def test_a_single_failure_is_no_dead_tool(tmp_path: Path) -> None:
    """Who gives up without trying again may be to blame."""
    trace = dead(tmp_path)
    once = replace(trace, steps=tuple(replace(step, index=i) for i, step in enumerate((*trace.steps[:3],))))
    last = replace(trace.steps[6], index=3, inputs=(2,))

    assert judged(replace(once, steps=(*once.steps, last))).cause is None


def test_a_task_that_contradicts_itself_is_to_blame(tmp_path: Path) -> None:
    """Both of its sentences are quoted."""
    verdict = judged(torn(tmp_path))

    assert verdict.cause == Cause(
        "task",
        "the task",
        None,
        "The budget is 500 euros.",
        "the task gives two values for “budget”: 500 and 400",
        Contradicted(None, "Note that the budget is 400 euros."),
    )
    assert not verdict.names_suspects


@pytest.mark.parametrize(
    "second",
    [
        "The dinner budget is 400 euros.",
        "The budget is 400 euros per night.",
        "In winter the budget is 400 euros.",
        "The budget is now 400 euros.",
        "The budget was 400 euros.",
        "The budget is 500 euros.",
        "The budget is 3 pages.",
        "A budget of 400 euros is usual.",
        "The budget is 400 euros for children.",
    ],
)
def test_two_values_of_two_things_are_no_contradiction(tmp_path: Path, second: str) -> None:
    """Another thing, another time, another unit, the same value: the task is fine, and agents are blamed as ever."""
    verdict = judged(torn(tmp_path, second))

    assert verdict.cause is None
    assert verdict.names_suspects


def test_a_torn_task_that_agents_cope_with_is_no_failure(tmp_path: Path) -> None:
    """Only where the last word gives up, or names both values, is the task said to be the reason."""
    said = "Roma Uno is booked for 480 euros."

    assert judged(torn(tmp_path, outcome="unknown", last=said)).cause is None
    assert judged(torn(tmp_path, outcome="succeeded")).cause is None


@pytest.mark.parametrize(("task", "answer"), [(SUM, NO_FILE), ("Sum the totals of sales_q3.csv.", NO_FILE)])
def test_a_file_that_nobody_gave_is_the_task_s_matter(tmp_path: Path, task: str, answer: str) -> None:
    """The task names it, a tool looked for it, the last word says that it lacks."""
    cause = judged(read(tmp_path, LACKING, outcome="unknown", task=task, answer=answer)).cause

    assert cause is not None
    assert (cause.title, cause.step) == ("the task", 4)
    assert cause.quote == "I cannot do this: the file sales_q3.csv was not attached."
    assert cause.against == Contradicted(None, task)


@pytest.mark.parametrize(
    ("task", "answer"),
    [
        (SUM, "gets\nsales_q3.csv: total\n100\n200"),
        ("Write a table of the totals to sales_q3.csv.", NO_FILE),
        ("Sum the totals of the quarter.", NO_FILE),
    ],
    ids=["given", "to be made", "not named"],
)
def test_a_file_that_is_there_or_not_asked_for_is_the_agents_matter(tmp_path: Path, task: str, answer: str) -> None:
    """An agent that overlooks what it was given is blamed."""
    verdict = judged(read(tmp_path, LACKING, outcome="failed", task=task, answer=answer))

    assert verdict.cause is None
    assert verdict.names_suspects


def test_the_cause_stands_on_the_run_s_span_and_is_read_again(tmp_path: Path) -> None:
    """No span has a rank or an agent to blame; what is read from the spans is what was written."""
    trace = dead(tmp_path)
    verdict = judged(trace)
    [run] = split_runs(emit(trace))

    spans = annotate(run, verdict)
    [again] = split_runs(spans)
    read_again = read_verdict(again)

    root = spans[0].attributes
    assert (root[words.CAUSE_KIND], root[words.CAUSE_NAME]) == ("tool", "get_fare")
    assert (root[words.CAUSE_QUOTE], root[words.ERROR_MODE]) == (FAILURE, "X4")
    assert root[words.CAUSE_SPAN_ID] == trace.steps[4].span_id
    assert words.BLAME_AGENT not in root
    assert not any(words.BLAME_RANK in span.attributes for span in spans)
    assert read_again is not None
    assert (read_again.cause, read_again.names_suspects) == (verdict.cause, False)
    assert rebuild_run(again).task == trace.task


def test_show_summary_rows_page_and_mcp_say_the_cause(tmp_path: Path) -> None:
    """Everywhere people look, the tool is named, and no agent."""
    trace = dead(tmp_path)
    source, rows, page = tmp_path / "run.txt", tmp_path / "rows.jsonl", tmp_path / "run.html"

    def run(*arguments: object) -> str:
        result = CliRunner().invoke(cli, [*map(str, arguments)])
        assert result.exit_code == 0, result.output
        return " ".join(result.output.split())

    shown, analyzed = run("show", source), run("analyze", source, "--out", rows)
    run("show", source, "--html", page)
    row = json.loads(rows.read_bytes())
    summed = json.loads(run("summary", rows, "--json"))["tracers"][0]
    document: dict[str, Any] = explain(ShownRun("run.txt", trace, judged(trace)))

    assert (
        f"no agent is blamed, but the tool get_fare: its last 2 calls failed, and no call went through after them: "
        f"step 4 “{FAILURE}”" in shown
    )
    assert "the tool get_fare" in analyzed
    assert (row["agent"], row["step"], row["cause"]["name"], row["verdict"]) == (None, None, "get_fare", "looks failed")
    assert [cause["cause"] for cause in summed["causes"]] == ["the tool get_fare"]
    assert (summed["agents"], summed["failed"]["count"]) == ([], 1)
    assert "No agent is blamed, but <b><bdi>the tool get_fare</bdi></b>" in page.read_text()
    assert document["cause"]["no_agent_is_blamed_but"] == "the tool get_fare"
    assert "blamed_agent" not in document


def test_to_agree_with_a_cause_is_to_say_that_no_agent_is_to_blame(tmp_path: Path) -> None:
    """A label never blames an agent whom nobody named."""
    dead(tmp_path)
    labels = tmp_path / "labels.jsonl"
    arguments = ["annotate", str(tmp_path / "run.txt"), "--by", "ann", "--labels", str(labels)]

    result = CliRunner().invoke(cli, arguments, input="a\n\nq\n")

    label = json.loads(labels.read_text().splitlines()[0])
    assert result.exit_code == 0, result.output
    assert "the tool get_fare" in result.output
    assert label["answer"] == "no_agent"
    assert "searcher" not in json.dumps(label)


def test_a_cause_that_cannot_be_written_down_is_refused(tmp_path: Path) -> None:
    """A tracer may be anybody's."""
    trace = dead(tmp_path)
    verdict = judged(trace)

    for broken in (
        Cause("task", "t", 99, "q", "r"),
        Cause("fate", "t", None, "q", "r"),
        Cause("tool", 3, None, "", ""),
    ):  # type: ignore[arg-type]
        with pytest.raises(MalformedVerdict):
            check_verdict(replace(verdict, cause=broken), trace)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="the budgt is 4050.,\n€$of:", max_size=200))
def test_any_task_is_read(task: str) -> None:
    """Whatever stands there, pairs differ and the reading ends."""
    assert all(not one.equals(other) for one, other in contradicting_values(task))
