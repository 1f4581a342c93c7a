"""The network's arithmetic: one function for NumPy on a CPU, PyTorch on a GPU, and training.

A run is a set of steps with relations between them. Steps attend to each other; which relation holds between two
of them shifts the attention. A step's tokens are read as a bag, and as the maximum over its sentences of M activations,
since a few words may be wrong among many. There is no positional encoding: only features and relations distinguish
the steps. Each step gets a *pointer* score (the failure was decided here; one slot more stands for
"it did not fail"), a *fault* score (something is wrong here, decisive or not) and a score for each mode.

Dims: B runs, S steps of the longest (padded at the end), F features, E width of an embedding, D width, H heads,
R relations, K modes, M activations of a sentence. Everything is float32.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import array_api_compat as arrays
import array_api_compat.numpy  # else imported by the thread that gives the first verdict

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
        n_words: V, rows of the embedding.
        bag_width: E.
        width: D, a multiple of `n_heads`.
        n_heads: H.
        n_layers: Blocks of attention and MLP.
        n_relations: R.
        n_modes: K.
        sentence_width: M.
    """

    n_features: int
    n_words: int
    bag_width: int
    width: int
    n_heads: int
    n_layers: int
    n_relations: int
    n_modes: int
    sentence_width: int

    def parameters(self) -> dict[str, tuple[int, ...]]:
        """Return the size of every weight, by name."""
        width, mlp_width = self.width, 2 * self.width
        sizes: dict[str, tuple[int, ...]] = {
            "embedding": (self.n_words, self.bag_width),
            "input.features": (self.n_features, width),
            "input.bags": (self.bag_width, width),
            "input.bias": (width,),
            "sentence.weight": (self.bag_width, self.sentence_width),
            "sentence.bias": (self.sentence_width,),
            "input.sentences": (self.sentence_width, width),
        }
        for layer in range(self.n_layers):
            sizes |= {
                f"{layer}.attention.norm.scale": (width,),
                f"{layer}.attention.norm.shift": (width,),
                f"{layer}.attention.query_key_value": (width, 3 * width),
                f"{layer}.attention.relation_bias": (self.n_heads, self.n_relations),
                f"{layer}.attention.output": (width, width),
                f"{layer}.mlp.norm.scale": (width,),
                f"{layer}.mlp.norm.shift": (width,),
                f"{layer}.mlp.up": (width, mlp_width),
                f"{layer}.mlp.up_bias": (mlp_width,),
                f"{layer}.mlp.down": (mlp_width, width),
            }
        return sizes | {
            "output.norm.scale": (width,),
            "output.norm.shift": (width,),
            "output.pointer": (width, 1),
            "output.fault": (width, 1),
            "output.fault_bias": (1,),
            "output.modes": (width, self.n_modes),
            "output.modes_bias": (self.n_modes,),
            "output.no_failure": (2 * width, 1),
            "output.no_failure_bias": (1,),
        }


@dataclass(frozen=True, slots=True)
class StepInputs:
    """A batch of runs.

    Attributes:
        features: (B, S, F) scaled to about -3..3.
        bags: (B, S, E) the sum of the embeddings of each step's tokens, by the root of how many there are.
        relations: (B, R, S, S) 1 where relation r leads from step s to step t, else 0; or its strength.
        is_real: (B, S) bool, False on padding.
        can_be_blamed: (B, S) bool, False on padding too.
        sentences: (B, S, M) the maximum over the sentences of each step of their activations.
    """

    features: Array
    bags: Array
    relations: Array
    is_real: Array
    can_be_blamed: Array
    sentences: Array


@dataclass(frozen=True, slots=True)
class Scores:
    """What the network computes, as log-odds or scores before a softmax.

    Attributes:
        pointer: (B, S + 1) the last for "it did not fail"; very negative where a step cannot be blamed.
        fault: (B, S) log-odds that something is wrong at this step.
        modes: (B, S, K) log-odds of each mode, given that something is.
    """

    pointer: Array
    fault: Array
    modes: Array


def forward(weights: Weights, shape: Shape, steps: StepInputs, *, keep: Array = None) -> Scores:
    """Compute the scores of B runs.

    Args:
        weights: By name, as `Shape.parameters` lists them.
        shape: The network's.
        steps: The runs.
        keep: (B, S, D) dropout of the states after attention, in training only.

    Source: pre-norm transformer (arXiv 2002.04745) with relation biases (arXiv 1803.02155, scalar per head).
    """
    xp = _array_api_of(steps.features)
    states = _linear(steps.features, weights["input.features"]) + _linear(steps.bags, weights["input.bags"])
    states = states + weights["input.bias"] + _linear(steps.sentences, weights["input.sentences"])
    padding_bias = xp.astype(~steps.is_real, states.dtype)[:, None, None, :] * _NEVER  # (B, 1, 1, S)
    for layer in range(shape.n_layers):
        attended = _attention(weights, shape, layer, states, steps.relations, padding_bias)
        states = states + (attended if keep is None else attended * keep)
        states = states + _mlp(weights, layer, states)
    states = _layer_norm(states, weights["output.norm.scale"], weights["output.norm.shift"])
    pointer = _linear(states, weights["output.pointer"])[..., 0]
    pointer = xp.where(steps.can_be_blamed, pointer, _NEVER)
    return Scores(
        pointer=xp.concat([pointer, _score_no_failure(weights, states, steps.is_real)], axis=-1),
        fault=_linear(states, weights["output.fault"])[..., 0] + weights["output.fault_bias"],
        modes=_linear(states, weights["output.modes"]) + weights["output.modes_bias"],
    )


