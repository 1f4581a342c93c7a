"""Tests of a framework are collected where the framework is installed."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [
    pattern
    for package, pattern in (("autogen_agentchat", "*autogen*"), ("langgraph", "*langgraph*"))
    if find_spec(package) is None
]
