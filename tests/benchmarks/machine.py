"""What a figure was measured on, printed beside it."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from importlib.metadata import distributions

import psutil


def describe() -> dict[str, object]:
    """Say which machine, system and Python this is.

    Returns:
        `cores` this process may use, `memory_gib`, `system`, `python`, and `load`: how many programs wanted a core
        over the last minute, these figures' own among them.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cores": cores,
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load": round(psutil.getloadavg()[0], 1),
    }


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Give the installed version of each of *packages*; those not installed are left out."""
    installed = {distribution.name: distribution.version for distribution in distributions()}
    return {package: installed[package] for package in packages if package in installed}
