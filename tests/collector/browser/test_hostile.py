"""Hostile runs in Chromium: their text stays text, on the page and in the files that are made of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.collector.browser.pages import NEEDS_CHROMIUM, Page
from tests.collector.documents import HOSTILE

pytestmark = NEEDS_CHROMIUM


@pytest.mark.parametrize(("name", "text"), [("report", "<script>alert(1)</script>"), ("summary", HOSTILE[2])])
def test_files_of_hostile_runs_do_nothing(
    files: dict[str, str], open_page: Callable[..., Page], name: str, text: str
) -> None:
    """Their text stays text in a report and a summary, which ask for nothing."""
    asked: list[str] = []
    page = open_page("about:blank")
    page.on("request", lambda request: asked.append(request.url))
    page.goto(files[name])

    assert asked == [files[name]]
    assert page.locator("main img, main iframe, main style, main base, main textarea, main svg[onload]").count() == 0
    assert page.locator("main script:not([type='application/json'])").count() == 0
    assert text in page.text_content("main")


def test_hostile_runs_do_nothing(site: str, open_page: Callable[..., Page]) -> None:
    """No text of a run becomes an element, runs, or sends anything; it is read as it stands."""
    asked: list[str] = []
    for number in range(len(HOSTILE)):
        page = open_page(f"{site}/run/{2_000 + number:032x}")
        page.on("request", lambda request: asked.append(request.url))
        assert page.locator("main script, main img, main iframe, main style, main base, main textarea").count() == 0
        assert "<script>alert(1)</script>" in page.text_content("#step-0 .content")
    assert [url for url in asked if not url.startswith(site)] == []
