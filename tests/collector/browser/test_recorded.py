"""Recorded runs and those of the demo in Chromium, and the pictures of the documents.

With BLAMESPAN_SCREENSHOTS=FOLDER pictures are written there.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from rich.console import Console

from blamespan.analysis.showing.drawing import Picture
from blamespan.analysis.showing.findings import rules_of
from blamespan.analysis.showing.run_view import view_of
from blamespan.analysis.showing.shown_run import ShownRun, found_runs
from blamespan.analysis.sources import pieces
from blamespan.analysis.summary.command import summary
from blamespan.importing.recorded import RecordedRun
from blamespan.otlp import request_from_json, spans_from_proto
from blamespan.pipeline import annotate_traces
from blamespan.rebuilding.emit import emit
from blamespan.spans import Span
from blamespan.trace import Agent, MessageActionTrace, Step, StepKind
from blamespan.tracers import load_tracer
from blamespan_collector.store import RunQuery
from tests.collector.browser.pages import NEEDS_CHROMIUM, PHONE, Page, analyzed, screenshot, written
from tests.collector.paging import serving_page, stored
from tests.sdk.talks import NOW_NS

pytestmark = NEEDS_CHROMIUM


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory, recorded_runs: Path) -> Iterator[tuple[str, list[str]]]:
    """Serve runs of Who&When as the bundled tracer judges them; gives their ids, the longest first."""
    found = [
        run.trace
        for piece in pieces([str(recorded_runs / "who_and_when_dev")])
        for run in itertools.islice(piece.read(), 20)
        if isinstance(run, RecordedRun)
    ]
    store = stored(
        tmp_path_factory.mktemp("real") / "runs.db", *_judged([_timed(n, run) for n, run in enumerate(found)])
    )
    with serving_page(store) as url:
        yield url, [run.trace_id for run in sorted(found, key=lambda run: -len(run.steps))]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[str]]]:
    """Serve the four runs of `blamespan demo`; gives their ids, the failing ones first."""
    folder = tmp_path_factory.mktemp("demo")
    subprocess.run([sys.executable, "-m", "blamespan", "demo", "--out", folder], check=True, capture_output=True)
    lines = (folder / "annotated.jsonl").read_text().splitlines()
    traces = [list(spans_from_proto(request_from_json(line).resource_spans)) for line in lines]
    store = stored(folder / "runs.db", *traces)
    ids = [run.trace_id for run in sorted(store.search(RunQuery()), key=lambda run: -(run.failure_score or 0))]
    with serving_page(store) as url:
        yield url, ids


def _judged(runs: list[MessageActionTrace]) -> list[list[Span]]:
    return annotate_traces([emit(run) for run in runs], load_tracer())


def _timed(number: int, run: MessageActionTrace) -> MessageActionTrace:
    """Give a run the clock that its source does not have."""
    start_ns = NOW_NS + number * 600 * 10**9
    steps = [
        replace(step, start_ns=start_ns + step.index * 2 * 10**9, end_ns=start_ns + (step.index * 2 + 1) * 10**9)
        for step in run.steps
    ]
    return replace(run, steps=tuple(steps), resource={"service.name": "who-and-when"})


def test_recorded_runs_are_shown(real: tuple[str, list[str]], open_page: Callable[..., Page]) -> None:
    """Runs of Who&When, judged by the bundled tracer, are listed and shown, the longest too."""
    url, ids = real
    page = open_page(url)
    for run_id in (ids[len(ids) // 2], ids[0]):
        page.goto(f"{url}/run/{run_id}")
        assert page.locator(".verdict").count() == 1
    page.keyboard.press("d")

    assert page.locator(".step.decisive").count() == 1


def test_demo_is_shown(demo: tuple[str, list[str]], open_page: Callable[..., Page]) -> None:
    """The runs of the demo are listed and shown, on a desk and on a phone: the pictures of the documents."""
    url, ids = demo
    page = open_page(url)
    assert page.locator("input[name=run]").count() == 4
    screenshot(page, "page-runs")
    screenshot(open_page(url, scheme="dark", size=PHONE), "page-runs-phone")
    page.goto(f"{url}/run/{ids[0]}")
    screenshot(page, "page-run")
    page = open_page(f"{url}/run/{ids[1]}", scheme="dark")
    page.keyboard.press("d")
    screenshot(page, "page-step-dark")

    assert page.locator(".step.decisive").count() == 1


def test_where_an_answer_comes_from_is_drawn(tmp_path: Path, open_page: Callable[..., Page]) -> None:
    """Of a misread tool the page draws who took the value from whom, and quotes what the tool has instead."""
    task = "How many rooms has the Hotel Aurora in Bergen, and what do 17 nights from 2026-05-12 cost?"
    said: tuple[tuple[str, StepKind, str], ...] = (
        ("Planner", "message", "Researcher, look up the Hotel Aurora. Accountant, 17 nights from 2026-05-12."),
        ("Researcher", "tool_call", 'look_up({"hotel": "Hotel Aurora"})'),
        ("Researcher", "tool_result", "Hotel Aurora, Bergen. 38 rooms. A night costs 84.50 euros, breakfast included."),
        ("Researcher", "message", "The Hotel Aurora has 36 rooms; a night costs 84.50 euros."),
        ("Planner", "message", "Accountant, 17 nights at 84.50 euros, please."),
        ("Accountant", "message", "17 nights at 84.50 euros come to 1436.50 euros."),
        ("Critic", "message", "1436.50 euros is right."),
        ("Writer", "message", "FINAL ANSWER: The Hotel Aurora has 36 rooms; 17 nights from 2026-05-12 come to "
         "1436.50 euros at 84.50 euros each."),
    )  # fmt: skip
    steps = tuple(
        Step(n, f"{n + 1:016x}", agent, kind, text, inputs=(n - 1,) if n else ())
        for n, (agent, kind, text) in enumerate(said)
    )
    agents = tuple(map(Agent, ("Planner", "Researcher", "Accountant", "Critic", "Writer")))
    run = MessageActionTrace("7" * 32, task, steps, agents, outcome="failed")
    with serving_page(stored(tmp_path / "runs.db", *_judged([_timed(0, run)]))) as url:
        page = open_page(f"{url}/run/{run.trace_id}", size={"width": 1320, "height": 900})
        drawn = page.locator(".provenance")
        page.get_by_role("link", name="Where the answer comes from").click()
        is_open = [drawn.get_attribute("open") is not None]
        drawn.locator("summary").focus()
        for _ in range(2):
            page.keyboard.press("Enter")
            is_open.append(drawn.get_attribute("open") is not None)
        screenshot(drawn, "page-claims")

        assert page.locator(".claim-drawing g.unsupported").count() == 1
        assert is_open == [True, False, True]
        assert drawn.locator("li.contradicted > p > b").all_inner_texts() == ["36"]
        assert "84.50" not in drawn.locator("li.has-a-source > p > b").all_inner_texts()
        assert "no source" in drawn.inner_text()
        assert "has instead" in drawn.inner_text()


def test_pictures_of_the_documents(
    demo: tuple[str, list[str]], tmp_path: Path, open_page: Callable[..., Page], recorded_runs: Path
) -> None:
    """The form for labels, a summary of recorded runs, and a run in the terminal, as the documents show them."""
    url, ids = demo
    page = open_page(f"{url}/run/{ids[0]}?by=ann")
    page.get_by_label("The verdict is right").check()
    screenshot(page.locator(".labels"), "page-label")
    results = analyzed(recorded_runs / "who_and_when_dev", tmp_path / "who_and_when.jsonl")
    page = open_page(written(summary, tmp_path / "summary.html", results, "--html"))
    screenshot(page, "summary")
    shown = _in_terminal(httpx.get(f"{url}/run/{ids[0]}.json").text, tmp_path)
    if folder := os.environ.get("BLAMESPAN_SCREENSHOTS"):
        Path(folder, "show.svg").write_text(shown)

    assert page.locator("svg").count() >= 3
    assert "most&#160;to&#160;blame" in shown


def _in_terminal(document: str, folder: Path) -> str:
    """Draw a run as `blamespan show` does in 80 columns; gives the picture as SVG that loads no font."""
    (folder / "run.jsonl").write_text(json.dumps(json.loads(document)) + "\n")
    [run] = found_runs(str(folder / "run.jsonl"))
    console = Console(record=True, width=80, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    assert isinstance(run, ShownRun)
    [verdict] = load_tracer().attribute([run.trace])
    view = view_of(run.trace, verdict, rules_of(run.trace).rules)
    Picture(console, replace(run, source="traces.jsonl"), view).print_run(every=False)
    return re.sub(r"@font-face \{.*?\}\s*", "", console.export_svg(title="blamespan show"), flags=re.DOTALL)
