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
from blamespan_tracer.causal.formats import MODE_OF, OPEN, StepAnswer, read_step, thought_of
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
from blamespan_tracer.causal.quotes import heaviest_message, heaviest_sentence
from blamespan_tracer.causal.reading import Part, Reader
from blamespan_tracer.causal.scoring import Floats, Scorer, can_share_prefix, score_one_by_one, score_tries
from blamespan_tracer.causal.settings import CausalSettings, Learnt
from blamespan_tracer.causal.showing import show
from blamespan_tracer.causal.spreading import softmax, spread
from blamespan_tracer.causal.trie import TokenTrie
from blamespan_tracer.causal.trying import check_pair, check_template, tried_scorer
from blamespan_tracer.causal.writing import AnswerConstraint, write_replies
from blamespan_tracer.contracts.loading import digest_of_files
from blamespan_tracer.numeric import pointer_shares
from blamespan_tracer.rendering import Candidate, RenderedRun, cut
from blamespan_tracer.silence import why_silent

__all__ = ["CausalTracer", "Judged"]

_MOST_CONTEXT = 32_768
"""Tokens of prompt and reply where nobody said how many: a cache of some 5 GB in a model of 8B."""

_MAX_MODES = 3
_LEAST_MODE = 0.2
"""A mode is named from this probability on; the likeliest always is."""

_DECISION_CHARS, _LEAST_CHARS = 1_500, 40
"""How much is shown of a decision whose messages are tried one by one, and at least of each."""

