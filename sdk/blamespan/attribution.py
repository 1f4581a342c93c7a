"""The verdict on one run: who is to blame, at which step, with which kind of error."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, get_args

from blamespan.errors import MalformedVerdict
from blamespan.taxonomy import EXTENSION, ErrorMode
from blamespan.trace import MessageActionTrace, Outcome

NOBODY_KNOWS: Final = 0.5
"""Failure score that says neither way: above it a run is called failed, below it sound."""

VerdictWord: TypeAlias = Literal["failed", "looks failed", "no sign of failure", "abstained"]
"""What a verdict comes to. `failed`: somebody knows that the run failed. `looks failed`: nobody knows, and the tracer
says so. `no sign of failure`: the tracer says the opposite, or somebody knows that the run succeeded. `abstained`:
nobody knows, and the tracer gives no verdict."""
NO_SIGN: Final[VerdictWord] = "no sign of failure"
FAILURE_WORDS: Final[tuple[VerdictWord, ...]] = ("failed", "looks failed")
"""Of runs that these are said of, suspects are named; of others nobody is."""

NO_EVIDENCE: Final = "no evidence in the run: by where mistakes usually are"
"""Said of suspects where `Attribution.has_evidence` does not hold."""

_ROUNDING = 1e-6
"""Scores may be so much beyond 0 and 1."""


@dataclass(frozen=True, slots=True)
class StepBlame:
    """A step's share of the blame, 0..1; the shares of a run add up to 1, or to 0 after an abstention.

    Attributes:
        index: Of the step.
        span_id: Its span.
        agent: Who made it.
        score: The share.
        by_evidence: The part of the share that what the run says gives, 0..score; the rest is a prior: where mistakes
            usually are. None where the tracer does not say.
    """

    index: int
    span_id: str
    agent: str
    score: float
    by_evidence: float | None = None


@dataclass(frozen=True, slots=True)
class AgentBlame:
    """An agent's share of the blame: the sum over its steps."""

    agent: str
    score: float


@dataclass(frozen=True, slots=True)
class ModeBlame:
    """How likely *agent* made this kind of error, 0..1. Modes are not exclusive and need not add up to 1."""

    mode: ErrorMode
    agent: str
    score: float


@dataclass(frozen=True, slots=True)
class Contradicted:
    """Words elsewhere in the run that a step contradicts.

    Attributes:
        index: Of the step that says them or was given them; None for the run's task, or a part of the run before this.
        quote: The words, as they stand there.
    """

    index: int | None
    quote: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """Words of a step that speak for its blame, quoted as they stand in its content.

    Attributes:
        index: Of the step.
        quote: The words.
        score: The step's share of the blame.
        contradicts: The words that they contradict, where there are such.
        finding: What kind of finding they are: `check NAME` of a check that the step breaks, `claim KIND` of a claim
            that contradicts its source; empty where the tracer does not say.
    """

    index: int
    quote: str
    score: float
    contradicts: Contradicted | None = None
    finding: str = ""


CauseKind: TypeAlias = Literal["task", "tool"]
"""What a run may fail by beside its agents: what it was asked, or a tool or the back end behind it."""


@dataclass(frozen=True, slots=True)
class Cause:
    """What a run failed by where no agent is to blame.

    Attributes:
        kind: Which of these.
        name: Of the tool; `the task`.
        step: Index of the step that shows it; None for the run's task, or a part of the run before this.
        quote: Its words, as they stand there.
        reason: In a few words, what is wrong with it.
        against: Other words that do not go with them, where there are such.
    """

    kind: CauseKind
    name: str
    step: int | None
    quote: str
    reason: str
    against: Contradicted | None = None

    @property
    def mode(self) -> ErrorMode:
        """The kind of error: none of an agent's."""
        return EXTENSION["X4" if self.kind == "tool" else "N1"]

    @property
    def title(self) -> str:
        """Who is to blame: `the tool search`, `the task`."""
        return f"the tool {self.name}" if self.kind == "tool" else self.name


VerificationOutcome: TypeAlias = Literal["confirmed", "refuted", "undecided"]
"""The run ends otherwise with the step put right; it does not; or nobody can tell."""


