"""Transcripts played by AutoGen and LangGraph are recorded step by step, and their labels stand at the same steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from blamespan.errors import ConfigError
from blamespan.importing.recorded import RecordedRun
from blamespan_integrations.importers.transcript import TranscriptImporter

pytest.importorskip("autogen_ext")
pytest.importorskip("langgraph")

from blamespan_lab.measure.playing import play

TRANSCRIPTS = Path(__file__).parents[4] / "tracer_model" / "transcripts"
ORDER = """--- clerk calls
get_order({"id": 7, "lines": ["a", "b"]})
--- clerk calls
get_order({"id": 8})
--- clerk gets
{"total": 80}
--- clerk fails
no order 8
--- clerk [mistake blamespan:X3]
Order 7 comes to 90. TERMINATE
"""


def read(folder: Path, team: str, steps: str, agents: str = "clerk") -> RecordedRun:
    path = folder / "run.txt"
    path.write_text(f"=== run\noutcome: failed\nteam: {team}\nagents: {agents}\ntask:\nOrders?\n\n{steps}", "utf-8")
    (run,) = TranscriptImporter().read(path)
    assert isinstance(run, RecordedRun)
    return run


@pytest.mark.parametrize("team", ["autogen round robin", "langgraph", "orders"])
def test_tools_answer_as_written_and_the_label_follows_its_step(tmp_path: Path, team: str) -> None:
    """Calls made at once get each its own answer, an error stays one, and the mistake is where it was."""
    (played,) = play([read(tmp_path, team, ORDER)])

    steps = played.trace.steps
    answers = [(step.content, step.error is not None) for step in steps if step.kind == "tool_result"]
    assert answers == [('{"total": 80}', False), ("no order 8", True)]
    assert played.faults is not None
    (fault,) = played.faults
    assert fault.step is not None
    assert steps[fault.step].content == "Order 7 comes to 90. TERMINATE"
    assert (played.trace.task, played.trace.outcome) == ("Orders?", "failed")


@pytest.mark.parametrize("team", ["autogen selector", "langgraph"])
def test_node_without_a_model_says_its_part(tmp_path: Path, team: str) -> None:
    """Of an executor no model call is recorded, and others go on from what it said."""
    steps = '--- intake\nticket "T-9"\topened\n--- clerk [mistake]\nIt is T-8.\n--- intake\nclosed\n'

    (played,) = play([read(tmp_path, team, steps, "intake (executor), clerk")])

    assert [step.agent for step in played.trace.steps] == ["intake", "clerk", "intake"]
    assert played.faults is not None
    assert played.faults[0].step == 1


def test_swarm_hands_over_by_its_own_tool(tmp_path: Path) -> None:
    """A call of `transfer_to_` is the framework's handoff, which adds steps that no transcript has."""
    handover = "--- desk calls\ntransfer_to_clerk({})\n--- desk gets\nTransferred to clerk, adopting the role of clerk"

    (played,) = play([read(tmp_path, "autogen swarm", f"{handover} immediately.\n{ORDER}", "desk, clerk")])

    assert "handoff" in [step.kind for step in played.trace.steps]
    assert played.faults is not None
    assert played.faults[0].step == len(played.trace.steps) - 1


def test_transcript_that_a_framework_does_not_go_through_is_refused(tmp_path: Path) -> None:
    """A round robin asks its members in turn; a label that stood elsewhere would be a false one."""
    steps = "--- a\none\n--- b\ntwo\n--- b [mistake]\nthree\n--- a\nfour\n"

    with pytest.raises(ConfigError, match=r"run\.txt:1: expected step 3 by 'a'"):
        play([read(tmp_path, "autogen round robin", steps, "a, b")])


@pytest.mark.parametrize("name", ["tiny/autogen.txt", "tiny/langgraph.txt"])
def test_programs_in_the_repository_can_be_played(name: str) -> None:
    """Every step of theirs is found in the recorded run."""
    runs = [run for run in TranscriptImporter().read(TRANSCRIPTS / name) if isinstance(run, RecordedRun)]

    assert len(play(runs)) == len(runs) == 15


@pytest.mark.slow
@pytest.mark.parametrize(
    "folder", ["tiny_held_out", "relations", "relations_held_out", "programs_held_out", "office_held_out"]
)
def test_all_programs_can_be_played(folder: str) -> None:
    """The same of all those that figures are measured on."""
    files = sorted((TRANSCRIPTS / folder).glob("*.txt"))
    runs = [run for path in files for run in TranscriptImporter().read(path) if isinstance(run, RecordedRun)]

    assert [run.faults is None for run in play(runs)] == [False] * len(runs)
