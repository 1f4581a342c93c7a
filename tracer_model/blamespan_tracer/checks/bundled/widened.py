"""Calls that are for all where the calls before them were for some."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from blamespan.trace import Step
from blamespan_tracer.checks.check import ExaminedRun, Finding, Source, check

_ALL: Final = frozenset(("all", "any", "*"))
_ASKS: Final = re.compile(r"(?i)\b(?:all|any\w*|every\w*|each|whole|entire|both|other|others)\b")
_MAX_CHARS: Final = 10_000


@check("call-stays-narrow", "A call is not for all where one before it was for some.", mode="mast:FM-1.1", trust=0.7)
def calls_stay_narrow(run: ExaminedRun) -> Iterator[Finding]:
    """Look for an argument `all` that an earlier call of the agent gave a value, where nobody spoke of all since.

    Who makes the same call again with this argument alone changed looks further, which is no mistake.
    """
    narrow: dict[tuple[str, str], tuple[Step, str]] = {}
    for step in run.trace.steps:
        if step.kind == "message" and _ASKS.search(step.content[:_MAX_CHARS]):
            narrow.clear()
        if step.kind != "tool_call":
            continue
        arguments = _read_arguments(step)
        for key, argument in arguments.items():
            earlier = narrow.get((step.agent, key))
            if not isinstance(argument, str):
                continue
            if argument.lower() not in _ALL:
                narrow[step.agent, key] = step, argument
            elif earlier is not None:
                source, text = earlier
                is_same_tool = run.tool_of(source) == run.tool_of(step)
                if is_same_tool and {**_read_arguments(source), key: argument} == arguments:
                    continue
                quote = run.sentence_with(step, argument)
                yield Finding(step.index, "fail", quote, f"it was {text[:60]!r}", source=Source(source.index, text))


def _read_arguments(step: Step) -> Mapping[str, Any]:
    """Return the arguments of a call that is written as `tool({...})`."""
    try:
        arguments = json.loads(step.content.partition("(")[2].rstrip().removesuffix(")"))
    except ValueError:
        return {}
    return arguments if isinstance(arguments, dict) else {}
