"""The page in Chromium: keys, links, narrow and dark screens, a screen reader's rules, and hostile runs.

So are the files of `blamespan report` and `blamespan summary --html`, opened as files.

`scripts/browser` installs what these need. With BLAMESPAN_SCREENSHOTS=FOLDER pictures are written there.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from rich.console import Console

from blamespan.analysis.command import analyze
from blamespan.analysis.showing.drawing import Picture
from blamespan.analysis.showing.judges import rules_of
from blamespan.analysis.showing.shown_run import ShownRun, found_runs
from blamespan.analysis.sources import pieces
from blamespan.analysis.summary.command import summary
from blamespan.emit import emit
from blamespan.otlp import request_from_json, request_to_json, spans_from_proto, spans_to_proto
from blamespan.pipeline import annotate_traces
from blamespan.recorded import RecordedRun
from blamespan.spans import Span
from blamespan.trace import MessageActionTrace
from blamespan.tracers import load_tracer
from blamespan_collector.page.report import report
from blamespan_collector.store import RunQuery
from tests.collector.documents import HOSTILE
from tests.collector.paging import NOW_NS, annotated, serving_page, stored, trace

playwright = pytest.importorskip("playwright.sync_api", reason="scripts/browser installs Playwright")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="scripts/browser installs axe")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [pytest.mark.browser, pytest.mark.skipif(not CHROMIUM, reason="no Chromium: set CHROMIUM to one")]

Page = Any  # Playwright's, which need not be installed
DESKTOP, PHONE, NARROWEST = {"width": 1120, "height": 720}, {"width": 390, "height": 844}, {"width": 320, "height": 640}


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


def here(page: Page) -> str:
    """Tell which row is chosen."""
    return str(page.evaluate("document.querySelector('[data-row].here')?.id ?? ''"))


def barriers(page: Page) -> list[tuple[str, ...]]:
    """Tell what axe finds that keeps people from using the page."""
    return [
        (found["id"], found["impact"], found["nodes"][0]["html"][:200], found["nodes"][0].get("failureSummary"))
        for found in axe.Axe().run(page).response["violations"]
        if found["impact"] in ("moderate", "serious", "critical")
    ]


def too_wide(page: Page) -> list[str]:
    """Tell what makes the whole page scroll sideways, if it does; tables and drawings scroll by themselves."""
    found: list[str] = page.evaluate(
        """() => document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll('body *')]
        .filter(one => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest('.scroll, svg'))
        .map(one => one.outerHTML.slice(0, 150))"""
    )
    return found


def screenshot(view: Any, name: str) -> None:
    """Write a picture of a page, or of an element of it, for the documents, where asked to."""
    folder = os.environ.get("BLAMESPAN_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        view.screenshot(path=f"{folder}/{name}.png")


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
    screenshot(page, "page-compare")


def test_run_is_copied_as_otlp_json(site: str, open_page: Callable[..., Page]) -> None:
    """The button copies the whole run."""
    page = open_page(f"{site}/run/{1:032x}", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy as OTLP-JSON").click()
    page.get_by_text("Copied as OTLP-JSON").wait_for()

    assert page.evaluate("navigator.clipboard.readText()").startswith('{"resourceSpans": [')


@pytest.mark.parametrize("size", [PHONE, NARROWEST])
@pytest.mark.parametrize("path", ["", f"run/{1:032x}", f"run/{500:032x}", f"compare?run={1:032x}&run={2:032x}"])
def test_page_fits_a_phone(site: str, open_page: Callable[..., Page], path: str, size: dict[str, int]) -> None:
    """On a phone nothing but tables and drawings scrolls sideways."""
    page = open_page(f"{site}/{path}", size=size)

    assert too_wide(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "path", ["", "?text=nothing", f"run/{1:032x}", f"run/{3:032x}", f"compare?run={1:032x}&run={2:032x}"]
)
def test_screen_readers_find_their_way(site: str, open_page: Callable[..., Page], path: str, scheme: str) -> None:
    """axe finds nothing serious, light or dark: names, roles, order and contrast are right."""
    assert barriers(open_page(f"{site}/{path}", scheme=scheme)) == []


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Write a report and a summary of hostile runs, as their commands do; gives their URLs."""
    folder = tmp_path_factory.mktemp("files")
    runs = [trace(n, [*HOSTILE, text], task=text, agents=(text, "b")) for n, text in enumerate(HOSTILE, 1)]
    requests = [ExportTraceServiceRequest(resource_spans=spans_to_proto(emit(run))) for run in runs]
    source, results = folder / "traces.jsonl", folder / "results.jsonl"
    source.write_text("".join(f"{request_to_json(one)}\n" for one in requests))
    return {
        "report": _written(report, folder / "report.html", source, "--out"),
        "summary": _written(summary, folder / "summary.html", _analyzed(source, results), "--html"),
    }


