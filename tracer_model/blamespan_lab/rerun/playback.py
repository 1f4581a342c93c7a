"""Runs a program again: up to a step every model and tool is answered from a recording, from there on it runs live.

The step is put right by a text, or by asking its model again, told what is wrong. Further steps may be put right in the
live part: what was the agent's third answer in the recording is its third there, too.
"""

from __future__ import annotations

import builtins
import json
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor

from blamespan import conventions as words
from blamespan.errors import ConfigError
from blamespan.injecting.injection import Injection
from blamespan.intercepting.boundaries import Answer, ContentT, Line, Opportunity, Said, Where
from blamespan.trace import MessageActionTrace, Step
from blamespan_lab.rerun.script import (
    RecordedAnswer,
    RecordedResult,
    Script,
    content_of_request,
    correct_answer,
    read_arguments,
)

_MOST_SHOWN = 160
"""Characters of each side of a difference that are shown."""


@dataclass(frozen=True, slots=True)
class Correction:
    """How one step is put right.

    Attributes:
        step: Its index.
        text: What it says instead.
        told: What its model is told, behind what it was sent, and asked again; then *text* is not used.
        answer: What its model answers instead, calls and all; then *text* is not used. None where a text does.
    """

    step: int
    text: str = ""
    told: str = ""
    answer: Said | None = None


class ProgramChanged(Exception):
    """The program does something else than it did when it was recorded; the message says where and what."""


class PromptWatcher(SpanProcessor):
    """Hears what models are told, from the spans that are recorded for it."""

    def __init__(self) -> None:
        self._last: dict[str, Mapping[str, Any]] = {}

    def on_start(self, span: Any, parent_context: Any = None) -> None:  # the SDK's types, which it does not export
        """Keep what a model is told that is about to be asked."""
        attributes = span.attributes or {}
        if attributes.get(words.OPERATION) == words.OPERATION_CHAT:
            self._last[str(attributes.get(words.AGENT_NAME) or "")] = dict(attributes)

    def last(self, agent: str) -> Mapping[str, Any]:
        """Return the attributes of the model span that *agent* began last; empty where there is none."""
        return self._last.get(agent, {})


