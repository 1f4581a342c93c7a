"""Simulated agents that read feedback: what they make of it is an assumption, written down here and nowhere else.

An agent reads the feedback where it stands in what it is sent, and only there: who does not hear the task does not
hear the feedback. Named in it, it makes each mistake less often: by `heed` where its kind is the one that is named
(or none is), by half of that where it is another. Feedback that names nobody is heeded by everybody, but the same
attention is then shared among all of the team. A checker that is named looks more often, likewise.

So the assumption is that attention is limited and goes where one is told to look; it is not that feedback is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from blamespan.taxonomy import ErrorMode, canonical, mode
from blamespan_lab.feedback.writing import Note, notes_in, without_feedback
from blamespan_lab.simulation.agents.agent import DecisionContext
from blamespan_lab.simulation.agents.policy import InputMessage, Reply, ToolSpec
from blamespan_lab.simulation.agents.protocols import decide
from blamespan_lab.simulation.simulated_run import SimulatedPolicy

__all__ = ["HeedfulPolicy"]

_CHECKING = "mast:FM-3.2"


@dataclass
class HeedfulPolicy(SimulatedPolicy):
    """A character that reads feedback.

    Attributes:
        heed: How much attention feedback gets, 0..1.
    """

    heed: float = 0.0

    def reply(self, messages: Sequence[InputMessage], tools: Sequence[ToolSpec]) -> Reply:
        """Answer to the messages *messages*, feedback in them being heeded, not taken for statements of the task."""
        notes = tuple(dict.fromkeys(note for message in messages for note in notes_in(message.text)))
        plain = [replace(message, text=without_feedback(message.text)) for message in messages]
        context = _HeedfulMoment(
            self.profile,
            self.index,
            plain,
            tools,
            self.repairs.get(self.index, ()),
            self.draws,
            notes=notes,
            heed=self.heed,
        )
        self.index += 1
        decision = decide(context)
        self.mistakes = tuple(context.mistakes)
        return decision


@dataclass
class _HeedfulMoment(DecisionContext):
    notes: tuple[Note, ...] = ()
    heed: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.care = 1 - (1 - self.care) * self._share_left(_CHECKING) if self.care > 0 else 0.0

    def mistake_probability(self, mode: str) -> float:
        """Return the probability of a mistake of *mode*: lower after feedback on such."""
        return self.profile.mistakes * self._share_left(mode)

    def _share_left(self, code: str) -> float:
        """Return the share of its mistakes of a kind that an agent still makes."""
        left = 1.0
        for note in self.notes:
            if note.agent is None:
                left *= 1 - self.heed / len(self.profile.team)
            elif note.agent == self.profile.member.name:
                left *= 1 - (self.heed if note.mode is None or _same(note.mode, mode(code)) else self.heed / 2)
        return left


def _same(mode: ErrorMode, other_mode: ErrorMode) -> bool:
    return canonical(mode)[0] == canonical(other_mode)[0]
