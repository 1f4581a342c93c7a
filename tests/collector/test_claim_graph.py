"""The graph of an answer's claims: who states them in which lane and column, and what goes back to what."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from blamespan.analysis.showing.claims import ShownAnswer, ShownClaim, ShownMention
from blamespan_collector.page.claim_graph import ClaimGraph, draw_claims
from tests.collector.paging import RUN, annotated, got, stored
from tests.collector.test_page import ANSWERED
from tests.sdk.talks import talk


def at(step: int | None, agent: str, value: str, kind: str = "agent") -> ShownMention:
    return ShownMention(step, agent, kind, value, f"it is {value}")


def claim(*mentions: ShownMention, operands: tuple[ShownClaim, ...] = (), n_hidden: int = 0) -> ShownClaim:
    is_unsupported = mentions[-1].kind == "unsupported"
    return ShownClaim(mentions, n_hidden, operands, len(operands), is_unsupported)


def draw(*claims: ShownClaim, step: int = 9) -> ClaimGraph:
    return draw_claims(ShownAnswer(step, "reporter", claims, len(claims), 0, (), 0))


def arrows_of(graph: ClaimGraph) -> int:
    return len(graph.arrows)


def test_values_stand_in_the_lane_of_who_states_them_and_the_column_of_the_step() -> None:
    """The task comes first, tools before agents, later steps to the right; a mention is drawn once for all claims."""
    task, tool = at(None, "", "84", "task"), at(2, "ada", "36", "tool")
    first = at(3, "ada", "36")
    graph = draw(claim(at(9, "reporter", "36"), first, tool), claim(at(9, "reporter", "84"), task), claim(first, tool))
    places = {(node.mention.agent, node.text): (node.x, node.y) for node in graph.nodes}

    assert [lane.name for lane in graph.lanes] == ["the task", "tools", "ada", "reporter"]
    assert [number for number, _ in graph.marks] == [2, 3, 9]
    assert len(graph.nodes) == 5
    assert arrows_of(graph) == 3
    assert places["", "84"][0] < places["ada", "36"][0] < places["reporter", "36"][0]
    assert {node.text for node in graph.nodes if node.is_answer} == {"36", "84"}


def test_what_has_no_source_taints_all_that_goes_back_to_it() -> None:
    """Also what is calculated from it; what has a source stays apart."""
    guess, sound = at(1, "ada", "7", "unsupported"), at(2, "tools", "5", "tool")
    total = at(4, "bob", "12", "calculation")
    graph = draw(claim(at(9, "reporter", "12"), total, operands=(claim(guess), claim(at(3, "bob", "5"), sound))))
    tainted = [arrow.is_unsupported for arrow in graph.arrows]

    assert tainted.count(True) == 2  # from the guess to the total, and on
    assert tainted.count(False) == 2
    assert [node.kind for node in graph.nodes if node.mention is guess] == ["unsupported"]


def test_what_is_suspected_is_drawn_apart_and_so_is_all_that_goes_on_from_it() -> None:
    """An arrow to a value of a suspected step, and on from there, is not drawn as that of a value with a source."""
    tool, other = at(1, "tools", "36", "tool"), at(1, "tools", "84", "tool")
    taken = replace(at(3, "ada", "36"), is_doubted=True)
    graph = draw(claim(at(9, "reporter", "36"), taken, tool), claim(at(9, "reporter", "84"), other))

    assert [arrow.is_doubted for arrow in graph.arrows] == [True, True, False]
    assert [node.mention for node in graph.nodes if node.is_doubted] == [taken]


def test_many_values_that_go_one_way_are_one_node() -> None:
    """Sixty values of one step that come from one other take the room of one; what goes elsewhere stands out."""
    chains = [claim(at(9, "reporter", str(n)), at(1, "ada", str(n), "unsupported")) for n in range(1_000, 1_060)]
    few = draw(*chains[:3])
    many = draw(*chains, claim(at(9, "reporter", "77"), at(5, "bob", "77"), at(2, "ada", "77", "tool")))

    assert len(few.nodes) == 6
    assert [node.text for node in many.nodes] == ["1000 and 59 more", "77", "1000 and 59 more", "77", "77"]
    assert arrows_of(many) == 3
    assert many.height < 300
    assert "1059" in many.nodes[0].about


def test_arrow_says_where_mentions_are_left_out() -> None:
    """Of a long chain the middle is cut; within one step an arrow leaves its column and comes back."""
    graph = draw(claim(*(at(9 - n, f"agent{n}", "42") for n in range(4)), n_hidden=3))
    within = draw(
        claim(at(9, "reporter", "12", "calculation"), operands=(claim(at(9, "reporter", "3", "calculation")),))
    )

    assert [arrow.is_cut for arrow in graph.arrows] == [False, True, False]
    assert arrows_of(within) == 1


async def test_page_draws_the_claims_beside_the_text_that_says_the_same(tmp_path: Path) -> None:
    """Without a script, with values escaped, and hidden from screen readers, which read the lists."""
    answer = ["The hotel <b>of</b> Fir Lodge has 36 rooms.", *ANSWERED[1:]]
    store = stored(tmp_path / "runs.db", *annotated(talk(1, answer, task="How many rooms?")))
    page = (await got(store, RUN)).text
    drawing = page[page.index('<svg class="claim-drawing"') :].partition("</svg>")[0]

    assert 'aria-hidden="true"' in drawing[:80]
    assert drawing.count("<rect ") >= 2
    assert 'class="arrow unsourced"' in drawing
    assert "<b>" not in drawing
    assert "style=" not in drawing
    assert '<b dir="auto">36</b>' in page  # the list
