"""A run laid out: its numbers, its texts and its drawing; pure."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blamespan.analysis.showing.legible import Passage, clean, duration, iso_time, passages, percent, when
from blamespan.analysis.showing.run_view import RunView, view_of
from blamespan.attribution import NOBODY_KNOWS, Attribution
from blamespan_collector.page.comparison import compare
from blamespan_collector.page.folding import fold_texts
from blamespan_collector.page.lanes import lanes_of
from blamespan_collector.page.rendering import _environment
from tests.collector.paging import LastStepsTracer
from tests.sdk.builders import small_run
from tests.sdk.talks import talk


def view(*contents: str, agents: tuple[str, ...] = ("a", "b")) -> RunView:
    run = talk(1, contents, agents=agents)
    [verdict] = LastStepsTracer().attribute([run])
    return view_of(run, verdict)


def test_blame_is_heat() -> None:
    """The most blamed step is hottest, others in proportion, one without blame is cold; suspects are ranked."""
    found = view("w", "x", "y", "z", "last")

    assert [step.heat for step in found.steps] == [1, 2, 3, 5, 10]
    assert found.decisive is found.steps[4]
    assert [step.step.index for step in found.suspects] == [3, 2, 1]
    assert [step.step.index for step in found.step_set] == [2, 3, 4]
    assert found.held == pytest.approx(sum(step.score for step in found.step_set))


def test_what_a_step_was_given_is_laid_out_within_bounds() -> None:
    """What a step was given stands beside its text, cleaned; of a very long one the page says how much is missing."""
    run = talk(1, ("w", "x"))
    texts = ("The list:\x07 40 and 8.", "long " * 20_000)
    steps = tuple(replace(step, input_text=text) for step, text in zip(run.steps, texts, strict=True))

    texts = fold_texts(view_of(replace(run, steps=steps), None), 0, 2)

    assert texts[0].given == "The list:\N{REPLACEMENT CHARACTER} 40 and 8."
    assert (len(texts[1].given), texts[1].given_left_out) == (60_000, 40_000)


def test_run_without_verdict_blames_nobody() -> None:
    """Without a verdict, and after an abstention, no step is hot and nobody decisive."""
    run = talk(1)
    for verdict in (None, Attribution.abstain(run, "why", LastStepsTracer.identity)):
        found = view_of(run, verdict)

        assert (found.decisive, found.suspects, found.mode) == (None, (), None)
        assert {step.heat for step in found.steps} == {0}


def test_nobody_is_blamed_without_a_sign_of_failure() -> None:
    """A run that nobody knows to have failed, and whose verdict does not say so, is cold; suspects are folded away."""
    run = talk(1)
    [verdict] = LastStepsTracer().attribute([run])
    open_verdict = replace(verdict, failure_score=NOBODY_KNOWS)

    views = [
        view_of(replace(run, outcome=outcome), replace(judged, outcome=outcome))
        for outcome in ("failed", "unknown", "succeeded")
        for judged in (verdict, open_verdict)
    ]

    assert [view.decisive is not None for view in views] == [True, True, True, False, False, False]
    assert [bool(view.possible) for view in views] == [False, False, False, True, True, True]
    assert {step.heat for view in views[3:] for step in view.steps} == {0}


def test_run_without_steps_is_laid_out() -> None:
    """A run in which nobody acted has neither lanes nor times."""
    found = view_of(talk(1, ()), None)

    assert (found.steps, found.start_ns, found.end_ns, lanes_of(found).cells) == ((), 0, 0, ())


def test_evidence_far_down_is_seen_at_once() -> None:
    """Of a long text the place of the evidence is shown, and the whole of it can be unfolded."""
    run = talk(1, ["x" * 9_000 + "It is so." + "y" * 9_000])
    [verdict] = LastStepsTracer().attribute([run])
    far = replace(verdict, evidence=(replace(verdict.evidence[0], quote="It is so."),))
    [text] = fold_texts(view_of(run, far), 0, 1).values()

    assert text.is_excerpt
    assert Passage("It is so.", is_evidence=True) in text.shown
    assert "".join(passage.text for passage in text.folded) == run.steps[0].content


def test_long_text_is_folded_not_lost() -> None:
    """What is shown at once and what is folded away are the text."""
    [text] = fold_texts(view("word " * 2_000), 0, 1).values()

    assert "".join(passage.text for passage in (*text.shown, *text.folded)) == "word " * 2_000
    assert len("".join(passage.text for passage in text.shown)) == 1_500


@given(st.text(), st.lists(st.text(max_size=8), max_size=5))
def test_pieces_are_the_text(text: str, quotes: list[str]) -> None:
    """Whatever is marked, nothing of the text is lost, doubled or moved."""
    found = passages(clean(text), quotes)

    assert "".join(passage.text for passage in found) == clean(text)
    assert all(passage.text for passage in found)


@given(st.text(alphabet=st.characters(codec=None, exclude_categories=())))
def test_clean_text_can_be_written(text: str) -> None:
    """Cleaned text is Unicode that can be sent, without control or direction characters, and stays what it is."""
    found = clean(text)

    assert found.encode().decode() == found
    assert all(character in "\n\t" or ord(character) >= 0x20 for character in found)
    assert not set(found) & set("\x7f\x9f\u202e\u2066\ufeff")
    assert clean(found) == found


@pytest.mark.parametrize(
    ("quotes", "marked"),
    [
        (["two"], ["two"]),
        (["one … three"], ["one", "three"]),
        (["two th…"], ["two th"]),
        (["one two", "two three"], ["one two", " three"]),
        (["four"], []),
        (["", " ", "…"], []),
    ],
)
def test_quotes_are_marked_where_they_stand(quotes: list[str], marked: list[str]) -> None:
    """Several quotes in one, cut ones and overlapping ones are found; what is not there is not marked."""
    assert [passage.text for passage in passages("one two three", quotes) if passage.is_evidence] == marked


@pytest.mark.parametrize(
    ("nanoseconds", "said"),
    [
        (0, "0 s"),
        (-5, "0 s"),
        (700, "1 µs"),
        (12_000_000, "12 ms"),
        (999_600_000, "1.0 s"),
        (3_240_000_000, "3.2 s"),
        (59_990_000_000, "1 min 0 s"),
        (125 * 10**9, "2 min 5 s"),
        (7_260 * 10**9, "2 h 1 min"),
        (2**63, "2562047 h 47 min"),
    ],
)
def test_durations_are_read_easily(nanoseconds: int, said: str) -> None:
    """A duration has two or three figures and its unit."""
    assert duration(nanoseconds) == said


def test_numbers_of_broken_clocks_are_left_out() -> None:
    """A time that is none is not written as one; a tiny share is not none."""
    assert [when(time_ns) for time_ns in (0, 5, 2**63 - 1, 2**70)] == ["", "", "2262-04-11 23:47:16", ""]
    assert iso_time(1_790_000_000 * 10**9) == "2026-09-21T14:13:20.000+00:00"
    assert [percent(share).replace("\N{NO-BREAK SPACE}", " ") for share in (None, 0, 0.001, 0.456, 1)] == [
        *("", "0 %", "<1 %", "46 %", "100 %")
    ]


def test_each_agent_has_a_lane() -> None:
    """Steps of one agent lie at one height, steps in order from left to right, and links run between them."""
    drawing = lanes_of(view("x", "y", "z"))
    heights = [cell.y for cell in drawing.cells]

    assert heights[0] == heights[2] != heights[1]
    assert sorted({cell.x for cell in drawing.cells}) == [cell.x for cell in drawing.cells]
    assert [name for name, _ in drawing.names] == ["a", "b"]
    assert len(drawing.links) == 2


def test_drawing_is_bounded() -> None:
    """Many agents share the last lane; of very long runs a part is drawn, and the rest counted."""
    names = tuple(f"agent{number}" for number in range(100))
    drawing = lanes_of(view(*["x"] * 1_200, agents=names))

    assert len(drawing.names) == 30
    assert drawing.names[-1][0] == "others"
    assert (len(drawing.cells), drawing.left_out) == (1_000, 200)
    assert max(cell.y for cell in drawing.cells) < drawing.height


@pytest.mark.parametrize(
    ("first", "most", "drawn"), [(500, 500, range(500, 1_000)), (2_000, 500, range(2_000, 2_200)), (0, 100_000, None)]
)
def test_part_that_is_looked_at_is_drawn(first: int, most: int, drawn: range | None) -> None:
    """Of a very long run the steps shown below are drawn, links from before them left out; where all are, the worst."""
    found = view(*["x"] * 2_200)
    worst = found.decisive.step.index if found.decisive else -1
    drawing = lanes_of(found, first, most)
    indices = [cell.step.step.index for cell in drawing.cells]

    assert drawing.first == indices[0]
    assert len(drawing.links) == len(indices) - 1
    assert worst in indices if drawn is None else indices == list(drawn)


@pytest.mark.parametrize("count", [1_001, 2_200, 8_000])
def test_overview_holds_every_step_once(count: int) -> None:
    """All steps lie in one stretch each, in order; a stretch leads to its worst step; short runs need none."""
    found = view(*["x"] * count)
    overview = lanes_of(found, 0, 500).overview
    steps = [index for stretch in overview for index in range(stretch.first, stretch.last + 1)]

    assert steps == list(range(count))
    assert len(overview) <= 160
    assert overview[-1].x + overview[-1].width <= 960
    for stretch in overview:
        assert stretch.worst.score == max(step.score for step in found.steps[stretch.first : stretch.last + 1])
    assert lanes_of(view(*["x"] * 1_000)).overview == ()


def test_runs_that_repeat_themselves_are_compared_in_time() -> None:
    """Two messages said again and again are matched in a moment: before, this took 9 s of CPU time."""
    left, right = view(*["a"] * 1_000, agents=("x",)), view(*["a", "b"] * 500, agents=("x",))
    began_s = time.process_time()
    found = compare(left, right)

    assert time.process_time() - began_s < 3
    assert sum(pair.is_same for pair in found.pairs) == 500


def test_runs_part_where_they_differ() -> None:
    """Equal steps stand in one line, also where steps came in between."""
    found = compare(view("x", "y", "z"), view("x", "y", "new", "by b", "z"))
    lines = [(pair.left and pair.left.step.index, pair.right and pair.right.step.index) for pair in found.pairs]

    assert lines == [(0, 0), (1, 1), (None, 2), (None, 3), (2, 4)]
    assert found.parting is found.pairs[2]


@pytest.mark.parametrize(
    ("share_shown", "lead", "tag"),
    [
        (1.0, "Most to blame:", "decisive"),
        (0.0, "Suspects (no evidence in the run: by where mistakes", "first suspect"),
    ],
)
def test_step_is_called_decisive_by_evidence_alone(share_shown: float, lead: str, tag: str) -> None:
    """With evidence the page names a culprit and a decisive step, without it suspects."""
    trace = replace(small_run(), outcome="failed")
    shares = [0.0, 1.0, 0.0, 2.0, 5.0]
    by_evidence = [share_shown * share for share in shares]
    tracer = LastStepsTracer.identity
    verdict = Attribution.of(trace, shares, failure_score=1, tracer=tracer, by_evidence=by_evidence)
    macros = '{% from "_run.html" import verdict, show_step %}'
    shown = macros + "{{ verdict(view, 2, 0, 9) }}{{ show_step(view.steps[4], (view | fold(0, 9))[4], view, 0, 9) }}"
    text = _environment().from_string(shown).render(view=view_of(trace, verdict))

    assert lead in text
    assert f'<span class="tag decisive">{tag}</span>' in text