def _written(command: Any, page: Path, source: Path, option: str) -> str:
    done = CliRunner().invoke(command, [str(source), option, str(page)])
    assert page.is_file(), done.output
    return page.as_uri()


def _analyzed(source: Path, results: Path) -> Path:
    CliRunner().invoke(analyze, [str(source), "--out", str(results)])
    return results


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["report", "summary"])
def test_files_are_for_everybody(files: dict[str, str], open_page: Callable[..., Page], name: str, scheme: str) -> None:
    """A report and a summary have no barriers either, and fit the narrowest screen."""
    page = open_page(files[name], scheme=scheme, size=NARROWEST)

    assert too_wide(page) == []
    assert barriers(page) == []


@pytest.mark.parametrize("name", ["report", "summary"])
def test_files_of_hostile_runs_do_nothing(files: dict[str, str], open_page: Callable[..., Page], name: str) -> None:
    """Their text stays text in a report and a summary, which ask for nothing."""
    asked: list[str] = []
    page = open_page("about:blank")
    page.on("request", lambda request: asked.append(request.url))
    page.goto(files[name])

    assert asked == [files[name]]
    assert page.locator("main img, main iframe, main style, main base, main textarea, main svg[onload]").count() == 0
    assert page.locator("main script:not([type='application/json'])").count() == 0
    assert "<script>alert(1)</script>" in page.text_content("main")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_verdict_is_corrected_by_keyboard(tmp_path: Path, open_page: Callable[..., Page], scheme: str) -> None:
    """A person corrects a verdict without a mouse; what they write is text, and the form has no barriers."""
    with serving_page(stored(tmp_path / "runs.db", *annotated(trace(1)))) as url:
        page = open_page(f"{url}/run/{1:032x}", scheme=scheme, size=NARROWEST)
        page.locator(".label input[type=radio]").first.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Tab")
        page.keyboard.type("1")
        page.get_by_label("Why").fill(HOSTILE[0])
        page.get_by_label("Your name").fill(HOSTILE[2])
        page.keyboard.press("Enter")
        page.wait_for_url("**#labels")

        assert "step 1, solver" in page.inner_text(".labels table")
        assert HOSTILE[0] in page.inner_text(".labels table")
        assert HOSTILE[2] in page.inner_text(".labels table")
        assert page.locator("main script, main img").count() == 0
        assert too_wide(page) == []
        assert barriers(page) == []


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
    screenshot(page, "page-runs")
    screenshot(open_page(url, scheme="dark", size=PHONE), "page-runs-phone")
    page.goto(f"{url}/run/{ids[0]}")
    screenshot(page, "page-run")
    page = open_page(f"{url}/run/{ids[1]}", scheme="dark")
    page.keyboard.press("d")
    screenshot(page, "page-step-dark")

    assert page.locator(".step.decisive").count() == 1


def test_pictures_of_the_documents(
    demo: tuple[str, list[str]], tmp_path: Path, open_page: Callable[..., Page], recorded_runs: Path
) -> None:
    """The form for labels, a summary of recorded runs, and a run in the terminal, as the documents show them."""
    url, ids = demo
    page = open_page(f"{url}/run/{ids[0]}?by=ann")
    page.get_by_label("The verdict is right").check()
    screenshot(page.locator(".labels"), "page-label")
    results = _analyzed(recorded_runs / "who_and_when_dev", tmp_path / "who_and_when.jsonl")
    page = open_page(_written(summary, tmp_path / "summary.html", results, "--html"))
    screenshot(page, "summary")
    shown = _in_terminal(httpx.get(f"{url}/run/{ids[0]}.json").text, tmp_path)
    if folder := os.environ.get("BLAMESPAN_SCREENSHOTS"):
        Path(folder, "show.svg").write_text(shown)

    assert page.locator("svg").count() >= 3
    assert "most&#160;to&#160;blame" in shown


def _in_terminal(document: str, folder: Path) -> str:
    """Draw a run as `blamespan show` does in 80 columns; gives the picture as SVG that loads no font."""
    (folder / "run.jsonl").write_text(json.dumps(json.loads(document)) + "\n")
    [run] = found_runs(str(folder / "run.jsonl"), None, None)
    console = Console(record=True, width=80, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    assert isinstance(run, ShownRun)
    [verdict] = load_tracer().attribute([run.trace])
    Picture(console, replace(run, source="traces.jsonl"), verdict, rules_of(run.trace)).print_run(every=False)
    return re.sub(r"@font-face \{.*?\}\s*", "", console.export_svg(title="blamespan show"), flags=re.DOTALL)
