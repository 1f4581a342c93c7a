"""A failure written down as a test: a file for pytest, and the recorded texts beside it where they are many."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blamespan.analysis.showing.legible import printable
from blamespan.errors import ConfigError
from blamespan.testing import Finding, ReplayedRun, replay
from blamespan.tracers import DEFAULT_TRACER
from blamespan_lab.rerun.feedback.writing import quoted
from blamespan_lab.rerun.playback import target_of
from blamespan_lab.rerun.script import RecordedAnswer, RecordedResult, Script, read_arguments

_WIDTH = 88
"""Columns that a formatter of Python fills at least."""
_MOST_LINES = 24
"""Of recorded texts in the file of the test, where there may be another beside it."""
_MOST_NAME = 40
_FROM_FILE = 'RECORDED = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))'
_ATTEMPTS = 5
"""How often the test of a program that does otherwise each time runs it."""


@dataclass(frozen=True, slots=True)
class FailureCase:
    """A failure to be kept as a test.

    Attributes:
        script: The recorded run.
        step: The blamed step.
        finding: What is found wrong there; None where only the check tells.
        program: `module:factory`.
        check: `module:function`; None where the factory has one, or nobody has.
        task: What the program is asked.
        timeout_s: For one run.
        tracer: Who finds what is wrong.
    """

    script: Script
    step: int
    finding: Finding | None
    program: str
    check: str | None
    task: str
    timeout_s: float
    tracer: str

    @property
    def agent(self) -> str:
        """Return whose step it is."""
        return self.script.trace.steps[self.step].agent

    def records(self) -> list[dict[str, Any]]:
        """List what models answered before the step, and all that tools answered.

        Raises:
            ConfigError: if contents were withheld or cut.
        """
        try:
            target = target_of(self.script, self.step)
        except ConfigError:  # its program made it, out of steps before
            target = None
        end = min(self.step, target.step) if isinstance(target, RecordedAnswer) else self.step
        self.script.check(end - 1)
        answers = [answer for answer in self.script.answers if answer.step < end]
        results = [result for result in self.script.results if not result.lost]
        parts: list[RecordedAnswer | RecordedResult] = [*answers, *results]
        return [_record(part) for part in sorted(parts, key=lambda part: part.step)]

    def run(self) -> ReplayedRun:
        """Run the program as the test does.

        Raises:
            BlamespanError: as `blamespan.testing.replay`.
        """
        return replay(
            self.program,
            self.task,
            self.records(),
            agent=self.agent,
            check=self.check,
            timeout_s=self.timeout_s,
            tracer=self.tracer,
        )

    def is_failed_by(self, run: ReplayedRun) -> bool:
        """Return whether the test fails with *run*."""
        shows = self.finding is not None and bool(run.findings(self.agent, self.finding.check))
        return shows or run.is_right is False


def write_case(case: FailureCase, out: Path | None, command: str, *, is_checked: bool, is_repeatable: bool) -> str:
    """Write the test, and return its text.

    Args:
        case: What it tests.
        out: Where to; a file of the same name with `.json` comes beside it where the recorded texts are many. Without
            it nothing is written, and all stands in the text.
        command: What made it.
        is_checked: Whether a check tells whether the answer is right.
        is_repeatable: Whether the program does the same each time.

    Raises:
        ConfigError: if the file is there already, or cannot be written.
    """
    records = case.records()
    listed = [line for record in records for line in _listed(record)]
    is_apart = out is not None and sum(1 + len(line) // _WIDTH for line in listed) > _MOST_LINES
    lines = [*_head(case, command, is_apart=is_apart, is_repeatable=is_repeatable), f"TASK = {_literal(case.task)}"]
    lines += [_FROM_FILE] if is_apart else ["RECORDED = [", *listed, "]"]
    text = "\n".join([*lines, "", "", *_test(case, is_checked=is_checked, is_repeatable=is_repeatable)]) + "\n"
    if out is not None:
        apart = {out.with_suffix(".json"): json.dumps(records, indent=1) + "\n"} if is_apart else {}
        _write_new({**apart, out: text})
    return text


def _head(case: FailureCase, command: str, *, is_apart: bool, is_repeatable: bool) -> Iterator[str]:
    said = quoted(case.finding.quote if case.finding else case.script.trace.steps[case.step].content, 80)
    yield f'"""What made a run fail must not come again: {_in_doc(quoted(case.agent, 40))}, step {case.step}.'
    yield ""
    yield f"It said: {_in_doc(said)}"
    if case.finding is not None:
        reason = f": {case.finding.reason}" if case.finding.reason else ""
        yield f"Finding: {_in_doc((case.finding.check + reason)[:100])}"
    yield ""
    yield "Before that step models answer as recorded; from the step on the program asks its own."
    yield "Tools answer as recorded. Another call runs only where the factory says `sandbox = True`."
    yield f"Run {_in_doc(case.script.trace.trace_id[:40])}, by: {_in_doc(command[:90])}"
    yield '"""'
    yield ""
    if is_apart:
        yield "import json"
        yield "from pathlib import Path"
        yield ""
    if not is_repeatable:
        yield "import pytest"
    yield "from blamespan.testing import replay"
    yield ""


