"""Code that cannot be right as it stands is found without running it; code that others change stands out."""

from __future__ import annotations

import warnings

import pytest

from tests.tracer_model.teams import feature, team

_TASK = "Write a function that keeps the 15 largest values and adds 7 to each, at most 0 of them."


def _faults(said: str, *, task: str = _TASK) -> list[str]:
    run = team(("coder", said), task=task)
    names = ("its code breaks", "its code lacks a number", "its code has a new number")
    return [name for name in names if feature(run, name)[0]]


def _fenced(code: str, language: str = "python") -> str:
    return f"Here it is:\n```{language}\n{code}\n```\nDone."


def test_sound_code_shows_no_fault() -> None:
    """It has the numbers of the task but for those that say nothing, and small ones of its own."""
    assert _faults(_fenced("def keep(values):\n    return [v + 7 for v in sorted(values)[-15:][::2]]")) == []


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("def keep(values):\n    return values[-15:] + [7, a few]", "its code breaks"),
        ("def keep(values):\n    return sorted(values)[-15:]", "its code lacks a number"),
        ("def keep(values):\n    return [v + 7 for v in sorted(values)[-15:150]]", "its code has a new number"),
    ],
)
def test_code_that_cannot_be_right(code: str, fault: str) -> None:
    """It does not parse, does without a number, or has one that nobody gave."""
    assert _faults(_fenced(code)) == [fault]


@pytest.mark.parametrize(
    "said",
    [
        _fenced("SELECT a FROM b WHERE", "sql"),
        _fenced("what (is this", ""),
        "```python\ndef cut_off(",
        _fenced("if True:\n    print('it\\'s \\d')"),
        _fenced("1if True else 2"),
        _fenced("x = (\n" + "1,\n" * 5_000),
    ],
)
def test_what_is_no_broken_python(said: str) -> None:
    """Other languages, code that ends with the message, escapes, what a parser gives up on or warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        assert "its code breaks" not in _faults(said, task="Write code.")


def test_code_of_a_message_that_was_cut_is_not_parsed() -> None:
    """What was left out of the middle may be what closes a bracket."""
    code = "values = [\n" + "    1,\n" * 400 + "]\n"

    assert "its code breaks" not in _faults(f"{'word ' * 500}\n{_fenced(code)}\n{'word ' * 1_500}", task="Write code.")


@pytest.mark.parametrize("code", ["x = '\x00'", "(" * 900 + ")" * 900, "-" * 3_900 + "1", "x" + ".y" * 1_900])
def test_hostile_code_is_read_all_the_same(code: str) -> None:
    """Whatever the parser makes of it, the run is read."""
    _faults(_fenced(code))


_LINES = ("def solve(values):", "    kept = sorted(values)", "    kept = kept[:3]", "    return kept")


def _fenced_lines(*lines: str) -> str:
    return "Here it is:\n```python\n" + "\n".join(lines) + "\n```"


@pytest.mark.parametrize(
    ("author", "lines", "alters"),
    [
        ("checker", (_LINES[0], _LINES[2], _LINES[3]), 1.0),
        ("checker", (*_LINES[:2], "    kept = kept[:4]", _LINES[3]), 1.0),
        ("checker", _LINES, 0.0),
        ("coder", (_LINES[0], _LINES[2], _LINES[3]), 0.0),
        ("checker", ("import math", "print(math.pi)"), 0.0),
    ],
)
def test_code_of_another_with_a_line_changed_stands_out(author: str, lines: tuple[str, ...], alters: float) -> None:
    """A line less, a line otherwise; not the same code, one's own, or other code."""
    run = team(("coder", _fenced_lines(*_LINES)), ("planner", "Please check it."), (author, _fenced_lines(*lines)))

    assert feature(run, "alters another's code")[-1] == alters
