"""Findings while a run goes on: claims against their sources, broken checks, claims that spread.

What a step states is looked up in the ledger of the steps before it. Checks of a step see what was read of it beside
them; any other check sees the step among the latest ones and those that its claims come from, read anew. So a step
costs the same however long the run is.
"""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache

import numpy as np
from numpy.typing import NDArray

from blamespan.attribution import NOBODY_KNOWS
from blamespan.errors import ConfigError
from blamespan.guarding.decisions import ProposedStep
from blamespan.guarding.policy import FindingRule
from blamespan.guarding.watching import RunFinding
from blamespan.trace import Agent, MessageActionTrace, Step
from blamespan_tracer.auto.claim_model import ClaimingStep, lay_out_steps
from blamespan_tracer.auto.observed_run import count_claims, find_repeat, measure_doubts, strongest_contradiction
from blamespan_tracer.auto.step_model import EVIDENCE_FEATURES, Floats, describe_step, set_lead
from blamespan_tracer.auto.weights import BUNDLED, AutoWeights
from blamespan_tracer.checks.check import Check, CheckResult, ExaminedRun
from blamespan_tracer.checks.in_use import checks_in_use
from blamespan_tracer.checks.messages import MESSAGE_CHECKS
from blamespan_tracer.checks.reading import ReadStep, StepReader
from blamespan_tracer.ledger import Claim, HeldStep, LedgerReader
from blamespan_tracer.ledger.ledger import TASK
from blamespan_tracer.schemata import SchemaMatch, match_schemata, schemata_in_use

_LATEST = 4
"""Steps before the one that is examined that checks see."""
_MOST_SOURCES = 12
"""Steps that its claims come from, beside them: a report of what many tools said has as many sources."""
_MOST_KEPT = 1_000
"""Steps that are kept for that."""
_LEAST_INFORMATION = 4.5
"""Nats that a claim must say to count as one that nothing supports: numbers of two digits and more."""
_NAMES = ("name", "quotation", "opposite")
"""Forms that are often new for good reasons: a name that nobody mentioned before is no wrong claim."""
_SPACE = re.compile(r"\s+")


def checks_of_steps() -> dict[str, Check]:
    """Return the checks that one step can break, by name: how a run ends, and what it lacks, shows only at its end."""
    of_runs = (".endings", ".usual_course")
    in_use = [check for check in checks_in_use() if not check.examine.__module__.endswith(of_runs)]
    return {check.name: check for check in (*MESSAGE_CHECKS, *in_use)}


@cache
def _weights() -> AutoWeights:
    return AutoWeights.load(BUNDLED)


