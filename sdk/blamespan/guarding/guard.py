"""The guard of a program that runs: `blamespan.guard("policy.toml")`.

It hears what injections hear, after them, and decides on each step before it takes place. All guards of the process
are asked, and the strictest decision holds. An error inside a guard lets the step pass, or stops it where its policy
says `fail = "closed"`; either is counted.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self, cast
from weakref import WeakKeyDictionary

from blamespan import conventions as words
from blamespan.errors import BlamespanError, ConfigError
from blamespan.forking import renewed_after_fork
from blamespan.guarding.budgets import Books, CallKind, Overrun, Reservation
from blamespan.guarding.decisions import ACTIONS, Action, Decision, OwnRule, ProposedStep
from blamespan.guarding.policy import Policy, read_policy
from blamespan.guarding.rules import judge_step, means_agent, read_arguments
from blamespan.guarding.watching import RunFinding, Watcher, judge_findings, make_watcher
from blamespan.host_safety import shield_host
from blamespan.intercepting.boundaries import (
    Answer,
    ContentT,
    Line,
    Mail,
    MustWait,
    Opportunity,
    RunScope,
    Said,
    Where,
    current_run,
)
from blamespan.intercepting.listeners import listen, stop_listening
from blamespan.intercepting.tool_objects import known_tools, names_behind
from blamespan.trace import Usage

_logger = logging.getLogger("blamespan")

_MOST_STEPS = 1_000
_MOST_DECISIONS = 10_000
_MOST_REFUSALS = 20
"""How often a run goes on after a budget is used up. Then it ends."""
_MOST_QUOTED = 500
_MOST_SHOWN = 4_000
"""Characters of a step that a person is asked about; a longer one is refused, as nobody would see all of it."""
_MOST_REASONS, _LONGEST_REASON = 6, 1_000
"""Of what a model is told that is asked again: reasons, and characters of one."""


class GuardStopped(BlamespanError):
    """A run goes on and on although the guard refuses it everything: its budget is used up."""


@dataclass(frozen=True, slots=True)
class GuardedStep:
    """What a guard decided on a step.

    Attributes:
        agent: Whose step it is.
        action: What was done.
        decision: Why.
        trace_id: Of the run's spans, 32 hex digits; empty where it is not recorded.
        span_id: Of the step's span, 16 hex digits.
    """

    agent: str
    action: Action
    decision: Decision
    trace_id: str = ""
    span_id: str = ""


def guard(
    *policies: str | os.PathLike[str] | Policy | OwnRule,
    fail: str | None = None,
    ask: Callable[[str], bool] | None = None,
    agents: Iterable[str] = (),
    tools: Iterable[str] = (),
) -> Guard:
    """Guard every AutoGen and LangGraph run of this process, from now on or within a `with` block.

    Args:
        policies: Files of policies, policies, or rules of your own: functions of a step and the run so far that return
            None, a decision, or a sentence that says what is wrong.
        fail: `open` or `closed`, in place of what the policies say: what becomes of a step on which the guard fails.
        ask: Asks a person, in place of stopping the run: gets the question, returns whether it is allowed. It may wait.
        agents: Names of the program's agents, where they are known: a policy that names another one is refused.
        tools: Names of its tools, likewise.

    Returns:
        The guard, which holds already; `close()` or the end of a `with` block ends it.

    Raises:
        ConfigError: if a policy cannot be read or names what is not there; the nearest known name is named.
        MissingExtra: if no framework is installed, or a policy needs what is not.
    """
    if not policies:
        raise ConfigError("expected at least one policy, got none. Name one like guard('policy.toml')")
    read: list[Policy] = []
    rules: list[OwnRule] = []
    for policy in policies:
        if isinstance(policy, Policy):
            read.append(policy)
        elif isinstance(policy, str | os.PathLike):
            read.append(read_policy(policy))
        elif callable(policy):
            rules.append(policy)
        else:
            raise ConfigError(f"expected a path, a Policy or a function as policy, got {type(policy).__name__}")
    if fail not in (None, "open", "closed"):
        raise ConfigError(f"expected fail='open' or 'closed', got {fail!r}")
    for one in read:
        for unknown in one.find_unknown_names(agents=tuple(agents), tools=tuple(tools)):
            raise ConfigError(f"{one.source}: unknown {unknown}")
    opened = Guard(read, rules, fail=fail, ask=ask)
    opened.open()
    return opened


@dataclass(slots=True)
class _Book:
    """What a guard knows of one run."""

    steps: deque[ProposedStep] = field(default_factory=lambda: deque(maxlen=_MOST_STEPS))
    usage: Usage = field(default_factory=Usage)
    refusals: int = 0
    watcher: Watcher | None = None
    reservations: dict[tuple[str, int], Reservation] = field(default_factory=dict)
    waiting_since_s: dict[tuple[str, int], float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Verdict:
    """A decision of one guard, and what is done at this place."""

    guard: Guard
    decision: Decision
    action: Action
    overrun: Overrun | None = None


class Guard:
    """Policies and rules that hold while it is open. Made by `guard`.

    Attributes:
        policies: The policies.
        counts: How many decisions there were by action; `error` counts failures inside the guard.
        decisions: The latest decisions.
    """

    def __init__(
        self,
        policies: Sequence[Policy],
        rules: Sequence[OwnRule] = (),
        *,
        fail: str | None = None,
        ask: Callable[[str], bool] | None = None,
        books: Callable[[Policy], Books] = Books,
    ) -> None:
        self.policies = tuple(policies)
        self.rules = tuple(rules)
        self.counts: Counter[str] = Counter()
        self.decisions: deque[GuardedStep] = deque(maxlen=_MOST_DECISIONS)
        self.ask = ask
        is_closed = any(policy.fail == "closed" for policy in policies)
        self.fail = fail or ("closed" if is_closed else "open")
        self.rewrites = min((policy.rewrites for policy in policies), default=2)
        self.books = [(policy, books(policy)) for policy in self.policies if policy.budgets]
        self.has_findings = any(policy.findings for policy in self.policies)
        self.needs_names = any(policy.agents or policy.arguments for policy in self.policies)
        self._by_run: WeakKeyDictionary[RunScope, _Book] = WeakKeyDictionary()
        self._is_open = False
        self._renew()
        renewed_after_fork(self, Guard._renew)
        for policy in self.policies:
            for note in policy.notes:
                _logger.warning("%s: %s", policy.source, note)
        if self.has_findings:
            make_watcher(self.policies, "")  # what is missing is missed now, not in the middle of a run

    def _renew(self) -> None:
        self.lock = threading.RLock()

    def open(self) -> None:
        """Begin to guard.

        Raises:
            MissingExtra: if no framework is installed.
        """
        if not self._is_open:
            self._is_open = True
            try:
                _guards.add(self)
                if self.needs_names:
                    known_tools.find()
            except BaseException:
                self._is_open = False
                raise

    def close(self) -> None:
        """End it; give the frameworks back unless others listen."""
        if self._is_open:
            self._is_open = False
            _guards.discard(self)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def may_change_answers(self) -> bool:
        """Whether it may put something else in place of what a model answers."""
        answering: list[Any] = [rule for policy in self.policies for rule in (*policy.texts, *policy.findings)]
        calling: list[Any] = [rule for policy in self.policies for rule in (*policy.agents.values(), *policy.arguments)]
        return (
            bool(self.rules)
            or self.fail == "closed"
            or any(set(rule.action) - {"observe", "warn"} for rule in answering)
            or any("rewrite" in rule.action for rule in calling)
        )

    def book(self, at: Opportunity) -> _Book:
        """Return what is known of a run."""
        with self.lock:
            book = self._by_run.get(at.run)
            if book is None:
                book = self._by_run[at.run] = _Book()
                if self.has_findings:
                    book.watcher = make_watcher(self.policies, at.task)
            return book

    def judge(self, at: Opportunity, step: ProposedStep) -> list[Decision]:
        """Return what speaks against a step; an error inside is a decision, too, where the guard fails closed."""
        try:
            decisions = [decision for policy in self.policies for decision in judge_step(policy, step)]
            if self.has_findings:
                decisions += self._judge_findings(at, step)
            return decisions + [decision for rule in self.rules for decision in self._ask_rule(rule, at, step)]
        except Exception as error:
            return self.failed(step, error)

    def _judge_findings(self, at: Opportunity, step: ProposedStep) -> list[Decision]:
        watcher = self.book(at).watcher
        assert watcher is not None
        with self.lock:
            findings: Sequence[RunFinding] = watcher.examine(step)
        return [decision for policy in self.policies for decision in judge_findings(policy, step, findings)]

    def _ask_rule(self, rule: OwnRule, at: Opportunity, step: ProposedStep) -> list[Decision]:
        said = rule(step, self.book(at))
        if said is None:
            return []
        if isinstance(said, Decision):
            return [replace(said, agent=said.agent or step.agent, tool=said.tool or step.tool)]
        if not isinstance(said, str):
            raise TypeError(f"expected a Decision, a sentence or None of {rule!r}, got {type(said).__name__}")
        name = getattr(rule, "name", "") or getattr(rule, "__name__", type(rule).__name__)
        return [Decision(("block",), said, str(name), "own", step.agent, step.tool)]

    def failed(self, step: ProposedStep, error: BaseException) -> list[Decision]:
        """Count a failure inside the guard; one that fails closed blocks the step."""
        is_first = not self.counts["error"]
        self.counts["error"] += 1
        _logger.log(
            logging.WARNING if is_first else logging.DEBUG,
            "the guard failed on a step of %r and lets it %s: %s: %s",
            step.agent,
            "not pass" if self.fail == "closed" else "pass",
            type(error).__name__,
            error,
            exc_info=error,
        )
        if self.fail != "closed":
            return []
        reason = f"the guard failed on it with {type(error).__name__}"
        return [Decision(("block",), reason, "guard", "failure", step.agent, step.tool)]

    def take_note(self, at: Opportunity, step: ProposedStep) -> None:
        """Take up a step that takes place."""
        book = self.book(at)
        book.steps.append(step)
        if book.watcher is not None:
            with self.lock:
                book.watcher.commit(step)


class _Guards:
    """All guards of the process as one listener: the strictest decision holds."""

    def __init__(self) -> None:
        self._guards: tuple[Guard, ...] = ()
        self._lock = threading.Lock()
        self._warnings: WeakKeyDictionary[RunScope, list[str]] = WeakKeyDictionary()
        self._refused: WeakKeyDictionary[RunScope, set[tuple[str, tuple[str, ...], str]]] = WeakKeyDictionary()
        self.is_guard = True
        self.loose = RunScope()
        renewed_after_fork(self, _Guards._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()

    @property
    def is_blocking(self) -> bool:
        """Whether a person is asked by a function of the program's."""
        return any(one.ask is not None for one in self._guards)

    @property
    def is_patient(self) -> bool:
        """Whether a guard may put something else in place of what a model answers."""
        return any(one.may_change_answers for one in self._guards)

    def add(self, one: Guard) -> None:
        """Have a guard asked."""
        with self._lock:
            if not self._guards:
                listen(self, everywhere=True)
            self._guards = (*self._guards, one)

    def discard(self, one: Guard) -> None:
        """Have a guard asked no more."""
        with self._lock:
            self._guards = tuple(other for other in self._guards if other is not one)
            if not self._guards:
                stop_listening(self, everywhere=True)

    # --- what listeners do

    def foretell(self, at: Opportunity) -> Said | None:
        """Refuse a model whose budget is used up; reserve what it may cost otherwise."""
        if not any(one.books for one in self._guards):
            return None
        is_let_through = False
        try:
            verdicts = self._reserve("model", at, _step(at, "message"), sum(map(len, (*at.heard, *at.said))))
            verdict = self._settle_verdicts(at, verdicts, at.where or _where_here)
            is_let_through = verdict is None or not self._is_refused(at, verdict)
            if verdict is None or is_let_through:
                return None
            self._count_refusal(at, verdict)
            return Said(f"[No model was asked: {verdict.decision.reason}.]")
        except (MustWait, GuardStopped):
            raise
        except _StoppedToAsk as stopped:
            raise stopped.reason from stopped.reason.__cause__
        except Exception as error:
            refusal = self._fail(at, Said(), error)
            is_let_through = refusal == Said()
            return None if is_let_through else refusal
        finally:
            if not is_let_through:
                self.end_call(at)

    def _reserve(self, kind: CallKind, at: Opportunity, step: ProposedStep, chars: int = 0) -> list[_Verdict]:
        """Count a call before it is made, in every budget; return what is said where one is used up."""
        verdicts: list[_Verdict] = []
        for one in self._guards:
            try:
                for policy, books in one.books:
                    book, key = one.book(at), (f"{id(policy)} {at.agent}", at.decision)
                    since = book.waiting_since_s.setdefault(key, books.now_s()) if kind == "model" else None
                    names = (at.agent, at.alias)
                    outcome = books.reserve(kind, names, at.run, chars, lambda name: means_agent(name, step), since)
                    if isinstance(outcome, Overrun):
                        verdicts.append(_overrun_verdict(one, outcome, at))
                    elif kind == "model":
                        book.reservations[key] = outcome
                    book.waiting_since_s.pop(key, None)
            except MustWait:
                raise
            except Exception as error:
                verdicts += [_verdict(one, decision, at) for decision in one.failed(step, error)]
        return verdicts

    def end_call(self, at: Opportunity) -> None:
        """Release what was reserved for a model."""
        for one in self._guards:
            try:
                for policy, books in one.books:
                    reservation = one.book(at).reservations.pop((f"{id(policy)} {at.agent}", at.decision), None)
                    if reservation is not None:
                        books.release(reservation)
            except Exception as error:  # the model has been asked: there is nothing left to stop
                one.failed(_step(at, "message"), error)

    def change(self, at: Opportunity, content: ContentT, where: Callable[[], Where | None]) -> ContentT:
        """Return what stands in place of *content*."""
        changed: Any = content  # it stays of the type of *content*
        try:
            if isinstance(content, Said):
                changed = self._judge_answer(at, content, where)
            elif isinstance(content, Mail):
                changed = self._judge_mail(at, content, where)
            elif isinstance(content, Answer):
                changed = (
                    self._judge_call(at, content, where)
                    if content.is_due
                    else self._take_note(at, _step(at, "tool_result", content.text, at.tool), content)
                )
            elif at.mechanism == "prompt":
                changed = self._warn(at, content)
        except _StoppedToAsk as stopped:
            raise stopped.reason from stopped.reason.__cause__
        except Exception as error:
            changed = self._fail(at, content, error)
        return cast(ContentT, changed)

    def _fail(self, at: Opportunity, content: Any, error: Exception) -> Any:  # as `change`
        """Let a step pass on which the guard fails, or stop it where a guard fails closed."""
        step = _step(at, "message", tool=at.tool)
        decisions = [decision for one in self._guards for decision in one.failed(step, error)]
        if not decisions:
            return content
        if isinstance(content, Said):
            return _write_refused(at, decisions[0])
        if isinstance(content, Answer) and content.is_due:
            return Answer(f"Error: {at.tool!r} was not called: {decisions[0].reason}.")
        if isinstance(content, Mail):
            return replace(content, receivers=(), following=(at.alias or at.agent,) if not content.receivers else ())
        return content

    def _warn(self, at: Opportunity, lines: tuple[Line, ...]) -> tuple[Line, ...]:
        sentences = self._warnings.pop(at.run, [])
        told = tuple(Line("user", sentence, "guard") for sentence in dict.fromkeys(sentences))
        return (*lines, *told) if told else lines

    def _judge_answer(self, at: Opportunity, said: Said, where: Callable[[], Where | None]) -> Said:
        self._settle_usage(at, said)
        message = _step(at, "message", text=said.text)
        requests = [
            _step(at, "request", text=call.arguments, tool=call.name, arguments=read_arguments(call.arguments))
            for call in said.calls
        ]
        verdicts = self._judge(at, message) if said.text else []
        for request in requests:
            if not request.tool.startswith("transfer_"):  # whom to hand over to is decided where it is done
                # all but asking again is done when it is called
                verdicts += [verdict for verdict in self._judge(at, request) if verdict.action == "rewrite"]
        strictest = self._settle_verdicts(at, verdicts, where)
        if strictest is not None and strictest.action == "rewrite":
            wrong = [verdict.decision for verdict in verdicts if verdict.action == "rewrite"]
            return replace(said, again=_what_is_wrong(said, wrong))
        if strictest is not None and self._is_refused(at, strictest, quote=said.text):
            return _write_refused(at, strictest.decision)
        return self._take_note(at, message, said) if said.text else said

    def _judge(self, at: Opportunity, step: ProposedStep) -> list[_Verdict]:
        return [_verdict(one, decision, at) for one in self._guards for decision in one.judge(at, step)]

    def _take_note(self, at: Opportunity, step: ProposedStep, content: ContentT) -> ContentT:
        for one in self._guards:
            one.take_note(at, step)
        return content

    def _settle_usage(self, at: Opportunity, said: Said) -> None:
        for one in self._guards:
            book, usage = one.book(at), said.usage or Usage()
            book.usage = Usage(
                book.usage.input_tokens + usage.input_tokens, book.usage.output_tokens + usage.output_tokens
            )
            for policy, books in one.books:
                reservation = book.reservations.get((f"{id(policy)} {at.agent}", at.decision))
                if reservation is not None:
                    chars = len(said.text) + sum(len(call.arguments) for call in said.calls)
                    books.settle(reservation, said.usage, chars, said.model)

    def foresee(self, at: Opportunity, answered: Collection[str]) -> str:
        """Return what a person is asked before a tool is called; empty where nothing is, or they have answered it."""
        try:
            _, verdicts, quote = self._examine_call(at)
        except Exception:  # counted where the call is made: there it is judged again
            return ""
        verdict = _strictest(verdicts)
        if verdict is None or verdict.action != "ask" or verdict.guard.ask is not None or len(quote) > _MOST_SHOWN:
            return ""
        question = _question(at, verdict, quote)
        if question in answered:
            return ""
        self._settle_verdicts(at, verdicts, at.where or _where_here)
        return question

    def _examine_call(self, at: Opportunity) -> tuple[ProposedStep, list[_Verdict], str]:
        """Return a call as a step, what the rules say of it, and how a person is shown it."""
        needs_names = any(one.needs_names for one in self._guards)
        names = frozenset(at.tool_names) | (names_behind(at.subject) if needs_names else frozenset())
        heard = (at.handoff_to,) if at.handoff_to else ()
        step = _step(at, "tool_call", at.arguments, at.tool, names, read_arguments(at.arguments), heard)
        only = at.arguments.startswith("[{") and at.arguments.endswith("}]")  # arguments by name alone
        quote = f"{at.tool}({at.arguments[1:-1] if only else at.arguments})"
        return step, self._judge(at, step), quote

    def _judge_call(self, at: Opportunity, answer: Answer, where: Callable[[], Where | None]) -> Answer:
        step, verdicts, quote = self._examine_call(at)
        if not any(verdict.action in ("ask", "block") for verdict in verdicts):  # what is refused costs nothing
            verdicts += self._reserve("tool", at, step)
        strictest = self._settle_verdicts(at, verdicts, where)
        if strictest is not None and self._is_refused(at, strictest, quote=quote):
            return Answer(_refusal(at, strictest), is_due=False)
        return self._take_note(at, step, answer)

    def _judge_mail(self, at: Opportunity, mail: Mail, where: Callable[[], Where | None]) -> Mail:
        if mail.is_handoff and mail.following:
            way, refused = (at.agent, mail.following, mail.text), self._refused.setdefault(at.run, set())
            if way not in refused:  # a team may come back to the same handoff with every turn
                verdict = self._judge_delivery(at, mail.following, where)
                if verdict is not None and self._is_refused(at, verdict):
                    refused.add(way)
                    self._warnings.setdefault(at.run, []).append(f"The guard says: {verdict.decision.reason}.")
            if way in refused and mail.receivers:  # there the edges belong to the program: it ends here
                return replace(mail, following=(), receivers=())
            if way in refused:
                return replace(mail, following=(at.alias or at.agent,))
        if mail.receivers and not mail.following:
            allowed = [
                name
                for name in mail.receivers
                if (verdict := self._judge_delivery(at, (name,), where)) is None or not self._is_refused(at, verdict)
            ]
            return mail if len(allowed) == len(mail.receivers) else replace(mail, receivers=tuple(allowed))
        return mail

    def _judge_delivery(
        self, at: Opportunity, names: tuple[str, ...], where: Callable[[], Where | None]
    ) -> _Verdict | None:
        step = _step(at, "delivery", recipients=names)
        return self._settle_verdicts(at, self._judge(at, step), where)

    # --- what becomes of decisions

    def _settle_verdicts(
        self, at: Opportunity, verdicts: Sequence[_Verdict], where: Callable[[], Where | None]
    ) -> _Verdict | None:
        """Record every decision, pass warnings on, and return the strictest."""
        if not verdicts:
            return None
        place = None
        with shield_host("guard: find the step of a decision"):
            place = where()
        for verdict in verdicts:
            verdict.guard.counts[verdict.action] += 1
            with shield_host("guard: record a decision"):
                _record(verdict, at, place)
            if verdict.action == "warn":
                sentence = f"The guard says of {at.agent!r}: {verdict.decision.advice or verdict.decision.reason}."
                self._warnings.setdefault(at.run, []).append(sentence)
        return _strictest(verdicts)

    def _is_refused(self, at: Opportunity, verdict: _Verdict, quote: str = "") -> bool:
        """Return whether a step does not take place; a person may be asked first, and stop the framework for it."""
        if verdict.action == "block":
            return True
        if verdict.action != "ask":
            return False
        if len(quote) > _MOST_SHOWN:
            return True
        is_allowed = self._ask(at, verdict, _question(at, verdict, quote))
        if is_allowed and verdict.overrun is not None:
            for policy, books in verdict.guard.books:
                if verdict.overrun.budget in policy.budgets:
                    books.grant(verdict.overrun, (at.agent, at.alias), at.run)
        return not is_allowed

    def _ask(self, at: Opportunity, verdict: _Verdict, question: str) -> bool:
        """Ask a person; where the asking fails nobody has allowed it."""
        if verdict.guard.ask is None and at.ask is None:
            return False
        try:
            return bool((verdict.guard.ask or at.ask)(question))  # type: ignore[misc]  # one of them is there
        except Exception as error:
            if verdict.guard.ask is None:
                raise _StoppedToAsk(error) from error  # the framework stops by it until somebody has answered
            verdict.guard.failed(_step(at, "message"), error)
            return False

    def _count_refusal(self, at: Opportunity, verdict: _Verdict) -> None:
        book = verdict.guard.book(at)
        book.refusals += 1
        if book.refusals > _MOST_REFUSALS and current_run.get() is not None:  # what is no run ends by itself
            raise GuardStopped(
                f"the run goes on after the guard has refused it {_MOST_REFUSALS} times: {verdict.decision.reason}. "
                "End the run where an agent says that no model was asked, or raise the limit in the policy"
            )


