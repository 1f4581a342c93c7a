"""A failure that comes again is known again; its sound twin is not."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blamespan.errors import ConfigError
from blamespan.trace import MessageActionTrace
from blamespan_tracer.schemata import ErrorSchema, Signature, SoundSteps, make_schema, match_schemata
from blamespan_tracer.schemata.findings import abstract_words, pairs_of, read_findings
from tests.tracer_model.teams import team


def hotel(rooms: str, stated: str, *, name: str = "Hotel Aurora", agent: str = "Researcher") -> MessageActionTrace:
    """A run in which a researcher asks a tool and states what it answered, or something else."""
    return team(
        ("Planner", f"{agent}, look up the {name}."),
        (agent, f"search(hotel='{name}')", "tool_call"),
        (agent, f"{name}, Bergen. It has {rooms} rooms. A night costs 84.50 euros.", "tool_result"),
        (agent, f"The {name} has {stated} rooms. A night costs 84.50 euros."),
        ("Writer", f"The answer: {stated} rooms."),
    )


FAILED = hotel("4238", "4236")
AGAIN = hotel("7719", "7716", name="Hotel Borealis", agent="Researcher2")
SOUND = hotel("7719", "7719", name="Hotel Borealis", agent="Researcher2")


def test_failure_is_known_again_with_other_values_and_its_sound_twin_is_not() -> None:
    """Numbers and names are others, the agent has another number: the copy error is the same; a right copy is none."""
    schema = make_schema(FAILED, 3, mode="blamespan:X3")

    matches = match_schemata(AGAIN, [schema])

    assert [(match.step, match.schema.name) for match in matches] == [(3, schema.name)]
    assert matches[0].span_id == AGAIN.steps[3].span_id
    assert matches[0].score >= schema.threshold
    assert match_schemata(SOUND, [schema]) == []


def test_signature_that_asks_for_less_is_met_in_full() -> None:
    """One that says nothing of the agent and the steps beside is as sure of a step that shows all it asks for."""
    schema = make_schema(FAILED, 3, mode="blamespan:X3")
    short = replace(schema, signature=replace(schema.signature, agent="", before="", after=""))

    assert [(match.step, match.score) for match in match_schemata(AGAIN, [short])] == [(3, 1.0)]
    assert match_schemata(SOUND, [short]) == []


def test_failure_is_known_by_its_words_where_nothing_contradicts_it() -> None:
    """Who skips a check says so in words; who makes it uses others."""
    skipping = "I skip the verification because the deadline is close; consider it done."
    failed = team(("Planner", "Check the sum."), ("Checker", skipping))
    again = team(("Planner", "Check the table."), ("Checker", f"Well then. {skipping}"), number=2)
    sound = team(("Planner", "Check the table."), ("Checker", "I have verified every row of it."))
    schema = make_schema(failed, 1, quote=skipping)

    assert [match.step for match in match_schemata(again, [schema])] == [1]
    assert match_schemata(sound, [schema]) == []


def test_what_sound_runs_show_as_well_is_refused() -> None:
    """Held against its own twin a schema has a threshold above it; one that a sound run looks like is not made."""
    told = make_schema(FAILED, 3, sound=SoundSteps([SOUND]))

    assert match_schemata(SOUND, [told]) == []
    assert match_schemata(AGAIN, [told])
    with pytest.raises(ConfigError, match="expected a step that shows what sound runs do not, got a sound step with"):
        make_schema(SOUND, 3, sound=SoundSteps([SOUND]))


def test_steps_of_another_kind_or_tool_do_not_match() -> None:
    """A signature that names a kind and a tool is of calls of that tool alone."""
    call = team(("Clerk", "refund(order=48273)", "tool_call"), task="Refund order 48213.")
    other = team(("Clerk", "cancel(order=48273)", "tool_call"), task="Refund order 48213.", number=2)
    again = team(("Clerk", "refund(order=90261)", "tool_call"), task="Refund order 90251.", number=3)
    schema = make_schema(call, 0)

    assert (schema.signature.kind, schema.signature.tool) == ("tool_call", "refund")
    assert [match.step for match in match_schemata(again, [schema])] == [0]
    assert match_schemata(other, [schema]) == []


def test_prefix_matches_as_soon_as_the_step_is_taken() -> None:
    """A guard sees what came so far: the step is known with it, before it nothing is, after it no other."""
    schema = make_schema(FAILED, 3)
    prefixes = [replace(AGAIN, steps=AGAIN.steps[:count]) for count in range(len(AGAIN.steps) + 1)]

    found = [[match.step for match in match_schemata(prefix, [schema])] for prefix in prefixes]

    assert found == [[], [], [], [], [3], [3]]
    assert match_schemata(AGAIN, [schema], first=4) == []


def test_nobody_but_an_agent_is_matched() -> None:
    """What a tool answers and a user says is not an agent's decision: no schema is made of it."""
    with pytest.raises(ConfigError, match="expected a step that an agent can be blamed for, got step 2 of 5"):
        make_schema(FAILED, 2)


