"""What a program says leaves the process only as it was allowed to, whichever framework it is written in."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from opentelemetry.instrumentation.utils import suppress_instrumentation

from tests.integrations.hosts import INSTALLED, recording

CANARY = "canary-7f3a"
PROGRAMS = [
    (framework, name)
    for framework in INSTALLED
    for name in import_module(f"tests.integrations.canaries_{framework}").PROGRAMS
]
every_program = pytest.mark.parametrize(("framework", "name"), PROGRAMS)


def exported(framework: str, name: str, **content: Any) -> list[str]:
    """Run a program and list its spans as JSON, as they are exported."""
    with recording(framework, **content) as recorder:
        import_module(f"tests.integrations.canaries_{framework}").PROGRAMS[name]()
    return [span.to_json() for span in recorder.finished()]


@every_program
def test_no_content_leaves_a_program(framework: str, name: str) -> None:
    """A word in the task, state, messages, thoughts, arguments, results, errors, prompts, metadata is in no span."""
    spans = exported(framework, name, capture_content=False)

    assert len(spans) > 1
    assert [text for text in spans if CANARY in text] == []


@every_program
def test_own_mask_sees_all_that_a_program_says(framework: str, name: str) -> None:
    """What the program's own function takes out is in no span either, and without it the word is."""
    masked = exported(framework, name, mask=lambda text: text.replace(CANARY, "*"))

    assert [text for text in masked if CANARY in text] == []
    assert any(CANARY in text for text in exported(framework, name))


@every_program
def test_suppressed_program_is_not_recorded(framework: str, name: str) -> None:
    """Within `suppress_instrumentation()` a program works and leaves no span."""
    with suppress_instrumentation():
        spans = exported(framework, name)

    assert spans == []
