"""Runs as the turns of their agents.

Dims: N turns of a batch, A agents, B runs, K modes (those of AEGIS, in order), L tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from blamespan.taxonomy import AEGIS
from blamespan_tracer.alternatives.rendering import RenderedRun
from blamespan_tracer.causal.loading import Tokenizer

__all__ = ["CODES", "Turn", "TurnRun", "collate", "turn_run"]

CODES = tuple(AEGIS)
"""The modes, by column."""

_TURN_CHARS = 4_000


@dataclass(frozen=True, slots=True)
class Turn:
    """What an agent says in one decision, with what tools answered to it."""

    text: str
    agent: int
    lands_on: int


@dataclass(frozen=True, slots=True)
class TurnRun:
    """One run.

    Attributes:
        turns: Of agents that can be blamed, in order; not empty.
        names: Of these agents.
        pairs: (place in `names`, column of the mode).
        wrong: Places of turns that are labelled as wrong; empty where only agents are.
        clean: What the same turn said in the clean twin, by the turn's place.
        task: Runs of one task are never on both sides of a split.
    """

    turns: tuple[Turn, ...]
    names: tuple[str, ...]
    pairs: frozenset[tuple[int, int]] = frozenset()
    wrong: tuple[int, ...] = ()
    clean: Mapping[int, str] = None  # type: ignore[assignment]  # set below; a mapping is no default
    task: str = ""

    def __post_init__(self) -> None:
        if self.clean is None:
            object.__setattr__(self, "clean", {})


def turn_run(shown: RenderedRun, most_turns: int) -> TurnRun:
    """Read a rendered run; of a long one the first and the last turns."""
    decisions = shown.decisions
    if len(decisions) > most_turns:
        head = most_turns // 2
        decisions = (*decisions[:head], *decisions[len(decisions) - (most_turns - head) :])
    places = {agent: place for place, agent in enumerate(dict.fromkeys(each.agent for each in decisions))}
    turns = tuple(Turn(_text(shown, each.step), places[each.agent], each.lands_on) for each in decisions)
    return TurnRun(turns, tuple(shown.names[agent - 1] for agent in places))


def collate(runs: Sequence[TurnRun], tokenizer: Tokenizer, turn_tokens: int) -> dict[str, Tensor]:
    """Lay runs out as one batch: all their turns, then those of clean twins.

    Returns:
        input_ids, attention_mask: (N, L).
        of_agent: (A, most turns) places of each agent's turns, -1 for none. of_run: (B, most turns) likewise.
        run_of_agent: (A,).
        agents, modes, pairs: (A,), (B, K) and (A, K) labels, 0 or 1.
        anchors: (A, most turns) which of `of_agent` are known to be wrong; all of an agent at fault where no step is.
        twins: (N,) place of the same turn in the clean twin, -1 for none.
    """
    texts = [turn.text for run in runs for turn in run.turns]
    twins = [-1] * len(texts)
    of_agent: list[list[int]] = []
    of_run: list[list[int]] = []
    run_of_agent: list[int] = []
    anchors: set[int] = set()
    first = 0
    for number, run in enumerate(runs):
        of_run.append(list(range(first, first + len(run.turns))))
        guilty = {agent for agent, _ in run.pairs}
        for agent in range(len(run.names)):
            of_agent.append([first + place for place, turn in enumerate(run.turns) if turn.agent == agent])
            run_of_agent.append(number)
        anchors |= {
            first + at for at, turn in enumerate(run.turns) if turn.agent in guilty and at in (run.wrong or [at])
        }
        for place, text in run.clean.items():
            twins[first + place] = len(texts)
            texts.append(text)
        first += len(run.turns)
    twins += [-1] * (len(texts) - len(twins))
    pairs = torch.zeros(len(of_agent), len(CODES))
    start = 0
    for run in runs:
        for agent, column in run.pairs:
            pairs[start + agent, column] = 1
        start += len(run.names)
    runs_of = torch.tensor(run_of_agent)
    modes = torch.zeros(len(runs), len(CODES)).index_reduce_(0, runs_of, pairs, "amax")
    turns = _ragged(of_agent)
    return {
        **tokenizer(texts, padding=True, truncation=True, max_length=turn_tokens, return_tensors="pt", verbose=False),
        "of_agent": turns,
        "of_run": _ragged(of_run),
        "run_of_agent": runs_of,
        "agents": pairs.amax(dim=1),
        "modes": modes,
        "pairs": pairs,
        "anchors": torch.isin(turns, torch.tensor(sorted(anchors), dtype=torch.long)) & (turns >= 0),
        "twins": torch.tensor(twins),
    }


def _text(shown: RenderedRun, step: int) -> str:
    answer = f"\n{shown.answers[step]}" if shown.answers[step] else ""
    return f"{shown.texts[step]}{answer}"[:_TURN_CHARS].encode("utf-8", "replace").decode("utf-8")


def _ragged(rows: Sequence[Sequence[int]]) -> Tensor:
    most = max(map(len, rows))
    return torch.tensor([[*row, *[-1] * (most - len(row))] for row in rows], dtype=torch.long)
