"""Faults on purpose, in a program that runs: `with blamespan.inject("aegis:FM-3.2", agent="reviewer"):`.

Two sides meet here and know nothing of each other. *Hooks* (of the integrations, by `load_part`) stand at
the boundaries of a framework and offer what passes there; *faults* (group `blamespan.faults`) write it anew.
Hooks are in place only while an injection is active, and stand inside the recording: spans show the faulty text
as the agent's own and say nothing of its origin. What was done is in `Injection.applied` and the labels file.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Literal, Self, cast
from weakref import WeakKeyDictionary

from blamespan.errors import ConfigError
from blamespan.forking import renewed_after_fork
from blamespan.injecting.fault_labels import FaultLabels
from blamespan.intercepting.boundaries import (
    Answer,
    Applied,
    Content,
    ContentT,
    Interceptor,
    Mechanism,
    Missed,
    Opportunity,
    PlannedFault,
    RunScope,
    Said,
    Where,
)
from blamespan.intercepting.listeners import active, listen, stop_listening
from blamespan.plugins import load_part
from blamespan.strict_tables import read_toml, refuse_unknown_keys

PLAN_VARIABLE = "BLAMESPAN_INJECT"
"""Names a TOML file: what is injected into a program that is not to be touched."""


def inject(
    *faults: str | PlannedFault,
    agent: str | None = None,
    step: int | None = None,
    tool: str | None = None,
    probability: float | None = None,
    mechanism: Mechanism | None = None,
    operator: str | None = None,
    writer: Literal["operators", "model"] = "operators",
    seed: int = 0,
    labels: str | os.PathLike[str] | None = None,
    everywhere: bool = False,
) -> Injection:
    """Plan faults for the AutoGen and LangGraph runs within a `with` block.

    The block holds for what is called in it, and for the tasks and LangGraph's threads that this starts; blocks
    within each other all hold, the outer first. A thread of the program's own does not see it, nor does a team
    on a runtime that was started before the block: *everywhere* reaches those.

    Args:
        faults: Kinds of faults by name, to which the other arguments apply, or whole plans of their own.
        agent: As `PlannedFault`, like those up to *writer*.
        step: Likewise.
        tool: Likewise.
        probability: Likewise.
        mechanism: Likewise.
        operator: Likewise.
        writer: Likewise.
        seed: Same seed, same program: same faults.
        labels: A JSON-lines file to which a line is added for each fault, when it is written.
        everywhere: Whether it holds for the whole process.

    Raises:
        ConfigError: if a kind, mechanism, operator or number is not one; the nearest is named.
        MissingExtra: if no framework that could be injected into is installed.
    """
    if not faults:
        raise ConfigError("expected at least one fault, got none. Name one like inject('aegis:FM-3.2')")
    address = PlannedFault("", agent, step, tool, probability, mechanism, operator, writer)
    planned = [replace(address, kind=fault) if isinstance(fault, str) else fault for fault in faults]
    return Injection(planned, seed=seed, labels=labels, everywhere=everywhere)


class Injection:
    """Faults planned, and what became of them. Made by `inject`; enter it once.

    Attributes:
        applied: The faults written so far.
        is_blocking: Whether writing may wait for an endpoint.
        is_patient: True: what of a stream has been shown cannot be taken back.
        is_guard: False.
        loose: Stands for the run of what happens outside every team and graph.
    """

    def __init__(
        self,
        faults: Sequence[PlannedFault],
        *,
        seed: int = 0,
        labels: str | os.PathLike[str] | None = None,
        everywhere: bool = False,
    ) -> None:
        make = _writers()
        self._faults = [(_check_fault(fault), make(fault)) for fault in faults]
        self._seed = seed
        self._labels_path = Path(labels) if labels is not None else None
        self._labels: FaultLabels | None = None
        self._everywhere = everywhere
        self._written: WeakKeyDictionary[RunScope, Counter[int]] = WeakKeyDictionary()
        self._seen: list[Counter[str]] = [Counter() for _ in self._faults]
        self._renew_lock()
        renewed_after_fork(self, Injection._renew_lock)
        self._is_open = False
        self.applied: list[Applied] = []
        self.is_blocking = any(hasattr(interceptor, "trouble") for _, interceptor in self._faults)
        self.is_patient = True
        self.is_guard = False
        self.loose = RunScope()

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        if self._labels_path is not None:
            self._labels = FaultLabels(self._labels_path)
        listen(self, everywhere=self._everywhere)
        self._is_open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it: complete the labels and give the frameworks back, unless other injections go on."""
        if not self._is_open:
            return
        self._is_open = False
        stop_listening(self, everywhere=self._everywhere)
        if self._labels is not None:
            with self._lock:
                self._labels.settle()

    @property
    def missed(self) -> list[Missed]:
        """List the faults that were not written so far, and why."""
        return [
            Missed(fault.kind, _why(fault, interceptor, self._seen[number]))
            for number, (fault, interceptor) in enumerate(self._faults)
            if not self._seen[number]["written"]
        ]

    def change(self, at: Opportunity, content: ContentT, where: Callable[[], Where | None]) -> ContentT:
        """Let every fault that is planned for this place write itself into *content*.

        Args:
            at: The place.
            content: What passes there.
            where: Finds the span of the step; called only if a fault was written.
        """
        if not self._is_open:  # a task that outlives its block
            return content
        for number, (fault, interceptor) in enumerate(self._faults):
            if interceptor.mechanism == at.mechanism and self._is_due(number, fault, interceptor, at, content):
                content = self._change(number, interceptor, at, content, where)
        return content

    def _is_due(
        self, number: int, fault: PlannedFault, interceptor: Interceptor, at: Opportunity, content: Content
    ) -> bool:
        count = self._seen[number]
        count[f"agent {at.agent!r}"] += 1
        if at.tool:
            count[f"tool {at.tool!r}"] += 1
        if not _is_addressed(fault, at, content):
            return False
        if fault.probability is not None:
            return self._rng(number, at, "chance").random() < fault.probability
        with self._lock:
            counts = self._written.setdefault(at.run, Counter())
            if counts[number] >= interceptor.times:
                return False
            counts[number] += 1  # at once: branches may come here side by side
        return True

    def _change(
        self,
        number: int,
        interceptor: Interceptor,
        at: Opportunity,
        content: ContentT,
        where: Callable[[], Where | None],
    ) -> ContentT:
        change = interceptor.change(at, content, self._rng(number, at, "words"))
        is_counted = self._faults[number][0].probability is None
        with self._lock:
            if change is None:
                self._seen[number]["tried"] += not (isinstance(content, Answer) and content.is_due)
                self._written.setdefault(at.run, Counter())[number] -= is_counted
                return content
            self._written.setdefault(at.run, Counter())[number] += not is_counted
            self._seen[number]["written"] += 1
            parts = (interceptor.kind, change.modes or interceptor.modes, interceptor.mechanism, change.operator)
            texts = (change.before, change.after, self._seed)
            applied = Applied(at.agent, at.decision, *parts, *texts, where())
            self.applied.append(applied)
            if self._labels is not None:
                self._labels.add(applied)
        return content if self.is_spared(number, applied) else cast(ContentT, change.content)

    def foretell(self, at: Opportunity) -> Said | None:
        """Answer in place of a model, which is then not asked: none is; a replay answers from what was recorded.

        Args:
            at: The place.
        """
        del at
        return None

    def end_call(self, at: Opportunity) -> None:
        """Hear that a model has answered: nothing is to be done.

        Args:
            at: The place.
        """
        del at

    def is_spared(self, number: int, applied: Applied) -> bool:
        """Check whether a fault counts as written but leaves things as they are: none does; a replay spares one.

        Args:
            number: Which of the planned faults it is.
            applied: It, as it would have been.
        """
        del number, applied
        return False

    def _rng(self, number: int, at: Opportunity, purpose: str) -> Random:
        """Make the chance of one decision: of nothing that another one could shift."""
        parts: tuple[object, ...] = (
            self._seed,
            number,
            purpose,
            at.mechanism,
            at.agent,
            at.own_decision,
            at.tool,
            at.arguments,
        )
        parts = (*parts, at.attempt) if at.attempt else parts
        digest = hashlib.blake2b("\x1f".join(map(str, parts)).encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return Random(int.from_bytes(digest))  # noqa: S311 - reproducible on purpose


@cache
def _writers() -> Callable[[PlannedFault], Interceptor]:
    """Return what writes faults; loaded once."""
    return cast(Callable[[PlannedFault], Interceptor], load_part("fault_interceptor"))


def inject_from_environment() -> Injection | None:
    """Inject for the rest of the process what the file named by `BLAMESPAN_INJECT` plans, if there is one.

    A second call changes nothing. Each label is written with its fault; its step is filled in as soon as it is known.

    Raises:
        ConfigError: if the file cannot be read or is no plan.
    """
    path = os.environ.get(PLAN_VARIABLE, "").strip()
    if not path or any(isinstance(listener, _FromFile) for listener in active()):
        return None
    injection = _FromFile.read(Path(path))
    injection.__enter__()
    atexit.register(injection.close)
    return injection


class _FromFile(Injection):
    """An injection that a file plans."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the plan; raises ConfigError where it is none."""
        plan = read_toml(path, f"the plan of {PLAN_VARIABLE}", "Unset it or mend the file")
        refuse_unknown_keys(plan, ("seed", "labels", "fault"), str(path))
        rows, seed, labels = plan.get("fault"), plan.get("seed", 0), plan.get("labels")
        if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
            raise ConfigError(f"expected at least one [[fault]] table in {str(path)!r}, got {rows!r}. Write one")
        if type(seed) is not int or not isinstance(labels, str | None):
            raise ConfigError(f"expected seed = a whole number and labels = a path in {str(path)!r}, got {plan!r}")
        return cls([_read_planned(row, str(path)) for row in rows], seed=seed, labels=labels, everywhere=True)


def _read_planned(row: Mapping[str, Any], path: str) -> PlannedFault:
    refuse_unknown_keys(row, [field.name for field in fields(PlannedFault)], path)
    if not isinstance(row.get("kind"), str):
        raise ConfigError(f"expected kind = 'aegis:FM-3.2' or another name in each [[fault]] of {path!r}, got {row!r}")
    return PlannedFault(**row)


def _check_fault(fault: PlannedFault) -> PlannedFault:
    """Refuse what can never be meant; kinds, mechanisms and operators are the catalogue's to check."""
    if fault.step is not None and (type(fault.step) is not int or fault.step < 0):
        raise ConfigError(f"step must be a whole number from 0, got {fault.step!r}. It counts the run's answers")
    chance = fault.probability
    if chance is not None and (isinstance(chance, bool) or not isinstance(chance, int | float) or not 0 <= chance <= 1):
        raise ConfigError(f"probability must be a number from 0 to 1, got {chance!r}. Leave it out to inject once")
    for name in ("agent", "tool", "operator", "mechanism"):
        if not isinstance(getattr(fault, name), str | None):
            raise ConfigError(f"{name} must be a name, got {getattr(fault, name)!r}. Leave it out to take any")
    return fault


def _is_addressed(fault: PlannedFault, at: Opportunity, content: Content) -> bool:
    if fault.agent is not None and fault.agent not in (at.agent, at.alias):
        return False
    if fault.step is not None and at.decision < fault.step:
        return False
    if fault.tool is None:
        return True
    return fault.tool == at.tool or (isinstance(content, Said) and fault.tool in {call.name for call in content.calls})


def _why(fault: PlannedFault, interceptor: Interceptor, opportunities: Counter[str]) -> str:
    if trouble := getattr(interceptor, "trouble", ""):
        return f"the endpoint gave nothing to write: {trouble}"
    if tried := opportunities["tried"]:
        return f"none of its operators could be written at {tried} of the places it was planned for"
    reached = ", ".join(sorted(opportunities)) or "none at all"
    if not opportunities:
        return (
            f"no {interceptor.mechanism} boundary was reached: nothing of a known framework ran, or no model was asked"
        )
    wanted = {"agent": fault.agent, "tool": fault.tool, "step": fault.step, "probability": fault.probability}
    named = ", ".join(f"{key}={value!r}" for key, value in wanted.items() if value is not None)
    return f"never reached {named or 'its place'}; reached at {interceptor.mechanism} boundaries: {reached}"
