"""The tracer `auto`: weighs what a run says against itself, beside where mistakes usually are."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blamespan import __version__
from blamespan.attribution import NOBODY_KNOWS, Attribution, Evidence, ModeBlame, TracerIdentity
from blamespan.errors import TracerUnavailable
from blamespan.pipeline import ask_part
from blamespan.taxonomy import MAST, ORCHESTRATION
from blamespan.trace import MessageActionTrace
from blamespan_tracer.abstention import abstention_reason
from blamespan_tracer.auto.claim_model import ClaimModel
from blamespan_tracer.auto.evidence import quote_claims
from blamespan_tracer.auto.evidence_pointer import evidence_features
from blamespan_tracer.auto.experts import RUN_KINDS, labelled_team_features
from blamespan_tracer.auto.loops import find_loops, fold_loops
from blamespan_tracer.auto.observations import ObservedRun, SurpriseTable, judge_claims, observe
from blamespan_tracer.auto.parallel_calls import order_parallel_calls, restore_order
from blamespan_tracer.auto.plain_features import plain_features
from blamespan_tracer.auto.weights import AutoWeights
from blamespan_tracer.checks import CONTRACTS, Check, CheckResult, apply_checks, checks_in_use
from blamespan_tracer.checks.alarms import failure_score_of, find_alarms
from blamespan_tracer.checks.bundled.orchestration import find_broken_orchestration
from blamespan_tracer.checks.in_use import digest_files
from blamespan_tracer.checks.tracer import attribute_results
from blamespan_tracer.heads import share_known
from blamespan_tracer.lexical import LexicalTracer
from blamespan_tracer.network.inputs import RunInputs
from blamespan_tracer.network.prose_expert import gate_features
from blamespan_tracer.network.tracer import NetworkPrediction, NetworkTracer
from blamespan_tracer.outcome_head import OutcomeHead, outcome_head_in_use
from blamespan_tracer.step_head import StepHead, step_head_in_use

__all__ = ["AutoTracer", "ProseReading", "opinion_of_network", "read_prose", "shares_of_steps"]

BUNDLED = Path(__file__).parents[1] / "weights" / "auto.safetensors"

_REPETITION = MAST["FM-1.3"]
_LEAST_SHARE = 1e-4
_MAX_EVIDENCE = 3
_LEAST_SURPRISE = 3.5
"""In nats: what more than one sound claim in 33 shows contradicts nothing."""
_SHARE_OF_ALARM = 2 / 3
"""Of the blame, for the step of a check that raises the alarm by itself: more than all others together."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ProseReading:
    """What is read of a run.

    Dims: T steps of the run.

    Attributes:
        observed: What stands out.
        features: (T, F) of `evidence_features`, and
        n_claims: the logarithm of how many claims there are.
        network: (T,) shares of the blame by the network, and
        lexical: (T,) by the lexical tracer.
        plain: (T, P) of `plain_features`.
        can_be_blamed: (T,) bool.
    """

    observed: ObservedRun
    features: NDArray[np.float32]
    n_claims: NDArray[np.float32]
    network: NDArray[np.float64]
    lexical: NDArray[np.float64]
    plain: NDArray[np.float64]
    can_be_blamed: NDArray[np.bool_]


