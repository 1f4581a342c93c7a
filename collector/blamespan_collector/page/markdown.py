"""Text of a step that is written in Markdown, as HTML: headings, lists, tables and code, with evidence marked.

The text is untrusted. HTML in it is text, links and images stay as they are written, and nothing is loaded. What
Markdown would swallow stays visible where it may mean something: backslashes, entities, underscores in names.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape

from blamespan.analysis.showing.legible import Passage

_MAX_CHARS = 50_000
"""Longer text is shown as it is written."""
_BEGIN, _END = "\ue000", "\ue001"
"""Stand for the beginning and the end of evidence while Markdown is read: of Unicode's private use."""
_MARKS = re.compile(f"([{_BEGIN}{_END}])")
_BLOCK_PREFIX = re.compile(
    r"[ \t]*(?:>[ \t]?)*(?:#{1,6}[ \t]+|[-*+][ \t]+|\d{1,9}[.)][ \t]+|\|[ \t]*|(?:```|~~~).*\n)?"
)
"""What makes a line a heading, an item, a row or code: a mark before it would undo that."""
_MARKDOWN = re.compile(
    r"^[ \t]*#{1,6}[ \t]+\S"  # a heading
    r"|^[ \t]*(?:```|~~~)"  # code
    r"|^[ \t]*\|?[ \t]*:?-{3,}:?[ \t]*\|"  # the line below a table's head
    r"|^[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]+\S.*\n+[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]+\S"  # two items of a list
    r"|\*\*[^\s*][^*\n]*\*\*",  # bold
    re.MULTILINE,
)


def passages_to_html(passages: Sequence[Passage]) -> Markup:
    """Write passages as HTML, evidence in `<mark>`; text that is no Markdown stands as it is."""
    text = "".join(passage.text for passage in passages)
    if len(text) > _MAX_CHARS or not _MARKDOWN.search(text):
        return Markup("").join(
            Markup("<mark>{}</mark>").format(passage.text) if passage.is_evidence else escape(passage.text)
            for passage in passages
        )
    drawn = _reader().render(_with_marks(passages))
    return Markup(f'<div class="markdown">{drawn}</div>')  # noqa: S704  # the renderer escapes every text


def _with_marks(passages: Sequence[Passage]) -> str:
    """Put marks around evidence, inside the heading, item or row that it begins."""
    written = ""
    for passage in passages:
        text = _MARKS.sub("\N{REPLACEMENT CHARACTER}", passage.text)
        if not passage.is_evidence or not text.strip():
            written += text
            continue
        is_line = not written or written.endswith("\n")
        prefix = _BLOCK_PREFIX.match(text) if is_line else None
        start = prefix.end() if prefix else 0
        end = max(start, len(text.rstrip(" \t\n|")))
        written += f"{text[:start]}{_BEGIN}{text[start:end]}{_END}{text[end:]}"
    return written


class _Renderer(RendererHTML):
    """Writes HTML; a `<mark>` ends with the text it began in and begins anew in the next one."""

    def __init__(self, parser: Any = None) -> None:
        super().__init__(parser)
        self._is_marked = False

    def render(self, tokens: Sequence[Token], options: Any, env: Any) -> str:
        self._is_marked = False
        return str(super().render(tokens, options, env))

    def text(self, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        return self._escape(tokens[index].content)

    def code_inline(self, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        return f"<code>{self._escape(tokens[index].content)}</code>"

    def code_block(self, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        return f"<pre><code>{self._escape(tokens[index].content)}</code></pre>\n"

    def fence(self, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        return self.code_block(tokens, index, options, env)

    def em_open(self, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        return self._emphasis(tokens[index], "<em>")

    def em_close(self, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        return self._emphasis(tokens[index], "</em>")

    def strong_open(self, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        return self._emphasis(tokens[index], "<strong>")

    def strong_close(self, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        return self._emphasis(tokens[index], "</strong>")

    def _emphasis(self, token: Token, tag: str) -> str:
        return self._escape(token.markup) if "_" in token.markup else tag

    def _escape(self, text: str) -> str:
        written = ""
        for part in _MARKS.split(text):
            if part in (_BEGIN, _END):
                self._is_marked = part == _BEGIN
            elif part:
                written += f"<mark>{html.escape(part)}</mark>" if self._is_marked else html.escape(part)
        return written


@cache
def _reader() -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": False, "breaks": True}, renderer_cls=_Renderer).enable("table")
    return reader.disable(
        ["link", "image", "autolink", "reference", "html_inline", "html_block", "escape", "entity", "lheading"]
    )
