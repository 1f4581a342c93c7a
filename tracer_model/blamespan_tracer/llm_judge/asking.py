"""Asking an endpoint: kept answers first, then within the budget, again where it helps, until the deadline."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from blamespan_tracer.endpoint import Endpoint, EndpointError
from blamespan_tracer.llm_judge.features import Features
from blamespan_tracer.llm_judge.kept_answers import KeptAnswers, question_key
from blamespan_tracer.llm_judge.prompts import AGAIN, Form, instructions
from blamespan_tracer.llm_judge.protocol import Answer, Unreadable, answer_of, usage_of
from blamespan_tracer.llm_judge.settings import JudgeSettings
from blamespan_tracer.llm_judge.spending import Purse, Unanswered
from blamespan_tracer.rendering import estimated_tokens

__all__ = ["Ask", "Asker", "Deadline", "Question"]

_log = logging.getLogger(__name__)

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_ATTEMPTS = 4
_READINGS = 2
"""How often a question is put until an answer can be read."""
_FIRST_PAUSE_S = 0.5
_SILENT_AFTER = 3
"""So many questions in a row without an answer, and the endpoint is left alone for a while."""
_KEY_STATUSES = (401, 403)
"""What a server says beside these may repeat the key."""
_LEAST_KEY_CHARS = 8
"""Shorter ones are no secrets, but may be parts of words."""
_SILENT_S = 30.0
_HINTS = {
    **dict.fromkeys((301, 302, 303, 307, 308, 405), "check BLAMESPAN_JUDGE_URL"),
    401: "check BLAMESPAN_JUDGE_KEY",
    403: "check BLAMESPAN_JUDGE_KEY",
    404: "check BLAMESPAN_JUDGE_URL and BLAMESPAN_JUDGE_MODEL",
}


@dataclass(frozen=True, slots=True)
class Question:
    """One question.

    Attributes:
        form: What is asked, and the form of the answer.
        document: What the model is shown, as JSON.
    """

    form: Form
    document: str


class Ask(Protocol):
    """Puts questions."""

    def __call__(self, question: Question, read: Callable[[Answer], T]) -> T:
        """Give what *read* makes of the answer.

        Raises:
            Unanswered: if there is none that it can read.
        """
        ...


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment on the monotonic clock that answers must come before."""

    at_s: float = float("inf")

    @classmethod
    def after(cls, seconds: float | None) -> Deadline:
        """Set one *seconds* from now; none at all for None."""
        return cls() if seconds is None else cls(time.monotonic() + seconds)

    def left_s(self) -> float:
        """Give the seconds that are left.

        Raises:
            Unanswered: if none are.
        """
        left_s = self.at_s - time.monotonic()
        if left_s <= 0:
            raise Unanswered("the judge's time was over before it could answer")
        return left_s