class RunWatcher:
    """Watches one run for the findings that a policy asks for.

    Args:
        rules: The policy's findings.
        task: What the run was asked.

    Raises:
        ConfigError: if a rule names a check that there is not, or that only a whole run can break.
    """

    def __init__(self, rules: Sequence[FindingRule], task: str) -> None:
        checks = _choose_checks(rules)
        self._of_step = [(check, check.find) for check in checks if check.find is not None]
        self._of_run = [check for check in checks if check.find is None]
        self._wants_suspicion = any(rule.suspicion is not None for rule in rules)
        self._wants_spread = any(rule.unsupported_reaches is not None for rule in rules)
        self._match_schemata = _choose_schemata(rules)
        self._needs_window = bool(self._of_run) or self._match_schemata is not None
        self._task = task
        self._ledger = LedgerReader(task)
        self._reader = StepReader()
        self._kept: deque[tuple[int, ProposedStep]] = deque(maxlen=_MOST_KEPT)
        self._index = 0
        self._deciders: list[str | None] = []
        self._n_claims = 0
        self._highest = 0.0
        self._unsupported: dict[tuple[str, str], set[str]] = {}
        self._texts: set[tuple[str, str]] = set()
        self._own_texts: set[tuple[str, str, str]] = set()
        self._examined: tuple[ProposedStep, HeldStep, ReadStep, float] | None = None
        self._findings: list[RunFinding] = []
        if self._wants_suspicion:
            _weights()

    def examine(self, step: ProposedStep) -> list[RunFinding]:
        """Return what speaks against a step that is about to take place; the step is not taken up."""
        if step.kind == "request":  # a call that can still be asked for otherwise
            step = replace(step, kind="tool_call")
        if step.kind not in ("message", "tool_call"):
            return []
        if self._examined is not None and self._examined[0] == step:  # asked again, an agent says the same again
            self._examined = step, *self._examined[1:]
            return self._findings
        held, read = self._read(step)
        features = np.zeros(len(EVIDENCE_FEATURES), np.float32)
        self._findings = [*self._apply_checks_of_step(read), *self._examine_claims(step, read.claims, features)]
        self._examined = step, held, read, float(features[0])
        return self._findings

    def _read(self, step: ProposedStep) -> tuple[HeldStep, ReadStep]:
        """Hold what a step states against what is known, and read it beside the steps before it."""
        decides, is_call = step.kind != "tool_result", step.kind == "tool_call"
        held = self._ledger.hold(self._index, _content(step), decides=decides, is_call=is_call)
        claims = self._ledger.finish(held)
        return held, self._reader.read(self._make_step(0, step), claims)

    def _examine_claims(self, step: ProposedStep, claims: Sequence[Claim], features: Floats) -> Iterator[RunFinding]:
        if self._wants_suspicion:
            suspicion, why = self._suspect(step, claims, features)
            reason = "what the run says so far speaks against the step"
            yield RunFinding("suspicion", "suspicion", suspicion, f"{reason}: {suspicion:.2f}", why)
        if self._wants_spread:
            yield from self._find_spread(step, claims)
        if self._needs_window:
            window = self._make_window(step, claims)
            yield from (*self._apply_checks_of_run(window), *self._find_schemata(window))

    def commit(self, step: ProposedStep) -> None:
        """Take up a step that takes place: later ones are held against it."""
        if step.kind not in ("message", "tool_call", "tool_result"):
            return
        decides = step.kind != "tool_result"
        if self._examined is not None and self._examined[0] is step:
            _, held, read, highest = self._examined
            self._highest = max(self._highest, highest)
        else:
            held, read = self._read(step)
        self._examined = None
        self._ledger.take(held)
        if step.kind == "tool_result":
            calls = (one for _, one in reversed(self._kept) if one.kind == "tool_call" and one.tool == step.tool)
            call = next(calls, None)
            self._ledger.hear_answer(self._index, "" if call is None else _content(call), _content(step))
        self._reader.take(read, decides=decides)
        self._n_claims += count_claims(read.claims)
        self._note_support(step, held, read.claims)
        if decides:
            text = _SPACE.sub(" ", _content(step)).strip()
            self._texts.add((step.kind, text))
            self._own_texts.add((step.agent, step.kind, text))
        self._kept.append((self._index, step))
        self._deciders.append(step.agent if decides else None)
        self._index += 1

    # --- suspicion

    def _suspect(self, step: ProposedStep, claims: Sequence[Claim], features: Floats) -> tuple[float, str]:
        """Return how likely a step is wrong, and the words for its agent; fill in the (E,) features of its evidence.

        It is judged as the tracer `auto` judges the evidence in a step, alone beside "nothing is wrong":
        on the scale on which the tracer's alarm lies at a half. What only the end of a run shows is left out.
        """
        evidence, alarm = _weights().model.evidence, _weights().alarm
        text = _SPACE.sub(" ", _content(step)).strip()
        repeat = find_repeat(step.agent, step.kind, text, self._texts, self._own_texts)
        claim_scores = self._judge_claims(step, claims)
        describe_step(features, claim_scores.tolist(), measure_doubts(claims), repeat, checks=0.0)
        set_lead(features, self._highest)
        n_claims = self._n_claims + count_claims(claims)
        scores, nothing = evidence.score(features[None], n_claims, np.ones(1, np.bool_))
        probability = 1.0 / (1.0 + math.exp(min(nothing - float(scores[0]), 700.0)))
        suspicion = float(np.interp(probability, (0.0, alarm, max(alarm, 1.0)), (0.0, NOBODY_KNOWS, 1.0)))
        return suspicion, _explain(claims, claim_scores.tolist(), is_repeated=repeat > 0)

    def _judge_claims(self, step: ProposedStep, claims: Sequence[Claim]) -> NDArray[np.float64]:
        """Return the (C,) scores that the trees give the claims of a step."""
        place = ClaimingStep(
            self._index,
            step.agent,
            step.kind == "tool_call",
            _content(step),
            self._index + 1,
            is_first=not any(self._deciders),
            is_last=True,
        )
        return _weights().claims.judge(lay_out_steps([(place, claims)], self._deciders).features)

    # --- spread

    def _find_spread(self, step: ProposedStep, claims: Sequence[Claim]) -> Iterator[RunFinding]:
        best: tuple[int, str] = (0, "")
        for claim in claims:
            agents = self._unsupported.get(_key(claim))
            if agents is None and _is_unsupported(claim):
                agents = set()
            if agents is not None:
                best = max(best, (len(agents | {step.agent}), claim.mention.value.text))
        count, text = best
        if count:
            reason = f"a claim that nothing in the run supports reaches agent number {count}"
            yield RunFinding("spread", "spread", float(count), reason, f"nothing in the run supports {text[:80]!r}")

    def _note_support(self, step: ProposedStep, held: HeldStep, claims: Sequence[Claim]) -> None:
        if step.kind == "tool_result":  # what a tool says is a source
            for mention in held.mentions:
                self._unsupported.pop((mention.value.form, mention.value.key), None)
            return
        for claim in claims:
            key = _key(claim)
            if key in self._unsupported:
                self._unsupported[key].add(step.agent)
            elif _is_unsupported(claim):
                self._unsupported[key] = {step.agent}

    # --- checks

    def _apply_checks_of_step(self, read: ReadStep) -> Iterator[RunFinding]:
        run = _WatchedRun(self._task, read.step, self._kept, self._make_step)
        for check, find in self._of_step:
            results = (check.make_result(finding, run) for finding in find(run, read))
            yield from (self._make_finding(result) for result in results if result.outcome == "fail")

    def _apply_checks_of_run(self, window: MessageActionTrace) -> Iterator[RunFinding]:
        run = ExaminedRun(window)
        last = len(run.trace.steps) - 1
        for check in self._of_run:
            for result in check.apply(run):
                if result.outcome == "fail" and result.step == last:
                    yield self._make_finding(result)

    def _make_finding(self, result: CheckResult) -> RunFinding:
        check = result.check
        why = f"{check.title} {result.reason}".strip()
        advice = f"{why}: {result.quote!r}" if result.quote else why
        return RunFinding("check", check.name, 1.0, f"the step breaks {check.name!r}: {check.title}", advice)

    def _find_schemata(self, window: MessageActionTrace) -> Iterator[RunFinding]:
        """Yield the known failures that the last step of a window shows."""
        if self._match_schemata is None:
            return
        for match in self._match_schemata(window, len(window.steps) - 1):
            reason = f"the step fails as {match.schema.name!r} did"
            yield RunFinding("schema", match.schema.name, match.score, reason)

    def _with_calls(self, wanted: set[int], first: int) -> list[tuple[int, ProposedStep]]:
        """List the steps from *first* on and those that are wanted; a result comes with its call."""
        calls: dict[str, tuple[int, ProposedStep]] = {}
        chosen: dict[int, ProposedStep] = {}
        for index, step in self._kept:
            if step.kind == "tool_call":
                calls[step.tool] = index, step
            if index < first and index not in wanted:
                continue
            if step.kind == "tool_result":
                if step.tool not in calls:
                    continue  # without its call it is nobody's
                chosen.setdefault(*calls[step.tool])
            chosen[index] = step
        return sorted(chosen.items(), key=lambda item: item[0])

    def _make_window(self, step: ProposedStep, claims: Sequence[Claim]) -> MessageActionTrace:
        """Make a run of the latest steps, those that the step's claims come from, and the step.

        Whoever watches hears all that agents are given: each decision was given the task.
        """
        sources = {claim.support.step for claim in claims if claim.support is not None}
        sources |= {one.source.step for claim in claims for one in claim.contradictions}
        wanted = set(sorted(sources - {TASK}, reverse=True)[:_MOST_SOURCES])
        first = self._index - _LATEST
        chosen = [one for _, one in self._with_calls(wanted, first)]
        steps = [self._make_step(index, one) for index, one in enumerate([*chosen, step])]
        names = dict.fromkeys(one.agent for one in steps)
        return MessageActionTrace("1" * 32, self._task, tuple(steps), tuple(map(Agent, names)))

    def _make_step(self, index: int, step: ProposedStep) -> Step:
        """Return a step as recorded runs have it; a result is that of the call before it."""
        is_result, is_call = step.kind == "tool_result", step.kind == "tool_call"
        return Step(
            index,
            f"{index + 1:016x}",
            step.agent,
            "tool_result" if is_result else "tool_call" if is_call else "message",
            _content(step),
            inputs=(index - 1,) if is_result and index else (),
            attributes={"gen_ai.tool.name": step.tool} if is_call else {},
            input_text="" if is_result else self._task,
        )


