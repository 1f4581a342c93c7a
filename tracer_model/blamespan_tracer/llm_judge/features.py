"""What servers of one protocol differ in: what a question may carry beside its messages, and what is refused."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass

from blamespan_tracer.endpoint import EndpointError
from blamespan_tracer.llm_judge.prompts import Form

__all__ = ["Features", "Wanted"]

_log = logging.getLogger(__name__)

_NAMES = ("logprobs", "max_tokens", "max_completion_tokens", "temperature", "response_format")
"""In the order in which they are done without, where a server does not say what it dislikes."""
_INSTEAD = {"max_completion_tokens": "max_tokens"}
"""What is only asked with once another was refused by its name: the same by its newer one."""
_LOST = {
    "logprobs": "how sure the judge is, is what it says rather than what its tokens weigh",
    "max_completion_tokens": "answers may be as long as the server likes",
    "temperature": "answers may differ from time to time",
    "response_format": "answers are not held to a JSON schema; they are read as strictly",
}
_WORDS = {
    "logprobs": ("logprobs",),
    "max_tokens": ("max_tokens",),
    "max_completion_tokens": ("max_completion_tokens",),
    "temperature": ("temperature", "seed"),
    "response_format": ("response_format", "json_schema", "guided"),
}
"""By which a refusal names what it dislikes."""
_REFUSALS = (400, 415, 422, 501)
""""The question is wrong": which may be because of something that it carries."""

_OTHER = (0, 401, 403, 429)
"""No answer at all, a wrong key, too many questions: not because of what a question carries."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a question carries beside its messages."""

    names: tuple[str, ...]

    def fields(self, form: Form, answer_tokens: int) -> dict[str, object]:
        """Write it as the protocol has it."""
        schema = {"name": form.name, "strict": True, "schema": form.schema}
        every: dict[str, dict[str, object]] = {
            "logprobs": {"logprobs": True, "top_logprobs": 5},
            "max_tokens": {"max_tokens": answer_tokens},
            "max_completion_tokens": {"max_completion_tokens": answer_tokens},
            "temperature": {"temperature": 0, "seed": 0},
            "response_format": {"response_format": {"type": "json_schema", "json_schema": schema}},
        }
        return {name: value for each in self.names for name, value in every[each].items()}


class Features:
    """Finds out what a server takes: once for all questions, saying what is done without.

    What one answered question carried is known to be taken; a refusal then has another reason. Where a question is
    refused with nothing left to leave out, nothing was learned: all is tried again with the next one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._dropped: set[str] = set()
        self._taken: set[str] = set()
        self._said: set[str] = set()

    def wanted(self) -> Wanted:
        """Give what the next question carries."""
        with self._lock:
            dropped = self._dropped
            return Wanted(
                tuple(each for each in _NAMES if each not in dropped and _INSTEAD.get(each, each) in {each, *dropped})
            )

    def worked(self, wanted: Wanted) -> None:
        """Note that a question that carried this was answered; say so if it is less than before."""
        with self._lock:
            self._taken.update(wanted.names)
            lost = [name for name in _LOST if name in self._dropped - self._said and name not in wanted.names]
            self._said.update(lost)
        for name in lost:
            _log.warning("the judge is asked without %s from now on, as its server refused it: %s", name, _LOST[name])

    def can_do_without(self, wanted: Wanted, refused: EndpointError) -> bool:
        """Tell whether to ask again with less: without what the server names in its refusal, or is needed least."""
        if refused.status in _OTHER:
            return False
        with self._lock:
            open_ones = [name for name in wanted.names if name not in self._taken]
            named = [name for name in open_ones if any(word in refused.body for word in _WORDS[name])]
            if not named and not (open_ones and refused.status in _REFUSALS):
                if not wanted.names:
                    self._dropped &= self._said
                return False
            if not self._dropped & set(wanted.names):  # else another thread has just found out
                refused_one = (named or open_ones)[0]
                self._dropped.add(refused_one)
                if not named:
                    self._dropped.update(new for new, old in _INSTEAD.items() if old == refused_one)
            return True
