"""The network as a tracer: reads a run as decisions and their relations, and says which decided it."""

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
from blamespan_tracer.contracts import Verdict
from blamespan_tracer.lexical import LexicalTracer
from blamespan_tracer.lexicon import Lexicon
from blamespan_tracer.network.inputs import RunInputs, feature_names, read_runs, windows
from blamespan_tracer.network.model import Scores
from blamespan_tracer.network.prose import mixed
from blamespan_tracer.network.quotes import quotes_of
from blamespan_tracer.network.readers import NumpyReader, Reader
from blamespan_tracer.network.settings import NetworkSettings
from blamespan_tracer.network.weights import Network
from blamespan_tracer.silence import why_silent

__all__ = ["Judgement", "NetworkTracer"]

BUNDLED = Path(__file__).parents[1] / "weights" / "network.safetensors"

_MOSTLY = 0.5
"""From here on it is the second judge's run."""

_MAX_MODES = 3
_LEAST_MODE = 0.2
"""A mode is named from this probability on; the likeliest always is."""

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the network says of one run.

    Dims: N merged steps, K modes.

    Attributes:
        shares: (N,) chance that the failure was decided at each, adding up to 1; 0 where nobody can be blamed.
        failed: Chance that the run failed by an agent's fault, 0..1, as the network says; 1 where it was not asked.
        modes: (N, K) chance of each mode there, if something is.
        prose: How far the second judge was heard, 0..1: whether such a run failed, nobody can tell.
        set_mass: Share of the blame that a step set must hold.
    """

    shares: Floats
    failed: float
    modes: Floats
    prose: float
    set_mass: float


class NetworkTracer:
    """Attributes runs by a network over their steps; see `blamespan_tracer.network.model`.

    - A step's share of the blame is the chance that the failure was decided there, given that it failed.
    - `failure_score` says how likely the run failed by an agent's fault: above a half it is called failed, which few
      sound runs are (`max_false_alarms`). It is a half where nobody can tell: of runs in which language models wrote
      what agents say, and which nobody knows to have failed.
    - Suspects are named whatever it is; a tracer that *abstains* gives no verdict on runs that are probably sound.

    Deterministic on a CPU: runs are read one at a time, so what shares a call cannot change a verdict. On a GPU many
    are read at once, which changes scores by some 1e-5.

    Args:
        network: What judges.
        lexicon: The one that it was trained with.
        reader: Who computes; NumPy where none is given.
        abstains: Whether there is no verdict on runs below the alarm that nobody knows to have failed.

    Raises:
        TracerUnavailable: if the network is for another lexicon or another version's features.
    """

    def __init__(
        self, network: Network, lexicon: Lexicon, reader: Reader | None = None, *, abstains: bool = False
    ) -> None:
        if network.features != feature_names(lexicon) or network.lexicon != lexicon.digest:
            raise TracerUnavailable(
                f"expected a network for this version and lexicon {lexicon.digest!r}, got one for "
                f"{network.lexicon!r} with {len(network.features)} features. Train it again"
            )
        self._network = network
        self._lexicon = lexicon
        self._reader: Reader = NumpyReader(network) if reader is None else reader
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
        return cls(network, LexicalTracer.bundled().lexicon, settings.reader(network), abstains=abstains)

    @property
    def identity(self) -> TracerIdentity:
        """Name, version and weights digest."""
        return self._identity

    @property
    def network(self) -> Network:
        """What judges."""
        return self._network

    @property
    def lexicon(self) -> Lexicon:
        """What says what the words speak of."""
        return self._lexicon

    @property
    def device(self) -> str:
        """Where it computes: `cpu`, or as PyTorch calls it."""
        return self._reader.device

    @property
    def batch_runs(self) -> int:
        """How many runs it wants at once."""
        return self._reader.batch_runs

    @property
    def max_false_alarms(self) -> float:
        """Share of sound runs that its alarm was chosen to let through, 0..1."""
        return self._network.false_alarms

    @property
    def settings(self) -> dict[str, float]:
        """What beside the weights decides its verdicts."""
        return {"max_false_alarms": self.max_false_alarms}

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        """Attribute each run; one verdict per trace, in order."""
        verdicts = {
            place: Attribution.abstain(trace, why, self._identity)
            for place, trace in enumerate(traces)
            if (why := why_silent(trace)) is not None
        }
        judged = [place for place in range(len(traces)) if place not in verdicts]
        readings = read_runs([traces[place] for place in judged], self._lexicon, self._network.vocabulary)
        found = self.judge([run for run, _ in readings])
        for place, (run, broken), judgement in zip(judged, readings, found, strict=True):
            verdicts[place] = self._verdict(traces[place], run, broken, judgement)
        return [verdicts[place] for place in range(len(traces))]

    def judge(self, runs: Sequence[RunInputs]) -> list[Judgement]:
        """Read runs; where the second judge alone is heard, the network is not asked."""
        seconds = [self._by_second_judge(run) for run in runs]
        is_enough = [second is not None and second.prose == 1 for second in seconds]
        parted = [[] if enough else windows(run) for run, enough in zip(runs, is_enough, strict=True)]
        scores = iter(self._reader.scores([part for parts in parted for part in parts]))
        found = []
        for run, second, parts in zip(runs, seconds, parted, strict=True):
            first = self._by_network(run, [next(scores) for _ in parts]) if parts else None
            found.append(_together(first, second))
        return found

    def _by_second_judge(self, run: RunInputs) -> Judgement | None:
        """Hear the second judge; None where there is none, or it is not to be heard."""
        if (judge := self._network.prose) is None:
            return None
        scaled = replace(run, features=self._network.scaled(run.features))
        if not (weight := judge.weight(scaled)):
            return None
        shares, modes = judge.judged(scaled)
        return Judgement(shares, failed=1.0, modes=modes, prose=weight, set_mass=float(judge.set_mass[0]))

    def _by_network(self, run: RunInputs, parts: Sequence[Scores]) -> Judgement:
        """Put the parts of a run together."""
        pointer = np.concatenate([part.pointer[0, :-1] for part in parts]) / self._network.temperature
        sound = np.mean([part.pointer[0, -1] for part in parts]) / self._network.temperature
        highest = max(float(pointer.max()), float(sound))
        powers = np.exp(pointer.astype(np.float64) - highest)
        mass = powers.sum()
        return Judgement(
            shares=(powers / mass).astype(np.float32) if mass > 0 else run.can_be_blamed / run.can_be_blamed.sum(),
            failed=float(mass / (mass + np.exp(float(sound) - highest))),
            modes=_sigmoid(np.concatenate([part.modes[0] for part in parts])),
            prose=0.0,
            set_mass=self._network.set_mass,
        )

    def _verdict(
        self, trace: MessageActionTrace, run: RunInputs, broken: Sequence[Verdict], found: Judgement
    ) -> Attribution:
        is_known = trace.outcome == "failed"
        failed = self._failure_score(found, is_known=is_known)
        if self._abstains and not is_known and found.prose < _MOSTLY and failed < NOBODY_KNOWS:
            reason = f"probably sound: failure score {failed:.2f} is below {NOBODY_KNOWS:.2f}"
            return Attribution.abstain(trace, reason, self._identity)
        shares = np.zeros(run.n_steps)
        shares[[run.origins[place][0] for place in np.flatnonzero(run.can_be_blamed)]] = found.shares[run.can_be_blamed]
        return Attribution.of(
            trace,
            shares.tolist(),
            failure_score=failed,
            tracer=self._identity,
            modes=self._blamed_modes(trace, run, found),
            evidence=quotes_of(trace, (shares / shares.sum()).tolist(), broken),
            coverage=found.set_mass,
            unaided_score=self._failure_score(found, is_known=False),
        )

    def _failure_score(self, found: Judgement, *, is_known: bool) -> float:
        """Tell how likely the run failed, on a scale on which the alarm lies at a half.

        Args:
            found: What was said of it.
            is_known: Whether it is known to have failed.
        """
        if is_known:
            return (1 - found.prose) * found.failed + found.prose
        if found.prose >= _MOSTLY:
            return NOBODY_KNOWS
        alarm = self._network.alarm
        return float(np.interp(found.failed, (0.0, alarm, max(alarm, 1.0)), (0.0, NOBODY_KNOWS, 1.0)))

    def _blamed_modes(self, trace: MessageActionTrace, run: RunInputs, found: Judgement) -> list[ModeBlame]:
        """Name the modes of the most blamed agent: those of its steps, each by its share."""
        by_agent = np.bincount(run.agent, found.shares)
        worst = int(by_agent.argmax())
        own = np.where(run.agent == worst, found.shares, 0)
        chances = (own[:, None] * found.modes).sum(axis=0) / own.sum()
        ranked = np.argsort(-chances, kind="stable")[:_MAX_MODES]
        agent = trace.steps[run.origins[int(own.argmax())][0]].agent
        return [
            ModeBlame(self._modes[column], agent, float(chances[column]))
            for place, column in enumerate(ranked.tolist())
            if place == 0 or chances[column] >= _LEAST_MODE
        ]


def _together(first: Judgement | None, second: Judgement | None) -> Judgement:
    """Mix what the network and the second judge say, the latter as far as it is to be heard."""
    if first is None or second is None:
        found = first or second
        assert found is not None
        return found
    return Judgement(
        shares=mixed(first.shares, second.shares, second.prose),
        failed=first.failed,
        modes=mixed(first.modes, second.modes, second.prose),
        prose=second.prose,
        set_mass=(1 - second.prose) * first.set_mass + second.prose * second.set_mass,
    )


def _sigmoid(logits: Floats) -> Floats:
    chances: Floats = (0.5 * (1 + np.tanh(0.5 * logits))).astype(np.float32)
    return chances
