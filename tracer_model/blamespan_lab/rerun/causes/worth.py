"""What a coalition of corrected agents is worth: how often the run then succeeds, by replay or by a tracer's word."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from blamespan.attribution import Attribution
from blamespan.trace import MessageActionTrace
from blamespan.tracers import Tracer
from blamespan_lab.rerun.causes.corrections import CorrectionWriter, NoCorrection
from blamespan_lab.rerun.causes.shapley import Coalition, NoShares, OutOfBudget, list_coalitions
from blamespan_lab.rerun.causes.verify import CallBudget
from blamespan_lab.rerun.playback import Correction
from blamespan_lab.rerun.script import Script
from blamespan_lab.rerun.trials import Trials

_LEAST_SHARE = 0.05
"""Steps blamed less are not masked: an agent is not taken out of the run, only what it is blamed for."""


def correct_agents(
    trace: MessageActionTrace,
    verdict: Attribution,
    texts: Mapping[int, str],
    writers: Sequence[CorrectionWriter],
    budget: CallBudget,
) -> tuple[dict[str, tuple[Correction, ...]], dict[str, str]]:
    """Write corrections for each agent: of the steps in *texts*, else of its most blamed step.

    Returns:
        The corrections by agent, and why there are none, by each other agent that is blamed.
    """
    steps: dict[str, list[int]] = {}
    for step in sorted(texts):
        steps.setdefault(trace.steps[step].agent, []).append(step)
    for blame in verdict.agents:
        own = [step for step in verdict.steps if step.agent == blame.agent and step.score > 0]
        steps.setdefault(blame.agent, [max(own, key=lambda step: (step.score, -step.index)).index])
    corrected: dict[str, tuple[Correction, ...]] = {}
    lacking: dict[str, str] = {}
    for agent, indices in steps.items():
        written: list[Correction] = []
        for index in indices:
            try:
                written.append(_write(index, writers, budget))
            except NoCorrection as error:
                lacking[agent] = str(error)
        if written:
            corrected[agent] = tuple(written)
            lacking.pop(agent, None)
    return corrected, lacking


def _write(step: int, writers: Sequence[CorrectionWriter], budget: CallBudget) -> Correction:
    reason = "nobody says what it should be"
    for writer in writers:
        is_asked_here = writer.source == "judge"
        if is_asked_here and not budget.reserve(writer.cost):
            reason = "the budget of model calls is spent"
            continue
        try:
            return writer.write(step)
        except NoCorrection as error:
            reason = str(error)
    raise NoCorrection(reason)


@dataclass(frozen=True)
class ReplayedWorth:
    """How often the recorded run succeeds if it is gone on with, the agents of a coalition put right.

    Nobody put right is the run gone on with from the first of all corrected steps as it was; of one repeat, the
    recorded run itself.

    Attributes:
        corrections: By agent.
        script: The recording.
        trials: Goes on with it.
        repeats: Runs of each coalition.
        budget: Of calls of models.
        at_once: How many coalitions are tried side by side.
        given: Steps without which put right the correction of a step is not what its agent would say, by step: then it
            stays as it was. So a later agent's right answer is no cure of an earlier one's error.
    """

    corrections: Mapping[str, Sequence[Correction]]
    script: Script
    trials: Trials
    repeats: int
    budget: CallBudget
    at_once: int = 1
    given: Mapping[int, Sequence[int]] = field(default_factory=dict)

    def __call__(self, coalitions: Sequence[Coalition]) -> list[float]:
        """Try each coalition.

        Raises:
            OutOfBudget: if the calls that are left do not do for all of them.
            NoShares: if a run says nothing: it hung, broke, or the program has changed.
        """
        needed = sum(self.estimate(coalition) for coalition in coalitions)
        if needed > self.budget.left:
            raise OutOfBudget(
                f"{len(coalitions)} coalitions take about {needed} calls of models, and {self.budget.left} are left"
            )
        with ThreadPoolExecutor(max(1, self.at_once), thread_name_prefix="blamespan-coalition") as threads:
            return list(threads.map(self._try, coalitions))

    def estimate(self, coalition: Coalition) -> int:
        """Return about how many calls of models trying *coalition* takes."""
        corrections = self._correct(coalition)
        if not corrections and self.repeats == 1:
            return 0
        first = min(item.step for item in corrections or self._correct(self.corrections))
        return self.repeats * (sum(1 for answer in self.script.answers if answer.step >= first))

    def _correct(self, agents: Iterable[str]) -> list[Correction]:
        """List the corrections of some agents that hold with these alone put right, in order."""
        held: dict[int, Correction] = {}
        every = (item for agent in agents for item in self.corrections[agent])
        for item in sorted(every, key=lambda item: item.step):
            if held.keys() >= set(self.given.get(item.step, ())):
                held[item.step] = item
        return list(held.values())

    def estimate_all(self) -> int:
        """Return about how many calls trying all coalitions takes."""
        return sum(self.estimate(coalition) for coalition in list_coalitions(list(self.corrections)))

    def without_consequences(self) -> tuple[ReplayedWorth, dict[str, str]]:
        """Leave out the agents that only went on with what an earlier one had got wrong.

        They are those after the first agent that mends the run alone: it succeeds with that agent put right and all
        others live, and not with that agent's step as it was. What a later one should have said in the end, put into
        its mouth, would mend the run as well, and show nothing.

        Returns:
            The worth of coalitions of those that are left, and of whom each other's error came.
        """
        order = sorted(self.corrections, key=lambda agent: min(item.step for item in self.corrections[agent]))
        for place, agent in enumerate(order[:-1]):
            first = min(item.step for item in self.corrections[agent])
            unchanged = [Correction(first, self.script.trace.steps[first].content)]
            alone = frozenset({agent})
            if 2 * self.estimate(alone) > self.budget.left:
                break
            if not self._correct(alone):
                continue
            try:
                if self._try(alone) > self._rate(unchanged, alone):
                    left = {name: self.corrections[name] for name in order[: place + 1]}
                    return replace(self, corrections=left), dict.fromkeys(order[place + 1 :], agent)
            except NoShares:
                continue
        return self, {}

    def _try(self, coalition: Coalition) -> float:
        corrections = self._correct(coalition)
        if not corrections and self.repeats == 1:
            return 0.0  # the run that was recorded, which failed
        if not corrections:
            first = min(item.step for items in self.corrections.values() for item in items)
            corrections = [Correction(first, self.script.trace.steps[first].content)]
        return self._rate(corrections, coalition)

    def _rate(self, corrections: Sequence[Correction], coalition: Coalition) -> float:
        """Return how often the run succeeds, gone on with from *corrections*, which stand for a coalition."""
        most = max(8, 2 * self.estimate(coalition) // self.repeats + 4)
        succeeded = 0
        for _ in range(self.repeats):
            trial = self.trials.run(corrections, most)
            self.budget.spend(trial.asked)
            if trial.trouble:
                names = ", ".join(sorted(coalition)) or "nobody"
                raise NoShares(f"the run with {names} put right says nothing: {trial.trouble}")
            succeeded += trial.ran.succeeded is True
        return succeeded / self.repeats


@dataclass(frozen=True)
class MaskedWorth:
    """How sound a tracer finds the run if what the agents of a coalition are blamed for is masked.

    A tracer's word is no experiment: nothing is run.

    Attributes:
        trace: The run.
        verdict: On it.
        tracer: Who says so.
    """

    trace: MessageActionTrace
    verdict: Attribution
    tracer: Tracer

    def __call__(self, coalitions: Sequence[Coalition]) -> list[float]:
        """Return one minus the failure score of the run with each coalition masked, not told how it ended."""
        masked = [self._mask(coalition) for coalition in coalitions]
        return [
            1.0 if verdict.abstained is not None else 1.0 - verdict.failure_score
            for verdict in self.tracer.attribute(masked)
        ]

    def _mask(self, coalition: Coalition) -> MessageActionTrace:
        hidden = {
            blame.index for blame in self.verdict.steps if blame.agent in coalition and blame.score >= _LEAST_SHARE
        }
        steps = tuple(replace(step, content="") if step.index in hidden else step for step in self.trace.steps)
        return replace(self.trace, steps=steps, outcome="unknown")
