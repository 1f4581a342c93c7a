"""The transcript importer: what people write down as plain text becomes runs, with the labels they put."""

from __future__ import annotations

from pathlib import Path

import pytest

from blamespan.analysis.sources import runs_in
from blamespan.errors import UnreadableInput
from blamespan.importing.recorded import Fault, RecordedRun, importers
from blamespan.taxonomy import mode
from blamespan_integrations.importers import transcript
from blamespan_integrations.importers.transcript import TranscriptImporter

REFUND = """
# Written by hand.
=== refund-1
outcome: failed
team: desk
agents: Triage, Refunds, Sandbox (executor), Ann (user)
task:
Ann wants her money back
for order 7731.

--- Ann -> Triage
Where is my money?
--- Triage thinks
Refunds should look.
--- Refunds calls
get_order({"id": 7731})
--- Refunds calls
get_policy({})
--- Refunds gets
{"total": 80,

"paid": 60}
--- Refunds fails
no such document
--- Sandbox
exitcode: 0
--- Refunds -> Triage, Ann [mistake blamespan:X3]
I am refunding 80.
--- Triage [carried]
80 are on their way.
--- Refunds [error mast:FM-3.1]
Done.
"""

TWIN = """
=== refund-1s
outcome: succeeded
begins as: refund-1, 7 steps
--- Refunds -> Triage, Ann
I am refunding 60.
"""


def read(tmp_path: Path, text: str) -> list[RecordedRun | UnreadableInput]:
    path = tmp_path / "runs.txt"
    path.write_text(text, encoding="utf-8")
    return list(TranscriptImporter().read(path))


def run_of(tmp_path: Path, text: str) -> RecordedRun:
    (run,) = read(tmp_path, text)
    assert isinstance(run, RecordedRun)
    return run


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    """Who said, thought or called what, to whom, and what came back for which call."""
    trace = run_of(tmp_path, REFUND).trace

    assert (trace.task, trace.outcome) == ("Ann wants her money back\nfor order 7731.", "failed")
    assert [(agent.name, agent.role) for agent in trace.agents] == [
        ("Triage", "agent"),
        ("Refunds", "agent"),
        ("Sandbox", "executor"),
        ("Ann", "user"),
    ]
    assert [(step.agent, step.kind, step.content, step.recipients, step.inputs) for step in trace.steps] == [
        ("Ann", "message", "Where is my money?", ("Triage",), ()),
        ("Triage", "plan", "Refunds should look.", (), (0,)),
        ("Refunds", "tool_call", 'get_order({"id": 7731})', (), (0, 1)),
        ("Refunds", "tool_call", "get_policy({})", (), (0, 1)),
        ("Refunds", "tool_result", '{"total": 80,\n\n"paid": 60}', (), (2,)),
        ("Refunds", "tool_result", "no such document", (), (3,)),
        ("Sandbox", "tool_result", "exitcode: 0", (), (1,)),
        ("Refunds", "message", "I am refunding 80.", ("Triage", "Ann"), (0, 1, 4, 5, 6)),
        ("Triage", "message", "80 are on their way.", (), (6, 7)),
        ("Refunds", "message", "Done.", (), (8,)),
    ]
    assert [step.index for step in trace.steps if step.status == "error"] == [5]


def test_marks_are_labels(tmp_path: Path) -> None:
    """The mistake comes first among the faults and is decisive; what carries it is no fault."""
    run = run_of(tmp_path, REFUND)

    assert run.faults == (
        Fault("Refunds", mode("blamespan:X3"), 7),
        Fault("Refunds", mode("mast:FM-3.1"), 9),
    )
    assert run.origin is not None
    assert (run.origin.decisive, run.origin.carried_by, run.origin.family) == (7, (8,), "desk")
    assert not run.origin.is_verified


def test_twin_begins_as_the_other_and_has_none_of_its_marks(tmp_path: Path) -> None:
    """Each names the other; what they share is the same, and the team and the task are."""
    failed, sound = read(tmp_path, REFUND + TWIN)

    assert isinstance(failed, RecordedRun)
    assert isinstance(sound, RecordedRun)
    assert failed.origin is not None
    assert sound.origin is not None
    assert (failed.origin.twin, sound.origin.twin) == (sound.trace.trace_id, failed.trace.trace_id)
    assert [step.content for step in sound.trace.steps] == [
        *(step.content for step in failed.trace.steps[:7]),
        "I am refunding 60.",
    ]
    assert (sound.faults, sound.trace.task, sound.trace.agents) == ((), failed.trace.task, failed.trace.agents)


