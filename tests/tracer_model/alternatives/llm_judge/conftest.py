"""Each test counts what its judges cost by itself, and leaves no variable behind that a flag has set."""

from __future__ import annotations

import pytest

from blamespan_tracer.alternatives.llm_judge.budget import ACCOUNT


@pytest.fixture(autouse=True)
def own_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the account that a test before has begun, and what a flag of this one sets."""
    for name in (ACCOUNT, "BLAMESPAN_JUDGE_URL", "BLAMESPAN_JUDGE_LEAST_GAIN"):
        monkeypatch.setenv(name, "")
