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
    ("content", "key"),
    [
        ('words = []\nword = ["a"]', "word"),
        ("side = 'left'", "words"),
        ('words = "a"', "words"),
        ("words = ['a', 1]", r"words\.1"),
        ("words = []\npair = ['a']", "pair"),
        ("words = []\nside = 'up'", "side"),
        ("words = []\n[by_name]\nx = 1", r"by_name\.x"),
        ("words = []\n[[parts]]\nkey = 'k'", r"parts\.0\.values"),
        ("words = []\nby_side.up = 1", r"by_side\.up"),
        ("words = [", "Invalid value"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, content: str, key: str) -> None:
    """The message says which file and which key."""
    with pytest.raises(ConfigError, match=rf"(?s)expected a data file that fits Bank at '.*bank\.toml', got .*{key}"):
        read(tmp_path, content)