class Asker:
    """Asks one endpoint, from many threads at once.

    Attributes:
        purse: What was spent.

    Args:
        settings: Whom to ask, and how much.
        pause_s: Seconds before the second attempt; doubled before each further one.
    """

    def __init__(self, settings: JudgeSettings, *, pause_s: float = _FIRST_PAUSE_S) -> None:
        self._settings = settings
        self._endpoint: Endpoint = settings.endpoint
        self._kept = KeptAnswers(settings.cache)
        self._features = Features()
        self._pause_s = pause_s
        self._silence = _Silence()
        self.purse = Purse(
            settings.budget_tokens, settings.budget_money, settings.price_in, settings.price_out, settings.account
        )

    def ask(self, question: Question, read: Callable[[Answer], T], deadline: Deadline) -> T:
        """Put a question, once more where the first answer cannot be read.

        Only answers that can be read are kept.

        Raises:
            Unanswered: if there is none that *read* can read.
        """
        told = instructions(question.form, self._settings.taxonomy)
        key = question_key({**self._request(question, told), "url": self._endpoint.url, "form": question.form.schema})
        kept = self._kept.get(key)
        if kept is not None:
            try:
                found = read(kept)
            except Unreadable:
                pass
            else:
                self.purse.count("kept")
                return found
        trouble = Unreadable("it is none")
        for reading in range(_READINGS):
            try:
                answer = self._answer(question, told if reading == 0 else f"{told}\n\n{AGAIN}", deadline)
                found = read(answer)
            except Unreadable as error:
                trouble = error
                self.purse.count("unreadable")
                continue
            self._kept.put(key, answer)
            return found
        raise Unanswered(f"the judge's answer does not count: {trouble}") from trouble

    def _answer(self, question: Question, told: str, deadline: Deadline) -> Answer:
        refused = EndpointError("nothing")
        for attempt in range(_ATTEMPTS):
            self._silence.check()
            try:
                found = self._asked_once(question, told, deadline)
            except EndpointError as error:
                refused = error
                self.purse.count("refused")
                if not error.is_transient:
                    break
            else:
                self._silence.over()
                return found
            if attempt + 1 < _ATTEMPTS:
                pause_s = refused.wait_s(attempt, self._pause_s)
                if pause_s >= deadline.left_s():
                    break
                time.sleep(pause_s)
        reason = self._told(refused)
        is_silent = (refused.status == 0 or refused.status >= 500) and time.monotonic() < deadline.at_s
        self._silence.noted(reason, for_good=refused.status in _HINTS, counts=is_silent)
        raise Unanswered(reason)

    def _asked_once(self, question: Question, told: str, deadline: Deadline) -> Answer:
        """Put a question; without what the server turns out not to take, as long as there is such a thing."""
        while True:
            optional = self._features.wanted()
            asked = {**self._request(question, told), **optional.fields(question.form, self._settings.answer_tokens)}
            timeout_s = min(self._endpoint.timeout_s, deadline.left_s())
            try:
                body = self._paid(asked, estimated_tokens(told + question.document), timeout_s)
            except EndpointError as error:
                if not self._features.can_do_without(optional, error):
                    raise
                continue
            self._features.worked(optional)
            return answer_of(body)

    def _paid(self, asked: dict[str, object], input_tokens: int, timeout_s: float) -> bytes:
        with self.purse.reserved(input_tokens, self._settings.answer_tokens) as held:
            try:
                body = replace(self._endpoint, timeout_s=timeout_s).ask(asked)
            except EndpointError as error:
                held.is_lost = error.was_sent
                raise
            held.is_answered = True
            try:
                held.used = usage_of(body)
            except Unreadable:
                held.output_tokens = min(held.output_tokens, len(body) // 3 + 1)
            return body

    def _told(self, refused: EndpointError) -> str:
        """Say what came of a question, what the server says of that, and what to do."""
        said = "" if refused.status in _KEY_STATUSES else refused.message
        if len(self._endpoint.key) >= _LEAST_KEY_CHARS:
            said = said.replace(self._endpoint.key, "...")
        hint = "check BLAMESPAN_JUDGE_URL" if refused.reason == "ConnectError" else _HINTS.get(refused.status)
        parts = [f"{refused.reason} ({said})" if said else refused.reason, *([hint] if hint else [])]
        return f"the judge did not answer: {', '.join(parts)}"

    def _request(self, question: Question, told: str) -> dict[str, object]:
        messages = [{"role": "system", "content": told}, {"role": "user", "content": question.document}]
        return {"model": self._endpoint.model, "messages": messages}


class _Silence:
    """Leaves an endpoint alone that does not answer: thousands of runs would each wait for it in vain."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._in_a_row = 0
        self._until_s = 0.0
        self._reason = ""

    def check(self) -> None:
        with self._lock:
            if time.monotonic() < self._until_s:
                raise Unanswered(self._reason)

    def over(self) -> None:
        with self._lock:
            self._in_a_row = 0

    def noted(self, reason: str, *, for_good: bool, counts: bool) -> None:
        with self._lock:
            self._in_a_row += counts
            if for_good or self._in_a_row >= _SILENT_AFTER:
                if time.monotonic() >= self._until_s:
                    _log.warning("%s; it is not asked again for %.0f s", reason, _SILENT_S)
                self._until_s, self._reason, self._in_a_row = time.monotonic() + _SILENT_S, reason, 0
