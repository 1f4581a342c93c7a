"""The network as a tracer: it reads a run as decisions and their relations, and points at the decisive one."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from blamespan import __version__
from blamespan.attribution import NOBODY_KNOWS, Attribution, ModeBlame, TracerIdentity
from blamespan.errors import ConfigError, TracerUnavailable
from blamespan.taxonomy import mode
from blamespan.trace import MessageActionTrace
from blamespan_tracer.abstention import abstention_reason
from blamespan_tracer.alternatives.evidence import quote_steps
from blamespan_tracer.alternatives.lexical import LexicalTracer
from blamespan_tracer.alternatives.lexicon import Lexicon
from blamespan_tracer.alternatives.network.inference import score_run
from blamespan_tracer.alternatives.network.inputs import RunInputs, feature_names, read_runs, split_into_windows
from blamespan_tracer.alternatives.network.weights import Network
from blamespan_tracer.checks import CheckResult
from blamespan_tracer.modes import can_show
from blamespan_tracer.numeric import sigmoid

BUNDLED = Path(__file__).parents[1] / "weights" / "network.safetensors"

_ALARMS = "BLAMESPAN_MAX_FALSE_ALARMS"
_SHARE = re.compile(r"(\d{0,3}(?:\.\d{1,9})?)\s?(%?)", re.ASCII)

_MAX_MODES = 3
_LEAST_MODE = 0.2
"""A mode is named from this probability on; the likeliest always is."""

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class NetworkPrediction:
    """What the network predicts of one run.

    Dims: N merged steps, K modes.

    Attributes:
        shares: (N,) probability that the failure was decided at each, adding up to 1; 0 where nobody can be blamed.
        failure_probability: That the run failed by an agent's fault.
        modes: (N, K) probability of each mode there, if something is wrong.
    """

    shares: Floats
    failure_probability: float
    modes: Floats


class NetworkTracer:
    """Attributes runs by a network over their steps; see `blamespan_tracer.alternatives.network.model`.

    - A step's share of the blame is the probability that the failure was decided there, given that it failed.
    - `failure_score` says how likely the run failed by an agent's fault: above a half it is called failed, which few
      sound runs of simulated teams are (`max_false_alarms`). Runs in which language models wrote what agents say are
      unlike these: there it means little.
    - Suspects are named whatever it is; a tracer that *abstains* gives no verdict on runs that are probably sound.

    Deterministic: runs are computed one at a time, so what shares a call cannot change a verdict.

    Args:
        network: What predicts.
        lexicon: The one that it was trained with.
        abstains: Whether there is no verdict on runs below the alarm that nobody knows to have failed.

    Raises:
        TracerUnavailable: if the network is for another lexicon or another version's features.
    """

    def __init__(self, network: Network, lexicon: Lexicon, *, abstains: bool = False) -> None:
        missing = set(network.features).difference(feature_names(lexicon))
        if missing or network.lexicon != lexicon.digest:
            raise TracerUnavailable(
                f"expected a network for this version and lexicon {lexicon.digest!r}, got one for "
                f"{network.lexicon!r} with features that are missing: {sorted(missing)[:3]!r}. Train it again"
            )
        self._network = network
        self._lexicon = lexicon
        self._abstains = abstains
        self._identity = TracerIdentity("network", __version__, network.digest)
        self._modes = tuple(mode(name) for name in network.modes)

    @classmethod
    def bundled(cls) -> NetworkTracer:
        """Load the weights that came with the package.

        Raises:
            TracerUnavailable: if they are missing or damaged.
        """
        return cls(Network.load(BUNDLED), LexicalTracer.bundled().lexicon)

    @classmethod
    def in_use(cls) -> NetworkTracer:
        """Load what `BLAMESPAN_NETWORK_WEIGHTS` and `BLAMESPAN_MAX_FALSE_ALARMS` ask for.

        Who asks for a budget of false alarms gets no verdict on runs that raise none.

        Raises:
            ConfigError: if a variable is wrong, or the weights have no alarm for so few false alarms.
            TracerUnavailable: if weights are missing or damaged.
        """
        weights = os.environ.get("BLAMESPAN_NETWORK_WEIGHTS", "").strip()
        max_false_alarms = read_max_false_alarms(os.environ)
        network = Network.load(Path(weights).expanduser() if weights else BUNDLED)
        if max_false_alarms is not None:
            network = network.with_alarm_for(max_false_alarms)
        return cls(network, LexicalTracer.bundled().lexicon, abstains=max_false_alarms is not None)

    @property
    def identity(self) -> TracerIdentity:
        """Name, version and weights digest."""
        return self._identity

    @property
    def network(self) -> Network:
        """What predicts."""
        return self._network

    @property
    def lexicon(self) -> Lexicon:
        """The lexicon whose scores are among the features."""
        return self._lexicon

    @property
    def max_false_alarms(self) -> float:
        """Share of sound runs that its alarm was chosen to let through, 0..1."""
        return self._network.false_alarms

    @property
    def settings(self) -> dict[str, float]:
        """What decides its verdicts beside the weights."""
        return {"max_false_alarms": self.max_false_alarms}

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        """Attribute each run; one verdict per trace, in order."""
        verdicts = {
            index: Attribution.abstain(trace, why, self._identity)
            for index, trace in enumerate(traces)
            if (why := abstention_reason(trace)) is not None
        }
        judged = [index for index in range(len(traces)) if index not in verdicts]
        runs = [traces[index] for index in judged]
        readings = self.read(runs)
        predictions = self.predict([run for run, _ in readings])
        for index, (run, findings), prediction in zip(judged, readings, predictions, strict=True):
            verdicts[index] = self._judge(traces[index], run, findings, prediction)
        return [verdicts[index] for index in range(len(traces))]

    def read(self, traces: Sequence[MessageActionTrace]) -> list[tuple[RunInputs, list[CheckResult]]]:
        """Read runs, each with at least one step, as the network does; beside each, what the checks come to on it."""
        return read_runs(traces, self._lexicon, self._network.vocabulary, self._network.features)

    def predict(self, runs: Sequence[RunInputs]) -> list[NetworkPrediction]:
        """Predict runs, each by itself."""
        return [self._predict(run) for run in runs]

    def _predict(self, run: RunInputs) -> NetworkPrediction:
        """Join the scores of a run's windows into one prediction."""
        windows = [score_run(self._network, window) for window in split_into_windows(run)]
        pointer = np.concatenate([scores.pointer[0, :-1] for scores in windows]) / self._network.temperature
        no_failure = np.mean([scores.pointer[0, -1] for scores in windows]) / self._network.temperature
        highest = max(float(pointer.max()), float(no_failure))
        powers = np.exp(pointer.astype(np.float64) - highest)
        mass = powers.sum()
        return NetworkPrediction(
            shares=(powers / mass).astype(np.float32) if mass > 0 else run.can_be_blamed / run.can_be_blamed.sum(),
            failure_probability=float(mass / (mass + np.exp(float(no_failure) - highest))),
            modes=sigmoid(np.concatenate([scores.modes[0] for scores in windows])),
        )

    def _judge(
        self, trace: MessageActionTrace, run: RunInputs, findings: Sequence[CheckResult], prediction: NetworkPrediction
    ) -> Attribution:
        score = self._failure_score(prediction)
        if self._abstains and trace.outcome != "failed" and score < NOBODY_KNOWS:
            reason = f"probably sound: failure score {score:.2f} is below {NOBODY_KNOWS:.2f}"
            return Attribution.abstain(trace, reason, self._identity)
        return self.build_verdict(trace, run, findings, prediction, self._network.set_mass)

    def build_verdict(
        self,
        trace: MessageActionTrace,
        run: RunInputs,
        findings: Sequence[CheckResult],
        prediction: NetworkPrediction,
        set_mass: float,
    ) -> Attribution:
        """Turn a prediction of a run into a verdict.

        Args:
            trace: The run, and
            run: what was read of it.
            findings: What the bundled checks come to on it.
            prediction: Of the network, or of whoever knows better.
            set_mass: Share of the blame that the step set must hold.
        """
        failure_score = self._failure_score(prediction)
        shares = np.zeros(run.n_steps)
        first_steps = [run.origins[row][0] for row in np.flatnonzero(run.can_be_blamed)]
        shares[first_steps] = prediction.shares[run.can_be_blamed]
        return Attribution.of(
            trace,
            shares.tolist(),
            failure_score=failure_score,
            tracer=self._identity,
            modes=self._rank_modes(trace, run, prediction),
            evidence=quote_steps(trace, (shares / shares.sum()).tolist(), findings),
            coverage=set_mass,
            unaided_score=failure_score,
        )

    def _failure_score(self, prediction: NetworkPrediction) -> float:
        """Return how likely the run failed, on a scale on which the alarm lies at a half."""
        alarm = self._network.alarm
        scale = (0.0, alarm, max(alarm, 1.0))
        return float(np.interp(prediction.failure_probability, scale, (0.0, NOBODY_KNOWS, 1.0)))

    def _rank_modes(self, trace: MessageActionTrace, run: RunInputs, prediction: NetworkPrediction) -> list[ModeBlame]:
        """Return the modes of the most blamed agent: those of its steps, each by its share."""
        by_agent = np.bincount(run.agent, prediction.shares)
        most_blamed = int(by_agent.argmax())
        own = np.where(run.agent == most_blamed, prediction.shares, 0)
        is_possible = np.array([can_show(trace, mode) for mode in self._modes])
        probabilities = np.where(is_possible, (own[:, None] * prediction.modes).sum(axis=0) / own.sum(), 0)
        ranked = np.argsort(-probabilities, kind="stable")[:_MAX_MODES]
        agent = trace.steps[run.origins[int(own.argmax())][0]].agent
        return [
            ModeBlame(self._modes[column], agent, float(probabilities[column]))
            for rank, column in enumerate(ranked.tolist())
            if rank == 0 or probabilities[column] >= _LEAST_MODE
        ]


def read_max_false_alarms(environment: Mapping[str, str]) -> float | None:
    """Return the share of sound runs that may raise an alarm by `BLAMESPAN_MAX_FALSE_ALARMS`: `0.05` or `5%`.

    Raises:
        ConfigError: if it is none; a bare `5` might be either.
    """
    text = environment.get(_ALARMS, "").strip()
    if not text:
        return None
    match = _SHARE.fullmatch(text)
    number = float(match[1]) / (100 if match[2] else 1) if match and match[1] not in ("", ".") else -1.0
    if not 0 <= number < 1:
        raise ConfigError(
            f"{_ALARMS} and --max-false-alarms must be a share of sound runs such as 0.05 or 5%, got {text!r}. "
            "Leave it out for what the weights were trained for"
        )
    return number
