"""The network as a tracer: it reads a run as decisions and their relations, and points at the decisive one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from blamespan import __version__
from blamespan.attribution import NOBODY_KNOWS, Attribution, ModeBlame, TracerIdentity
from blamespan.errors import TracerUnavailable
from blamespan.taxonomy import mode
from blamespan.trace import MessageActionTrace
from blamespan_tracer.abstention import abstention_reason
from blamespan_tracer.alternatives.lexical import LexicalTracer
from blamespan_tracer.alternatives.lexicon import Lexicon
from blamespan_tracer.alternatives.network.inference import InferenceEngine, NumpyEngine
from blamespan_tracer.alternatives.network.inputs import RunInputs, feature_names, read_runs, split_into_windows
from blamespan_tracer.alternatives.network.model import Scores
from blamespan_tracer.alternatives.network.prose_expert import mix
from blamespan_tracer.alternatives.network.quotes import quote_steps
from blamespan_tracer.alternatives.network.settings import NetworkSettings
from blamespan_tracer.alternatives.network.weights import Network
from blamespan_tracer.checks import CheckResult
from blamespan_tracer.modes import can_show
from blamespan_tracer.numeric import sigmoid

__all__ = ["NetworkPrediction", "NetworkTracer"]

BUNDLED = Path(__file__).parents[1] / "weights" / "network.safetensors"

_MOSTLY = 0.5
"""From this gate weight on it is a run of the prose expert."""

_MAX_MODES = 3
_LEAST_MODE = 0.2
"""A mode is named from this probability on; the likeliest always is."""

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class NetworkPrediction:
    """What the network, the prose expert or their mixture predicts of one run.

    Dims: N merged steps, K modes.

    Attributes:
        shares: (N,) probability that the failure was decided at each, adding up to 1; 0 where nobody can be blamed.
        failure_probability: That the run failed by an agent's fault, by the network; 1 where it was not computed.
        modes: (N, K) probability of each mode there, if something is wrong.
        gate_weight: Of the prose expert, 0..1: whether runs of its kind failed, nobody can tell.
        set_mass: Share of the blame that a step set must hold.
    """

    shares: Floats
    failure_probability: float
    modes: Floats
    gate_weight: float
    set_mass: float


class NetworkTracer:
    """Attributes runs by a network over their steps; see `blamespan_tracer.alternatives.network.model`.

    - A step's share of the blame is the probability that the failure was decided there, given that it failed.
    - `failure_score` says how likely the run failed by an agent's fault: above a half it is called failed, which few
      sound runs are (`max_false_alarms`). It is a half where nobody can tell: of runs in which language models wrote
      what agents say, and which nobody knows to have failed.
    - Suspects are named whatever it is; a tracer that *abstains* gives no verdict on runs that are probably sound.

    Deterministic on a CPU: runs are computed one at a time, so what shares a call cannot change a verdict. On a GPU
    many are computed at once, which changes scores by some 1e-5.

    Args:
        network: What predicts.
        lexicon: The one that it was trained with.
        engine: What computes; NumPy where none is given.
        abstains: Whether there is no verdict on runs below the alarm that nobody knows to have failed.

    Raises:
        TracerUnavailable: if the network is for another lexicon or another version's features.
    """

    def __init__(
        self, network: Network, lexicon: Lexicon, engine: InferenceEngine | None = None, *, abstains: bool = False
    ) -> None:
        missing = set(network.features).difference(feature_names(lexicon))
        if missing or network.lexicon != lexicon.digest:
            raise TracerUnavailable(
                f"expected a network for this version and lexicon {lexicon.digest!r}, got one for "
                f"{network.lexicon!r} with features that are missing: {sorted(missing)[:3]!r}. Train it again"
            )
        self._network = network
        self._lexicon = lexicon
        self._engine: InferenceEngine = NumpyEngine(network) if engine is None else engine
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
        """Load what the environment asks for: weights, device, most false alarms; see `NetworkSettings`.

        Who asks for a budget of false alarms gets no verdict on runs that raise none.

        Raises:
            ConfigError: if a variable is wrong, or the weights have no alarm for so few false alarms.
            MissingExtra: if a device is asked for and PyTorch is not installed.
            TracerUnavailable: if weights are missing or damaged, or there is no such device.
        """
        settings = NetworkSettings.from_environment(os.environ)
        network = Network.load(settings.weights or BUNDLED)
        if abstains := settings.max_false_alarms is not None:
            network = network.with_alarm_for(settings.max_false_alarms)
        return cls(network, LexicalTracer.bundled().lexicon, settings.engine(network), abstains=abstains)

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
    def device(self) -> str:
        """Where it computes: `cpu`, or as PyTorch calls it."""
        return self._engine.device

    @property
    def batch_runs(self) -> int:
        """How many runs it takes at once."""
        return self._engine.batch_runs

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
            verdicts[index] = self.build_verdict(traces[index], run, findings, prediction)
        return [verdicts[index] for index in range(len(traces))]

    def read(self, traces: Sequence[MessageActionTrace]) -> list[tuple[RunInputs, list[CheckResult]]]:
        """Read runs, each with at least one step, as the network does; beside each, what the checks come to on it."""
        return read_runs(traces, self._lexicon, self._network.vocabulary, self._network.features)

    def predict(self, runs: Sequence[RunInputs]) -> list[NetworkPrediction]:
        """Predict runs; where the gate leaves all to the prose expert, the network is not computed."""
        by_expert = [self._predict_by_expert(run) for run in runs]
        is_certain = [prediction is not None and prediction.gate_weight == 1 for prediction in by_expert]
        windows = [[] if certain else split_into_windows(run) for run, certain in zip(runs, is_certain, strict=True)]
        scores = iter(self._engine.scores([window for run_windows in windows for window in run_windows]))
        predictions = []
        for run, prediction, run_windows in zip(runs, by_expert, windows, strict=True):
            by_network = self._predict_by_network(run, [next(scores) for _ in run_windows]) if run_windows else None
            predictions.append(_mix_predictions(by_network, prediction))
        return predictions

    def _predict_by_expert(self, run: RunInputs) -> NetworkPrediction | None:
        """Return what the prose expert predicts; None where there is none, or its weight is 0."""
        if (expert := self._network.prose_expert) is None:
            return None
        scaled = replace(run, features=self._network.scale(run.features))
        if not (weight := expert.gate_weight(scaled)):
            return None
        shares, modes = expert.predict(scaled)
        return NetworkPrediction(
            shares, failure_probability=1.0, modes=modes, gate_weight=weight, set_mass=float(expert.set_mass[0])
        )

    def _predict_by_network(self, run: RunInputs, windows: Sequence[Scores]) -> NetworkPrediction:
        """Join the scores of a run's windows into one prediction."""
        pointer = np.concatenate([scores.pointer[0, :-1] for scores in windows]) / self._network.temperature
        no_failure = np.mean([scores.pointer[0, -1] for scores in windows]) / self._network.temperature
        highest = max(float(pointer.max()), float(no_failure))
        powers = np.exp(pointer.astype(np.float64) - highest)
        mass = powers.sum()
        return NetworkPrediction(
            shares=(powers / mass).astype(np.float32) if mass > 0 else run.can_be_blamed / run.can_be_blamed.sum(),
            failure_probability=float(mass / (mass + np.exp(float(no_failure) - highest))),
            modes=sigmoid(np.concatenate([scores.modes[0] for scores in windows])),
            gate_weight=0.0,
            set_mass=self._network.set_mass,
        )

    def build_verdict(
        self,
        trace: MessageActionTrace,
        run: RunInputs,
        findings: Sequence[CheckResult],
        prediction: NetworkPrediction,
    ) -> Attribution:
        """Turn a prediction of a run into a verdict.

        Args:
            trace: The run, and
            run: what was read of it.
            findings: What the bundled checks come to on it.
            prediction: Of the network, or of whoever knows better.
        """
        failure_score = self._failure_score(prediction)
        if (
            self._abstains
            and trace.outcome != "failed"
            and prediction.gate_weight < _MOSTLY
            and failure_score < NOBODY_KNOWS
        ):
            reason = f"probably sound: failure score {failure_score:.2f} is below {NOBODY_KNOWS:.2f}"
            return Attribution.abstain(trace, reason, self._identity)
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
            coverage=prediction.set_mass,
            unaided_score=failure_score,
        )

    def _failure_score(self, prediction: NetworkPrediction) -> float:
        """Return how likely the run failed, on a scale on which the alarm lies at a half."""
        if prediction.gate_weight >= _MOSTLY:
            return NOBODY_KNOWS
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


def _mix_predictions(by_network: NetworkPrediction | None, by_expert: NetworkPrediction | None) -> NetworkPrediction:
    """Mix what the network and the prose expert predict, the latter with its gate weight."""
    if by_network is None or by_expert is None:
        prediction = by_network or by_expert
        assert prediction is not None
        return prediction
    weight = by_expert.gate_weight
    return NetworkPrediction(
        shares=mix(by_network.shares, by_expert.shares, weight),
        failure_probability=by_network.failure_probability,
        modes=mix(by_network.modes, by_expert.modes, weight),
        gate_weight=weight,
        set_mass=(1 - weight) * by_network.set_mass + weight * by_expert.set_mass,
    )
