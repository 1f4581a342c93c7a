"""What suspected steps should say instead: the user's word, an LLM's, or the agent's own once told what is wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from blamespan.attribution import Attribution, Evidence
from blamespan.errors import ConfigError
from blamespan.importing.files import read_bytes
from blamespan.plugins import require
from blamespan.trace import MessageActionTrace
from blamespan_lab.rerun.feedback.writing import feedback_at
from blamespan_lab.rerun.playback import Correction
from blamespan_tracer.alternatives.llm_judge.client import JudgeClient
from blamespan_tracer.alternatives.llm_judge.settings import JudgeSettings


class NoCorrection(Exception):
    """Nothing can be said in place of the step; the message says why."""


class CorrectionWriter(Protocol):
    """Says how a step is put right.

    Attributes:
        source: Whose word it is: `user`, `judge`, `twin` or `feedback`.
        cost: How many calls of models one correction takes.
    """

    source: str
    cost: int

    def write(self, step: int) -> Correction:
        """Write the correction of a step.

        Raises:
            NoCorrection: if there is none.
        """
        ...


class UserCorrections:
    """The user's own words."""

    source, cost = "user", 0

    def __init__(self, texts: Mapping[int, str]) -> None:
        self._texts = texts

    def write(self, step: int) -> Correction:
        """Return what the user says."""
        if step not in self._texts:
            raise NoCorrection("nobody says what it should be")
        return Correction(step, self._texts[step])


class JudgedCorrections:
    """Asks the endpoint of the `BLAMESPAN_JUDGE_*` variables for the message that should have stood there."""

    source, cost = "judge", 1

    def __init__(
        self, trace: MessageActionTrace, verdict: Attribution, settings: JudgeSettings, *, pause_s: float = 0.5
    ) -> None:
        self._trace = trace
        self._verdict = verdict
        self._settings = settings
        self._client = JudgeClient(settings, pause_s=pause_s)

    def write(self, step: int) -> Correction:
        """Ask for it."""
        from blamespan_tracer.alternatives.llm_judge.budget import Unanswered
        from blamespan_tracer.alternatives.llm_judge.correction import ask_correction

        finding = next((_format_finding(item) for item in self._verdict.evidence if item.index == step), "")
        try:
            message = ask_correction(self._client, self._settings, self._trace, step, finding)
        except Unanswered as error:
            raise NoCorrection(f"the judge gave no correction: {error}") from error
        return Correction(step, message)


class AskAgain:
    """Has the agent's own model asked again, told what feedback on the step says."""

    source, cost = "feedback", 1

    def __init__(self, trace: MessageActionTrace, verdict: Attribution) -> None:
        self._trace = trace
        self._verdict = verdict

    def write(self, step: int) -> Correction:
        """Write the feedback."""
        written = feedback_at(self._trace, self._verdict, step)
        return Correction(step, told=replace(written, quote=written.quote or self._trace.steps[step].content).text)


def correction_sources(
    texts: Mapping[int, str], trace: MessageActionTrace, verdict: Attribution
) -> list[CorrectionWriter]:
    """List who is asked what a step should say, the first that has an answer: the user; the judge where one is set.

    Args:
        texts: What the user says, by step.
        trace: The run.
        verdict: What is wrong with it.

    Raises:
        ConfigError: if the judge's variables are wrong.
        MissingExtra: if the judge is to be asked and httpx is not installed.
    """
    if not os.environ.get("BLAMESPAN_JUDGE_URL", "").strip():
        return [UserCorrections(texts), AskAgain(trace, verdict)]
    require("httpx", "collector")
    return [UserCorrections(texts), JudgedCorrections(trace, verdict, JudgeSettings.from_environment())]


@dataclass(frozen=True, slots=True)
class Repairs:
    """How a user puts steps right.

    Attributes:
        texts: What a step says instead, by step.
        given: Steps that must be put right for that to be what the agent would say, by step; a step without any stands
            for itself.
    """

    texts: Mapping[int, str]
    given: Mapping[int, tuple[int, ...]]


def read_corrections(
    given: Iterable[str], file: Path | None = None, trace_id: str = "", *, takes_given: bool = False
) -> Repairs:
    """Read the user's corrections: `STEP=TEXT`, `STEP=@FILE`, and a file with `{"step", "text"}` on each line.

    A line may say `"given": [1, 2]`. A line that `blamespan.inject()` wrote is undone: the step says what stood there
    before the fault; lines of other runs are passed over.

    Args:
        given: On the command line.
        file: Of lines.
        trace_id: Of the run.
        takes_given: Whether steps are put right together; alone, nothing else is given.

    Raises:
        ConfigError: if one is none, or a step has two.
    """
    texts: dict[int, str] = {}
    needed: dict[int, tuple[int, ...]] = {}
    for item in given:
        key, separator, text = item.partition("=")
        if not separator or not key.strip().isdecimal():
            raise ConfigError(
                f'expected a correction as STEP=TEXT, got {item[:80]!r}. Write it like "3=The total is 48."'
            )
        _add(texts, int(key), _text_in(Path(text[1:])) if text.startswith("@") else text)
    for number, line in enumerate(_text_in(file).splitlines() if file is not None else (), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            if "before" in record and record.get("trace_id") not in (None, trace_id):
                continue
            step, said = record["step"], record["before"] if "before" in record else record["text"]
            steps = record.get("given", [])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(
                f'{file}:{number}: expected {{"step": 3, "text": "..."}}, got {line[:80]!r} ({error}). Mend the line'
            ) from error
        if type(step) is not int or not isinstance(said, str):
            raise ConfigError(f"{file}:{number}: expected a whole number and a text, got {line[:80]!r}. Mend the line")
        if not isinstance(steps, list) or not all(type(one) is int and 0 <= one < step for one in steps):
            raise ConfigError(
                f'{file}:{number}: expected "given" to list steps before step {step}, got {steps!r}. Mend the line'
            )
        _add(texts, step, said)
        needed |= {step: tuple(steps)} if steps else {}
    if needed and not takes_given:
        raise ConfigError('expected corrections without "given", got some: single suspects are tried. Add --shares')
    return Repairs(texts, needed)


def _add(texts: dict[int, str], step: int, text: str) -> None:
    if step in texts:
        raise ConfigError(f"expected one correction for each step, got two for step {step}. Leave one out")
    texts[step] = text


def _text_in(path: Path) -> str:
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"expected a file of UTF-8 text, got {str(path)!r}: {error}. Save it as UTF-8") from error


def _format_finding(item: Evidence) -> str:
    against = "" if item.contradicts is None else f" It contradicts: {item.contradicts.quote}"
    return f"{item.quote}{against}"
