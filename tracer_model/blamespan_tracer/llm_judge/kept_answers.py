"""Answers kept on disk, one file each: the same question is never paid for twice.

A file is written beside its place and moved there, so several processes may share a folder and one may be killed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from blamespan_tracer.llm_judge.protocol import Answer

__all__ = ["KeptAnswers", "question_key"]

_log = logging.getLogger(__name__)
_FORMAT = 1


def question_key(asked: Mapping[str, object]) -> str:
    """Name a question by all that its answer may depend on."""
    return hashlib.sha256(json.dumps([_FORMAT, asked], sort_keys=True).encode()).hexdigest()


class KeptAnswers:
    """A folder of answers; without one, nothing is kept.

    What cannot be read is asked again; what cannot be written is not kept, and said once.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def get(self, key: str) -> Answer | None:
        """Give the answer kept under *key*, if there is one that can be read."""
        if self._folder is None:
            return None
        try:
            kept = json.loads(self._path(self._folder, key).read_bytes())
            text, chance = kept["text"], kept["chance_failed"]
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            return None
        is_chance = isinstance(chance, int | float) and not isinstance(chance, bool) and 0 <= chance <= 1
        return Answer(text, float(chance) if is_chance else None) if isinstance(text, str) else None

    def put(self, key: str, answer: Answer) -> None:
        """Keep an answer; readable by the user alone, as it may quote a run."""
        if self._folder is None:
            return
        path = self._path(self._folder, key)
        said = json.dumps({"text": answer.text, "chance_failed": answer.chance_failed})
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    file.write(said)
                Path(name).replace(path)
            except BaseException:
                with contextlib.suppress(OSError):
                    Path(name).unlink()
                raise
        except OSError as error:
            _log.warning("answers are not kept in %s any more: %s", self._folder, error)
            self._folder = None

    @staticmethod
    def _path(folder: Path, key: str) -> Path:
        return folder / key[:2] / f"{key[2:]}.json"
