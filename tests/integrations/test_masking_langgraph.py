"""What a LangGraph state holds under the key of a secret is in no span."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.graph import START, StateGraph

from tests.integrations.hosts import recording


@pytest.mark.parametrize(
    "written",
    [
        {"password": "zebra-41x\nyak-77q"},
        {"password": ["zebra-41x", "yak-77q"]},
        {"login": {"password": "zebra-41x", "user": "ann"}},
        {"logins": [{"client_secret": "zebra-41x"}, {"api_key": "yak-77q"}]},
    ],
)
def test_secret_of_a_state_is_masked_by_its_key(written: dict[str, Any]) -> None:
    """What its key says is secret is masked before a state becomes text, however it is nested and written."""
    graph = StateGraph(dict)
    graph.add_node("clerk", lambda _: {"note": "kept", **written})
    graph.add_edge(START, "clerk")
    with recording("langgraph") as recorder:
        graph.compile().invoke({"task": "Log in.", **written})

    said = " ".join(str(value) for span in recorder.spans() for value in span.attributes.values())
    assert not any(secret in said for secret in ("zebra", "yak"))
    assert all(text in said for text in ("note: kept", "Log in."))