class Playback(Injection):
    """Answers from a recording, within a `with` block, in the whole process.

    Args:
        script: The recording.
        models: Hears what models are told; spans must be recorded for it.
        step: The step that is put right; None to play back everything.
        text: What it says instead.
        told: What its model is told instead of that, and asked again.
        answer: What its model answers instead of *text*.
        later: Further steps to put right, each after *step*.
        most_asked: Most times that models may be asked; then the program is stopped.
        starts_live: Whether the program goes on from the step by itself, so that nothing is answered from here.

    Attributes:
        answered: How many answers of models came from the recording.
        asked: How many models were asked since.
        is_reached: Whether the step came.
        said: What agents said from the step on, each with its agent; calls as `name(arguments)`.
        trouble: What the program did otherwise than recorded; empty if nothing.

    Raises:
        ConfigError: if *text* cannot stand in place of the step.
    """

    def __init__(
        self,
        script: Script,
        models: PromptWatcher,
        step: int | None = None,
        text: str = "",
        *,
        told: str = "",
        answer: Said | None = None,
        later: Sequence[Correction] = (),
        most_asked: float = float("inf"),
        starts_live: bool = False,
    ) -> None:
        super().__init__((), everywhere=True)
        self._end: float = len(script.trace.steps) if step is None else step
        self._text = text
        self._models = models
        self._answers: dict[str, deque[RecordedAnswer]] = defaultdict(deque)
        for recorded in () if starts_live else script.answers:
            self._answers[recorded.agent].append(recorded)
        self._results = [] if starts_live else list(script.results)
        self._unasked = {} if starts_live else _without_model(script)
        self._target = target_of(script, step)
        self._instead: RecordedAnswer | None = None
        if isinstance(self._target, RecordedAnswer) and step is not None and not told:
            by_text = correct_answer(self._target, script.trace.steps[step], text) if answer is None else self._target
            self._instead = by_text if answer is None else replace(self._target, said=answer)
        self._told: dict[tuple[str, int], str] = {}
        if told:
            self._told[_turn_of(script, self._target, step)] = told
        self._later: dict[tuple[str, int], Said] = {}
        for correction in later:
            self._put_right_later(script, correction)
        self._agents = {answer.agent for answer in script.answers}
        self._turns: Counter[str] = Counter()
        if starts_live:
            self._turns.update(answer.agent for answer in script.answers if answer.step <= self._end)
        self._most_asked = most_asked
        self._turn = threading.Lock()
        self.answered = self.asked = 0
        self.is_reached = starts_live
        self.said: list[tuple[str, str]] = []
        self.trouble = ""

    def _put_right_later(self, script: Script, correction: Correction) -> None:
        target = target_of(script, correction.step)
        turn = _turn_of(script, target, correction.step)
        if correction.told:
            self._told[turn] = correction.told
        elif isinstance(target, RecordedAnswer):
            self._later[turn] = correct_answer(target, script.trace.steps[correction.step], correction.text).said

    def foretell(self, at: Opportunity) -> Said | None:
        """Answer in place of a model, as long as the recording goes; what a guard asks again was not recorded."""
        if at.attempt:
            self.asked += 1
            return None
        with self._turn:
            self._go_on()
            agent = current_agent() or at.agent
            agent = agent if agent in self._agents else at.agent
            turn = agent, self._turns[agent]
            self._turns[agent] += 1
            waiting = self._answers[agent]
            following = waiting[0] if waiting else None
            is_live = self.is_reached and (following is None or following.step >= self._end)
            if is_live:
                if turn not in self._later:
                    self._count_asked()
                return self._later.get(turn)
            if following is None:
                raise self._differs(f"{agent!r} asks its model once more than it was recorded to")
            self._compare(following)
            waiting.popleft()
            if following is self._target:
                self.is_reached = True
                if self._instead is None:  # its model is asked again
                    self._count_asked()
                    return None
                self.answered += 1
                return self._instead.said
            self.answered += 1
            return following.said

    def change(self, at: Opportunity, content: ContentT, where: Callable[[], Where | None]) -> Any:
        """Answer in place of a tool, and of an agent that asks no model, as long as the recording goes.

        What it gives is of the same type as *content*.
        """
        del where
        if isinstance(content, Answer) and content.is_due:
            with self._turn:
                self._go_on()
                return self._answer_of(at, content)
        if at.mechanism == "prompt" and isinstance(content, tuple) and self._told:
            with self._turn:
                return self._tell(at, content)
        if isinstance(content, Said) and at.agent in self._unasked:
            with self._turn:
                content = self._said_by(at.agent, content)
        if isinstance(content, Said) and self.is_reached:
            self.said.append((at.agent, _text_of(content)))
        return content

    def _count_asked(self) -> None:
        """Count a model that is asked, if it may be."""
        if self.asked >= self._most_asked:
            raise self._differs(f"models were asked {self.asked} times, which is all that was allowed")
        self.asked += 1

    def _tell(self, at: Opportunity, lines: tuple[Line, ...]) -> tuple[Line, ...]:
        """Put what is wrong behind what the model is sent that is asked again."""
        agent = current_agent() or at.agent
        agent = agent if agent in self._agents else at.agent
        told = self._told.get((agent, self._turns[agent]))
        return lines if told is None else (*lines, Line("user", told))

    def _said_by(self, agent: str, content: Said) -> Any:  # what it says, which the caller's type says
        """Look at what an agent says that asks no model: the program's own code, which runs again."""
        self._go_on()
        step = self._unasked[agent].popleft() if self._unasked[agent] else None
        if step is None or (step.index > self._end and self.is_reached):
            return content
        if step.index == self._end:
            self.is_reached = True
            return Said(self._text)
        if content.text.strip() not in step.content:
            difference = f"recorded {_short(step.content)}, now {_short(content.text)}"
            raise self._differs(f"at step {step.index}: {agent!r} says something else: {difference}")
        return content

    def _answer_of(self, at: Opportunity, content: Answer) -> Any:  # an answer, which the caller's type says
        result = self._find_result(at)
        if result is None and self.is_reached:
            return content
        if result is None:
            raise self._differs(f"{at.agent!r} calls {at.tool!r} with {_short(at.arguments)}, which was not recorded")
        if result.step >= self._end and result is not self._target and self.is_reached:
            return content
        self._results.remove(result)
        if result is self._target:
            self.is_reached = True
            return Answer(self._text, is_due=bool(self._text))
        return Answer(result.text, exception_of(result), is_due=bool(result.text or result.error))

    def _find_result(self, at: Opportunity) -> RecordedResult | None:
        span = current_attributes()
        call_id, arguments = span.get(words.TOOL_CALL_ID), read_arguments(span.get(words.TOOL_ARGUMENTS))
        alike = [result for result in self._results if result.tool == at.tool and result.arguments == arguments]
        return next(
            (result for result in alike if result.call_id and result.call_id == call_id), alike[0] if alike else None
        )

    def _compare(self, recorded: RecordedAnswer) -> None:
        request = self._models.last(recorded.agent)
        content = content_of_request(request) if request else None
        if recorded.heard is None or content is None or content == recorded.heard:
            return
        what = f"{recorded.agent!r} is told something else: {_difference(recorded.heard, content)}"
        raise self._differs(f"at step {int(recorded.step)}: {what}")

    def _go_on(self) -> None:
        if self.trouble:  # frameworks go on after an exception of ours: no model must be asked any more
            raise ProgramChanged(self.trouble)

    def _differs(self, what: str) -> ProgramChanged:
        self.trouble = what
        return ProgramChanged(what)


