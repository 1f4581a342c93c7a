"""The causal tracer: a language model reads a run, and the probabilities of its answers are the verdict.

Dims: N decisions of a run, the last score for nobody; K modes.
"""

from __future__ import annotations

import gc
import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from blamespan import __version__
from blamespan.attribution import Attribution, Evidence, ModeBlame, TracerIdentity
from blamespan.taxonomy import AEGIS
from blamespan.trace import MessageActionTrace
from blamespan_tracer.abstention import abstention_reason
from blamespan_tracer.alternatives.rendering import Candidate, RenderedRun, cut
from blamespan_tracer.causal.generation import AnswerConstraint, generate_replies
from blamespan_tracer.causal.loading import (
    Model,
    Tokenizer,
    base_of,
    check_config,
    device_of,
    digest_of,
    is_out_of_memory,
    load_model,
    load_tokenizer,
    with_adapter,
)
from blamespan_tracer.causal.model_checks import check_pair, check_template, choose_scorer
from blamespan_tracer.causal.occlusion import heaviest_message, heaviest_sentence
from blamespan_tracer.causal.prompt_builder import Prompt, PromptBuilder
from blamespan_tracer.causal.prompts import MODE_OF, OPEN, StepAnswer, read_step, read_thought, render_for_model
from blamespan_tracer.causal.scoring import Floats, Scorer, can_share_prefix, score_one_by_one, score_tries
from blamespan_tracer.causal.settings import CausalSettings, Learnt
from blamespan_tracer.causal.token_trie import TokenTrie
from blamespan_tracer.checks.in_use import digest_files
from blamespan_tracer.numeric import pointer_shares, softmax

__all__ = ["CausalPrediction", "CausalTracer"]

_MOST_CONTEXT = 32_768
"""Tokens of prompt and reply where nobody said how many: a cache of some 5 GB in a model of 8B."""

_MAX_MODES = 3
_LEAST_MODE = 0.2
"""A mode is named from this probability on; the likeliest always is."""

_DECISION_CHARS, _LEAST_CHARS = 1_500, 40
"""How much is shown of a decision whose messages are tried one by one, and at least of each."""

