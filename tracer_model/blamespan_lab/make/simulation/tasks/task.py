"""A task: a question whose answer can be checked, what there is to know on the way, and tools that really work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from blamespan_lab.make.simulation.statements.facts import (
    DerivationRule,
    FactKind,
    FactValue,
    Lookup,
    TaskFact,
    evaluate,
    is_same,
)
from blamespan_lab.make.simulation.statements.reading import TaskLexicon
from blamespan_lab.make.simulation.statements.writing import end_sentence, lay_out, write_fact, write_rule
from blamespan_lab.make.wordings import choose


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that the agents of a task may use.

    Attributes:
        name: Unique in its task.
        description: One sentence for the model.
        parameters: What each argument means, by its name; all are texts.
        function: Does it; what it raises is the tool's error.
    """

    name: str
    description: str
    parameters: Mapping[str, str]
    function: Callable[..., str]


@dataclass(frozen=True)
class Task:
    """A task.

    Attributes:
        family: Which of `FAMILIES` it comes from.
        question: What the team is asked.
        lexicon: What things are called: all that a policy knows from the start.
        implied: Rules that need not be said: common sense.
        tools: What the agents may call.
        truth: What is really so. Only tools and `check` look at it, never a policy.
        rules: Every rule by which the answer follows.
        measure: What the answer is picked by, where it is one of several.
    """

    family: str
    question: str
    lexicon: TaskLexicon
    implied: tuple[DerivationRule, ...]
    tools: tuple[Tool, ...]
    truth: Mapping[str, FactValue]
    rules: tuple[DerivationRule, ...]
    measure: str = ""

    def read_answer(self, text: str) -> FactValue | None:
        """Read the answer that *text* gives, or None; the last statement counts."""
        answer: FactValue | None = None
        for statement in self.lexicon.read(text).statements:
            if statement.key == self.lexicon.target:
                answer = None if statement.is_denied else statement.value
        return answer

    def check(self, final_text: str) -> bool:
        """Return whether the answer that *final_text* gives is right."""
        answer = self.read_answer(final_text)
        return answer is not None and is_same(answer, self.truth[self.lexicon.target])

    @property
    def sources(self) -> frozenset[str]:
        """List the keys of what does not follow from anything: given in the question or found with a tool."""
        return frozenset(self.lexicon.facts) - {rule.out for rule in self.rules}


@dataclass
class Builder:
    """Puts a task together, fact by fact.

    Attributes:
        family: The task's.
        rng: Draws everything.
    """

    family: str
    rng: Random
    facts: dict[str, TaskFact] = field(default_factory=dict)
    truth: dict[str, FactValue] = field(default_factory=dict)
    rules: list[DerivationRule] = field(default_factory=list)
    implied: list[DerivationRule] = field(default_factory=list)
    measure: str = ""
    _given_keys: list[str] = field(default_factory=list)

    def add_given(
        self, key: str, phrase: str, value: FactValue, unit: str = "", kind: FactKind = "amount", **more: object
    ) -> str:
        """Add a fact that the question states, and return its key."""
        self._add(TaskFact(key, phrase, kind, unit, **more), value)  # type: ignore[arg-type]  # fields of Fact
        self._given_keys.append(key)
        return key

    def add_lookup(
        self,
        key: str,
        phrase: str,
        value: FactValue,
        lookup: Lookup,
        unit: str = "",
        kind: FactKind = "amount",
        **more: object,
    ) -> str:
        """Add a fact that a tool gives, and return its key."""
        self._add(TaskFact(key, phrase, kind, unit, lookup=lookup, **more), value)  # type: ignore[arg-type]  # fields of Fact
        return key

    def add_derived(
        self,
        key: str,
        phrase: str,
        operation: str,
        inputs: Sequence[str],
        unit: str = "",
        kind: FactKind = "amount",
        *,
        is_implied: bool = False,
        **more: object,
    ) -> str:
        """Add a fact that follows from *inputs*, and return its key."""
        rule = DerivationRule(key, operation, tuple(inputs))
        self.facts[key] = TaskFact(key, phrase, kind, unit, **more)  # type: ignore[arg-type]  # fields of Fact
        value = evaluate(rule, self.truth, self.facts)
        assert value is not None, f"{key} does not follow from {inputs}"
        self._add(self.facts[key], value)
        (self.implied if is_implied else self.rules).append(rule)
        return key

    def task(self, target: str, opening: str, request: str, tools: Sequence[Tool] = ()) -> Task:
        """Finish: the question states what is given and the rules, and asks for *target*."""
        lexicon = TaskLexicon(
            dict(self.facts),
            target,
            {rule.out: rule.inputs for rule in self.rules if rule.operation in ("lowest", "highest")},
        )
        return Task(
            family=self.family,
            question=self._question(opening, request),
            lexicon=lexicon,
            implied=tuple(self.implied),
            tools=tuple(tools),
            truth=dict(self.truth),
            rules=(*self.rules, *self.implied),
            measure=self.measure,
        )

    def _add(self, fact: TaskFact, value: FactValue) -> None:
        self.facts[fact.key] = fact
        self.truth[fact.key] = value

    def _question(self, opening: str, request: str) -> str:
        stated = [
            write_fact(self.facts[key], self.truth[key], self.rng, is_impersonal=True) for key in self._given_keys
        ]
        ruled = [write_rule(rule, self.facts, self.measure, self.rng) for rule in self.rules]
        if self.rng.random() < 0.3:
            self.rng.shuffle(stated)
        parts = [
            choose([opening], self.rng),
            lay_out(stated, self.rng),
            lay_out(ruled, self.rng, joins=False),
            choose([request], self.rng),
        ]
        return ("\n" if self.rng.random() < 0.5 else " ").join(end_sentence(part) for part in parts if part)
