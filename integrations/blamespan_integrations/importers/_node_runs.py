"""A run of a workflow platform, told node by node: models speak, tools are called, and the workflow itself decides.

What a workflow decides (which branch, how many rounds, what it passes to a tool, what it returns) somebody built into
it: these are steps of an agent of their own, the orchestrator, so that they can be blamed like anybody's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from blamespan.conventions import (
    NODE_CASES,
    NODE_ID,
    NODE_INPUTS,
    NODE_OUTPUTS,
    NODE_SOURCES,
    NODE_TYPE,
    TOOL_NAME,
    TRUNCATED,
)
from blamespan.trace import AttributeValue, Usage
from blamespan_integrations.dialects._values import as_text
from blamespan_integrations.importers._conversation import Conversation

ELSE = "else"
"""Name of the case that a branch takes where none of its own holds."""

_ORCHESTRATOR = "workflow"
_MAX_INPUTS = 64
_MAX_FACT_CHARS, _MAX_NAME = 32_768, 80
_MAX_KEYS, _MAX_ITEMS, _MAX_CHARS, _MAX_DEPTH = 64, 16, 300, 4
"""Variables are shown as far as rules look at them: whether they are there, empty, and how they compare."""
_UNSAID = frozenset({"usage", "finish_reason", "reasoning_content", "files"})
"""Outputs of a model beside its answer."""
_ERROR_CLASS = re.compile(r"[A-Za-z_][\w.]{2,79}(?:Error|Exception|Timeout)\b")


@dataclass(frozen=True, slots=True)
class BranchCase:
    """One case of a branch.

    Attributes:
        name: As the platform names it when it is taken.
        logic: `and`, or `or`.
        conditions: Each with `actual`, `operator` and `expected`.
    """

    name: str
    logic: str
    conditions: tuple[Mapping[str, object], ...]


@dataclass(frozen=True, slots=True)
class NodeExecution:
    """One execution of a node.

    Attributes:
        node: The platform's id of the node.
        title: What people call it.
        type: The platform's word for nodes of its kind.
        after: Indices of the steps it builds on.
        inputs: What its input variables held.
        outputs: What its output variables held; None where it did not end.
        sources: For some inputs the step and the output that they read; None for a node that gave nothing.
        error: Why it failed; empty where it did not.
        is_cut: Whether the platform cut what it held.
    """

    node: str
    title: str
    type: str
    after: tuple[int, ...] = ()
    inputs: Mapping[str, object] = field(default_factory=dict)
    outputs: Mapping[str, object] | None = None
    sources: Mapping[str, tuple[int | None, str]] = field(default_factory=dict)
    error: str = ""
    start_ns: int = 0
    end_ns: int = 0
    usage: Usage | None = None
    is_cut: bool = False


class NodeRuns:
    """Adds executions of nodes to a conversation.

    Args:
        source: Where the run stands, for messages.
    """

    def __init__(self, source: str) -> None:
        self.conversation = Conversation(source)
        self._names: dict[str, str] = {}
        self._taken = {_ORCHESTRATOR}
        self._given: set[tuple[str, str]] = set()
        self._texts: dict[int, str] = {}
        self._errors: set[str] = set()

    def name_of(self, node: str, title: str) -> str:
        """Return the name of a node as an agent: its title, with its id where another node has that title."""
        if node not in self._names:
            title = title.strip() or node or "node"
            self._names[node] = f"{title} ({node})" if title in self._taken else title
            self._taken.add(self._names[node])
        return self._names[node]

    def say(self, execution: NodeExecution, text: str, given: str = "") -> int:
        """Add the message of a model or an agent, and what it was given; return the step's index."""
        agent = self.name_of(execution.node, execution.title)
        is_new = (agent, given) not in self._given
        self._given.add((agent, given))
        facts = self._facts(execution) | _outputs(execution)
        return self._add(execution, agent, "message", text or execution.error, facts, given if is_new else "")

    def hear(self, execution: NodeExecution, text: str) -> int:
        """Add what a person answered whom the workflow asked."""
        name = self.name_of(execution.node, execution.title)
        self.conversation.join(name, "user")
        return self._add(execution, name, "message", text, _outputs(execution))

    def call(
        self, execution: NodeExecution, arguments: str, result: str | None, *, agent: str = "", tool: str = ""
    ) -> int:
        """Add the call of a tool and what it answered.

        Args:
            execution: Of the tool.
            arguments: What it was called with.
            result: What it answered; None where it did not end.
            agent: Who called it; empty for the workflow itself.
            tool: Its name, where that is not the node's title.

        Returns:
            The index of the last step added.
        """
        agent = agent or self._orchestrator()
        tool = tool or execution.title or execution.node
        facts = self._facts(execution) | {TOOL_NAME: tool}
        call = self._add(execution, agent, "tool_call", f"{tool}({arguments})", facts, is_call=True)
        if result is None and not execution.error:
            return call
        text = result or execution.error
        index = self.conversation.add(
            agent,
            "tool_result",
            text,
            (call,),
            start_ns=execution.start_ns,
            end_ns=execution.end_ns,
            error=_error_class(execution.error),
            attributes=_outputs(execution),
        )
        self._note(index, text, execution.error)
        return index

    def decide(self, execution: NodeExecution, text: str, cases: Sequence[BranchCase] = (), taken: str = "") -> int:
        """Add a decision that is built into the workflow: a branch, rounds, a variable; return the step's index."""
        facts = self._facts(execution)
        if cases:
            tried = [
                {"name": case.name, "logic": case.logic, "conditions": [dict(each) for each in case.conditions]}
                for case in cases[:_MAX_ITEMS]
            ]
            facts[NODE_CASES] = _fact({"cases": tried, "taken": taken})
        return self._add(execution, self._orchestrator(), "plan", f"{execution.title}: {text}", facts)

    def tell(self, execution: NodeExecution, text: str) -> int:
        """Add what a node gave of whose kind nothing is known, or why it failed; return the step's index."""
        facts = self._facts(execution) | _outputs(execution)
        said = f"{execution.title}: {text or execution.error}"
        return self._add(execution, self._orchestrator(), "message", said, facts)

    def return_answer(self, execution: NodeExecution, text: str) -> int | None:
        """Add what the workflow returns; None where that is, word by word, what a step it builds on said."""
        if text and not execution.error and any(self._texts.get(index) == text for index in execution.after):
            return None
        facts = self._facts(execution) | _outputs(execution)
        said = text or execution.error or f"{execution.title}: {as_text(execution.outputs or {})}"
        return self._add(execution, self._orchestrator(), "message", said, facts)

    def fail(self, error: str, after: tuple[int, ...] = ()) -> None:
        """Say that the run failed, and why, where no node has said that."""
        self.conversation.outcome = "failed"
        if error and not any(error in said or said in error for said in self._errors):
            index = self.conversation.add(
                self._orchestrator(), "termination", error, after, error=_error_class(error), attributes={NODE_TYPE: ""}
            )
            self._note(index, error, error)

    @property
    def last(self) -> tuple[int, ...]:
        """The index of the last step, in a tuple; empty before the first one."""
        n_steps = len(self.conversation)
        return (n_steps - 1,) if n_steps else ()

    def _orchestrator(self) -> str:
        self.conversation.join(_ORCHESTRATOR)
        return _ORCHESTRATOR

    def _add(
        self,
        execution: NodeExecution,
        agent: str,
        kind: Any,
        text: str,
        facts: Mapping[str, AttributeValue],
        given: str = "",
        *,
        is_call: bool = False,
    ) -> int:
        error = "" if is_call else execution.error
        index = self.conversation.add(
            agent,
            kind,
            text,
            tuple(sorted(set(execution.after)))[-_MAX_INPUTS:],
            usage=execution.usage,
            start_ns=execution.start_ns,
            end_ns=execution.end_ns,
            error=_error_class(error),
            attributes=facts,
            input_text=given,
        )
        self._note(index, text, error)
        return index

    def _note(self, index: int, text: str, error: str) -> None:
        if not self.conversation.is_full:
            self._texts[index] = text
        if error:
            self._errors.add(error)

    def _facts(self, execution: NodeExecution) -> dict[str, AttributeValue]:
        facts: dict[str, AttributeValue] = {NODE_TYPE: execution.type}
        if execution.node:
            facts[NODE_ID] = execution.node
        if execution.inputs:
            facts[NODE_INPUTS] = _fact(execution.inputs)
        if execution.sources:
            sources = {name: {"step": step, "key": key} for name, (step, key) in execution.sources.items()}
            facts[NODE_SOURCES] = _fact(sources)
        if execution.is_cut:
            facts[TRUNCATED] = (NODE_INPUTS, NODE_OUTPUTS)
        return facts


