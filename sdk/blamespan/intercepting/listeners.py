"""Who hears of what passes at the boundaries of a framework: injections, which write faults, and guards, which decide.

Hooks (of the integrations, by `load_part`) offer what passes to every listener that holds there, faults first: a guard
sees what an agent says as everybody else sees it. Hooks are in place only while somebody listens.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Protocol, cast

from blamespan.errors import MissingExtra
from blamespan.forking import renewed_after_fork
from blamespan.intercepting.boundaries import ContentT, Hooks, Opportunity, RunScope, Said, Where
from blamespan.plugins import load_part

_PARTS = ("agent_framework_hooks", "autogen_hooks", "langgraph_hooks")


class Listener(Protocol):
    """Hears what passes at every boundary, and may put something else in its place.

    Attributes:
        is_guard: Whether it also hears what happens within a model that is asked.
        loose: Stands for the run of what happens outside every team and graph.
    """

    is_guard: bool
    loose: RunScope

    @property
    def is_blocking(self) -> bool:
        """Whether it may wait for something outside: it is then asked off the event loop."""
        ...

    @property
    def is_patient(self) -> bool:
        """Whether it needs a whole answer before anybody sees the first piece of a stream."""
        ...

    def foretell(self, at: Opportunity) -> Said | None:
        """Answer in place of a model, which is then not asked; None to have it asked.

        Raises:
            MustWait: if that cannot be said while other models are being asked.
        """
        ...

    def change(self, at: Opportunity, content: ContentT, where: Callable[[], Where | None]) -> ContentT:
        """Return what stands in place of *content*; *where* finds the span of the step."""
        ...

    def end_call(self, at: Opportunity) -> None:
        """Hear that the model that `foretell` let be asked has answered, or failed."""
        ...


class _Installed:
    """Keeps the hooks in place while anybody listens."""

    def __init__(self) -> None:
        self._open: set[Listener] = set()
        self._hooks: list[Hooks] = []
        self._lock = threading.Lock()
        renewed_after_fork(self, _Installed._renew)

    def _renew(self) -> None:
        """Begin with a free lock in a forked child, and without hooks that another thread was putting or taking."""
        self._lock = threading.Lock()
        self._remove_unused()

    def add(self, listener: Listener) -> None:
        with self._lock:
            if not self._open:
                self._install()
            self._open.add(listener)

    def discard(self, listener: Listener) -> None:
        with self._lock:
            self._open.discard(listener)
            self._remove_unused()

    def _remove_unused(self) -> None:
        while not self._open and self._hooks:
            self._hooks[-1].remove()
            self._hooks.pop()

    def _install(self) -> None:
        missing: list[MissingExtra] = []
        for name in _PARTS:
            try:
                hooks = cast(Hooks, load_part(name)())
            except MissingExtra as error:
                missing.append(error)
                continue
            self._hooks.append(hooks)
            hooks.install()
        if not self._hooks:
            raise MissingExtra(
                "injection and guard need a framework to stand in, got none installed. Install one with: "
                "pip install 'blamespan[autogen]', pip install 'blamespan[langgraph]' or "
                "pip install 'blamespan[agent-framework]'"
            ) from (missing[0] if missing else None)


installed = _Installed()
"""The hooks of this process."""

_everywhere: list[Listener] = []
_here: ContextVar[tuple[Listener, ...]] = ContextVar("blamespan-listeners", default=())


def active() -> tuple[Listener, ...]:
    """List the listeners that hold here: faults first, the outermost first among each."""
    if not _everywhere:
        return _here.get()
    listeners = (*_everywhere, *_here.get())
    return tuple(sorted(listeners, key=lambda listener: listener.is_guard)) if len(listeners) > 1 else listeners


def listen(listener: Listener, *, everywhere: bool) -> None:
    """Have *listener* hear what passes from now on.

    Args:
        listener: Who.
        everywhere: In the whole process; else in this context and in the tasks that it starts.

    Raises:
        MissingExtra: if no framework is installed.
    """
    installed.add(listener)
    if everywhere:
        _everywhere.append(listener)
    else:
        _here.set((*_here.get(), listener))


def stop_listening(listener: Listener, *, everywhere: bool) -> None:
    """Have *listener* hear nothing any more; give the frameworks back unless others listen."""
    if everywhere:
        _everywhere.remove(listener)
    else:
        # not by the token: blocks of one context need not end in the order in which they began
        _here.set(tuple(other for other in _here.get() if other is not listener))
    installed.discard(listener)
