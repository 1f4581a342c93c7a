"""How the packages meet without importing each other: entry points, and parts of our own.

What a third party may offer, too, is an entry point. What only a package of ours offers stands in `PARTS`.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache, lru_cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Any

from blamespan.errors import BlamespanError, ConfigError, MissingExtra

PARTS = {
    "agent_framework_hooks": "blamespan_integrations.interception.agent_framework:AgentFrameworkHooks",
    "autogen_hooks": "blamespan_integrations.interception.autogen:AutoGenHooks",
    "apply_checks": "blamespan_tracer.checks.in_use:apply_checks_in_use",
    "default_store": "blamespan_collector.local_runs:default_store",
    "embedded_processor": "blamespan_collector.embedded:embedded_processor",
    "fault_interceptor": "blamespan_lab.make.faults.interceptor:interceptor",
    "find_stored": "blamespan_collector.stored_trace:find_stored",
    "framework_instrumentors": "blamespan_integrations.frameworks:instrumentors_of_installed",
    "follow_answer": "blamespan_tracer.ledger.provenance:follow_answer",
    "instruction_conflicts": "blamespan_tracer.instructions.conflicts:find_conflicts",
    "learn": "blamespan_lab.learn.teaching:learn",
    "judge_head": "blamespan_tracer.alternatives.llm_judge.combination:Combination.load",
    "judge_options": "blamespan_tracer.command_options:JUDGE_OPTIONS",
    "known_failures": "blamespan_tracer.schemata.in_use:known_failures",
    "langgraph_hooks": "blamespan_integrations.interception.langgraph:LangGraphHooks",
    "note_run": "blamespan_tracer.run_notes:note_run",
    "outcome_head": "blamespan_tracer.outcome_head:OutcomeHead.load",
    "print_advice": "blamespan_lab.rerun.feedback.command:print_advice",
    "run_watcher": "blamespan_tracer.run_watcher:RunWatcher",
    "replay": "blamespan_lab.rerun.fix.replaying:replay",
    "retry": "blamespan_lab.rerun.feedback.retrying:retry",
    "step_head": "blamespan_tracer.step_head:StepHead.load",
    "usual_courses": "blamespan_tracer.checks.usual_course:UsualCourses.load",
    "store_importer": "blamespan_collector.judged_runs:StoreImporter",
    "store_folder": "blamespan_collector.local_runs:store_folder",
    "stored_runs": "blamespan_collector.judged_runs:judged_runs",
    "stored_trace": "blamespan_collector.stored_trace:stored_trace",
    "write_report": "blamespan_collector.page.report:write_report",
}
"""Where the parts are that `blamespan` takes from a package that imports it, by name."""
_PACKAGES_OF_EXTRA = {
    "agent-framework": ("agent_framework",),
    "alerts": ("apprise",),
    "autogen": ("autogen_agentchat", "autogen_core"),
    "langgraph": ("langchain_core", "langgraph"),
    "collector": (
        *(
            "google.rpc",
            "grpc",
            "h11",
            "httpx",
            "markdown_it",
            "opentelemetry.exporter.otlp.proto.grpc",
        ),
        *("orjson", "platformdirs", "prometheus_client", "starlette", "uvicorn"),
    ),
    "demo": ("autogen_ext",),
    "importers": ("ormsgpack", "pyarrow", "zstandard"),
    "learn": ("pydantic", "scipy", "sklearn"),
    "llm": ("accelerate", "datasets", "peft", "tokenizers", "transformers", "trl"),
    "mcp": ("mcp",),
    "model": ("numpy", "re2", "safetensors"),
    "ray": ("ray",),
    "remote": ("fsspec",),
    "train": ("lightgbm", "torch"),
}
"""Which packages that we import an extra brings; `tests/sdk/test_package.py` holds it complete."""
_EXTRA_OF_PACKAGE = {package: extra for extra, packages in _PACKAGES_OF_EXTRA.items() for package in packages}


def plugins(group: str) -> dict[str, EntryPoint]:
    """List the entry points of *group* by name, ours before a third party's of the same name."""
    found: dict[str, EntryPoint] = {}
    for entry in _list_installed(_search_path()).get(group, ()):
        ours = entry.value.startswith("blamespan")
        if entry.name not in found or ours:
            found[entry.name] = entry
    return dict(sorted(found.items()))


