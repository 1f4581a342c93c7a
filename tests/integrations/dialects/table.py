"""What each recording keeps of its run: the tests hold the recordings to it, and the documentation shows it."""

from __future__ import annotations

from tests.integrations.dialects.recordings import ASPECTS

_ALL = ASPECTS


def _but(*lost: str) -> tuple[str, ...]:
    return tuple(aspect for aspect in _ALL if aspect not in lost)


KEPT_OF_AUTOGEN = {
    "autogen.autogen-served": _ALL,
    "autogen.autogen-swarm": _ALL,
    "openinference.autogen-round-robin": _ALL,
    "openinference.autogen-served": _ALL,
    "openinference.autogen-swarm": _ALL,
}

KEPT_OF_LANGGRAPH = {
    "genai.langgraph-agents": _ALL,
    "genai.langgraph-nodes": _but("agents", "order", "content", "tools", "links"),
    "langfuse.langgraph-agents": _ALL,
    "langfuse.langgraph-branches": _ALL,
    "langfuse.langgraph-nodes": _ALL,
    "langsmith.langgraph-agents": _ALL,
    "langsmith.langgraph-branches": _ALL,
    "langsmith.langgraph-nodes": _ALL,
    "mlflow.langgraph-agents": _ALL,
    "mlflow.langgraph-branches": _ALL,
    "mlflow.langgraph-nodes": _ALL,
    "openinference.langgraph-agents": _ALL,
    "openinference.langgraph-branches": _ALL,
    "openinference.langgraph-nodes": _ALL,
    "openlit.langgraph-agents": _but("agents", "order", "content", "tools", "links"),
    "openlit.langgraph-branches": _but("task", "content", "links"),
    "openlit.langgraph-nodes": _ALL,
    "openllmetry-0.40.langgraph-nodes": _but("tokens"),
    "openllmetry.langgraph-agents": _ALL,
    "openllmetry.langgraph-branches": _ALL,
    "openllmetry.langgraph-nodes": _ALL,
}


def table() -> str:
    """Write the table as Markdown."""
    rows = {**KEPT_OF_AUTOGEN, **KEPT_OF_LANGGRAPH}
    lines = [
        "| dialect | program | " + " | ".join(ASPECTS) + " |",
        "|---|---|" + "---|" * len(ASPECTS),
    ]
    for name, kept in rows.items():
        dialect, _, program = name.rpartition(".")
        marks = " | ".join("yes" if aspect in kept else "**no**" for aspect in ASPECTS)
        lines.append(f"| {dialect} | {program} | {marks} |")
    return "\n".join(lines)