@dataclass(frozen=True, slots=True)
class Verification:
    """What came of putting a suspected step right and going on with the run from there.

    Attributes:
        index: Of the step.
        outcome: What that says of the suspicion.
        repeats: How often the run was gone on with, the step put right.
        succeeded: How many of them succeeded.
        unchanged_repeats: How often it was gone on with from the step as it was, which shows what chance does.
        unchanged_succeeded: How many of those succeeded.
    """

    index: int
    outcome: VerificationOutcome
    repeats: int = 0
    succeeded: int = 0
    unchanged_repeats: int = 0
    unchanged_succeeded: int = 0


@dataclass(frozen=True, slots=True)
class Opinion:
    """What one of several that were asked says of a run, where the verdict combines them.

    Attributes:
        tracer: Whose opinion it is.
        step: Index of the step that it blames most; None where it names none.
        score: Its share of the blame, or how sure it is, 0..1.
        note: Why it names none; empty where it names one.
    """

    tracer: str
    step: int | None
    score: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class TracerIdentity:
    """Which tracer spoke: enough to reproduce the verdict."""

    name: str
    version: str
    weights: str = ""
    """First 12 hex digits of the SHA-256 of its weights, or empty for a tracer without any."""


@dataclass(frozen=True, slots=True)
class Attribution:
    """What a tracer says of one run. Build it with `Attribution.of`, which derives what can be derived.

    Attributes:
        trace_id: The run's trace.
        failure_score: How likely the run failed by an agent's fault, or by *cause*, 0..1.
        unaided_score: The same without being told how the run ended, so that it can be held against ends that are
            known; None where the tracer does not say.
        steps: One share per step, in step order.
        decisive_step: Index of the step that decided the failure; None after an abstention.
        agents: Ranked, most to blame first. An agent's score is the sum of its steps' shares.
        modes: Ranked, most likely first.
        step_set: Indices of the fewest steps whose shares reach `coverage`, ascending.
        coverage: The share of blame `step_set` was made to hold.
        evidence: Strongest first.
        tracer: Who says so.
        revision: 0 at first, +1 each time late spans changed the run.
        abstained: Why there is no verdict, or None.
        verified: The suspects that were put to the test by `blamespan verify`, in step order.
        outcome: How the run ended, where somebody knows.
        cause: What it failed by where no agent is to blame; then no suspects are named, and what the steps hold is who
            would be to blame otherwise.
        opinions: Who said what, where several were asked; the verdict combines them.
    """

    trace_id: str
    failure_score: float
    steps: tuple[StepBlame, ...]
    decisive_step: int | None
    agents: tuple[AgentBlame, ...]
    modes: tuple[ModeBlame, ...]
    step_set: tuple[int, ...]
    coverage: float
    evidence: tuple[Evidence, ...]
    tracer: TracerIdentity
    revision: int = 0
    abstained: str | None = None
    unaided_score: float | None = None
    verified: tuple[Verification, ...] = ()
    outcome: Outcome = "unknown"
    cause: Cause | None = None
    opinions: tuple[Opinion, ...] = ()

    @classmethod
    def of(
        cls,
        trace: MessageActionTrace,
        shares: Sequence[float],
        *,
        failure_score: float,
        tracer: TracerIdentity,
        modes: Sequence[ModeBlame] = (),
        evidence: Sequence[Evidence] = (),
        coverage: float = 0.8,
        unaided_score: float | None = None,
        by_evidence: Sequence[float | None] | None = None,
    ) -> Attribution:
        """Build a verdict from one non-negative number per step.

        The numbers are scaled to add up to 1. The decisive step is the highest one of the most blamed
        agent (the earlier one on a tie), so the agent, the step and the shares can never contradict.

        Args:
            trace: The run.
            shares: One per step; must be 0 where `trace.can_be_blamed` says no, and not all 0.
            failure_score: 0..1.
            tracer: Who says so.
            modes: In any order.
            evidence: In any order.
            coverage: Share of the blame that `step_set` must hold, 0..1.
            unaided_score: What *failure_score* is without being told how the run ended, 0..1. Of a run of which nobody
                knows that, it is *failure_score*.
            by_evidence: The part of each share that evidence gives, scaled like the shares; see `StepBlame`.

        Raises:
            ValueError: if the shares do not fit the trace, are negative or all zero, or blame what
                cannot be blamed.
        """
        total = _checked_total(trace, shares)
        steps = tuple(
            StepBlame(step.index, step.span_id, step.agent, share / total, None if part is None else part / total)
            for step, share, part in zip(trace.steps, shares, by_evidence or [None] * len(shares), strict=True)
        )
        agents = _by_agent(steps)
        ranked = sorted(steps, key=lambda step: (-step.score, step.index))
        return cls(
            trace_id=trace.trace_id,
            failure_score=failure_score,
            steps=steps,
            decisive_step=next(step.index for step in ranked if step.agent == agents[0].agent),
            agents=agents,
            modes=tuple(sorted(modes, key=lambda mode: -mode.score)),
            step_set=_smallest_set(ranked, coverage),
            coverage=coverage,
            evidence=tuple(sorted(evidence, key=lambda item: -item.score)),
            tracer=tracer,
            unaided_score=failure_score if unaided_score is None and trace.outcome == "unknown" else unaided_score,
            outcome=trace.outcome,
        )

    def as_it_ended(self, trace: MessageActionTrace) -> Attribution:
        """Return the verdict with the outcome of *trace*, and, where that is known, a failure score of 1 or 0."""
        if self.abstained is not None or trace.outcome == "unknown":
            return self if self.outcome == trace.outcome else replace(self, outcome=trace.outcome)
        if trace.outcome == "succeeded":
            return replace(self, outcome="succeeded", failure_score=0.0, cause=None)
        return replace(self, outcome="failed", failure_score=1.0)

    @property
    def calls_failed(self) -> bool:
        """Whether it says that the run rather failed than not."""
        return self.abstained is None and self.failure_score > NOBODY_KNOWS

    @property
    def word(self) -> VerdictWord:
        """What it comes to, in the one word that spans, pages, tables and counts use."""
        return verdict_word(self.outcome, self.failure_score, self.abstained)

    @property
    def names_suspects(self) -> bool:
        """Whether anybody is named. Of other runs it still holds who would be to blame if they had failed."""
        is_by_agent = self.abstained is None and self.cause is None and self.decisive_step is not None
        return is_by_agent and self.word in FAILURE_WORDS

    @property
    def has_evidence(self) -> bool:
        """Whether evidence gives at least half of the decisive step's share, or the tracer does not say what gives it.

        Where it does not, that step is the first suspect, and no step is called decisive.
        """
        if self.decisive_step is None:
            return False
        decisive = self.steps[self.decisive_step]
        return decisive.by_evidence is None or 2 * decisive.by_evidence >= decisive.score

    def ranked_steps(self) -> list[StepBlame]:
        """Return the steps that hold blame in the order of suspicion: the only order in which suspects are listed.

        The decisive step is first, also where it is the highest of an agent with many steps and a step of another agent
        holds more. The others follow by their shares, the earlier one first on a tie.
        """
        return sorted(
            [step for step in self.steps if step.score > 0 or step.index == self.decisive_step],
            key=lambda step: (step.index != self.decisive_step, -step.score, step.index),
        )

    def mode_of(self, agent: str | None) -> ModeBlame | None:
        """Return the most likely error mode of *agent*; None where it is blamed for none."""
        return next((blame for blame in self.modes if blame.agent == agent), None)

    @classmethod
    def abstain(cls, trace: MessageActionTrace, reason: str, tracer: TracerIdentity) -> Attribution:
        """Make an abstention on *trace*, with its reason: never a default answer in a verdict's clothes."""
        steps = tuple(StepBlame(step.index, step.span_id, step.agent, 0.0) for step in trace.steps)
        return cls(
            trace.trace_id, 0.0, steps, None, (), (), (), 0.0, (), tracer, abstained=reason, outcome=trace.outcome
        )

    @classmethod
    def blameless(
        cls, trace: MessageActionTrace, *, failure_score: float, tracer: TracerIdentity, unaided_score: float | None
    ) -> Attribution:
        """Make a verdict that gives no step a share, as on a part of a sound run in which nothing can be blamed."""
        verdict = cls.abstain(trace, "", tracer)
        return replace(verdict, abstained=None, failure_score=failure_score, unaided_score=unaided_score)


