"""Markdown of a step is drawn as such, its evidence stays marked word for word, and nothing in it is obeyed."""

from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blamespan.analysis.showing.legible import Passage, passages
from blamespan_collector.page.markdown import passages_to_html


def html(text: str, *quotes: str) -> str:
    return str(passages_to_html(passages(text, quotes)))


def words_in(markup: str) -> list[str]:
    """Read the text of HTML, as words."""
    return unescape(re.sub(r"<[^>]*>", " ", markup)).split()


def test_table_is_a_table() -> None:
    """The commonest thing that cannot be read as it is written."""
    written = html("The quarters:\n\n| quarter | euros |\n|---|---:|\n| Q1 | 1,120 |\n| Q2 | 1,310 |\n", "1,310")

    assert written.count("<tr>") == 3
    assert "<mark>1,310</mark></td>" in written


@pytest.mark.parametrize("quote", ["## Result", "- the total is 36", "| Q1 | 12 |", "x = 36", "**bold claim**"])
def test_evidence_is_marked_inside_the_block_that_it_begins(quote: str) -> None:
    """A heading stays a heading: the mark is around its words."""
    text = (
        "Intro\n\n## Result\n\n- the total is 36\n- so\n\n| q | n |\n|---|---|\n| Q1 | 12 |\n\n"
        "```\nx = 36\n```\n\na **bold claim** b\n"
    )
    marked = " ".join(re.findall(r"<mark>([^<]*)</mark>", html(text, quote)))

    assert re.findall(r"\w+", marked) == re.findall(r"\w+", quote)
    assert re.sub(r"</?mark>", "", html(text, quote)) == html(text)


def test_evidence_over_several_blocks_is_marked_in_each() -> None:
    """HTML stays well-formed: a mark ends with its paragraph."""
    written = html("# A\n\none **two** three\n\nfour five", "two** three\n\nfour")

    assert re.findall(r"<mark>([^<]*)</mark>", written) == ["two", " three", "four"]


@pytest.mark.parametrize(
    "hostile",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[press](javascript:alert(1))",
        "![spy](http://example.org/pixel.png)",
        "<http://example.org>",
        "[a]: http://example.org\n\n[a]",
        "```html\n</code></pre><script>\n```",
        "&lt;script&gt;",
    ],
)
def test_nothing_in_the_text_is_obeyed(hostile: str) -> None:
    """No element but those of Markdown's blocks, no attribute, no address."""
    written = html(f"# Heading\n\n{hostile}\n\n- a\n- b\n", hostile.split("\n")[0])

    assert set(re.findall(r"<([a-z]\w*)", written)) <= {"div", "h1", "p", "ul", "li", "pre", "code", "mark", "br", "em"}
    assert re.findall(r"<\w+ [^>]*>", written) in (['<div class="markdown">'], ['<div class="markdown">', "<br />"])


def test_what_markdown_would_swallow_stays() -> None:
    """Names with underscores, backslashes, entities and links are read as they were written."""
    text = "**Note**: call __init__ of my_module_name with C:\\temp\\*.txt, &amp; see [docs](http://example.org)."

    assert " ".join(words_in(html(text))) == text.replace("**Note**:", "Note :")


def test_plain_text_stands_as_it_is() -> None:
    """Without Markdown in it nothing is changed, and line ends stay."""
    assert html("a * b * c\n  <b>", "b * c") == "a * <mark>b * c</mark>\n  &lt;b&gt;"


@given(st.text(alphabet="ab*_`#|-> \n\\<&1.[]()!~\ue000", max_size=60), st.data())
def test_any_text_becomes_well_formed_html(text: str, data: st.DataObject) -> None:
    """Whatever is written, tags nest, and marks hold words of the evidence alone."""
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    parts = (Passage(text[:start]), Passage(text[start:end], is_evidence=True), Passage(text[end:]))
    open_tags: list[str] = []
    written = str(passages_to_html(parts))
    for closing, name, rest in re.findall(r"<(/?)([a-z]\w*)([^>]*)>", written):
        if closing:
            assert open_tags.pop() == name
        elif name not in ("br", "hr") and not rest.endswith("/"):
            open_tags.append(name)

    marked = "".join(re.findall(r"<mark>(.*?)</mark>", written, re.DOTALL))
    assert open_tags == []
    assert set(re.findall(r"[ab1]", unescape(marked))) <= set(re.findall(r"[ab1]", text[start:end]))
