"""Damaged bytes in the files that wait on disk."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

_LONGEST_ZEROS = 200_000


def damageable(journal: Path) -> dict[str, list[Path]]:
    """List the files of a collector's folder that hold what was acknowledged, by kind; empty ones are left out."""
    segments = sorted((journal / "segments").glob("*"))
    files = {
        "log": [path for path in segments if path.suffix == ".log"],
        "mark": [path for path in segments if path.suffix == ".mark"],
        "state": [journal / "state.db"],
        "state's log": [journal / "state.db-wal"],
    }
    files = {kind: [path for path in paths if path.exists() and path.stat().st_size] for kind, paths in files.items()}
    return {kind: paths for kind, paths in files.items() if paths}


def damage_file(path: Path, kind: str, random: Random) -> str:
    """Flip bits of a file, cut its end off, or zero a range of it; returns what was done to which kind of file."""
    what = random.choice(("flip", "flip", "cut", "zero"))
    size_bytes = path.stat().st_size
    with path.open("r+b", buffering=0) as file:
        if what == "cut":
            file.truncate(random.randrange(size_bytes))
        elif what == "zero":
            at = random.randrange(size_bytes)
            length = random.choice((1, 16, 512, 4_096, _LONGEST_ZEROS))
            os.pwrite(file.fileno(), bytes(min(length, size_bytes - at)), at)
        else:
            for _ in range(random.choice((1, 1, 5))):
                at = random.randrange(size_bytes)
                (byte,) = os.pread(file.fileno(), 1, at)
                os.pwrite(file.fileno(), bytes([byte ^ 1 << random.randrange(8)]), at)
    return f"{what} {kind}"
