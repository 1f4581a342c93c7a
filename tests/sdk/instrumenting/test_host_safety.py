"""The shield keeps our errors from the user's program, and only ours."""

from __future__ import annotations

import asyncio
import logging

import pytest

from blamespan.host_safety import shield_host


@pytest.fixture(autouse=True)
def lenient() -> None:
    shield_host.strict = False


def test_error_inside_is_logged_and_goes_no_further(caplog: pytest.LogCaptureFixture) -> None:
    """The user's program goes on; the log says what is missing from its trace."""
    with shield_host("record a message (test 1)"):
        raise ValueError("boom")

    assert "could not record a message (test 1): ValueError: boom. Your program goes on" in caplog.text


def test_repeated_error_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A fault in a loop does not flood the user's log."""
    for _ in range(3):
        with shield_host("record a message (test 2)"):
            raise ValueError("boom")

    assert [r.levelno for r in caplog.records if r.levelno >= logging.WARNING] == [logging.WARNING]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit])
def test_what_ends_a_program_passes(error: type[BaseException]) -> None:
    """Interrupts and cancellation are the user's, never ours to swallow."""
    with pytest.raises(error), shield_host("record"):
        raise error


def test_strict_guard_lets_errors_through() -> None:
    """Our own tests see our own errors."""
    shield_host.strict = True
    try:
        with pytest.raises(ValueError, match="boom"), shield_host("record"):
            raise ValueError("boom")
    finally:
        shield_host.strict = False
