"""tau-bench results (arXiv 2406.12045): one assistant with tools, a simulated user, and a reward for how it ended.

Source: github.com/sierra-research/tau-bench, `tau_bench/types.py`, `EnvRunResult`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from blamespan.errors import UnreadableInput
from blamespan.importing.recorded import RecordedRun
from blamespan_integrations.importers._autogen_messages import add_history_message, is_history_message
from blamespan_integrations.importers._conversation import Conversation
from blamespan_integrations.importers._records import JsonValue, runs_of_objects

_EXPECTED = "a tau-bench result"


class TauBenchImporter:
    """Reads the results file of a tau-bench run.

    A run succeeded if its reward is 1. Who failed at which step nobody says: a failed run has no labels, and one that
    succeeded is labelled as free of errors. The same task tried twice is two runs.
    """

    name = "tau-bench"
    description = "tau-bench results: an assistant, tools, a simulated user, a reward; no times, no labels of failures"

    def matches(self, path: Path, head: bytes) -> bool:
        """Check the keys of the first result."""
        del path
        start = head.lstrip()[:4_096]
        return start[:1] in (b"[", b"{") and bool(re.search(rb'"task_id"\s*:\s*\d+\s*,\s*"reward"\s*:', start))

    def read(self, path: Path) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield one run per result; for what is none, the error in its place."""
        return runs_of_objects(path, _EXPECTED, _run)


def _run(record: JsonValue) -> RecordedRun:
    messages, reward = record.value.get("traj"), record.value.get("reward")
    if not isinstance(messages, list) or not all(map(is_history_message, messages)):
        raise UnreadableInput(
            f"{record.location}: expected {_EXPECTED} with messages in 'traj', got {str(messages)[:60]!r}. "
            "Is this another format? Name it with --format."
        )
    if isinstance(reward, bool) or not isinstance(reward, int | float):
        raise UnreadableInput(f"{record.location}: expected a number as 'reward', got {str(reward)[:60]!r}.")
    conversation = Conversation(record.location)
    conversation.outcome = "succeeded" if reward == 1 else "failed"
    for message in messages:
        add_history_message(conversation, _without_tool_name(message))
    identity = (str(record.value.get(key)) for key in ("task_id", "trial"))
    return RecordedRun(record.location, conversation.trace("tau-bench", *identity), () if reward == 1 else None)


def _without_tool_name(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Leave out a tool's own name: its answer goes to who called it."""
    if message.get("role") != "tool":
        return message
    return {key: value for key, value in message.items() if key != "name"}
