"""A campaign that makes runs to learn from: every task clean, then faults by a budget, and of each failure its cause.

A failure's decisive step is the earliest one whose repair flips the run back: the run is gone on with from each
decision that differs from the clean twin's, that decision put right, and once more with it as it was.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from blamespan import conventions as words
from blamespan.analysis.spending import price_of, prices_in_use
from blamespan.errors import BlamespanError, ConfigError
from blamespan.importing.recorded import RecordedRun
from blamespan.intercepting.boundaries import Said
from blamespan.labels.people import PersonLabel
from blamespan.learning import LearnSettings
from blamespan.spans import Span
from blamespan.taxonomy import mode
from blamespan.trace import MessageActionTrace
from blamespan_lab.learn.folder import Done, LearnFolder
from blamespan_lab.learn.worker import CleanRun, FaultRun, RecordedTrial, ReplayRun, WrittenFault
from blamespan_lab.make.decision_steps import blamed_step
from blamespan_lab.rerun.causes.verify import CallBudget, StepToVerify, verify
from blamespan_lab.rerun.playback import Correction
from blamespan_lab.rerun.script import RecordedAnswer, Script, read_arguments, script_of
from blamespan_lab.rerun.stress.campaign import planned
from blamespan_lab.rerun.stress.recipe import StressRecipe
from blamespan_lab.rerun.stress.trial import Clean, Planned
from blamespan_lab.rerun.stress.watching import longest_trace, seen_in
from blamespan_lab.rerun.trials import Trial
from blamespan_lab.rerun.user_program import Ran
from blamespan_lab.rerun.worker_pool import RunEnded, WorkerPool

_BATCH = 16
"""Orders between two looks at the budget; the same however many processes there are."""
_MISSES = 2
"""After so many a fault that could never be written at an agent is not tried there again."""
_SUSPECTS = 4
_REPEATS = 3
"""How often a run is gone on with where the program answers otherwise each time."""
_TWICE = 3
"""Tasks that are run clean once more, to see whether the program does the same again."""
BY = "learn"
"""Who says so, of labels that come from here."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a campaign may cost; it ends with the first that is spent.

    Attributes:
        faults: Runs with a fault.
        tokens: Read and written, as models say; None for no limit.
        minutes: Of the clock; None for no limit.
        usd: US dollars for models, by `BLAMESPAN_PRICES`; None for no limit.
    """

    faults: int = 300
    tokens: int | None = None
    minutes: float | None = None
    usd: float | None = None

    @classmethod
    def of(cls, settings: LearnSettings) -> Budget:
        """Return that of a user's settings."""
        return cls(settings.budget, settings.tokens, settings.minutes, settings.max_cost)

    def is_spent(self, cost: Cost, minutes: float) -> bool:
        """Check whether nothing more may be run.

        Raises:
            ConfigError: if there is a limit in money, and models were asked of which no price is known.
        """
        if self.usd is not None and cost.usd is None:
            raise ConfigError(
                f"a bound of {self.usd:g} US dollars needs the price of each model, got none of one that was asked. "
                "Add it to the table that BLAMESPAN_PRICES names, or give a bound on --tokens"
            )
        spent = (self.tokens, cost.tokens), (self.minutes, minutes), (self.usd, cost.usd or 0.0)
        return any(limit is not None and value >= limit for limit, value in spent)


@dataclass(frozen=True, slots=True)
class Cost:
    """What models were asked.

    Attributes:
        calls: How often.
        tokens: That they read and wrote, as they say.
        usd: What that costs in US dollars; None where the price of one of them is not known.
    """

    calls: int = 0
    tokens: int = 0
    usd: float | None = 0.0

    def with_calls(self, calls: int) -> Cost:
        """Add *calls* that cost as much as these did on average."""
        share = 1 + calls / max(self.calls, 1)
        return Cost(self.calls + calls, int(self.tokens * share), None if self.usd is None else self.usd * share)


