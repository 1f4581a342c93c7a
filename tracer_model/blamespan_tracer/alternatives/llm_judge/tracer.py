"""The judge as a tracer: the embedded verdict first, and an LLM's opinion where asking pays."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Self

from blamespan import __version__
from blamespan.analysis.showing.legible import counted
from blamespan.attribution import NOBODY_KNOWS, Attribution, Evidence, ModeBlame, Opinion, TracerIdentity
from blamespan.taxonomy import ErrorMode
from blamespan.trace import MessageActionTrace
from blamespan.tracers import Tracer, load_tracer
from blamespan_tracer.abstention import abstention_reason
from blamespan_tracer.alternatives.llm_judge.answers import Diagnosis, find_quote, read_diagnosis
from blamespan_tracer.alternatives.llm_judge.budget import RunSpending, Unanswered, shared_account
from blamespan_tracer.alternatives.llm_judge.client import Deadline, JudgeClient
from blamespan_tracer.alternatives.llm_judge.combination import (
    STATED,
    Combination,
    chance_right,
    combinations_in_use,
    gain_of_asking,
)
from blamespan_tracer.alternatives.llm_judge.prompts import VERSION, offered_modes
from blamespan_tracer.alternatives.llm_judge.settings import JudgeSettings
from blamespan_tracer.alternatives.llm_judge.shown_run import ShownRun, shown_steps
from blamespan_tracer.heads import choose_head

_log = logging.getLogger(__name__)

MOST_QUESTIONS: Final = 3
"""Questions about a run that is not shown whole: one, and two more in which the model sees what it asked for."""
_MOST_EVIDENCE: Final = 3
_COUNT_PHRASES: Final = {
    "kept": "answered from the cache",
    "refused": "attempts that came to nothing",
    "lost": "of them perhaps paid for, counted as estimated",
    "disbelieved": "whose cost the server cannot have counted right, counted as estimated",
    "unreadable": "answers that could not be read",
}


@dataclass(frozen=True, slots=True)
class Worth:
    """Whether asking about a run pays.

    Attributes:
        is_asked: Whether it is asked about.
        gain: By how much asking raises the chance that the right step is named, 0..1; None where that is not the point.
        reason: Why it is not asked about, or why it is.
    """

    is_asked: bool
    gain: float | None
    reason: str


class JudgeTracer:
    """Attributes runs by an embedded tracer, and asks an LLM where that is unsure.

    - The embedded verdict stands, under its own name, where the run does not look failed, or the gain of asking is
      small. Where no answer comes, cannot be read, or does not fit in a budget or the time, it stands too, and the
      opinion beside it says why.
    - Else the two are combined, as a later verdict: see `Combination`. Both opinions stand beside it.
    - Without an embedded tracer every run is asked about, and the answer alone is the verdict.

    As deterministic as the model behind it: it is asked for temperature 0, and kept answers are given again.

    Args:
        settings: Whom to ask, when, and how much.
        embedded: The embedded tracer.
        combinations: Those that were fitted, the newest first.
        pause_s: Seconds before an endpoint is asked again.
    """

    def __init__(
        self,
        settings: JudgeSettings,
        embedded: Tracer | None = None,
        combinations: Sequence[Combination] = (),
        *,
        pause_s: float = 0.5,
    ) -> None:
        self._settings = settings
        self._embedded = embedded
        self._combinations = tuple(combinations)
        self._client = JudgeClient(settings, pause_s=pause_s)
        self._offered = offered_modes(settings.taxonomy)
        self._speaker = f"judge {settings.endpoint.model}"
        beside = "" if embedded is None else f" + {embedded.identity.name} {embedded.identity.version}"
        digests = "+".join(head.digest for head in self._combinations)
        version = f"{__version__} prompts {VERSION} {settings.endpoint.model}{beside}"
        self._identity = TracerIdentity("judge", version, digests)

    @classmethod
    def from_environment(cls) -> Self:
        """Set it up by the `BLAMESPAN_JUDGE_*` variables; processes that this one starts count into the same account.

        Raises:
            ConfigError: if one is missing or wrong.
            TracerUnavailable: if the embedded tracer or a fitted combination cannot be loaded.
        """
        return cls.with_settings(JudgeSettings.from_environment())

    @classmethod
    def with_settings(cls, settings: JudgeSettings) -> Self:
        """Set it up by settings that were read, with the embedded tracer that they name.

        Raises:
            ConfigError: if the account cannot be used, or there is no such tracer.
            TracerUnavailable: if the embedded tracer or a fitted combination cannot be loaded.
        """
        settings = replace(settings, account=shared_account())
        embedded = load_tracer(settings.embedded) if settings.embedded is not None else None
        return cls(settings, embedded, combinations_in_use())

    @property
    def first(self) -> Tracer | None:
        """The embedded tracer, whose verdicts need not wait for an endpoint; None without one."""
        return self._embedded

    @property
    def identity(self) -> TracerIdentity:
        """Name, and as the version ours, that of the prompts, the model and the embedded tracer."""
        return self._identity

    @property
    def settings(self) -> dict[str, Any]:
        """What beside its identity decides its verdicts."""
        settings = self._settings
        decisive = {name: getattr(settings, name) for name in ("taxonomy", "context_tokens", "answer_tokens")}
        if self.first is None:
            return decisive
        first = self.first.identity
        return {**decisive, "least_gain": settings.least_gain, "embedded": [first.name, first.version, first.weights]}

    @property
    def account(self) -> str:
        """Return in one line what was asked and what it cost, in all processes that share the account."""
        budget = self._client.budget
        count = budget.counts
        spent = budget.cost(count["input"], count["output"])
        parts = [f"{counted(count['questions'], 'question')} to {self._settings.endpoint.model}"]
        parts += [f"{count[name]:,} {phrase}" for name, phrase in _COUNT_PHRASES.items() if count[name]]
        guessed = f", {count['estimated']:,} of them estimated" if count["estimated"] else ""
        parts.append(f"{counted(count['input'], 'token')} asked and {count['output']:,} answered{guessed}")
        if self._settings.price is not None:
            bound = self._settings.total.money
            parts.append(f"cost ${spent:.4f}{f' of ${bound:g}' if bound is not None else ''}")
        if reserved := count["held_input"] + count["held_output"]:
            parts.append(f"{counted(reserved, 'token')} held back for questions whose end is not known")
        if self.first is not None:
            gain = (
                f", {count['gain_percent'] / count['asked']:.0f} % more right steps expected" if count["asked"] else ""
            )
            parts.append(f"{count['asked']:,} of {count['seen']:,} runs asked about{gain}")
        return "; ".join(parts)

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        """Attribute each run; one verdict per trace, in order. Returns when the deadline has passed, if one is set."""
        deadline = Deadline.after(self._settings.deadline_s)
        first: Sequence[Attribution | None] = [None] * len(traces)
        if self.first is not None:
            first = [
                verdict.as_it_ended(trace) for trace, verdict in zip(traces, self.first.attribute(traces), strict=True)
            ]
        worth = [self.worth(trace, verdict) for trace, verdict in zip(traces, first, strict=True)]
        n_asked = sum(item.is_asked for item in worth)
        with ThreadPoolExecutor(max(1, min(self._settings.concurrency, n_asked))) as threads:
            verdicts = list(threads.map(partial(self._judge, deadline=deadline), traces, first, worth))
        if n_asked:
            _log.info("%s", self.account)
        return verdicts

    def worth(self, trace: MessageActionTrace, verdict: Attribution | None) -> Worth:
        """Say whether asking about a run pays, given the embedded verdict where there is one."""
        reason = abstention_reason(trace)
        if reason is not None:
            return Worth(False, None, reason)
        if verdict is None:
            return Worth(True, None, "no embedded tracer")
        if trace.outcome != "failed" and not verdict.calls_failed:
            return Worth(False, None, "the run does not look failed")
        chance = chance_right(trace, verdict)
        gain = gain_of_asking(chance, self._combination(trace).accuracy)
        least = self._settings.least_gain
        told = f"its step is right with a chance of {chance:.2f}; asking is expected to gain {gain:.2f}"
        if gain < least or (least > 0 and gain == 0):
            return Worth(False, gain, f"{told}, less than {least:g}")
        return Worth(True, gain, told)

    def wants(self, trace: MessageActionTrace, verdict: Attribution) -> bool:
        """Check whether it would ask about a run, given the embedded verdict."""
        return self.worth(trace, verdict).is_asked

    def show(self, trace: MessageActionTrace, verdict: Attribution | None) -> ShownRun:
        """Return what the model would be shown of a run."""
        return ShownRun.of(trace, verdict, self._settings.context_tokens)

    def examine(
        self, trace: MessageActionTrace, verdict: Attribution | None, deadline: Deadline | None = None
    ) -> Diagnosis:
        """Ask about a run, and again where the model wants to see more of a long one.

        Raises:
            Unanswered: if there is no answer that counts.
        """
        spending, deadline = RunSpending(), deadline or Deadline.after(self._settings.deadline_s)
        shown: ShownRun | None = self.show(trace, verdict)
        diagnosis: Diagnosis | None = None
        for _ in range(MOST_QUESTIONS):
            assert shown is not None
            question = shown.question()
            read = partial(
                read_diagnosis,
                case=shown.case,
                offered=self._offered,
                shown=shown_steps(question.document),
            )
            try:
                diagnosis = self._client.ask(question, read, deadline, spending)
            except Unanswered:
                if diagnosis is None:
                    raise
                break  # what was answered before counts
            shown = shown.with_steps(diagnosis.see)
            if shown is None:
                break
        assert diagnosis is not None
        return diagnosis

    def _judge(
        self, trace: MessageActionTrace, first: Attribution | None, worth: Worth, deadline: Deadline
    ) -> Attribution:
        if first is not None:
            self._client.budget.count("seen")
        if not worth.is_asked:
            return first or Attribution.abstain(trace, worth.reason, self._identity)
        if worth.gain is not None:
            self._client.budget.count("asked")
            self._client.budget.count("gain_percent", round(100 * worth.gain))
        try:
            diagnosis = self.examine(trace, first, deadline)
        except Unanswered as error:
            if first is None:
                return Attribution.abstain(trace, str(error), self._identity)
            silent = Opinion(self._speaker, None, 0.0, str(error))
            return replace(first, opinions=(_opinion_of(first), silent))
        return self._combine(trace, first, diagnosis)

    def _combination(self, trace: MessageActionTrace) -> Combination:
        fitted, _ = choose_head(self._combinations, trace)
        return fitted or STATED

    def _combine(self, trace: MessageActionTrace, first: Attribution | None, diagnosis: Diagnosis) -> Attribution:
        """Build the verdict; nobody at fault, or a run more likely sound than not, is said as such."""
        failed = diagnosis.chance_failed
        if first is not None and first.abstained is None:
            failed = (failed + first.failure_score) / 2
        best = diagnosis.suspects[0] if diagnosis.suspects else None
        note = "" if best is not None else "names no agent at fault"
        own = Opinion(self._speaker, best.step if best else None, min(best.weight, 1.0) if best else 0.0, note)
        if first is None:
            is_sound = failed <= NOBODY_KNOWS and trace.outcome != "failed"
            if best is None or is_sound:
                reason = f"the judge names no agent at fault (failure score {failed:.2f})"
                return replace(Attribution.abstain(trace, reason, self._identity), failure_score=failed)
            shares = [0.0] * len(trace.steps)
            for suspect in diagnosis.suspects:
                shares[suspect.step] = suspect.weight
        elif first.decisive_step is None:
            return (
                replace(first, opinions=(_opinion_of(first), own))
                if best is None
                else replace(
                    self._combine(trace, None, diagnosis),
                    revision=first.revision + 1,
                    opinions=(_opinion_of(first), own),
                )
            )
        else:
            shares = self._combination(trace).share(trace, first, diagnosis).tolist()
        verdict = Attribution.of(
            trace,
            shares,
            failure_score=min(max(failed, 0.0), 1.0),
            tracer=self._identity,
            modes=_join_modes(trace, first, diagnosis),
            evidence=_join_evidence(trace, first, diagnosis, shares),
        )
        if first is None:
            return verdict
        return replace(
            verdict,
            revision=first.revision + 1,
            unaided_score=first.unaided_score,
            opinions=(_opinion_of(first), own),
        )


def _opinion_of(verdict: Attribution) -> Opinion:
    step = verdict.decisive_step
    score = verdict.steps[step].score if step is not None else 0.0
    return Opinion(f"{verdict.tracer.name} {verdict.tracer.version}".strip(), step, score, verdict.abstained or "")


def _join_modes(trace: MessageActionTrace, first: Attribution | None, diagnosis: Diagnosis) -> list[ModeBlame]:
    """Give each agent the modes of both; of one that both name, the higher score."""
    best: dict[tuple[ErrorMode, str], float] = {
        (blame.mode, blame.agent): blame.score for blame in (first.modes if first is not None else ())
    }
    for suspect in diagnosis.suspects:
        for mode in suspect.modes:
            key = (mode, trace.steps[suspect.step].agent)
            best[key] = max(best.get(key, 0.0), min(suspect.weight, 1.0))
    return [ModeBlame(mode, agent, score) for (mode, agent), score in best.items()]


def _join_evidence(
    trace: MessageActionTrace, first: Attribution | None, diagnosis: Diagnosis, shares: Sequence[float]
) -> list[Evidence]:
    """Quote both, each step once: what disagrees before what the model quotes, and only what stands in the step."""
    total = sum(shares)
    quotes = {item.index: replace(item, score=shares[item.index] / total) for item in (first.evidence if first else ())}
    for suspect in diagnosis.suspects:
        words = find_quote(trace.steps[suspect.step], suspect.quote)
        known = quotes.get(suspect.step)
        if words and (known is None or known.contradicts is None):
            quotes[suspect.step] = Evidence(suspect.step, words, shares[suspect.step] / total)
    return sorted(quotes.values(), key=lambda item: -item.score)[:_MOST_EVIDENCE]