def _test(case: FailureCase, *, is_checked: bool, is_repeatable: bool) -> Iterator[str]:
    if not is_repeatable:
        yield f'@pytest.mark.parametrize("attempt", range({_ATTEMPTS}))  # its models answer otherwise each time'
    yield f"def test_{_name(case)}({'' if is_repeatable else 'attempt'}):"
    yield "    run = replay("
    for argument in (_literal(case.program), "TASK", "RECORDED", f"agent={_literal(case.agent)}"):
        yield f"        {argument},"
    if case.check is not None:
        yield f"        check={_literal(case.check)},"
    yield f"        timeout_s={case.timeout_s:g},"
    if case.tracer != DEFAULT_TRACER:
        yield f"        tracer={_literal(case.tracer)},"
    yield "    )"
    yield ""
    if case.finding is not None:
        sought = f"agent={_literal(case.agent)}, check={_literal(case.finding.check)}"
        yield f"    assert run.findings({sought}) == []"
    if is_checked:
        yield "    assert run.is_right, run.answer"


def _record(part: RecordedAnswer | RecordedResult) -> dict[str, Any]:
    if not isinstance(part, RecordedAnswer):
        raised = {"raises": part.error.rpartition(".")[2]} if part.error else {}
        return {"tool": part.tool, "arguments": part.arguments, "answers": part.text, **raised}
    said = part.said
    calls = [{"tool": call.name, "arguments": read_arguments(call.arguments), "id": call.id} for call in said.calls]
    return {
        "agent": part.agent,
        **({"says": said.text} if said.text or not calls else {}),
        **({"calls": calls} if calls else {}),
        **({"name": said.name} if said.name else {}),
    }


def _listed(record: dict[str, Any]) -> Iterator[str]:
    """Write a record as Python, on one line where it fits."""
    whole = f"    {_literal(record)},"
    if len(whole) <= _WIDTH:
        yield whole
        return
    yield "    {"
    for key, value in record.items():
        yield f"        {_literal(key)}: {_literal(value)},"
    yield "    },"


def _literal(value: object) -> str:
    """Write a value of JSON as Python, its texts in double quotes, what cannot be seen in them escaped."""
    if isinstance(value, str):
        quoted_text = json.dumps(value, ensure_ascii=False)
        return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in quoted_text)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_literal(key)}: {_literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_literal, value)) + "]"
    return repr(value)


def _in_doc(text: str) -> str:
    """Write text so that it can stand in a docstring."""
    plain = printable(text).encode("utf-8", "backslashreplace").decode()
    return plain.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')


def _name(case: FailureCase) -> str:
    """Name the test: letters, digits and underscores of the agent, the step, and the run."""
    agent, run = (
        re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_") for text in (case.agent, case.script.trace.trace_id)
    )
    return "_".join(part for part in (agent[:_MOST_NAME] or "agent", f"step_{case.step}", run[:8]) if part)


def _write_new(texts: Mapping[Path, str]) -> None:
    for path in texts:
        if path.exists():
            raise ConfigError(f"expected a new file, got {str(path)!r}, which is there. Choose another name")
    for path, text in texts.items():
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"expected a file that can be written, got {str(path)!r}: {error}") from error
