"""Small runs that the tests of tracers and checks build on; every word in them is made up here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from blamespan.trace import Agent, AgentRole, MessageActionTrace, Step, StepKind

Said = tuple[str, str] | tuple[str, str, StepKind]


def team(
    *said: Said,
    task: str = "Find the price of the red kettle in euros.",
    roles: Mapping[str, AgentRole] | None = None,
    recipients: Mapping[int, Sequence[str]] | None = None,
    inputs: Mapping[int, Sequence[int]] | None = None,
    given: Mapping[int, str] | None = None,
    silent: Sequence[str] = (),
    number: int = 1,
) -> MessageActionTrace:
    """A run of (agent, text) or (agent, text, kind); a tool's result answers the step before it, unless told.

    Args:
        said: The steps.
        task: What the run was asked.
        roles: Of who is no agent.
        recipients: By step.
        inputs: By step, the steps that it builds on.
        given: By step, the text that it was given.
        silent: Agents that say nothing.
        number: Of the run.
    """
    steps = []
    for index, each in enumerate(said):
        kind: StepKind = each[2] if len(each) == 3 else "message"
        default = (index - 1,) if kind == "tool_result" and index else ()
        steps.append(
            Step(
                index,
                f"{index + 1:016x}",
                each[0],
                kind,
                each[1],
                recipients=tuple((recipients or {}).get(index, ())),
                inputs=tuple((inputs or {}).get(index, default)),
                input_text=(given or {}).get(index, ""),
            )
        )
    names = dict.fromkeys([*(each[0] for each in said), *silent])
    agents = tuple(Agent(name, (roles or {}).get(name, "agent")) for name in names)
    return MessageActionTrace(f"{number:032x}", task, tuple(steps), agents)


def random_team(seed: int, n_steps: int = 8) -> MessageActionTrace:
    """Draw a run of three agents."""
    rng = Random(seed)  # a test's
    words = ["the", "total", "is", str(rng.randrange(99)), "so", "we", "check", "again", "error", "sum", "done"]
    return team(*[(rng.choice("ABC"), " ".join(rng.choices(words, k=rng.randint(1, 30)))) for _ in range(n_steps)])
