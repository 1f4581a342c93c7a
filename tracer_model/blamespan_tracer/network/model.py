"""The network's arithmetic: one function for NumPy on a CPU, PyTorch on a GPU, and training.

A run is a set of steps with relations between them. Steps attend to each other; which relation holds between two
of them shifts the attention. Of a step's words there is a bag, and the most that any one sentence says of each of M
things, since a few words may be wrong among many. There is no position in it: a step is told from the others by what
the features and relations say. Each step gets a *pointer* score (the failure was decided here; one slot more stands for
"it did not fail"), a *fault* score (something is wrong here, decisive or not) and a score for each mode.

Dims: B runs, S steps of the longest (padded at the end), F features, E width of a word bag, D width, H heads,
R relations, K modes, M things a sentence may say, N networks that read side by side. Everything is float32.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import array_api_compat as arrays

__all__ = ["Array", "Scores", "Shape", "StepInputs", "Weights", "mean_scores", "scores_of", "stacked"]

Array: TypeAlias = Any
"""A NumPy array or a PyTorch tensor; the array API has no type of its own for "either"."""

Weights: TypeAlias = Mapping[str, Array]
"""By name; `Shape.parameters` lists the names and sizes."""

_NEVER = -1e9
"""Attention to padding, and its pointer score: exactly 0 after the softmax in float32."""

_EPSILON = 1e-5
"""Keeps the norm of a constant vector finite."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a network is.

    Attributes:
        n_features: F.
        n_words: V, rows of the word table.
        bag_width: E.
        width: D, a multiple of `n_heads`.
        n_heads: H.
        n_layers: Rounds of attention.
        n_relations: R.
        n_modes: K.
        sentence_width: M; 0 reads steps as bags of words alone.
    """

    n_features: int
    n_words: int
    bag_width: int
    width: int
    n_heads: int
    n_layers: int
    n_relations: int
    n_modes: int
    sentence_width: int = 0

    def parameters(self) -> dict[str, tuple[int, ...]]:
        """List every weight and its size."""
        wide, deep = self.width, 2 * self.width
        sizes: dict[str, tuple[int, ...]] = {
            "words": (self.n_words, self.bag_width),
            "in.features": (self.n_features, wide),
            "in.bags": (self.bag_width, wide),
            "in.bias": (wide,),
        }
        if self.sentence_width:
            sizes |= {
                "sentence.in": (self.bag_width, self.sentence_width),
                "sentence.bias": (self.sentence_width,),
                "in.sentences": (self.sentence_width, wide),
            }
        for layer in range(self.n_layers):
            sizes |= {
                f"{layer}.attend.scale": (wide,),
                f"{layer}.attend.shift": (wide,),
                f"{layer}.attend.in": (wide, 3 * wide),
                f"{layer}.attend.relations": (self.n_heads, self.n_relations),
                f"{layer}.attend.out": (wide, wide),
                f"{layer}.think.scale": (wide,),
                f"{layer}.think.shift": (wide,),
                f"{layer}.think.in": (wide, deep),
                f"{layer}.think.bias": (deep,),
                f"{layer}.think.out": (deep, wide),
            }
        return sizes | {
            "out.scale": (wide,),
            "out.shift": (wide,),
            "out.pointer": (wide, 1),
            "out.fault": (wide, 1),
            "out.fault_bias": (1,),
            "out.modes": (wide, self.n_modes),
            "out.modes_bias": (self.n_modes,),
            "out.sound": (2 * wide, 1),
            "out.sound_bias": (1,),
        }


@dataclass(frozen=True, slots=True)
class StepInputs:
    """Runs, side by side. What all of them share may stand there once, with B = 1, but for what is read off words.

    Attributes:
        features: (B, S, F) scaled to about -3..3.
        bags: (B, S, E) the sum of the word table's rows of each step's words, by the root of how many there are.
        sentences: (B, S, M) the most that any sentence of each step says; see `read_sentence`.
        relations: (B, R, S, S) 1 where relation r leads from step s to step t, else 0; or its strength.
        is_real: (B, S) bool, False on padding.
        can_be_blamed: (B, S) bool, False on padding too.
    """

    features: Array
    bags: Array
    relations: Array
    is_real: Array
    can_be_blamed: Array
    sentences: Array = None


@dataclass(frozen=True, slots=True)
class Scores:
    """What the network says, as log-odds or scores before a softmax.

    Attributes:
        pointer: (B, S + 1) the last for "it did not fail"; very negative where a step cannot be blamed.
        fault: (B, S) log-odds that something is wrong at this step.
        modes: (B, S, K) log-odds of each mode, given that something is.
        states: (B, S, D) what a step came to mean, to the first of several networks.
    """

    pointer: Array
    fault: Array
    modes: Array
    states: Array


def scores_of(weights: Weights, shape: Shape, steps: StepInputs, *, keep: Array = None) -> Scores:
    """Read B runs.

    Args:
        weights: By name, as `Shape.parameters` lists them; or of N networks, as `stacked` lays them out: then all that
            comes of them, and the bags and sentences that go in, have an axis more, the first.
        shape: The network's.
        steps: The runs.
        keep: (B, S, D) dropout of the states between rounds, in training only.

    Source: pre-norm transformer (arXiv 2002.04745) with relation biases (arXiv 1803.02155, scalar per head).
    """
    xp = _library_of(steps.features)
    states = _through(steps.features, weights["in.features"]) + _through(steps.bags, weights["in.bags"])
    states = states + weights["in.bias"]
    if shape.sentence_width:
        states = states + _through(steps.sentences, weights["in.sentences"])
    hidden = xp.astype(~steps.is_real, states.dtype)[:, None, None, :] * _NEVER  # (B, 1, 1, S)
    for layer in range(shape.n_layers):
        said = _attention(weights, shape, layer, states, steps.relations, hidden)
        states = states + (said if keep is None else said * keep)
        states = states + _thought(weights, layer, states)
    states = _normed(states, weights["out.scale"], weights["out.shift"])
    pointer = _through(states, weights["out.pointer"])[..., 0]
    pointer = xp.where(steps.can_be_blamed, pointer, _NEVER)
    return Scores(
        pointer=xp.concat([pointer, _soundness(weights, states, steps.is_real)], axis=-1),
        fault=_through(states, weights["out.fault"])[..., 0] + weights["out.fault_bias"],
        modes=_through(states, weights["out.modes"]) + weights["out.modes_bias"],
        states=states,
    )


def stacked(networks: Sequence[Weights]) -> Weights:
    """Lay the weights of N networks of one shape side by side, but for those that read words."""
    xp = _library_of(networks[0]["in.bias"])
    found = {}
    for name, first in networks[0].items():
        if name == "words" or name.startswith("sentence."):
            continue
        together = xp.stack([each[name] for each in networks])
        if name in ("out.fault_bias", "out.sound_bias"):  # added to what has no last axis, or one of its own
            together = together[:, None, :]
        elif first.ndim == 1:
            together = together[:, None, None, :]
        elif name.endswith(".relations"):
            together = together[:, None, :, :]
        found[name] = together
    return found


def mean_scores(scores: Sequence[Scores]) -> Scores:
    """Average what several networks say of the same runs: log-probabilities of the pointer, log-odds of the rest.

    Source: Lakshminarayanan et al., "Simple and scalable predictive uncertainty estimation using deep ensembles", 2017
    (arXiv 1612.01474); by the geometric mean, which leaves one temperature to fit.
    """
    if len(scores) == 1:
        return scores[0]
    return Scores(
        pointer=sum(_log_softmax(each.pointer) for each in scores) / len(scores),
        fault=sum(each.fault for each in scores) / len(scores),
        modes=sum(each.modes for each in scores) / len(scores),
        states=scores[0].states,
    )


_LIBRARIES: dict[type, Any] = {}


def _library_of(array: Array) -> Any:
    """Give the array API of an array's library; asked for some eighty times a run, so it is looked up by type."""
    kind = type(array)
    if kind not in _LIBRARIES:
        _LIBRARIES[kind] = arrays.array_namespace(array)
    return _LIBRARIES[kind]


