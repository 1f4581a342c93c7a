"""What the tests in Chromium look at: what is chosen, in the way or too wide; and the files that they look at."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from blamespan.analysis.command import analyze

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
_MISSING = [name for name in ("playwright", "axe_playwright_python") if find_spec(name) is None]
NEEDS_CHROMIUM = [
    pytest.mark.browser,
    pytest.mark.skipif(bool(_MISSING), reason=f"no {' and '.join(_MISSING)}: scripts/browser installs them"),
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium: set CHROMIUM to one"),
]

Page = Any  # Playwright's, which need not be installed
DESKTOP, PHONE, NARROWEST = {"width": 1120, "height": 720}, {"width": 390, "height": 844}, {"width": 320, "height": 640}


_LAY_OUT = "document.querySelectorAll('main *').forEach(one => one.style.contentVisibility = 'visible')"
"""Lays out what is not on the screen: axe takes what has no size yet for what stands behind its neighbours."""


def here(page: Page) -> str:
    """Tell which row is chosen."""
    return str(page.evaluate("document.querySelector('[data-row].here')?.id ?? ''"))


def barriers(page: Page) -> list[tuple[str, ...]]:
    """Tell what axe finds that keeps people from using the page."""
    from axe_playwright_python import sync_playwright as axe

    page.evaluate(_LAY_OUT)
    return [
        (found["id"], found["impact"], found["nodes"][0]["html"][:200], found["nodes"][0].get("failureSummary"))
        for found in axe.Axe().run(page).response["violations"]
        if found["impact"] in ("moderate", "serious", "critical")
    ]


def too_wide(page: Page) -> list[str]:
    """Tell what makes the whole page scroll sideways, if it does; tables and drawings scroll by themselves."""
    found: list[str] = page.evaluate(
        """() => document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll('body *')]
        .filter(one => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest('.scroll, .lanes'))
        .map(one => one.outerHTML.slice(0, 150))"""
    )
    return found


def screenshot(view: Any, name: str) -> None:
    """Write a picture of a page, or of an element of it, for the documents, where asked to."""
    folder = os.environ.get("BLAMESPAN_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        view.screenshot(path=f"{folder}/{name}.png")


def written(command: Any, page: Path, source: Path, option: str) -> str:
    """Write a page as a command does; gives its URL."""
    done = CliRunner().invoke(command, [str(source), option, str(page)])
    assert page.is_file(), done.output
    return page.as_uri()


def analyzed(source: Path, results: Path) -> Path:
    """Write the results of an analysis."""
    CliRunner().invoke(analyze, [str(source), "--out", str(results)])
    return results
