"""Checks of a step say while a run goes on what they say of the whole run up to the step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

import pytest

from blamespan.guarding.decisions import ProposedStep
from blamespan.guarding.policy import parse_policy
from blamespan.importing.recorded import RecordedRun
from blamespan.trace import Agent, MessageActionTrace, Step, StepKind
from blamespan_integrations.importers.who_and_when import WhoAndWhenImporter
from blamespan_tracer.checks import reading
from blamespan_tracer.checks.bundled import CHECKS
from blamespan_tracer.checks.check import ExaminedRun
from blamespan_tracer.checks.messages import MESSAGE_CHECKS
from blamespan_tracer.checks.reading import StepReader
from blamespan_tracer.run_watcher import RunWatcher

STEP_CHECKS = [check for check in (*CHECKS, *MESSAGE_CHECKS) if check.find is not None]
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
    rules = [{"check": check.name, "action": "observe"} for check in STEP_CHECKS]
    watcher = RunWatcher(parse_policy({"findings": rules}).findings, task)
    for step in steps:
        tool, _, arguments = step.content.partition("(") if step.kind == "tool_call" else ("look", "", step.content)
        proposed = ProposedStep(step.kind, step.agent, arguments.removesuffix(")"), tool)  # type: ignore[arg-type]  # none else
        if step.kind != "tool_result":
            yield tuple(sorted((sign.name, sign.advice) for sign in watcher.examine(proposed)))
        watcher.commit(proposed)


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
                    (
                        check.name,
                        f"{check.title} {result.reason}".strip() + (f": {result.quote!r}" if result.quote else ""),
                    )
                    for check in STEP_CHECKS
                    for result in check.apply(run)
                    if result.outcome == "fail" and result.step == step.index
                )
            )


def test_running_checks_break_where_the_whole_run_breaks_them() -> None:
    """Every check, in many runs: the same steps with the same words; and each check breaks somewhere."""
    broken: Counter[str] = Counter()
    for seed in range(24):
        steps = make_run(seed)
        found = list(list_broken(steps, TASK))

        assert found == list(list_broken_anew(steps, TASK)), seed
        broken.update(name for row in found for name, _ in row)

    names = {check.name for check in CHECKS if check.find is not None}
    assert names - {"arguments-known"} <= set(broken)  # which is only left open


@pytest.mark.data
def test_running_checks_break_where_recorded_runs_break_them(recorded_runs: Path) -> None:
    """Likewise in runs of CaptainAgent and Magentic-One teams."""
    paths = sorted((recorded_runs / "who_and_when_dev").glob("*/*.json"))[::16]
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
    """Return the first steps of a run as a guard sees them: decisions, the first given the task, and results."""
    steps: list[Step] = []
    for step in trace.steps[:24]:
        if step.kind == "tool_result" or trace.can_be_blamed(step):
            kind: StepKind = step.kind if step.kind in ("tool_result", "tool_call") else "message"
            given = "" if steps else trace.task
            index = len(steps)
            steps.append(Step(index, f"{index + 1:016x}", step.agent, kind, step.content, input_text=given))
    return steps


def test_memory_of_a_long_run_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many words in a row are kept and no more; what is forgotten is new again."""
    monkeypatch.setattr(reading, "_MOST_SHINGLES", 100)
    reader = StepReader()
    texts = [f"The depot of {chr(97 + n % 26)}{n}x holds {3 * n + 20_000} crates in its long yard." for n in range(300)]
    for text in texts:
        reader.take(reader.read(say(text), ()), decides=True)

    assert reader.read(say(texts[-1]), ()).repeated == 1.0
    assert reader.read(say(texts[0]), ()).repeated < 0.6
    assert len(reader._shingles) == 100


def test_step_that_is_only_read_is_not_taken_up() -> None:
    """What does not take place is nothing that was said before."""
    reader, step = StepReader(), say("The depot of this town holds 20003 crates in its long yard.")

    assert [reader.read(step, ()).repeated for _ in range(2)] == [0.0, 0.0]
    reader.take(reader.read(step, ()), decides=True)
    assert reader.read(step, ()).repeated == 1.0


def say(text: str) -> Step:
    return Step(0, "1" * 16, "ada", "message", text)