def verdict_word(outcome: Outcome, failure_score: float, abstained: str | None) -> VerdictWord:
    """Return what a verdict comes to.

    Args:
        outcome: How the run ended, where somebody knows: that counts before all that a tracer says.
        failure_score: How likely it failed by the tracer, 0..1.
        abstained: Why the tracer gives no verdict, if it gives none.
    """
    if outcome != "unknown":
        return "failed" if outcome == "failed" else NO_SIGN
    if abstained is not None:
        return "abstained"
    return "looks failed" if failure_score > NOBODY_KNOWS else NO_SIGN


def check_verdict(verdict: object, trace: MessageActionTrace) -> Attribution:
    """Return a tracer's answer if it is a verdict on *trace* that can be written down, its failure score as it ended.

    A tracer may be anybody's, and build its answer without `Attribution.of`, or without being told how the run ended:
    the outcome of the answer is that of *trace*. Whatever it says, the failure score of a run that is known to have
    failed is 1, and 0 of one that is known to have succeeded; `unaided_score` says what the tracer thought.

    Raises:
        MalformedVerdict: if it is no `Attribution`, is on another run, or holds what no verdict may.
    """
    if not isinstance(verdict, Attribution):
        raise MalformedVerdict(f"expected an Attribution from the tracer, got {verdict!r:.200}")
    try:
        problem = next(_list_problems(verdict, trace), None)
    except (AttributeError, TypeError) as error:
        problem = f"expected the records of blamespan.attribution in a verdict, got others: {error}"
    if problem is not None:
        raise MalformedVerdict(f"{problem}. Build verdicts with Attribution.of")
    return verdict.as_it_ended(trace)


