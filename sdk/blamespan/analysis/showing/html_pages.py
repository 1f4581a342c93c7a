"""HTML from templates, for every page: values are escaped, and drawings are shapes that a template draws."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from blamespan._version import __version__
from blamespan.analysis.showing import legible

_SHARED = Path(__file__).parent / "templates"


@dataclass(frozen=True, slots=True)
class SvgElement:
    """An element of SVG.

    Attributes:
        tag: `rect`, `line`, `circle` or `text`.
        attributes: By name; a float is written with one decimal.
        text: What stands in it.
        title: What is shown where somebody points at it.
    """

    tag: str
    attributes: Mapping[str, str | float]
    text: str = ""
    title: str = ""

    @property
    def written_attributes(self) -> dict[str, str]:
        """The attributes as they are written."""
        return {name: _write_number(value) for name, value in self.attributes.items()}


@dataclass(frozen=True, slots=True)
class ShapeGroup:
    """Shapes that belong together; its title is shown where somebody points at any of them."""

    shapes: Sequence[SvgElement]
    title: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A drawing in SVG, with a name for those who cannot see it; sizes in pixels."""

    title: str
    width: int
    height: int
    groups: Sequence[ShapeGroup]


def load_templates(folder: Path) -> Environment:
    """Return the templates of a folder, and the shared ones; every value is text and is escaped.

    `{% from "drawing.html" import draw %}` draws a `Drawing`. Filters are the functions of `showing.legible`.
    """
    environment = Environment(
        loader=FileSystemLoader((folder, _SHARED)),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in (
        "clean",
        "counted",
        "dollars",
        "duration",
        "iso_time",
        "number",
        "percent",
        "printable",
        "size",
        "when",
    ):
        environment.filters[name] = getattr(legible, name)
    environment.globals["version"] = __version__
    return environment


def digest_source(source: bytes) -> str:
    """Return how a content security policy names a style or a script that stands in the page."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(source).digest()).decode()}'"


def _write_number(value: str | float) -> str:
    return f"{value:.1f}" if isinstance(value, float) else str(value)
