"""What a tracer is, and how to get one by name.

A package offers tracers as entry points in the group `blamespan.tracers`; each entry is a callable
that takes no argument, loads what it needs and returns a `Tracer`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from blamespan.attribution import Attribution, TracerIdentity, check_verdict
from blamespan.errors import BlamespanError, MalformedVerdict
from blamespan.plugins import broken_entry, find_entry, load_entry, load_part, load_plugin
from blamespan.trace import MessageActionTrace

if TYPE_CHECKING:
    import click

_log = logging.getLogger(__name__)

_GROUP = "blamespan.tracers"
DEFAULT_TRACER = "auto"
"""The tracer used where none is named."""


@runtime_checkable
class Tracer(Protocol):
    """Attributes runs. Deterministic: the same traces give the same verdicts, whatever shares the batch."""

    @property
    def identity(self) -> TracerIdentity:
        """Name, version and weights digest."""
        ...

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        """Attribute each run; one verdict per trace, in order. Abstains rather than guesses or raises."""
        ...


@runtime_checkable
class AskingTracer(Tracer, Protocol):
    """A tracer that asks others, at length, where another one is unsure: nothing live waits for it.

    The other's verdicts go out at once. What this one says comes as a later verdict on runs that it wants to ask about.
    """

    @property
    def first(self) -> Tracer | None:
        """Whose verdicts come first; None where it judges alone."""
        ...

    def wants(self, trace: MessageActionTrace, verdict: Attribution) -> bool:
        """Check whether it would ask about a run, given the first verdict; without asking."""
        ...


def split_tracer(tracer: Tracer) -> tuple[Tracer, AskingTracer | None]:
    """Return whose verdicts go out at once, and who gives later ones, if anybody does."""
    if isinstance(tracer, AskingTracer) and tracer.first is not None:
        return tracer.first, tracer
    return tracer, None


def load_tracer(name: str = DEFAULT_TRACER) -> Tracer:
    """Load the tracer installed under *name*.

    Raises:
        ConfigError: if no installed package offers it, or what it offers breaks.
        MissingExtra: if its packages are not installed.
        TracerUnavailable: if its weights cannot be loaded.
    """
    entry = find_entry(_GROUP, name)
    make = load_entry(entry)
    try:
        made = make()
    except BlamespanError:
        raise
    except Exception as error:  # a third party's tracer raises anything
        raise broken_entry(entry, error) from error
    if not isinstance(made, Tracer):
        raise broken_entry(entry, f"expected a tracer, with identity and attribute(), got {type(made).__name__!r}")
    return made


def load_maker(name: str) -> Callable[[], Tracer]:
    """Load what makes the tracer installed under *name*, without making it.

    Raises:
        ConfigError: if no installed package offers it.
        MissingExtra: if its packages are not installed.
    """
    return cast("Callable[[], Tracer]", load_plugin(_GROUP, name))


def ask_tracer(tracer: Tracer, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
    """Return a tracer's verdicts, one per trace, in order, each as `check_verdict` returns it.

    Raises:
        MalformedVerdict: if an answer is no verdict on its run, or one is missing.
    """
    verdicts = list(tracer.attribute(traces))
    if len(verdicts) != len(traces):
        raise MalformedVerdict(f"expected {len(traces)} verdicts, got {len(verdicts)}. Return one for each run")
    return [check_verdict(verdict, trace) for verdict, trace in zip(verdicts, traces, strict=True)]


def settings_of(tracer: Tracer) -> dict[str, Any]:
    """Return what beside its identity decides a tracer's verdicts, such as its alarm: its `settings`, where it has any.

    Results under other settings are other results: they are not gone on with, nor are processes that differ in them
    put to one analysis.

    Returns:
        Plain values as JSON has them, by name.
    """
    settings = getattr(tracer, "settings", None)
    return dict(settings) if isinstance(settings, Mapping) else {}


def tracer_options() -> list[click.Parameter]:
    """List the flags of the tracer `judge`: each sets a variable.

    A tracer that cannot offer its own, as it is broken or lacks a package, is named on the log and costs no command.
    """
    try:
        return list(load_part("judge_options"))
    except (BlamespanError, ImportError, AttributeError) as error:
        _log.warning("flags of the tracer 'judge' are left out: %s", error)
        return []
