"""A failure written down as a test: a file for pytest, and the recorded texts beside it where they are many."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from pprint import pformat
from textwrap import indent
from typing import Any

from blamespan.analysis.showing.legible import printable
from blamespan.errors import ConfigError
from blamespan.testing import Finding, ReplayedRun, replay
from blamespan_lab.rerun.feedback.writing import quoted
from blamespan_lab.rerun.playback import target_of
from blamespan_lab.rerun.script import RecordedAnswer, RecordedResult, Script, read_arguments

_WIDTH = 110
_MOST_LINES = 24
"""Of recorded texts in the file of the test, where there may be another beside it."""
_MOST_NAME = 40
_ATTEMPTS = 5
"""How often the test of a program that does otherwise each time runs it."""


@dataclass(frozen=True, slots=True)
class Case:
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


def write_case(case: Case, out: Path | None, command: str, *, is_checked: bool, is_repeatable: bool) -> str:
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
    listed = [indent(pformat(record, width=_WIDTH, sort_dicts=False), " " * 4) + "," for record in records]
    is_apart = out is not None and sum(record.count("\n") + 1 for record in listed) > _MOST_LINES
    text = "\n".join(_lines(case, listed, command, is_checked, is_apart=is_apart, is_repeatable=is_repeatable)) + "\n"
    if out is not None:
        _write_new(out, text)
        if is_apart:
            _write_new(out.with_suffix(".json"), json.dumps(records, indent=1) + "\n")
    return text


def _lines(
    case: Case, listed: Sequence[str], command: str, is_checked: bool, *, is_apart: bool, is_repeatable: bool
) -> Iterator[str]:
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
        yield ""
    yield "from blamespan.testing import replay"
    yield ""
    yield from f"TASK = {pformat(case.task, width=_WIDTH)}".split("\n")
    if is_apart:
        yield 'RECORDED = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))'
    else:
        yield "RECORDED = ["
        yield from listed
        yield "]"
    yield ""
    yield ""
    if not is_repeatable:
        yield f'@pytest.mark.parametrize("attempt", range({_ATTEMPTS}))  # its models answer otherwise each time'
    yield f"def test_{_name(case)}({'' if is_repeatable else 'attempt'}):"
    check = f", check={case.check!r}" if case.check is not None else ""
    tracer = f", tracer={case.tracer!r}" if case.tracer != "auto" else ""
    timeout = f", timeout_s={case.timeout_s:g}"
    yield f"    run = replay({case.program!r}, TASK, RECORDED, agent={case.agent!r}{check}{timeout}{tracer})"
    yield ""
    if case.finding is not None:
        yield f"    assert run.findings(agent={case.agent!r}, check={case.finding.check!r}) == []"
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


def _in_doc(text: str) -> str:
    """Write text so that it can stand in a docstring."""
    plain = printable(text).encode("utf-8", "backslashreplace").decode()
    return plain.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')


def _name(case: Case) -> str:
    """Name the test: letters, digits and underscores of the agent, the step, and the run."""
    agent, run = (
        re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_") for text in (case.agent, case.script.trace.trace_id)
    )
    return "_".join(part for part in (agent[:_MOST_NAME] or "agent", f"step_{case.step}", run[:8]) if part)


def _write_new(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise ConfigError(f"expected a new file, got {str(path)!r}, which is there. Choose another name") from error
    except OSError as error:
        raise ConfigError(
            f"expected a file that can be written, got {str(path)!r}: {error}. Check the folder"
        ) from error