@dataclass(frozen=True, slots=True)
class Made:
    """What a campaign has made.

    Attributes:
        done: Of every order, what became of it.
        tasks: How many there were.
        is_repeatable: Whether the program did the same again.
        planned: Faults that a longer budget would go on with.
        seconds: That this call took.
    """

    done: tuple[Done, ...]
    tasks: int
    is_repeatable: bool
    planned: int
    seconds: float

    def of(self, what: str) -> list[Done]:
        """List what became of orders in that way."""
        return [done for done in self.done if done.what == what]


@dataclass
class Campaign:
    """Makes runs of a program, in the processes of a pool.

    Attributes:
        tasks: Their texts.
        recipe: Which faults are put in, and by what seed.
        budget: What it may cost.
        pool: Of processes that run the program.
        folder: Where runs, labels and progress are kept.
        count: How many processes work at once.
        on_progress: Told of how many orders of how many are done.
    """

    tasks: Sequence[str]
    recipe: StressRecipe
    budget: Budget
    pool: WorkerPool
    folder: LearnFolder
    count: int
    on_progress: Callable[[str, int, int], None] = lambda title, done, total: None
    _began_s: float = field(default_factory=time.monotonic, init=False)
    _clean: dict[int, tuple[Clean, Script]] = field(default_factory=dict, init=False)
    _is_repeatable: bool = field(default=True, init=False)

    def make(self) -> Made:
        """Run every task clean, then faults as long as the budget lasts.

        Raises:
            ConfigError: if the program cannot be run.
            BlamespanError: if not one task succeeds as it is, or the disk is full.
        """
        runs = self.folder.runs()
        threads = ThreadPoolExecutor(self.count, thread_name_prefix="blamespan-learn")
        try:
            self._run_clean(threads, runs)
            plan = planned(self.recipe, {task: clean for task, (clean, _) in self._clean.items()})
            left = self._run_faults(threads, plan)
        finally:  # what is still asked after an error, or Ctrl-C, ends with the pool: it may hang
            threads.shutdown(wait=False, cancel_futures=True)
        done = tuple(self.folder.done.values())
        return Made(done, len(self.tasks), self._is_repeatable, left, time.monotonic() - self._began_s)

    def _run_clean(self, threads: ThreadPoolExecutor, runs: Mapping[str, RecordedRun]) -> None:
        total = len(self.tasks)
        for number, (task, done, spans) in enumerate(threads.map(self._clean_run, range(total), _forever(runs)), 1):
            self._keep(done, spans, self._label_clean(done, spans))
            self.on_progress("without a fault", number, total)
            if done.succeeded is not False and not done.error and spans:
                run = seen_in(spans, done.answer, done.succeeded, done.error)
                trace = longest_trace(spans)
                if run.agents and trace is not None:
                    roles = {name: (name,) for name in run.agents}
                    self._clean[task] = Clean(run, roles), script_of(trace, spans)
        if not self._clean:
            reasons = Counter(_why(self.folder.done[f"clean {task}"]) for task in range(total))
            listed = "; ".join(f"{reason} ({count} of {total})" for reason, count in reasons.most_common(3))
            raise BlamespanError(
                f"expected the program to succeed on at least one of {total} tasks without a fault, got: {listed}. "
                "Only what works can be shown to break: mend the program, the check, or the tasks"
            )
        again = list(self._clean)[:_TWICE]
        for task, is_same in zip(again, threads.map(self._does_the_same, again), strict=True):
            self._is_repeatable &= is_same
            if f"again {task}" not in self.folder.done:
                self.folder.add(Done(f"again {task}", "void", "" if is_same else "it does otherwise"))

    def _clean_run(self, task: int, runs: Mapping[str, RecordedRun]) -> tuple[int, Done, Sequence[Span]]:
        key = f"clean {task}"
        if (done := self.folder.done.get(key)) is not None:
            return task, done, runs[done.trace_id].spans if done.trace_id in runs else ()
        try:
            trial: RecordedTrial = self.pool.ask(CleanRun(self.tasks[task]))
        except RunEnded as ended:
            return task, Done(key, "hung", f"it {ended}", succeeded=False), ()
        run, cost = trial.run, cost_of(trial.spans)
        trace_id = run.trace_id if trial.spans else ""
        return task, Done(
            key,
            "clean",
            trace_id=trace_id,
            answer=run.answer,
            succeeded=run.succeeded,
            error=run.error,
            calls=cost.calls,
            tokens=cost.tokens,
            usd=cost.usd,
            is_sandbox=trial.is_sandbox,
        ), trial.spans  # fmt: skip

    def _label_clean(self, done: Done, spans: Sequence[Span]) -> PersonLabel | None:
        """Label how a run without a fault ended, as the check says."""
        trace = longest_trace(spans)
        if trace is None or done.succeeded is None:
            return None
        return PersonLabel.of(trace, "no_failure" if done.succeeded else "failed", BY, source="told")

    def _does_the_same(self, task: int) -> bool:
        """Run a task once more, and tell whether the same is said; tools that are called at once may change places."""
        if (done := self.folder.done.get(f"again {task}")) is not None:
            return not done.reason
        try:
            trial: RecordedTrial = self.pool.ask(CleanRun(self.tasks[task]))
        except RunEnded:
            return False
        before, now = (
            sorted((step.agent, step.kind, step.content) for step in run.steps)
            for run in (self._clean[task][0].run, trial.run)
        )
        return before == now

    def _run_faults(self, threads: ThreadPoolExecutor, plan: Sequence[Planned]) -> int:
        """Put faults in, batch by batch; give how many there would have been yet."""
        written: Counter[tuple[str, ...]] = Counter()
        missed: Counter[tuple[str, ...]] = Counter()
        waiting, count = list(plan), 0
        while waiting and count < self.budget.faults and not self._is_spent():
            batch: list[Planned] = []
            while waiting and len(batch) < min(_BATCH, self.budget.faults - count):
                one = waiting.pop(0)
                place = one.kind, one.mechanism, one.role
                if written[place] or missed[place] < _MISSES:
                    batch.append(one)
            for one, (done, spans, label) in zip(batch, threads.map(self._try, batch), strict=True):
                self._keep(done, spans, label)
                (missed if done.what == "missed" else written)[one.kind, one.mechanism, one.role] += 1
                count += done.what != "missed"
                self.on_progress("with a fault", min(count, self.budget.faults), self.budget.faults)
        return len(waiting)

    def _is_spent(self) -> bool:
        return self.budget.is_spent(total_cost(self.folder.done.values()), (time.monotonic() - self._began_s) / 60)

    def _keep(self, done: Done, spans: Sequence[Span], label: PersonLabel | None) -> None:
        if done.key not in self.folder.done:
            self.folder.add(done, spans if done.trace_id else (), label)

    def _try(self, one: Planned) -> tuple[Done, Sequence[Span], PersonLabel | None]:
        """Run the program with a fault, and where that makes it fail find the step that decided it."""
        key = f"fault {one.kind} {one.mechanism} {one.role} {one.task} {one.round}"
        if (done := self.folder.done.get(key)) is not None:
            return done, (), None
        clean, twin = self._clean[one.task]
        task = self.tasks[one.task]
        try:
            trial: RecordedTrial = self.pool.ask(FaultRun(task, one, clean, twin.results))
        except RunEnded as ended:
            return Done(key, "hung", f"it {ended}"), (), None
        except ConfigError as error:
            return Done(key, "void", str(error)), (), None
        if trial.fault is None:
            return Done(key, "missed", trial.missed, runs=2), (), None
        trace = longest_trace(trial.spans)
        if trial.lacks or trace is None or trial.run.succeeded is None:
            reason = f"it calls {trial.lacks[:120]}, which was not recorded" if trial.lacks else "nobody can tell"
            return Done(key, "void", reason, fault=trial.fault), (), None
        cost = cost_of(trial.spans)
        done = Done(
            key,
            "harmless",
            trace_id=trace.trace_id,
            answer=trial.run.answer,
            succeeded=trial.run.succeeded,
            error=trial.run.error,
            fault=trial.fault,
            calls=cost.calls,
            tokens=cost.tokens,
            usd=cost.usd,
        )
        if trial.run.succeeded:
            return done, trial.spans, PersonLabel.of(trace, "no_failure", BY, source="told")
        cause = self._find_cause(task, trace, trial.spans, trial.fault, twin)
        cost = cost.with_calls(cause.calls)
        done = replace(
            done,
            what="flipped",
            reason=cause.reason,
            decisive=cause.step,
            is_replayed=cause.is_replayed,
            runs=1 + cause.runs,
            calls=cost.calls,
            tokens=cost.tokens,
            usd=cost.usd,
        )
        if cause.step is None:
            return done, trial.spans, PersonLabel.of(trace, "failed", BY, source="told")
        return done, trial.spans, PersonLabel.of(
            trace,
            "corrects",
            BY,
            step=cause.step,
            modes=[mode(name) for name in trial.fault.modes],
            comment=f"{trial.fault.kind} by {trial.fault.mechanism}, {trial.fault.operator}",
            source="replayed" if cause.is_replayed else "injected",
        )  # fmt: skip

    def _find_cause(
        self, task: str, trace: MessageActionTrace, spans: Sequence[Span], fault: WrittenFault, twin: Script
    ) -> _Cause:
        """Put right what differs from the twin, the earliest first, until the run succeeds by that."""
        script = script_of(trace, spans)
        if fault.mechanism in ("prompt", "memory"):  # what it was told is not told again
            unheard = [replace(one, heard=None) if one.agent == fault.agent else one for one in script.answers]
            script = replace(script, answers=tuple(unheard))
        trials = _PoolTrials(self.pool, task, script, twin)
        injected = blamed_step(trace, fault.step).index if fault.step is not None else None
        if injected is not None and not trace.can_be_blamed(trace.steps[injected]):
            injected = None
        suspects = sorted(differences(script, twin), key=lambda pair: pair[0])
        if not self._is_repeatable and injected is not None:  # what else differs, differs by chance
            suspects = [pair for pair in suspects if pair[0] >= injected]
        reason = "nothing that was said differs from the run without the fault"
        for step, correction in suspects[:_SUSPECTS]:
            reason = self._put_right(step, correction, script, trials)
            if not reason:
                return _Cause(step, True, "", trials.runs, trials.calls)
        is_known = injected is not None and fault.mechanism in ("response", "tool")
        return _Cause(injected if is_known else None, False, reason, trials.runs, trials.calls)

    def _put_right(self, step: int, correction: Correction, script: Script, trials: _PoolTrials) -> str:
        """Return why putting a step right does not show that it decided the failure; nothing where it does."""
        calls = sum(1 for answer in script.answers if answer.step > correction.step)
        suspect = StepToVerify(correction.step, script.trace.steps[step].agent, 1.0, calls)
        try:
            [result] = verify(
                [suspect],
                script,
                [_Written(correction)],
                trials,
                repeats=1 if self._is_repeatable else _REPEATS,
                budget=CallBudget(10 * _REPEATS * (calls + 4)),
            )
        except ConfigError as error:
            return str(error)
        return "" if result.outcome == "confirmed" else result.reason


