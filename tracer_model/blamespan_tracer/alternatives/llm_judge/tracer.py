"""The judge as a tracer: an LLM behind an OpenAI-compatible endpoint says who is to blame, or why it cannot."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Self, TypeVar

from blamespan import __version__
from blamespan.attribution import Attribution, Evidence, ModeBlame, TracerIdentity
from blamespan.taxonomy import ErrorMode
from blamespan.trace import MessageActionTrace, Step
from blamespan.tracers import Tracer, load_tracer
from blamespan_tracer.abstention import abstention_reason
from blamespan_tracer.alternatives.llm_judge.answers import Diagnosis
from blamespan_tracer.alternatives.llm_judge.budget import Unanswered, shared_account
from blamespan_tracer.alternatives.llm_judge.client import Deadline, JudgeClient, JudgeQuestion
from blamespan_tracer.alternatives.llm_judge.completions import Completion
from blamespan_tracer.alternatives.llm_judge.methods import METHOD_OF, first_documents
from blamespan_tracer.alternatives.llm_judge.prompts import VERDICT, instructions, offered_modes
from blamespan_tracer.alternatives.llm_judge.settings import JudgeSettings
from blamespan_tracer.alternatives.rendering import RunDocument, estimated_tokens

_log = logging.getLogger(__name__)

T = TypeVar("T")

_COUNT_PHRASES = {
    "kept": "answered from the cache",
    "refused": "attempts that came to nothing",
    "lost": "of them perhaps paid for, counted as estimated",
    "unreadable": "answers that could not be read",
}

_MOST_QUOTE_CHARS = 200


class JudgeTracer:
    """Attributes runs by asking an LLM; see `blamespan_tracer.alternatives.llm_judge.methods` for how.

    - A run whose answer does not come, cannot be read, or does not fit in the budget or the time gets no verdict, and
      the abstention says why.
    - `failure_score` is how sure the model is that the run failed by an agent's fault: by the weight of its tokens
      where the server tells that, else by what it says. Neither is calibrated.
    - In a cascade, runs that the embedded tracer is sure of keep its verdict, under its name.

    As deterministic as the model behind it: it is asked for temperature 0, and kept answers are given again.
    """

    def __init__(self, settings: JudgeSettings, embedded: Tracer | None = None, *, pause_s: float = 0.5) -> None:
        self._settings = settings
        self._embedded = embedded
        self._client = JudgeClient(settings, pause_s=pause_s)
        self._offered = offered_modes(settings.taxonomy)
        method = f"cascade:{settings.method}" if embedded is not None else settings.method
        self._identity = TracerIdentity("judge", f"{__version__} {method} {settings.endpoint.model}")

    @classmethod
    def from_environment(cls) -> Self:
        """Set it up by the `BLAMESPAN_JUDGE_*` variables; processes that this one starts count into the same account.

        Raises:
            ConfigError: if one is missing or wrong.
        """
        settings = replace(JudgeSettings.from_environment(), account=shared_account())
        return cls(settings, load_tracer(settings.embedded) if settings.embedded is not None else None)

    @property
    def identity(self) -> TracerIdentity:
        """Name, and as the version ours, the method and the model; there are no weights of ours."""
        return self._identity

    @property
    def settings(self) -> dict[str, Any]:
        """What beside method and model decides its verdicts."""
        settings = self._settings
        decisive = {name: getattr(settings, name) for name in ("taxonomy", "context_tokens", "answer_tokens")}
        if self._embedded is None:
            return decisive
        first = self._embedded.identity
        return {**decisive, "sure_from": settings.sure_from, "embedded": [first.name, first.version, first.weights]}

    @property
    def account(self) -> str:
        """Return in one line what was asked and what it cost, in all processes that share the account."""
        budget = self._client.budget
        count = budget.counts
        spent = budget.cost(count["input"], count["output"])
        parts = [f"{count['questions']:,} questions to {self._settings.endpoint.model}"]
        parts += [f"{count[name]:,} {phrase}" for name, phrase in _COUNT_PHRASES.items() if count[name]]
        guessed = f", {count['estimated']:,} of them estimated" if count["estimated"] else ""
        parts.append(f"{count['input']:,} tokens asked and {count['output']:,} answered{guessed}")
        if self._settings.price_in or self._settings.price_out:
            bound = self._settings.budget_money
            parts.append(f"cost {spent:.4f}{f' of {bound:g}' if bound is not None else ''}")
        if reserved := count["held_input"] + count["held_output"]:
            parts.append(f"{reserved:,} tokens held back for questions whose end is not known")
        if self._embedded is not None:
            saved = budget.predict_usage(count["saved_input"], count["saved_questions"])
            money = budget.cost(saved.input_tokens, saved.output_tokens)
            tokens = saved.input_tokens + saved.output_tokens
            parts.append(
                f"{count['spared']:,} of {count['seen']:,} runs decided by {self._embedded.identity.name}, which saved "
                f"about {tokens:,} tokens{f' or {money:.4f}' if money else ''} by their first questions alone"
            )
        return "; ".join(parts)

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        """Attribute each run; one verdict per trace, in order. Returns when the deadline has passed, if one is set."""
        deadline = Deadline.after(self._settings.deadline_s)
        first: list[Attribution | None] = [None] * len(traces)
        if self._embedded is not None:
            first = [self._accept_if_sure(*pair) for pair in zip(traces, self._embedded.attribute(traces), strict=True)]
        asked = [trace for trace, verdict in zip(traces, first, strict=True) if verdict is None]
        with ThreadPoolExecutor(max(1, min(self._settings.concurrency, len(asked)))) as threads:
            answered = threads.map(partial(self._judge, deadline=deadline), asked)
            verdicts = [next(answered) if verdict is None else verdict for verdict in first]
        if asked:
            _log.info("%s", self.account)
        return verdicts

    def _accept_if_sure(self, trace: MessageActionTrace, verdict: Attribution) -> Attribution | None:
        """Return the embedded tracer's verdict where it is sure of it, and count what that saves; else None."""
        self._client.budget.count("seen")
        if abstention_reason(trace) is not None:
            return verdict
        if verdict.decisive_step is None or verdict.steps[verdict.decisive_step].score < self._settings.sure_from:
            return None
        prompt = instructions(VERDICT, self._settings.taxonomy)
        documents = first_documents(RunDocument.of(trace, self._settings.context_tokens), self._settings.method)
        self._client.budget.count("saved_input", sum(estimated_tokens(prompt + document) for document in documents))
        self._client.budget.count("saved_questions", len(documents))
        self._client.budget.count("spared")
        return verdict

    def _judge(self, trace: MessageActionTrace, deadline: Deadline) -> Attribution:
        reason = abstention_reason(trace)
        if reason is not None:
            return Attribution.abstain(trace, reason, self._identity)

        def ask(question: JudgeQuestion, read: Callable[[Completion], T]) -> T:
            return self._client.ask(question, read, deadline)

        try:
            case = RunDocument.of(trace, self._settings.context_tokens)
            diagnosis = METHOD_OF[self._settings.method](case, ask, self._offered)
        except Unanswered as error:
            return Attribution.abstain(trace, str(error), self._identity)
        return _build_attribution(trace, diagnosis, self._identity)


