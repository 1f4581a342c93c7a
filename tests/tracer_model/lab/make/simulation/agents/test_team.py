"""Voices: wordy agents say the same as terse ones, at greater length, whatever becomes of the run."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import pytest

from blamespan_lab.make.simulation.agents.agent import DecisionContext
from blamespan_lab.make.simulation.agents.policy import InputMessage
from blamespan_lab.make.simulation.agents.protocols import decide
from blamespan_lab.make.simulation.agents.team import TERSE, WritingStyle, draw_style
from blamespan_lab.make.simulation.program import Program
from blamespan_lab.make.simulation.simulated_run import SimulatedPolicy, SimulatedRun
from blamespan_lab.make.simulation.tasks import FAMILIES

_WORDY = (WritingStyle(True, "plain"), WritingStyle(True, "bold"), WritingStyle(True, "headings"))


def _texts(run: SimulatedRun, voice: WritingStyle) -> dict[str, str]:
    """Give what each agent of a team says first on the question, in *voice*."""
    said = {}
    for name, policy in run.policies.items():
        assert isinstance(policy, SimulatedPolicy)
        context = DecisionContext(
            replace(policy.profile, style=voice), 0, (InputMessage("task", run.task.question),), ()
        )
        said[name] = decide(context).text
    return said


@pytest.mark.parametrize("family", sorted(FAMILIES))
@pytest.mark.parametrize("topology", ["chain", "relay", "debate", "selector"])
def test_a_wordy_agent_is_read_like_a_terse_one(family: str, topology: str) -> None:
    """The same facts and rules are read from both, and nothing more from the longer."""
    framework = "autogen" if topology == "selector" else "langgraph"
    for seed in range(3):
        run = Program(family, topology, framework, seed=seed).prepare()  # type: ignore[arg-type]
        terse, wordy = _texts(run, TERSE), _texts(run, _WORDY[seed % 3])
        read = run.task.lexicon.read

        assert {name: read(text) for name, text in wordy.items()} == {name: read(text) for name, text in terse.items()}
        assert all(len(wordy[name]) > len(terse[name]) + 100 for name in terse)


def test_a_third_of_the_agents_are_wordy() -> None:
    """Some teams have hardly any wordy agents, others many."""
    shares = [sum(draw_style(seed, f"agent {n}").is_wordy for n in range(10)) / 10 for seed in range(400)]

    assert 0.3 < sum(shares) / len(shares) < 0.4
    assert min(shares) == 0
    assert max(shares) >= 0.8


def test_wordy_agents_write_as_much_as_language_models_do() -> None:
    """Their usual message is some hundred words long."""
    lengths: list[int] = []
    for seed in range(12):
        program = Program("word_problems", "chain", "langgraph", seed=seed)
        wordy = {member.name for member in program.prepare().team if draw_style(seed, member.name).is_wordy}
        lengths += [len(d.reply.text) for d in program.run().decisions if d.agent in wordy and d.reply.text]

    assert 450 <= median(lengths) <= 900


def test_how_an_agent_writes_goes_by_seed_and_name_alone() -> None:
    """A run with mistakes has the voices of the same run without."""
    clean = Program("planning", "chain", "langgraph", seed=3).prepare()
    erring = Program("planning", "chain", "langgraph", seed=3, mistakes=0.5, care=0.1).prepare()

    voices = [
        {name: policy.profile.style for name, policy in run.policies.items() if isinstance(policy, SimulatedPolicy)}
        for run in (clean, erring)
    ]

    assert voices[0] == voices[1] == {name: draw_style(3, name) for name in voices[0]}