class _StoppedToAsk(Exception):
    """Carries what stops the framework until a person has answered past what catches our own errors.

    Attributes:
        reason: What stops it.
    """

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


_guards = _Guards()


def _step(
    at: Opportunity,
    kind: Any,  # a kind of step
    text: str = "",
    tool: str = "",
    tool_names: frozenset[str] = frozenset(),
    arguments: Any = None,  # by name
    recipients: tuple[str, ...] = (),
) -> ProposedStep:
    own = tuple(dict.fromkeys(name for name in (at.agent, at.alias, *at.maybe) if name)) or ("",)
    levels = (own, *((name,) for name in reversed(at.on_behalf_of) if name))
    return ProposedStep(kind, at.agent or own[0], text, tool, tool_names, arguments or {}, recipients, levels)


def _verdict(one: Guard, decision: Decision, at: Opportunity) -> _Verdict:
    """Choose which of a decision's actions is taken here: nobody can be asked again everywhere, or asked at all."""
    for action in decision.actions:
        if action == "rewrite" and not (at.can_retry and at.attempt < one.rewrites):
            continue
        if action == "ask" and one.ask is None and at.ask is None:
            continue
        return _Verdict(one, decision, action)
    return _Verdict(one, decision, "block")


def _strictest(verdicts: Sequence[_Verdict]) -> _Verdict | None:
    return max(verdicts, key=lambda verdict: ACTIONS.index(verdict.action), default=None)