def _build_attribution(trace: MessageActionTrace, diagnosis: Diagnosis, tracer: TracerIdentity) -> Attribution:
    """Turn a diagnosis into a verdict; nobody at fault, or a run more likely sound than not, is an abstention.

    Each suspect's share is how sure the judge is of it, among all of them.
    """
    is_sound = diagnosis.chance_failed < 0.5 and trace.outcome != "failed"
    if is_sound or not diagnosis.suspects:
        failed = min(diagnosis.chance_failed, 1.0)
        reason = f"the judge names no agent at fault (failure score {failed:.2f})"
        return replace(Attribution.abstain(trace, reason, tracer), failure_score=failed)
    shares = [0.0] * len(trace.steps)
    evidence: list[Evidence] = []
    best: dict[tuple[ErrorMode, str], float] = {}
    total = sum(suspect.weight for suspect in diagnosis.suspects)
    for suspect in diagnosis.suspects:
        step = trace.steps[suspect.step]
        shares[step.index] += suspect.weight / total
        words = _find_quote(step, suspect.quote)
        if words:
            evidence.append(Evidence(step.index, words, suspect.weight / total))
        for mode in suspect.modes:
            key = (mode, step.agent)
            best[key] = max(best.get(key, 0.0), min(suspect.weight, 1.0))
    return Attribution.of(
        trace,
        shares,
        failure_score=min(max(diagnosis.chance_failed, 0.0), 1.0),
        tracer=tracer,
        modes=[ModeBlame(mode, agent, score) for (mode, agent), score in best.items()],
        evidence=evidence,
    )


def _find_quote(step: Step, quote: str) -> str:
    """Return *quote* as it stands in a step, or nothing; blanks and line ends may differ."""
    words = quote.split()
    if not words:
        return ""
    if quote in step.content:
        return quote[:_MOST_QUOTE_CHARS]
    match = re.search(r"\s+".join(map(re.escape, words)), step.content)
    return match[0][:_MOST_QUOTE_CHARS] if match else ""