class AutoTracer:
    """Attributes runs of every kind.

    Each step has a score: what the network says, or for teams like those of which people labelled failures what these
    taught of place and speaker; and on top of it what the run says against the step: claims that contradict their
    sources, broken checks, repetition.

    A broken check that hardly any sound run breaks raises the alarm by itself, and its step is blamed most, unless the
    run puts it right later: see `blamespan_tracer.checks.alarms`. Where a workflow's run contradicts its own record (a
    branch, a variable, an output), that alone is judged: no model was trained on runs of workflow platforms.

    Args:
        weights: What it was trained to.
        network: The tracer that it was trained beside, and
        lexical: the other one.
        outcome_head: Says how likely a run failed, where a user's own runs taught one; None where they did not.
        step_head: Says which steps decide what language models wrote, where a user's own labels taught one.
        checks: What may raise the alarm by itself.
        check_files: Digest of the files that some of them were read from; empty where all are installed.

    Raises:
        TracerUnavailable: if it was trained beside others.
    """

    def __init__(
        self,
        weights: AutoWeights,
        network: NetworkTracer,
        lexical: LexicalTracer,
        outcome_head: OutcomeHead | None = None,
        step_head: StepHead | None = None,
        checks: Sequence[Check] = CONTRACTS,
        check_files: str = "",
    ) -> None:
        beside = (network.network.digest, lexical.lexicon.digest)
        if (weights.network, weights.lexical) != beside:
            raise TracerUnavailable(
                f"expected the network {weights.network!r} and the lexicon {weights.lexical!r} that the tracer auto "
                f"was trained beside, got {beside!r}. Use `--tracer network`, or train auto again"
            )
        self._weights, self._network, self._lexical, self._outcome_head = weights, network, lexical, outcome_head
        self._step_head, self._checks, self._check_files = step_head, tuple(checks), check_files
        self._identity = TracerIdentity("auto", __version__, weights.digest)

    @classmethod
    def bundled(cls) -> AutoTracer:
        """Load the weights that came with the package.

        Raises:
            TracerUnavailable: if they are missing or damaged.
        """
        return cls(AutoWeights.load(BUNDLED), NetworkTracer.bundled(), LexicalTracer.bundled())

    @classmethod
    def in_use(cls) -> AutoTracer:
        """Load the bundled weights beside the network and the heads of the environment.

        See `NetworkTracer.in_use`, `outcome_head_in_use` and `step_head_in_use`.

        Raises:
            ConfigError: if a variable is wrong.
            MissingExtra: if a device is asked for and PyTorch is not installed.
            TracerUnavailable: if weights are missing or damaged, or there is no such device.
        """
        weights = AutoWeights.load(BUNDLED)
        network = NetworkTracer.in_use()
        if os.environ.get("BLAMESPAN_NETWORK_WEIGHTS", "").strip():
            weights = replace(weights, network=network.network.digest)
        return cls(
            weights,
            network,
            LexicalTracer.bundled(),
            outcome_head_in_use(),
            step_head_in_use(),
            checks_in_use(),
            digest_files(),
        )

    @property
    def identity(self) -> TracerIdentity:
        """Name, version and weights digest."""
        return self._identity

    @property
    def network(self) -> NetworkTracer:
        """The tracer that says where mistakes usually are."""
        return self._network

    @property
    def lexical(self) -> LexicalTracer:
        """The tracer that says whose words are like those of agents at fault."""
        return self._lexical

    @property
    def settings(self) -> dict[str, str | float]:
        """What decides its verdicts beside the weights."""
        settings: dict[str, str | float] = {"network": self._network.network.digest}
        if self._check_files:
            settings["checks"] = self._check_files
        if self._outcome_head is not None:
            settings["outcome head"] = self._outcome_head.digest
        if self._step_head is not None:
            settings["step head"] = self._step_head.digest
        return settings

    @property
    def device(self) -> str:
        """Where the network computes: `cpu`, or as PyTorch calls it."""
        return self._network.device

    @property
    def batch_runs(self) -> int:
        """How many runs it takes at once."""
        return self._network.batch_runs

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        """Attribute each run; one verdict per trace, in order."""
        ordered = [order_parallel_calls(trace) for trace in traces]
        verdicts = self._attribute([trace for trace, _ in ordered])
        return [restore_order(verdict, places) for verdict, (_, places) in zip(verdicts, ordered, strict=True)]

    def _attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        verdicts: dict[int, Attribution] = {}
        for index, trace in enumerate(traces):
            by_rule = self._judge_orchestration(trace)
            if by_rule is not None:
                verdicts[index] = by_rule
            elif (why := abstention_reason(trace)) is not None:
                verdicts[index] = Attribution.abstain(trace, why, self._identity)
        judged = [index for index in range(len(traces)) if index not in verdicts]
        readings = self._network.read([traces[index] for index in judged])
        for index, (run, results) in zip(judged, readings, strict=True):
            verdicts[index] = self._judge(traces[index], run, results)
        return [verdicts[index] for index in range(len(traces))]

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

    def _judge(self, trace: MessageActionTrace, run: RunInputs, results: Sequence[CheckResult]) -> Attribution:
        prediction, lexical = self._network.predict([run])[0], self._lexical.attribute([trace])[0]
        weights = self._weights
        kinds = weights.gate.weigh(gate_features(run.features)).astype(np.float64)
        reading = read_prose(trace, run, results, prediction, lexical, weights.table, weights.claims)
        scores, nothing = weights.pointer.score(reading.features, reading.n_claims, reading.observed.decides)
        shares = np.zeros(len(trace.steps))
        for share, kind in zip(kinds, RUN_KINDS, strict=True):
            if share > 0:
                shares += share * _share(weights, reading, scores, nothing, kind)
        loops = find_loops(trace)
        rows = _gather(run, fold_loops(shares, loops))
        set_mass = float(kinds @ [weights.set_mass[kind] for kind in RUN_KINDS])
        by_itself = replace(prediction, shares=rows, gate_weight=1.0, set_mass=set_mass)
        verdict = self._build_verdict(trace, run, results, by_itself, reading, loops)
        failure_score = _failure_score(weights, scores, nothing)
        if not _is_contradicted(weights, reading.observed, int(scores.argmax())):
            failure_score = min(failure_score, NOBODY_KNOWS)
        verdict = replace(verdict, failure_score=failure_score, unaided_score=failure_score)
        verdict = self._blame_alarms(trace, results, verdict)
        if self._step_head is not None and (known := share_known(self._step_head, trace)) > 0:
            by_tracer = np.array([step.score for step in verdict.steps])
            by_head = self._step_head.share(reading.plain, by_tracer, reading.can_be_blamed)
            taught = self._build_verdict(
                trace,
                run,
                results,
                replace(
                    by_itself,
                    shares=_gather(run, known * by_head + (1 - known) * by_tracer),
                    set_mass=known * self._step_head.set_mass + (1 - known) * set_mass,
                ),
                reading,
                loops,
            )
            verdict = replace(taught, failure_score=verdict.failure_score, unaided_score=verdict.unaided_score)
        if self._outcome_head is not None:
            suspicion = verdict.unaided_score or 0.0
            known = share_known(self._outcome_head, trace)
            score = known * self._outcome_head.failure_score(trace, suspicion) + (1 - known) * suspicion
            verdict = replace(verdict, failure_score=score, unaided_score=score)
        return verdict

    def _build_verdict(
        self,
        trace: MessageActionTrace,
        run: RunInputs,
        results: Sequence[CheckResult],
        prediction: NetworkPrediction,
        reading: ProseReading,
        loops: Sequence[Sequence[int]],
    ) -> Attribution:
        """Lay out shares of the blame as a verdict: who, for what, and what shows it."""
        verdict = self._network.build_verdict(trace, run, results, prediction)
        blames = [step.score for step in verdict.steps]
        failure = f"no claims are quoted of trace {trace.trace_id}"
        claims = (
            ask_part(lambda: quote_claims(trace, blames, reading.observed, self._weights.table), _log, failure) or []
        )
        quoted = {evidence.index for evidence in claims}
        evidence = [*claims, *(item for item in verdict.evidence if item.index not in quoted)]
        return replace(
            verdict,
            tracer=self._identity,
            modes=_name_loop(verdict, loops),
            evidence=tuple(sorted(evidence, key=lambda item: -item.score)[:_MAX_EVIDENCE]),
        )

    def _blame_alarms(
        self, trace: MessageActionTrace, results: Sequence[CheckResult], verdict: Attribution
    ) -> Attribution:
        """Return the verdict with the checks heard that raise the alarm by themselves: their steps are blamed most.

        Where only symptoms raise it, a verdict that is an alarm already keeps its steps.
        """
        known = {result.check for result in results}
        others = apply_checks([check for check in self._checks if check not in known], trace)
        alarms = find_alarms(trace, [*results, *others])
        if not alarms or (alarms[0].check.is_symptom and verdict.calls_failed):
            return verdict
        by_rule = attribute_results(trace, alarms, self._identity)
        decisive = by_rule.decisive_step
        assert decisive is not None
        shares = [(1 - _SHARE_OF_ALARM) * step.score for step in verdict.steps]
        shares[decisive] += _SHARE_OF_ALARM
        score = max(failure_score_of(alarms), verdict.failure_score)
        quoted: dict[tuple[int, str], Evidence] = {}
        for item in (*by_rule.evidence, *verdict.evidence):
            quoted.setdefault((item.index, item.quote), replace(item, score=shares[item.index]))
        return Attribution.of(
            trace,
            shares,
            failure_score=score,
            unaided_score=score,
            tracer=self._identity,
            modes=by_rule.modes,
            evidence=sorted(quoted.values(), key=lambda item: -item.score)[:_MAX_EVIDENCE],
            coverage=verdict.coverage,
        )


