"""Simulated agents that can be asked again: when an answer is repaired, and when it is only repeated.

The rule. An agent that is asked again repeats what it has answered, fault and all, unless it is told truthfully what is
wrong and where. It is told truthfully if what the guard quotes as wrong stands in the answer given and not in the other
answer that the agent could give, and what the guard quotes as right, if it does, stands in that one. Two things can be
true of an answer as a whole: "it repeats what was said before", if it does and the other one does not, and "it breaks
off", if the other one goes on where it ends. Of several reasons one is enough that is so.

The other answer is the one without the fault: what the model said before the fault was written into it, or what it
would have said to the prompt before that was changed. Where neither differs (the error is somebody else's, and the
agent has passed it on) it is what the agent says that looks at its sources. Where the guard tells the agent, word for
word, what the task, a tool or another agent has said in this run, it is what the agent says that has heard that, too. A
hint that quotes nothing, or quotes what is sound or what nobody has said, repairs nothing.
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import cast

from blamespan.injecting.injection import Injection
from blamespan.intercepting.boundaries import (
    Answer,
    ContentT,
    Opportunity,
    PlannedFault,
    RunScope,
    Said,
    ToolCall,
    Where,
)
from blamespan_lab.make.simulation.agents.agent import AgentProfile, DecisionContext
from blamespan_lab.make.simulation.agents.policy import InputMessage, Reply, RequestedCall, ToolSpec
from blamespan_lab.make.simulation.agents.protocols import decide
from blamespan_lab.make.simulation.simulated_run import SimulatedPolicy
from blamespan_tracer.checks.messages import cut_sign_off

_WARNING = "The guard says of "
_OPENING, _ALSO = "Your last answer is not passed on: ", ". Also: "
BLIND = "Look at your last answer again."
_FROM_GUARD = (_OPENING, BLIND, _WARNING)
_QUOTED = r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_SAYS = re.compile(rf"it says {_QUOTED} where .{{0,40}}? says {_QUOTED}")
_TELLS = re.compile(rf"(?:the task says|a tool answered|\S.{{0,60}}? said) {_QUOTED}: {_QUOTED}$")
_SUPPORTS = re.compile(rf"nothing in the run supports {_QUOTED}")
_LAST_QUOTE = re.compile(rf": {_QUOTED}$")
_SPACE = re.compile(r"\s+")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")


@dataclass(frozen=True, slots=True)
class Hint:
    """What an agent is told that is asked again.

    Attributes:
        wrong: What is quoted as wrong; empty where nothing is.
        right: What is quoted as right; empty where nothing is.
        is_repeat: Whether it is told that it repeats itself.
        is_cut: Whether it is told that it breaks off.
        told: What it is told that was said; empty where nothing is.
    """

    wrong: str = ""
    right: str = ""
    is_repeat: bool = False
    is_cut: bool = False
    told: str = ""


def read_hints(text: str) -> list[Hint]:
    """Read what the guard quotes in each reason; what it quotes of the whole answer, as context, says nothing."""
    reasons = text.removeprefix(_OPENING).partition(". It was: <<")[0]
    return [_read_hint(reason) for reason in reasons.split(_ALSO)]


def _read_hint(reason: str) -> Hint:
    if match := _SAYS.search(reason):
        return Hint(literal_eval(match[1]), literal_eval(match[2]))
    if match := _TELLS.search(reason):
        return Hint(literal_eval(match[2]), told=literal_eval(match[1]))
    if match := _SUPPORTS.search(reason) or _LAST_QUOTE.search(reason):
        return Hint(literal_eval(match[1]), is_cut="it breaks off" in reason)
    return Hint(is_repeat="it repeats what was said before" in reason)


def is_truthful(hint: Hint, given: str, other: str, earlier: Sequence[str] = ()) -> bool:
    """Check whether a hint says truthfully what is wrong with an answer.

    Args:
        hint: It.
        given: The answer.
        other: What the agent could answer instead.
        earlier: What was said before.
    """
    if hint.is_repeat:
        said = {_plain(text) for text in earlier}
        return _plain(given) in said and _plain(other) not in said
    if not hint.wrong.strip():
        return False
    if hint.is_cut:
        begun = _plain(cut_sign_off(given)).rstrip(" `")
        return _plain(other).startswith(begun) and len(_plain(cut_sign_off(other))) > len(begun)
    is_wrong_there = _stands_in(hint.wrong, given) and not _stands_in(hint.wrong, other)
    return is_wrong_there and (not hint.right.strip() or _stands_in(hint.right, other))


def _plain(text: str) -> str:
    return _SPACE.sub(" ", _THOUSANDS.sub("", text)).strip().casefold()


def _stands_in(part: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(_plain(part))}(?!\w)", _plain(text)) is not None


_asking: ContextVar[tuple[str, int]] = ContextVar("blamespan-bench-asking")
"""Whose model is being asked here, and for which decision of the run."""


@dataclass(eq=False)
class AskedAgain:
    """What was answered in one run, and what became of it when somebody was asked again. Hears what faults leave.

    Attributes:
        forgives: Whether whoever is asked again answers without what was written into the answer, whatever they hear.
        originals: What stood in a prompt before it was changed, by what stands there now.
        n_answers: How many decisions there were.
        repaired: How many answers were repaired.
        repeated: How many were repeated as they were.
    """

    forgives: bool = False
    originals: dict[str, str] = field(default_factory=dict)
    n_answers: int = 0
    repaired: int = 0
    repeated: int = 0
    is_guard: bool = False
    is_blocking: bool = False
    is_patient: bool = True
    loose: RunScope = field(default_factory=RunScope)
    _given: dict[tuple[str, int], Said] = field(default_factory=dict)
    _said: list[str] = field(default_factory=list)
    _repaired: set[tuple[str, int]] = field(default_factory=set)

    def foretell(self, at: Opportunity) -> Said | None:
        """Let the model be asked."""
        del at
        return None

    def end_call(self, at: Opportunity) -> None:
        """Keep nothing open."""
        del at

    def change(self, at: Opportunity, content: ContentT, where: Callable[[], Where | None]) -> ContentT:
        """Keep an answer; give it once more where the agent was asked again in vain."""
        del where
        key = (at.agent, at.decision)
        if at.mechanism in ("memory", "prompt"):
            _asking.set(key)
        if isinstance(content, Said | Answer) and content.text:
            self._said.append(content.text)
        if not isinstance(content, Said):
            return content
        if not at.attempt:
            self.n_answers += 1
        elif self.forgives or key in self._repaired:
            self.repaired += 1
        else:
            self.repeated += 1
            return cast(ContentT, self._given[key])
        self._given[key] = content
        return content

    def given(self) -> str:
        """Return the text and the calls of the answer that is not passed on."""
        said = self._given[_asking.get()]
        return _write(said.text, said.calls)

    def has_heard(self, text: str, task: str) -> bool:
        """Check whether a text was said in this run, by the task, a tool or an agent."""
        return any(text in said for said in (task, *self._said))

    def settle(self, *, is_repaired: bool) -> None:
        """Note whether the agent that is asked again gives another answer."""
        (self._repaired.add if is_repaired else self._repaired.discard)(_asking.get())


class FirstAnswerFaults(Injection):
    """Faults in what agents are told and answer first; what they answer when they are asked again is theirs."""

    def __init__(self, faults: Sequence[PlannedFault], asked_again: AskedAgain, *, seed: int) -> None:
        super().__init__(faults, seed=seed)
        self._asked_again = asked_again

    def change(self, at: Opportunity, content: ContentT, where: Callable[[], Where | None]) -> ContentT:
        """Write faults, but into no second answer, and keep what stood in prompts."""
        if at.attempt:
            return content
        changed = super().change(at, content, where)
        if isinstance(content, tuple) and isinstance(changed, tuple):
            before = {line.place: line.text for line in content}
            for line in changed:
                if line.place in before and line.text != before[line.place]:
                    self._asked_again.originals[line.text] = before[line.place]
        return changed


class _AttentiveContext(DecisionContext):
    """A decision of an agent that looks at every source of what it goes by."""

    def _read_care(self) -> float:
        return 1.0

    def _notices(self, *about: str) -> bool:
        return True


class RepairableAgent:
    """A simulated agent that can be asked again, by the rule above."""

    def __init__(self, profile: AgentProfile, asked_again: AskedAgain) -> None:
        self._profile = profile
        self._task = profile.task.question
        self._policy = SimulatedPolicy(profile)
        self._asked_again = asked_again
        self._draws: Counter[tuple[str, ...]] = Counter()
        self._said = Reply()
        self._refused: list[str] = []

    def reply(self, messages: Sequence[InputMessage], tools: Sequence[ToolSpec]) -> Reply:
        """Answer; what the guard says is heard only where the guard asks again."""
        heard = [message for message in messages if not message.text.startswith(_FROM_GUARD)]
        asked = messages[-1].text if messages else ""
        if not asked.startswith((_OPENING, BLIND)):
            self._draws = Counter(self._policy.draws)
            self._said = self._policy.reply(heard, tools)
            self._refused = []
            return self._said
        if self._asked_again.forgives:
            return self._said
        given, hints = self._asked_again.given(), read_hints(asked)
        self._refused.append(given)
        earlier = [message.text for message in heard]
        every = [hint for message in messages if message.text.startswith(_OPENING) for hint in read_hints(message.text)]
        told = [hint.told for hint in every if hint.told and self._asked_again.has_heard(hint.told, self._task)]
        hints = [hint for hint in hints if not hint.told or hint.told in told]
        for other in self._others(heard, tools, told):
            written = _write(other.text, other.calls)
            is_new = written not in self._refused  # of what did not stand nothing is said again
            if is_new and any(is_truthful(hint, given, written, earlier) for hint in hints):
                self._asked_again.settle(is_repaired=True)
                return other
        self._asked_again.settle(is_repaired=False)
        return self._said

    def _others(self, heard: Sequence[InputMessage], tools: Sequence[ToolSpec], news: Sequence[str]) -> Iterator[Reply]:
        """Yield what it could answer instead: without the fault, looking at its sources, and knowing the news."""
        yield self._said
        originals = self._asked_again.originals
        told = [replace(message, text=originals.get(message.text, message.text)) for message in heard]
        index = self._policy.index - 1
        if told != list(heard):
            yield decide(DecisionContext(self._profile, index, told, tools, draws=Counter(self._draws)))
        yield decide(_AttentiveContext(self._profile, index, told, tools, draws=Counter(self._draws)))
        if news:
            told += [InputMessage("message", text, "guard") for text in news]
            yield decide(_AttentiveContext(self._profile, index, told, tools, draws=Counter(self._draws)))


def _write(text: str, calls: Sequence[RequestedCall | ToolCall]) -> str:
    return "\n".join([text, *(f"{call.name}({call.arguments})" for call in calls)])


class BlindRetries:
    """Asks agents again at random decisions and tells them nothing.

    Args:
        decisions: At which decisions of the run, counted from 0.
    """

    def __init__(self, decisions: Collection[int]) -> None:
        self._decisions = frozenset(decisions)
        self.is_guard = True
        self.is_blocking = False
        self.is_patient = True
        self.loose = RunScope()

    def foretell(self, at: Opportunity) -> Said | None:
        """Let the model be asked."""
        del at
        return None

    def end_call(self, at: Opportunity) -> None:
        """Keep nothing open."""
        del at

    def change(self, at: Opportunity, content: ContentT, where: Callable[[], Where | None]) -> ContentT:
        """Have a model asked again."""
        del where
        if not isinstance(content, Said) or at.attempt or not at.can_retry or at.decision not in self._decisions:
            return content
        return cast(ContentT, replace(content, again=BLIND))
