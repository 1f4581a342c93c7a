"""What each step is beside the steps before it: what it states, says again and hints at, and who objects to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from blamespan.trace import MessageActionTrace, Step
from blamespan_tracer.cues import CUES, count_cues
from blamespan_tracer.ledger import Claim, Ledger
from blamespan_tracer.own_words import OwnWords
from blamespan_tracer.tokens import find_words, has_several_words, is_number, text_ends

REPEATED, LEAST_CHARS = 0.9, 60
"""Share of a message from which on it is a repetition, and length of a message that can be one."""

_SHINGLE = 4
"""Words in a row: three are common by chance, five miss what is slightly reworded."""
_MOST_SHINGLES = 200_000
"""So many of a run's latest are kept: those of some thousand messages of a page."""

_MOST_NAMES = 64
"""Names of several words that are read as one, the first."""

_STATING = ("number", "date", "time", "identifier")
"""Forms of values that state something also where they were said before."""


@dataclass(frozen=True, slots=True)
class ReadStep:
    """A step beside those before it.

    Attributes:
        step: The step.
        claims: What it states, beside what its sources say; none for a tool's answer.
        hints: What its words hint at: names of `CUES`.
        repeated: Share of its words in a row that its agent said before.
        is_objected_to: Whether somebody has objected to its agent since that agent last said something new.
        states: Whether it gives a value, brings in a name, or shows code.
        follows_statement: Whether the message before it does.
        named: The other agents that it names.
        shingles: Hashes of its words in a row, as its agent's.
    """

    step: Step
    claims: Sequence[Claim]
    hints: frozenset[str]
    repeated: float
    is_objected_to: bool
    states: bool
    follows_statement: bool
    named: tuple[str, ...]
    shingles: tuple[int, ...]

    @property
    def is_repeated(self) -> bool:
        """Whether it is a message, no short one, that its agent said before."""
        return self.repeated > REPEATED and len(self.step.content) >= LEAST_CHARS


class StepReader:
    """Reads one step after the other; each costs the same however long the run is."""

    def __init__(self) -> None:
        self._own_words = OwnWords()
        self._shingles: dict[int, None] = {}
        self._agents: dict[str, None] = {}
        self._objected_to: set[str] = set()
        self._last_to_decide = ""
        self._stated = False

    def read(self, step: Step, claims: Sequence[Claim]) -> ReadStep:
        """Read a step that is not taken up yet.

        Args:
            step: The step.
            claims: Its claims.
        """
        names = tuple(self._agents)
        text = "\n".join(text_ends(self._own_words.read(step)))
        words = find_words(text, tuple(filter(has_several_words, names))[:_MOST_NAMES])
        counts = count_cues(words)
        shingles = tuple(_list_shingles(step.agent, words))
        return ReadStep(
            step,
            claims,
            frozenset(cue for cue, count in zip(CUES, counts, strict=True) if count > 0),
            sum(map(self._shingles.__contains__, shingles)) / max(len(shingles), 1),
            step.agent in self._objected_to,
            "```" in text or any(map(_states, claims)),
            self._stated,
            tuple(name for name in names if name != step.agent and _names(name, words)),
            shingles,
        )

    def take(self, read: ReadStep, *, decides: bool) -> None:
        """Take up a step that takes place; *decides* says whether an agent can be blamed for it."""
        step = read.step
        self._own_words.take(step)
        if not decides:
            return
        if not read.is_repeated:
            self._objected_to.discard(step.agent)
        if "object" in read.hints:
            before = [self._last_to_decide] if self._last_to_decide else []
            self._objected_to.update({*(read.named or before)} - {step.agent})
        self._agents[step.agent] = None
        self._last_to_decide = step.agent
        if step.kind == "message" and read.shingles:  # a name by which one chooses a speaker states nothing
            self._stated = read.states
        for shingle in read.shingles:
            self._shingles.pop(shingle, None)
            self._shingles[shingle] = None
        for shingle in list(islice(self._shingles, max(0, len(self._shingles) - _MOST_SHINGLES))):
            del self._shingles[shingle]


def read_steps(trace: MessageActionTrace, ledger: Ledger) -> Iterator[ReadStep]:
    """Read every step of a run, whose claims are known."""
    reader = StepReader()
    for step, claims in zip(trace.steps, ledger.claims, strict=True):
        read = reader.read(step, claims)
        reader.take(read, decides=trace.can_be_blamed(step))
        yield read


def _list_shingles(agent: str, words: Iterable[str]) -> Iterator[int]:
    """Yield the hash of every few words in a row, as their agent's."""
    said = [word.lower() for word in words if word[0].isalpha() or word[0] == "_" or is_number(word)]
    return map(hash, zip([agent] * len(said), *(said[at:] for at in range(_SHINGLE)), strict=False))


def _states(claim: Claim) -> bool:
    form = claim.mention.value.form
    return form in _STATING or (form == "name" and claim.support is None)


def _names(name: str, words: Sequence[str]) -> bool:
    """Check whether words name an agent: by its name, or by the longest word of a name of several."""
    parts = name.replace("-", " ").lower().split()
    return bool(parts) and not {name.lower(), max(parts, key=len)}.isdisjoint(map(str.lower, words))