def _attention(weights: Weights, shape: Shape, layer: int, states: Array, relations: Array, hidden: Array) -> Array:
    xp = _library_of(states)
    *several, runs, steps, width = states.shape
    size, before = width // shape.n_heads, tuple(range(len(several) + 1))
    swapped = (*before, before[-1] + 2, before[-1] + 1, before[-1] + 3)  # steps and heads
    normed = _normed(states, weights[f"{layer}.attend.scale"], weights[f"{layer}.attend.shift"])
    mixed = xp.reshape(_through(normed, weights[f"{layer}.attend.in"]), (*several, runs, steps, 3, shape.n_heads, size))
    asks, offers, says = (xp.permute_dims(mixed[..., part, :, :], swapped) for part in range(3))  # (B, H, S, D / H)
    flat = xp.reshape(relations, (relations.shape[0], shape.n_relations, steps * steps))
    shifts = weights[f"{layer}.attend.relations"] @ flat
    shifts = xp.reshape(shifts, (*shifts.shape[:-1], steps, steps))
    logits = asks @ xp.matrix_transpose(offers) / math.sqrt(size) + shifts + hidden
    heard = _softmax(logits) @ says  # (B, H, S, D / H)
    heard = xp.reshape(xp.permute_dims(heard, swapped), (*several, runs, steps, width))
    return _through(heard, weights[f"{layer}.attend.out"])


