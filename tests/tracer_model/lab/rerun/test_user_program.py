"""Users' programs: found by name, made anew, run, and judged where somebody can."""

from __future__ import annotations

import pytest

from blamespan.errors import ConfigError
from blamespan_lab.rerun.user_program import Ran, load_program

_HERE = "tests.tracer_model.lab.rerun.user_programs"


@pytest.mark.parametrize(
    ("name", "task", "ran"),
    [
        ("plain", "hello", Ran("HELLO", None)),
        ("later", "HELLO", Ran("hello", None)),
        ("graph", "How many birds?", Ran("The answer is 42.", None)),
        ("breaks", "off", Ran("", None, "SystemExit: off")),
    ],
)
def test_a_program_runs_again_and_again(name: str, task: str, ran: Ran) -> None:
    """Graphs, functions and async factories run as often as asked; without a check nobody says what is right."""
    program = load_program(f"{_HERE}:{name}")

    assert [program.run(task), program.run(task)] == [ran, ran]


def test_a_check_is_named_or_an_attribute_of_the_factory() -> None:
    """What it says is the outcome; an answer that it cannot read is wrong, and it says why."""
    assert load_program(f"{_HERE}:graph", f"{_HERE}:is_42").run("?").succeeded is True
    assert load_program(f"{_HERE}:team").run("?").succeeded is True
    assert load_program(f"{_HERE}:breaks", f"{_HERE}:is_42").run("?").succeeded is False
    unread = load_program(f"{_HERE}:plain", f"{_HERE}:cannot_read").run("?")
    assert (unread.succeeded, unread.error.startswith("the check raised ValueError")) == (False, True)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_colon", "expected a program as module:function, got 'no_colon'"),
        ("no.such.module:make", "module 'no.such.module' cannot be imported"),
        (f"{_HERE}:missing", "has no 'missing'"),
        (f"{_HERE}:prompts", "must be a factory, a function without arguments, got 'dict'"),
        (f"{_HERE}:SWARM", "must be a factory"),
        (f"{_HERE}:nothing", "workflow or agent, or a function of the task, got 'int'"),
        (f"{_HERE}:uncompiled", r"Compile the graph: \.compile\(\)"),
        (f"{_HERE}:raises", "raised RuntimeError: no key"),
        (f"{_HERE}:needs", "must take no argument"),
    ],
)
def test_what_cannot_be_run_is_refused_with_what_to_do(name: str, said: str) -> None:
    """Nothing is run before it is clear that it can be."""
    with pytest.raises(ConfigError, match=said):
        load_program(name)


def test_a_check_that_gives_nothing_is_refused() -> None:
    """None is neither right nor wrong: somebody forgot to return."""
    with pytest.raises(ConfigError, match="must give true or false, got None"):
        load_program(f"{_HERE}:plain", f"{_HERE}:forgets").run("?")
