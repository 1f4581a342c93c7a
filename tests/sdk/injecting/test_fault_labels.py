"""The labels file: there as soon as the fault is, whole whoever else writes, and complete in the end."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.trace import SpanContext, TraceFlags

from blamespan.errors import ConfigError, UnreadableInput
from blamespan.host_safety import shield_host
from blamespan.injecting.fault_labels import FaultLabels
from blamespan.intercepting.boundaries import Applied, Where
from blamespan.labels.file import LabelsFile, read_labels
from blamespan.labels.people import DecisiveStep, PersonLabel


class Place:
    """A step's index that becomes known."""

    def __init__(self) -> None:
        self.index: int | None = None

    def __call__(self) -> int | None:
        return self.index


def fault(place: Place | None = None, *, after: str = "50", span_id: int = 2) -> Applied:
    span = SpanContext(1, span_id, is_remote=False, trace_flags=TraceFlags(1))
    where = Where(span, place) if place is not None else None
    return Applied("worker", 0, "aegis:FM-3.2", ("mast:FM-3.2",), "response", "slip", "48", after, 0, where)


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_label_is_there_before_its_step_is_known_and_gets_it_later(tmp_path: Path) -> None:
    """A program that is killed loses no label; one that goes on completes it in its place."""
    labels, place = FaultLabels(tmp_path / "labels.jsonl"), Place()

    labels.add(fault(place))
    at_once = read(tmp_path / "labels.jsonl")
    place.index = 12345
    labels.add(fault())

    assert [one["step"] for one in at_once] == [None]
    assert [one["step"] for one in read(tmp_path / "labels.jsonl")] == [12345, None]


def test_label_follows_its_fault_to_another_step(tmp_path: Path) -> None:
    """A wrong call is one only once a tool is called: the label names that span in the end."""
    labels, place, moved = FaultLabels(tmp_path / "labels.jsonl"), Place(), Place()
    applied = fault(place)
    labels.add(applied)
    assert applied.where is not None
    applied.where.move(Where(SpanContext(1, 0xFFFF, is_remote=False), moved))
    moved.index = 3

    labels.settle()

    (label,) = read(tmp_path / "labels.jsonl")
    assert (label["span_id"], label["step"]) == ("000000000000ffff", 3)


def test_file_of_others_is_added_to(tmp_path: Path) -> None:
    """What stands in the file stays, whether or not its last line was ended."""
    path = tmp_path / "labels.jsonl"
    path.write_text('{"before": "us"}', encoding="utf-8")

    FaultLabels(path).add(fault())

    assert [one["before"] for one in read(path)] == ["us", "48"]


def test_several_writers_keep_lines_whole(tmp_path: Path) -> None:
    """Programs that write into one file at the same time overwrite nothing of each other."""
    path = tmp_path / "labels.jsonl"

    def write(number: int) -> None:
        labels = FaultLabels(path)
        for count in range(40):
            place = Place()
            labels.add(fault(place, after=f"{number}:{count}"))
            place.index = count
        labels.settle()

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    assert sorted((one["after"], one["step"]) for one in read(path)) == sorted(
        (f"{number}:{count}", count) for number in range(4) for count in range(40)
    )


def test_file_that_was_replaced_is_not_written_into(tmp_path: Path) -> None:
    """A label is completed where it stands, and nowhere else."""
    path, place = tmp_path / "labels.jsonl", Place()
    labels = FaultLabels(path)
    labels.add(fault(place))
    path.write_text("somebody else's text, which is about as long as a label is\n" * 9, encoding="utf-8")
    place.index = 1

    labels.settle()

    assert path.read_text(encoding="utf-8").startswith("somebody else's text, which is")
    assert "step" not in path.read_text(encoding="utf-8")


def test_disk_that_gets_full_within_a_line_costs_that_label_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of a line is written before the disk is full; the label after it stands in a line of its own."""
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(shield_host, "strict", False)
    path = tmp_path / "labels.jsonl"
    labels, place = FaultLabels(path), Place()
    labels.add(fault())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 50, hard))
    try:
        labels.add(fault(after="lost"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    labels.add(fault(place, after="kept"))
    place.index = 3
    labels.settle()

    first, cut_off, last = path.read_bytes().splitlines()
    assert len(cut_off) == 50
    assert [(one["after"], one["step"]) for one in map(json.loads, (first, last))] == [("50", None), ("kept", 3)]


def test_half_characters_and_line_breaks_stay_in_one_line_of_json(tmp_path: Path) -> None:
    """Whatever an agent says, each label is one line that any reader of JSON takes."""
    FaultLabels(tmp_path / "labels.jsonl").add(fault(after="a\ud800b\nc\u2028d\x00"))

    (label,) = read(tmp_path / "labels.jsonl")
    assert label["after"] == "a\ud800b\nc\u2028d\x00"


def test_unwritable_file_is_refused(tmp_path: Path) -> None:
    """The message names the file."""
    with pytest.raises(ConfigError, match=r"labels must be a file that can be written, got .*nowhere"):
        FaultLabels(tmp_path / "nowhere" / "labels.jsonl")


def test_labels_of_faults_and_of_people_are_one_file(tmp_path: Path) -> None:
    """One reader takes both and says how each is known; a fault of a run that was not recorded is left out by name."""
    path, place = tmp_path / "labels.jsonl", Place()
    faults = FaultLabels(path)
    faults.add(fault(place))
    place.index = 4
    faults.settle()
    FaultLabels(path).add(fault())
    LabelsFile(path).add(PersonLabel("a" * 32, "no_failure", "ada"))
    refused: list[UnreadableInput] = []

    put_in, said = read_labels(path, refused)
    assert (put_in.answer, put_in.by, put_in.source, put_in.outcome) == ("injected", "inject", "injected", None)
    assert put_in.decisive == DecisiveStep("worker", 4, f"{2:016x}", ("mast:FM-3.2",))
    assert (said.by, said.source) == ("ada", "person")
    assert ["the run was not recorded" in str(error) for error in refused] == [True]
