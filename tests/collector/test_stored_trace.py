"""`blamespan show ID`: stored traces are found by their ids and drawn with the verdict they went out with."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from blamespan.analysis.showing.command import show
from blamespan.errors import ConfigError, UnreadableInput
from blamespan.pipeline import attribute_traces
from blamespan_collector.store import StoreMismatch, StoreUnavailable
from blamespan_collector.stored_trace import stored_trace
from tests.collector.paging import LastStepsTracer, annotated, stored
from tests.sdk.talks import talk

FIRST, SECOND = f"{0x4BF92F3577B34DA6:032x}", f"{0xABCD << 100:032x}"


@pytest.fixture(autouse=True)
def in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine's store is the one of the test."""
    monkeypatch.setenv("BLAMESPAN_STORE", str(tmp_path / "runs.db"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with two runs."""
    found = tmp_path / "runs.db"
    for one in (FIRST, SECOND):
        [spans] = annotated(talk(1))
        stored(found, [replace(span, trace_id=one) for span in spans])
    return found


def shown(*arguments: object) -> str:
    result = CliRunner().invoke(show, [str(one) for one in arguments], catch_exceptions=False)
    return result.stdout


@pytest.mark.parametrize("said", [SECOND, SECOND.upper(), SECOND[:4]])
def test_stored_run_is_drawn_with_its_own_verdict(path: Path, said: str) -> None:
    """By all of its id or the first digits; who went out as blamed is blamed, without asking a tracer."""
    picture = shown(said)

    assert f"{SECOND} in runs.db" in picture
    assert "most to blame: reviewer at step 2, 0.57 of the blame, for Incorrect verification" in picture
    assert "by last-steps 1" in picture
    assert "   >2     ◆  reviewer  ████████ 0.57  ← 1  1.0 s  1,200 → 30 tokens" in picture


def test_suspects_of_a_stored_sound_run_are_named_to_who_asks(tmp_path: Path) -> None:
    """Its spans accuse nobody; who would be to blame is read back from the shares on them."""
    [spans] = annotated(talk(1, outcome="succeeded"))
    stored(tmp_path / "runs.db", spans)
    plain = shown(f"{1:032x}")
    asked = shown(f"{1:032x}", "--suspects")

    assert "no sign of failure: --suspects names" in plain
    assert "most to blame" not in plain
    assert "most to blame: reviewer at step 2, 0.57 of the blame\nnext suspects: step 1 solver 0.29" in asked


def test_leading_zeros_may_be_left_out(path: Path) -> None:
    """Jaeger writes ids of 64 bits without them."""
    assert f"{FIRST} in runs.db" in shown(FIRST.lstrip("0"))


def test_another_tracer_can_be_asked(path: Path) -> None:
    """`--tracer` speaks in place of the stored verdict."""
    picture = shown(FIRST, "--tracer", "checks")

    assert "by checks" in picture
    assert "last-steps" not in picture


def test_unknown_id_names_the_nearest(path: Path) -> None:
    """A mistyped id is answered with those most like it; one that several begin with, with these."""
    stored(path, *annotated(talk(2)))
    with pytest.raises(UnreadableInput) as unknown:
        stored_trace(SECOND.replace("abcd", "abdc"), path)
    with pytest.raises(ConfigError) as several:
        stored_trace("0000", path)

    assert f"the nearest are\n  {SECOND[:12]}  2" in str(unknown.value)
    assert "It may have been let go, or be still under way" in str(unknown.value)
    assert "expected one stored run, got 2 that '0000' may mean:\n  000000000000  2" in str(several.value)


def test_empty_store_says_so(tmp_path: Path) -> None:
    """Where nothing is stored there is nothing near."""
    stored(tmp_path / "runs.db")

    with pytest.raises(UnreadableInput, match=r"got 'abcd': no such file, and no run in '.*runs\.db': a run is stored"):
        stored_trace("abcd", tmp_path / "runs.db")


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    """A run of which the own span has not come says so above its steps, as does a verdict that came later."""
    [spans] = annotated(talk(1))
    [attributed] = attribute_traces([spans], LastStepsTracer(), revision=2)
    stored(tmp_path / "runs.db", spans[1:], attributed.beside(is_complete=True))
    picture = shown(spans[0].trace_id)

    assert "partial: the run had not ended when it was judged, or its own span has not come\n" in picture
    assert "spans that others lie below and that have not come: 1\n" in picture
    assert "judged again with what came later (revision 2): reviewer at step 2" in picture


def test_several_runs_of_a_trace_are_listed(tmp_path: Path) -> None:
    """A trace with two runs lists them; one is chosen as in a file."""
    first, second = annotated(talk(1), talk(2, task="Count the lamps."))
    stored(tmp_path / "runs.db", [*first, *(replace(span, trace_id=first[0].trace_id) for span in second)])
    listed = CliRunner().invoke(show, [first[0].trace_id])

    assert str(listed.exception) == "expected one run, got 2. Choose one with --run NUMBER"
    assert "    2  " in listed.stdout
    assert "task: Count the lamps." in shown(first[0].trace_id, "--run", 2)


def test_trace_without_agents_is_refused(tmp_path: Path) -> None:
    """Spans of other programs are no run."""
    [spans] = annotated(talk(1))
    stored(tmp_path / "runs.db", [replace(spans[0], name="GET /", attributes={})])

    with pytest.raises(UnreadableInput, match=rf"expected a run of agents, got trace {spans[0].trace_id}: 1 spans"):
        stored_trace(spans[0].trace_id, tmp_path / "runs.db")


def test_store_that_cannot_be_read_is_said(tmp_path: Path, path: Path) -> None:
    """None there, or one of another version: the command to run is named."""
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")

    with pytest.raises(StoreUnavailable, match="Start blamespan collect --store"):
        stored_trace(FIRST, tmp_path / "none.db")
    with pytest.raises(StoreMismatch, match=r"a newer blamespan wrote it\. Upgrade with: pip install"):
        stored_trace(FIRST, path)


@pytest.mark.parametrize("said", ["runs.jsonl", "abc", "x" * 32, "1" * 33, "What is 12 * 4", "Wha"])
def test_what_names_no_stored_run_is_an_error(path: Path, said: str) -> None:
    """What is looked for and where is named; less than four characters are no beginning."""
    with pytest.raises(
        UnreadableInput, match=rf"got '{re.escape(said)}': no such file, and no such run in '.*runs\.db'"
    ):
        shown(said)