def target_of(script: Script, step: int | None) -> RecordedAnswer | RecordedResult | None:
    """Find the answer that *step* shows: of a message, what its model said last in it."""
    if step is None:
        return None
    if script.trace.steps[step].kind == "tool_result":
        return next((answer for answer in script.results if answer.step == step), None)
    shown = [answer for answer in script.answers if answer.step == step or _calls(script.trace, answer, step)]
    shown = shown or [answer for answer in script.answers if answer.message == step]
    asked = {answer.agent for answer in script.answers}
    if not shown and script.trace.steps[step].agent in asked:
        made_of = ", ".join(map(str, script.trace.steps[step].inputs)) or "none"
        raise ConfigError(
            f"step {step} was made by the program out of other steps ({made_of}), no model said it. "
            "Put one of those right"
        )
    speaking = [answer for answer in shown if answer.said.text.strip()] or shown
    return speaking[-1] if speaking else None


def _turn_of(script: Script, target: RecordedAnswer | RecordedResult | None, step: int | None) -> tuple[str, int]:
    """Say whose answer shows in *step*, and which of its answers that is, from 0.

    Raises:
        ConfigError: if no model said it.
    """
    if not isinstance(target, RecordedAnswer):
        raise ConfigError(
            f"step {step} was not said by a model, so that nobody can be asked again, nor put right there after "
            "another step. Give it a text and put it right alone"
        )
    own = [answer for answer in script.answers if answer.agent == target.agent]
    return target.agent, next(number for number, answer in enumerate(own) if answer is target)


def _text_of(said: Said) -> str:
    calls = [f"{call.name}({call.arguments})" for call in said.calls]
    return "\n".join([*([said.text] if said.text else []), *calls])


def _without_model(script: Script) -> dict[str, deque[Step]]:
    """List what agents said that ask no model, by agent."""
    asking = {answer.agent for answer in script.answers}
    steps: dict[str, deque[Step]] = defaultdict(deque)
    for step in script.trace.steps:
        if step.agent not in asking and script.trace.can_be_blamed(step) and step.kind != "tool_call":
            steps[step.agent].append(step)
    return steps


def _calls(trace: MessageActionTrace, answer: RecordedAnswer, step: int) -> bool:
    """Return whether *step* is one of several calls that *answer* asks for at once."""
    shown = trace.steps[step]
    if shown.kind != "tool_call" or shown.agent != answer.agent or not 0 <= step - answer.step < len(trace.steps):
        return False
    name, _, arguments = shown.content.partition("(")
    wanted = (name, read_arguments(arguments.removesuffix(")")))
    return wanted in [(call.name, read_arguments(call.arguments)) for call in answer.said.calls]


def current_attributes() -> dict[str, Any]:
    """Return the attributes of the span that is current; none where it is not recorded."""
    attributes: Any = getattr(trace.get_current_span(), "attributes", None)  # only the SDK's spans can be read
    return dict(attributes or {})


def current_agent() -> str:
    """Name whose span is current; a run's own span names the team."""
    around = current_attributes()
    return "" if around.get(words.OPERATION) == words.OPERATION_WORKFLOW else str(around.get(words.AGENT_NAME) or "")


def exception_of(result: RecordedResult) -> str:
    """Name the built-in exception that stands for the one a tool raised; empty where it raised none."""
    if not result.error:
        return ""
    name = result.error.rpartition(".")[2]
    return name if isinstance(getattr(builtins, name, None), type) else "RuntimeError"


def _difference(recorded: object, now: object) -> str:
    """Show the first message that is another, where it begins to be."""
    before, after = (list(messages) if isinstance(messages, tuple) else [] for messages in (recorded, now))
    for old, new in zip_longest(before, after):
        if old != new:
            left, right = _plain(old), _plain(new)
            at = next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), 0)
            return f"recorded {_short(left, at)}, now {_short(right, at)}"
    return "in a way that cannot be shown"


def _plain(message: object) -> str:
    """Write a message as its role, its name and what it says."""
    if not isinstance(message, tuple):
        return "nothing"
    role, name, parts = message
    texts = [part.get("content", part.get("response", part)) for part in map(json.loads, parts)]
    return f"{role} {name}: {' '.join(map(str, texts))}"


def _short(text: str, at: int = 0) -> str:
    """Quote *text*, from a little before the place *at*."""
    start = max(0, at - 40)
    end = start + _MOST_SHOWN
    return repr(("..." if start else "") + text[start:end] + ("..." if end < len(text) else ""))
