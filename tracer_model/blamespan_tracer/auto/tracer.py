"""The tracer `auto`, from top to bottom: ledger and checks, features of steps, one model, evidence, error mode."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from blamespan import __version__
from blamespan.attribution import NOBODY_KNOWS, Attribution, Evidence, ModeBlame, TracerIdentity
from blamespan.pipeline import ask_part
from blamespan.taxonomy import MAST, ORCHESTRATION, ErrorMode
from blamespan.trace import MessageActionTrace
from blamespan_tracer.abstention import abstention_reason
from blamespan_tracer.auto.causes import find_cause
from blamespan_tracer.auto.evidence import DoubtedClaim, find_doubted_claims, quote_steps
from blamespan_tracer.auto.loops import find_loops, fold_loops
from blamespan_tracer.auto.observed_run import ReadRun, judge_claims, observe
from blamespan_tracer.auto.parallel_calls import order_parallel_calls, restore_order
from blamespan_tracer.auto.plain_features import plain_features
from blamespan_tracer.auto.step_model import StepScores, evidence_features
from blamespan_tracer.auto.step_prior import prior_features
from blamespan_tracer.auto.weights import BUNDLED, AutoWeights
from blamespan_tracer.checks import CHECKS, Check, ExaminedRun, checks_in_use
from blamespan_tracer.checks.alarms import failure_score_of, find_alarms
from blamespan_tracer.checks.bundled.orchestration import find_broken_orchestration
from blamespan_tracer.checks.in_use import digest_files
from blamespan_tracer.checks.tracer import attribute_results
from blamespan_tracer.checks.usual_course import PREFIX
from blamespan_tracer.heads import choose_head
from blamespan_tracer.ledger.ledger import TASK, Ledger
from blamespan_tracer.modes import mode_of, mode_of_step
from blamespan_tracer.outcome_head import OutcomeHead, outcome_heads_in_use
from blamespan_tracer.step_head import StepHead, step_heads_in_use

_log = logging.getLogger(__name__)

_REPETITION = MAST["FM-1.3"]
_MAX_EVIDENCE = 3
_MAX_MODES = 3
_LEAST_DOUBT = 1.0
"""Score, above that of usual sound claims, from which on a contradicted claim may call a run failed."""
_LEAST_AGREEMENT = 5
"""Words around two different values without a unit that agree, from which on they are taken to be of the same."""
_LEAST_NATS = 3.5
"""Of broken checks, likewise."""
_SURE_OF_CAUSE = 0.75
"""Failure score, at least, of a run that failed by something else than its agents: its last word says that it did."""
_SHARE_OF_ALARM = 2 / 3
"""Of the blame, for the step of a check that raises the alarm by itself: more than all others together."""


class AutoTracer:
    """Attributes runs of every kind.

    Each step has a score: what the run says against it (claims that contradict their sources, broken checks,
    repetition), and where mistakes usually are. One model weighs both.

    A broken check that hardly any sound run breaks raises the alarm by itself, and its step is blamed most, unless the
    run puts it right later: see `blamespan_tracer.checks.alarms`. Where a workflow's run contradicts its own record (a
    branch, a variable, an output), that alone is judged: no model was trained on runs of workflow platforms.

    Args:
        weights: What it was trained to.
        outcome_heads: Each says how likely a run of its team failed, as a user's own runs taught it.
        step_heads: Each says which steps decide in its team, as a user's own labels taught it.
        checks: What is checked.
        check_files: Digest of the files that some of them were read from; empty where all are installed.
    """

    def __init__(
        self,
        weights: AutoWeights,
        outcome_heads: Sequence[OutcomeHead] = (),
        step_heads: Sequence[StepHead] = (),
        checks: Sequence[Check] = CHECKS,
        check_files: str = "",
    ) -> None:
        self._weights, self._outcome_heads, self._step_heads = weights, tuple(outcome_heads), tuple(step_heads)
        self._checks, self._check_files = tuple(checks), check_files
        self._identity = TracerIdentity("auto", __version__, weights.digest)

    @classmethod
    def bundled(cls) -> AutoTracer:
        """Load the weights that came with the package.

        Raises:
            TracerUnavailable: if they are missing or damaged.
        """
        return cls(AutoWeights.load(BUNDLED))

    @classmethod
    def in_use(cls) -> AutoTracer:
        """Load the bundled weights beside the checks and the heads of the environment.

        See `checks_in_use`, `outcome_heads_in_use` and `step_heads_in_use`.

        Raises:
            ConfigError: if a variable is wrong.
            TracerUnavailable: if weights are missing or damaged.
        """
        weights = AutoWeights.load(BUNDLED)
        return cls(weights, outcome_heads_in_use(), step_heads_in_use(), checks_in_use(), digest_files())

    @property
    def identity(self) -> TracerIdentity:
        """Name, version and weights digest."""
        return self._identity

    @property
    def settings(self) -> dict[str, str | float]:
        """What decides its verdicts beside the weights."""
        settings: dict[str, str | float] = {}
        if self._check_files:
            settings["checks"] = self._check_files
        if self._outcome_heads:
            settings["outcome head"] = "+".join(sorted(head.digest for head in self._outcome_heads))
        if self._step_heads:
            settings["step head"] = "+".join(sorted(head.digest for head in self._step_heads))
        return settings

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        """Attribute each run; one verdict per trace, in order."""
        return [self._attribute(trace) for trace in traces]

    def _attribute(self, trace: MessageActionTrace) -> Attribution:
        ordered, places = order_parallel_calls(trace)
        verdict = self._judge_orchestration(ordered)
        if verdict is None and (reason := abstention_reason(ordered)) is not None:
            verdict = Attribution.abstain(ordered, reason, self._identity)
        return restore_order(verdict or self._judge(self.read(ordered)), places)

    def read(self, trace: MessageActionTrace, ledger: Ledger | None = None) -> ReadRun:
        """Read a run: its claims unless they are given, what its checks come to, and plain features of its steps."""
        run = ExaminedRun(trace, ledger)
        results = [result for check in self._checks for result in check.apply(run)]
        observed = judge_claims(observe(trace, results, run.ledger), self._weights.claims)
        can_be_blamed = np.array([trace.can_be_blamed(step) for step in trace.steps], np.bool_)
        return ReadRun(run, results, observed, plain_features(trace), can_be_blamed, find_loops(trace))

    def score(self, run: ReadRun) -> StepScores:
        """Return what the model says of a run."""
        return self._weights.model.score(
            evidence_features(run.observed),
            run.observed.n_claims,
            run.observed.decides,
            prior_features(run.plain),
            run.can_be_blamed,
        )

    def _judge(self, run: ReadRun) -> Attribution:
        scores, doubted = self.score(run), find_doubted_claims(run.observed)
        shown = [_is_shown(run, doubted, step) for step in range(len(run.trace.steps))]
        parts = (scores.shares, np.where(shown, scores.by_evidence, 0.0))
        shares, by_evidence = (fold_loops(part, run.loops) for part in parts)
        verdict = self._build_verdict(run, doubted, shares, by_evidence=by_evidence.tolist())
        failure_score = self._score_failure(run, scores, doubted)
        verdict = self._blame_alarms(run, replace(verdict, failure_score=failure_score, unaided_score=failure_score))
        step_head, known = choose_head(self._step_heads, run.trace)
        if step_head is not None:
            by_tracer = np.array([step.score for step in verdict.steps])
            by_head = step_head.share(run, by_tracer)
            set_mass = known * step_head.set_mass + (1 - known) * verdict.coverage
            taught = self._build_verdict(run, doubted, known * by_head + (1 - known) * by_tracer, set_mass=set_mass)
            if taught.decisive_step is not None:
                learnt = step_head.rank_kinds(run, by_tracer, taught.decisive_step)
                leads = step_head.kinds is not None and step_head.kinds.leads
                taught = replace(taught, modes=tuple(_rank_modes(run, taught, doubted, learnt, leads=leads)))
            verdict = replace(taught, failure_score=verdict.failure_score, unaided_score=verdict.unaided_score)
        outcome_head, known = choose_head(self._outcome_heads, run.trace)
        if outcome_head is not None:
            suspicion = verdict.unaided_score or 0.0
            score = known * outcome_head.failure_score(run.trace, suspicion) + (1 - known) * suspicion
            verdict = replace(verdict, failure_score=score, unaided_score=score)
        return self._blame_cause(run, verdict, doubted)

    def _blame_cause(self, run: ReadRun, verdict: Attribution, doubted: Mapping[int, DoubtedClaim]) -> Attribution:
        """Return the verdict with what the run failed by where that is no agent, and nothing shows an agent's mistake.

        A claim that contradicts the task is none where the task contradicts itself.
        """
        failure = f"no cause beside agents is looked for in trace {run.trace.trace_id}"
        cause = ask_part(lambda: find_cause(run.examined), _log, failure)
        if cause is None:
            return verdict
        is_torn = cause.kind == "task" and cause.step is None
        alarms = [alarm for alarm in find_alarms(run.trace, run.results) if not alarm.check.is_symptom]
        by_task = [alarm.source is not None and alarm.source.step is None for alarm in alarms]
        by_task += [one.contradiction.source.step == TASK for one in doubted.values() if _tells_failure(one)]
        if not all(is_torn and one for one in by_task):
            return verdict
        score = max(verdict.failure_score, _SURE_OF_CAUSE)
        return replace(verdict, cause=cause, failure_score=score, unaided_score=score)

    def _build_verdict(
        self,
        run: ReadRun,
        doubted: Mapping[int, DoubtedClaim],
        shares: NDArray[np.float64],
        *,
        by_evidence: Sequence[float] | None = None,
        set_mass: float | None = None,
    ) -> Attribution:
        """Lay out (T,) shares of the blame as a verdict: who, for what, and what shows it.

        What a user taught of their own team is no mere prior: no part of such shares is told apart.
        """
        given, failure = shares.tolist(), f"no evidence is quoted of trace {run.trace.trace_id}"
        quotes = ask_part(lambda: quote_steps(run.observed, run.trace, given, doubted, run.results), _log, failure)
        verdict = Attribution.of(
            run.trace,
            given,
            failure_score=NOBODY_KNOWS,
            by_evidence=by_evidence,
            tracer=self._identity,
            coverage=self._weights.set_mass if set_mass is None else set_mass,
            evidence=quotes or [],
        )
        return replace(verdict, modes=tuple(_rank_modes(run, verdict, doubted)))

    def _score_failure(self, run: ReadRun, scores: StepScores, doubted: Mapping[int, DoubtedClaim]) -> float:
        """Return how likely the run failed, on a scale on which the alarm lies at a half.

        It does not call a run failed for missing sources alone: models know much that no step records. Nor for an
        action that was tried once more, for another value between a few of the same words, or for what nearly equals
        another name or a date of the task: sound runs show these as often as failed ones.
        """
        alarm = self._weights.alarm
        score = float(np.interp(scores.probability, (0.0, alarm, max(alarm, 1.0)), (0.0, NOBODY_KNOWS, 1.0)))
        step = int(scores.evidence.argmax())
        raises_alarm = (
            (step in doubted and _tells_failure(doubted[step]))
            or run.observed.checks[step] >= _LEAST_NATS
            or any(step in loop for loop in run.loops)
        )
        return score if raises_alarm else min(score, NOBODY_KNOWS)

    def _judge_orchestration(self, trace: MessageActionTrace) -> Attribution | None:
        """Return who is to blame by what a workflow's run contradicts, however it ended; None where it does not."""
        broken = find_broken_orchestration(trace)
        if not broken:
            return None
        verdict = attribute_results(trace, broken, self._identity)
        if verdict.abstained is not None:
            return None
        if trace.outcome == "failed":  # nodes that failed are among what is broken for that alone
            built_in = [result for result in broken if result.check.mode and result.check.mode.code in ORCHESTRATION]
            unaided = attribute_results(trace, built_in, self._identity).failure_score if built_in else 0.0
            verdict = replace(verdict, unaided_score=unaided)
        return verdict

    def _blame_alarms(self, run: ReadRun, verdict: Attribution) -> Attribution:
        """Return the verdict with the checks heard that raise the alarm by themselves: their steps are blamed most.

        Where only symptoms raise it, a verdict that is an alarm already keeps its steps.
        """
        alarms = find_alarms(run.trace, run.results)
        if not alarms or (alarms[0].check.is_symptom and verdict.calls_failed):
            return verdict
        by_rule = attribute_results(run.trace, alarms, self._identity)
        decisive = by_rule.decisive_step
        assert decisive is not None
        shares = [(1 - _SHARE_OF_ALARM) * step.score for step in verdict.steps]
        shares[decisive] += _SHARE_OF_ALARM
        by_evidence = [(1 - _SHARE_OF_ALARM) * (step.by_evidence or 0.0) for step in verdict.steps]
        by_evidence[decisive] += _SHARE_OF_ALARM
        score = max(failure_score_of(alarms), verdict.failure_score)
        quoted: dict[tuple[int, str], Evidence] = {}
        for item in (*by_rule.evidence, *verdict.evidence):
            quoted.setdefault((item.index, item.quote), replace(item, score=shares[item.index]))
        return Attribution.of(
            run.trace,
            shares,
            failure_score=score,
            unaided_score=score,
            by_evidence=by_evidence,
            tracer=self._identity,
            modes=by_rule.modes,
            evidence=sorted(quoted.values(), key=lambda item: -item.score)[:_MAX_EVIDENCE],
            coverage=verdict.coverage,
        )


