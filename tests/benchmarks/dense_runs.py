"""Runs dense in values: eighty identifiers a step, with numbers, tables and names; a thousand characters a step.

Half of what is stated was stated before, one value in a hundred differs by a character. The same arguments give the
same run.
"""

from __future__ import annotations

from random import Random

from blamespan.trace import Agent, MessageActionTrace, Step, StepKind

_AGENTS = "planner", "clerk", "checker", "writer"
_KINDS: tuple[StepKind, ...] = "message", "tool_call", "tool_result", "message"
_NAMES = "Mara Berger", "Otto Castellan", "Linden Square", "North Depot", "Hotel Aurora", "Harbour Office"
_COLUMNS = "order", "parcel", "seal", "amount"
_KNOWN = 2_000
"""Identifiers stated of late that others may repeat."""
_PER_LINE = 10


def make_dense_run(n_steps: int, seed: int = 0, identifiers: int = 80) -> MessageActionTrace:
    """Make a run.

    Args:
        n_steps: How many.
        seed: Of the choices.
        identifiers: Of each step.
    """
    rng = Random(seed)
    known: list[str] = []
    steps = []
    for index in range(n_steps):
        place = index % len(_KINDS)
        own = [_choose(rng, known) for _ in range(identifiers)]
        content = _write_table(rng, own) if place == 2 else _write_prose(rng, own)
        inputs = (index - 1,) if index else ()
        agent = _AGENTS[1 if place == 2 else place]
        steps.append(Step(index, f"{index + 1:016x}", agent, _KINDS[place], content, inputs=inputs))
    task = "Check every order, parcel and seal of North Depot against the list, and report what differs."
    return MessageActionTrace(f"{seed + 1:032x}", task, tuple(steps), tuple(map(Agent, _AGENTS)), "failed")


def _choose(rng: Random, known: list[str]) -> str:
    if known and rng.random() < 0.5:
        value = rng.choice(known)
        if rng.random() < 0.02:
            place = rng.randrange(3, len(value))
            value = f"{value[:place]}{rng.choice('0123456789')}{value[place + 1 :]}"
    else:
        value = f"{rng.choice(('ord', 'pcl', 'sl'))}-{rng.randrange(10_000, 99_999)}{rng.choice('abcdef')}"
    known.append(value)
    del known[:-_KNOWN]
    return value


def _write_prose(rng: Random, values: list[str]) -> str:
    lines = []
    for start in range(0, len(values), _PER_LINE):
        listed = " ".join(values[start : start + _PER_LINE])
        lines.append(f"{rng.choice(_NAMES)} has {rng.randrange(10, 9_999):,} of {listed}.")
    return "\n".join(lines)


def _write_table(rng: Random, values: list[str]) -> str:
    lines = [f"| {' | '.join(_COLUMNS)} |", "|---|---|---|---|"]
    for start in range(0, len(values), 3):
        cells = [*values[start : start + 3], *("-" * (start + 3 - len(values)))][:3]
        lines.append(f"| {' | '.join(cells)} | {rng.randrange(10, 9_999):,} |")
    return "\n".join(lines)
