"""What counts as an answer, and what does not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from blamespan.taxonomy import mode
from blamespan_tracer.alternatives.llm_judge.answers import chance, fields, modes, suspects, truth
from blamespan_tracer.alternatives.llm_judge.completions import TokenUsage, Unreadable, read_completion, read_usage
from blamespan_tracer.alternatives.llm_judge.prompts import offered_modes
from blamespan_tracer.alternatives.rendering import RunDocument
from tests.tracer_model.alternatives.llm_judge.serving import SUM, run, verdict

OFFERED = offered_modes("mast")


def named(answer: dict[str, Any]) -> list[int]:
    return [each.step for each in suspects(answer, RunDocument.of(SUM, 32_000), OFFERED)]


@pytest.mark.parametrize("step", [2, "2", " 2 ", "step 2", "Step 2.", "#2", 2.0, "٢"])
def test_number_that_is_plain_is_taken(step: object) -> None:
    """A number as text, or in another script, is one if it can be no other."""
    assert named(verdict(step)) == [2]


@pytest.mark.parametrize(
    "step", [None, True, "two", "2 or 3", "2-3", 2.5, [2], {"step": 2}, "", -2, 99, 10**30, "zwei"]
)
def test_number_that_is_not_plain_makes_the_answer_unreadable(step: object) -> None:
    """A word, two numbers, none, or a step that is not there is no answer, and nothing is put in its place."""
    with pytest.raises(Unreadable):
        named(verdict(step))


@pytest.mark.parametrize("agent", ["solver", "Solver", " SOLVER ", "solver (gpt-4)", None])
def test_agent_is_known_by_its_name(agent: object) -> None:
    """Case and what stands in brackets do not matter; the step alone is enough."""
    assert named(verdict(2, agent)) == [2]


@pytest.mark.parametrize("agent", ["checker", "the calculator", "", 3, ["solver"], "Löser"])
def test_agent_that_did_not_take_the_step_makes_the_answer_unreadable(agent: object) -> None:
    """An invented agent, or another than the step's, contradicts the answer's own step."""
    with pytest.raises(Unreadable, match="for step 2, which is another agent's"):
        named(verdict(2, agent))


def test_name_that_means_two_agents_is_no_name() -> None:
    """Where names differ by case alone, only the exact one counts."""
    case = RunDocument.of(run([("Solver", "a"), ("solver", "b")]), 32_000)

    assert suspects(verdict(1, "solver"), case, OFFERED)[0].step == 1
    with pytest.raises(Unreadable):
        suspects(verdict(1, "SOLVER"), case, OFFERED)


def test_user_cannot_be_blamed() -> None:
    """Who asked decided nothing."""
    with pytest.raises(Unreadable, match="step 0, which is no agent's decision"):
        named(verdict(0, "user"))


def test_one_bad_suspect_spoils_the_answer() -> None:
    """A list in which one step is invented is not read in part."""
    answer = verdict()
    answer["suspects"] += verdict(77)["suspects"]

    with pytest.raises(Unreadable, match="names step 77, which it was not shown"):
        named(answer)


@pytest.mark.parametrize(
    ("said", "value"), [(0.8, 0.8), (1, 1.0), ("0.8", 0.8), ("0,8", 0.8), ("80 %", 0.8), ("85%", 0.85)]
)
def test_chance_is_a_number_up_to_one(said: object, value: float) -> None:
    """A percentage counts as one only where it says so."""
    assert chance({"confidence": said}) == pytest.approx(value)


@pytest.mark.parametrize("said", [80, "80", -0.1, 1.5, "high", None, True, "120 %", "0.8.1", float("inf")])
def test_chance_that_is_none_makes_the_answer_unreadable(said: object) -> None:
    """Nothing is guessed of a number that cannot be a chance."""
    with pytest.raises(Unreadable):
        chance({"confidence": said})


@pytest.mark.parametrize("said", ["ja", "nein", 1, None, "maybe", []])
def test_truth_is_true_or_false(said: object) -> None:
    """Neither numbers nor other languages stand for them."""
    with pytest.raises(Unreadable):
        truth({"failed": said}, "failed")


@pytest.mark.parametrize(
    ("said", "codes"),
    [
        (["mast:FM-2.6"], ["mast:FM-2.6"]),
        (["FM-2.6", "x3", "X3"], ["mast:FM-2.6", "blamespan:X3"]),
        ("Premature termination", ["mast:FM-3.1"]),
        (["Blind Trust"], ["mast:FM-3.2"]),
        (["aegis:FM-2.1"], ["aegis:FM-2.1"]),
        (["FM-9.9", "Erreur", 3, None, "N0", "blamespan:N0"], []),
    ],
)
def test_modes_are_those_of_the_taxonomies(said: object, codes: list[str]) -> None:
    """By code, by name, or by what MAS-FIRE calls them; anything else is left out, not guessed."""
    assert list(modes({"modes": said}, OFFERED)) == [mode(code) for code in codes]


@pytest.mark.parametrize(
    "text",
    [
        *("", "It was the solver.", "[]", "null", "42", '{"a": 1} {"a": 2}', '{"a": 1', '{"a": 1, "a": 2}'),
        *('{"a": NaN}', 'Here you are: {"a": 1}', '```json\n{"a": 1}\n``` Hope this helps!', "[" * 5_000),
        *('<think>{"a": 2}', '<think>{"a": 1}</think>', '{"a": 1}</think>', '{"b": "</think>{\\"a\\": 1}"} Well.'),
    ],
)
def test_answer_is_one_json_object(text: str) -> None:
    """Nothing is fished out of prose: what is quoted there may be the run's own words."""
    with pytest.raises(Unreadable):
        fields(text)


