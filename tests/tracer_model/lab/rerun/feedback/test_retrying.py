"""Programs run again, told what went wrong."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest

import blamespan
from blamespan.errors import ConfigError
from blamespan.testing import SpanRecorder
from blamespan_lab.rerun.feedback.writing import BEGIN, END
from tests.tracer_model.alternatives.llm_judge.serving import Fixed

pytest.importorskip("autogen_agentchat")
pytest.importorskip("autogen_ext")
pytest.importorskip("langgraph")

from tests.tracer_model.lab.rerun.feedback import programs

TASK = "What is 12 times 4?"


class Blames:
    """Blames whoever has a name, with all there is."""

    identity = Fixed.identity

    def __init__(self, name: str) -> None:
        self._name = name

    def attribute(self, traces: Any) -> list[blamespan.Attribution]:
        return [
            blamespan.Attribution.of(
                trace,
                [float(step.agent == self._name and trace.can_be_blamed(step)) for step in trace.steps],
                failure_score=0.9,
                tracer=self.identity,
            )
            for trace in traces
        ]


def test_graph_is_run_again_with_feedback() -> None:
    """The first attempt fails, the verdict on it is told to the second behind the task, and that one succeeds."""
    programs.heard.clear()

    done = blamespan.retry(programs.graph, TASK, tracer=Blames("solver"))

    assert [attempt.succeeded for attempt in done.attempts] == [False, True]
    assert (done.succeeded, done.answer) == (True, "It is 12 times 4 = 48.")
    first, second = programs.heard
    assert first == TASK
    assert second.startswith(f"{TASK}\n\n{BEGIN}\n")
    assert 'Most likely to blame: "solver", at step ' in second
    assert second.endswith(END)
    assert (done.attempts[0].verdict is not None, done.attempts[1].verdict) == (True, None)


def test_feedback_on_somebody_else_does_not_help() -> None:
    """What is told depends on the verdict: the planner being blamed, the solver errs to the end of the budget."""
    programs.heard.clear()

    done = blamespan.retry(programs.graph, TASK, budget=3, tracer=Blames("planner"))

    assert [attempt.succeeded for attempt in done.attempts] == [False, False, False]
    assert len(programs.heard) == 3


def test_autogen_team_is_run_again() -> None:
    """A team is made anew for each attempt, recorded and attributed by the embedded tracer."""
    programs.made.clear()

    done = blamespan.retry(programs.team, TASK, check=programs.is_48)

    assert [attempt.succeeded for attempt in done.attempts] == [False, True]
    assert done.attempts[0].verdict is not None
    assert done.attempts[1].told.startswith(BEGIN)


@pytest.mark.parametrize(("check", "outcome"), [(lambda *_: False, "failed"), (None, "unknown")])
def test_tracer_hears_that_an_attempt_failed(check: Any, outcome: str) -> None:
    """It need not hold its tongue where the check has told; where nobody can tell, it is not told so."""
    heard: list[str] = []

    class Listens(Blames):
        def attribute(self, traces: Any) -> list[blamespan.Attribution]:
            heard.extend(trace.outcome for trace in traces)
            return super().attribute(traces)

    graph = programs.graph
    done = blamespan.retry(lambda: graph(), TASK, check=check, budget=2, tracer=Listens("solver"))

    assert heard == [outcome] * 2
    assert ("It failed." if check else "It seems to have failed.") in done.attempts[1].told


@pytest.mark.parametrize("said", ["no", "", None])
def test_check_must_give_true_or_false(said: object) -> None:
    """A word is not taken for a truth: "no" would be true."""
    with pytest.raises(ConfigError, match="must give true or false, got"):
        blamespan.retry(programs.silent, TASK, check=lambda *_: said)


def test_factory_may_be_named() -> None:
    """`module:factory`, with its attribute `check`."""
    done = blamespan.retry("tests.tracer_model.lab.rerun.feedback.programs:graph", TASK, tracer=Blames("solver"))

    assert done.succeeded is True


def test_budget_is_kept() -> None:
    """A program that never works is run as often as allowed, and what it raised is told of each attempt."""
    done = blamespan.retry(programs.breaks, TASK, budget=2, check=programs.is_48)

    assert [attempt.error[:12] for attempt in done.attempts] == ["RuntimeError", "RuntimeError"]
    assert (done.succeeded, done.attempts[-1].verdict) == (False, None)


def test_attempt_that_raises_is_told_of_and_another_follows() -> None:
    """What the program raises is a failed attempt like others, with its error; what comes after it may succeed."""
    calls: list[str] = []

    def once(task: str) -> str:
        calls.append(task)
        if len(calls) == 1:
            raise TimeoutError("the model did not answer")
        return "It is 48."

    done = blamespan.retry(lambda: once, TASK, budget=3, check=programs.is_48)

    assert [(attempt.succeeded, attempt.error) for attempt in done.attempts] == [
        (False, "TimeoutError: the model did not answer"),
        (True, ""),
    ]


@pytest.mark.parametrize("works", [0, 1])
@pytest.mark.parametrize("is_async", [False, True])
def test_factory_that_raises_ends_it_at_once(works: int, is_async: bool) -> None:
    """It has made no program, so there is no attempt to tell of and no use in another one; its error is the cause."""
    calls: list[int] = []

    def make() -> Any:
        calls.append(1)
        if len(calls) > works:
            raise KeyError("OPENAI_API_KEY")
        return lambda task: "It is 84."

    async def later() -> Any:
        return make()

    factory = later if is_async else make
    with pytest.raises(ConfigError, match=r"raised KeyError: 'OPENAI_API_KEY'\. Mend it and run again") as raised:
        blamespan.retry(factory, TASK, budget=5, check=programs.is_48)

    assert isinstance(raised.value.__cause__, KeyError)
    assert len(calls) == works + 1
    assert blamespan.retry(programs.silent, TASK).answer == TASK.upper()  # recording is off again


def test_without_a_check_it_ends_where_nobody_seems_at_fault() -> None:
    """Nobody can tell whether it is right, and the record blames nobody: there is nothing to tell."""
    done = blamespan.retry(programs.silent, TASK)

    assert [(attempt.answer, attempt.succeeded) for attempt in done.attempts] == [(TASK.upper(), None)]


def test_recording_is_as_it_was_afterwards() -> None:
    """Nothing stays switched on, even after an error."""
    with pytest.raises(ConfigError):
        blamespan.retry("tests.tracer_model.lab.rerun.feedback.programs:nothing_there", TASK)

    assert blamespan.retry(programs.silent, TASK).answer == TASK.upper()


def test_recording_that_is_on_is_not_taken_over() -> None:
    """Spans of a program that is recorded already go where they went; it is said what to do."""
    blamespan.instrument(tracer_provider=SpanRecorder().provider)
    try:
        with pytest.raises(ConfigError, match=r"Call blamespan.uninstrument\(\) first"):
            blamespan.retry(programs.graph, TASK)
    finally:
        blamespan.uninstrument()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"task": ""}, "task must be a text, got ''"),
        ({"task": 3}, "task must be a text, got 3"),
        ({"budget": 0}, "budget must be a whole number of attempts from 1 to 100, got 0"),
        ({"budget": True}, "got True"),
        ({"factory": 3}, "factory must be a function without arguments, or its name, got 3"),
        ({"factory": "nothing"}, "expected a program as module:function, got 'nothing'"),
        ({"tracer": "oracle"}, "got 'oracle'"),
    ],
)
def test_wrong_arguments_are_said(arguments: dict[str, object], said: str) -> None:
    """Before anything runs."""
    with pytest.raises(ConfigError, match=said.replace("(", r"\(")):
        blamespan.retry(**{"factory": programs.graph, "task": TASK, **arguments})  # type: ignore[arg-type]


def test_call_within_a_loop_is_refused() -> None:
    """It says how to call it from async code."""

    async def main() -> None:
        blamespan.retry(programs.graph, TASK)

    with pytest.raises(ConfigError, match=r"asyncio\.to_thread"):
        asyncio.run(main())


def test_importing_blamespan_stays_light() -> None:
    """`retry` is there without numpy or a framework being imported."""
    code = "import sys, blamespan; blamespan.retry; print({'numpy', 'httpx', 'langgraph'} & set(sys.modules))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.strip() == "set()"
