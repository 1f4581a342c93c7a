"""Verifying a verdict: suspects are put right one by one, and the run is gone on with from there.

A run that is gone on with draws anew: it may come out right for no other reason. So it is gone on with from the same
step as it was, too, as often; a suspect is confirmed only if putting it right does better than that (decision 086).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from blamespan.analysis.summary.statistics import Share, difference_interval
from blamespan.attribution import Attribution, Verification, VerificationOutcome
from blamespan.errors import ConfigError
from blamespan.trace import MessageActionTrace
from blamespan_lab.rerun.causes.corrections import CorrectionWriter, NoCorrection
from blamespan_lab.rerun.playback import Correction
from blamespan_lab.rerun.script import Script
from blamespan_lab.rerun.trials import Trial, Trials

_CONFIRMED_SHARE = 0.8
"""Of the blame, that the earliest confirmed step gets: the fewest steps that hold 0.8 of it are the step set."""


@dataclass(frozen=True, slots=True)
class StepToVerify:
    """A step that may have made the run fail.

    Attributes:
        step: Its index.
        agent: Whose it is.
        share: Of the blame, by the tracer.
        calls: How many times models were asked after it in the recording: about what going on from it costs.
    """

    step: int
    agent: str
    share: float
    calls: int


@dataclass(frozen=True, slots=True)
class VerifiedSuspect:
    """What came of trying a suspect.

    Attributes:
        suspect: It.
        outcome: `confirmed`, `refuted` or `undecided`.
        reason: Why, in a clause.
        source: Whose the correction was; empty where there was none.
        corrected: Of the runs with the step put right, how many succeeded.
        unchanged: Of those with the step as it was, how many succeeded; none where that was not needed.
        asked: How many times models were asked for it all.
        says: What the step says instead, as it came out in the first run; empty where it never did.
        is_from_checkpoint: Whether runs went on from a checkpoint.
    """

    suspect: StepToVerify
    outcome: VerificationOutcome
    reason: str
    source: str = ""
    corrected: Share = field(default=Share(0, 0))
    unchanged: Share = field(default=Share(0, 0))
    asked: int = 0
    says: str = ""
    is_from_checkpoint: bool = False

    @property
    def verification(self) -> Verification:
        """Return what goes onto the spans."""
        return Verification(
            self.suspect.step,
            self.outcome,
            self.corrected.total,
            self.corrected.count,
            self.unchanged.total,
            self.unchanged.count,
        )


class CallBudget:
    """Most calls of models, shared by suspects that are tried side by side."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._lock = threading.Lock()

    @property
    def left(self) -> int:
        """How many calls are left."""
        return self._left

    def reserve(self, calls: int) -> bool:
        """Put *calls* aside; gives false, and takes none, where not so many are left."""
        with self._lock:
            if calls > self._left:
                return False
            self._left -= calls
            return True

    def spend(self, calls: int) -> None:
        """Take *calls* that were made, whether so many were left or not."""
        with self._lock:
            self._left -= calls

    def settle(self, reserved: int, used: int) -> None:
        """Give back what was put aside and not used."""
        with self._lock:
            self._left += reserved - used


def list_suspects(script: Script, verdict: Attribution, most: int, also: Iterable[int] = ()) -> list[StepToVerify]:
    """List the steps with the largest shares of the blame, most blamed first, and those in *also*.

    Raises:
        ConfigError: if a step of *also* is nobody's decision.
    """
    trace = script.trace
    ranked = sorted((step for step in verdict.steps if step.score > 0), key=lambda step: (-step.score, step.index))
    chosen = [step.index for step in ranked[:most]]
    for step in also:
        if not 0 <= step < len(trace.steps) or not trace.can_be_blamed(trace.steps[step]):
            raise ConfigError(
                f"expected corrections of agents' steps, 0 to {len(trace.steps) - 1}, got one of step {step}. "
                "`blamespan analyze` lists them"
            )
        if step not in chosen:
            chosen.append(step)
    return [
        StepToVerify(
            step,
            trace.steps[step].agent,
            verdict.steps[step].score,
            sum(1 for answer in script.answers if answer.step > step),
        )
        for step in chosen
    ]


