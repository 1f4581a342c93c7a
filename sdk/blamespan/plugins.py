"""Entry points: how the four packages meet without importing each other."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Any

from blamespan.errors import ConfigError, MissingExtra

__all__ = ["load_entry", "load_plugin", "missing_extra", "plugins", "require"]

_EXTRA_OF_PACKAGE = {
    "autogen_agentchat": "autogen",
    "autogen_core": "autogen",
    "grpc": "collector",
    "httpx": "collector",
    "jinja2": "collector",
    "langchain_core": "langgraph",
    "langgraph": "langgraph",
    "markupsafe": "collector",
    "array_api_compat": "model",
    "numpy": "model",
    "re2": "model",
    "safetensors": "model",
    "starlette": "collector",
    "torch": "train",
    "uvicorn": "collector",
}
"""Which extra brings a package that an entry point may fail to import."""


def plugins(group: str) -> dict[str, EntryPoint]:
    """List the entry points of *group* by name, ours before a third party's of the same name."""
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        ours = entry.value.startswith("blamespan")
        if entry.name not in found or ours:
            found[entry.name] = entry
    return dict(sorted(found.items()))


def load_plugin(group: str, name: str) -> Any:
    """Load the object behind entry point *name* of *group*.

    Raises:
        ConfigError: if nobody offers it.
        MissingExtra: if importing it needs a package that is not installed.
    """
    offered = plugins(group)
    if name not in offered:
        raise ConfigError(f"{group} offers {', '.join(offered) or 'nothing'}; got {name!r}. Is its package installed?")
    return load_entry(offered[name])


def load_entry(entry: EntryPoint) -> Any:
    """Load *entry*, turning a missing package into the `pip install` that brings it.

    Raises:
        MissingExtra: if importing it needs a package that is not installed.
    """
    try:
        return entry.load()
    except ModuleNotFoundError as error:
        missing = missing_extra(error, repr(entry.name))
        if missing is None:
            raise
        raise missing from error


def missing_extra(error: ModuleNotFoundError, who: str) -> MissingExtra | None:
    """Turn a failed import into the `pip install` that mends it; None where no extra of ours would.

    Args:
        error: What the import raised.
        who: What needs the package, for the message.
    """
    package = (error.name or "").partition(".")[0]
    return _missing(package, _EXTRA_OF_PACKAGE[package], who) if package in _EXTRA_OF_PACKAGE else None


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
