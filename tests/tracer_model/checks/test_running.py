"""Checks that are kept up step by step say what the same checks say of the whole run up to the step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

import pytest

from blamespan.importing.recorded import RecordedRun
from blamespan.trace import Agent, MessageActionTrace, Step, StepKind
from blamespan_integrations.importers.who_and_when import WhoAndWhenImporter
from blamespan_tracer.checks import running
from blamespan_tracer.checks.bundled import VERDICT_CHECKS
from blamespan_tracer.checks.check import Check, ExaminedRun
from blamespan_tracer.checks.running import RunningChecks
from blamespan_tracer.run_watcher import checks_of_steps

CHECKS = [check for check in VERDICT_CHECKS if RunningChecks.can_run(check)]
TASK = (
    "The fee of the north harbour is 48.5 crowns. The rent of the old mill is 1,240 crowns. "
    "What do both cost in 14 days?"
)
THINGS = ("fee of the north harbour", "rent of the old mill", "toll of the south gate", "price of a blue radio")
AGENTS = ("ada", "bob", "unit-3")


def make_run(seed: int) -> list[Step]:
    """Make a run in which agents state, sum up, call tools, object, and say again, rightly and wrongly."""
    rng = Random(seed)
    steps: list[Step] = []

    def add(kind: StepKind, agent: str, content: str) -> None:
        index = len(steps)
        inputs = (index - 1,) if kind == "tool_result" else ()
        given = "" if kind == "tool_result" else TASK
        steps.append(Step(index, f"{index + 1:016x}", agent, kind, content, inputs=inputs, input_text=given))

    for agent in AGENTS:
        add("message", agent, "I take part in this.")
    while len(steps) < 16:
        agent = rng.choice(AGENTS)
        thing = rng.choice(THINGS)
        if rng.random() < 0.25:
            add("tool_call", agent, f'look({{"what": "{thing}"{rng.choice(("}", "}", ",}"))})')
            add("tool_result", agent, f"The {thing} is {rng.randrange(100, 130)} crowns.")
            continue
        own = [step.content for step in steps if step.agent == agent and step.kind == "message"]
        if own and rng.random() < 0.2:
            add("message", agent, rng.choice(own))
            continue
        one, other = rng.randrange(100, 130), rng.randrange(40, 60)
        said = (
            f"The {thing} is {one} crowns.",
            f"{one} + {other} = {one + other + rng.choice((0, 0, 0, 7))}.",
            f"I think that {rng.choice(AGENTS)} is wrong about the {thing}.",
            f"Halden Works is the maker of the {thing}.",
            f"The maker of the {thing} is Norma.",
            f"So the {thing} would come to {rng.randrange(2_000, 9_999)} crowns in the long run, as far as I can see.",
        )
        add("message", agent, " ".join(rng.sample(said, 2)))
    return steps


def list_broken(steps: Iterable[Step], task: str) -> Iterator[tuple[tuple[str, str], ...]]:
    """Yield for each decision which checks it breaks and where, by what was read of the run so far."""
    checks = RunningChecks(CHECKS, task)
    for step in steps:
        if step.kind != "tool_result":
            yield tuple(sorted((result.check.name, result.quote) for result in checks.examine(step)))
        checks.take(step)


def list_broken_anew(steps: Iterable[Step], task: str) -> Iterator[tuple[tuple[str, str], ...]]:
    """Yield the same by reading the whole run anew at each step."""
    so_far: list[Step] = []
    for step in steps:
        so_far.append(step)
        agents = tuple(map(Agent, dict.fromkeys(one.agent for one in so_far)))
        run = ExaminedRun(MessageActionTrace("1" * 32, task, tuple(so_far), agents))
        if step.kind != "tool_result":
            yield tuple(
                sorted(
                    (check.name, result.quote)
                    for check in CHECKS
                    for result in dict.fromkeys(check.apply(run))
                    if result.outcome == "fail" and result.step == step.index
                )
            )


def test_running_checks_break_where_the_whole_run_breaks_them() -> None:
    """Every check, in many runs: the same steps with the same words; and each check breaks somewhere."""
    broken: Counter[str] = Counter()
    for seed in range(60):
        steps = make_run(seed)
        found = list(list_broken(steps, TASK))

        assert found == list(list_broken_anew(steps, TASK)), seed
        broken.update(name for row in found for name, _ in row)

    assert set(broken) == {check.name for check in CHECKS}


@pytest.mark.data
def test_running_checks_break_where_recorded_runs_break_them(recorded_runs: Path) -> None:
    """Likewise in runs of CaptainAgent and Magentic-One teams."""
    paths = sorted((recorded_runs / "who_and_when_dev").glob("*/*.json"))[::8]
    n_broken = 0
    for path in paths:
        for run in WhoAndWhenImporter().read(path):
            assert isinstance(run, RecordedRun)
            steps = _as_guarded(run.trace)
            found = list(list_broken(steps, run.trace.task))
            n_broken += sum(map(len, found))

            assert found == list(list_broken_anew(steps, run.trace.task)), path.name

    assert n_broken > 20


def _as_guarded(trace: MessageActionTrace) -> list[Step]:
    """Return the first steps of a run as a guard sees them: decisions, each given the task, and what tools answer."""
    steps: list[Step] = []
    for step in trace.steps[:40]:
        if step.kind == "tool_result" or trace.can_be_blamed(step):
            kind: StepKind = step.kind if step.kind in ("tool_result", "tool_call") else "message"
            given = "" if kind == "tool_result" else trace.task
            index = len(steps)
            steps.append(Step(index, f"{index + 1:016x}", step.agent, kind, step.content, input_text=given))
    return steps


def test_step_that_is_only_examined_is_not_taken_up() -> None:
    """What does not take place is no source of what comes next."""
    checks = RunningChecks([_find("number-has-source")], TASK)
    said = Step(0, "1" * 16, "ada", "message", "It costs 7719 crowns.", input_text=TASK)

    first = [result.outcome for result in checks.examine(said)]

    assert first == ["fail"]
    assert [result.outcome for result in checks.examine(said)] == ["fail"]
    checks.take(said)
    assert list(checks.examine(said)) == []


def test_memory_of_running_checks_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a run is, so much is kept and no more; what is forgotten has no source any more."""
    for name in ("_MOST_CLAIMS", "_MOST_SUBJECTS", "_MOST_WORDS", "_MOST_SHINGLES"):
        monkeypatch.setattr(running, name, 100)
    checks = RunningChecks([_find("number-has-source"), _find("step-new")], TASK)
    for number in range(300):
        word = f"{chr(97 + number % 26)}{number}x"
        text = f"The depot of {word} in {word.title()} holds {3 * number + 20_000} crates in its long yard."
        checks.take(Step(0, "1" * 16, "ada", "message", text, input_text=TASK))
        checks.take(Step(0, "1" * 16, "ada", "tool_result", f"{word} has {3 * number + 30_000} crates"))

    kept = [part for part in vars(checks).values() if isinstance(part, running._Recent)]
    assert len(kept) == 6
    assert [len(part) for part in kept] == [100] * 6
    forgotten = Step(0, "1" * 16, "bob", "message", "The depot of this town holds 20003 crates.", input_text=TASK)
    assert [result.outcome for result in checks.examine(forgotten)] == ["fail"]


def _find(name: str) -> Check:
    return checks_of_steps()[name]