def _write_refused(at: Opportunity, decision: Decision) -> Said:
    return Said(f"[A message of {at.agent!r} was not passed on: {decision.reason}.]")


def _overrun_verdict(one: Guard, overrun: Overrun, at: Opportunity) -> _Verdict:
    budget = overrun.budget
    decision = Decision(budget.action, overrun.reason, budget.name, "budget", at.agent, at.tool)
    actions = tuple(action for action in decision.actions if action != "rewrite")
    return replace(_verdict(one, replace(decision, actions=actions), at), overrun=overrun)


def _what_is_wrong(said: Said, decisions: Sequence[Decision]) -> str:
    """Write what a model is told whose answer does not stand; what it said is quoted, as data.

    Args:
        said: The answer.
        decisions: Every one that asks for another answer; each is told in a sentence, the first ones.
    """
    reasons = list(dict.fromkeys((one.advice or one.reason).strip().rstrip(".") for one in decisions))
    more = len(reasons) - _MOST_REASONS
    told = [reason if len(reason) <= _LONGEST_REASON else f"{reason[:_LONGEST_REASON]}..." for reason in reasons]
    told = [*told[:_MOST_REASONS], *([f"{more} more of the kind"] if more > 0 else [])]
    calls = ", ".join(f"{call.name}({call.arguments})" for call in said.calls)
    quoted = (said.text or calls)[:_MOST_QUOTED]
    return (
        f"Your last answer is not passed on: {'. Also: '.join(told)}. It was: <<{quoted}>>. "
        f"Answer again without {'that' if len(told) == 1 else 'any of that'}."
    )


