"""Where a run can be intercepted: what the hooks of a framework offer, and what a fault or the guard makes of it.

Hooks and listeners both speak these records and know nothing of each other; `blamespan.intercepting.listeners` stands
between. A fault writes; the guard passes on, asks again, or refuses.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from opentelemetry.trace import Span, SpanContext

from blamespan.trace import Usage

Mechanism: TypeAlias = Literal["prompt", "memory", "response", "tool", "routing"]
"""Where a fault is written: into what an agent is told, what is left of its history, what it answers, what a tool
does, or who hears it and who is next."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a model asks for; *arguments* is JSON as the model writes it, which need not be well formed."""

    name: str
    arguments: str
    id: str = ""


Role: TypeAlias = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Line:
    """One message of what a model is sent.

    Attributes:
        role: Whose it is; `user` is everybody but the agent itself.
        text: Its text.
        sender: Name of the agent or tool, where the framework gives one.
        calls: What it asks tools for.
        place: Its place in what the framework sends; -1 for one that a fault has made up.
    """

    role: Role
    text: str
    sender: str = ""
    calls: tuple[ToolCall, ...] = ()
    place: int = -1


@dataclass(frozen=True, slots=True)
class Said:
    """What a model answers: text, calls of tools, or both.

    Attributes:
        text: What it says.
        calls: What it asks tools for.
        name: The name that the message bears, where it is given without asking the model.
        again: What is wrong with it, in one sentence: the model is to be asked again, told so. Empty where it stands.
        usage: What it cost, where the model says.
        model: The model that answered, where that is known.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    name: str = ""
    again: str = ""
    usage: Usage | None = field(default=None, compare=False)
    model: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool answers.

    Attributes:
        text: Its result, or what it says of the error.
        error: Name of a built-in exception that it raises instead, or empty.
        delay_s: Seconds it takes longer.
        is_due: Whether it was not called yet, so that *text* is empty: what changes this answer keeps it from being
            called. Where nothing does, the answer is offered once more when it is there.
    """

    text: str
    error: str = ""
    delay_s: float = 0.0
    is_due: bool = False


@dataclass(frozen=True, slots=True)
class Mail:
    """A message on its way between agents.

    Attributes:
        text: What it says; not for changing here.
        receivers: Who is to hear it; empty where that is not decided at this place.
        following: Who is to speak next; empty where that is not decided at this place, or at the run's end.
        copies: How often each receiver gets it.
        is_last: Whether the run would end here.
        is_handoff: Whether the agent itself has named who follows.
    """

    text: str
    receivers: tuple[str, ...] = ()
    following: tuple[str, ...] = ()
    copies: int = 1
    is_last: bool = False
    is_handoff: bool = False


Content: TypeAlias = tuple[Line, ...] | Said | Answer | Mail
ContentT = TypeVar("ContentT", tuple[Line, ...], Said, Answer, Mail)


@dataclass(slots=True)
class Question:
    """What a person is asked.

    Attributes:
        agent: Who waits for it.
        answer: Whether it is allowed; None until somebody answers.
        is_shown: Whether a person has seen it: an answer belongs to what was shown, and to nothing else.
        is_over: Whether the agent has gone on since.
    """

    agent: str
    answer: bool | None = None
    is_shown: bool = False
    is_over: bool = False


