"""The page, and the files of `report` and `summary --html`: for narrow and dark screens, keyboards, screen readers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.collector.browser.pages import NARROWEST, NEEDS_CHROMIUM, PHONE, Page, barriers, too_wide
from tests.collector.documents import HOSTILE
from tests.collector.paging import annotated, serving_page, stored
from tests.sdk.talks import talk

pytestmark = NEEDS_CHROMIUM


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["report", "summary"])
def test_files_are_for_everybody(files: dict[str, str], open_page: Callable[..., Page], name: str, scheme: str) -> None:
    """A report and a summary have no barriers either, and fit the narrowest screen."""
    page = open_page(files[name], scheme=scheme, size=NARROWEST)

    assert too_wide(page) == []
    assert barriers(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_verdict_is_corrected_by_keyboard(tmp_path: Path, open_page: Callable[..., Page], scheme: str) -> None:
    """A person corrects a verdict without a mouse; what they write is text, and the form has no barriers."""
    with serving_page(stored(tmp_path / "runs.db", *annotated(talk(1)))) as url:
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