_ARRAY_APIS: dict[type, Any] = {}


def _array_api_of(array: Array) -> Any:
    """Return the array API of an array's library; it is needed some eighty times a run, so it is cached by type."""
    kind = type(array)
    if kind not in _ARRAY_APIS:
        _ARRAY_APIS[kind] = arrays.array_namespace(array)
    return _ARRAY_APIS[kind]


def _attention(
    weights: Weights, shape: Shape, layer: int, states: Array, relations: Array, padding_bias: Array
) -> Array:
    """Attend over the steps by several heads; relations and padding are added to the logits."""
    xp = _array_api_of(states)
    runs, steps, width = states.shape
    size, heads_first = width // shape.n_heads, (0, 2, 1, 3)  # swaps steps and heads
    normed = _layer_norm(states, weights[f"{layer}.attention.norm.scale"], weights[f"{layer}.attention.norm.shift"])
    projected = _linear(normed, weights[f"{layer}.attention.query_key_value"])
    projected = xp.reshape(projected, (runs, steps, 3, shape.n_heads, size))
    query, key, value = (xp.permute_dims(projected[:, :, part], heads_first) for part in range(3))  # (B, H, S, D / H)
    flat = xp.reshape(relations, (relations.shape[0], shape.n_relations, steps * steps))
    relation_bias = weights[f"{layer}.attention.relation_bias"] @ flat
    relation_bias = xp.reshape(relation_bias, (runs, shape.n_heads, steps, steps))
    logits = query @ xp.matrix_transpose(key) / math.sqrt(size) + relation_bias + padding_bias
    attended = _softmax(logits) @ value  # (B, H, S, D / H)
    attended = xp.reshape(xp.permute_dims(attended, heads_first), (runs, steps, width))
    return _linear(attended, weights[f"{layer}.attention.output"])


def _mlp(weights: Weights, layer: int, states: Array) -> Array:
    normed = _layer_norm(states, weights[f"{layer}.mlp.norm.scale"], weights[f"{layer}.mlp.norm.shift"])
    activations = _gelu(_linear(normed, weights[f"{layer}.mlp.up"]) + weights[f"{layer}.mlp.up_bias"])
    return _linear(activations, weights[f"{layer}.mlp.down"])


def _linear(values: Array, matrix: Array) -> Array:
    """Multiply (B, S, X) by (X, Y), as one product: NumPy would make one of each run."""
    runs, steps, width = values.shape
    xp = _array_api_of(values)
    return xp.reshape(xp.reshape(values, (runs * steps, width)) @ matrix, (runs, steps, matrix.shape[-1]))


def _score_no_failure(weights: Weights, states: Array, is_real: Array) -> Array:
    """Score "it did not fail" by the mean and the maximum over the steps: (B, 1)."""
    xp = _array_api_of(states)
    real = is_real[..., None]
    count = xp.sum(xp.astype(real, states.dtype), axis=-2)
    mean = xp.sum(xp.where(real, states, 0.0), axis=-2) / count
    highest = xp.max(xp.where(real, states, _NEVER), axis=-2)
    return xp.concat([mean, highest], axis=-1) @ weights["output.no_failure"] + weights["output.no_failure_bias"]


def _layer_norm(states: Array, scale: Array, shift: Array) -> Array:
    xp = _array_api_of(states)
    centred = states - xp.mean(states, axis=-1, keepdims=True)
    spread = xp.mean(centred * centred, axis=-1, keepdims=True)
    return centred / xp.sqrt(spread + _EPSILON) * scale + shift


def _softmax(logits: Array) -> Array:
    xp = _array_api_of(logits)
    powers = xp.exp(logits - xp.max(logits, axis=-1, keepdims=True))
    return powers / xp.sum(powers, axis=-1, keepdims=True)


def _gelu(values: Array) -> Array:
    """Source: arXiv 1606.08415, by the hyperbolic tangent."""
    xp = _array_api_of(values)
    return 0.5 * values * (1.0 + xp.tanh(0.7978845608 * (values + 0.044715 * values * values * values)))
