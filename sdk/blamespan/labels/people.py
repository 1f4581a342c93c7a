"""What is known of runs: labels beside the traces, a JSON line each, added and never changed, whoever says so.

A line uses the words of the labels that `blamespan lab generate` writes (`trace_id`, `outcome`, `decisive` with
`agent`, `step`, `span_id` and `modes`) and adds who says so, how they know, when, what they were shown, and why. What
only a generated run has, like a recipe or a seed, is left out. Labels of generated runs are read as well, as said by
`replay`, and those of `blamespan.inject`, as said by `inject`.

`blamespan.labels_file` reads and writes them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias, cast, get_args

from blamespan.attribution import TracerIdentity
from blamespan.errors import ConfigError
from blamespan.taxonomy import ErrorMode, mode
from blamespan.trace import MessageActionTrace, Step

LabelAnswer: TypeAlias = Literal["agrees", "corrects", "no_failure", "no_agent", "failed", "injected", "unsure"]
"""`agrees` with the verdict shown; `corrects` it, or gives one where none was shown; there was `no_failure`; it failed,
but by `no_agent`'s fault; it `failed`, and by whom is not said; a fault was `injected` into a step, and how the run
ended is said elsewhere; `unsure`: looked at, and nothing is claimed."""

LabelSource: TypeAlias = Literal["person", "told", "injected", "replayed"]
"""How it is known: a `person` says so; a check or the program `told` how the run ended; a fault was `injected` there;
the run was `replayed` with the step put right, and succeeded."""

REPLAY: Final = "replay"
"""Who says so, of runs that `blamespan lab generate` made."""

INJECT: Final = "inject"
"""Who says so, of faults that `blamespan.inject` put in."""

MAX_COMMENT_CHARS: Final = 2_000
MAX_NAME_CHARS: Final = 100
_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_UNTOLD = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ufeff]")


@dataclass(frozen=True, slots=True)
class DecisiveStep:
    """The step that decided the failure, as a label names it.

    Attributes:
        agent: Whose step, by the name it has in the trace.
        step: Index in the rebuilt trace, from 0.
        span_id: 16 hex digits: the step's span; empty where the label does not say.
        modes: What went wrong there, `taxonomy:code` each; empty where it is not said.
    """

    agent: str
    step: int
    span_id: str = ""
    modes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShownVerdict:
    """The verdict that a person had before their eyes.

    Attributes:
        tracer: Whose.
        agent: Who is to blame by it, or empty after an abstention.
        step: The decisive step.
        mode: For what, as `taxonomy:code`, or empty.
    """

    tracer: TracerIdentity
    agent: str = ""
    step: int | None = None
    mode: str = ""


@dataclass(frozen=True, slots=True)
class PersonLabel:
    """What one person says of one run.

    Attributes:
        trace_id: 32 hex digits.
        answer: What they say, in a word.
        by: Who they are.
        at: When, UTC, as `2026-11-21T08:00:00Z`; empty for `replay`.
        decisive: The step that decided the failure, or into which a fault was put; None unless the answer is `agrees`
            or `corrects`, or `injected` with a known step.
        comment: Why.
        first_span_id: 16 hex digits: the span of the run's first step, which tells several runs of one trace apart.
        shown: The verdict they were shown; None where they judged without.
        source: How they know.

    Raises:
        ConfigError: if a field is not what it must be; the message names it.
    """

    trace_id: str
    answer: LabelAnswer
    by: str
    at: str = ""
    decisive: DecisiveStep | None = None
    comment: str = ""
    first_span_id: str = ""
    shown: ShownVerdict | None = None
    source: LabelSource = "person"

    def __post_init__(self) -> None:
        _require(bool(_TRACE_ID.fullmatch(self.trace_id)), "trace_id", "32 hex digits", self.trace_id)
        _require(self.answer in get_args(LabelAnswer), "answer", f"one of {get_args(LabelAnswer)}", self.answer)
        _require(0 < len(self.by) <= MAX_NAME_CHARS, "by", f"a name of 1 to {MAX_NAME_CHARS} characters", self.by)
        _require(self.source in get_args(LabelSource), "source", f"one of {get_args(LabelSource)}", self.source)
        names_step = self.answer in ("agrees", "corrects")
        _require(
            self.answer == "injected" or (self.decisive is not None) == names_step,
            "decisive",
            f"fit to {self.answer!r}",
            self.decisive,
        )

    @classmethod
    def of(
        cls,
        trace: MessageActionTrace,
        answer: LabelAnswer,
        by: str,
        *,
        step: int | None = None,
        modes: Sequence[ErrorMode] = (),
        comment: str = "",
        shown: ShownVerdict | None = None,
        source: LabelSource = "person",
    ) -> PersonLabel:
        """Make a label of what somebody says of *trace* now.

        Raises:
            ConfigError: if the step is none that an agent can be blamed for, or the name is none.
        """
        decisive = None
        if answer in ("agrees", "corrects"):
            chosen = trace.steps[step] if step is not None and 0 <= step < len(trace.steps) else None
            if chosen is None or not trace.can_be_blamed(chosen):
                raise ConfigError(
                    f"expected a step of an agent, 0 to {len(trace.steps) - 1}, got {step!r}. "
                    "What tools answer and users say is not an agent's decision"
                )
            decisive = DecisiveStep(chosen.agent, chosen.index, chosen.span_id, tuple(map(str, modes)))
        return cls(
            trace.trace_id,
            answer,
            _one_line(by)[:MAX_NAME_CHARS],
            datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            decisive,
            _one_line(comment)[:MAX_COMMENT_CHARS],
            trace.steps[0].span_id if trace.steps else "",
            shown,
            source,
        )

    @property
    def outcome(self) -> Literal["success", "failure"] | None:
        """How the run ended, as a generated run's label says it; None where that is not said."""
        if self.answer in ("unsure", "injected"):
            return None
        return "success" if self.answer == "no_failure" else "failure"

    def concerns(self, trace: MessageActionTrace) -> bool:
        """Check whether this label is about *trace*, also where its trace holds several runs."""
        if self.trace_id != trace.trace_id:
            return False
        return not self.first_span_id or any(step.span_id == self.first_span_id for step in trace.steps)

    def as_json(self) -> dict[str, Any]:
        """Return the label as it stands in a labels file, ready for `json.dumps`."""
        return {
            "trace_id": self.trace_id,
            "outcome": self.outcome,
            "decisive": None if self.decisive is None else asdict(self.decisive),
            "by": self.by,
            "known_by": self.source,
            "at": self.at,
            "answer": self.answer,
            "comment": self.comment,
            "first_span_id": self.first_span_id,
            "shown": None if self.shown is None else asdict(self.shown),
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> PersonLabel:
        """Read what `as_json` gave, the label of a generated run or of a fault; keys not known are left alone.

        Raises:
            ConfigError: if a field is missing or not what it must be; the message names it.
        """
        _require(isinstance(record, Mapping), "a label", "a JSON object", record)
        decisive = record.get("decisive")
        if "by" not in record and "operator" in record:
            return _read_fault(record)
        if "by" not in record:
            return cls(
                _text(record, "trace_id"),
                _answer_of(record),
                REPLAY,
                decisive=_decisive(decisive) if decisive else None,
                source="replayed",
            )
        answer = record.get("answer")
        _require(isinstance(answer, str), "answer", f"one of {get_args(LabelAnswer)}", answer)
        return cls(
            _text(record, "trace_id"),
            record["answer"],
            _text(record, "by"),
            _text(record, "at", ""),
            None if decisive is None else _decisive(decisive),
            _text(record, "comment", ""),
            _text(record, "first_span_id", ""),
            None if record.get("shown") is None else _read_shown_verdict(record["shown"]),
            _source(record),
        )


def by_run(labels: Iterable[PersonLabel]) -> dict[str, list[PersonLabel]]:
    """Sort labels by trace id; `PersonLabel.concerns` says which of a trace's runs each is about."""
    found: dict[str, list[PersonLabel]] = defaultdict(list)
    for label in labels:
        found[label.trace_id].append(label)
    return dict(found)


def step_of(label: PersonLabel, trace: MessageActionTrace) -> Step | None:
    """Find the step that *label* names, by its span where that is known: indices shift when late spans come.

    Returns:
        The step; None where the label names none, or the trace has it no longer.
    """
    named = label.decisive
    if named is None:
        return None
    if named.span_id:
        found = [step for step in trace.steps if step.span_id == named.span_id and trace.can_be_blamed(step)]
        return next((step for step in found if step.index == named.step), next(iter(found), None))
    found = [step for step in trace.steps if step.index == named.step and step.agent == named.agent]
    return next(iter(found), None)


def _answer_of(record: Mapping[str, Any]) -> LabelAnswer:
    """Translate the label of a generated run to a person's words."""
    if record.get("decisive") is not None:
        return "corrects"
    outcome = record.get("outcome")
    _require(outcome in ("success", "failure"), "outcome", "'success' or 'failure'", outcome)
    return "no_failure" if outcome == "success" else "unsure"


def _read_fault(record: Mapping[str, Any]) -> PersonLabel:
    """Read the label of a fault that `blamespan.inject` put in; its step is null where that is not known."""
    _require(record.get("trace_id") is not None, "trace_id", "32 hex digits: the run was not recorded", None)
    decisive = _decisive(record) if record.get("step") is not None else None
    comment = f"{_text(record, 'kind')} by {_text(record, 'mechanism')}, {_text(record, 'operator')}"
    return PersonLabel(
        _text(record, "trace_id"), "injected", INJECT, decisive=decisive, comment=comment, source="injected"
    )


def _source(record: Mapping[str, Any]) -> LabelSource:
    """Return how a label is known; a line of a person's own writing need not say it."""
    source = record.get("known_by", "person")
    _require(source in get_args(LabelSource), "known_by", f"one of {get_args(LabelSource)}", source)
    return cast(LabelSource, source)


def _decisive(record: Any) -> DecisiveStep:
    _require(isinstance(record, Mapping), "decisive", "a JSON object or null", record)
    step, modes = record.get("step"), record.get("modes", [])
    _require(type(step) is int and step >= 0, "decisive.step", "the index of a step, from 0", step)
    _require(isinstance(modes, list), "decisive.modes", "a list of taxonomy:code", modes)
    return DecisiveStep(
        _text(record, "agent"), step, _text(record, "span_id", ""), tuple(str(mode(str(name))) for name in modes)
    )


def _read_shown_verdict(record: Any) -> ShownVerdict:
    _require(isinstance(record, Mapping) and isinstance(record.get("tracer"), Mapping), "shown", "a verdict", record)
    tracer, step = record["tracer"], record.get("step")
    _require(step is None or type(step) is int, "shown.step", "the index of a step, or null", step)
    return ShownVerdict(
        TracerIdentity(_text(tracer, "name"), _text(tracer, "version", ""), _text(tracer, "weights", "")),
        _text(record, "agent", ""),
        step,
        _text(record, "mode", ""),
    )


def _text(record: Mapping[str, Any], key: str, default: str | None = None) -> str:
    text = record.get(key, default)
    _require(isinstance(text, str), key, "a text", text)
    return str(text)


def _one_line(text: str) -> str:
    return " ".join(_UNTOLD.sub(" ", text.encode("utf-8", "replace").decode()).split())


def _require(is_so: bool, at: str, expected: str, got: object) -> None:
    if not is_so:
        raise ConfigError(f"{at} must be {expected}, got {str(got)[:100]!r}. Make labels with: blamespan annotate")
