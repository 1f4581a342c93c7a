"""What a drawing on a terminal is made of, and texts in it: colours, bars, lanes; all of it also in ASCII, or plain."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from blamespan.analysis.showing.legible import clean, passages, printable
from blamespan.trace import MessageActionTrace

_COLOURS = ("cyan", "green", "magenta", "blue", "yellow", "bright_cyan", "bright_green", "bright_magenta")
_EVIDENCE = "not dim black on yellow"
_MAX_LANES = 12
_TEXT_COLUMNS = 30
"""Left for what is said, beside lanes."""
_BAR_CELLS = 8


@dataclass(frozen=True, slots=True)
class Marks:
    """Signs, as the terminal can show them."""

    step: str = "●"
    decisive: str = "◆"
    lane: str = "│"
    full: str = "█"
    empty: str = "░"
    builds_on: str = "←"
    to: str = "→"
    gap: str = "⋮"
    more: str = "…"
    opening: str = "“"
    closing: str = "”"

    def bar(self, share: float, highest: float) -> str:
        """Draw a share of the blame against the highest one."""
        cells = round(_BAR_CELLS * share / highest) if highest > 0 else 0
        cells = max(cells, int(share > 0))
        return self.full * cells + self.empty * (_BAR_CELLS - cells)


_ASCII = Marks("o", "#", "|", "=", ".", "<-", "->", ":", "...", '"', '"')


def marks_of(console: Console) -> Marks:
    """Choose signs that the terminal's encoding has."""
    return _ASCII if console.options.ascii_only else Marks()


class AgentColumns:
    """A column per agent, in the order of first word; none where there are too many for the width.

    Args:
        trace: The run.
        console: Where it is drawn.
    """

    def __init__(self, trace: MessageActionTrace, console: Console) -> None:
        spoke = [step.agent for step in trace.steps]
        self.agents: Sequence[str] = tuple(dict.fromkeys(spoke))
        self.colours: Mapping[str, str] = {
            agent: _COLOURS[index % len(_COLOURS)] for index, agent in enumerate(self.agents)
        }
        self._first = {agent: step for step, agent in reversed(list(enumerate(spoke)))}
        self._last = {agent: step for step, agent in enumerate(spoke)}
        has_room = len(self.agents) <= min(_MAX_LANES, max(2, (console.width - _TEXT_COLUMNS) // 2))
        self._shown = self.agents if has_room else ()
        self.width = max(2, 2 * len(self._shown))

    def at(self, index: int, agent: str, sign: Text, marks: Marks) -> Text:
        """Draw the columns beside a step's first line."""
        if not self._shown:
            return Text.assemble(sign, " ")
        columns = [sign if lane == agent else self._line(lane, index, marks) for lane in self._shown]
        return Text.assemble(*(part for column in columns for part in (column, " ")))

    def beside(self, index: int, marks: Marks) -> Text:
        """Draw them beside what follows it."""
        if not self._shown:
            return Text(" " * self.width)
        return Text.assemble(*(part for lane in self._shown for part in (self._line(lane, index, marks, 1), " ")))

    def _line(self, agent: str, index: int, marks: Marks, below: int = 0) -> Text:
        is_between = self._first[agent] < index + below and index < self._last[agent]
        return Text(marks.lane if is_between else " ", style=f"dim {self.colours[agent]}")


def line(text: str) -> str:
    """Make untrusted text one line that a terminal does not obey and any encoding takes."""
    return printable(clean(text))


def rows(facts: Iterable[Text], width: int, gap: int = 2) -> list[Text]:
    """Set facts beside each other, as many on a row of *width* columns as fit."""
    lines: list[Text] = []
    for fact in facts:
        if lines and lines[-1].cell_len + gap + fact.cell_len <= width:
            lines[-1] = Text.assemble(lines[-1], " " * gap, fact)
        else:
            lines.append(fact)
    return lines


def shortened(text: str, most: int, marks: Marks) -> str:
    """Cut *text* to *most* characters, saying so."""
    return text if len(text) <= most else text[: most - len(marks.more)] + marks.more


def marked(text: str, quotes: Iterable[str], console: Console, marks: Marks) -> Text:
    """Highlight *quotes* in cleaned *text*; between signs where there are no colours."""
    marked_text = Text()
    for passage in passages(text, quotes):
        if passage.is_evidence and console.color_system is None:
            marked_text.append(f"{marks.opening}{passage.text}{marks.closing}")
        else:
            marked_text.append(passage.text, style=_EVIDENCE if passage.is_evidence else "")
    return marked_text


def excerpt(content: str, quotes: Sequence[str], room: int, marks: Marks) -> str:
    """Return as much of *content*, on one line, as may fit: its beginning, or what stands around the evidence.

    Args:
        content: Untrusted.
        quotes: Evidence, as `line` gives it.
        room: Characters.
        marks: For what is left out.
    """
    text = line(content[: 50 * room + 10_000])
    before = list(itertools.takewhile(lambda passage: not passage.is_evidence, passages(text, quotes)))
    at = sum(len(passage.text) for passage in before)
    start = at - room // 4 if room // 2 < at < len(text) else 0
    return (marks.more if start else "") + text[start : start + 2 * room]
