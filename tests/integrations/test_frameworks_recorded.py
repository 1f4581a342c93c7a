"""What `instrument()` records of the frameworks that others instrument: rebuilt and judged from recordings of them."""

from __future__ import annotations

import pytest

from blamespan.rebuilding.rebuild import rebuild
from blamespan.tracers import Tracer, load_tracer
from tests.integrations.drawing import draw
from tests.integrations.frameworks.recordings import (
    FOLDER,
    HIDDEN_HERE,
    NAMES,
    agent_of,
    drawing_of,
    spans_in,
    verdict_on,
)


@pytest.fixture(scope="module")
def tracer() -> Tracer:
    return load_tracer("auto")


@pytest.mark.parametrize("name", NAMES)
def test_run_is_rebuilt_from_the_framework_s_spans(name: str) -> None:
    """One run is one trace: task, agents, messages, tools, hand-overs and what each step builds on are in it."""
    trace = rebuild(spans_in(FOLDER / f"{name}.sound.jsonl"))

    assert draw(trace, hide=HIDDEN_HERE) == drawing_of(name)


@pytest.mark.parametrize("fault", ["researcher", "writer"])
@pytest.mark.parametrize("name", NAMES)
def test_agent_that_copies_a_number_wrongly_is_named(name: str, fault: str, tracer: Tracer) -> None:
    """The run looks failed, and the verdict names who contradicts what it had read."""
    spans = spans_in(FOLDER / f"{name}.{fault}.jsonl")

    assert verdict_on(spans, tracer) == ("looks failed", agent_of(name, fault))


@pytest.mark.parametrize("name", NAMES)
def test_sound_twin_shows_no_sign_of_failure(name: str, tracer: Tracer) -> None:
    """The same desk without a fault names nobody."""
    assert verdict_on(spans_in(FOLDER / f"{name}.sound.jsonl"), tracer) == ("no sign of failure", "")