class _WatchedRun(ExaminedRun):
    """A run that goes on, as checks of one step see it: that step, and the latest ones before it where they ask.

    Args:
        task: What the run was asked.
        step: The step.
        kept: The latest steps before it, with their indices.
        make_step: Returns a step as recorded runs have it.
    """

    tells_inputs = True

    def __init__(
        self,
        task: str,
        step: Step,
        kept: Sequence[tuple[int, ProposedStep]],
        make_step: Callable[[int, ProposedStep], Step],
    ) -> None:
        super().__init__(MessageActionTrace("1" * 32, task, (step,), (Agent(step.agent),)))
        self._kept, self._make_step = kept, make_step

    @property
    def agents(self) -> frozenset[str]:  # that have acted so far
        return frozenset(step.agent for _, step in self._kept)

    def step_at(self, index: int) -> Step | None:
        first = self._kept[0][0] if self._kept else 0
        return self._make_step(0, self._kept[index - first][1]) if first <= index < first + len(self._kept) else None

    def steps_before(self, step: Step) -> Iterable[Step]:
        return (self._make_step(0, one) for _, one in self._kept)


def _choose_checks(rules: Sequence[FindingRule]) -> tuple[Check, ...]:
    known = checks_of_steps()
    patterns = [rule.check for rule in rules if rule.check is not None]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            every = {check.name for check in checks_in_use()}
            near = get_close_matches(pattern, sorted(known), n=1, cutoff=0.0)[0]
            why = "is about how a run ends, which no step shows" if pattern in every else "is no check"
            raise ConfigError(f"[[findings]]: check {pattern!r} {why}. Nearest known: {near!r}")
    return tuple(check for name, check in known.items() if any(fnmatchcase(name, pattern) for pattern in patterns))