@dataclass(frozen=True, slots=True)
class _Cause:
    """What decided a failure, whether replay shows it, why not, and what it took to find."""

    step: int | None
    is_replayed: bool
    reason: str
    runs: int
    calls: int


class _Written:
    """A correction that is there already: the twin's word."""

    source, cost = "twin", 0

    def __init__(self, correction: Correction) -> None:
        self._correction = correction

    def write(self, step: int) -> Correction:
        """Return it."""
        del step
        return self._correction


@dataclass
class _PoolTrials:
    """Goes on with one recorded run, in the processes of a pool."""

    pool: WorkerPool
    task: str
    script: Script
    twin: Script
    runs: int = 0
    calls: int = 0

    def original(self) -> Trial:
        """Play the recording back."""
        return self.run((), 0)

    def run(self, corrections: Sequence[Correction], most_asked: int) -> Trial:
        """Go on with the run, the steps of *corrections* put right."""
        results = (*self.script.results, *self.twin.results)
        self.runs += 1
        try:
            trial: Trial = self.pool.ask(ReplayRun(self.task, self.script, tuple(corrections), most_asked, results))
        except RunEnded as ended:
            return Trial(Ran("", None), trouble=f"it {ended}")
        self.calls += trial.asked
        return trial


def differences(script: Script, twin: Script) -> Iterator[tuple[int, Correction]]:
    """Yield the steps at which a run differs from its twin, each with what puts it right: the twin's answer.

    An agent's third answer is held against its third in the twin; a tool's, against that to the same call.
    """
    answers: dict[str, list[RecordedAnswer]] = defaultdict(list)
    for answer in twin.answers:
        answers[answer.agent].append(answer)
    turns: Counter[str] = Counter()
    for answer in script.answers:
        turn = turns[answer.agent]
        turns[answer.agent] += 1
        if turn >= len(answers[answer.agent]) or answer.step != int(answer.step) or answer.step < 0:
            continue
        right = answers[answer.agent][turn].said
        if _strip_ids(right) != _strip_ids(answer.said):
            yield _step_of_change(script.trace, answer, right), Correction(int(answer.step), answer=right)
    results = {(result.tool, repr(result.arguments)): result for result in twin.results}
    for result in script.results:
        right_result = results.get((result.tool, repr(result.arguments)))
        if right_result is not None and not right_result.error and right_result.text != result.text:
            step = blamed_step(script.trace, result.step).index
            yield step, Correction(result.step, right_result.text)


