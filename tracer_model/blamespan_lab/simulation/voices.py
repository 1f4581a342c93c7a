"""How an agent writes: to the point, or at length, with what is asked, why, and a recap around what it says.

What is put around states no value and no rule, is read as nothing, and goes by the run's seed and the agent's name
alone: whether anything goes wrong has no part in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

from blamespan_lab.simulation.casts import Role
from blamespan_lab.simulation.dice import Dice
from blamespan_lab.simulation.prose import about, sentence
from blamespan_lab.wordings import choose
from blamespan_lab.wordings.banks import ELABORATION

__all__ = ["TERSE", "Voice", "voice_of"]

_SHARES = (0.1, 0.3, 0.6)
"""Of wordy agents in a team; a third over all teams."""
_LAYOUTS: tuple[Literal["plain", "bold", "headings"], ...] = ("plain", "plain", "bold", "headings")


@dataclass(frozen=True, slots=True)
class Voice:
    """How one agent writes throughout a run.

    Attributes:
        is_wordy: Whether it puts anything around what it says.
        layout: Whether the parts of its messages stand under headings.
    """

    is_wordy: bool = False
    layout: Literal["plain", "bold", "headings"] = "plain"

    def around(self, said: str, role: Role, phrase: str, *, is_known: bool, rng: Random) -> str:
        """Put what is asked before a message and a recap behind it.

        Args:
            said: The message.
            role: The agent's.
            phrase: What the question asks for.
            is_known: Whether there is an answer.
            rng: Chooses the wording.
        """
        if not self.is_wordy:
            return said
        recaps = ELABORATION.recaps_known if is_known else ELABORATION.recaps_open
        recaps = ELABORATION.recaps_leading if role == "orchestrator" else recaps
        intro, recap = choose(ELABORATION.intros[role], rng), choose(recaps, rng)
        remarks = [choose(ELABORATION.remarks, rng) for _ in range(rng.choice((0, 1, 2, 2, 3)))]
        parts = {
            "task": about(intro, phrase),
            "work": said,
            "recap": " ".join(dict.fromkeys([*remarks, about(recap, phrase)])),
        }
        return "\n\n".join(self._headed(name, text, rng) for name, text in parts.items())

    def reasoned(self, said: str, phrase: str, given: str, rng: Random) -> str:
        """Say before a statement how one comes to it, most of the time.

        Args:
            said: The statement, without its full stop.
            phrase: What it is about.
            given: What it rests on; empty for what a tool told.
            rng: Chooses the wording.
        """
        if not self.is_wordy or rng.random() < 0.25:
            return said
        bank = ELABORATION.reasons if given else ELABORATION.sourced
        why = about(choose(bank, rng), phrase).replace("{given}", f"the {given}")
        after = choose(ELABORATION.afterthoughts, rng) if rng.random() < 0.3 else ""
        return f"{why} {sentence(said)} {after}".strip()

    def _headed(self, name: str, text: str, rng: Random) -> str:
        if self.layout == "plain":
            return text
        heading = choose(ELABORATION.headings[name], rng)
        return f"## {heading}\n{text}" if self.layout == "headings" else f"**{heading}**\n{text}"


TERSE = Voice()
"""Says what it has to say."""


def voice_of(seed: int, name: str) -> Voice:
    """Draw how the agent *name* of the run *seed* writes."""
    share = Dice("voice", seed).rng("share").choice(_SHARES)
    rng = Dice("voice", seed, name).rng("own")
    return Voice(rng.random() < share, rng.choice(_LAYOUTS))
