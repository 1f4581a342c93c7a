"""`rebuild` and `emit` are inverse, and `rebuild` reads what other instrumentations write."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from blamespan import conventions as words
from blamespan.emit import emit
from blamespan.errors import MalformedTrace, NoAgentSteps
from blamespan.rebuild import rebuild
from blamespan.spans import Span
from blamespan.trace import Agent, MessageActionTrace, Step
from tests.sdk.strategies import traces


@given(traces())
@settings(max_examples=300, deadline=None)
def test_rebuild_inverts_emit(trace: MessageActionTrace) -> None:
    """A run written as spans and read back is the same run."""
    assert rebuild(emit(trace)) == trace


@given(traces())
@settings(max_examples=50, deadline=None)
def test_rebuild_does_not_depend_on_the_order_of_arrival(trace: MessageActionTrace) -> None:
    """Spans may come in any order."""
    assert rebuild(reversed(emit(trace))) == trace
