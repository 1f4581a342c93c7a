"""Agents that are turned: what they say instead, what a team withstands, and whom the blame finds."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from blamespan.analysis.summary.statistics import Share
from blamespan.errors import BlamespanError
from blamespan.intercepting.boundaries import Line, Opportunity, RunScope, Said, ToolCall
from blamespan_lab.rerun.stress.byzantine import (
    CONDUCTS,
    ByzantineAgents,
    ByzantineOrder,
    ByzantineTrial,
    Conduct,
    plan_byzantine,
    summarise_byzantine,
)
from blamespan_lab.rerun.stress.command import stress
from blamespan_lab.rerun.stress.table import print_byzantine
from blamespan_lab.rerun.stress.watching import SeenStep, WatchedRun

_HEARD = ("The owner is Ada Lovelace, not Alan Turing.", "It has 40 rooms.")


def _at(agent: str) -> Opportunity:
    return Opportunity("response", RunScope(), agent, 0, heard=_HEARD, others=("ann", "ben", "cem"))


def _says(agents: tuple[str, ...], conduct: Conduct, agent: str, text: str, seed: int = 3) -> str:
    said = ByzantineAgents(agents, conduct, seed).change(_at(agent), Said(text), lambda: None)
    assert isinstance(said, Said)
    return said.text


@pytest.mark.parametrize("conduct", CONDUCTS)
def test_honest_agents_and_calls_and_prompts_stay_as_they_are(conduct: Conduct) -> None:
    """Only what a turned agent says is written anew; what honest ones say is the same to the letter."""
    injection = ByzantineAgents(("ann",), conduct, 3)
    call, line = Said("", (ToolCall("look", '{"n": 40}'),)), (Line("user", "It has 40 rooms."),)

    assert injection.change(_at("ben"), Said("It has 40 rooms."), lambda: None) == Said("It has 40 rooms.")
    assert injection.change(_at("ann"), call, lambda: None) == call
    assert injection.change(replace(_at("ann"), mechanism="prompt"), line, lambda: None) == line
    assert injection.changed == 0
    assert injection.change(_at("ann"), Said("I count 41 rooms."), lambda: None) != Said("I count 41 rooms.")
    assert injection.changed == 1


def test_colluders_tell_one_lie_and_liars_each_their_own() -> None:
    """The same figure becomes the same wrong one with all colluders, and keeps being it; liars differ."""
    text = "Ada Lovelace has 40 rooms, 1,250 books and 7 cats."
    team = ("ann", "ben")
    colluding = {_says(team, "collude", name, text) for name in team}
    lying = {_says(team, "lie", name, text) for name in team}

    assert len(colluding) == 1
    assert len(lying) == 2
    assert text not in colluding | lying
    assert _says(team, "collude", "ann", text) in colluding
    assert all("Alan Turing" in lie for lie in colluding)


def test_accusers_name_an_honest_agent_and_nobody_where_there_is_none() -> None:
    """A lie with an accusation never accuses another that is turned."""
    told = _says(("ann", "ben"), "accuse", "ann", "It has 40 rooms.")
    alone = _says(("ann", "ben", "cem"), "accuse", "ann", "It has 40 rooms.")

    assert "What cem says is wrong" in told
    assert "is wrong" not in alone


def test_noise_is_what_was_heard_last() -> None:
    """It adds nothing; with nothing heard there is nothing to repeat."""
    silent = ByzantineAgents(("ann",), "noise", 3).change(replace(_at("ann"), heard=()), Said("Hello."), lambda: None)

    assert _says(("ann",), "noise", "ann", "I count 41 rooms.") == "It has 40 rooms."
    assert silent == Said("Hello.")


def _clean(*agents: str) -> WatchedRun:
    steps = tuple(SeenStep(index, agent, "message", "x", (), True) for index, agent in enumerate(agents))
    return WatchedRun("42", True, agents=tuple(dict.fromkeys(agents)), steps=steps)


def test_last_to_speak_is_never_turned_and_small_teams_give_less() -> None:
    """Who gives the answer stays honest; of two candidates no three are turned."""
    plan = list(plan_byzantine({0: _clean("ann", "ben", "cem")}, 3, 2, 0, "lexical"))

    assert {len(order.agents) for order in plan} == {1, 2}
    assert not any("cem" in order.agents for order in plan)
    assert {order.conduct for order in plan} == set(CONDUCTS)
    assert plan == list(plan_byzantine({0: _clean("ann", "ben", "cem")}, 3, 2, 0, "lexical"))


def _trial(k: int, *, succeeded: bool, blamed: tuple[str, ...] = (), conduct: Conduct = "lie") -> ByzantineTrial:
    order = ByzantineOrder(0, ("ann", "ben")[:k], conduct, 0, "lexical", 4)
    return ByzantineTrial(order, succeeded, blamed)


def test_largest_k_and_blame_are_counted_beside_chance() -> None:
    """A team withstands one if it succeeds in half of the runs; blame is counted in those that fail."""
    trials = [
        _trial(1, succeeded=True),
        _trial(1, succeeded=False, blamed=("ann", "cem")),
        _trial(2, succeeded=False, blamed=("cem", "ben", "ann")),
        _trial(2, succeeded=False, blamed=("ann", "ben")),
        _trial(2, succeeded=True, conduct="noise"),
        replace(_trial(1, succeeded=False), missed="none of the turned agents said anything"),
    ]
    study = summarise_byzantine("team", 1, trials)
    lie = {cell.k: cell for cell in study.cells if cell.conduct == "lie"}

    assert (study.largest_withstood("lie"), study.largest_withstood("noise")) == (1, 0)
    assert (lie[1].withstood, lie[1].blamed, lie[1].chance) == (Share(1, 2), Share(1, 1), 0.25)
    assert (lie[2].withstood, lie[2].blamed, lie[2].chance) == (Share(0, 2), Share(3, 4), 0.5)
    assert study.missed == 1


def test_team_in_which_nobody_can_be_turned_is_named() -> None:
    """Without a run that says anything there is no study."""
    with pytest.raises(BlamespanError, match="expected runs of 'team' with turned agents, got none"):
        summarise_byzantine("team", 1, [])


@pytest.mark.slow
def test_command_studies_a_bundled_team(tmp_path: Path) -> None:
    """A loop of simulated agents: every conduct is tried, and JSON has counts and chance."""
    recipe = tmp_path / "small.toml"
    recipe.write_text("runs = 1\nbudget = 8\ntasks = 6\n")
    result = CliRunner().invoke(
        stress,
        [
            *("--bundled", "round_robin", "--framework", "langgraph", "--byzantine", "1"),
            *("--recipe", str(recipe), "--processes", "1", "--tracer", "lexical", "--json"),
        ],
    )

    assert result.exception is None, result.exception
    [study] = json.loads(result.stdout)
    assert set(study["largest_withstood"]) == set(CONDUCTS)
    assert sum(cell["withstood"]["n"] for cell in study["cells"]) + study["missed"] == 8
    assert study["left_out"] >= 0


def test_page_is_not_written_of_turned_agents(tmp_path: object) -> None:
    """What cannot be had is refused before anything runs."""
    result = CliRunner().invoke(stress, ["--bundled", "relay", "--byzantine", "1", "--out", f"{tmp_path}/x.html"])

    assert "--byzantine writes no page" in str(result.exception)


def test_table_shows_counts_beside_chance_and_the_largest_k() -> None:
    """A row for each conduct and number of agents, without markup of names; rows without a run are left out."""
    study = summarise_byzantine(
        "[bold]team", 1, [_trial(1, succeeded=True), _trial(1, succeeded=False, blamed=("ann",))]
    )
    console = Console(file=StringIO(), width=200)
    print_byzantine(console, [replace(study, missed=2)])
    assert isinstance(console.file, StringIO)
    text = console.file.getvalue()

    assert "50 (9-91) of 2" in text
    assert "100 (21-100) of 1" in text
    assert "[bold]team: 2 runs without an answer" in text
    assert "collude" not in text
