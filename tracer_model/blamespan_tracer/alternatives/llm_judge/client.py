"""The client of the judge: the cache first, then the endpoint within budget and deadline, with retries.

Servers of one protocol differ in what a request may carry beside its messages; what one refuses is left out.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from blamespan_tracer.alternatives.endpoint import Endpoint, EndpointError
from blamespan_tracer.alternatives.llm_judge.budget import RunSpending, TokenBudget, Unanswered
from blamespan_tracer.alternatives.llm_judge.completions import TokenUsage, Unreadable, read_completion, read_usage
from blamespan_tracer.alternatives.llm_judge.prompts import AGAIN, Form, instructions
from blamespan_tracer.alternatives.llm_judge.settings import JudgeSettings, JudgeTaxonomy
from blamespan_tracer.alternatives.rendering import estimated_tokens

_log = logging.getLogger(__name__)

T = TypeVar("T")

_ATTEMPTS = 4
_READINGS = 2
"""How often a question is put until an answer can be read."""
_FIRST_PAUSE_S = 0.5
_FAILURES_TO_OPEN = 3
"""So many questions in a row without an answer, and the endpoint is left alone for a while."""
_KEY_STATUSES = (401, 403)
"""What a server says beside these may repeat the key."""
_LEAST_KEY_CHARS = 8
"""Shorter ones are no secrets, but may be parts of words."""
_OPEN_S = 30.0
_HINTS = {
    **dict.fromkeys((301, 302, 303, 307, 308, 405), "check BLAMESPAN_JUDGE_URL"),
    401: "check BLAMESPAN_JUDGE_KEY",
    403: "check BLAMESPAN_JUDGE_KEY",
    404: "check BLAMESPAN_JUDGE_URL and BLAMESPAN_JUDGE_MODEL",
}

_NAMES = ("max_tokens", "max_completion_tokens", "temperature", "response_format")
"""In the order in which they are done without, where a server does not say what it dislikes."""
_INSTEAD = {"max_completion_tokens": "max_tokens"}
"""What is only asked with once another was refused by its name: the same by its newer one."""
_LOST = {
    "max_completion_tokens": "answers may be as long as the server likes",
    "temperature": "answers may differ from time to time",
    "response_format": "answers are not held to a JSON schema; they are read as strictly",
}
_WORDS = {
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

_LEAST_COUNTED, _MOST_COUNTED = 6, 4
"""A server counts a sixth of our estimate at least, which is from above, and four times it at most."""

_CACHE_FORMAT = 2


@dataclass(frozen=True, slots=True)
class JudgeQuestion:
    """One question.

    Attributes:
        form: What is asked, and the form of the answer.
        document: What the model is shown, as JSON.
        note: What else the instructions end with.
    """

    form: Form
    document: str
    note: str = ""

    def prompt(self, taxonomy: JudgeTaxonomy) -> str:
        """Write the instructions."""
        return "\n\n".join(filter(None, (instructions(self.form, taxonomy), self.note)))


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment on the monotonic clock that answers must come before."""

    at_s: float = float("inf")

    @classmethod
    def after(cls, seconds: float | None) -> Deadline:
        """Set one *seconds* from now; none at all for None."""
        return cls() if seconds is None else cls(time.monotonic() + seconds)

    def left_s(self) -> float:
        """Return the seconds that are left.

        Raises:
            Unanswered: if none are.
        """
        left_s = self.at_s - time.monotonic()
        if left_s <= 0:
            raise Unanswered("the judge's time was over before it could answer")
        return left_s


