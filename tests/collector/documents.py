"""What hostile runs say, and pages as browsers read them."""

from __future__ import annotations

from html.parser import HTMLParser

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\"><svg/onload=alert(1)> ' onmouseover='alert(1)",
    "{{ 7 * 7 }} {% raw %} ${7*7} <!-- -->",
    "javascript:alert(1)",
    "]]> </style><style>*{display:none}</style>",
    "\u202e\u2066 gnirts sdrawkcab \u2069 \x00\x07\x1b[31m \ufffe",
    "&lt;b&gt; &amp; &#x3c;",
    "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627",
    "<textarea><plaintext><base href=//evil><meta http-equiv=refresh content='0;url=//evil'>",
    "x" * 5_000 + "<iframe srcdoc='<script>alert(1)</script>'>",
]
OURS = {
    *("figure", "figcaption", "defs", "marker"),
    *("html", "head", "meta", "title", "link", "script", "body", "a", "header", "button", "kbd", "main", "p", "dialog"),
    *(
        "h1",
        "h2",
        "h3",
        "dl",
        "div",
        "dt",
        "dd",
        "form",
        "label",
        "select",
        "option",
        "input",
        "table",
        "caption",
        "thead",
    ),
    *(
        "tr",
        "th",
        "td",
        "tbody",
        "span",
        "time",
        "bdi",
        "small",
        "code",
        "meter",
        "nav",
        "section",
        "b",
        "ol",
        "li",
        "q",
    ),
    *(
        "article",
        "details",
        "fieldset",
        "legend",
        "summary",
        "mark",
        "blockquote",
        "svg",
        "text",
        "g",
        "circle",
        "rect",
        "path",
        "line",
    ),
}


class Document(HTMLParser):
    """Reads a page as browsers do, and notes what could run."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.scripts: list[str | None] = []
        self.links: list[str] = []
        self.suspicious: list[tuple[str, str | None]] = []
        self.text = ""
        self.parts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        given = dict(attrs)
        if tag == "script":
            self.scripts.append(given.get("src"))
        if "href" in given:
            self.links.append(given["href"] or "")
        self.suspicious += [
            (name, value) for name, value in attrs if name.startswith("on") or name in ("style", "srcdoc")
        ]

    def handle_data(self, data: str) -> None:
        self.text += data
        self.parts.append(data)

    @property
    def said(self) -> str:
        """All words, one space apart."""
        return " ".join(" ".join(self.parts).split())
