"""Tables that users write are read strictly: what is wrong is named, what is right passes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from blamespan.errors import ConfigError
from blamespan.strict_tables import read_choice, read_flag, read_text, read_whole_number, refuse_unknown_keys


@pytest.mark.parametrize(
    ("read", "value", "message"),
    [
        (lambda value: refuse_unknown_keys(value, ("tools", "name"), "p.toml"), {"tool": 1}, "Nearest known: 'tools'"),
        (lambda value: read_text(value, "p.toml"), 3, "p.toml: expected a text, got 3. Put it in quotes"),
        (lambda value: read_flag(value, "p.toml"), 1, "expected true or false, got 1"),
        (lambda value: read_whole_number(value, "p.toml"), True, "expected a whole number from 0, got True"),
        (lambda value: read_whole_number(value, "p.toml", least=1, most=9), 10, "from 1 to 9, got 10"),
        (
            lambda value: read_choice(value, ("run", "day"), "p.toml"),
            "dya",
            "one of run, day, got 'dya'. Nearest: 'day'",
        ),
        (lambda value: read_choice(value, ("run", "day"), "p.toml"), 3, "expected one of run, day, got 3"),
    ],
)
def test_what_is_wrong_is_refused_and_named(read: Callable[[object], object], value: object, message: str) -> None:
    """The message says where, what was expected, what came, and what is nearest."""
    with pytest.raises(ConfigError) as error:
        read(value)

    assert message in str(error.value)


def test_what_is_right_passes_as_it_is() -> None:
    """Nothing is converted."""
    refuse_unknown_keys({"tools": 1}, ("tools", "name"), "p.toml")

    assert read_text("a", "p") == "a"
    assert read_flag(False, "p") is False
    assert read_whole_number(9, "p", least=1, most=9) == 9
    assert read_choice("day", ("run", "day"), "p") == "day"
