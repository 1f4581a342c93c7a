"""What a judge costs: counted whatever comes of a question, bounded in all attempts, and what a cascade saves."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tracer_model.alternatives.llm_judge.serving import SUM, judge, served, verdict

GOOD = {"say": verdict()}


@pytest.mark.parametrize("trouble", [{"drop": True}, {**GOOD, "wait_s": 100}, {**GOOD, "pad": 1_100_000}])
def test_attempt_that_may_have_been_paid_for_counts(trouble: dict[str, Any]) -> None:
    """A server that had the whole question and gave no answer may charge for one: attempts end with the budget."""
    with served(trouble) as server:
        tracer = judge(server.url, timeout_s=1.0, budget_tokens=13_000, answer_tokens=4_000)
        [found] = tracer.attribute([SUM])
        n_asked = len(server.asked())

    assert n_asked == 2
    assert found.abstained == "the budget of 13,000 tokens is spent"
    assert "2 of them perhaps paid for, counted as estimated" in tracer.account
    assert "8,000 answered" in tracer.account


@pytest.mark.parametrize("trouble", [{"status": 429}, {"status": 500}, {"status": 400}, {"status": 401}])
def test_question_that_was_turned_down_is_free(trouble: dict[str, Any]) -> None:
    """Nobody charges for a refusal: the budget is there for the next question."""
    with served(trouble) as server:
        tracer = judge(server.url, budget_tokens=7_000)
        tracer.attribute([SUM])

    assert "0 tokens asked and 0 answered" in tracer.account


def test_question_that_never_got_there_is_free() -> None:
    """Where nobody listens, nothing was spent."""
    tracer = judge("http://127.0.0.1:9/v1", budget_tokens=7_000)
    tracer.attribute([SUM])

    assert "0 tokens asked and 0 answered" in tracer.account
