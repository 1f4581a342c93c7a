"""The templates: everything that becomes HTML goes through here, escaped."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from blamespan.analysis.showing.claims import last_word
from blamespan.analysis.showing.html_pages import digest_source, load_templates
from blamespan.analysis.showing.verdicts import opinion_text, verification_text
from blamespan_collector.page.claim_graph import draw_claims
from blamespan_collector.page.folding import fold_texts
from blamespan_collector.page.lanes import lanes_of
from blamespan_collector.page.markdown import passages_to_html

_FOLDER = Path(__file__).parent
ASSETS = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
"""Files that pages are made of, and what they are."""


def render(template: str, **values: Any) -> str:
    """Fill a template; every value is text and is escaped."""
    return _environment().get_template(template).render(**values)


@cache
def asset(name: str) -> bytes:
    """Read one of `ASSETS`."""
    return (_FOLDER / "static" / name).read_bytes()


def asset_policy() -> str:
    """Write the policy of a file that holds its own style and script: these alone, by their digests."""
    style, script = digest_source(asset("page.css")), digest_source(asset("page.js"))
    return f"default-src 'none'; style-src {style}; script-src {script}; base-uri 'none'"


@cache
def _environment() -> Environment:
    environment = load_templates(_FOLDER / "templates")
    environment.filters.update(
        html=passages_to_html,
        draw_claims=draw_claims,
        fold=fold_texts,
        lanes=lanes_of,
        last_word=last_word,
        verified=verification_text,
        opinion=opinion_text,
        pairs=lambda values: [(value, value) for value in values],
    )
    environment.globals["inline"] = _inline
    return environment


def _inline(name: str) -> Markup:
    """Put one of our own files into a page as it stands, so that its digest is the policy's."""
    return Markup(asset(name).decode())  # noqa: S704  # ours: no text of a trace comes near