_TOO_LONG = "the run is too long: {steps} steps do not fit into {context} tokens, cut and in parts"
_UNREADABLE = "the model's reply is not in the format, or names no decision of the run"
_NO_NUMBERS = "the model's probabilities are no numbers: its weights may be damaged"
_NO_MEMORY = (
    "out of memory on one run alone ({device}, {tokens} tokens): set BLAMESPAN_CAUSAL_CONTEXT to fewer, or take a "
    "smaller model"
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Judged:
    """What the model says of one run.

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
        said = settings.max_new_tokens if settings.max_new_tokens is not None else learnt.thinks
        own = int(getattr(model.config.get_text_config(), "max_position_embeddings", 0) or _MOST_CONTEXT)
        self._context = min(settings.context or learnt.context or _MOST_CONTEXT, own)
        self._model = model
        self._tokenizer = tokenizer
        self._settings = settings
        self._learnt = learnt
        self._reader = Reader(tokenizer, self._context, said, learnt.question, is_brief=learnt.is_brief)
        self._names_broken = settings.contracts if settings.contracts is not None else learnt.contracts
        self._contracts = digest_of_files() if self._names_broken else None
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
        scorer, can_pad = tried_scorer(model, tokenizer, name)
        digest = digest_of(*filter(None, (name, settings.adapter)))
        settings = settings if can_pad else replace(settings, batch=1)
        made = cls(model, tokenizer, settings, learnt, digest, scorer=scorer)
        made._reader.check_room(made._context)
        return made

    @property
    def identity(self) -> TracerIdentity:
        """Name, version and weights digest."""
        return self._identity

    @property
    def settings(self) -> dict[str, Any]:
        """What beside the weights decides its verdicts; a batch only rounds them otherwise."""
        said = self._settings
        thought = {"max_new_tokens": said.max_new_tokens, "is_constrained": said.is_constrained}
        return {"context": self._context, "contracts": self._contracts, **thought}

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        """Attribute each run; one verdict per trace, in order."""
        silent = [why_silent(trace) for trace in traces]
        judged = iter(self.judge([trace for trace, why in zip(traces, silent, strict=True) if why is None]))
        return [
            self._verdict(trace, next(judged)) if why is None else Attribution.abstain(trace, why, self._identity)
            for trace, why in zip(traces, silent, strict=True)
        ]

    def judge(self, traces: Sequence[MessageActionTrace]) -> list[Judged | str]:
        """Score each run; where that cannot be, say why not. Each must have a decision of an agent."""
        runs = [show(trace, names_broken=self._names_broken) for trace in traces]
        parts = [self._reader.parts(run) for run in runs]
        flat = iter(self._in_batches([part for each in parts for part in each]))
        found: list[Judged | str] = []
        for run, each in zip(runs, parts, strict=True):
            scored = [next(flat) for _ in each]
            found.append(self._joined(run, each, scored))
        return found

    def _joined(
        self, run: RenderedRun, parts: Sequence[Part], scored: Sequence[tuple[Floats, dict[str, float]] | str]
    ) -> Judged | str:
        """Put the parts of a run together: each says how much likelier than nobody its decisions are."""
        if not parts:
            return _TOO_LONG.format(steps=len(run), context=self._context)
        scores: list[float] = []
        best, modes = -math.inf, dict[str, float]()
        for each in scored:
            if isinstance(each, str):
                return each
            if not (np.isfinite(each[0]).all() and np.isfinite(list(each[1].values())).all()):
                return _NO_NUMBERS
            odds = each[0][:-1] - each[0][-1]
            scores += odds.tolist()
            if odds.max() > best:
                best, modes = float(odds.max()), each[1]
        return Judged(run, np.array([*scores, 0.0]), modes)

    def _in_batches(self, parts: Sequence[Part]) -> Iterator[tuple[Floats, dict[str, float]] | str]:
        """Score prompts some at a time, of like length; after an out-of-memory fewer at a time."""
        order = sorted(range(len(parts)), key=lambda place: -len(parts[place].tokens))
        found: dict[int, tuple[Floats, dict[str, float]] | str] = {}
        while order:
            some, order = order[: self._batch], order[self._batch :]
            try:
                found.update(zip(some, self._scored([parts[place] for place in some]), strict=True))
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                _free(self._model)
                if len(some) == 1:
                    device = self._model.device
                    found[some[0]] = _NO_MEMORY.format(device=device, tokens=len(parts[some[0]].tokens))
                    continue
                order = some + order
                self._batch = len(some) // 2
                _log.warning("out of memory with %d runs at a time: going on with %d", len(some), self._batch)
        return iter([found[place] for place in range(len(parts))])

    def _scored(self, parts: Sequence[Part]) -> list[tuple[Floats, dict[str, float]] | str]:
        thoughts = self._thoughts(parts)
        known = [(part, thought) for part, thought in zip(parts, thoughts, strict=True) if thought is not None]
        if self._reader.question == "pairs":
            scored = iter(self._scored_pairs(known))
        else:
            scored = iter(self._scored_steps(known))
        return [_UNREADABLE if thought is None else next(scored) for thought in thoughts]

    def _scored_steps(self, parts: Sequence[tuple[Part, str]]) -> Iterable[tuple[Floats, dict[str, float]]]:
        before = [self._reader.before_answer(part, thought) for part, thought in parts]
        scores = self._chances(before, [self._reader.steps(part) for part, _ in parts])
        best = [part.shown.decisions[int(row[:-1].argmax())] for (part, _), row in zip(parts, scores, strict=True)]
        before = [
            self._reader.before_mode(part, thought, decision.agent, decision.step)
            for (part, thought), decision in zip(parts, best, strict=True)
        ]
        modes = self._chances(before, [self._reader.modes()] * len(before))
        return [
            (row, dict(zip(MODE_OF, softmax(each).tolist(), strict=True)))
            for row, each in zip(scores, modes, strict=True)
        ]

    def _scored_pairs(self, parts: Sequence[tuple[Part, str]]) -> Iterable[tuple[Floats, dict[str, float]]]:
        """Share each agent's chance evenly over its decisions: such an answer names no step, and never nobody."""
        before = [self._reader.before_answer(part, thought) for part, thought in parts]
        found = self._chances(before, [self._reader.first_pairs(part) for part, _ in parts])
        return [spread(part, row) for (part, _), row in zip(parts, found, strict=True)]

    def _chances(self, prompts: Sequence[Sequence[int]], tries: Sequence[TokenTrie]) -> list[Floats]:
        return self._score(self._model, prompts, tries, self._tokenizer.pad_token_id) if prompts else []

    def _thoughts(self, parts: Sequence[Part]) -> list[str | None]:
        """Let the model think, where it may; None where it did not come to a readable answer."""
        most = self._reader.max_new_tokens
        if not most:
            return [""] * len(parts)
        constraint = None
        if self._settings.is_constrained and self._reader.question == "step":
            closing = self._reader.tokens("\n</think>")
            tries = [self._reader.replies(part) for part in parts]
            constraint = AnswerConstraint(
                self._tokenizer,
                tries,
                closing,
                most_thought=max(most - len(closing), 1),
                banned=self._reader.not_in_thoughts(),
            )
        prompts = [self._reader.opened(part) for part in parts]
        written = write_replies(
            self._model, self._tokenizer, prompts, constraint=constraint, max_new_tokens=most + self._reader.room
        )
        return [self._thought(part, row) for part, row in zip(parts, written, strict=True)]

    def _thought(self, part: Part, tokens: Sequence[int]) -> str | None:
        text = str(self._tokenizer.decode(tokens, clean_up_tokenization_spaces=False))
        reply = f"{OPEN}\n{text}"
        if self._reader.question == "pairs":
            return thought_of(reply)
        answer = read_step(reply)
        return thought_of(reply) if answer is not None and _is_possible(answer, part) else None

    def _verdict(self, trace: MessageActionTrace, judged: Judged | str) -> Attribution:
        if isinstance(judged, str):
            return Attribution.abstain(trace, judged, self._identity)
        by_decision, failed = pointer_shares(judged.scores, self._learnt.temperature)
        if failed < self._learnt.alarm and trace.outcome != "failed":
            reason = f"probably sound: failure score {failed:.2f} is below {self._learnt.alarm:.2f}"
            return Attribution.abstain(trace, reason, self._identity)
        shares = np.zeros(len(trace.steps))
        lands_on = [each.lands_on for each in judged.run.decisions]
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
            modes=self._named(judged.modes, agent, judged.run),
            coverage=self._learnt.set_mass,
        )
        return replace(verdict, evidence=tuple(self._evidence(trace, judged.run, verdict)))

    def _lands_on(self, trace: MessageActionTrace, run: RenderedRun, decision: Candidate) -> int:
        """Find the step that blame for the decisive decision lands on: of several the one without which it is least."""
        own = run.origins[decision.step]
        if len(own) == 1 or self._reader.question == "pairs":
            return decision.lands_on
        said = [cut(trace.steps[index].content, max(_DECISION_CHARS // len(own), _LEAST_CHARS)) for index in own]
        try:
            place = heaviest_message(said, partial(self._blame, run, decision.step))
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            _free(self._model)
            place = None
        return own[place] if place is not None else decision.lands_on

    def _evidence(self, trace: MessageActionTrace, run: RenderedRun, verdict: Attribution) -> Iterator[Evidence]:
        """Quote the decisive step; nothing where answers name no step, or there is no memory left for it."""
        step = verdict.decisive_step
        if step is None or self._reader.question == "pairs":
            return
        place = next(each.step for each in run.decisions if step in run.origins[each.step])
        try:
            quote = heaviest_sentence(trace.steps[step].content, partial(self._blame, run, place))
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            _free(self._model)
            return
        if quote:
            yield Evidence(step, quote, verdict.steps[step].score)

    def _blame(self, run: RenderedRun, place: int, texts: Sequence[str]) -> list[float]:
        """Find how likely the decision at *place* is named, among those around it, with each of *texts* for its own."""
        parts = [self._reader.around(run, place, text) for text in texts]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return [0.0] * len(parts)
        found: list[float] = []
        for start in range(0, len(known), self._batch):
            some = known[start : start + self._batch]
            prompts = [self._reader.before_answer(part) for part in some]
            scores = self._chances(prompts, [self._reader.steps(part) for part in some])
            for part, row in zip(some, scores, strict=True):
                own = [each.step for each in part.shown.decisions].index(place)
                found.append(float(np.log(softmax(row)[own])))
        return found

    def _named(self, modes: dict[str, float], agent: str, run: RenderedRun) -> list[ModeBlame]:
        ranked = sorted(modes.items(), key=lambda item: -item[1])[:_MAX_MODES]
        named = [(key, chance) for place, (key, chance) in enumerate(ranked) if not place or chance >= _LEAST_MODE]
        if self._reader.question == "step":
            return [ModeBlame(MODE_OF[code], agent, chance) for code, chance in named]
        pairs = [(key.partition("|"), chance) for key, chance in named]
        return [ModeBlame(AEGIS[code], run.names[int(number) - 1], chance) for (number, _, code), chance in pairs]


def _is_possible(answer: StepAnswer, part: Part) -> bool:
    pairs = {(each.agent, each.step) for each in part.shown.decisions}
    return (answer.agent, answer.step) in pairs or (answer.agent, answer.step) == (0, 0)


def _free(model: Model) -> None:
    """Give back what a failed pass left behind."""
    gc.collect()
    if model.device.type == "cuda":
        torch.cuda.empty_cache()
