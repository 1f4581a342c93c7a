"""Pages are made of templates that escape all they are given."""

from __future__ import annotations

from pathlib import Path

import pytest
from jinja2 import UndefinedError

from blamespan.analysis.showing.html_pages import Drawing, ShapeGroup, SvgElement, digest_source, load_templates

HOSTILE = "\"'><script>alert(1)</script>\x1b[31m\u202e"
SAFE = "&#34;&#39;&gt;&lt;script&gt;alert(1)&lt;/script&gt;[31m"


def test_values_and_drawings_are_escaped(tmp_path: Path) -> None:
    """Hostile text is text in an element, in an attribute, in a shape and in its title."""
    (tmp_path / "page.html").write_text(
        '{% from "drawing.html" import draw %}{{ draw(drawing) }}'
        '<p title="{{ text | printable }}">{{ text | printable }}</p>'
    )
    shape = SvgElement("text", {"class": HOSTILE, "x": 1.25}, HOSTILE, HOSTILE)
    drawing = Drawing(HOSTILE, 100, 20, [ShapeGroup([shape], HOSTILE)])

    page = load_templates(tmp_path).get_template("page.html").render(text=HOSTILE, drawing=drawing)

    assert "<script" not in page
    assert page.count(SAFE) == 6
    assert 'x="1.2"' in page


def test_value_that_is_missing_is_an_error(tmp_path: Path) -> None:
    """A template never shows nothing where it was given nothing."""
    (tmp_path / "page.html").write_text("{{ text }}")

    with pytest.raises(UndefinedError):
        load_templates(tmp_path).get_template("page.html").render()


def test_policy_names_a_source_by_its_digest() -> None:
    """As `sha256` and base64, in quotation marks."""
    assert digest_source(b"") == "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