def verify(
    suspects: Sequence[StepToVerify],
    script: Script,
    writers: Sequence[CorrectionWriter],
    trials: Trials,
    *,
    repeats: int,
    budget: CallBudget,
    at_once: int = 1,
    on_result: Callable[[VerifiedSuspect], None] = lambda result: None,
) -> list[VerifiedSuspect]:
    """Try each suspect, the cheapest first, *at_once* of them side by side, as long as the budget lasts.

    Args:
        suspects: What is tried.
        script: The recording.
        writers: Who says what a step should be, the first that can.
        trials: Goes on with the run.
        repeats: How often each suspect is tried, the step put right; and as often as it was.
        budget: Of calls of models.
        at_once: How many side by side.
        on_result: Told of each as it comes.

    Returns:
        One result for each suspect, the most blamed first.

    Raises:
        ConfigError: if the program cannot be run at all.
    """
    cheapest_first = sorted(suspects, key=lambda suspect: (suspect.calls, -suspect.share))

    def examine(suspect: StepToVerify) -> VerifiedSuspect:
        result = _Examination(suspect, script, writers, trials, repeats, budget).examine()
        on_result(result)
        return result

    with ThreadPoolExecutor(max(1, at_once), thread_name_prefix="blamespan-suspect") as threads:
        results = list(threads.map(examine, cheapest_first))
    return sorted(results, key=lambda result: (-result.suspect.share, result.suspect.step))


@dataclass
class _Examination:
    suspect: StepToVerify
    script: Script
    writers: Sequence[CorrectionWriter]
    trials: Trials
    repeats: int
    budget: CallBudget
    asked: int = 0

    def examine(self) -> VerifiedSuspect:
        recorded = self.script.trace.steps[self.suspect.step].content
        try:
            correction, source = self._write()
        except NoCorrection as error:
            return VerifiedSuspect(self.suspect, "undecided", str(error), asked=self.asked)
        if not correction.told and correction.answer is None and _is_same(correction.text, recorded):
            return VerifiedSuspect(
                self.suspect,
                "refuted",
                "put right, it says the same: nothing is wrong with it",
                source,
                asked=self.asked,
            )
        try:
            corrected = [self._try(correction) for _ in range(self.repeats)]
        except _OutOfBudgetError as error:
            return VerifiedSuspect(self.suspect, "undecided", str(error), source, asked=self.asked)
        except ConfigError as error:  # this correction cannot stand there
            return VerifiedSuspect(self.suspect, "undecided", str(error), source, asked=self.asked)
        first = corrected[0]
        made = VerifiedSuspect(
            self.suspect,
            "undecided",
            "",
            source,
            corrected=_share(corrected),
            asked=self.asked,
            says=first.said[0][1] if first.said else "",
            is_from_checkpoint=first.is_from_checkpoint,
        )
        trouble = next((trial.trouble for trial in corrected if trial.trouble), "")
        if trouble:
            return replace(made, reason=trouble)
        if all(trial.said and _is_same(trial.said[0][1], recorded) for trial in corrected):
            return replace(made, reason="told what is wrong, its agent says the same again")
        if made.corrected.count == 0:
            return self._not_mended(made, corrected)
        return self._compare(made, recorded)

    def _write(self) -> tuple[Correction, str]:
        reasons = []
        for writer in self.writers:
            if not self.budget.reserve(writer.cost):
                reasons.append("the budget of model calls is spent")
                continue
            is_asked_here = writer.source == "judge"
            self.budget.settle(writer.cost, writer.cost if is_asked_here else 0)
            self.asked += writer.cost if is_asked_here else 0
            try:
                return writer.write(self.suspect.step), writer.source
            except NoCorrection as error:
                reasons.append(str(error))
        raise NoCorrection(reasons[-1] if reasons else "nobody says what it should be")

    def _try(self, correction: Correction) -> Trial:
        """Go on with the run once, within the budget; live teams may take more calls than the recorded one did."""
        wanted = self.suspect.calls + (1 if correction.told else 0)
        most = min(2 * wanted + 4, self.budget.left)
        if most < wanted or not self.budget.reserve(most):
            raise _OutOfBudgetError(f"the budget of model calls is spent: going on from here takes about {wanted}")
        used = 0
        try:
            trial = self.trials.run([correction], most)
            used = trial.asked
        finally:
            self.budget.settle(most, used)
        self.asked += used
        return trial

    def _not_mended(self, made: VerifiedSuspect, corrected: Sequence[Trial]) -> VerifiedSuspect:
        recorded_rest = [
            answer.said.text
            for answer in self.script.answers
            if answer.step > self.suspect.step and answer.said.text.strip()
        ]
        if recorded_rest and all(
            [text for _, text in trial.said[1:] if text.strip()] == recorded_rest for trial in corrected
        ):
            return replace(made, reason="the team ignores the correction: all that follows is said as it was")
        return replace(made, outcome="refuted", reason="put right, the run fails all the same")

    def _compare(self, made: VerifiedSuspect, recorded: str) -> VerifiedSuspect:
        """Hold the runs with the step put right against as many from the step as it was."""
        try:
            unchanged = [self._try(Correction(self.suspect.step, recorded)) for _ in range(self.repeats)]
        except (_OutOfBudgetError, ConfigError) as error:
            return replace(made, reason=f"whether chance alone does it could not be tried: {error}", asked=self.asked)
        made = replace(made, unchanged=_share(unchanged), asked=self.asked)
        trouble = next((trial.trouble for trial in unchanged if trial.trouble), "")
        if trouble:
            return replace(made, reason=trouble)
        low, _ = difference_interval(made.unchanged, made.corrected)
        if self.repeats == 1:  # nothing is known of chance: one run each must do, and the report says so
            low = made.corrected.value - made.unchanged.value
        if low > 0:
            return replace(made, outcome="confirmed", reason="put right, the run succeeds; as it was, it does not")
        return replace(made, reason="run again as it was, it succeeds too often to tell that from chance")


