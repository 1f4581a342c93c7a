"""Write the tables of figures into README.md and docs/ from docs/figures.json, and measure rows of it anew.

    scripts/figures [--data FOLDER] [ROW ...]

A row says what it is about, which command measures it, and where the figures stand in the JSON that the command prints
(`blamespan lab train` writes it as log.json). DATA in a command is the folder of `--data`. Measuring a row keeps its
figures with their 95 % intervals, the digest of the weights, the machine and the day.

A page has a table between `<!-- figures: NAME -->` and `<!-- end of figures -->`, and a figure within a sentence
between `<!-- ROW/FIGURE -->` and `<!---->`.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

Row: TypeAlias = dict[str, Any]

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "figures.json"
_TRACER = ROOT / "tracer_model" / "blamespan_tracer"
_WEIGHTS = {
    "auto": _TRACER / "weights" / "auto.safetensors",
    "lexical": _TRACER / "alternatives" / "weights" / "lexical.safetensors",
}
"""The bundled weights of each tracer."""
_BLOCK = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
_INLINE = re.compile(r"(<!-- ([\w-]+)/(\w+) -->).*?(<!---->)", re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser("scripts/figures", description=__doc__.partition("\n\n")[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", help="to measure anew")
    parser.add_argument("--data", type=Path, default=Path("data"), metavar="FOLDER", help="DATA in the commands (data)")
    parser.add_argument("--list", action="store_true", help="print the rows and their commands")
    arguments = parser.parse_args()
    rows = read_rows()
    if arguments.list:
        sys.stdout.writelines(f"{name}: {row['command']}\n" for name, row in rows.items())
        return
    if unknown := [name for name in arguments.rows if name not in rows]:
        parser.error(f"expected rows of {', '.join(rows)}; got {', '.join(unknown)}")
    for name in arguments.rows:
        rows[name] |= _measure(rows[name], arguments.data)
        _write(rows)  # after each: what was measured is not lost when the next one fails
    for page in PAGES:
        page.write_text(fill(page.read_text(), rows))


def read_rows() -> dict[str, Row]:
    """Read docs/figures.json."""
    rows: dict[str, Row] = json.loads(FIGURES.read_text())
    return rows


def _write(rows: Mapping[str, Row]) -> None:
    text = json.dumps(rows, indent=2, ensure_ascii=False)
    lists_on_one_line = re.sub(r"\[\s+([^][{}]*?)\s+\]", lambda one: f"[{' '.join(one[1].split())}]", text)
    FIGURES.write_text(lists_on_one_line + "\n")


def shipped_digest(command: str) -> str:
    """Return the digest by which verdicts name the bundled weights of the tracer that *command* asks."""
    words = command.split()
    return _digest(_WEIGHTS[words[words.index("--tracer") + 1] if "--tracer" in words else "auto"])


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def find(document: Any, path: str) -> Any:
    """Return what stands at a path such as `figures/tracer=auto,processes=1/per_s/0`.

    Raises:
        KeyError: if there is none.
    """
    for part in path.split("/"):
        if "=" in part:
            wanted = dict(pair.split("=") for pair in part.split(","))
            matches = [item for item in document if all(str(item[key]) == value for key, value in wanted.items())]
            if len(matches) != 1:
                raise KeyError(f"expected one item with {part}, got {len(matches)}")
            document = matches[0]
        else:
            document = document[int(part) if isinstance(document, list) else part]
    return document


def _measure(row: Row, data: Path) -> Row:
    """Run the command of a row and return what it adds to it."""
    from tests.benchmarks.machine import describe

    document, weights = _run(row["command"], data.resolve())
    machine = describe()
    return {
        "figures": {name: _rounded([find(document, path) for path in paths]) for name, paths in row["take"].items()},
        "weights": weights,
        "machine": f"{machine['cores']} cores, {machine['system']}, load {machine['load']}",
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }


@functools.cache
def _run(command: str, data: Path) -> tuple[Any, str]:
    """Return the document of a command, run once for all of its rows, and the digest of the weights that it asks."""
    words = [word.replace("DATA", str(data)) for word in shlex.split(command)]
    with tempfile.TemporaryDirectory() as folder:
        is_training = words[:2] == ["blamespan", "lab", "train"]
        words += ["--out", folder] if is_training else ["--json"]
        words = [file for word in words for file in (sorted(map(str, ROOT.glob(word))) if "*" in word else [word])]
        called = [sys.executable, "-m", *words] if words[0] == "blamespan" else words
        done = subprocess.run(called, stdout=subprocess.PIPE, text=True, cwd=ROOT, check=words[0] == "blamespan")
        document = json.loads(Path(folder, "log.json").read_text() if is_training else done.stdout)
    if is_training:
        return document, document["digest"]
    own = next((Path(word) for word in words if word.endswith(".safetensors")), None)
    return document, _digest(own) if own else shipped_digest(command)


def _rounded(values: Iterable[Any]) -> list[float]:
    """Return a figure, or a figure and the ends of its interval, or the values of a range."""
    flat = [one for value in values for one in (value if isinstance(value, list) else [value])]
    return [round(value, 1) for value in flat]


def fill(text: str, rows: Mapping[str, Row]) -> str:
    """Return a page with its tables and figures written anew."""
    text = _BLOCK.sub(lambda block: f"{block[1]}{_TABLES[block[2]](rows)}{block[3]}", text)
    return _INLINE.sub(lambda one: f"{one[1]}{_inline(rows[one[2]], one[3])}{one[4]}", text)


def _inline(row: Row, name: str) -> str:
    if name not in row["figures"]:
        raise KeyError(f"expected one of {', '.join(row['figures'])} in docs/figures.json, got {name}")
    return _range(row) if row["table"] == "costs" else _interval(row, name, "{:.1f}")


def _short(rows: Mapping[str, Row]) -> str:
    """Write a line for each row that names steps; beside it the sound runs that `NAME-sound` is about."""
    head = "| runs, none of which it learnt from | n | decisive step | agent | sound ones called failed | row |"
    lines = [head, "|---|---|---|---|---|---|"]
    verdicts = {name: row for name, row in rows.items() if row["table"] == "verdicts"}
    for name, row in verdicts.items():
        if "step" in row["figures"]:
            sound = verdicts.get(f"{name}-sound", row)
            cells = [_interval(*of, "{:.0f}", "-") for of in ((row, "step"), (row, "agent"), (sound, "alarms"))]
            lines.append(f"| {row['about']} | {row['figures']['n'][0]:.0f} | {' | '.join(cells)} | `{name}` |")
    older = [f"`{name}`" for name, row in verdicts.items() if not _is_of_shipped(row)]
    note = f"\nWith other weights than the package has: {', '.join(older)}.\n" if older else ""
    return "\n".join([*lines, note])


def _exact(rows: Mapping[str, Row]) -> str:
    head = "| row | n | decisive step | agent | among the three most blamed | called failed | command | measured |"
    lines = [head, "|---|---|---|---|---|---|---|---|"]
    for name, row in rows.items():
        if row["table"] == "verdicts":
            cells = [_interval(row, figure, "{:.1f}") for figure in ("step", "agent", "top3", "alarms")]
            about = f"`{name}` | {row['figures']['n'][0]:.0f}"
            lines.append(f"| {about} | {' | '.join(cells)} | `{row['command']}` | {_when(row)} |")
    return "\n".join([*lines, ""])


def _costs(rows: Mapping[str, Row]) -> str:
    lines = ["| row | the default tracer | measured by | measured |", "|---|---|---|---|"]
    for name, row in rows.items():
        if row["table"] == "costs":
            when = f"{_when(row)}; {row['machine']}"
            lines.append(f"| `{name}` | {_range(row)} {row['about']} | `{row['command']}` | {when} |")
    return "\n".join([*lines, ""])


def _judge(rows: Mapping[str, Row]) -> str:
    lines = ["| what | figure | n | row |", "|---|---|---|---|"]
    for name, row in rows.items():
        if row["table"] == "judge":
            lines.append(f"| {row['about']} | {_range(row)} | {row['figures']['n'][0]:.0f} | `{name}` |")
    return "\n".join([*lines, ""])


_TABLES: Mapping[str, Callable[[Mapping[str, Row]], str]] = {
    "short": _short,
    "exact": _exact,
    "costs": _costs,
    "judge": _judge,
}
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*/*.md")))


def _range(row: Row) -> str:
    ends = {min(row["figures"]["value"]), max(row["figures"]["value"])}
    return " to ".join(f"{value:,.0f}" for value in sorted(ends))


def _interval(row: Row, name: str, form: str, to: str = " to ") -> str:
    figure, *ends = [form.format(value) for value in row["figures"].get(name, ())] or ["-"]
    return f"{figure} ({to.join(ends)})" if ends else figure


def _is_of_shipped(row: Row) -> bool:
    """Check whether a row was measured with the bundled weights, or names its own."""
    return ".safetensors" in row["command"] or row["weights"] == shipped_digest(row["command"])


def _when(row: Row) -> str:
    """Say when and with which weights a row was measured, and if the bundled ones are others."""
    other = "" if _is_of_shipped(row) else f", not the bundled `{shipped_digest(row['command'])}`"
    return f"{row['date']}, weights `{row['weights']}`{other}"


if __name__ == "__main__":
    main()