def _refusal(at: Opportunity, verdict: _Verdict) -> str:
    reason = verdict.decision.reason
    if verdict.action == "ask":
        return (
            f"Error: {at.tool!r} was not called: a person has to allow it ({reason}). "
            "Call it again, unchanged, once somebody has said yes; do without it if somebody says no."
        )
    return f"Error: {at.tool!r} was not called: {reason}. Go on without it, or say that you cannot."


def _question(at: Opportunity, verdict: _Verdict, quote: str) -> str:
    what = f": {_printable(quote)}" if quote else ""
    call = f" [{at.call_id}]" if at.call_id else ""
    return f"May {at.agent!r} go on{what}? {verdict.decision.reason} ({verdict.decision.rule}){call}. yes or no"


def _printable(text: str) -> str:
    """Write what does not show, or turns around what does, by its number."""
    return "".join(char if char.isprintable() or char == "\n" else f"\\u{ord(char):04x}" for char in text)


def _where_here() -> Where | None:
    from opentelemetry import trace

    span = trace.get_current_span()
    context = span.get_span_context()
    return Where(context, lambda: None, span) if context.is_valid else None


def _record(verdict: _Verdict, at: Opportunity, where: Where | None) -> None:
    """Keep a decision and write it on the step's span: an event each, and the strictest as attributes."""
    decision, one = verdict.decision, verdict.guard
    span_ids = (f"{where.span.trace_id:032x}", f"{where.span.span_id:016x}") if where is not None else ("", "")
    one.decisions.append(GuardedStep(at.agent, verdict.action, decision, *span_ids))
    live = where.live if where is not None else None
    if live is None or not live.is_recording():
        here = _where_here()
        live = here.live if here is not None else None
    if live is None or not live.is_recording():
        return
    about = {
        words.GUARD_ACTION: verdict.action,
        words.GUARD_RULE: decision.rule[:200],
        words.GUARD_KIND: decision.kind,
        words.GUARD_REASON: decision.reason[:500],
    }
    tool = {words.TOOL_NAME: at.tool} if at.tool else {}
    live.add_event(words.GUARD_EVENT, {**about, words.AGENT_NAME: at.agent, **tool})
    attributes: Any = getattr(live, "attributes", None) or {}
    written = attributes.get(words.GUARD_ACTION)
    if written not in ACTIONS or ACTIONS.index(cast(Action, written)) <= ACTIONS.index(verdict.action):
        live.set_attributes(about)
