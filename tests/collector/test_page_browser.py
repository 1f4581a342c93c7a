"""The page in Chromium: keys, links, narrow and dark screens, a screen reader's rules, and hostile runs.

`scripts/browser` installs what these need. With BLAMESPAN_SCREENSHOTS=FOLDER pictures are written there.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from blamespan.analysis.sources import find_files, read_runs
from blamespan.emit import emit
from blamespan.otlp import request_from_json, spans_from_proto
from blamespan.pipeline import annotate_traces
from blamespan.recorded import RecordedRun, importers
from blamespan.spans import Span
from blamespan.trace import MessageActionTrace
from blamespan.tracers import load_tracer
from blamespan_collector.store import RunQuery
from tests.collector.documents import HOSTILE
from tests.collector.paging import NOW_NS, annotated, serving_page, stored, trace

playwright = pytest.importorskip("playwright.sync_api", reason="scripts/browser installs Playwright")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="scripts/browser installs axe")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [pytest.mark.browser, pytest.mark.skipif(not CHROMIUM, reason="no Chromium: set CHROMIUM to one")]

Page = Any  # Playwright's, which need not be installed
DESKTOP, PHONE = {"width": 1120, "height": 720}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as running:
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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve three short runs, one of 500 steps, one of 1,200 and hostile ones."""
    texts = ["Find it.", "12 * 3 = 35", "Checked, that is right.", "more words. " * 400]
    runs = [
        trace(1),
        trace(2, ("Find it.", "12 * 3 = 36", "Right."), outcome="succeeded"),
        trace(3, texts * 2, task="Talk."),
        trace(500, [f"Step {step}: {step} * 7 = {step * 7}. " * 40 for step in range(500)], task="Multiply."),
        trace(1200, [f"Step {step}" for step in range(1_200)], task="Count."),
    ]
    hostile = [trace(2_000 + n, [*HOSTILE, text], task=text, agents=(text, "b")) for n, text in enumerate(HOSTILE)]
    store = stored(tmp_path_factory.mktemp("site") / "runs.db", *annotated(*runs, *hostile))
    with serving_page(store) as url:
        yield url


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory, recorded_runs: Path) -> Iterator[tuple[str, list[str]]]:
    """Serve runs of Who&When as the bundled tracer judges them; gives their ids, the longest first."""
    found = [
        run.trace
        for path in find_files([recorded_runs / "who_and_when_dev"])
        for run in itertools.islice(read_runs(path, importers()), 20)
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


def here(page: Page) -> str:
    """Tell which row is chosen."""
    return str(page.evaluate("document.querySelector('[data-row].here')?.id ?? ''"))


def screenshot(page: Page, name: str) -> None:
    """Write a picture for the documents, where asked to."""
    folder = os.environ.get("BLAMESPAN_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=f"{folder}/page-{name}.png")


def test_keys_lead_through_the_list_and_the_run(site: str, open_page: Callable[..., Page]) -> None:
    """Without a mouse: `j` and Enter open a run, `d` finds the decisive step, `s` the suspects, `j` and `k` go on."""
    page = open_page(f"{site}/?text=12+*+3")
    for key in ("j", "j", "k"):
        page.keyboard.press(key)
    page.keyboard.press("Enter")
    page.wait_for_url("**/run/*2")
    seen = []
    for key in ("d", "k", "k", "j", "s", "s"):
        page.keyboard.press(key)
        seen.append(here(page))

    assert seen == ["step-2", "step-1", "step-0", "step-1", "step-1", "step-0"]
    assert page.url.endswith("#step-0")


def test_search_and_help_have_keys(site: str, open_page: Callable[..., Page]) -> None:
    """`/` goes to the search, where letters are letters; `?` shows the keys, Escape hides them."""
    page = open_page(site)
    page.keyboard.press("/")
    page.keyboard.type("jkd?")
    typed = page.input_value("input[type=search]")
    page.keyboard.press("Tab")
    page.locator("h1").click()
    page.keyboard.press("?")
    shown = page.locator("dialog").is_visible()
    page.keyboard.press("Escape")

    assert (typed, shown, page.locator("dialog").is_visible()) == ("jkd?", True, False)


def test_permanent_link_leads_to_the_step(site: str, open_page: Callable[..., Page]) -> None:
    """A link to a step shows that step, also in another part of a long run; going back works."""
    page = open_page(f"{site}/run/{500:032x}#step-321")
    assert (here(page), page.locator("#step-321").is_visible()) == ("step-321", True)
    playwright.expect(page.locator("#step-321 header")).to_be_in_viewport()

    page = open_page(f"{site}/run/{1200:032x}#step-1100")
    page.wait_for_url(lambda at: at.endswith("?from=1000#step-1100"))
    assert here(page) == "step-1100"
    page.locator("#step-1050 .index").click()
    page.locator("#step-1060 .index").click()
    page.go_back()
    page.wait_for_url("**#step-1050")
    assert here(page) == "step-1050"


def test_lanes_lead_to_steps(site: str, open_page: Callable[..., Page]) -> None:
    """A click on a step in the drawing goes to its text; the chosen step is marked in the drawing."""
    page = open_page(f"{site}/run/{1:032x}")
    page.locator(".lanes a").nth(1).click()

    assert here(page) == "step-1"
    assert page.locator(".lanes g.here").count() == 1


def test_two_chosen_runs_are_compared(site: str, open_page: Callable[..., Page]) -> None:
    """Two ticks and a button show two runs side by side."""
    page = open_page(f"{site}/?text=12+*+3")
    page.locator("input[name=run]").nth(0).check()
    page.locator("input[name=run]").nth(1).check()
    page.get_by_role("button", name="Compare the two chosen").click()
    page.wait_for_url("**/compare?*")

    assert "They part at line 1" in page.inner_text("main")
    screenshot(page, "compare")


def test_run_is_copied_as_otlp_json(site: str, open_page: Callable[..., Page]) -> None:
    """The button copies the whole run."""
    page = open_page(f"{site}/run/{1:032x}", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy as OTLP-JSON").click()
    page.get_by_text("Copied as OTLP-JSON").wait_for()

    assert page.evaluate("navigator.clipboard.readText()").startswith('{"resourceSpans": [')


@pytest.mark.parametrize("path", ["", f"run/{1:032x}", f"run/{500:032x}", f"compare?run={1:032x}&run={2:032x}"])
def test_page_fits_a_phone(site: str, open_page: Callable[..., Page], path: str) -> None:
    """On a phone nothing but tables and drawings scrolls sideways."""
    page = open_page(f"{site}/{path}", size=PHONE)

    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "path", ["", "?text=nothing", f"run/{1:032x}", f"run/{3:032x}", f"compare?run={1:032x}&run={2:032x}"]
)
def test_screen_readers_find_their_way(site: str, open_page: Callable[..., Page], path: str, scheme: str) -> None:
    """axe finds nothing serious, light or dark: names, roles, order and contrast are right."""
    results = axe.Axe().run(open_page(f"{site}/{path}", scheme=scheme))
    bad = [
        (found["id"], found["impact"], found["nodes"][0]["html"][:200], found["nodes"][0].get("failureSummary"))
        for found in results.response["violations"]
        if found["impact"] in ("moderate", "serious", "critical")
    ]

    assert bad == []


def test_hostile_runs_do_nothing(site: str, open_page: Callable[..., Page]) -> None:
    """No text of a run becomes an element, runs, or sends anything; it is read as it stands."""
    asked: list[str] = []
    for number in range(len(HOSTILE)):
        page = open_page(f"{site}/run/{2_000 + number:032x}")
        page.on("request", lambda request: asked.append(request.url))
        assert page.locator("main script, main img, main iframe, main style, main base, main textarea").count() == 0
        assert "<script>alert(1)</script>" in page.text_content("#step-0 .content")
    assert [url for url in asked if not url.startswith(site)] == []


def test_five_hundred_steps_are_there_within_a_second(site: str, open_page: Callable[..., Page]) -> None:
    """A run of 500 steps is loaded and drawn, and a key is answered, within a second each."""
    page = open_page(site)
    loads, keys = [], []
    for _ in range(3):
        page.goto(f"{site}/run/{500:032x}")
        loads.append(page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd"))
        before_s = time.perf_counter()
        page.keyboard.press("d")
        page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        keys.append((time.perf_counter() - before_s) * 1e3)
    print(f"500 steps: loaded in {min(loads):.0f} ms, a key in {min(keys):.0f} ms")  # noqa: T201

    assert min(loads) < 1_000
    assert min(keys) < 1_000


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
    assert page.locator("tbody tr").count() == 4
    screenshot(page, "runs")
    screenshot(open_page(url, scheme="dark", size=PHONE), "runs-phone")
    page.goto(f"{url}/run/{ids[0]}")
    screenshot(page, "run")
    page = open_page(f"{url}/run/{ids[1]}", scheme="dark")
    page.keyboard.press("d")
    screenshot(page, "step-dark")

    assert page.locator(".step.decisive").count() == 1