def _tells_failure(doubted: DoubtedClaim) -> bool:
    """Check whether a doubted claim may call a run failed by itself."""
    value, found = doubted.claim.mention.value, doubted.contradiction
    if found.kind == "near":
        is_told = value.form != "name" and not (value.form == "date" and found.source.step == TASK)
    else:
        is_told = found.kind != "context" or bool(value.quantity) or found.agreement >= _LEAST_AGREEMENT
    return is_told and doubted.score >= _LEAST_DOUBT


def _is_shown(run: ReadRun, doubted: Mapping[int, DoubtedClaim], step: int) -> bool:
    """Check whether anything in the run shows a mistake of a step: a contradiction, a broken check, repetition."""
    return bool(
        (step in doubted and doubted[step].score >= _LEAST_DOUBT)
        or run.observed.checks[step] >= _LEAST_NATS
        or run.observed.repeats[step] > 0
    )


def list_modes(run: ReadRun, doubted: Mapping[int, DoubtedClaim], step: int) -> tuple[list[ErrorMode], list[ErrorMode]]:
    """Return the modes that findings name for a step, and those that it has for want of better, each in order.

    What is off the usual course is no name for the error: it says what is missing, not why.
    """
    named = [_REPETITION] if any(step == loop[0] for loop in run.loops) else []
    if step in doubted:
        named.append(mode_of(run.trace, step, doubted[step].contradiction.source.step))
    failed = [result for result in run.results if result.step == step and result.outcome == "fail"]
    named += [result.mode for result in failed if result.mode and not result.check.name.startswith(PREFIX)]
    guessed = [result.mode for result in failed if result.mode and result.check.name.startswith(PREFIX)]
    return named, [*guessed, mode_of_step(run.trace, step)]


def _rank_modes(
    run: ReadRun,
    verdict: Attribution,
    doubted: Mapping[int, DoubtedClaim],
    learnt: Sequence[ErrorMode] = (),
    *,
    leads: bool = False,
) -> list[ModeBlame]:
    """Return the modes of the decisive step by what speaks against it, the most telling first.

    Args:
        run: As it is read.
        verdict: On it.
        doubted: Its claims that are doubted.
        learnt: What a head says that the mode is, the likeliest first.
        leads: Whether that is heard before what findings name.
    """
    step = verdict.decisive_step
    if step is None:
        return []
    agent, score = verdict.steps[step].agent, verdict.steps[step].score
    named, guessed = list_modes(run, doubted, step)
    modes = dict.fromkeys((*learnt, *named, *guessed) if leads else (*named, *learnt, *guessed))
    return [ModeBlame(mode, agent, score / (1 + rank)) for rank, mode in enumerate(modes)][:_MAX_MODES]
