"""The file of schemata: people edit it, several programs write it, and nothing of it gets lost."""

from __future__ import annotations

import logging
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blamespan.errors import ConfigError
from blamespan_tracer.schemata import ErrorSchema, SchemataFile, SeenFailure, Signature, schemata_in_use
from blamespan_tracer.schemata.file import write_schema
from blamespan_tracer.schemata.schema import read_schema

ONE = ErrorSchema(
    "planner-invents-number",
    Signature(
        "message", agent="planner", findings=("near: long number", "check sum-holds, fail"),
        wording="it has <number> rooms", before="task", after="message by another",
    ),
    "the planner invents a number", "blamespan:X3", 0.75, "It has 4236 rooms.",
    (SeenFailure("ab" * 16, 3, "2026-11-21T08:00:00Z", "label ann"),),
)  # fmt: skip
TWO = ErrorSchema("second", Signature(error="TimeoutError"))


def test_what_is_added_is_read_again(tmp_path: Path) -> None:
    """A file need not be there; schemata stand in the order in which they were added."""
    file = SchemataFile(tmp_path / "deep" / "schemata.toml")

    assert file.read() == ()
    file.add(ONE)
    file.add(TWO)

    assert file.read() == (ONE, TWO)
    assert sorted(path.name for path in file.path.parent.iterdir()) == [".schemata.toml.lock", "schemata.toml"]


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_is_written_so_that_it_is_read_again(title: str, wording: str) -> None:
    """Quotes, control characters and brackets of TOML in a text stay text."""
    schema = replace(ONE, title=title, signature=replace(ONE.signature, wording=wording, findings=(title,)))

    read = read_schema(tomllib.loads(write_schema(schema))["schema"][0], "schema")

    assert read.title == title.encode("utf-8", "replace").decode()
    assert read.signature.wording == wording.encode("utf-8", "replace").decode()


def test_what_people_wrote_beside_schemata_stays(tmp_path: Path) -> None:
    """To note that one was seen leaves the comments and the form of the others alone."""
    file = SchemataFile(tmp_path / "schemata.toml")
    file.path.write_text(f"# ours\n\n{write_schema(ONE)}\n# the second, by ann\n{write_schema(TWO)}# end\n")

    for _ in range(2):
        file.add_seen("planner-invents-number", SeenFailure("cd" * 16, 1))
    changed = file.path.read_text()

    assert [changed.count(text) for text in ("# ours", "# the second, by ann", "# end", "cd" * 16)] == [1] * 4
    assert file.read() == (replace(ONE, seen=(*ONE.seen, SeenFailure("cd" * 16, 1))), TWO)


def test_a_text_that_looks_like_a_schema_does_not_lead_a_writer_astray(tmp_path: Path) -> None:
    """A title of several lines may hold `[[schema]]`: what is written says what was meant, or nothing is written."""
    file = SchemataFile(tmp_path / "schemata.toml")
    body = write_schema(ONE).replace('title = "the planner invents a number"', "title = '''a\n[[schema]]\nb'''")
    file.path.write_text(body + write_schema(TWO))

    file.add_seen("second", SeenFailure("cd" * 16, 1))

    assert [schema.title for schema in file.read()] == ["a\n[[schema]]\nb", TWO.title]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[schema", r"expected schemata in TOML at .*schemata.toml'"),
        ("[[schemata]]\nname = 'a'\n", "unknown key 'schemata'. Nearest known: 'schema'"),
        ("[[schema]]\nname = 'a'\ntreshold = 0.5\n", "schema 1: unknown key 'treshold'. Nearest known: 'threshold'"),
        ("[[schema]]\nname = 'A b'\n", "expected a name of small letters"),
        ("[[schema]]\nname = 'a'\nmode = 'mast:FM-9.9'\nsignature = { error = 'E' }\n", "FM-9.9"),
        ("[[schema]]\nname = 'a'\nthreshold = 0\nsignature = { error = 'E' }\n", "expected a threshold above 0"),
        ("[[schema]]\nname = 'a'\nthreshold = true\nsignature = { error = 'E' }\n", "expected a threshold above 0"),
        ("[[schema]]\nname = 'a'\nsignature = { agnet = 'x' }\n", "unknown key 'agnet'. Nearest known: 'agent'"),
        ("[[schema]]\nname = 'a'\nsignature = { agent = 'x' }\n", "expected findings, a wording or an error to know"),
        ("[[schema]]\nname = 'a'\nsignature = { kind = 'shout', error = 'E' }\n", "kind: expected one of message"),
        ("[[schema]]\nname = 'a'\nsignature = { findings = 'x' }\n", "expected findings as a list"),
        ("[[schema]]\nname = 'a'\n", r"schema 1 \('a'\): signature: expected a table"),
        ("schema = 3\n", "expected up to 2000 tables"),
        ("[[schema]]\nname = 'a'\nsignature = { error = 'E' }\n" * 2, "expected every name once, got 'a' twice"),
        ("[[schema]]\nname = 'a'\nsignature = { error = 'E' }\nseen = [{ step = 1 }]\n", "32 hex digits"),
        ("\x00", "expected schemata in TOML"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(tmp_path: Path, text: str, said: str) -> None:
    """An error says where, what was expected and what came; the nearest known key is named."""
    file = SchemataFile(tmp_path / "schemata.toml")
    file.path.write_text(text)

    for act in (file.read, lambda: file.add(ONE)):
        with pytest.raises(ConfigError, match=said):
            act()
    assert file.path.read_text() == text


def test_a_name_is_taken_once(tmp_path: Path) -> None:
    """Who adds a second schema of a name is told to choose another."""
    file = SchemataFile(tmp_path / "schemata.toml")
    file.add(ONE)

    with pytest.raises(ConfigError, match="expected a name that is not in"):
        file.add(ONE)


def test_two_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    """Two processes add fifteen schemata each: all thirty are there, and the file can be read at any time."""
    path = tmp_path / "schemata.toml"
    program = (
        "import sys\nfrom pathlib import Path\n"
        "from blamespan_tracer.schemata import ErrorSchema, SchemataFile, Signature\n"
        "for number in range(15):\n"
        "    SchemataFile(Path(sys.argv[1])).add(ErrorSchema(f'{sys.argv[2]}-{number}', Signature(error='E')))\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", program, str(path), name]) for name in ("a", "b")]
    while any(writer.poll() is None for writer in writers):
        SchemataFile(path).read()

    assert [writer.returncode for writer in writers] == [0, 0]
    assert len(SchemataFile(path).read()) == 30


def test_damaged_file_costs_one_error_and_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where runs are judged a damaged file is said once; mended, it is read again. `none` reads no file."""
    path = tmp_path / "schemata.toml"
    path.write_text("[[schema")
    monkeypatch.setenv("BLAMESPAN_SCHEMATA", str(path))

    with caplog.at_level(logging.ERROR):
        found = [schemata_in_use() for _ in range(3)]
    path.write_text(write_schema(ONE))

    assert found == [(), (), ()]
    assert len(caplog.records) == 1
    assert schemata_in_use() == (ONE,)
    monkeypatch.setenv("BLAMESPAN_SCHEMATA", "none")
    assert schemata_in_use() == ()
    monkeypatch.setenv("BLAMESPAN_SCHEMATA", str(tmp_path / "nothing.toml"))
    assert schemata_in_use() == ()