def _choose_schemata(rules: Sequence[FindingRule]) -> Callable[[MessageActionTrace, int], list[SchemaMatch]] | None:
    """Return what finds the known failures that rules name in the steps of a run from one on; None where none does.

    Raises:
        ConfigError: if a rule names a schema that there is not.
    """
    patterns = [rule.schema for rule in rules if rule.schema is not None]
    if not patterns:
        return None
    known = schemata_in_use()
    for pattern in patterns:
        if "*" not in pattern and not any(fnmatchcase(schema.name, pattern) for schema in known):
            names = [schema.name for schema in known]
            near = get_close_matches(pattern, names, n=1, cutoff=0.0)
            nearest = f"Nearest known: {near[0]!r}" if near else "None is known: add one with `blamespan schemata add`"
            raise ConfigError(f"[[findings]]: schema {pattern!r} is no known failure. {nearest}")
    chosen = [schema for schema in known if any(fnmatchcase(schema.name, pattern) for pattern in patterns)]
    return lambda trace, first: match_schemata(trace, chosen, first=first)


def _content(step: ProposedStep) -> str:
    """Return a step as recorded runs have it: a call's arguments are one object, however the framework passes them."""
    if step.kind != "tool_call":
        return step.text
    is_list = step.text.startswith("[") and bool(step.arguments)
    arguments = json.dumps(step.arguments, ensure_ascii=False, default=str) if is_list else step.text
    return f"{step.tool}({arguments})"


def _key(claim: Claim) -> tuple[str, str]:
    return claim.mention.value.form, claim.mention.value.key


def _is_unsupported(claim: Claim) -> bool:
    if claim.support is not None or claim.mention.value.form in _NAMES or claim.is_argument:
        return False
    return claim.information / (1.0 + claim.derivation) >= _LEAST_INFORMATION


def _explain(claims: Sequence[Claim], scores: Sequence[float], *, is_repeated: bool) -> str:
    """Say what stands out about a step: its likeliest wrong claim and what contradicts it; else that it repeats."""
    for _, claim in sorted(zip(scores, claims, strict=True), key=lambda pair: -pair[0]):
        text = claim.mention.value.text[:80]
        contradiction = strongest_contradiction(claim)
        if contradiction is not None:
            source = contradiction.source
            whose = "the task" if source.step == TASK else "what was said before"
            return f"it says {text!r} where {whose} says {source.value.text[:80]!r}"
        if not is_repeated and _is_unsupported(claim):
            return f"nothing in the run supports {text!r}"
    return "it repeats what was said before" if is_repeated else ""
