"""How many cores there are, and how many threads processes of ours compute with."""

from __future__ import annotations

import os

_NUMPYS_THREADS = "OPENBLAS_NUM_THREADS"
THREADS = (_NUMPYS_THREADS, "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
"""What says how many threads NumPy, PyTorch and Arrow compute with; all cores where nothing does, in every process."""


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def keep_to_one_thread() -> None:
    """Have NumPy compute with one thread in this process and those it starts, unless told otherwise or loaded already.

    On the small matrices of a tracer more threads cost twice the time of the cores, and sums are rounded otherwise.
    Only for processes that are ours: in a user's program it is the user's word.
    """
    if not _is_told():
        os.environ[_NUMPYS_THREADS] = "1"


def shared_among(workers: int) -> dict[str, str]:
    """Make the environment of so many workers: unless told how many, they share the cores, and NumPy has a thread."""
    if _is_told():
        return dict(os.environ)
    share = str(max(1, cores() // workers))
    return {**os.environ, **dict.fromkeys(THREADS, share), _NUMPYS_THREADS: "1"}


def _is_told() -> bool:
    """Check whether the user says how many threads compute: more than NumPy's keeping to one, which may be ours."""
    return any(name in os.environ for name in THREADS[1:]) or os.environ.get(_NUMPYS_THREADS, "1") != "1"
