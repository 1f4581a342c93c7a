"""Writes one planned fault: its kind's operators, one after another, until one can; or a model behind an endpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from random import Random
from typing import cast

from blamespan.errors import ConfigError
from blamespan.intercepting.boundaries import (
    Answer,
    Change,
    Content,
    Interceptor,
    Line,
    Mail,
    Mechanism,
    Opportunity,
    PlannedFault,
    Said,
)
from blamespan.plugins import missing_extra
from blamespan_lab.make.faults.catalogue import FaultKind, fault_kind
from blamespan_lab.make.faults.operators.calls import CALL_OPERATORS
from blamespan_lab.make.faults.operators.prompts import MEMORY_OPERATORS, PROMPT_OPERATORS
from blamespan_lab.make.faults.operators.results import FAILING_OPERATORS, RESULT_OPERATORS
from blamespan_lab.make.faults.operators.routing import ROUTING_OPERATORS
from blamespan_lab.make.faults.operators.text import TEXT_OPERATORS, Utterance, apply_operator
from blamespan_lab.make.faults.visible_modes import find_visible_modes

_OPERATORS: Mapping[Mechanism, frozenset[str]] = {
    "prompt": frozenset(PROMPT_OPERATORS),
    "memory": frozenset(MEMORY_OPERATORS),
    "response": frozenset({*TEXT_OPERATORS, *CALL_OPERATORS}),
    "tool": frozenset(RESULT_OPERATORS),
    "routing": frozenset(ROUTING_OPERATORS),
}
"""Operators by where they work."""


def interceptor(fault: PlannedFault) -> Interceptor:
    """Make what writes *fault*. The part `fault_interceptor` of `blamespan`.

    Raises:
        ConfigError: if its kind, mechanism, operator or writer is not one; the nearest is named.
        MissingExtra: if a model is to write and httpx is not installed.
    """
    kind = fault_kind(fault.kind)
    mechanism = fault.mechanism if fault.mechanism is not None else kind.mechanisms[0]
    if mechanism not in kind.mechanisms:
        raise _unknown(f"mechanism of {kind.name}", mechanism, kind.mechanisms)
    if fault.writer == "model":
        try:  # it needs httpx, which operators do without
            from blamespan_lab.make.faults.manipulator import ModelInterceptor
        except ModuleNotFoundError as error:
            raise missing_extra(error, "writer='model'") or error from error
        return ModelInterceptor.from_environment(kind, mechanism)
    if fault.writer != "operators":
        raise _unknown("writer", fault.writer, ("operators", "model"))
    names = kind.writers[mechanism]
    if fault.operator is not None:
        if fault.operator not in _OPERATORS[mechanism]:
            raise _unknown(f"operator at {mechanism} boundaries", fault.operator, sorted(_OPERATORS[mechanism]))
        names = (fault.operator,)
    return OperatorInterceptor(kind, mechanism, names)


class OperatorInterceptor:
    """Writes one kind of fault by operators.

    Args:
        kind: Which.
        mechanism: Where.
        names: The operators, any of which will do.
    """

    def __init__(self, kind: FaultKind, mechanism: Mechanism, names: tuple[str, ...]) -> None:
        self.kind = kind.name
        self.modes = tuple(map(str, kind.modes))
        self.mechanism = mechanism
        self.times = kind.times
        self._kind = kind
        self._names = names

    def change(self, at: Opportunity, content: Content, rng: Random) -> Change | None:
        """Take the operators in an order that *rng* draws until one can be written.

        Of a tool's answer that is still due, only a failure can be written, and only where it is its turn: else None,
        and the others have theirs once the tool has answered.
        """
        for name in rng.sample(self._names, k=len(self._names)):
            if isinstance(content, Answer) and content.is_due != (name in FAILING_OPERATORS):
                if content.is_due and (at.earlier or name != "tool-stale"):  # else nothing is there to be stale
                    return None
                continue
            changed = _change(name, at, content, rng)
            if changed is not None and changed != content:
                before, after = _write_both(content, changed)
                if before != after:  # else nothing but an empty message is lost
                    shown = find_visible_modes(name, self._kind.modes, at, before, after)
                    return Change(changed, name, before, after, tuple(map(str, shown)))
        return None


def make_utterance(at: Opportunity, text: str) -> Utterance:
    """Collect what an operator on texts may know."""
    return Utterance(text, task=at.task, received=at.heard, sent=at.said, others=at.others)


def _change(name: str, at: Opportunity, content: Content, rng: Random) -> Content | None:
    if isinstance(content, Said):
        if name in CALL_OPERATORS:
            return CALL_OPERATORS[name](content, at.tools, rng)
        return _rewrite(name, at, content, rng)
    if isinstance(content, Answer):
        return RESULT_OPERATORS[name](content, at.earlier, rng)
    if isinstance(content, Mail):
        return ROUTING_OPERATORS[name](content, at, rng)
    operators = MEMORY_OPERATORS if at.mechanism == "memory" else PROMPT_OPERATORS
    return operators[name](content, make_utterance(at, ""), rng)


def _rewrite(name: str, at: Opportunity, message: Said, rng: Random) -> Said | None:
    """Rewrite what is said; an answer that only calls tools says nothing yet."""
    if not message.text.strip():
        return None
    text = apply_operator(TEXT_OPERATORS[name], make_utterance(at, message.text), rng)
    return replace(message, text=text) if text is not None else None


def _write_both(before: Content, after: Content) -> tuple[str, str]:
    """Write down both as text, and of a conversation only what differs."""
    if isinstance(before, tuple):
        assert isinstance(after, tuple)  # an operator gives back what it was given
        return _lines(before, after), _lines(after, before)
    return _text(before), _text(cast("Said | Answer | Mail", after))


def _lines(these: tuple[Line, ...], those: tuple[Line, ...]) -> str:
    return "\n".join(line.text for line in these if line not in those)


def _text(content: Said | Answer | Mail) -> str:
    if isinstance(content, Said):
        if not content.calls:
            return content.text
        return json.dumps(
            {
                "text": content.text,
                "calls": [{"name": call.name, "arguments": call.arguments} for call in content.calls],
            },
            ensure_ascii=False,
        )
    if isinstance(content, Answer):
        return f"{content.error}: {content.text}" if content.error else content.text
    way = {"receivers": content.receivers, "following": content.following, "copies": content.copies}
    return json.dumps(way, ensure_ascii=False)


def _unknown(what: str, got: object, names: tuple[str, ...] | list[str]) -> ConfigError:
    near = get_close_matches(str(got), names, n=1, cutoff=0.0)[0]
    return ConfigError(f"expected a {what} ({', '.join(names)}), got {got!r}. Nearest known: {near!r}")