def _strip_ids(said: Said) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return what an answer says and calls, without ids."""
    return said.text, tuple((call.name, repr(read_arguments(call.arguments))) for call in said.calls)


def _step_of_change(trace: MessageActionTrace, answer: RecordedAnswer, right: Said) -> int:
    """Find the step that shows the first thing an answer has and the right one has not: one of several calls.

    Where a message shows the calls before they are made (LangGraph's do), that is the earliest step.
    """
    if 0 <= answer.message < answer.step:
        return answer.message
    there = _strip_ids(right)[1]
    for call in _strip_ids(answer.said)[1]:
        if call in there:
            continue
        for step in trace.steps[int(answer.step) :]:
            name, _, arguments = step.content.partition("(")
            if (step.kind, step.agent) == ("tool_call", answer.agent) and call == (
                name,
                repr(read_arguments(arguments.removesuffix(")"))),
            ):
                return step.index
    return int(answer.step)


def cost_of(spans: Iterable[Span]) -> Cost:
    """Count how often models were asked, the tokens that they say, and what these cost."""
    prices = prices_in_use() or {}
    calls = tokens = 0
    usd: float | None = 0.0
    for span in spans:
        if span.attributes.get(words.OPERATION) != words.OPERATION_CHAT:
            continue
        read, written = (span.integer(key) or 0 for key in (words.INPUT_TOKENS, words.OUTPUT_TOKENS))
        calls, tokens = calls + 1, tokens + read + written
        named = (span.text(key) for key in (words.RESPONSE_MODEL, words.REQUEST_MODEL))
        price = price_of(filter(None, named), prices) if read or written else (0.0, 0.0)
        usd = None if usd is None or price is None else usd + read * price[0] + written * price[1]
    return Cost(calls, tokens, usd)


def total_cost(done: Iterable[Done]) -> Cost:
    """Add up what runs cost."""
    runs = list(done)
    costs = [run.usd for run in runs if run.usd is not None]
    usd = math.fsum(costs) if len(costs) == len(runs) else None
    return Cost(sum(run.calls for run in runs), sum(run.tokens for run in runs), usd)


def _why(done: Done) -> str:
    if done.reason or done.error:
        return done.reason or done.error
    return "its answer is wrong" if done.succeeded is False else "no agent was seen to decide anything"


def _forever(value: Any) -> Iterator[Any]:
    while True:
        yield value
