"""A causal language model as a reader: how sure it is of another value where a run states one.

Dims: N tokens of a text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from blamespan.errors import TracerUnavailable
from blamespan_tracer.causal.loading import Model, Tokenizer, fingerprint, is_out_of_memory
from blamespan_tracer.reader.layout import Expectation, PlacedClaim, RunText

__all__ = ["BUDGET_TOKENS", "WINDOW_TOKENS", "LanguageModelReader"]

WINDOW_TOKENS = 8_192
"""What SmolLM2 was trained to read together."""

BUDGET_TOKENS = 16_384
"""Two windows."""

_UNSURE = 3.0
"""Nats of entropy from which on a model expects nothing in particular."""

_LEAST_OF_WINDOW = 8
"""The task takes up at most one in so many tokens of a window."""

_HEAD_ROWS = 256
"""States whose logits are worked out at once: the vocabulary is large."""

Ints = NDArray[np.int64]


class LanguageModelReader:
    """Reads runs with a causal language model: each token once where a run fits into a window.

    A token's doubt is by how much, in nats, the model held another token for likelier, times how sure it was at all: 1
    where it knew, 0 from three nats of entropy on. A claim's doubt is the highest of its tokens.

    Args:
        model: A causal model of Hugging Face.
        tokenizer: The one that belongs to it: a fast one, which tells where tokens stand.
        window: Most tokens that are read together.
        budget: Most tokens of a run that are read.
        reuse: Whether what two runs that are read one after the other have in common at their beginning is read once.
            It changes the last digits, so a verdict would hang on what was read before.
    """

    def __init__(
        self,
        model: Model,
        tokenizer: Tokenizer,
        *,
        window: int = WINDOW_TOKENS,
        budget: int = BUDGET_TOKENS,
        reuse: bool = False,
    ) -> None:
        self._model, self._tokenizer, self._reuse = model, tokenizer, reuse
        self._window, self._most_windows = min(window, budget), max(1, budget // window)
        self._digest = fingerprint(model)
        self._seen: Ints = np.zeros(0, np.int64)
        self._cache: Any = None  # Any: a cache of transformers

    @property
    def digest(self) -> str:
        """Fingerprint of the model."""
        return self._digest

    def read(self, run: RunText, shares: Sequence[float] = ()) -> list[Expectation]:
        """Return what is expected in the place of each claim that the budget allows for, in the order of the text.

        Raises:
            TracerUnavailable: if memory ends.
        """
        try:
            return self._read(run, shares)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            raise TracerUnavailable(
                f"expected a window of {self._window} tokens to fit on {self._model.device}, got out of memory. "
                "Set BLAMESPAN_READER_DEVICE=cpu, or take a smaller model"
            ) from error

    def _read(self, run: RunText, shares: Sequence[float]) -> list[Expectation]:
        tokens = self._tokenizer(run.text, return_offsets_mapping=True, add_special_tokens=False, verbose=False)
        ids = np.array(tokens["input_ids"], np.int64)
        spans = np.array(tokens["offset_mapping"], np.int64).reshape(-1, 2)
        written = [_find_tokens(spans, claim) for claim in run.claims]
        doubts: dict[int, float] = {}
        n_task = min(int(np.searchsorted(spans[:, 0], run.task_chars)), self._window // _LEAST_OF_WINDOW)
        for first, stop, fresh in self._choose_windows(len(ids), n_task, run, written, shares):
            rows = np.unique([token for row in written for token in row if fresh <= token < stop and token])
            if not len(rows):
                continue
            n_before = n_task if first else 0
            window = np.concatenate([ids[:n_before], ids[first:stop]])
            found = self._doubt(window, rows.astype(np.int64) - first + n_before)
            doubts.update(zip(rows.tolist(), found, strict=True))
        return [
            Expectation(placed.claim, max(doubts.get(token, 0.0) for token in row))
            for placed, row in zip(run.claims, written, strict=True)
            if any(token in doubts for token in row)
        ]

    def _choose_windows(
        self,
        n_tokens: int,
        n_task: int,
        run: RunText,
        written: Sequence[Sequence[int]],
        shares: Sequence[float],
    ) -> list[tuple[int, int, int]]:
        """Return the windows to read, in the order of the text: all, or the most blamed ones that the budget allows."""
        windows = list(_split(n_tokens, self._window, n_task))
        if len(windows) <= self._most_windows or not shares:
            return windows[: self._most_windows]

        def blame(window: tuple[int, int, int]) -> float:
            _, stop, fresh = window
            steps = [
                claim.claim.mention.step
                for claim, row in zip(run.claims, written, strict=True)
                if row and fresh <= row[0] < stop
            ]
            return max((shares[step] for step in steps), default=0.0)

        return sorted(sorted(windows, key=lambda window: (-blame(window), window))[: self._most_windows])

    @torch.inference_mode()
    def _doubt(self, ids: Ints, rows: Ints) -> list[float]:
        """Return how much the model doubted each of the tokens at *rows*."""
        n_known = min(_count_common(self._seen, ids), int(rows[0]) - 1)
        cache, self._cache = self._cache, None  # what is cut short, as by memory that ends, leaves nothing half read
        if n_known <= 0:
            n_known, cache = 0, None
        elif n_known < len(self._seen):
            cache.crop(n_known - len(self._seen))
        new = torch.from_numpy(ids[n_known:])[None].to(self._model.device)
        read = self._model.model(input_ids=new, past_key_values=cache, use_cache=self._reuse)
        states = read.last_hidden_state[0, torch.from_numpy(rows - 1 - n_known).to(self._model.device)]
        stated = torch.from_numpy(ids[rows]).to(self._model.device)
        doubts: list[float] = []
        for first in range(0, len(rows), _HEAD_ROWS):
            logs = torch.log_softmax(self._model.lm_head(states[first : first + _HEAD_ROWS]).float(), dim=-1)
            entropy = -(logs.exp() * logs).sum(dim=-1)
            margin = logs.max(dim=-1).values - logs.gather(1, stated[first : first + _HEAD_ROWS, None])[:, 0]
            doubts += (margin * (1.0 - entropy / _UNSURE).clamp(min=0.0)).tolist()
        if self._reuse:
            self._cache, self._seen = read.past_key_values, ids
        return doubts


def _find_tokens(spans: Ints, claim: PlacedClaim) -> list[int]:
    """List the tokens that write a claim."""
    first = int(np.searchsorted(spans[:, 1], claim.start, side="right"))
    stop = int(np.searchsorted(spans[:, 0], claim.stop, side="left"))
    return list(range(first, stop))


def _split(n_tokens: int, window: int, n_task: int) -> Iterator[tuple[int, int, int]]:
    """Yield windows: first token, token behind the last, and the first that no window before holds.

    Each but the first begins in the middle of the one before, and leaves room for the task.
    """
    stop = min(window, n_tokens)
    yield 0, stop, 0
    room = window - n_task
    while stop < n_tokens:
        first, fresh = stop - room // 2, stop
        stop = min(first + room, n_tokens)
        yield first, stop, fresh


def _count_common(one: Ints, other: Ints) -> int:
    n = min(len(one), len(other))
    differs = np.flatnonzero(one[:n] != other[:n])
    return int(differs[0]) if len(differs) else n