def _list_problems(verdict: Attribution, trace: MessageActionTrace) -> Iterator[str]:
    """Yield what makes a verdict one that cannot be written down."""
    tracer = verdict.tracer
    if verdict.trace_id != trace.trace_id:
        yield f"expected a verdict on trace {trace.trace_id}, got one on {verdict.trace_id!r:.100}"
    yield from _list_other_than_texts("the identity of a tracer", (tracer.name, tracer.version, tracer.weights))
    if not isinstance(verdict.revision, int):
        yield f"expected a number as revision, got {verdict.revision!r:.100}"
    for opinion in verdict.opinions:
        yield from _list_other_than_texts("opinions", (opinion.tracer, opinion.note))
        yield from _list_other_than_shares("scores of opinions", [opinion.score])
        yield from _list_wrong_indices(trace, [opinion.step])
    if verdict.abstained is not None:
        yield from _list_other_than_texts("the reason of an abstention", (verdict.abstained,))
    else:
        yield from _list_problems_of_steps(verdict, trace)
        yield from _list_problems_of_scores(verdict)
        yield from _list_problems_of_verifications(verdict, trace)
        yield from _list_problems_of_cause(verdict, trace)
        yield from _list_other_than_texts("names of agents", [blame.agent for blame in verdict.agents])
        yield from _list_other_than_texts("names of agents", [blame.agent for blame in verdict.modes])
        yield from _list_other_than_texts("codes of modes", [blame.mode.code for blame in verdict.modes])
        contradicted = [item.contradicts for item in verdict.evidence if item.contradicts is not None]
        yield from _list_other_than_texts("quotations", [item.quote for item in verdict.evidence])
        yield from _list_other_than_texts("quotations", [words.quote for words in contradicted])


def _list_problems_of_steps(verdict: Attribution, trace: MessageActionTrace) -> Iterator[str]:
    if len(verdict.steps) != len(trace.steps):
        yield f"expected a verdict on {len(trace.steps)} steps, got one on {len(verdict.steps)}"
    for index, (blame, step) in enumerate(zip(verdict.steps, trace.steps, strict=False)):
        if (blame.index, blame.span_id, blame.agent) != (index, step.span_id, step.agent):
            yield f"expected step {index}, by {step.agent!r:.100}, at its place in the verdict, got {blame!r:.200}"
    quoted = [item.index for item in verdict.evidence]
    contradicted = [item.contradicts.index for item in verdict.evidence if item.contradicts is not None]
    yield from _list_wrong_indices(trace, [verdict.decisive_step, *verdict.step_set, *quoted, *contradicted])


