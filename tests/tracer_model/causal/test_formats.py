"""Answers are read strictly: what is not in the format is no answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blamespan_tracer.causal.prompts import (
    MODE_OF,
    NOBODY,
    PairsAnswer,
    StepAnswer,
    read_pairs,
    read_step,
    read_thought,
    write_pairs,
    write_step,
)


@given(st.integers(0, 999), st.integers(0, 9_999), st.sampled_from([None, *MODE_OF]), st.text("abc 12\n|", max_size=40))
def test_written_step_is_read_again(agent: int, step: int, mode: str | None, thought: str) -> None:
    """Writing and reading are inverse to each other, whatever is thought."""
    answer = StepAnswer(agent, step, mode)

    assert read_step(write_step(answer, thought)) == answer


def test_agentracers_own_form_is_read() -> None:
    """The published form has no mode and may have no line breaks."""
    assert read_step("<think>because</think><answer>2|7</answer>") == StepAnswer(2, 7)
    assert read_step(" <think>\n</think>\n\n<answer> 0 | 0 </answer>\n") == NOBODY


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "2|7",
        "<answer>2|7</answer>",
        "<think>a<answer>2|7</answer>",
        "<think>a</think><answer>planner|7</answer>",
        "<think>a</think><answer>2|-7</answer>",
        "<think>a</think><answer>2|7</answer><answer>1|1</answer>",
        "<think>a</think><think>b</think><answer>2|7</answer>",
        "<think>a</think><answer>2|7</answer><mode>FM-9.9</mode>",
        "<think>a</think><answer>2|7</answer> so it is agent 2",
        "<think>a</think>I say <answer>2|7</answer>",
        "<think>a</think><answer>\u0662|\u0667</answer>",
        "<think>a</think><answer>2|99999999999999999999</answer>",
    ],
)
def test_anything_else_is_no_answer(reply: str) -> None:
    """Nothing is guessed into an answer."""
    assert read_step(reply) is None


def test_pairs_are_read_line_by_line() -> None:
    """Repetitions stay: the reward counts them."""
    said = ((1, "FM-1.1"), (3, "FM-2.4"), (1, "FM-1.1"))

    assert read_pairs(write_pairs(said, "hm")) == PairsAnswer(said)
    assert read_pairs(write_pairs(())) == PairsAnswer(())


@pytest.mark.parametrize("line", ["1|X1", "1|FM-9.9", "one|FM-1.1", "1 FM-1.1", "1|FM-1.1 1|FM-1.2"])
def test_one_bad_line_spoils_the_answer(line: str) -> None:
    """Half an answer is none."""
    assert read_pairs(f"<think></think><answer>\n1|FM-1.1\n{line}\n</answer>") is None


def test_thought_is_what_stands_between_the_tags() -> None:
    """Only a closed thought is one."""
    assert read_thought("<think>so\n</think>\n<answer>1|2</answer>") == "so\n"
    assert read_thought("<think>so") is None