@dataclass(slots=True, weakref_slot=True, eq=False)
class RunScope:
    """What the hooks know of one run of a team or graph.

    Attributes:
        decisions: How many answers models gave in it so far.
        agents: Who takes part, as far as known.
        speakers: Who spoke, the latest last.
        authors: Who said which text.
        results: What each tool answered, by tool, the latest last.
        mail: What became of the messages on their way, by the framework's id of them.
        addressed: Whom each of them was offered for, by the same id.
        calls: The steps in which a faulty call was asked for, by its id.
        altered: What each agent was told otherwise, or has lost (None), by agent and line: it stays so.
        requests: Which agent's model asked for which call of a tool, by its id; without an id, by the tool's name.
        questions: What a person was asked, by its text; the run goes on when it is answered.
        asked: What a person was shown before the run was resumed, as the framework keeps it, by the framework's id.
        people: Who of those who take part is a person, and can be asked.
    """

    decisions: int = 0
    agents: tuple[str, ...] = ()
    speakers: list[str] = field(default_factory=list)
    authors: dict[str, str] = field(default_factory=dict)
    results: dict[str, list[str]] = field(default_factory=dict)
    mail: dict[str, Mail] = field(default_factory=dict)
    addressed: dict[str, set[str]] = field(default_factory=dict)
    calls: dict[str, Where] = field(default_factory=dict)
    altered: dict[str, dict[Line, Line | None]] = field(default_factory=dict)
    requests: dict[str, str] = field(default_factory=dict)
    questions: dict[str, Question] = field(default_factory=dict)
    asked: dict[str, dict[str, Any]] = field(default_factory=dict)
    people: tuple[str, ...] = ()
    _own: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def decided(self, agent: str) -> int:
        """Return how many decisions *agent* has made."""
        return self._own[agent]

    def decide(self, agent: str) -> tuple[int, int]:
        """Count a decision of *agent*; gives its number in the run and among the agent's, both from 0."""
        with self._lock:
            numbers = self.decisions, self._own[agent]
            self.decisions += 1
            self._own[agent] += 1
        return numbers


@dataclass(frozen=True, slots=True)
class Opportunity:
    """A place in a run at which a fault can be written.

    Attributes:
        mechanism: What kind of place.
        run: The run.
        agent: Whose doing it is, as spans call it where they are recorded.
        decision: Number of the model's answer in the run, from 0: this one, else the next.
        own_decision: The same among this agent's.
        alias: What the framework calls the agent, where spans call it otherwise.
        task: What the run was asked.
        heard: What others told the agent, the latest last.
        said: What it said before, the latest last.
        others: Names of the other agents.
        tools: Names of the tools on offer.
        tool: Name of the tool at work, at a tool's boundary.
        arguments: What it was called with, as text.
        earlier: What the same tool answered before, the latest last.
        on_behalf_of: Agents further out, within whose tools this takes place, the outermost first.
        maybe: Who else may be meant by *agent*, where the framework does not say who asked for a tool.
        attempt: How often the model was asked already for this decision.
        can_retry: Whether the model can be asked again.
        subject: The tool itself, where there is an object.
        tool_names: What the tool is called beside its name, where the framework knows.
        call_id: The model's id of the call, where it stays the same when a person has been asked.
        handoff_to: Whom a tool hands the work to, where it does nothing else.
        where: Finds the span of the step, where that is known before the content is.
        ask: Asks a person a question: True allows, False refuses, None says that nobody has answered yet. It may raise
            what stops the framework until somebody has.
    """

    mechanism: Mechanism
    run: RunScope
    agent: str
    decision: int
    own_decision: int = 0
    alias: str = ""
    task: str = ""
    heard: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    tool: str = ""
    arguments: str = ""
    earlier: tuple[str, ...] = ()
    on_behalf_of: tuple[str, ...] = ()
    maybe: tuple[str, ...] = ()
    attempt: int = 0
    can_retry: bool = False
    subject: object = field(default=None, compare=False, repr=False)
    tool_names: tuple[str, ...] = ()
    call_id: str = ""
    handoff_to: str = ""
    where: Callable[[], Where | None] | None = field(default=None, compare=False, repr=False)
    ask: Callable[[str], bool | None] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Change:
    """What a fault makes of a content.

    Attributes:
        content: It, changed.
        operator: By which operator.
        before: What stood there, as text for the label.
        after: What stands there now, likewise.
        modes: What the change shows, `taxonomy:code` each; empty where that is what its kind is called.
    """

    content: Content
    operator: str
    before: str
    after: str
    modes: tuple[str, ...] = ()