def find_entry(group: str, name: str, ours: Sequence[str] = ()) -> EntryPoint:
    """Find the entry point *name* of *group*.

    Args:
        group: Of the entry points.
        name: Of one of them.
        ours: Further names for the message, which the caller loads by itself.

    Raises:
        ConfigError: if nobody offers it.
    """
    offered = plugins(group)
    if name not in offered:
        names = sorted([*offered, *ours])
        near = get_close_matches(name, names, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else "Is its package installed?"
        raise ConfigError(f"{group} offers {', '.join(names) or 'nothing'}; got {name!r}. {hint}")
    return offered[name]


def load_plugin(group: str, name: str, ours: Sequence[str] = ()) -> Any:
    """Load the object behind the entry point that `find_entry` finds.

    Raises:
        ConfigError: if nobody offers it, or it cannot be imported.
        MissingExtra: if importing it needs a package of an extra of ours that is not installed.
    """
    return load_entry(find_entry(group, name, ours))


def load_part(name: str) -> Any:
    """Load the part *name* of `PARTS`, which may need an extra.

    Raises:
        MissingExtra: if importing it needs a package that is not installed.
    """
    return _load(EntryPoint(name, PARTS[name], "parts"))


@cache
def find_part(name: str, logger: logging.Logger, absence: str) -> Any:
    """Load a part as `load_part` does; None where it cannot be loaded, which *logger* is told once, in one line.

    That an extra is missing is no trouble; what else importing it raises is a warning.

    Args:
        name: Of the part.
        logger: Of who would use it.
        absence: What is not done without it: "known failures are not looked for".
    """
    try:
        return load_part(name)
    except Exception as error:  # a damaged package raises anything, and costs only what it offers
        level = logging.INFO if isinstance(error, MissingExtra) else logging.WARNING
        logger.log(level, "%s: %s: %s", absence, type(error).__name__, " ".join(str(error).split()))
        return None


def load_entry(entry: EntryPoint) -> Any:
    """Load *entry*; what importing it raises becomes a sentence that says whose mistake it is, and what to do.

    Raises:
        ConfigError: if it cannot be imported.
        MissingExtra: if importing it needs a package of an extra of ours that is not installed.
    """
    try:
        return _load(entry)
    except MissingExtra:
        raise
    except Exception as error:  # a third party's module raises anything
        raise broken_entry(entry, error) from error


def broken_entry(entry: EntryPoint, reason: Exception | str) -> ConfigError:
    """Make the error that names a faulty entry point and its package, and what to do about it.

    Args:
        entry: Whose object cannot be loaded, or is not what its group asks for.
        reason: What was raised, or what was expected and what came.
    """
    if isinstance(reason, Exception):
        kind = "" if isinstance(reason, BlamespanError) else f"{type(reason).__name__}: "
        reason = f"{kind}{' '.join(str(reason).split())}"
    package = "a package" if entry.dist is None else f"the package {entry.dist.name!r}"
    cure = "Mend that package, or uninstall it"
    if entry.value.startswith("blamespan"):
        cure = "Install that package again, with what it needs"
    elif entry.dist is not None:
        cure += f" with: pip uninstall {entry.dist.name}"
    return ConfigError(
        f"the entry point {entry.name!r} of {entry.group}, which is {entry.value!r} of {package}, "
        f"cannot be used: {reason.rstrip('.')}. {cure}"
    )


def _load(entry: EntryPoint) -> Any:
    """Load *entry*, turning a missing package into the `pip install` that brings it."""
    try:
        return entry.load()
    except ModuleNotFoundError as error:
        missing = missing_extra(error, repr(entry.name))
        if missing is None:
            raise
        raise missing from error


@lru_cache(maxsize=1)
def _list_installed(search_path: tuple[object, ...]) -> dict[str, tuple[EntryPoint, ...]]:
    """Read the metadata of every installed package: 20 ms and more, so only when the path to search is another."""
    del search_path
    installed = entry_points()
    return {group: tuple(installed.select(group=group)) for group in installed.groups}


def _search_path() -> tuple[object, ...]:
    """Return where packages are looked up, and when each folder last changed: installing one changes its folder."""
    return tuple((path, _changed_ns(path)) for path in sys.path), tuple(map(id, sys.meta_path))


def _changed_ns(path: str) -> int:
    try:
        return os.stat(path or ".").st_mtime_ns  # noqa: PTH116  # an entry of sys.path, "" is the folder we are in
    except (OSError, ValueError):
        return 0


def missing_extra(error: ModuleNotFoundError, who: str) -> MissingExtra | None:
    """Turn a failed import into the `pip install` that mends it; None where no extra of ours would.

    Args:
        error: What the import raised.
        who: What needs the package, for the message.
    """
    levels = (error.name or "").split(".")
    names = [".".join(levels[:count]) for count in range(len(levels), 0, -1)]
    package = next((name for name in names if name in _EXTRA_OF_PACKAGE), None)
    return None if package is None else _missing(package, _EXTRA_OF_PACKAGE[package], who)


def require(package: str, extra: str) -> None:
    """Make sure that *package* is installed, without importing it.

    Raises:
        MissingExtra: if it is not; the message names the extra that brings it.
    """
    if find_spec(package) is None:
        raise _missing(package, extra, "this command")


def _missing(package: str, extra: str, who: str) -> MissingExtra:
    return MissingExtra(
        f"{who} needs the package {package!r}, which is not installed. "
        f"Install it with: pip install 'blamespan[{extra}]'"
    )
