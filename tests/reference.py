"""Write the pages of reference that the code knows: commands, settings, attributes, metrics, checks, modes, constructs.

    python -m tests.reference FOLDER

`scripts/docs` runs this before it builds the site. The pages are never committed, so they cannot be out of date.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path

import click

from blamespan import conventions
from blamespan.analysis.showing.modes import modes_page
from blamespan.cli import cli
from blamespan.plugins import load_entry, plugins
from blamespan.variables import VARIABLES
from tests.constructs import TESTS, constructs
from tests.constructs import page as constructs_page
from tests.integrations.dialects.table import table

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "reference" / "generated"
INTERNAL = {"BLAMESPAN_TRACER_DEADLINE_S"}
"""Variables that one process of ours sets for another."""


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, write in PAGES.items():
        (folder / f"{name}.md").write_text(write(), encoding="utf-8")
    sys.stderr.write(f"wrote {len(PAGES)} pages to {folder}\n")


def write_commands() -> str:
    """Write the help of every command, and of every command of a group."""
    parts = ["# Commands\n\n`blamespan COMMAND --help` prints the same.\n"]
    for words, command in walk(cli, ("blamespan",)):
        context = click.Context(command, info_name=" ".join(words), max_content_width=100, terminal_width=100)
        parts.append(f"\n## {' '.join(words)}\n\n```text\n{command.get_help(context)}\n```\n")
    return "".join(parts)


def walk(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command with its words; a group before what it holds."""
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=words[-1])
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from walk(inner, (*words, name))


def write_settings() -> str:
    """Write every setting of the collector, with its variable and default."""
    from blamespan_collector.options import list_settings

    lines = ["# Settings of the collector", "", "`blamespan collect --help-settings` prints the same."]
    for title, settings in list_settings():
        rows = [(f"`{name}`", f"`{variable}`", default, text) for name, variable, default, text in settings]
        lines += ["", f"## {title}", "", *_table("key in the file | variable | default | meaning", rows)]
    return "\n".join(lines) + "\n"


def write_variables() -> str:
    """Write every variable that is no setting of the collector, with the pages that say what it means."""
    rows = [
        (f"`{name}`", ", ".join(f"[{page.stem}](../../{page.relative_to(ROOT / 'docs')})" for page in pages))
        for name, pages in variables().items()
    ]
    heading = (
        "# Variables\n\nThe collector has [settings](settings.md) with variables of their own. "
        "`blamespan.instrument()` and the commands read these, too. `*` stands for the names that the page lists. A "
        "name that is none of these, but like one, is named on stderr or in the log.\n\n"
    )
    return heading + "\n".join(_table("variable | explained in", rows)) + "\n"


@cache
def variables() -> dict[str, list[Path]]:
    """Return every variable but the collector's settings, with the pages by hand that name it."""
    from blamespan_collector.options import list_settings
    from blamespan_tracer.alternatives.endpoint import JUDGE, MANIPULATOR

    endpoints = {JUDGE, MANIPULATOR}
    names = {name for name in VARIABLES if not name.startswith(tuple(endpoints))}
    names -= {variable for _, settings in list_settings() for _, variable, *_ in settings}
    documents = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*/*.md"))}
    return {
        f"{name}_*" if name in endpoints else name: [
            page
            for page, text in documents.items()
            if re.search(rf"{name}_" if name in endpoints else rf"{name}(?![A-Z_])", text)
        ]
        for name in sorted((names | endpoints) - INTERNAL)
    }


def write_attributes() -> str:
    """Write every word on the wire that has a meaning of its own, from the docstrings in `conventions.py`."""
    body = ast.parse(Path(conventions.__file__).read_text(encoding="utf-8")).body
    rows = []
    for statement, following in pairwise(body):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        value = getattr(conventions, statement.target.id)
        has_text = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
        if isinstance(value, str) and has_text:
            rows.append((f"`{value}`", " ".join(str(following.value.value).split())))  # type: ignore[attr-defined]  # checked above
    heading = "# Attributes and names on the wire\n\nAs `sdk/blamespan/conventions.py` defines them.\n\n"
    return heading + "\n".join(_table("word | meaning", rows)) + "\n"


def write_metrics() -> str:
    """Write every metric that a collector shows once its worker has spoken."""
    from blamespan_collector.receiving.intake import IntakeCounts
    from blamespan_collector.service.metrics import _COUNT_HELP, _GAUGE_HELP, Metrics
    from blamespan_collector.worker.counts import WorkerCounts

    metrics, worker = Metrics(IntakeCounts()), WorkerCounts().message()
    counts = dict.fromkeys(_COUNT_HELP, 0) | worker["counts"]
    metrics.hear({**worker, "counts": counts, "gauges": dict.fromkeys(_GAUGE_HELP, 0)}, 0)
    found = {metric.name: metric for metric in metrics.collect()}
    rows = [(f"`{name}`", metric.type, metric.documentation) for name, metric in sorted(found.items())]
    heading = "# Metrics of the collector\n\nAt `/metrics`. A counter's name ends in `_total` there.\n\n"
    return heading + "\n".join(_table("metric | kind | meaning", rows)) + "\n"


def write_checks() -> str:
    """Write every bundled check with its mode, and whether it raises the alarm by itself."""
    from blamespan_tracer.checks import CHECKS
    from blamespan_tracer.checks.alarms import raises_alarm, sound_rates

    rows = [
        (
            f"`{check.name}`",
            check.title + (" A symptom: blamed only where no other check is broken." if check.is_symptom else ""),
            f"`{check.mode}`" if check.mode else "by its source",
            f"{100 * sound_rates()[check.name]:.1f}" if check.name in sound_rates() else "-",
            "yes" if raises_alarm(check) else "no",
        )
        for check in CHECKS
    ]
    heading = (
        "# Bundled checks\n\n`blamespan lab checks` prints the same. A check raises the alarm by itself where at most "
        "1 % of sound runs break it.\n\n"
    )
    return heading + "\n".join(_table("check | rule | error mode | sound runs that break it, % | alarm", rows)) + "\n"


def write_formats() -> str:
    """Write every format that an importer reads."""
    importers = {name: load_entry(entry) for name, entry in plugins("blamespan.importers").items()}
    rows = [(f"`{name}`", importer.description) for name, importer in importers.items()]
    heading = "# File formats\n\nThe format is told by the content of a file, not by its name.\n\n"
    return heading + "\n".join(_table("`--format` | what it reads, and what it loses", rows)) + "\n"


def write_dialects() -> str:
    """Write what each recording of another instrumentation keeps of its run."""
    heading = (
        "# What dialects keep\n\nRecorded from the released packages (`scripts/record-dialects`) and compared with "
        "what blamespan records of the same program. What is lost is not in the spans.\n\n"
    )
    return heading + table() + "\n"


def write_constructs() -> str:
    """Write what is recorded of each construct of each framework."""
    return constructs_page(constructs(TESTS))


def _table(heading: str, rows: list[tuple[str, ...]]) -> list[str]:
    columns = heading.count("|") + 1
    cells = [" | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) for row in rows]
    return [f"| {heading} |", "|" + "---|" * columns, *(f"| {row} |" for row in cells)]


PAGES: Mapping[str, Callable[[], str]] = {
    "attributes": write_attributes,
    "checks": write_checks,
    "commands": write_commands,
    "constructs": write_constructs,
    "dialects": write_dialects,
    "error-modes": modes_page,
    "formats": write_formats,
    "metrics": write_metrics,
    "settings": write_settings,
    "variables": write_variables,
}
"""The generated pages: name of the file without `.md`, and what writes it."""


if __name__ == "__main__":
    main()