@pytest.mark.parametrize(
    "text",
    [
        *('{"a": 1}', '```json\n{"a": 1}\n```', '```\n{"a": 1}```', '```JSON {"a": 1} ```'),
        *('<think>Is it {"a": 2}?</think>\n{"a": 1}', 'Is it {"a": 2}?\n</think>\n```json\n{"a": 1}\n```'),
    ],
)
def test_thoughts_and_a_fence_are_taken_off(text: str) -> None:
    """What models put around an answer is not part of it."""
    assert fields(text) == {"a": 1}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"<html>", "no JSON"),
        (b"[]", "no chat completion"),
        (b"{}", "empty"),
        (b'{"choices": "x"}', "no chat completion"),
        (b'{"choices": [{"message": {"content": 5}}]}', "no chat completion"),
        (b'{"choices": [{"message": {"content": [{"type": "text"}]}}]}', "no chat completion"),
        (b'{"choices": [{"message": {"content": ["{}"]}}]}', "no chat completion"),
        (b'{"choices": [{"message": {"content": null, "tool_calls": [{"id": "1"}]}}]}', "calls a tool"),
        (b'{"error": {"message": "Overloaded", "code": 502}}', "the server sent an error"),
        (b'{"choices": [{"message": {"content": "", "refusal": "No."}}]}', "declined"),
        (b'{"choices": [{"message": {"content": "{"}, "finish_reason": "length"}]}', "cut off"),
    ],
)
def test_body_that_is_no_answer_says_why(body: bytes, reason: str) -> None:
    """Whatever a server sends, it is an answer or a reason."""
    with pytest.raises(Unreadable, match=reason):
        read_completion(body)


@pytest.mark.parametrize("said", [None, {}, {"prompt_tokens": "5"}, {"prompt_tokens": -1, "completion_tokens": 2}, []])
def test_usage_is_the_servers_or_none(said: object) -> None:
    """Figures that cannot be right are as good as none."""
    assert read_usage(json.dumps({"choices": [], "usage": said}).encode()) is None
    assert read_usage(b'{"usage": {"prompt_tokens": 7, "completion_tokens": 2}}') == TokenUsage(7, 2)


def test_content_in_parts_is_their_text() -> None:
    """Some servers give a list: what is no text in it, as a thought, is none of the answer."""
    texts = [{"type": "text", "text": text} for text in ('{"a"', ": 1}")]
    parts = [{"type": "thinking", "thinking": "So 2."}, *texts]
    body = json.dumps({"choices": [{"message": {"content": parts}, "finish_reason": "stop"}]}).encode()

    assert read_completion(body) == '{"a": 1}'