def _outputs(execution: NodeExecution) -> dict[str, AttributeValue]:
    if execution.outputs is None:
        return {}
    facts: dict[str, AttributeValue] = {NODE_OUTPUTS: _fact(execution.outputs)}
    return facts | ({TRUNCATED: (NODE_OUTPUTS,)} if execution.is_cut else {})


def text_of_outputs(outputs: Mapping[str, object]) -> str:
    """Write a node's outputs: the text of the one that is not empty, or JSON of those that are not."""
    rest = {
        name: value
        for name, value in outputs.items()
        if name not in _UNSAID and not name.startswith("__") and value not in (None, "", [], {})
    }
    if len(rest) == 1:
        (value,) = rest.values()
        return as_text(value)
    return as_text(rest) if rest else ""


def as_object(value: object) -> dict[str, Any]:
    """Return *value* if it is a JSON object, else an empty one."""
    return dict(value) if isinstance(value, Mapping) else {}


def _shown(value: object, depth: int = 0) -> object:
    """Cut long texts, lists and objects: whether a value is there, and how it begins, stays."""
    if isinstance(value, str):
        return value[:_MAX_CHARS]
    if isinstance(value, Mapping):
        if depth > _MAX_DEPTH:
            return "{...}"
        return {str(key)[:_MAX_CHARS]: _shown(each, depth + 1) for key, each in islice(value.items(), _MAX_KEYS)}
    if isinstance(value, list | tuple):
        return "[...]" if depth > _MAX_DEPTH else [_shown(each, depth + 1) for each in value[:_MAX_ITEMS]]
    return value


def _fact(value: Mapping[str, object]) -> str:
    """Write a fact of a node; of one that is long all the same, the names and whether something is there."""
    text = _json(_shown(value))
    if len(text) <= _MAX_FACT_CHARS:
        return text
    return _json({name[:_MAX_CHARS]: _brief(each) for name, each in islice(value.items(), _MAX_KEYS)})


def _brief(value: object) -> object:
    if isinstance(value, Mapping):
        return "{...}" if value else {}
    if isinstance(value, list | tuple):
        return "[...]" if value else []
    return value[:_MAX_NAME] if isinstance(value, str) else value


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _error_class(error: str) -> str | None:
    if not error:
        return None
    named = _ERROR_CLASS.search(error[:400])
    return named[0] if named else "node_error"
