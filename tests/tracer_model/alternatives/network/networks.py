"""Networks with drawn weights, and teams for them to read."""

from __future__ import annotations

from functools import cache
from random import Random

import numpy as np

from blamespan.trace import MessageActionTrace
from blamespan_lab.train.words import Meanings
from blamespan_tracer.alternatives.lexical import LexicalTracer
from blamespan_tracer.alternatives.network.inputs import RELATIONS, feature_names
from blamespan_tracer.alternatives.network.model import Shape
from blamespan_tracer.alternatives.network.tracer import NetworkTracer
from blamespan_tracer.alternatives.network.weights import Network, round_weights
from blamespan_tracer.modes import MODES
from tests.tracer_model.teams import team

VOCABULARY = Meanings.bundled().vocabulary
FEATURES = feature_names(LexicalTracer.bundled().lexicon)


@cache
def drawn_network(alarm: float = 0.0) -> Network:
    """Draw a small network; it knows nothing, but it knows it always alike."""
    lexicon = LexicalTracer.bundled().lexicon
    shape = Shape(len(FEATURES), len(VOCABULARY), 8, 16, 2, 2, len(RELATIONS), len(MODES), 6)
    rng = np.random.default_rng(0)
    return Network(
        shape=shape,
        weights=round_weights(
            {name: (rng.standard_normal(size) / 4).astype(np.float32) for name, size in shape.parameters().items()}
        ),
        vocabulary=VOCABULARY,
        mean=np.zeros(len(FEATURES), np.float32),
        spread=np.ones(len(FEATURES), np.float32),
        features=FEATURES,
        modes=tuple(map(str, MODES)),
        lexicon=lexicon.digest,
        alarm=alarm,
    )


def tracer_with(alarm: float = 0.0, *, abstains: bool = False) -> NetworkTracer:
    """Make a tracer of the drawn network."""
    return NetworkTracer(drawn_network(alarm), LexicalTracer.bundled().lexicon, abstains=abstains)


def random_team(seed: int, n_steps: int = 8) -> MessageActionTrace:
    """Draw a run of three agents."""
    rng = Random(seed)  # a test's
    words = ["the", "total", "is", str(rng.randrange(99)), "so", "we", "check", "again", "error", "sum", "done"]
    return team(*[(rng.choice("ABC"), " ".join(rng.choices(words, k=rng.randint(1, 30)))) for _ in range(n_steps)])
