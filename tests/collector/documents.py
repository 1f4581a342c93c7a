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
_OURS = """
a article b bdi blockquote body button caption circle code dd defs details dialog div dl dt fieldset figcaption figure
form g h1 h2 h3 head header html input kbd label legend li line link main mark marker meta meter nav ol option p path q
rect script section select small span summary svg table tbody td text th thead time title tr
"""
OURS = set(_OURS.split())
"""The elements that pages of ours hold."""


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