_TOO_LONG = "the run is too long: {steps} steps do not fit into {context} tokens, cut and in parts"
_NEVER = -100.0
"""Stands for the log-probability of an answer that the question does not know."""
_UNREADABLE = "the model's reply is not in the format, or names no decision of the run"
_NO_NUMBERS = "the model's probabilities are no numbers: its weights may be damaged"
_NO_MEMORY = (
    "out of memory on one run alone ({device}, {tokens} tokens): set BLAMESPAN_CAUSAL_CONTEXT to fewer, or take a "
    "smaller model"
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CausalPrediction:
    """What the model predicts of one run.

    Attributes:
        run: As it was shown.
        scores: (N + 1,) log-probability of each decision of the run, and of nobody; up to a constant.
        modes: (K,) probabilities of the kinds of error of the likeliest decision, by code.
    """

    run: RenderedRun
    scores: Floats
    modes: dict[str, float]


class CausalTracer:
    """Attributes runs by the probabilities of a language model's answers; see docs/llm.md.

    - A decision's share of the blame is how likely the model names it if it names somebody; of all answers that are
      possible each is scored, none is sampled.
    - `failure_score` is how likely it names somebody. Below `Learnt.alarm` there is no verdict, unless the run is
      known to have failed.
    - Of a decision of several messages the one is blamed without which the model blames it least; of that message the
      sentence is quoted of which the same holds.

    Runs are read some at a time. What shares a batch changes how sums are rounded and nothing else: scores differ by
    some 1e-5 in float32 and 1e-2 in bfloat16, as padding is masked and positions do not count it. With
    `BLAMESPAN_CAUSAL_BATCH=1` a verdict is the same whatever shares the call.
    """

    def __init__(
        self,
        model: Model,
        tokenizer: Tokenizer,
        settings: CausalSettings,
        learnt: Learnt,
        digest: str = "",
        *,
        scorer: Scorer | None = None,
    ) -> None:
        max_new_tokens = settings.max_new_tokens if settings.max_new_tokens is not None else learnt.thinks
        own = int(getattr(model.config.get_text_config(), "max_position_embeddings", 0) or _MOST_CONTEXT)
        self._context = min(settings.context or learnt.context or _MOST_CONTEXT, own)
        self._model = model
        self._tokenizer = tokenizer
        self._settings = settings
        self._learnt = learnt
        self._prompts = PromptBuilder(
            tokenizer, self._context, max_new_tokens, learnt.question, is_brief=learnt.is_brief
        )
        self._names_findings = settings.contracts if settings.contracts is not None else learnt.contracts
        self._contracts = digest_files() if self._names_findings else None
        self._batch = settings.batch
        self._score = scorer or (score_tries if can_share_prefix(model) else score_one_by_one)
        self._identity = TracerIdentity("causal", __version__, digest)

    @classmethod
    def from_environment(cls) -> CausalTracer:
        """Load what the environment names; see `CausalSettings`.

        Raises:
            ConfigError: if a variable is wrong or missing.
            TracerUnavailable: if model, tokenizer or adapter cannot be loaded.
        """
        return cls.load(CausalSettings.from_environment())

    @classmethod
    def load(cls, settings: CausalSettings) -> CausalTracer:
        """Load what *settings* name, and try it out.

        Raises:
            ConfigError: if prompt and reply are given too few tokens for any run.
            TracerUnavailable: if model, tokenizer or adapter cannot be loaded, or do not belong together.
        """
        name = settings.model or base_of(settings.adapter)
        learnt = Learnt.load(Path(settings.adapter or name))
        check_config(name)
        tokenizer = load_tokenizer(name)
        check_template(tokenizer, name)
        model = load_model(name, device_of(settings.device))
        if settings.adapter:
            model = with_adapter(model, settings.adapter, base=learnt.base)
        check_pair(model, tokenizer, name)
        scorer, can_pad = choose_scorer(model, tokenizer, name)
        digest = digest_of(*filter(None, (name, settings.adapter)))
        settings = settings if can_pad else replace(settings, batch=1)
        tracer = cls(model, tokenizer, settings, learnt, digest, scorer=scorer)
        tracer._prompts.check_room(tracer._context)
        return tracer

    @property
    def identity(self) -> TracerIdentity:
        """Name, version and weights digest."""
        return self._identity

    @property
    def settings(self) -> dict[str, Any]:
        """What beside the weights decides its verdicts; a batch only rounds them otherwise."""
        settings = self._settings
        thought = {"max_new_tokens": settings.max_new_tokens, "is_constrained": settings.is_constrained}
        return {"context": self._context, "contracts": self._contracts, **thought}

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        """Attribute each run; one verdict per trace, in order."""
        silent = [abstention_reason(trace) for trace in traces]
        judged = iter(self.judge([trace for trace, why in zip(traces, silent, strict=True) if why is None]))
        return [
            self._verdict(trace, next(judged)) if why is None else Attribution.abstain(trace, why, self._identity)
            for trace, why in zip(traces, silent, strict=True)
        ]

    def judge(self, traces: Sequence[MessageActionTrace]) -> list[CausalPrediction | str]:
        """Score each run; where that cannot be, say why not. Each must have a decision of an agent."""
        runs = [render_for_model(trace, names_findings=self._names_findings) for trace in traces]
        parts = [self._prompts.parts(run) for run in runs]
        flat = iter(self._score_in_batches([part for run_parts in parts for part in run_parts]))
        predictions: list[CausalPrediction | str] = []
        for run, run_parts in zip(runs, parts, strict=True):
            scored = [next(flat) for _ in run_parts]
            predictions.append(self._join_parts(run, run_parts, scored))
        return predictions

    def _join_parts(
        self, run: RenderedRun, parts: Sequence[Prompt], scored: Sequence[tuple[Floats, dict[str, float]] | str]
    ) -> CausalPrediction | str:
        """Put the parts of a run together: each says how much likelier than nobody its decisions are."""
        if not parts:
            return _TOO_LONG.format(steps=len(run), context=self._context)
        scores: list[float] = []
        best, modes = -math.inf, dict[str, float]()
        for part in scored:
            if isinstance(part, str):
                return part
            if not (np.isfinite(part[0]).all() and np.isfinite(list(part[1].values())).all()):
                return _NO_NUMBERS
            odds = part[0][:-1] - part[0][-1]
            scores += odds.tolist()
            if odds.max() > best:
                best, modes = float(odds.max()), part[1]
        return CausalPrediction(run, np.array([*scores, 0.0]), modes)

    def _score_in_batches(self, parts: Sequence[Prompt]) -> Iterator[tuple[Floats, dict[str, float]] | str]:
        """Score prompts some at a time, of like length; after an out-of-memory fewer at a time."""
        order = sorted(range(len(parts)), key=lambda index: -len(parts[index].tokens))
        by_part: dict[int, tuple[Floats, dict[str, float]] | str] = {}
        while order:
            some, order = order[: self._batch], order[self._batch :]
            try:
                by_part.update(zip(some, self._score_parts([parts[index] for index in some]), strict=True))
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                _free(self._model)
                if len(some) == 1:
                    device = self._model.device
                    by_part[some[0]] = _NO_MEMORY.format(device=device, tokens=len(parts[some[0]].tokens))
                    continue
                order = some + order
                self._batch = len(some) // 2
                _log.warning("out of memory with %d runs at a time: going on with %d", len(some), self._batch)
        return iter([by_part[index] for index in range(len(parts))])

    def _score_parts(self, parts: Sequence[Prompt]) -> list[tuple[Floats, dict[str, float]] | str]:
        thoughts = self._thoughts(parts)
        readable = [(part, thought) for part, thought in zip(parts, thoughts, strict=True) if thought is not None]
        if self._prompts.question == "pairs":
            scored = iter(self._score_pairs(readable))
        else:
            scored = iter(self._score_steps(readable))
        return [_UNREADABLE if thought is None else next(scored) for thought in thoughts]

    def _score_steps(self, parts: Sequence[tuple[Prompt, str]]) -> Iterable[tuple[Floats, dict[str, float]]]:
        before = [self._prompts.before_answer(part, thought) for part, thought in parts]
        scores = self._chances(before, [self._prompts.steps(part) for part, _ in parts])
        best = [part.shown.decisions[int(row[:-1].argmax())] for (part, _), row in zip(parts, scores, strict=True)]
        before = [
            self._prompts.before_mode(part, thought, decision.agent, decision.step)
            for (part, thought), decision in zip(parts, best, strict=True)
        ]
        modes = self._chances(before, [self._prompts.modes()] * len(before))
        return [
            (row, dict(zip(MODE_OF, softmax(mode_scores).tolist(), strict=True)))
            for row, mode_scores in zip(scores, modes, strict=True)
        ]

    def _score_pairs(self, parts: Sequence[tuple[Prompt, str]]) -> Iterable[tuple[Floats, dict[str, float]]]:
        """Share each agent's chance evenly over its decisions: such an answer names no step, and never nobody."""
        before = [self._prompts.before_answer(part, thought) for part, thought in parts]
        scores = self._chances(before, [self._prompts.first_pairs(part) for part, _ in parts])
        return [_spread_over_decisions(part, row) for (part, _), row in zip(parts, scores, strict=True)]

    def _chances(self, prompts: Sequence[Sequence[int]], tries: Sequence[TokenTrie]) -> list[Floats]:
        return self._score(self._model, prompts, tries, self._tokenizer.pad_token_id) if prompts else []

    def _thoughts(self, parts: Sequence[Prompt]) -> list[str | None]:
        """Let the model think, where it may; None where it did not come to a readable answer."""
        most = self._prompts.max_new_tokens
        if not most:
            return [""] * len(parts)
        constraint = None
        if self._settings.is_constrained and self._prompts.question == "step":
            closing = self._prompts.tokens("\n</think>")
            tries = [self._prompts.replies(part) for part in parts]
            constraint = AnswerConstraint(
                self._tokenizer,
                tries,
                closing,
                most_thought=max(most - len(closing), 1),
                banned=self._prompts.not_in_thoughts(),
            )
        prompts = [self._prompts.open_thought(part) for part in parts]
        written = generate_replies(
            self._model, self._tokenizer, prompts, constraint=constraint, max_new_tokens=most + self._prompts.room
        )
        return [self._thought(part, row) for part, row in zip(parts, written, strict=True)]

    def _thought(self, part: Prompt, tokens: Sequence[int]) -> str | None:
        text = str(self._tokenizer.decode(tokens, clean_up_tokenization_spaces=False))
        reply = f"{OPEN}\n{text}"
        if self._prompts.question == "pairs":
            return read_thought(reply)
        answer = read_step(reply)
        return read_thought(reply) if answer is not None and _is_possible(answer, part) else None

    def _verdict(self, trace: MessageActionTrace, judged: CausalPrediction | str) -> Attribution:
        if isinstance(judged, str):
            return Attribution.abstain(trace, judged, self._identity)
        by_decision, failed = pointer_shares(judged.scores, self._learnt.temperature)
        if failed < self._learnt.alarm and trace.outcome != "failed":
            reason = f"probably sound: failure score {failed:.2f} is below {self._learnt.alarm:.2f}"
            return Attribution.abstain(trace, reason, self._identity)
        shares = np.zeros(len(trace.steps))
        lands_on = [decision.lands_on for decision in judged.run.decisions]
        worst = int(by_decision.argmax())
        lands_on[worst] = self._lands_on(trace, judged.run, judged.run.decisions[worst])
        np.add.at(shares, lands_on, by_decision)
        agent = trace.steps[lands_on[worst]].agent
        verdict = Attribution.of(
            trace,
            shares.tolist(),
            failure_score=failed,
            unaided_score=failed,
            tracer=self._identity,
            modes=self._rank_modes(judged.modes, agent, judged.run),
            coverage=self._learnt.set_mass,
        )
        return replace(verdict, evidence=tuple(self._evidence(trace, judged.run, verdict)))

    def _lands_on(self, trace: MessageActionTrace, run: RenderedRun, decision: Candidate) -> int:
        """Find the step that blame for the decisive decision lands on: of several the one without which it is least."""
        own = run.origins[decision.step]
        if len(own) == 1 or self._prompts.question == "pairs":
            return decision.lands_on
        texts = [cut(trace.steps[step].content, max(_DECISION_CHARS // len(own), _LEAST_CHARS)) for step in own]
        try:
            index = heaviest_message(texts, partial(self._blame, run, decision.step))
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            _free(self._model)
            index = None
        return own[index] if index is not None else decision.lands_on

    def _evidence(self, trace: MessageActionTrace, run: RenderedRun, verdict: Attribution) -> Iterator[Evidence]:
        """Quote the decisive step; nothing where answers name no step, or there is no memory left for it."""
        step = verdict.decisive_step
        if step is None or self._prompts.question == "pairs":
            return
        position = next(decision.step for decision in run.decisions if step in run.origins[decision.step])
        try:
            quote = heaviest_sentence(trace.steps[step].content, partial(self._blame, run, position))
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            _free(self._model)
            return
        if quote:
            yield Evidence(step, quote, verdict.steps[step].score)

    def _blame(self, run: RenderedRun, position: int, texts: Sequence[str]) -> list[float]:
        """Return how likely the decision at *position* is named among its neighbours, by each of *texts* for it."""
        parts = [self._prompts.around(run, position, text) for text in texts]
        fitting = [part for part in parts if part is not None]
        if len(fitting) < len(parts):
            return [0.0] * len(parts)
        logprobs: list[float] = []
        for start in range(0, len(fitting), self._batch):
            some = fitting[start : start + self._batch]
            prompts = [self._prompts.before_answer(part) for part in some]
            scores = self._chances(prompts, [self._prompts.steps(part) for part in some])
            for part, row in zip(some, scores, strict=True):
                own = [decision.step for decision in part.shown.decisions].index(position)
                logprobs.append(float(np.log(softmax(row)[own])))
        return logprobs

    def _rank_modes(self, modes: dict[str, float], agent: str, run: RenderedRun) -> list[ModeBlame]:
        ranked = sorted(modes.items(), key=lambda item: -item[1])[:_MAX_MODES]
        named = [(key, chance) for rank, (key, chance) in enumerate(ranked) if not rank or chance >= _LEAST_MODE]
        if self._prompts.question == "step":
            return [ModeBlame(MODE_OF[code], agent, chance) for code, chance in named]
        pairs = [(key.partition("|"), chance) for key, chance in named]
        return [ModeBlame(AEGIS[code], run.names[int(number) - 1], chance) for (number, _, code), chance in pairs]


def _is_possible(answer: StepAnswer, part: Prompt) -> bool:
    pairs = {(decision.agent, decision.step) for decision in part.shown.decisions}
    return (answer.agent, answer.step) in pairs or (answer.agent, answer.step) == (0, 0)


def _free(model: Model) -> None:
    """Free what a failed pass left behind."""
    gc.collect()
    if model.device.type == "cuda":
        torch.cuda.empty_cache()


def _spread_over_decisions(part: Prompt, scores: Floats) -> tuple[Floats, dict[str, float]]:
    """Share each agent's chance evenly over its decisions.

    Args:
        part: What was asked about.
        scores: Log-probabilities of the first lines of an answer: every agent with every mode, modes fastest.

    Returns:
        Log-probabilities of its decisions and of nobody, and the chance of each pair as `agent|code`.
    """
    decisions = part.shown.decisions
    agents = list(dict.fromkeys(decision.agent for decision in decisions))
    chances = softmax(scores).reshape(len(agents), len(AEGIS))
    steps = {agent: sum(decision.agent == agent for decision in decisions) for agent in agents}
    by_agent = dict(zip(agents, chances.sum(axis=1).tolist(), strict=True))
    shares = np.array([by_agent[decision.agent] / steps[decision.agent] for decision in decisions])
    modes = {
        f"{agent}|{code}": float(chances[row, column])
        for row, agent in enumerate(agents)
        for column, code in enumerate(AEGIS)
    }
    return np.array([*np.log(np.maximum(shares, 1e-12)).tolist(), _NEVER]), modes
