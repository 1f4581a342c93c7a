"""The claims of an answer as a graph: a lane for each agent, a column for each step, an arrow to who repeats whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import TypeAlias

from blamespan.analysis.showing.claims import ShownAnswer, ShownClaim, ShownMention, last_word

_NODE_HEIGHT, _NODE_GAP = 20, 5
_LANE_PADDING = 8
_TOP = 24
"""Room for step numbers."""
_CHAR_WIDTH, _NODE_PADDING = 7, 14
_LONGEST_VALUE, _NARROWEST = 18, 40
_COLUMN_GAP = 44
_MOST_STACKED = 8
"""Values of one step that are drawn one by one."""
_TASK, _INPUTS, _TOOLS = "the task", "given", "tools"


_Link: TypeAlias = tuple[ShownMention, ShownMention, bool]
"""A source, what goes back to it, and whether mentions in between are left out."""

_Cells: TypeAlias = dict[tuple[str, int], list[list[ShownMention]]]
"""By lane and column what stands there: groups of mentions, a node each."""


@dataclass(frozen=True, slots=True)
class ClaimNode:
    """A value where a step, the task or a tool states it, or several that go the same way.

    Attributes:
        mention: It, or the first of them.
        text: What is written in it.
        about: What it is, in words.
        kind: As of the mention.
        is_answer: Whether the answer states it.
        is_doubted: Whether it stands in a suspected step, or a source contradicts it.
        x: Left edge.
        y: Upper edge.
        width: In pixels.
        height: In pixels.
    """

    mention: ShownMention
    text: str
    about: str
    kind: str
    is_answer: bool
    is_doubted: bool
    x: int
    y: int
    width: int
    height: int = _NODE_HEIGHT


@dataclass(frozen=True, slots=True)
class ClaimArrow:
    """From a value to one that repeats it or is calculated from it.

    Attributes:
        path: Its path data.
        is_unsupported: Whether what it carries begins with an agent that has no source.
        is_doubted: Whether it leads to a value of a suspected step, or one that a source contradicts, or on from one.
        is_cut: Whether mentions in between are left out.
    """

    path: str
    is_unsupported: bool
    is_doubted: bool
    is_cut: bool


@dataclass(frozen=True, slots=True)
class ClaimLane:
    """Who states the values in it.

    Attributes:
        name: Of the agent; or the task, what was given, or tools.
        y: Upper edge.
        height: In pixels.
    """

    name: str
    y: int
    height: int


@dataclass(frozen=True, slots=True)
class ClaimGraph:
    """What is drawn.

    Attributes:
        lanes: From top to bottom.
        marks: Numbers of steps, with the middle of their column.
        nodes: The values.
        arrows: What goes back to what.
        width: In pixels.
        height: In pixels.
    """

    lanes: tuple[ClaimLane, ...]
    marks: tuple[tuple[int, int], ...]
    nodes: tuple[ClaimNode, ...]
    arrows: tuple[ClaimArrow, ...]
    width: int
    height: int


def draw_claims(answer: ShownAnswer) -> ClaimGraph:
    """Place the claims of an answer and all that they go back to.

    Each mention is drawn once, however many claims go back to it. Where a step states more than a few, those that come
    from the same places and go to the same places are one node. Lanes are in the order in which a run needs them: the
    task, what was given, tools, then agents as they first speak of a claim. Within a lane the values of one step stand
    below each other.
    """
    links = list(dict.fromkeys(link for claim in answer.claims for link in _list_links(claim)))
    mentions = list(dict.fromkeys(mention for claim in answer.claims for mention in _list_mentions(claim)))
    unsupported = _spread({mention for mention in mentions if mention.kind == "unsupported"}, links)
    doubted = _spread({mention for mention in mentions if mention.is_doubted}, links)
    columns = sorted({_order(mention) for mention in mentions})
    cells = _fill_cells(mentions, links, unsupported)
    lanes = _place_lanes(cells)
    lefts, widths = _place_columns(columns, cells)
    nodes: dict[ShownMention, ClaimNode] = {}
    for (name, column), groups in cells.items():
        for number, group in enumerate(groups):
            node = ClaimNode(
                group[0],
                _label(group),
                _describe(group),
                group[0].kind,
                group[0].step == answer.step and group[0].kind not in ("tool", "input"),
                group[0].is_doubted,
                lefts[column],
                lanes[name].y + _LANE_PADDING + number * (_NODE_HEIGHT + _NODE_GAP),
                widths[column],
            )
            nodes.update(dict.fromkeys(group, node))
    arrows = dict.fromkeys(
        ClaimArrow(_draw_path(nodes[source], nodes[target]), source in unsupported, target in doubted, is_cut)
        for source, target, is_cut in links
    )
    last = max(lanes.values(), key=lambda lane: lane.y, default=None)
    return ClaimGraph(
        lanes=tuple(lanes.values()),
        marks=tuple((column, lefts[column] + widths[column] // 2) for column in columns if column >= 0),
        nodes=tuple(dict.fromkeys(nodes.values())),
        arrows=tuple(arrows),
        width=max((lefts[column] + widths[column] for column in columns), default=0) + _COLUMN_GAP // 2,
        height=(last.y + last.height if last else _TOP) + 4,
    )


def _fill_cells(mentions: Sequence[ShownMention], links: Sequence[_Link], unsupported: Set[ShownMention]) -> _Cells:
    """Put each mention into its lane and column; of many in one cell those that go the same way are one group."""
    ways: dict[ShownMention, set[tuple[object, ...]]] = {mention: set() for mention in mentions}
    for source, target, is_cut in links:
        ways[source].add(("to", _lane(target), _order(target), is_cut))
        ways[target].add(("from", _lane(source), _order(source), is_cut))
    stacks: dict[tuple[str, int], list[ShownMention]] = {}
    for mention in mentions:
        stacks.setdefault((_lane(mention), _order(mention)), []).append(mention)
    cells: _Cells = {}
    for place, stack in stacks.items():
        groups: dict[object, list[ShownMention]] = {}
        for mention in stack:
            way = (mention.kind, mention.is_doubted, mention in unsupported, frozenset(ways[mention]))
            groups.setdefault(way if len(stack) > _MOST_STACKED else mention, []).append(mention)
        cells[place] = list(groups.values())
    return cells


def _spread(unsupported: set[ShownMention], links: Sequence[_Link]) -> set[ShownMention]:
    """Add to what has no source all that goes back to it."""
    following: dict[ShownMention, list[ShownMention]] = {}
    for source, target, _ in links:
        following.setdefault(source, []).append(target)
    reached, waiting = set(unsupported), list(unsupported)
    while waiting:
        new = [target for target in following.get(waiting.pop(), ()) if target not in reached]
        reached.update(new)
        waiting += new
    return reached


def _list_links(claim: ShownClaim) -> Iterator[_Link]:
    """Yield each source with what goes back to it, and whether mentions in between are left out."""
    middle = len(claim.mentions) // 2
    for number in range(1, len(claim.mentions)):
        is_cut = bool(claim.n_hidden) and number == middle
        yield claim.mentions[number], claim.mentions[number - 1], is_cut
    for operand in claim.operands:
        yield operand.mentions[0], claim.mentions[-1], False
        yield from _list_links(operand)


def _list_mentions(claim: ShownClaim) -> Iterator[ShownMention]:
    yield from claim.mentions
    for operand in claim.operands:
        yield from _list_mentions(operand)


def _order(mention: ShownMention) -> int:
    return -1 if mention.step is None else mention.step


def _lane(mention: ShownMention) -> str:
    if mention.step is None:
        return _TASK
    return {"input": _INPUTS, "tool": _TOOLS}.get(mention.kind, mention.agent)


def _place_lanes(cells: _Cells) -> dict[str, ClaimLane]:
    names = [name for name, _ in sorted(cells, key=lambda cell: cell[1])]
    first = [name for name in (_TASK, _INPUTS, _TOOLS) if name in names]
    lanes: dict[str, ClaimLane] = {}
    y = _TOP
    for name in dict.fromkeys((*first, *names)):
        most = max(len(stack) for (lane, _), stack in cells.items() if lane == name)
        height = most * (_NODE_HEIGHT + _NODE_GAP) - _NODE_GAP + 2 * _LANE_PADDING
        lanes[name] = ClaimLane(name, y, height)
        y += height
    return lanes


def _place_columns(columns: Sequence[int], cells: _Cells) -> tuple[dict[int, int], dict[int, int]]:
    """Return the left edge and the width of each column: as wide as the longest of its labels."""
    longest = dict.fromkeys(columns, 0)
    for (_, column), groups in cells.items():
        longest[column] = max(longest[column], *(len(_label(group)) for group in groups))
    widths = {column: max(_NARROWEST, length * _CHAR_WIDTH + _NODE_PADDING) for column, length in longest.items()}
    lefts: dict[int, int] = {}
    x = _COLUMN_GAP // 2
    for column in columns:
        lefts[column] = x
        x += widths[column] + _COLUMN_GAP
    return lefts, widths


def _label(group: Sequence[ShownMention]) -> str:
    value = group[0].value
    value = value if len(value) <= _LONGEST_VALUE else f"{value[: _LONGEST_VALUE - 1]}…"
    return value if len(group) == 1 else f"{value} and {len(group) - 1} more"


def _describe(group: Sequence[ShownMention]) -> str:
    mention = group[0]
    where = "the task" if mention.step is None else f"{mention.agent}, step {mention.step}"
    end = last_word(mention)
    values = ", ".join(one.value for one in group)
    return f"{values}: {where}{f', {end}' if end else ''}{'. ' + mention.quote if len(group) == 1 else ''}"


def _draw_path(source: ClaimNode, target: ClaimNode) -> str:
    """Draw an arrow to the right; within a column, out of it and back."""
    y, end_y = source.y + source.height // 2, target.y + target.height // 2
    x = source.x + source.width
    if source.x < target.x:
        bow = _COLUMN_GAP // 2
        return f"M{x} {y}C{x + bow} {y} {target.x - bow} {end_y} {target.x - 2} {end_y}"
    end = target.x + target.width
    out = max(x, end) + _COLUMN_GAP // 2
    return f"M{x} {y}C{out} {y} {out} {end_y} {end + 2} {end_y}"
