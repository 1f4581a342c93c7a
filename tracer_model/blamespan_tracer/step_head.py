"""Says which steps of a team's runs decide its failures, as labels of a user's own runs taught it.

Who errs, and where in a run, differs from team to team: a dozen labels of one team tell more of it than thousands of
runs of others. So none is bundled. `blamespan lab train --labels` learns one; the tracer `auto` uses it where it was
measurably better than the tracer by itself. It begins as the tracer's own opinion, and learns how far to leave it.

Dims: T steps of a run, F features of a step, K kinds of error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np
from numpy.typing import NDArray

from blamespan.errors import ConfigError
from blamespan.learnt_files import STEP_HEADS
from blamespan.taxonomy import ErrorMode, mode
from blamespan_tracer.auto.observed_run import ReadRun
from blamespan_tracer.auto.plain_features import PLAIN_FEATURES
from blamespan_tracer.auto.step_model import EVIDENCE_FEATURES, evidence_features
from blamespan_tracer.auto.step_prior import PRIOR_FEATURES, StepPrior, prior_features
from blamespan_tracer.checks.usual_course import PREFIX, Kind
from blamespan_tracer.heads import load_head, load_in_use
from blamespan_tracer.numeric import softmax
from blamespan_tracer.weights_file import write_weights

_FORMAT: Final = "blamespan-steps-3"
_LEAST_SHARE: Final = 1e-3
_NEVER: Final = -np.inf
_HABITS: Final = tuple(f"{PREFIX}{kind}" for kind in get_args(Kind))
_COLUMNS: Final = (
    *("share by the tracer", *PRIOR_FEATURES[: len(PLAIN_FEATURES)]),
    *("share by the tracer, by length", *PRIOR_FEATURES[len(PLAIN_FEATURES) :]),
    *EVIDENCE_FEATURES,
    *(*_HABITS, "first off the usual course", "after what is off the usual course"),
)

Floats = NDArray[np.float64]


def name_features(agents: Sequence[str]) -> tuple[str, ...]:
    """Return what each column of `step_features` means."""
    return (*_COLUMNS, *(f"{what} of {agent}" for agent in agents for what in ("step", "call")))


def step_features(run: ReadRun, shares: Floats, agents: Sequence[str]) -> Floats:
    """Lay out what the head reads of the steps of a run: (T, F).

    That is where they stand and how they look, what speaks against them, where they leave the usual course, and whose
    they are: a head knows one team.

    Args:
        run: As the tracer reads it.
        shares: (T,) of the blame as the tracer sees it by itself.
        agents: Whose steps are told apart.
    """
    off = np.zeros((len(shares), len(_HABITS) + 2))
    for result in run.results:
        if result.outcome == "fail" and result.step is not None and result.check.name in _HABITS:
            off[result.step, _HABITS.index(result.check.name)] = 1
    if off.any():
        first = int(off.any(axis=1).argmax())
        off[first, -2], off[first + 1 :, -1] = 1, 1
    is_of = [
        [holds for name in agents for holds in (step.agent == name, step.agent == name and step.kind == "tool_call")]
        for step in run.trace.steps
    ]
    whose = np.array(is_of, np.float64).reshape(len(shares), 2 * len(agents))
    return np.concatenate([prior_features(run.plain, shares), evidence_features(run.observed), off, whose], axis=1)


def opinion_of_tracer(shares: Floats) -> Floats:
    """Return the (T,) scores from which the head begins, by the tracer's (T,) shares of the blame."""
    opinion: Floats = np.log(shares + _LEAST_SHARE)
    return opinion


@dataclass(frozen=True, slots=True)
class KindHead:
    """Says which kind of error a step is, by a logistic regression over its features.

    Attributes:
        kinds: K modes.
        weights: (K, F) for features as the prior scales them.
        bias: (K,).
        leads: Whether it is heard before findings that name a kind; else after.
    """

    kinds: tuple[ErrorMode, ...]
    weights: NDArray[np.float32]
    bias: NDArray[np.float32]
    leads: bool

    def rank(self, scaled: Floats) -> list[ErrorMode]:
        """List the kinds by the (F,) scaled features of a step, the likeliest first."""
        order = np.argsort(-(self.weights.astype(np.float64) @ scaled + self.bias), kind="stable")
        return [self.kinds[index] for index in order]


