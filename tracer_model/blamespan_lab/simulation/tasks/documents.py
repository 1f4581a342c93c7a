"""A small document store with a word search."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from blamespan_lab.simulation.tasks.task import Tool

__all__ = ["search_tool"]

_COMMON = frozenset(
    ("the", "a", "an", "of", "in", "on", "for", "to", "is", "was", "by", "and", "at", "it", "its", "with")
)


def search_tool(documents: Mapping[str, str], hits: int = 2) -> Tool:
    """Make a tool that gives the *hits* documents with most words of the query, rare words counting more."""
    words = {title: Counter(_words(f"{title} {text}")) for title, text in documents.items()}
    spread = Counter(word for counted in words.values() for word in counted)

    def search_documents(query: str) -> str:
        scores = {
            title: sum(1 / spread[word] for word in sorted(set(_words(query))) if word in counted)
            for title, counted in words.items()
        }
        best = sorted((title for title in scores if scores[title] > 0), key=lambda title: (-scores[title], title))
        return "\n".join(f"[{title}] {documents[title]}" for title in best[:hits]) or "No document matches."

    return Tool("search_documents", "Search the documents.", {"query": "a few words"}, search_documents)


def _words(text: str) -> list[str]:
    return [word for word in re.findall(r"[\w-]+", text.casefold()) if word not in _COMMON]