def _thought(weights: Weights, layer: int, states: Array) -> Array:
    normed = _normed(states, weights[f"{layer}.think.scale"], weights[f"{layer}.think.shift"])
    wide = _gelu(_through(normed, weights[f"{layer}.think.in"]) + weights[f"{layer}.think.bias"])
    return _through(wide, weights[f"{layer}.think.out"])


def _through(values: Array, matrix: Array) -> Array:
    """Multiply (B, S, X) by (X, Y), as one product: NumPy would make one of each run."""
    *several, runs, steps, width = values.shape
    xp = _library_of(values)
    found = xp.reshape(values, (*several, runs * steps, width)) @ matrix
    return xp.reshape(found, (*found.shape[:-2], runs, steps, found.shape[-1]))


def _soundness(weights: Weights, states: Array, is_real: Array) -> Array:
    """Score "it did not fail" by the mean and the maximum over the steps: (B, 1)."""
    xp = _library_of(states)
    real = is_real[..., None]
    count = xp.sum(xp.astype(real, states.dtype), axis=-2)
    mean = xp.sum(xp.where(real, states, 0.0), axis=-2) / count
    highest = xp.max(xp.where(real, states, _NEVER), axis=-2)
    return xp.concat([mean, highest], axis=-1) @ weights["out.sound"] + weights["out.sound_bias"]


def _normed(states: Array, scale: Array, shift: Array) -> Array:
    xp = _library_of(states)
    centred = states - xp.mean(states, axis=-1, keepdims=True)
    spread = xp.mean(centred * centred, axis=-1, keepdims=True)
    return centred / xp.sqrt(spread + _EPSILON) * scale + shift


def _softmax(logits: Array) -> Array:
    xp = _library_of(logits)
    powers = xp.exp(logits - xp.max(logits, axis=-1, keepdims=True))
    return powers / xp.sum(powers, axis=-1, keepdims=True)


def _log_softmax(logits: Array) -> Array:
    xp = _library_of(logits)
    shifted = logits - xp.max(logits, axis=-1, keepdims=True)
    return shifted - xp.log(xp.sum(xp.exp(shifted), axis=-1, keepdims=True))


def _gelu(values: Array) -> Array:
    """Source: arXiv 1606.08415, by the hyperbolic tangent."""
    xp = _library_of(values)
    return 0.5 * values * (1.0 + xp.tanh(0.7978845608 * (values + 0.044715 * values * values * values)))
