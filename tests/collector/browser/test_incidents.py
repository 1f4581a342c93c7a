"""Incidents in Chromium: seen by everybody, on every screen, and closed by a click."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from blamespan.spans import Span
from tests.collector.browser.pages import NARROWEST, NEEDS_CHROMIUM, Page, barriers, screenshot
from tests.collector.paging import annotated, serving_page, stored
from tests.sdk.talks import talk

pytestmark = NEEDS_CHROMIUM

HOSTILE = "<img src=x onerror=alert(1)>"
TABLE = "The table says 95 euros a night, so 3 rooms cost 285 euros."


def spans_of(version: str, numbers: range, agent: str, *, failed: bool) -> list[list[Span]]:
    resource = {"service.name": "shop", "service.version": version}
    task, outcome = "What do three rooms cost in May?", "failed" if failed else "succeeded"
    runs = [
        talk(n, ["Look up May.", TABLE], task=task, agents=("clerk", agent), outcome=outcome)  # type: ignore[arg-type]
        for n in numbers
    ]
    return [[replace(span, resource=resource) for span in spans] for spans in annotated(*runs)]


@pytest.fixture(scope="module", params=["billing"])
def incidents_site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve two incidents: of `pricing`, and of the agent that the test names."""
    path: Path = tmp_path_factory.mktemp("incidents") / "runs.db"
    runs = [
        *spans_of("1.3", range(1, 4), "pricing", failed=True),
        *spans_of("1.3", range(4, 100), "pricing", failed=False),
        *spans_of("1.4", range(100, 106), request.param, failed=True),
        *spans_of("1.4", range(106, 220), "pricing", failed=False),
        *spans_of("1.4", range(220, 240), "pricing", failed=True),
    ]
    with serving_page(stored(path, *runs)) as url:
        yield url


@pytest.mark.parametrize("incidents_site", [HOSTILE], indirect=True)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_incidents_have_no_barriers(incidents_site: str, open_page: Callable[..., Page], scheme: str) -> None:
    """List and incident are readable for everybody, also on the narrowest screen; hostile names run nothing."""
    for size in ({"width": 1120, "height": 720}, NARROWEST):
        page = open_page(incidents_site, scheme=scheme, size=size)
        assert barriers(page) == []
        page.get_by_role("link", name="pricing: ").first.click()
        assert barriers(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_an_incident_is_found_by_keys_and_closed_by_a_click(
    incidents_site: str, open_page: Callable[..., Page]
) -> None:
    """`j` and Enter open the first one; the button closes it, and the list says so."""
    page = open_page(incidents_site, size={"width": 1120, "height": 560})
    screenshot(page, "page-incidents")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/?incident=*")
    assert page.inner_text("main blockquote") == TABLE[:40]
    page.get_by_role("button", name="Close it").click()
    page.wait_for_load_state()

    assert page.locator(".tag", has_text="closed").count() == 1
    assert page.get_by_role("button", name="Close it").count() == 0
