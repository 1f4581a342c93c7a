"""From raw timings to the rows of the table, and from rows to whether each bar is met. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

NAMES = {"langgraph": "LangGraph", "autogen": "AutoGen"}

Sample = Mapping[str, Any]
"""What one process of `recorded_once` printed."""

MAX_ATTRIBUTE_BYTES = 500_000
MAX_TIMES_LEANEST = 1.5
LEANEST = "openlit"
"""The peer that records each node in the least time and bytes."""
MAX_GROWTH_BYTES = 4 * 2**20
"""How much more resident memory may grow than it does unrecorded: allocators round, and half a kilobyte kept of
each of nine thousand runs is above it."""
MAX_OBJECTS_PER_RUN = 0.1
"""Whoever keeps something of each run keeps at least one object; what is loaded late is loaded once."""


@dataclass(frozen=True, slots=True)
class Row:
    """One recorder on one program.

    Attributes:
        seconds: CPU time of one run, each round's median.
        wall_seconds: The same on the clock on the wall.
        added: What the recorder adds in each round to the same round's unrecorded run.
        runs: How many runs are behind each of these, over all rounds.
        shape: What was recorded, see `recorded_once.shape`; `duplicate_agents` and `duplicate_tools` count the
            spans of agent messages and tool calls beyond one each.
    """

    recorder: str
    seconds: tuple[float, ...]
    wall_seconds: tuple[float, ...]
    added: tuple[float, ...]
    runs: int
    shape: Mapping[str, int]

    @property
    def added_s(self) -> float:
        """The middle round's addition."""
        return median(self.added)


@dataclass(frozen=True, slots=True)
class Bar:
    """What a figure must reach.

    Attributes:
        says: The demand.
        got: What was measured, in words.
        is_met: Whether that is enough.
    """

    says: str
    got: str
    is_met: bool


def row(recorder: str, samples: Sequence[Sample], bare: Sequence[Sample], *, steps: int, tool_calls: int) -> Row:
    """Sum up a recorder's rounds.

    Args:
        recorder: Its name; `floor` runs no program, so all its time is what it adds.
        samples: One per round.
        bare: The unrecorded program's, of the same rounds.
        steps: Agent messages in the timed program.
        tool_calls: Tool calls in the other program, of the framework that has one.
    """
    seconds = tuple(median(sample["cpu_seconds"]) for sample in samples)
    without = [0.0 if recorder == "floor" else median(sample["cpu_seconds"]) for sample in bare]
    last = samples[-1]
    shape = {key: value for key, value in last.items() if isinstance(value, int)}
    shape["duplicate_agents"] = max(0, shape["agent_spans"] - steps)
    shape["duplicate_tools"] = max(0, last["tool_chat"]["tool_spans"] - tool_calls) if "tool_chat" in last else 0
    return Row(
        recorder,
        seconds,
        tuple(median(sample["seconds"]) for sample in samples),
        tuple(mine - theirs for mine, theirs in zip(seconds, without, strict=True)),
        sum(len(sample["cpu_seconds"]) for sample in samples),
        shape,
    )


def langgraph_bars(rows: Mapping[str, Row], *, steps: int) -> Iterator[Bar]:
    """Judge the loop: fewer bytes than the leanest peer and near its time, below the others that record each node."""
    ours = rows["blamespan"]
    size = ours.shape["attribute_bytes"]
    yield Bar(f"attributes <= {_mb(MAX_ATTRIBUTE_BYTES)}", _mb(size), 0 < size <= MAX_ATTRIBUTE_BYTES)
    leanest = rows[LEANEST]
    yield Bar(
        f"attributes below {LEANEST}'s",
        f"{_mb(size)} against {_mb(leanest.shape['attribute_bytes'])}",
        0 < size < leanest.shape["attribute_bytes"],
    )
    times = ours.added_s / leanest.added_s
    yield Bar(f"added time <= {MAX_TIMES_LEANEST}x {LEANEST}'s", f"{times:.2f}x", times <= MAX_TIMES_LEANEST)
    recording = {name: each for name, each in rows.items() if each.shape["agent_spans"] >= steps}
    peers = {name: each.added_s for name, each in recording.items() if name not in ("blamespan", "floor", LEANEST)}
    got = f"{_ms(ours.added_s)} against " + ", ".join(f"{name} {_ms(peers[name])}" for name in sorted(peers))
    yield Bar(
        "added time below every other peer that records each node",
        got,
        "blamespan" in recording and bool(peers) and ours.added_s < min(peers.values()),
    )


def autogen_bars(rows: Mapping[str, Row], *, turns: int) -> Iterator[Bar]:
    """Judge the chat: one trace of one root, a span per message and model call, nothing twice."""
    shape = rows["blamespan"].shape
    expected = {"traces": 1, "roots": 1, "agent_spans": turns, "model_spans": turns, "spans": 1 + 2 * turns}
    yield Bar(
        f"1 trace: 1 root + {turns} messages + {turns} model calls",
        f"{shape['traces']} trace(s): {shape['roots']} root(s) + {shape['agent_spans']} messages + "
        f"{shape['model_spans']} model calls, {shape['spans']} spans in all",
        all(shape[key] == value for key, value in expected.items()),
    )
    doubled = shape["duplicate_agents"], shape["duplicate_tools"]
    yield Bar("0 duplicate agent and tool spans", f"{doubled[0]} and {doubled[1]}", doubled == (0, 0))


def memory_bars(figures: Mapping[str, Mapping[str, Sequence[Mapping[str, int]]]]) -> Iterator[Bar]:
    """Judge memory: from the first figure to the last it grows no more than it does unrecorded.

    Args:
        figures: By framework and recorder (`none`, `blamespan`), what `recorded_long` printed.
    """
    for framework, of in figures.items():
        size, objects = (
            _growth(of["blamespan"], key) - max(0, _growth(of["none"], key)) for key in ("rss_bytes", "objects")
        )
        first, last = of["blamespan"][0]["runs"], of["blamespan"][-1]["runs"]
        yield Bar(
            f"{NAMES[framework]}: memory flat from {first:,} to {last:,} runs",
            f"{size / 2**20:+.1f} MiB and {objects:+,} objects beside the unrecorded program",
            size <= MAX_GROWTH_BYTES and objects <= MAX_OBJECTS_PER_RUN * (last - first),
        )


def _growth(figures: Sequence[Mapping[str, int]], key: str) -> int:
    return figures[-1][key] - figures[0][key]


def _mb(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.2f} MB"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.1f} ms"
