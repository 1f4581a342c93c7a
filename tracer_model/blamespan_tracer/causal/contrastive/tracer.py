"""The contrastive model as a tracer: blames agents by their turns, and names AEGIS's errors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from blamespan import __version__
from blamespan.attribution import Attribution, ModeBlame, TracerIdentity
from blamespan.errors import ConfigError
from blamespan.taxonomy import AEGIS
from blamespan.trace import MessageActionTrace
from blamespan_tracer.abstention import abstention_reason
from blamespan_tracer.alternatives.rendering import render_run
from blamespan_tracer.causal.contrastive.loading import load_contrastive
from blamespan_tracer.causal.contrastive.model import ContrastiveModel
from blamespan_tracer.causal.contrastive.turns import CODES, collate, turn_run
from blamespan_tracer.causal.loading import Tokenizer, digest_of

__all__ = ["VARIABLE", "ContrastiveTracer"]

VARIABLE = "BLAMESPAN_CONTRASTIVE_MODEL"
"""Names the folder `model` that `blamespan train` left."""

_LEAST = 1e-6
_MAX_MODES = 3


class ContrastiveTracer:
    """Attributes runs by an encoder; see `blamespan_tracer.causal.contrastive.model`.

    An agent's share of the blame follows its odds of having erred; within it, a step's share is how much the model
    attends to it. `failure_score` is the chance of the most suspected agent; it has seen failed runs only. Runs are
    read one at a time, so what shares a call cannot change a verdict.
    """

    def __init__(
        self, model: ContrastiveModel, tokenizer: Tokenizer, most_turns: int, turn_tokens: int, digest: str = ""
    ) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._most_turns = most_turns
        self._turn_tokens = turn_tokens
        self._identity = TracerIdentity("contrastive", __version__, digest)

    @classmethod
    def load(cls, folder: Path) -> ContrastiveTracer:
        """Load what training left.

        Raises:
            TracerUnavailable: if it is missing, damaged or of another version.
        """
        model, tokenizer, about = load_contrastive(folder)
        data = about["data"]
        return cls(model, tokenizer, int(data["most_turns"]), int(data["turn_tokens"]), digest_of(str(folder)))

    @classmethod
    def from_environment(cls) -> ContrastiveTracer:
        """Load what `BLAMESPAN_CONTRASTIVE_MODEL` names.

        Raises:
            ConfigError: if it is not set.
            TracerUnavailable: if the model cannot be loaded.
        """
        folder = os.environ.get(VARIABLE, "").strip()
        if not folder:
            raise ConfigError(f"{VARIABLE} must name a folder, got nothing. Set it to what `blamespan train` left")
        return cls.load(Path(folder))

    @property
    def identity(self) -> TracerIdentity:
        """Name, version and weights digest."""
        return self._identity

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        """Attribute each run; one verdict per trace, in order."""
        return [self._attribute(trace) for trace in traces]

    @torch.inference_mode()
    def _attribute(self, trace: MessageActionTrace) -> Attribution:
        why_not = abstention_reason(trace)
        if why_not is not None:
            return Attribution.abstain(trace, why_not, self._identity)
        run = turn_run(render_run(trace), self._most_turns)
        batch = collate([run], self._tokenizer, self._turn_tokens)
        turns = self._model.encode(batch["input_ids"], batch["attention_mask"])
        found = self._model.guess(turns, batch["of_agent"], batch["of_run"], batch["run_of_agent"])
        chances = found.agents.double().clamp(_LEAST, 1 - _LEAST).numpy()
        shares = np.zeros(len(trace.steps))
        for agent, odds in enumerate((chances / (1 - chances)).tolist()):
            for place, weight in zip(batch["of_agent"][agent].tolist(), found.weights[agent].tolist(), strict=True):
                if place >= 0:
                    shares[run.turns[place].lands_on] += odds * max(weight, _LEAST)
        pairs = found.pairs.numpy()
        ranked = np.argsort(-pairs, axis=None, kind="stable")[:_MAX_MODES].tolist()
        return Attribution.of(
            trace,
            shares.tolist(),
            failure_score=float(chances.max()),
            tracer=self._identity,
            modes=[
                ModeBlame(AEGIS[CODES[place % len(CODES)]], run.names[place // len(CODES)], float(pairs.flat[place]))
                for place in ranked
            ],
        )
