"""What a model is shown of a run: all of it where it fits, else the stretches that matter.

Beside the steps stand the sentences of the task that a right result must satisfy, and pairs of quotes that disagree.
Who the embedded tracer suspects is not said: it chooses what is shown of a long run, and would bias the answer.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from blamespan.attribution import Attribution, Evidence
from blamespan.pipeline import ask_part
from blamespan.trace import MessageActionTrace
from blamespan_tracer.alternatives.llm_judge.client import JudgeQuestion
from blamespan_tracer.alternatives.llm_judge.prompts import MORE, VERDICT, WINDOWS
from blamespan_tracer.alternatives.rendering import RunDocument
from blamespan_tracer.auto.evidence import find_doubted_claims, quote_steps
from blamespan_tracer.auto.tracer import AutoTracer
from blamespan_tracer.instructions.demands import read_demands
from blamespan_tracer.ledger import Ledger, read_ledger
from blamespan_tracer.tokens import split_sentences

_log = logging.getLogger(__name__)

_WINDOWS: Final = 10
"""Suspects around which a long run is shown in full."""
_BESIDE: Final = 1
"""Decisions before and behind each of them, likewise."""
_MOST_CONDITIONS, _MOST_CONDITION_CHARS = 12, 300
_MOST_FINDINGS: Final = 20
_MOST_READ_STEPS: Final = 2_000
"""Findings of longer runs are those that the embedded verdict quotes: they are not read a second time."""


@dataclass(frozen=True)
class ShownRun:
    """A run with what is shown of it.

    Attributes:
        case: The run.
        is_whole: Whether all of it is shown.
        about: Numbers of the steps that are shown in full; of a whole run all.
        conditions: Sentences of the task that a right result must satisfy.
        findings: Pairs of quotes that disagree, in the order of the run.
        is_again: Whether the model has asked for some of the steps.
    """

    case: RunDocument
    is_whole: bool
    about: frozenset[int]
    conditions: tuple[str, ...]
    findings: tuple[dict[str, object], ...]
    is_again: bool = False

    @classmethod
    def of(cls, trace: MessageActionTrace, verdict: Attribution | None, context_tokens: int) -> ShownRun:
        """Choose what is shown.

        Args:
            trace: The run.
            verdict: The embedded tracer's, where there is one.
            context_tokens: Most tokens of a question, by our own estimate.
        """
        ledger = read_ledger(trace)
        case = RunDocument.of(trace, context_tokens, ledger)
        findings = _find_disagreements(trace, verdict, ledger)
        conditions = _find_conditions(trace.task)
        if case.fits({"conditions": conditions, "findings": findings}):
            every = frozenset(case.by_step)
            return cls(case, True, every, conditions, findings)
        return cls(case, False, frozenset(_choose_windows(case, verdict, findings)), conditions, findings)

    def question(self) -> JudgeQuestion:
        """Write the question about it."""
        more = {"conditions": self.conditions, "findings": self.findings}
        document = self.case.document(
            self.case.decisions,
            () if self.is_whole else self.about,
            **{name: value for name, value in more.items() if value},
        )
        return JudgeQuestion(VERDICT if self.is_whole else WINDOWS, document, MORE if self.is_again else "")

    def with_steps(self, wanted: Collection[int]) -> ShownRun | None:
        """Show more steps in full; None where they are already, or the run is shown whole."""
        news = frozenset(wanted) - self.about
        if self.is_whole or not news:
            return None
        return ShownRun(self.case, False, self.about | news, self.conditions, self.findings, is_again=True)


def shown_steps(document: str) -> frozenset[int]:
    """Read which steps a document shows: of many, not all may fit."""
    entries = json.loads(document)["steps"]
    return frozenset(message["step"] for entry in entries for message in entry.get("messages", [entry]))


def _choose_windows(
    case: RunDocument, verdict: Attribution | None, findings: Sequence[dict[str, object]]
) -> Iterator[int]:
    """Yield the steps of the windows: suspects, what they were given and contradict, who used it, and both ends.

    Where nobody is suspected, all steps are as good as each other: what there is room for is spread evenly.
    """
    ranked = [step.index for step in verdict.ranked_steps()] if verdict is not None else []
    disagreeing = [step for finding in findings if isinstance(step := finding["step"], int)]
    places = dict.fromkeys(case.by_step[step].place for step in [*ranked, *disagreeing] if step in case.by_step)
    chosen = [case.decisions[place] for place in list(places)[:_WINDOWS]]
    if not chosen:
        yield from case.by_step
    used: dict[int, list[int]] = {}
    for decision in case.decisions:
        for place in decision.builds_on:
            used.setdefault(place, []).append(decision.place)
    shown = {0, len(case.decisions) - 1}
    for decision in chosen:
        near = range(decision.place - _BESIDE, decision.place + _BESIDE + 1)
        shown |= {*near, *decision.builds_on[:1], *decision.objects_to, *used.get(decision.place, [])[:1]}
    for place in sorted(shown):
        if 0 <= place < len(case.decisions):
            yield from (step.index for step in case.decisions[place].steps)


def _find_conditions(task: str) -> tuple[str, ...]:
    """List the sentences of a task that demand something, and its questions, in their order."""
    wanted = {demand.quote.strip() for demand in read_demands(task)}
    sentences = [sentence.strip() for sentence in split_sentences(task)]
    found = [text for text in sentences if text in wanted or text.endswith("?")]
    return tuple(text[:_MOST_CONDITION_CHARS] for text in dict.fromkeys(found))[:_MOST_CONDITIONS]


@lru_cache(maxsize=1)
def _reader() -> AutoTracer:
    return AutoTracer.bundled()


def _quote_all(trace: MessageActionTrace, ledger: Ledger) -> list[Evidence]:
    run = _reader().read(trace, ledger)
    doubted = find_doubted_claims(run.observed)
    broken = {result.step for result in run.results if result.outcome == "fail" and not result.is_repaired}
    marked = [float(step.index in doubted or step.index in broken) for step in trace.steps]
    return quote_steps(run.observed, trace, marked, doubted, run.results, _MOST_FINDINGS)


def _find_disagreements(
    trace: MessageActionTrace, verdict: Attribution | None, ledger: Ledger
) -> tuple[dict[str, object], ...]:
    """List what the ledger and the checks find to disagree, both sides quoted, without how much it weighs."""
    quotes = list(verdict.evidence) if verdict is not None else []
    if len(trace.steps) <= _MOST_READ_STEPS:
        failure = f"no findings are shown of trace {trace.trace_id}"
        quotes += ask_part(lambda: _quote_all(trace, ledger), _log, failure) or []
    found = {
        (item.index, item.quote): {
            "step": item.index,
            "says": item.quote,
            "against": {"step": item.contradicts.index, "says": item.contradicts.quote},
        }
        for item in quotes
        if item.contradicts is not None
    }
    return tuple(found[key] for key in sorted(found)[:_MOST_FINDINGS])