def test_matches_are_the_same_in_any_order_of_schemata() -> None:
    """The surest comes first, whatever order the file has, and twice the same run gives twice the same."""
    schemata = [make_schema(FAILED, 3, name="a"), make_schema(FAILED, 4, name="b"), make_schema(FAILED, 3, name="c")]

    forth, back = match_schemata(AGAIN, schemata), match_schemata(AGAIN, schemata[::-1])

    assert forth == back == match_schemata(AGAIN, schemata)
    assert [match.score for match in forth] == sorted((match.score for match in forth), reverse=True)


def test_words_are_abstracted_to_their_form() -> None:
    """Values and agents become their form, so that another run's values read alike."""
    text = "Refund 1,250.50 euros for #W2378156 to Anna Olsen on 2026-05-12, says Planner."

    words = abstract_words(text, ["Planner"])

    assert " ".join(words) == "refund <number> euros for <identifier> to <name> on <date> says <agent>"
    assert abstract_words(" ".join(words)) == words


@given(st.text(max_size=300), st.text(max_size=40))
def test_any_text_can_be_abstracted_and_matched(text: str, name: str) -> None:
    """No text raises, and what was abstracted stays as it is when it is abstracted again."""
    words = abstract_words(text, [name])

    assert pairs_of(abstract_words(" ".join(words))) == pairs_of(words)


@pytest.mark.parametrize(
    "text", ["\ud800 4236", "a" * 100_000, "1 " * 30_000, "<number>" * 5_000, "\x00\u202e", "(" * 9_999]
)
def test_hostile_texts_are_matched_within_bounds(text: str) -> None:
    """No text of a run takes long or raises."""
    schema = make_schema(FAILED, 3)
    hostile = team(("Researcher", text), ("Researcher", text, "tool_call"), task=text)
    begin = time.process_time()

    matches = match_schemata(hostile, [schema])

    assert matches == []
    assert time.process_time() - begin < 10


def test_a_hundred_schemata_on_two_hundred_steps_take_milliseconds() -> None:
    """Holding a run that is read against all of them is cheap."""
    from blamespan_tracer.schemata.matching import match_findings

    messages = [
        (f"Agent{index % 9}", f"Step {index}: we found {index * 37} rooms in the hotel list.") for index in range(200)
    ]
    long = team(*messages)
    schemata = [
        ErrorSchema(
            f"s{index}",
            Signature("message", agent=f"agent{index % 9}", wording=f"word{index} of {index} other words here"),
        )
        for index in range(100)
    ]
    steps = read_findings(long)
    match_findings(steps, schemata)
    begin = time.process_time()
    for _ in range(5):
        match_findings(steps, schemata)

    assert (time.process_time() - begin) / 5 < 0.25


def test_checks_of_ones_own_are_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What breaks a check of the registry is known by it; what keeps it is not."""
    rules = tmp_path / "ours.toml"
    rules.write_text('[[check]]\nname = "no-swearing"\nwhen = { kind = ["message"] }\nforbid = { text = "damn" }\n')
    monkeypatch.setenv("BLAMESPAN_CHECKS", str(rules))
    failed = team(("Clerk", "Damn it: where is the damn form?"))
    finding = [finding for one in read_findings(failed) for finding in one.findings]

    assert "check no-swearing, fail" in finding