def _share(
    weights: AutoWeights, reading: ProseReading, scores: NDArray[np.float32], nothing: float, kind: str
) -> NDArray[np.float64]:
    """Return the (T,) shares of the blame as the experts for one kind of runs give them."""
    if kind == "labelled team":
        opinion = weights.labelled_team.score(labelled_team_features(reading.plain, reading.network, reading.lexical))
    else:
        opinion = opinion_of_network(reading.network)
    return weights.sharing[kind].share(opinion, scores, nothing, reading.can_be_blamed)


def opinion_of_network(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the network's opinion of each step of a run, by its shares of the blame."""
    return np.log(shares + _LEAST_SHARE)


def shares_of_steps(run: RunInputs, rows: NDArray[np.floating[Any]], n_steps: int) -> NDArray[np.float64]:
    """Return the (T,) shares of the blame of a run's steps.

    Args:
        run: What the network reads of the run.
        rows: (N,) shares of its merged steps.
        n_steps: Of the run.
    """
    shares = np.zeros(n_steps)
    for row in np.flatnonzero(run.can_be_blamed).tolist():
        shares[run.origins[row][0]] = rows[row]
    return shares


def _gather(run: RunInputs, shares: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the (N,) shares of a run's merged steps, by the (T,) shares of its steps."""
    rows = np.zeros(len(run), np.float32)
    for row in np.flatnonzero(run.can_be_blamed).tolist():
        rows[row] = shares[list(run.origins[row])].sum()
    return rows


def _failure_score(weights: AutoWeights, scores: NDArray[np.float32], nothing: float) -> float:
    """Return how likely the run failed, on a scale on which the alarm lies at a half."""
    highest = max(float(scores.max()), nothing)
    mass = float(np.exp(scores.astype(np.float64) - highest).sum())
    probability = mass / (mass + np.exp(nothing - highest))
    return float(np.interp(probability, (0.0, weights.alarm, max(weights.alarm, 1.0)), (0.0, NOBODY_KNOWS, 1.0)))


def _is_contradicted(weights: AutoWeights, run: ObservedRun, step: int) -> bool:
    """Check whether anything but a missing source speaks against a step: models know much that no step records."""
    return any(
        one.step == step and one.kind != "unsupported" and weights.table.surprise(one) >= _LEAST_SURPRISE
        for one in run.observations
    )


def _name_loop(verdict: Attribution, loops: Sequence[Sequence[int]]) -> tuple[ModeBlame, ...]:
    """Return the modes of the verdict, repetition first where the decisive step begins a loop."""
    decisive = verdict.decisive_step
    if decisive is None or all(decisive != steps[0] for steps in loops):
        return verdict.modes
    others = tuple(blame for blame in verdict.modes if blame.mode != _REPETITION)
    score = max((blame.score for blame in verdict.modes), default=NOBODY_KNOWS)
    return ModeBlame(_REPETITION, verdict.steps[decisive].agent, score), *others


def read_prose(
    trace: MessageActionTrace,
    run: RunInputs,
    results: Sequence[CheckResult],
    prediction: NetworkPrediction,
    lexical: Attribution,
    table: SurpriseTable,
    claims: ClaimModel,
) -> ProseReading:
    """Read a run that language models wrote.

    Args:
        trace: The run, and
        run: what the network reads of it.
        results: What the bundled checks come to on it.
        prediction: What the network predicts of it, and
        lexical: what the lexical tracer says.
        table: Says what is surprising.
        claims: Says how likely a claim is wrong.
    """
    observed = judge_claims(observe(trace, results), table, claims)
    features, n_claims = evidence_features(observed, table)
    return ProseReading(
        observed,
        features,
        n_claims,
        shares_of_steps(run, prediction.shares, len(trace.steps)),
        np.array([step.score for step in lexical.steps]),
        plain_features(trace),
        np.array([trace.can_be_blamed(step) for step in trace.steps], np.bool_),
    )
