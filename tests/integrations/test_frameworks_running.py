"""The real frameworks, each in the environment that `scripts/frameworks` makes for it; skipped where none is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from blamespan.rebuilding.rebuild import rebuild
from blamespan.tracers import load_tracer
from blamespan_integrations.frameworks import FRAMEWORKS, instrumentors_of_installed
from tests.integrations.drawing import draw
from tests.integrations.frameworks.recordings import HIDDEN_HERE, agent_of, drawing_of, spans_in, verdict_on

ROOT = Path(__file__).parents[2]
INSTALLED = [name for name, one in instrumentors_of_installed().items() if one.can_record]

pytestmark = [
    pytest.mark.framework,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not INSTALLED, reason=f"needs one of {', '.join(row.name for row in FRAMEWORKS)}: scripts/frameworks"
    ),
]


def recording_of(framework: str) -> str:
    """Name the recording that holds what is installed here."""
    entry = instrumentors_of_installed()[framework].framework.instrumentor
    return f"{framework}-genai" if entry is not None and ".genai." in entry.module else framework


def run(framework: str, fault: str, folder: Path, **variables: str) -> Path:
    """Run a framework's desk in a process of its own; return its spans' file."""
    out = folder / f"{fault}.jsonl"
    command = [sys.executable, "-m", "tests.integrations.frameworks.record", framework, fault, str(out)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=240, env={**os.environ, **variables})
    return out


@pytest.mark.parametrize("framework", INSTALLED or ["none"])
def test_one_line_records_the_framework(framework: str, tmp_path: Path) -> None:
    """The spans of a run of just now are rebuilt to the run of the recording."""
    trace = rebuild(spans_in(run(framework, "sound", tmp_path)))

    assert draw(trace, hide=HIDDEN_HERE) == drawing_of(recording_of(framework))


@pytest.mark.parametrize("fault", ["researcher", "writer"])
@pytest.mark.parametrize("framework", INSTALLED or ["none"])
def test_faulty_agent_is_named_and_its_sound_twin_is_not(framework: str, fault: str, tmp_path: Path) -> None:
    """The verdict follows what was said."""
    tracer = load_tracer("auto")
    faulty, sound = (spans_in(run(framework, each, tmp_path)) for each in (fault, "sound"))

    assert verdict_on(faulty, tracer) == ("looks failed", agent_of(framework, fault))
    assert verdict_on(sound, tracer) == ("no sign of failure", "")


@pytest.mark.parametrize("framework", INSTALLED or ["none"])
def test_without_contents_no_word_of_the_run_leaves(framework: str, tmp_path: Path) -> None:
    """Whatever a framework writes onto its spans: where contents are not captured, none is there."""
    out = run(framework, "sound", tmp_path, OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="no_content")

    text = out.read_text(encoding="utf-8")
    assert framework.partition("-")[0] in text or "gcp.vertex.agent" in text
    assert [word for word in ("euros", "A12", "customer", "price") if word in text] == []
