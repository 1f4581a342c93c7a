from __future__ import annotations

import time
from pathlib import Path

import pytest

from blamespan.errors import ConfigError
from blamespan.trace import MessageActionTrace
from blamespan_tracer.checks import apply_checks, read_toml_checks
from tests.tracer_model.teams import team


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "ours.toml"
    path.write_text(text, encoding="utf-8")
    return path


def found(tmp_path: Path, body: str, run: MessageActionTrace) -> list[tuple[str, int | None, str]]:
    """What a check written as *body* says of a run."""
    checks = read_toml_checks(written(tmp_path, f'[[check]]\nname = "it"\n{body}'))
    return [(verdict.outcome, verdict.step, verdict.quote) for verdict in apply_checks(checks, run)]


GUESS, CALL = "I guess that is final answer 48.", 'search({"q": "price"})'
RUN = team(
    ("user", "What is the price?"),
    ("clerk", CALL, "tool_call"),
    ("clerk", "48 euros", "tool_result"),
    ("clerk", f"It is 48 euros.\n{GUESS}"),
    ("boss", "Thanks, clerk."),
    roles={"user": "user"},
    recipients={3: ["boss"]},
)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('when = { kind = "message", agent = "^cl" }\nforbid = { text = "(?i)i guess" }', [("fail", 3, GUESS)]),
        (
            'when = { text = "final answer" }\nrequire = { tool = "search", in = "before", by = "same" }',
            [("pass", None, "")],
        ),
        ('when = { text = "final answer" }\nrequire = { tool = "verify", in = "before" }', [("fail", 3, GUESS)]),
        (
            'when = { text = "final answer" }\nrequire = { tool = "search", in = "before", by = "other" }',
            [("fail", 3, GUESS)],
        ),
        ('when = { tool = "search" }\nrequire = { text = "euros", in = "result" }', [("pass", None, "")]),
        (
            'when = { tool = "search" }\nforbid = { text = "euros", in = "result" }\nblame = "next"',
            [("fail", 3, "It is 48 euros.")],
        ),
        ('when = { tool = "search" }\nrequire = { agent = "boss", in = "after", within = 2 }', [("fail", 1, CALL)]),
        ('when = { tool = "search" }\nrequire = { agent = "boss", in = "after", within = 3 }', [("pass", None, "")]),
        (
            'when = { agent = "boss" }\nrequire = { text = "x", in = "after", within = 3 }',
            [("inconclusive", 4, "Thanks, clerk.")],
        ),
        ('when = { role = "user" }\nrequire = { text = "absent", in = "run" }', [("fail", 1, CALL)]),
        ('when = { last = true }\nforbid = { text = "Thanks" }', [("fail", 4, "Thanks, clerk.")]),
        (
            'when = { recipient = "b" }\nforbid = { text = "48", in = "run", at_most = 1 }\nblame = "found"',
            [("fail", 3, "It is 48 euros.")],
        ),
        ('when = { recipient = "b" }\nforbid = { text = "48", in = "run", at_most = 2 }', [("pass", None, "")]),
        ('when = { result = "euros" }\nrequire = { text = "kettle", in = "task" }', [("pass", None, "")]),
        ('when = { status = "error" }\nforbid = { text = "x" }', [("inconclusive", None, "")]),
    ],
)
def test_rule_says_what_its_table_says(tmp_path: Path, body: str, expected: list[tuple[str, int | None, str]]) -> None:
    """Which steps are meant, what is looked for, where, whose and how often; the culprit is quoted."""
    assert found(tmp_path, body, RUN) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("check = 3", "expected at least one \\[\\[check\\]\\]"),
        ("[[checks]]\nname = 'x'", "unknown key 'checks'. Nearest known: 'check'"),
        ("[[check]]\nname = 'x'\nforbit = {}", "unknown key 'forbit'. Nearest known: 'forbid'"),
        ("[[check]]\nforbid = { text = 'x' }", "expected a name"),
        ("[[check]]\nname = 'x'", "expected either require or forbid"),
        (
            "[[check]]\nname = 'x'\nforbid = { text = 'a' }\nrequire = { text = 'a' }",
            "expected either require or forbid",
        ),
        ("[[check]]\nname = 'x'\nforbid = {}", "expected something to look for"),
        ("[[check]]\nname = 'x'\nforbid = { txt = 'a' }", "unknown key 'txt'. Nearest known: 'text'"),
        ("[[check]]\nname = 'x'\nforbid = { text = '(?=a)' }", "expected a pattern that RE2 takes"),
        ("[[check]]\nname = 'x'\nforbid = { text = '(a' }", "missing \\)"),
        ("[[check]]\nname = 'x'\nforbid = { text = 3 }", "expected a text, got 3"),
        ("[[check]]\nname = 'x'\nforbid = { text = 'a', in = 'befor' }", "Nearest: 'before'"),
        (
            "[[check]]\nname = 'x'\nforbid = { text = 'a', in = 'task', agent = 'b' }",
            "expected only text with in = 'task'",
        ),
        (
            "[[check]]\nname = 'x'\nforbid = { text = 'a', within = -1 }",
            "expected a whole number from 0 to 1,000,000, got -1",
        ),
        ("[[check]]\nname = 'x'\nforbid = { kind = 'mesage' }", "Nearest: 'message'"),
        ("[[check]]\nname = 'x'\nforbid = { text = 'a' }\nmode = 'mast:FM-9'", "expected an error mode"),
        ("[[check]]\nname = 'x'\nforbid = { text = 'a' }\ntrust = 2", "expected trust between 0 and 1, got 2"),
        (
            "[[check]]\nname = 'x'\nforbid = { text = 'a' }\n[[check]]\nname = 'x'\nforbid = { text = 'a' }",
            "got 'x' twice",
        ),
        ("[[check]]\nname = 'x'\nforbid = 3", "expected a table, got 3"),
        ("[[check", "expected checks in TOML"),
    ],
)
def test_mistake_in_a_file_is_named_with_what_was_expected(tmp_path: Path, text: str, message: str) -> None:
    """Unknown keys name the nearest one; every value is checked when the file is read, not when a run comes."""
    with pytest.raises(ConfigError, match=message):
        read_toml_checks(written(tmp_path, text))


def test_missing_file_is_named(tmp_path: Path) -> None:
    """A file that is not there is an error that names it."""
    with pytest.raises(ConfigError, match=r"nowhere\.toml"):
        read_toml_checks(tmp_path / "nowhere.toml")


def test_hostile_pattern_and_text_cost_little(tmp_path: Path) -> None:
    """A pattern on which a backtracking engine would not end is answered in linear time."""
    run = team(("a", "a" * 200_000 + "!"), ("b", "\ud800 \x00 b"))

    start_s = time.process_time()
    verdicts = found(tmp_path, "forbid = { text = '(a+)+$|(\\w|a)*b{3}' }", run)

    assert [outcome for outcome, *_ in verdicts] == ["pass"]
    assert time.process_time() - start_s < 2.0


def test_long_run_is_searched_once(tmp_path: Path) -> None:
    """A rule that looks before every step costs no square of the steps."""
    run = team(*[(f"agent{place % 50}", f"step {place}") for place in range(5_000)])

    start_s = time.process_time()
    found(tmp_path, 'when = { text = "step" }\nrequire = { text = "absent", in = "before", by = "other" }', run)

    assert time.process_time() - start_s < 5.0
