"""The page in Chromium: keys, links and the lanes lead where they say, and buttons do what they say."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.collector.browser.pages import NEEDS_CHROMIUM, Page, here, screenshot

pytestmark = NEEDS_CHROMIUM


def test_keys_lead_through_the_list_and_the_run(site: str, open_page: Callable[..., Page]) -> None:
    """Without a mouse: `j` and Enter open a run, `d` finds the decisive step, `s` the suspects, `j` and `k` go on."""
    page = open_page(f"{site}/?text=12+*+3")
    for key in ("j", "k", "j", "j"):
        page.keyboard.press(key)
    page.keyboard.press("Enter")
    page.wait_for_url("**/run/*1")
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
    from playwright.sync_api import expect

    page = open_page(f"{site}/run/{500:032x}#step-321")
    assert (here(page), page.locator("#step-321").is_visible()) == ("step-321", True)
    expect(page.locator("#step-321 header")).to_be_in_viewport()

    page = open_page(f"{site}/run/{1200:032x}#step-1100")  # the part with the decisive step
    assert here(page) == "step-1100"
    page = open_page(f"{site}/run/{1200:032x}#step-100")
    page.wait_for_url(lambda at: at.endswith("?from=0#step-100"))
    assert here(page) == "step-100"
    page.locator("#step-50 .index").click()
    page.locator("#step-60 .index").click()
    page.go_back()
    page.wait_for_url("**#step-50")
    assert here(page) == "step-50"
    page.keyboard.press("d")
    page.wait_for_url(lambda at: at.endswith("?from=1000#step-1199"))
    assert here(page) == "step-1199"


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
