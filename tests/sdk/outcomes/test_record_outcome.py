"""`blamespan.record_outcome()` refuses what is none, says where nothing is recorded, and never breaks the program."""

from __future__ import annotations

import contextvars
from dataclasses import replace
from typing import Any

import pytest

from blamespan import conventions as words
from blamespan import emit, rebuild
from blamespan.errors import ConfigError
from blamespan.outcomes import record_outcome as run_outcome
from blamespan.outcomes.record_outcome import record_outcome
from tests.sdk.builders import small_run, span

KEY = words.RUN_OUTCOME


@pytest.fixture(autouse=True)
def no_earlier_runs() -> None:
    """Forget the runs of other tests of this process."""
    run_outcome._runs.forget()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("faild",), "expected the outcome 'succeeded' or 'failed', got 'faild'"),
        (("unknown",), "got 'unknown'. Not known"),
        ((True,), "got True"),
        (([],), r"got \[\]"),
        (("failed", 7), "expected a reason as text, got 7"),
        (("failed", None), "expected a reason as text, got None"),
    ],
)
def test_wrong_outcomes_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    """What is no outcome, or no text, is the caller's mistake, recorded or not."""
    with pytest.raises(ConfigError, match=message):
        record_outcome(*arguments)


@pytest.mark.parametrize("trace_id", ["", "12", "z" * 32, "1" * 33, 5, b"1" * 32])
def test_wrong_trace_ids_are_refused(trace_id: Any) -> None:
    """A trace id is 32 hex digits; the message says how to write one."""
    with pytest.raises(ConfigError, match=r"expected a trace id of 32 hex digits, got .*format"):
        record_outcome("failed", trace_id=trace_id)


@pytest.mark.parametrize(
    ("trace_id", "message"),
    [
        (None, "expected record_outcome() in or after a run, got no recorded run in this thread"),
        ("E" * 32, f"got '{'E' * 32}' with none: nothing is recorded"),
    ],
)
def test_outside_of_every_run_it_says_so(trace_id: str | None, message: str, caplog: pytest.LogCaptureFixture) -> None:
    """A program goes on that nobody records; the log says what was expected, unless tracing is switched off."""
    known = contextvars.Context().run(record_outcome, "failed", trace_id=trace_id)

    assert not known
    assert message in caplog.text


def test_tracing_switched_off_on_purpose_is_no_news(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With OTEL_SDK_DISABLED nothing is recorded, and nothing said of it."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")

    assert not contextvars.Context().run(record_outcome, "failed")
    assert caplog.text == ""


@pytest.mark.parametrize("said", ["succeeded", "failed"])
def test_outcome_below_the_run_replaces_the_one_on_it(said: str) -> None:
    """Said later it counts, however the run's own span ended; what is no outcome is none."""
    spans = emit(small_run())
    later = [
        replace(span(90 + at_s, words.RUN_OUTCOME_SPAN, at_s=at_s), parent_id=spans[0].span_id, attributes={KEY: value})
        for at_s, value in enumerate(("failed", said, "perhaps", ""))
    ]

    assert rebuild([*reversed(later), *spans]) == rebuild([*spans, *later])
    assert rebuild([*spans, *later]) == replace(small_run(), outcome=said)  # type: ignore[arg-type]  # text, for mypy


def test_outcome_of_a_team_within_is_not_the_runs() -> None:
    """A span that does something, as a team within the team, tells of itself."""
    spans = emit(small_run())
    team = {words.OPERATION: words.OPERATION_WORKFLOW, KEY: "succeeded"}
    within = replace(span(9, "invoke_workflow inner"), parent_id=spans[0].span_id, attributes=team)

    assert rebuild([*spans, within]).outcome == "failed"