class JudgeClient:
    """Asks one endpoint, from many threads at once.

    Attributes:
        budget: What may be spent, and what was.

    Args:
        settings: Whom to ask, and how much.
        pause_s: Seconds before the second attempt; doubled before each further one.
    """

    def __init__(self, settings: JudgeSettings, *, pause_s: float = _FIRST_PAUSE_S) -> None:
        self._settings = settings
        self._endpoint: Endpoint = settings.endpoint
        self._cache = AnswerCache(settings.cache)
        self._features = ServerFeatures()
        self._pause_s = pause_s
        self._breaker = _CircuitBreaker()
        self.budget = TokenBudget(
            settings.total,
            settings.hourly,
            settings.per_run,
            settings.price or (0.0, 0.0),
            settings.account,
        )

    def ask(
        self,
        question: JudgeQuestion,
        read: Callable[[str], T],
        deadline: Deadline,
        run: RunSpending | None = None,
    ) -> T:
        """Put a question, once more where the first answer cannot be read.

        Only answers that can be read are kept.

        Args:
            question: It.
            read: Returns what counts of an answer, or raises `Unreadable`.
            deadline: When the answer must be there.
            run: What was spent so far on the run that it is about.

        Raises:
            Unanswered: if there is none that *read* can read.
        """
        prompt = question.prompt(self._settings.taxonomy)
        key = _cache_key({**self._request(question, prompt), "url": self._endpoint.url, "form": question.form.schema})
        cached = self._cache.get(key)
        if cached is not None:
            try:
                result = read(cached)
            except Unreadable:
                pass
            else:
                self.budget.count("kept")
                return result
        trouble = Unreadable("it is none")
        for reading in range(_READINGS):
            try:
                told = prompt if reading == 0 else f"{prompt}\n\n{AGAIN}"
                answer = self._ask_with_retries(question, told, deadline, run)
                result = read(answer)
            except Unreadable as error:
                trouble = error
                self.budget.count("unreadable")
                continue
            self._cache.put(key, answer)
            return result
        raise Unanswered(f"the judge's answer does not count: {trouble}") from trouble

    def _ask_with_retries(
        self, question: JudgeQuestion, prompt: str, deadline: Deadline, run: RunSpending | None
    ) -> str:
        failure = EndpointError("nothing")
        for attempt in range(_ATTEMPTS):
            self._breaker.check()
            try:
                answer = self._ask_once(question, prompt, deadline, run)
            except EndpointError as error:
                failure = error
                self.budget.count("refused")
                if not error.is_transient:
                    break
            else:
                self._breaker.record_success()
                return answer
            if attempt + 1 < _ATTEMPTS:
                pause_s = failure.wait_s(attempt, self._pause_s)
                if pause_s >= deadline.left_s():
                    break
                time.sleep(pause_s)
        reason = self._describe(failure)
        is_silent = (failure.status == 0 or failure.status >= 500) and time.monotonic() < deadline.at_s
        self._breaker.record_failure(reason, for_good=failure.status in _HINTS, counts=is_silent)
        raise Unanswered(reason)

    def _ask_once(self, question: JudgeQuestion, prompt: str, deadline: Deadline, run: RunSpending | None) -> str:
        """Put a question; without what the server turns out not to take, as long as there is such a thing."""
        while True:
            names = self._features.choose()
            optional = _list_optional(names, question.form, self._settings.answer_tokens)
            request = {**self._request(question, prompt), **optional}
            timeout_s = min(self._endpoint.timeout_s, deadline.left_s())
            try:
                body = self._pay(request, estimated_tokens(prompt + question.document), timeout_s, run)
            except EndpointError as error:
                if not self._features.drop_refused(names, error):
                    raise
                continue
            self._features.record_success(names)
            return read_completion(body)

    def _pay(self, request: dict[str, object], input_tokens: int, timeout_s: float, run: RunSpending | None) -> bytes:
        most = self._settings.answer_tokens
        with self.budget.reserve(input_tokens, most, run) as reservation:
            try:
                body = replace(self._endpoint, timeout_s=timeout_s).ask(request)
            except EndpointError as error:
                reservation.is_lost = error.was_sent
                raise
            reservation.is_answered = True
            try:
                reservation.used = read_usage(body)
            except Unreadable:
                reservation.output_tokens = min(most, len(body) // 3 + 1)
            if reservation.used is not None and not _is_believable(
                reservation.used, input_tokens, max(most, len(body))
            ):
                self.budget.count("disbelieved")
                reservation.used = None
            return body

    def _describe(self, failure: EndpointError) -> str:
        """Return why there is no answer, the server's message, and what to do."""
        message = "" if failure.status in _KEY_STATUSES else failure.message
        if len(self._endpoint.key) >= _LEAST_KEY_CHARS:
            message = message.replace(self._endpoint.key, "...")
        hint = "check BLAMESPAN_JUDGE_URL" if failure.reason == "ConnectError" else _HINTS.get(failure.status)
        parts = [f"{failure.reason} ({message})" if message else failure.reason, *([hint] if hint else [])]
        return f"the judge did not answer: {', '.join(parts)}"

    def _request(self, question: JudgeQuestion, prompt: str) -> dict[str, object]:
        messages = [{"role": "system", "content": prompt}, {"role": "user", "content": question.document}]
        return {"model": self._endpoint.model, "messages": messages}


def _is_believable(used: TokenUsage, estimated: int, most: int) -> bool:
    """Check whether a server can have counted so: what it says bounds what is spent."""
    is_input = estimated <= used.input_tokens * _LEAST_COUNTED and used.input_tokens <= estimated * _MOST_COUNTED
    return is_input and used.output_tokens <= most * _MOST_COUNTED


class _CircuitBreaker:
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

    def record_success(self) -> None:
        with self._lock:
            self._in_a_row = 0

    def record_failure(self, reason: str, *, for_good: bool, counts: bool) -> None:
        with self._lock:
            self._in_a_row += counts
            if for_good or self._in_a_row >= _FAILURES_TO_OPEN:
                if time.monotonic() >= self._until_s:
                    _log.warning("%s; it is not asked again for %.0f s", reason, _OPEN_S)
                self._until_s, self._reason, self._in_a_row = time.monotonic() + _OPEN_S, reason, 0


def _list_optional(names: Sequence[str], form: Form, answer_tokens: int) -> dict[str, object]:
    """Return the fields that a request carries beside its messages."""
    schema = {"name": form.name, "strict": True, "schema": form.schema}
    every: dict[str, dict[str, object]] = {
        "max_tokens": {"max_tokens": answer_tokens},
        "max_completion_tokens": {"max_completion_tokens": answer_tokens},
        "temperature": {"temperature": 0, "seed": 0},
        "response_format": {"response_format": {"type": "json_schema", "json_schema": schema}},
    }
    return {key: value for name in names for key, value in every[name].items()}


class ServerFeatures:
    """Learns which features a server takes: once for all questions, and the log says what is left out.

    What one answered request carried is known to be taken; a refusal then has another reason. Where a question is
    refused with nothing left to leave out, nothing was learned: all is tried again with the next one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._dropped: set[str] = set()
        self._accepted: set[str] = set()
        self._warned: set[str] = set()

    def choose(self) -> list[str]:
        """Return the features of the next request."""
        with self._lock:
            dropped = self._dropped
            return [name for name in _NAMES if name not in dropped and _INSTEAD.get(name, name) in {name, *dropped}]

    def record_success(self, names: Sequence[str]) -> None:
        """Note that a question that carried these was answered; say so if it is less than before."""
        with self._lock:
            self._accepted.update(names)
            lost = [name for name in _LOST if name in self._dropped - self._warned and name not in names]
            self._warned.update(lost)
        for name in lost:
            _log.warning("the judge is asked without %s from now on, as its server refused it: %s", name, _LOST[name])

    def drop_refused(self, names: Sequence[str], error: EndpointError) -> bool:
        """Drop what the server names in its refusal, or is needed least; return whether to ask again."""
        if error.status in _OTHER:
            return False
        with self._lock:
            undecided = [name for name in names if name not in self._accepted]
            named = [name for name in undecided if any(word in error.body for word in _WORDS[name])]
            if not named and not (undecided and error.status in _REFUSALS):
                if not names:
                    self._dropped &= self._warned
                return False
            if not self._dropped & set(names):  # else another thread has just found out
                dropped_name = (named or undecided)[0]
                self._dropped.add(dropped_name)
                if not named:
                    self._dropped.update(new for new, old in _INSTEAD.items() if old == dropped_name)
            return True


def _cache_key(request: Mapping[str, object]) -> str:
    """Return the key of a question: a digest of all that its answer may depend on."""
    return hashlib.sha256(json.dumps([_CACHE_FORMAT, request], sort_keys=True).encode()).hexdigest()


class AnswerCache:
    """Answers on disk, one file each, so that the same question is never paid for twice; without a folder, none.

    A file is written beside its final path and moved there, so several processes may share a folder and one may be
    killed. What cannot be read is asked again; what cannot be written is not kept, and the log says so once.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def get(self, key: str) -> str | None:
        """Return the answer stored under *key*, if there is one that can be read."""
        if self._folder is None:
            return None
        try:
            text = json.loads(self._path(self._folder, key).read_bytes())["text"]
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            return None
        return text if isinstance(text, str) else None

    def put(self, key: str, answer: str) -> None:
        """Store an answer; readable by the user alone, as it may quote a run."""
        if self._folder is None:
            return
        path = self._path(self._folder, key)
        content = json.dumps({"text": answer})
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    file.write(content)
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
