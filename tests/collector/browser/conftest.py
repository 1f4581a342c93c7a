"""Chromium, a page of runs for it, and files of hostile ones; started and written once for this folder.

`scripts/browser` installs what these tests need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blamespan.analysis.showing.command import show
from blamespan.analysis.summary.command import summary
from blamespan.otlp import request_to_json, spans_to_proto
from blamespan.rebuilding.emit import emit
from tests.collector.browser.pages import CHROMIUM, DESKTOP, Page, analyzed, written
from tests.collector.documents import HOSTILE
from tests.collector.paging import annotated, serving_page, stored
from tests.sdk.talks import talk


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as running:
        started = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Page]]:
    """Open pages; whatever a browser complains of fails the test, as a policy that is broken."""
    complaints: list[str] = []
    contexts = []

    def opened(url: str, *, scheme: str = "light", size: dict[str, int] = DESKTOP, **more: Any) -> Page:
        contexts.append(browser.new_context(color_scheme=scheme, viewport=size, **more))
        page = contexts[-1].new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve three short runs, one of 500 steps, one of 1,200 and hostile ones."""
    texts = ["Find it.", "12 * 3 = 35", "Checked, that is right.", "more words. " * 400]
    runs = [
        talk(1),
        talk(2, ("Find it.", "12 * 3 = 36", "Right."), outcome="succeeded"),
        talk(3, texts * 2, task="Talk."),
        talk(500, [f"Step {step}: {step} * 7 = {step * 7}. " * 40 for step in range(500)], task="Multiply."),
        talk(1200, [f"Step {step}" for step in range(1_200)], task="Count."),
    ]
    hostile = [talk(2_000 + n, [*HOSTILE, text], task=text, agents=(text, "b")) for n, text in enumerate(HOSTILE)]
    store = stored(tmp_path_factory.mktemp("site") / "runs.db", *annotated(*runs, *hostile))
    with serving_page(store) as url:
        yield url


@pytest.fixture(scope="package")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Write a page of runs and a summary of hostile runs, as their commands do; gives their URLs."""
    folder = tmp_path_factory.mktemp("files")
    said = (talk(n, [*HOSTILE, text], task=text, agents=(text, "b")) for n, text in enumerate(HOSTILE, 1))
    runs = [replace(run, outcome="failed") for run in said]
    requests = [ExportTraceServiceRequest(resource_spans=spans_to_proto(emit(run))) for run in runs]
    source, results = folder / "traces.jsonl", folder / "results.jsonl"
    source.write_text("".join(f"{request_to_json(one)}\n" for one in requests))
    return {
        "report": written(show, folder / "report.html", source, "--html"),
        "summary": written(summary, folder / "summary.html", analyzed(source, results), "--html"),
    }
