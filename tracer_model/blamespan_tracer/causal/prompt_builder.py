"""A run as a language model's prompts, and the model's possible answers as tokens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from blamespan.errors import ConfigError
from blamespan.taxonomy import AEGIS
from blamespan_tracer.alternatives.rendering import ANSWER_TAGS, RenderedRun
from blamespan_tracer.causal.loading import Tokenizer
from blamespan_tracer.causal.prompts import (
    CLOSE,
    END,
    MODE_OF,
    OPEN,
    TO_MODE,
    Excerpt,
    Message,
    Question,
    StepAnswer,
    build_messages,
    cut_to_fit,
)
from blamespan_tracer.causal.token_trie import TokenTrie

__all__ = ["Prompt", "PromptBuilder"]

_NOBODY = "0|0"
_SYSTEM = "a-system-says-this"
_LEAST_RUN = 64
"""Tokens that the shortest runs take."""
_DONE = "</answer>"

_BEFORE, _AFTER, _NEAR_CHARS = 4, 2, 2_000
"""What is shown beside a decision whose words are tried one by one: each trial costs a reading."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt about a run or a part of it.

    Attributes:
        tokens: Of the whole prompt.
        opens_thought: Whether it opens the thought itself, as some chat templates do.
        shown: What it shows.
    """

    tokens: list[int]
    opens_thought: bool
    shown: Excerpt


class PromptBuilder:
    """Turns runs into prompts and answers into tokens, for one tokenizer.

    The pieces of a reply are cut into tokens one by one and joined, here and in training, so that what is taught is
    what is scored; in byte-level vocabularies these are also the tokens of the whole text.

    Args:
        tokenizer: With a chat template.
        context: Most tokens of prompt and reply.
        max_new_tokens: Most of them for a thought. `room`: for the answer beside it.
        question: What is asked.
        is_brief: See `messages`.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        context: int,
        max_new_tokens: int,
        question: Question,
        *,
        is_brief: bool = False,
    ) -> None:
        self._tokenizer = tokenizer
        self.question: Question = question
        self.max_new_tokens = max_new_tokens
        self._is_brief = is_brief
        self.room = len(self._tokenize(CLOSE, "0000|0000", TO_MODE, " FM-1.1", END)) + 2
        self._most_tokens = context - max_new_tokens - self.room
        self._takes_system = _takes_system(tokenizer)
        added = map(str, tokenizer.get_added_vocab())
        self._marks = sorted({*added, *map(str, tokenizer.all_special_tokens)})

    def check_room(self, context: int) -> None:
        """See that of *context* tokens some are left for a run, beside question, thought and answer.

        Raises:
            ConfigError: if there are none to speak of.
        """
        asked = len(self.tokens(self._apply_template("")))
        if self._most_tokens < asked + _LEAST_RUN:
            raise ConfigError(
                f"expected room for a run in a context of {context} tokens, got {asked} of them taken by the question, "
                f"{self.max_new_tokens} by the thought and {self.room} by the answer. Raise BLAMESPAN_CAUSAL_CONTEXT "
                "as far as the model reads, lower BLAMESPAN_CAUSAL_MAX_NEW_TOKENS, or take a model that reads more"
            )

    def parts(self, run: RenderedRun) -> list[Prompt]:
        """Ask about *run*, in as few parts as it takes; none if it does not fit."""
        return [self._part(excerpt) for excerpt in self._excerpts(run)]

    def whole(self, run: RenderedRun) -> tuple[list[Message], Prompt] | None:
        """Ask about *run* in one piece, for training; None if it does not fit."""
        cut = self._excerpts(run)
        return (self._messages(cut[0].text), self._part(cut[0])) if len(cut) == 1 else None

    def around(self, run: RenderedRun, step: int, text: str) -> Prompt | None:
        """Ask about a decision with *text* in place of its words, and a few around it; None if they do not fit."""
        near = range(max(step - _BEFORE, 0), min(step + _AFTER + 1, len(run)))
        shown = run.text(most_chars=_NEAR_CHARS, part=near, marks=self._marks, instead={step: text})
        part = self._part(Excerpt(shown, tuple(decision for decision in run.decisions if decision.step in near)))
        return part if len(part.tokens) <= self._most_tokens else None

    def tokens(self, text: str) -> list[int]:
        """Cut one piece of a prompt or a reply into tokens."""
        tokens: list[int] = self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return tokens

    def before_answer(self, part: Prompt, thought: str = "") -> list[int]:
        """Lay out a prompt with its closed thought, up to the numbers of the answer."""
        return [*self.open_thought(part), *self._tokenize(f"{thought.strip()}\n", CLOSE)]

    def open_thought(self, part: Prompt) -> list[int]:
        """Lay out a prompt with its thought opened."""
        return [*part.tokens, *self.tokens("\n" if part.opens_thought else f"{OPEN}\n")]

    def not_in_thoughts(self) -> list[int]:
        """List the tokens that would end a reply, or spoil its format, in the middle of a thought."""
        tags = [self.tokens(tag) for tag in ANSWER_TAGS if tag != "</think>"]
        return sorted({self.end, int(self._tokenizer.pad_token_id), *(token for token, *more in tags if not more)})

    def before_mode(self, part: Prompt, thought: str, agent: int, step: int) -> list[int]:
        """Lay out the same up to the mode of an answer."""
        return [*self.before_answer(part, thought), *self._tokenize(f"{agent}|{step}", TO_MODE)]

    def taught_step(self, part: Prompt, answer: StepAnswer, thought: str = "") -> list[int]:
        """Lay out prompt and reply as they are taught, with the token that ends it."""
        numbers = f"{answer.agent}|{answer.step}"
        rest = self._tokenize(numbers, _DONE) if answer.mode is None else self._tokenize(numbers, *_mode(answer.mode))
        return [*self.before_answer(part, thought), *rest, self.end]

    def taught_pairs(self, part: Prompt, pairs: Iterable[tuple[int, str]], thought: str = "") -> list[int]:
        """Lay out the same for pairs of agents and modes."""
        lines = [piece for agent, code in pairs for piece in (f"\n{agent}|", code)]
        return [*self.before_answer(part, thought), *self._tokenize(*lines, f"\n{_DONE}"), self.end]

    @property
    def end(self) -> int:
        """The token that ends a reply."""
        return int(self._tokenizer.eos_token_id)

    def steps(self, part: Prompt) -> TokenTrie:
        """Lay out the possible numbers: those of each decision of *part*, then nobody's."""
        follows = self.tokens(TO_MODE)[:1]
        return TokenTrie(
            [*(self.tokens(numbers) + follows for numbers in _numbers(part)), self.tokens(_NOBODY) + follows]
        )

    def modes(self) -> TokenTrie:
        """Lay out the modes, in the order of `MODE_OF`."""
        return TokenTrie([self._tokenize(f" {code}", END) for code in MODE_OF])

    def first_pairs(self, part: Prompt) -> TokenTrie:
        """Lay out the first lines of an answer about pairs: every agent with every mode, modes fastest."""
        agents = dict.fromkeys(decision.agent for decision in part.shown.decisions)
        follows = self.tokens(f"\n{_DONE}")[:1]
        return TokenTrie([self._tokenize(f"\n{agent}|", code) + follows for agent in agents for code in AEGIS])

    def replies(self, part: Prompt) -> TokenTrie:
        """Lay out all that may follow the end of a thought: every decision with every mode, and nobody."""
        before = CLOSE.removeprefix("</think>")
        answers = [(numbers, *_mode(code)) for numbers in _numbers(part) for code in MODE_OF]
        return TokenTrie([self._tokenize(before, *answer) for answer in [*answers, (_NOBODY, _DONE)]])

    def _tokenize(self, *pieces: str) -> list[int]:
        return [token for piece in pieces for token in self.tokens(piece)]

    def _excerpts(self, run: RenderedRun) -> list[Excerpt]:
        def n_tokens(text: str) -> int:
            return len(self.tokens(self._apply_template(text)))

        return cut_to_fit(run, n_tokens, self._most_tokens, marks=self._marks)

    def _part(self, shown: Excerpt) -> Prompt:
        asked = self._apply_template(shown.text)
        return Prompt(self.tokens(asked), asked.rstrip().endswith(OPEN), shown)

    def _messages(self, text: str) -> list[Message]:
        """Lay out the question; what the system says stands before it where the template knows no system."""
        asked = build_messages(text, self.question, is_brief=self._is_brief)
        if self._takes_system or len(asked) == 1:
            return asked
        return [{"role": "user", "content": "\n\n".join(message["content"] for message in asked)}]

    def _apply_template(self, text: str) -> str:
        asked = self._messages(text)
        return str(self._tokenizer.apply_chat_template(asked, add_generation_prompt=True, tokenize=False))


def _takes_system(tokenizer: Tokenizer) -> bool:
    """Return whether the chat template shows what a system says: some raise, some leave it out."""
    asked = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": "?"}]
    try:
        return _SYSTEM in str(tokenizer.apply_chat_template(asked, add_generation_prompt=True, tokenize=False))
    except Exception:  # a template may raise what it likes
        return False


def _numbers(part: Prompt) -> list[str]:
    return [f"{decision.agent}|{decision.step}" for decision in part.shown.decisions]


def _mode(code: str) -> tuple[str, str, str]:
    return TO_MODE, f" {code}", END
