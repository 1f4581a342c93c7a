"""The answers that a language model gives, read strictly and written as they are taught.

Which step (AgenTracer's format, arXiv 2509.03312, with the kind of error after it):

    <think>...</think>
    <answer>agent|step</answer>
    <mode> FM-1.1</mode>

`agent` and `step` are the numbers that the run is shown with (`blamespan_tracer.rendering`); `0|0` says that no agent's
step made it fail. Which agents and errors (AEGIS's question, arXiv 2509.14295), one pair a line:

    <think>...</think>
    <answer>
    1|FM-1.1
    3|FM-2.4
    </answer>

Numbers, not names: a name is a label of one run, may hold anything, and costs tokens. They also make the parts of an
answer tokens of their own in the usual vocabularies, so that what is taught, written and scored is one and the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType

from blamespan.taxonomy import AEGIS
from blamespan_tracer.modes import MODES

__all__ = [
    "CLOSE",
    "END",
    "MODE_OF",
    "NOBODY",
    "OPEN",
    "TO_MODE",
    "PairsAnswer",
    "StepAnswer",
    "read_pairs",
    "read_step",
    "thought_of",
    "write_pairs",
    "write_step",
]

OPEN = "<think>"
CLOSE = "</think>\n<answer>"
"""Between the thought and the numbers."""
TO_MODE = "</answer>\n<mode>"
"""Between the numbers and the mode."""
END = "</mode>"

MODE_OF = MappingProxyType({mode.code: mode for mode in MODES})
"""The modes that an answer may name, canonical ones, by the code it names them by; their codes do not clash."""

_THOUGHT = r"\s*<think>(?P<thought>(?:(?!<think>|</think>|<answer>).)*)</think>\s*"
_STEP = re.compile(
    _THOUGHT + r"<answer>\s*(?P<agent>[0-9]{1,6})\s*\|\s*(?P<step>[0-9]{1,6})\s*</answer>\s*"
    r"(?:<mode>\s*(?P<mode>[A-Z0-9.\-]{2,8})\s*</mode>\s*)?",
    re.DOTALL,
)
_PAIRS = re.compile(_THOUGHT + r"<answer>\s*(?P<pairs>[0-9A-Z.\-|\s]*?)\s*</answer>\s*", re.DOTALL)
_PAIR = re.compile(r"([0-9]{1,6})\s*\|\s*(FM-[0-9]\.[0-9])")


@dataclass(frozen=True, slots=True)
class StepAnswer:
    """Who decided the failure and where, by the numbers of the rendered run; `mode` is a code of `MODE_OF`, or None."""

    agent: int
    step: int
    mode: str | None = None


NOBODY = StepAnswer(0, 0)
"""No agent's step made the run fail."""


@dataclass(frozen=True, slots=True)
class PairsAnswer:
    """Who made which errors, as (agent's number, AEGIS code), in the order given, repetitions and all."""

    pairs: tuple[tuple[int, str], ...]


def read_step(reply: str) -> StepAnswer | None:
    """Read a whole reply; None where it is not in the format. A mode that is not known makes it unreadable."""
    found = _STEP.fullmatch(reply)
    if found is None or not (found["mode"] is None or found["mode"] in MODE_OF):
        return None
    return StepAnswer(int(found["agent"]), int(found["step"]), found["mode"])


def read_pairs(reply: str) -> PairsAnswer | None:
    """Read a whole reply; None where it is not in the format, or names a mode that AEGIS has not."""
    found = _PAIRS.fullmatch(reply)
    if found is None:
        return None
    lines = [line.strip() for line in found["pairs"].splitlines() if line.strip()]
    pairs = [_PAIR.fullmatch(line) for line in lines]
    if any(pair is None or pair[2] not in AEGIS for pair in pairs):
        return None
    return PairsAnswer(tuple((int(pair[1]), pair[2]) for pair in pairs if pair is not None))


def write_step(answer: StepAnswer, thought: str = "") -> str:
    """Write an answer as `read_step` reads it."""
    mode = f"{TO_MODE} {answer.mode}{END}" if answer.mode is not None else "</answer>"
    return f"{OPEN}\n{thought}\n{CLOSE}{answer.agent}|{answer.step}{mode}"


def write_pairs(pairs: Iterable[tuple[int, str]], thought: str = "") -> str:
    """Write an answer as `read_pairs` reads it."""
    lines = "".join(f"{agent}|{code}\n" for agent, code in pairs)
    return f"{OPEN}\n{thought}\n{CLOSE}\n{lines}</answer>"


def thought_of(reply: str) -> str | None:
    """Give what stands between the tags of the thought; None where it was not closed."""
    found = re.match(_THOUGHT, reply, re.DOTALL)
    return found["thought"] if found else None