class Interceptor(Protocol):
    """Writes one planned fault. Made anew for each injection by what the group `blamespan.faults` offers.

    One that waits for an endpoint also has `trouble: str`, which says what went wrong there (empty if nothing);
    hooks call it in a thread of its own.
    """

    kind: str
    """Name of the kind, `aegis:FM-3.2`."""
    modes: tuple[str, ...]
    """What it is called, `taxonomy:code`, the canonical one among them."""
    mechanism: Mechanism
    """The only one it is asked at."""
    times: int
    """How often in one run, where no probability is given."""

    def change(self, at: Opportunity, content: Content, rng: Random) -> Change | None:
        """Write the fault into *content*; None where it cannot be written. Depends on its arguments only."""
        ...


class Hooks(Protocol):
    """Stands at the boundaries of one framework. Offered under the group `blamespan.injectors`."""

    def install(self) -> None:
        """Put every hook in place."""
        ...

    def remove(self) -> None:
        """Put every original back."""
        ...


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """Which fault, and where.

    Attributes:
        kind: Its name in the catalogue: `aegis:FM-3.2`, `mas-fire:blind-trust`, `blamespan:X4`.
        agent: Only this agent.
        step: Not before this decision of the run: models' answers counted from 0.
        tool: Only this tool: at its boundary, or in an answer that asks for it.
        probability: At each place with this probability, 0 to 1; once in each run if None.
        mechanism: How, if not by the kind's own first mechanism.
        operator: By this operator only.
        writer: `operators`, or `model` for an LLM behind an OpenAI-compatible endpoint.
    """

    kind: str
    agent: str | None = None
    step: int | None = None
    tool: str | None = None
    probability: float | None = None
    mechanism: Mechanism | None = None
    operator: str | None = None
    writer: Literal["operators", "model"] = "operators"


@dataclass(slots=True)
class Where:
    """The span of a step, and how to learn the step's place in the run once the span has ended.

    Attributes:
        span: The span's ids.
        place: Returns the step's index, once it is known.
        live: The span itself, while it may still be written to.
    """

    span: SpanContext
    place: Callable[[], int | None]
    live: Span | None = None

    def move(self, to: Where) -> None:
        """Point at another step: a wrong call is one only once a tool is called."""
        self.span, self.place, self.live = to.span, to.place, to.live


@dataclass(frozen=True, slots=True)
class Applied:
    """A fault that was written.

    Attributes:
        agent: Whose step it is in.
        decision: Number of the model's answer in the run, from 0.
        kind: As planned.
        modes: `taxonomy:code` each.
        mechanism: Where it was written.
        operator: What wrote it.
        before: What stood there.
        after: What stands there now.
        seed: Of the injection.
        where: The span, if the run is recorded.
    """

    agent: str
    decision: int
    kind: str
    modes: tuple[str, ...]
    mechanism: Mechanism
    operator: str
    before: str
    after: str
    seed: int
    where: Where | None = field(default=None, compare=False, repr=False)

    @property
    def step(self) -> int | None:
        """Index of the step in the rebuilt trace; None while it goes on, and where nothing is recorded."""
        return self.where.place() if self.where is not None else None

    def label(self) -> dict[str, object]:
        """Return the label, ready for JSON."""
        own = {key: getattr(self, key) for key in ("agent", "decision", "kind", "mechanism", "operator")}
        location: dict[str, object] = {"trace_id": None, "span_id": None}
        if self.where is not None:
            span = self.where.span
            location = {"trace_id": f"{span.trace_id:032x}", "span_id": f"{span.span_id:016x}"}
        texts = {"modes": list(self.modes), "before": self.before, "after": self.after, "seed": self.seed}
        return {**location, "step": self.step, **own, **texts}


@dataclass(frozen=True, slots=True)
class Missed:
    """A planned fault that was never written, and why."""

    kind: str
    reason: str


CODE_TOOL = "execute_code"
"""Stands for a code executor, which has no name of its own, where a tool's name is meant."""


class MustWait(Exception):
    """Raised by a listener that cannot say yet whether a model may be asked: others are being asked. Try again."""


current_run: ContextVar[RunScope | None] = ContextVar("blamespan-injection-run", default=None)
"""The run in which something happens; hooks set it around a team's or graph's own code."""
