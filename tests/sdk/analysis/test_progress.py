"""The bar moves while one file is read, in this process and in others, and ends where the sizes do."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import Progress

from blamespan.analysis.engines import worker
from blamespan.analysis.engines.local import LocalEngine, tracer_for_others
from blamespan.analysis.outcomes import Finished, Wanted
from blamespan.analysis.progress import Watched
from blamespan.analysis.sources import Piece, pieces
from blamespan.importing.reading import watched_reading
from tests.sdk.analysis.archives import archive
from tests.sdk.fixed_tracer import LongestStepTracer

TRACER = LongestStepTracer()


def bar(found: list[Piece]) -> tuple[Watched, Progress]:
    progress = Progress(console=Console(file=io.StringIO()), auto_refresh=False)
    task = progress.add_task("", total=sum(piece.size or 0 for piece in found), runs=0)
    return Watched(progress, task, found), progress


def test_bar_moves_within_a_file(tmp_path: Path) -> None:
    """What was read counts before the file is finished, never beyond its size; other files do not count."""
    found = list(pieces([str(archive(tmp_path / "a", [range(1, 3), range(3, 9)]))]))
    watched, progress = bar(found)
    first, second = (piece.size or 0 for piece in found)
    seen = []

    for path, size in [(found[1].path, 100), (found[0].path, first + 9), (Path("labels.jsonl"), 7)]:
        assert path is not None
        watched.has_read(path, size)
        seen.append(progress.tasks[0].completed)
    for piece in found:
        watched.saw(Finished(piece))
        seen.append(progress.tasks[0].completed)

    assert seen == [100, 100 + first, 100 + first, 100 + first, first + second]


@pytest.mark.parametrize("processes", [1, 2])
def test_engine_tells_how_far_a_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int) -> None:
    """Also where another process reads it: before the file is finished the bar has moved."""
    monkeypatch.setattr(worker, "_NOTE_EVERY_S", 0.0)
    found = list(pieces([str(archive(tmp_path / "a", [range(1, 30), range(30, 60)]))]))
    watched, progress = bar(found)
    at_the_first: list[float] = []

    with watched_reading(watched.has_read):
        for outcome in LocalEngine(TRACER, tracer_for_others(TRACER), processes).outcomes(found, Wanted()):
            if not at_the_first:
                at_the_first.append(progress.tasks[0].completed)
            watched.saw(outcome)

    assert at_the_first[0] >= (found[0].size or 0) > 0
    assert progress.tasks[0].completed == sum(piece.size or 0 for piece in found)