class _OutOfBudgetError(Exception):
    """A trial would take more calls of models than are left."""


def _share(trials: Sequence[Trial]) -> Share:
    return Share(sum(trial.ran.succeeded is True for trial in trials), len(trials))


def _is_same(left: str, right: str) -> bool:
    return " ".join(left.split()) == " ".join(right.split())


def verified_verdict(
    trace: MessageActionTrace, verdict: Attribution, results: Sequence[VerifiedSuspect]
) -> Attribution:
    """Make the later verdict: what was confirmed is decisive, the earliest first; what was refuted is not blamed.

    Where nothing was confirmed and everything refuted, the shares stay as they were: somebody did it.
    """
    outcomes = {result.suspect.step: result.outcome for result in results}
    shares = [0.0 if outcomes.get(step.index) == "refuted" else step.score for step in verdict.steps]
    confirmed = sorted(step for step, outcome in outcomes.items() if outcome == "confirmed")
    failure_score = verdict.failure_score
    if confirmed:
        others = sum(shares) - shares[confirmed[0]]
        scale = (1 - _CONFIRMED_SHARE) / others if others > 0 else 0.0
        shares = [share * scale for share in shares]
        shares[confirmed[0]] = _CONFIRMED_SHARE
        failure_score = 1.0
    if not sum(shares) > 0:
        shares = [step.score for step in verdict.steps]
    if not sum(shares) > 0:  # an abstention, and nothing confirmed
        made = verdict
    else:
        made = Attribution.of(
            trace,
            shares,
            failure_score=failure_score,
            tracer=verdict.tracer,
            modes=verdict.modes,
            evidence=verdict.evidence,
            coverage=verdict.coverage or _CONFIRMED_SHARE,
            unaided_score=verdict.unaided_score,
        )
    verified = tuple(sorted((result.verification for result in results), key=lambda item: item.index))
    return replace(made, revision=verdict.revision + 1, verified=verified)