def test_role_may_stand_at_the_step(tmp_path: Path) -> None:
    """Who asks or only executes is told wherever its name stands."""
    trace = run_of(tmp_path, "=== a\n--- Ann (user) -> Bot\nHello.\n--- Bot\n2 + 2\n--- Shell (executor)\n4\n").trace

    roles = {agent.name: agent.role for agent in trace.agents}
    assert roles == {"Ann": "user", "Bot": "agent", "Shell": "executor"}
    assert [step.kind for step in trace.steps] == ["message", "message", "tool_result"]


def test_run_without_marks_has_no_label(tmp_path: Path) -> None:
    """Nobody said what went wrong, or that nothing did."""
    run = run_of(tmp_path, "=== a\n--- Ann\nHello.\n")

    assert (run.faults, run.origin, run.trace.outcome) == (None, None, "unknown")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("=== a\noutcome: bad\n--- A\nhi", "t.txt:1: expected the outcome failed, succeeded or unknown, got 'bad'"),
        ("=== a\nwhat: is this\n--- A\nhi", "t.txt:2: expected outcome:, agents:"),
        ("=== a\n--- A [wrong]\nhi", "t.txt:2: expected `--- AGENT`"),
        ("=== a\n--- A [\nhi", "t.txt:2: expected `--- AGENT`"),
        ("=== a\n--- A" + " -> b" * 200_000 + " [carried] c\nhi", "t.txt:2: expected `--- AGENT`"),
        ("=== a\n--- A [mistake mast:FM-9.9]\nhi", "t.txt:2: expected an error mode as taxonomy:code"),
        ("=== a\n--- A gets\nhi", "t.txt:2: expected an answer to a call of 'A', got no call"),
        ("=== a\nbegins as: b, 1 step\n--- A\nhi", "t.txt:1: expected `begins as: NAME, N steps`"),
        ("=== a\noutcome: failed\n", "t.txt:1: expected a run with an agent's step, got none"),
        (
            "=== a\noutcome: failed\n--- A [mistake]\nhi\n--- A [mistake]\nho",
            "t.txt:1: expected one [mistake] in a run that failed and none in one that succeeded, got it at 2 steps",
        ),
        ("=== a\noutcome: succeeded\n--- A [mistake]\nhi", "t.txt:1: expected one [mistake] in a run that failed"),
    ],
)
def test_what_cannot_be_read_is_named_and_the_next_run_is_read(tmp_path: Path, text: str, message: str) -> None:
    """The error says where and what; it costs its own run alone."""
    path = tmp_path / "t.txt"
    path.write_text(f"{text}\n=== next\n--- B\nstill here\n", encoding="utf-8")

    wrong, right = TranscriptImporter().read(path)

    assert isinstance(wrong, UnreadableInput)
    assert str(wrong).startswith(message)
    assert isinstance(right, RecordedRun)
    assert right.trace.steps[0].content == "still here"


def test_name_that_stands_twice_is_named(tmp_path: Path) -> None:
    """Twins name runs, so names are of one run each."""
    _, second = read(tmp_path, "=== a\n--- A\nhi\n=== a\n--- A\nho\n")

    assert str(second) == "runs.txt:4: expected another name for each run, got 'a' twice."


def test_shared_beginnings_do_not_grow_beyond_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short file whose runs share a long beginning is read up to a bound, and then no further."""
    monkeypatch.setattr(transcript, "_MAX_STEPS", 50)
    long = "=== a\n" + "--- A\nhi\n" * 20
    shared = "".join(f"=== a{number}\nbegins as: a, 20 steps\n" for number in range(1_000))

    *runs, last = read(tmp_path, long + shared)

    assert [len(run.trace.steps) for run in runs if isinstance(run, RecordedRun)] == [20, 20]
    assert str(last).startswith("runs.txt:44: expected 50 steps at most")


def test_file_is_told_by_its_first_line(tmp_path: Path) -> None:
    """No other format begins so; comments may stand above."""
    path = tmp_path / "runs.txt"
    path.write_text(REFUND, encoding="utf-8")

    assert [each.name for each in importers() if each.matches(path, path.read_bytes())] == ["transcript"]
    assert [type(run) for run in runs_in([path])] == [RecordedRun]