def _list_problems_of_scores(verdict: Attribution) -> Iterator[str]:
    yield from _list_other_than_shares("a failure score", [verdict.failure_score])
    yield from _list_other_than_shares("an unaided score", [verdict.unaided_score or 0.0])
    yield from _list_other_than_shares("scores of steps", [blame.score for blame in verdict.steps])
    yield from _list_other_than_shares("evidence of steps", [blame.by_evidence or 0.0 for blame in verdict.steps])
    yield from _list_other_than_shares("scores of agents", [blame.score for blame in verdict.agents])
    yield from _list_other_than_shares("scores of modes", [blame.score for blame in verdict.modes])


def _list_problems_of_verifications(verdict: Attribution, trace: MessageActionTrace) -> Iterator[str]:
    known = get_args(VerificationOutcome)
    for item in verdict.verified:
        yield from _list_wrong_indices(trace, [item.index])
        if item.outcome not in known:
            yield f"expected a verification as one of {known}, got {item.outcome!r:.100}"
        for count, total in (
            (item.succeeded, item.repeats),
            (item.unchanged_succeeded, item.unchanged_repeats),
        ):
            if not 0 <= count <= total:
                yield f"expected at most {total!r:.100} repeats that succeeded, got {count!r:.100}"


def _list_problems_of_cause(verdict: Attribution, trace: MessageActionTrace) -> Iterator[str]:
    cause = verdict.cause
    if cause is None:
        return
    if cause.kind not in get_args(CauseKind):
        yield f"expected a cause as one of {get_args(CauseKind)}, got {cause.kind!r:.100}"
    against = [cause.against] if cause.against is not None else []
    yield from _list_wrong_indices(trace, [cause.step, *(words.index for words in against)])
    quotes = [words.quote for words in against]
    yield from _list_other_than_texts("a cause", (cause.name, cause.quote, cause.reason, *quotes))


def _list_wrong_indices(trace: MessageActionTrace, indices: Iterable[int | None]) -> Iterator[str]:
    """Yield what is no index of a step; None stands for no step."""
    for index in indices:
        if index is not None and not 0 <= index < len(trace.steps):
            yield f"expected indices below {len(trace.steps)}, the number of steps, got {index}"


def _list_other_than_shares(what: str, values: Iterable[object]) -> Iterator[str]:
    """Yield what is no number from 0 to 1, but for rounding."""
    for value in values:
        if not (isinstance(value, int | float) and -_ROUNDING <= value <= 1 + _ROUNDING):  # NaN is neither
            yield f"expected {what} from 0 to 1, got {value!r:.100}"


def _list_other_than_texts(what: str, values: Iterable[object]) -> Iterator[str]:
    for value in values:
        if not isinstance(value, str):
            yield f"expected {what} as text, got {value!r:.100}"


def _checked_total(trace: MessageActionTrace, shares: Sequence[float]) -> float:
    if len(shares) != len(trace.steps):
        raise ValueError(f"expected one share per step ({len(trace.steps)}), got {len(shares)}")
    for step, share in zip(trace.steps, shares, strict=True):
        if not share >= 0:
            raise ValueError(f"step {step.index}: a share must be a number >= 0, got {share!r}")
        if share > 0 and not trace.can_be_blamed(step):
            raise ValueError(f"step {step.index} ({step.kind} by {step.agent!r}) cannot be blamed, got share {share!r}")
    total = sum(shares)
    if not total > 0:
        raise ValueError("all shares are 0: use Attribution.abstain and say why")
    return total


def _by_agent(steps: Sequence[StepBlame]) -> tuple[AgentBlame, ...]:
    mass: dict[str, float] = defaultdict(float)
    for step in steps:
        mass[step.agent] += step.score
    ranked = sorted(mass.items(), key=lambda item: -item[1])  # stable: first to speak wins a tie
    return tuple(AgentBlame(agent, score) for agent, score in ranked if score > 0)


def _smallest_set(ranked: Sequence[StepBlame], coverage: float) -> tuple[int, ...]:
    chosen: list[int] = []
    total = 0.0
    for step in ranked:
        if total >= coverage - 1e-9 or step.score == 0:
            break
        chosen.append(step.index)
        total += step.score
    return tuple(sorted(chosen))
