"""Data files are read strictly: whatever does not fit is answered with the file and the key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from blamespan.errors import ConfigError
from blamespan_lab.make.data_files import read_data_file


@dataclass(frozen=True)
class Part:
    key: str
    values: tuple[str | float, ...]


@dataclass(frozen=True)
class Bank:
    words: tuple[str, ...]
    pair: tuple[str, int] = ("", 0)
    by_name: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()
    side: Literal["left", "right"] = "left"
    by_side: Mapping[Literal["left", "right"], int] = field(default_factory=dict)


def read(folder: Path, content: str) -> Bank:
    path = folder / "bank.toml"
    path.write_text(content, encoding="utf-8")
    return read_data_file(Bank, path)


def test_file_is_read_into_its_record(tmp_path: Path) -> None:
    """Every type of field has its form in TOML."""
    bank = read(
        tmp_path,
        'words = ["a", ""]\npair = ["b", 2]\nside = "right"\n[by_name]\n"x-1" = ["c"]\n'
        '[[parts]]\nkey = "k"\nvalues = ["d", 1.5]\n',
    )

    assert bank == Bank(("a", ""), ("b", 2), {"x-1": ("c",)}, (Part("k", ("d", 1.5)),), "right")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('word = ["a"]', r"bank\.toml: unknown key 'word'\. Did you mean 'words'\?"),
        ("side = 'left'", r"bank\.toml: expected the key 'words', got none\. Add it in '.*bank\.toml'"),
        ('words = "a"', r"bank\.toml: expected words as tuple\[str, \.\.\.\], got 'a'\. Correct it in '.*bank\.toml'"),
        ("words = ['a', 1]", r"bank\.toml: expected words\[1\] as str, got 1\. Correct it"),
        ("words = []\npair = ['a']", r"bank\.toml: expected pair as tuple\[str, int\], got \['a'\]\. Correct it"),
        ("words = []\nside = 'up'", r"bank\.toml: expected side as Literal\['left', 'right'\], got 'up'\. Correct it"),
        (
            "words = []\n[by_name]\nx = 1",
            r"bank\.toml: expected by_name\.x as tuple\[str, \.\.\.\], got 1\. Correct it",
        ),
        ("words = []\n[[parts]]\nkey = 'k'", r"bank\.toml: expected the key 'parts\[0\]\.values', got none\. Add it"),
        (
            "words = []\nby_side.up = 1",
            r"bank\.toml: expected the name of by_side\.up as Literal\['left', 'right'\], got",
        ),
        ("words = [", r"expected a data file in TOML at '.*bank\.toml', got .*\. Install blamespan anew"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, content: str, message: str) -> None:
    """The message says which file, which key, what was expected and what came."""
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, content)
