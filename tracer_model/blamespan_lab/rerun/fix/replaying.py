"""A program replayed for a test. It may have been mended since it was recorded: what it is told is not compared."""

from __future__ import annotations

import json
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opentelemetry.sdk.trace import TracerProvider

from blamespan.errors import ConfigError, NotReplayed
from blamespan.injecting.injection import Injection
from blamespan.intercepting.boundaries import Opportunity, Said, ToolCall
from blamespan.testing import ReplayedRun, SpanRecorder
from blamespan.tracers import Tracer, load_tracer
from blamespan_lab.rerun.fix.findings import judge_unaided
from blamespan_lab.rerun.playback import current_agent
from blamespan_lab.rerun.recorded_run import recording_quietly
from blamespan_lab.rerun.recorded_tools import RecordedTools
from blamespan_lab.rerun.script import RecordedResult, write_arguments
from blamespan_lab.rerun.stress.watching import longest_trace
from blamespan_lab.rerun.user_program import Ran, open_program


def replay(
    program: str | Callable[[], Any],
    task: str,
    recorded: Sequence[Mapping[str, Any]],
    *,
    agent: str,
    check: str | Callable[[str, str], Any] | None,
    timeout_s: float,
    tracer: str | Tracer,
) -> ReplayedRun:
    """Do what `blamespan.testing.replay` says; see there."""
    asked = load_tracer(tracer) if isinstance(tracer, str) else tracer
    replaying = _Replaying(program, check, task, *_read_recorded(recorded))
    replaying.run(timeout_s)
    trace = longest_trace(replaying.recorder.spans())
    left = len(replaying.models.answers[agent])
    if trace is None or left or agent not in {step.agent for step in trace.steps}:
        unused = f"{left} of its recorded answers were not asked for" if left else "it did nothing"
        raise NotReplayed(
            f"expected the program to come to where {agent!r} erred, got a run in which {unused}. "
            "It is another program than was recorded, or does other things before that step: "
            "make the case again from a run of today's"
        )
    verdict, findings = judge_unaided(trace, asked)
    return ReplayedRun(replaying.ran.answer, replaying.ran.succeeded, trace, verdict, findings)


class RecordedModels(Injection):
    """Answers in place of each agent's model, within a `with` block, until the agent's recorded answers are used up.

    Attributes:
        answers: Those that are left, by agent.
    """

    def __init__(self, answers: Sequence[tuple[str, Said]]) -> None:
        super().__init__((), everywhere=True)
        self.answers: defaultdict[str, deque[Said]] = defaultdict(deque)
        for agent, said in answers:
            self.answers[agent].append(said)
        self._turn = threading.Lock()

    def foretell(self, at: Opportunity) -> Said | None:
        """Answer in place of a model, as long as the agent has answers."""
        with self._turn:
            current = current_agent()
            waiting = self.answers.get(current if current in self.answers else at.agent)
            return waiting.popleft() if waiting else None


class _Replaying:
    """One run of the program, in a thread of its own: one that hangs is left behind."""

    def __init__(
        self,
        program: str | Callable[[], Any],
        check: str | Callable[[str, str], Any] | None,
        task: str,
        answers: Sequence[tuple[str, Said]],
        results: Sequence[RecordedResult],
    ) -> None:
        self._program, self._check, self._task = program, check, task
        self.models, self._tools = RecordedModels(answers), RecordedTools(results)
        self.recorder = SpanRecorder(TracerProvider(shutdown_on_exit=False))
        self.ran = Ran("", None)
        self._error: BaseException | None = None

    def run(self, timeout_s: float) -> None:
        with recording_quietly(self.recorder), self.models, self._tools:
            thread = threading.Thread(target=self._run, name="blamespan-replay", daemon=True)
            thread.start()
            thread.join(timeout_s)
        if thread.is_alive():
            raise NotReplayed(
                f"expected the program to end within {timeout_s:g} s, got one that goes on. "
                "Mend what it waits for, or give a longer timeout_s"
            )
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self.ran = self._ran()
        except BaseException as error:  # raised again where the caller waits
            self._error = error

    def _ran(self) -> Ran:
        made = open_program(self._program, self._check)
        self._tools.may_run = made.is_sandbox
        ran = made.unchecked().run(self._task)
        if lacks := self._tools.lacks:
            name, _, arguments = lacks.partition("(")
            left = sum(map(len, self.models.answers.values()))
            unused = f" {left} recorded answers were not asked for: is it another program?" if left else ""
            line = f'{{"tool": {json.dumps(name)}, "arguments": {arguments[:-1]}, "answers": "..."}}'
            raise NotReplayed(
                f"{lacks} was called, which was not recorded, and was not run.{unused} Let the factory say "
                f"`sandbox = True` if its tools may run in a test, or add what it answers to what is recorded: {line}"
            )
        if ran.error:
            raise NotReplayed(f"expected the program to end with an answer, got {ran.error}")
        return made.judged(ran.answer, self._task)


def _read_recorded(recorded: Sequence[Mapping[str, Any]]) -> tuple[list[tuple[str, Said]], list[RecordedResult]]:
    """Read answers of models and of tools.

    Raises:
        ConfigError: if a record is neither.
    """
    answers: list[tuple[str, Said]] = []
    results: list[RecordedResult] = []
    for number, record in enumerate(recorded):
        try:
            if "tool" in record:
                results.append(
                    RecordedResult(
                        "", record["tool"], record["arguments"], "", record["answers"], record.get("raises", ""), number
                    )
                )
                continue
            calls = [
                ToolCall(call["tool"], write_arguments(call["arguments"]), call.get("id", ""))
                for call in record.get("calls", ())
            ]
            answers.append((record["agent"], Said(record.get("says", ""), tuple(calls), record.get("name", ""))))
        except (KeyError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"expected what an agent says or a tool answers, got {record!r} ({error!r}). Write it like "
                '{"agent": "adder", "says": "42"} or {"tool": "stock", "arguments": {"of": "nuts"}, "answers": "40"}'
            ) from error
    return answers, results
