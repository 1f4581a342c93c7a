"""What can be named to be analyzed, and the pieces it comes in: each once, each on its own, no trouble an end."""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from blamespan.analysis.sources import Piece, pieces, spooling
from blamespan.errors import ConfigError, UnreadableInput
from blamespan.importing.recorded import RecordedRun
from blamespan.importing.selection import Selection, time_of
from blamespan.otlp import spans_to_json
from blamespan.rebuilding.emit import emit
from blamespan.trace import Agent, MessageActionTrace, Step

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_NS = 1_767_268_800 * 1_000_000_000


def line(number: int, *, start_ns: int = NOON_NS, outcome: str = "unknown") -> str:
    """Write a run as a line of OTLP-JSON."""
    trace = MessageActionTrace(
        trace_id=f"{number:032x}",
        task="a task",
        steps=(
            Step(0, f"{number:016x}", "writer", content="words", start_ns=start_ns, end_ns=start_ns + bool(start_ns)),
        ),
        agents=(Agent("writer"),),
        outcome=outcome,  # type: ignore[arg-type]
        resource={"service.name": f"team-{number}", "debug": True},
    )
    return spans_to_json(emit(trace))


def write(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{text}\n" for text in lines))
    return path


def numbers_in(found: Sequence[Piece]) -> list[int]:
    """Give which runs the pieces hold, each piece read as another process would."""
    items = [item for piece in found for item in pickle.loads(pickle.dumps(piece)).read()]
    return [int(item.trace.trace_id, 16) for item in items if isinstance(item, RecordedRun)]


def errors_in(found: Sequence[Piece]) -> list[str]:
    return [str(item) for piece in found for item in piece.read() if isinstance(item, UnreadableInput)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files, some of which are no exports, in folders; the working directory."""
    write(tmp_path / "a" / "two.jsonl", line(2))
    write(tmp_path / "a" / "b" / "one.json", line(1))
    write(tmp_path / "a" / "notes.md", "not an export")
    write(tmp_path / "a" / ".hidden.jsonl", line(9))
    write(tmp_path / "c" / "three.jsonl", line(3))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_files_folders_and_patterns_come_once_each_in_order(folder: Path) -> None:
    """Sources come as they are named, a folder's files sorted, and what is named twice once."""
    found = list(pieces(["c/three.jsonl", "a", "**/*.jsonl", str(folder / "a" / "two.jsonl")]))

    assert [piece.name for piece in found] == [
        "c/three.jsonl",
        "a/b/one.json",
        "a/two.jsonl",
        str(folder / "a" / "two.jsonl"),
    ]
    assert numbers_in(found) == [3, 1, 2, 2]
    assert found[0].size == (folder / "c" / "three.jsonl").stat().st_size


def test_file_url_and_odd_names_are_files(folder: Path) -> None:
    """A name that looks like a pattern or holds a colon is the file of that name, where there is one."""
    write(folder / "runs[1].jsonl", line(5))
    write(folder / "2026-01-01T12:00.jsonl", line(6))

    assert numbers_in(list(pieces(["runs[1].jsonl", "2026-01-01T12:00.jsonl", f"file://{folder}/c/*.jsonl"]))) == [
        5,
        6,
        3,
    ]


def test_what_cannot_be_found_is_an_error_in_its_place(folder: Path) -> None:
    """A missing file, an empty pattern and a file of no known format stand between the others."""
    found = list(pieces(["no.jsonl", "c", "x/*.jsonl", "a/notes.md", "bad\0name", "a/b"]))

    assert numbers_in(found) == [3, 1]
    said = errors_in(found)
    assert "got 'no.jsonl': no such file, and no" in said[0]
    assert "got 'x/*.jsonl': no such file, and no" in said[1]
    assert said[2].startswith("a/notes.md: ")
    assert len(said) == 4


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_folder_that_may_not_be_read_is_an_error(folder: Path) -> None:
    """A folder without permission is named, and the next one is read."""
    (folder / "a" / "b").chmod(0)
    try:
        found = list(pieces(["a", "c"]))
        assert numbers_in(found) == [2, 3]
        assert len(errors_in(found)) == 1
    finally:
        (folder / "a" / "b").chmod(0o755)


def test_links_among_folders_have_an_end(folder: Path) -> None:
    """A folder that holds itself by a link is walked once."""
    (folder / "a" / "again").symlink_to(folder / "a")

    assert numbers_in(list(pieces(["a"]))) == [1, 2]


def test_forced_format_reads_as_it_is_told(folder: Path) -> None:
    """A format that is forced is not told from the content; one that nobody offers is refused at once."""
    assert "AEGIS" in errors_in(list(pieces(["c"], format_name="aegis")))[0]
    with pytest.raises(ConfigError, match="nonsense"):
        pieces(["c"], format_name="nonsense")


def test_standard_input_is_told_by_its_content(monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` is a file like any other, and its runs and troubles are called by its name."""
    text = f"{line(1)}\n{{broken\n{line(2)}\n".encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    (piece,) = found = list(pieces(["-"]))

    assert numbers_in(found) == [1, 2]
    assert [item.source.partition(":")[0] for item in piece.read() if isinstance(item, RecordedRun)] == ["stdin"] * 2
    assert errors_in(found)[0].startswith("stdin:2: ")
    assert (piece.name, piece.size) == ("stdin", len(text))


def test_standard_input_is_gone_when_its_process_ends(tmp_path: Path) -> None:
    """What was spooled lies in TMPDIR while it is read, and not after."""
    program = (
        "from blamespan.analysis.sources import pieces\n"
        "import os\n"
        "p, = pieces(['-'])\n"
        "print(sum(1 for _ in p.read()), len(os.listdir(os.environ['TMPDIR'])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=f"{line(1)}\n",
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )

    assert done.stdout.split() == ["1", "1"]
    assert list(tmp_path.iterdir()) == []


def test_endless_input_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """More than the bound is named, and leaves nothing on the disk."""
    monkeypatch.setattr(spooling, "MAX_SPOOLED_BYTES", 1_000)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x" * 5_000_000)))

    assert "expected at most 1000 bytes, got more" in errors_in(list(pieces(["-"])))[0]
    assert list(tmp_path.iterdir()) == []


def test_named_pipe_is_read_once(folder: Path) -> None:
    """What a shell gives for `<(command)` can be detected and read."""
    os.mkfifo(folder / "pipe")
    writer = threading.Thread(target=lambda: (folder / "pipe").write_text(f"{line(4)}\n"))
    writer.start()
    found = list(pieces(["pipe"]))
    writer.join()

    assert numbers_in(found) == [4]
    assert [piece.name for piece in found] == ["pipe"]


def test_range_of_time_keeps_what_began_within_it(tmp_path: Path) -> None:
    """A run counts by when it began, from the first moment to before the last; one without a clock is kept."""
    hour = 3_600_000_000_000
    path = write(
        tmp_path / "runs.jsonl", *(line(n, start_ns=NOON_NS + n * hour) for n in range(1, 5)), line(9, start_ns=0)
    )
    within = Selection(since=NOON + timedelta(hours=2), until=NOON + timedelta(hours=4))

    assert numbers_in(list(pieces([str(path)], selection=within))) == [2, 3, 9]


@pytest.mark.parametrize(
    ("filters", "numbers"),
    [
        ({"service.name": "team-2"}, [2]),
        ({"outcome": "failed"}, [3]),
        ({"agent": "writer"}, [1, 2, 3]),
        ({"agent": "writer", "outcome": "failed"}, [3]),
        ({"trace_id": f"{1:032x}"}, [1]),
        ({"debug": "true"}, [1, 2, 3]),
        ({"no.such": "thing"}, []),
    ],
)
def test_filters_are_kept_of_any_file(tmp_path: Path, filters: dict[str, str], numbers: list[int]) -> None:
    """All of the filters must hold: of the run, its process, or one of its steps."""
    path = write(tmp_path / "runs.jsonl", line(1), line(2), line(3, outcome="failed"))

    assert numbers_in(list(pieces([str(path)], selection=Selection(filters=filters)))) == numbers


def test_limit_ends_each_piece(tmp_path: Path) -> None:
    """A piece gives no more than the limit."""
    path = write(tmp_path / "runs.jsonl", *(line(number) for number in range(1, 6)))

    assert numbers_in(list(pieces([str(path)], selection=Selection(limit=2)))) == [1, 2]


def test_impossible_selections_are_refused() -> None:
    """A range that ends before it begins, and a limit of nothing, are mistakes."""
    with pytest.raises(ConfigError, match="ends after it begins"):
        Selection(since=NOON, until=NOON)
    with pytest.raises(ConfigError, match="limit of 1 or more"):
        Selection(limit=0)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2026-01-01", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-01-01T12:00:00Z", NOON),
        ("2026-01-01T13:00:00+01:00", NOON),
        ("36h", NOON - timedelta(hours=36)),
        ("2w", NOON - timedelta(weeks=2)),
    ],
)
def test_times_are_read_as_people_write_them(text: str, meant: datetime) -> None:
    """ISO 8601, in UTC where it names no zone, or so long ago."""
    assert time_of(text, NOON) == meant


@pytest.mark.parametrize("text", ["", "yesterday", "7", "999999w", "2026-13-01"])
def test_other_times_are_refused(text: str) -> None:
    """What is no time is told how to write one."""
    with pytest.raises(ConfigError, match="expected a time"):
        time_of(text, NOON)


def test_reading_a_piece_raises_nothing(tmp_path: Path) -> None:
    """A file that is gone, cut, or changed since it was found is an error in its place."""
    path = write(tmp_path / "runs.jsonl", line(1))
    (gone,) = pieces([str(path)])
    path.unlink()

    assert len(errors_in([gone])) == 1


def test_pieces_hold_no_secret(tmp_path: Path) -> None:
    """What is printed of a piece is its name and its size."""
    path = write(tmp_path / "runs.jsonl", json.dumps({}))
    (piece,) = pieces([str(path)])

    assert repr(piece) == f"Piece(name={str(path)!r}, size=3)"
