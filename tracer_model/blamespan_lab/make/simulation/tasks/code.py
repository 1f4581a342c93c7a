"""Code: a function by its requirements, tried on examples in a sandbox."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from blamespan_lab.make.simulation.sandbox import run_code
from blamespan_lab.make.simulation.statements.code_writing import TEMPLATES, run_written_code, write_code
from blamespan_lab.make.simulation.statements.facts import DerivationRule, FactValue, TaskFact
from blamespan_lab.make.simulation.tasks.task import Builder, Task, Tool

__all__ = ["code_task"]

_NAMES = ("solve", "compute", "summarise", "transform", "evaluate", "convert", "reduce_all", "prepare")
_SHOWN = 3
"""How many of the examples the agents' own tests show; the answer is judged by all."""
_EXAMPLES = 14


def code_task(rng: Random, size: int) -> Task:
    """Ask for a function with *size* requirements, or as many as its template has."""
    build = Builder("code", rng)
    template = rng.choice(
        [candidate for candidate in TEMPLATES.values() if len(candidate.requirements) >= min(size, 5)]
        or list(TEMPLATES.values())
    )
    name, style = rng.choice(_NAMES), rng.randint(0, 2)
    inputs = []
    for need in rng.sample(template.requirements, k=max(3, min(size, len(template.requirements)))):
        value = rng.choice(need.values)
        if isinstance(value, str):
            build.add_given(
                need.key, need.phrase, value, kind="choice", choices=tuple(v for v in need.values if isinstance(v, str))
            )
        else:
            build.add_given(need.key, need.phrase, value)
        inputs.append(need.key)
    operation = f"implement:{template.name}:{name}:{style}"
    build.facts["function"] = _function_fact(name)
    values = {key: build.truth[key] for key in inputs}
    build.truth["function"] = write_code(operation, values)
    build.implied.append(DerivationRule("function", operation, tuple(inputs)))
    examples = tuple(template.example(rng) for _ in range(_EXAMPLES))
    wanted = run_written_code(operation, values, examples)
    task = build.task(
        "function", template.opening.format(name=name), "[Write|Please write|Implement] the function [in Python|].", ()
    )
    return _with_tests(task, name, examples, wanted)


def _function_fact(name: str) -> TaskFact:
    return TaskFact("function", f"function {name}", "code")


def _with_tests(task: Task, name: str, examples: tuple[object, ...], wanted: tuple[object, ...]) -> Task:
    def run_tests(code: str) -> str:
        outcome = run_code(code, name, examples[:_SHOWN])
        if outcome.error is not None:
            return f"error: {outcome.error}"
        wrong = [n for n in range(_SHOWN) if outcome.results[n] != wanted[n]]
        lines = [f"{_SHOWN - len(wrong)} passed, {len(wrong)} failed"]
        return "\n".join(
            [*lines, *(f"{name}({examples[n]!r}) should give {wanted[n]!r}, got {outcome.results[n]!r}" for n in wrong)]
        )

    def judge(answer: FactValue) -> bool:
        if answer == task.truth["function"]:
            return True  # it is where the wanted results come from
        outcome = run_code(str(answer), name, examples)
        return outcome.error is None and outcome.results == wanted

    tool = Tool("run_tests", "Run the tests on a piece of code.", {"code": "the whole source"}, run_tests)
    return replace(task, tools=(tool,), judge=judge)
