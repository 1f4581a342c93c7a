"""Tasks: every family's questions say all that is needed, and their answers are told right from wrong."""

from __future__ import annotations

from random import Random

import pytest

from blamespan_lab.make.simulation.agents.mistakes import mistake_value
from blamespan_lab.make.simulation.statements.facts import DerivationRule, evaluate, is_same
from blamespan_lab.make.simulation.statements.writing import end_sentence, write_fact
from blamespan_lab.make.simulation.tasks import FAMILIES, make_task
from blamespan_lab.make.simulation.tasks.task import Task
from blamespan_lab.make.simulation.tasks.tools import calculate

_SIZES = (3, 5, 8, 12)


def _tasks(family: str, count: int) -> list[Task]:
    return [make_task(family, seed, size) for seed in range(count) for size in _SIZES]


def _normal(rule: DerivationRule) -> tuple[str, str, tuple[str, ...]]:
    commutes = rule.operation in ("sum", "product", "larger", "smaller")
    return rule.out, rule.operation, tuple(sorted(rule.inputs)) if commutes else rule.inputs


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_a_question_states_what_is_given_and_the_rules(family: str) -> None:
    """Who reads the question knows every given fact and every rule that does not go without saying."""
    for task in _tasks(family, 12):
        reading = task.lexicon.read(task.question)
        given = {key: task.truth[key] for key in task.sources if task.lexicon.facts[key].lookup is None}
        said = {each.key: each.value for each in reading.statements}

        assert said.keys() == given.keys(), task.question
        assert all(is_same(said[key], value) for key, value in given.items()), task.question
        assert {_normal(rule) for rule in reading.rules} == {_normal(r) for r in task.rules if r not in task.implied}


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_the_answer_follows_from_the_sources_by_the_rules(family: str) -> None:
    """The truth is consistent: each derived fact follows from what it rests on."""
    for task in _tasks(family, 6):
        for rule in task.rules:
            assert is_same(evaluate(rule, task.truth, task.lexicon.facts), task.truth[rule.out])


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_tools_give_what_is_to_be_found(family: str) -> None:
    """Asked as the fact says, its tool answers with a text that holds the value."""
    for task in _tasks(family, 5):
        tools = {tool.name: tool for tool in task.tools}
        for key, fact in task.lexicon.facts.items():
            if fact.lookup is None:
                continue
            arguments = {name: text.format_map(task.truth) for name, text in fact.lookup.arguments.items()}
            answer = tools[fact.lookup.tool].function(**arguments)
            if fact.lookup.answer == "value":
                assert is_same(float(answer), task.truth[key])
            else:
                said = {each.key: each.value for each in task.lexicon.read(answer, task.truth).statements}
                assert is_same(said[key], task.truth[key]), answer


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"code"}))
def test_only_the_right_answer_passes(family: str) -> None:
    """The truth is accepted in any wording; a slip of it, a denial and silence are not."""
    for number, task in enumerate(_tasks(family, 5)):
        fact, truth = task.lexicon.facts[task.lexicon.target], task.truth[task.lexicon.target]
        rng = make_rng(number)
        names = [value for value in task.truth.values() if isinstance(value, str)] + ["Nobody Else"]
        wrong = mistake_value(fact, truth, names, rng)

        assert task.check("Final answer: " + end_sentence(write_fact(fact, truth, rng)))
        assert not task.check("Final answer: " + end_sentence(write_fact(fact, wrong, rng)))
        assert not task.check(f"The {fact.phrase} is unknown to us.")
        assert not task.check("")


def make_rng(seed: int) -> Random:
    return Random(seed)


def test_code_is_judged_by_what_it_does() -> None:
    """Other code that does the same passes, code that does something else does not."""
    task = make_task("code", 3, 5)
    code = str(task.truth["function"])
    name = code.split("(")[0].removeprefix("def ")
    same_thing = (
        code.replace("    return", "    pass\n    return", 1) if "\n    return" in code else code + "\n# the end\n"
    )

    assert task.check(f"```python\n{same_thing}\n```")
    assert not task.check(f"```python\ndef {name}(values):\n    return 0\n```")
    assert not task.check("I wrote it.")


def test_the_same_seed_gives_the_same_task_and_another_seed_another() -> None:
    """A task is a function of family, seed and size."""
    for family in FAMILIES:
        assert make_task(family, 1, 6).question == make_task(family, 1, 6).question
        assert len({make_task(family, seed, 6).question for seed in range(20)}) == 20


@pytest.mark.parametrize("text", ["__import__('os')", "1 +", "1 / 0", "a + 1", "2 ** 99", "1 + " * 200 + "1"])
def test_the_calculator_takes_arithmetic_alone(text: str) -> None:
    """Names, powers, calls and endless input are refused with a message."""
    with pytest.raises(ValueError, match="expected"):
        calculate(text)


def test_the_database_is_read_only_and_fresh() -> None:
    """A query cannot change what a later one sees, nor run for ever."""
    task = next(t for t in _tasks("lookup", 2) if any(tool.name == "query_database" for tool in t.tools))
    query = next(tool.function for tool in task.tools if tool.name == "query_database")

    with pytest.raises(Exception, match=r"readonly|read-only"):
        query(sql="DELETE FROM stock")
    with pytest.raises(Exception, match="interrupted"):
        query(sql="WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n")
    assert query(sql="SELECT count(*) FROM stock") == "20"