@dataclass(frozen=True, slots=True)
class StepHead:
    """What labels add to the tracer's opinion.

    Attributes:
        prior: Scores steps by `step_features`.
        agents: Whose steps are told apart.
        kinds: Which kind of error a step is; None where that is not learnt, or no better than without.
        set_mass: Share of the blame that a step set must hold.
        is_better: Whether it was measurably better than the tracer by itself.
        figures: What was measured when it was learnt.
        digest: Of the file.
    """

    prior: StepPrior
    agents: tuple[str, ...]
    set_mass: float
    is_better: bool
    figures: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""
    kinds: KindHead | None = None

    def share(self, run: ReadRun, shares: Floats) -> Floats:
        """Return the (T,) shares of the blame in a run with a step that can be blamed.

        Args:
            run: As the tracer reads it.
            shares: (T,) as the tracer sees it by itself.
        """
        scores = opinion_of_tracer(shares) + self.prior.score(step_features(run, shares, self.agents))
        return softmax(np.where(run.can_be_blamed, scores, _NEVER))

    def rank_kinds(self, run: ReadRun, shares: Floats, step: int) -> list[ErrorMode]:
        """List the kinds of error that a step may be, the likeliest first; none where they are not learnt.

        Args:
            run: As the tracer reads it.
            shares: (T,) as the tracer sees it by itself.
            step: Its index.
        """
        if self.kinds is None:
            return []
        return self.kinds.rank(self.prior.scale(step_features(run, shares, self.agents)[step]))

    def save(self, path: Path) -> str:
        """Write the file; return its digest."""
        tensors = self.prior.tensors()
        kinds: Mapping[str, Any] = {}
        if self.kinds is not None:
            tensors |= {"kind weights": self.kinds.weights, "kind bias": self.kinds.bias}
            kinds = {"kinds": [str(kind) for kind in self.kinds.kinds], "kinds_lead": self.kinds.leads}
        settings = {
            "agents": list(self.agents),
            "columns": list(name_features(self.agents)),
            "set_mass": self.set_mass,
            "is_better": self.is_better,
            "figures": dict(self.figures),
            **kinds,
        }
        return write_weights(path, tensors, {"format": _FORMAT, "settings": json.dumps(settings)})

    @classmethod
    def load(cls, path: Path) -> StepHead:
        """Read a file that `save` wrote.

        Raises:
            TracerUnavailable: if it is missing, damaged or of another version.
        """
        return load_head(path, _FORMAT, cls._build, what_for="steps", command="blamespan lab train --labels FILE")

    @classmethod
    def _build(cls, tensors: Mapping[str, NDArray[Any]], settings: Mapping[str, Any], digest: str) -> StepHead:
        stored, agents = StepPrior.from_tensors(tensors), tuple(settings["agents"])
        columns, wanted = list(settings["columns"]), name_features(agents)
        if unknown := sorted(set(columns) - set(wanted)):
            raise ValueError(f"features of another version: {unknown}")
        if stored.weights.shape != (len(columns),):
            raise ValueError(f"{len(columns)} names for {len(stored.weights)} weights")
        prior = stored.by_name(columns, wanted)
        set_mass, is_better = float(settings["set_mass"]), bool(settings["is_better"])
        kinds = None
        if "kinds" in settings:
            weights = np.zeros((len(settings["kinds"]), len(wanted)), np.float32)
            weights[:, [wanted.index(name) for name in columns]] = tensors["kind weights"]
            try:
                modes = tuple(mode(name) for name in settings["kinds"])
            except ConfigError as error:
                raise ValueError(str(error)) from error
            kinds = KindHead(modes, weights, tensors["kind bias"], leads=bool(settings["kinds_lead"]))
            if kinds.bias.shape != (len(modes),):
                raise ValueError(f"{len(modes)} kinds for {len(kinds.bias)} weights")
        return cls(prior, agents, set_mass, is_better, settings["figures"], digest=digest, kinds=kinds)


def step_heads_in_use() -> tuple[StepHead, ...]:
    """Load the heads in use, those that `BLAMESPAN_LEARNT` names or those beside the store: see `load_in_use`.

    Raises:
        TracerUnavailable: if the file is missing or damaged.
    """
    return load_in_use(STEP_HEADS, StepHead.load)
