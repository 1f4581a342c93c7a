"""Provenance: each claim of the answer goes back to where it comes from, through everybody who passed it on."""

from __future__ import annotations

import json
import time

import pytest

from blamespan import conventions as words
from blamespan.trace import MessageActionTrace
from blamespan_tracer.ledger import read_ledger
from blamespan_tracer.ledger.derivations import find_calculation
from blamespan_tracer.ledger.provenance import Ancestor, AnswerProvenance, trace_answer
from blamespan_tracer.run_notes import note_run
from tests.tracer_model.teams import team


def _chain(provenance: AnswerProvenance, number: int = 0) -> list[tuple[int, str]]:
    return [(one.mention.step, one.kind) for one in provenance.chain(provenance.claims[number])]


_GUESS = ("Researcher", "The hotel has 36 rooms, I believe.")
_LOOKED_UP = [("Researcher", "rooms({})", "tool_call"), ("Researcher", "36 rooms", "tool_result")]


def test_a_claim_goes_back_to_the_agent_that_made_it_up() -> None:
    """The writer has 36 from the editor, who has it from the researcher, who has it from nowhere: the suspect."""
    run = team(_GUESS, ("Editor", "Fine: 36 rooms."), ("Writer", "36 rooms."), task="How many rooms?")

    provenance = trace_answer(run)

    assert _chain(provenance) == [(2, "agent"), (1, "agent"), (0, "unsupported")]
    assert [suspect.mention.step for suspect in provenance.suspects] == [0]
    assert provenance.is_unsupported(provenance.claims[0])


def test_a_claim_that_a_tool_gave_suspects_nobody() -> None:
    """The sound twin: the researcher asked a tool, and the same chain ends there."""
    run = team(*_LOOKED_UP, ("Editor", "Fine: 36 rooms."), ("Writer", "36 rooms."), task="How many rooms?")

    provenance = trace_answer(run)

    assert _chain(provenance) == [(3, "agent"), (2, "agent"), (1, "tool")]
    assert provenance.suspects == ()
    assert not provenance.is_unsupported(provenance.claims[0])


def test_the_task_an_input_and_a_user_are_sources() -> None:
    """What an agent was told by the task, in its prompt or by a user it did not make up."""
    run = team(
        ("User", "I paid 97.50 for it."),
        ("Clerk", "Order 48213: 97.50 refunded under rule 7714."),
        task="Refund order 48213.",
        roles={"User": "user"},
        given={1: "Refunds fall under rule 7714."},
    )

    provenance = trace_answer(run)

    assert [_chain(provenance, number)[-1] for number in range(3)] == [(-1, "task"), (0, "user"), (1, "input")]
    assert provenance.suspects == ()


def test_a_tool_that_repeats_what_it_was_called_with_is_no_source() -> None:
    """Who passes a guess to a tool that echoes it has still guessed; what the tool finds by itself it has not."""
    call = ("Clerk", "cancel(order=48273)", "tool_call")
    echoed = team(
        call,
        ("Clerk", "order 48273 cancelled, refund 97.50", "tool_result"),
        ("Clerk", "So order 48273 cancelled, refund 97.50."),
        task="Cancel my order.",
    )

    provenance = trace_answer(echoed)

    assert _chain(provenance, 0) == [(2, "agent"), (1, "tool"), (0, "unsupported")]
    assert _chain(provenance, 1) == [(2, "agent"), (1, "tool")]


def test_a_calculation_goes_back_to_its_operands() -> None:
    """From what the task gives the result follows; from a number that somebody made up it does not."""
    sound = team(("Solver", "17 * 84 = 1428"), task="A night costs 84, we stay 17 nights.")
    wrong = team(("Solver", "17 * 84 = 1428"), task="What does it cost?")

    known, guessed = trace_answer(sound), trace_answer(wrong)

    assert known.ancestors[known.claims[2]].calculation == "84 * 17"
    assert not known.is_unsupported(known.claims[2])
    assert guessed.ancestors[guessed.claims[2]].kind == "calculation"
    assert guessed.is_unsupported(guessed.claims[2])


def test_three_numbers_do_not_vouch_for_each_other() -> None:
    """12 + 24 = 36, and so 36 - 24 = 12: of three numbers without a source two stay without one."""
    provenance = trace_answer(team(("Solver", "It is 12 + 24 = 36."), task="How many?"))

    kinds = [provenance.ancestors[index].kind for index in provenance.claims]

    assert kinds == ["unsupported", "unsupported", "calculation"]


def test_a_guess_that_a_tool_confirms_later_is_no_suspect() -> None:
    """The tool says the same by itself, before the answer: nobody need be asked. Where it says 38, somebody must."""
    confirmed = team(_GUESS, *_LOOKED_UP, ("Researcher", "The hotel has 36 rooms."), task="How many rooms?")
    refuted = team(
        _GUESS,
        _LOOKED_UP[0],
        ("Researcher", "38 rooms", "tool_result"),
        ("Researcher", "The hotel has 36 rooms."),
        task="How many rooms?",
    )

    assert trace_answer(confirmed).suspects == ()
    assert [suspect.mention.step for suspect in trace_answer(refuted).suspects] == [0]


def test_a_value_that_stands_word_for_word_in_the_task_has_a_source() -> None:
    """`The Hotel Aurora` is the task's `Hotel Aurora:`; the `Hotel Aurelia` is nobody's."""
    run = team(("Writer", "The Hotel Aurora, not the Hotel Aurelia."), task="Plan a stay at Hotel Aurora: when?")

    provenance = trace_answer(run)

    assert _chain(provenance, 0)[-1] == (-1, "task")
    assert [suspect.mention.value.text for suspect in provenance.suspects] == ["Hotel Aurelia"]


def test_the_answer_is_what_is_said_behind_the_words_final_answer() -> None:
    """What stands before them is talk; without them all that the last message states is the answer."""
    text = "We looked at 1200 pages on 2024-05-01. FINAL ANSWER: 36"

    marked = trace_answer(team(("Writer", text), task="How many?"))
    plain = trace_answer(team(("Writer", text.replace("FINAL ANSWER", "so")), task="How many?"))

    assert [marked.ancestors[index].mention.value.text for index in marked.claims] == ["36"]
    assert len(plain.claims) == 3


def test_headings_and_numbers_of_items_are_no_claims() -> None:
    """`1.` in a list and `**Total Cost:**` claim nothing; the price beside them does."""
    provenance = trace_answer(team(("Writer", "## Key Findings\n1. **Total Cost:** 84 euros\n2. Done"), task="?"))

    assert [provenance.ancestors[index].mention.value.text for index in provenance.claims] == ["84"]


def test_a_run_without_claims_has_no_answer() -> None:
    """Nothing is followed where nobody states a value."""
    assert trace_answer(team(("Writer", "hello there"), task="Say hello.")) == AnswerProvenance(None, (), ())
    assert trace_answer(MessageActionTrace("1" * 32, "", (), ())).step is None


def test_sources_stand_behind_what_they_are_sources_of() -> None:
    """Whoever walks the ancestors once meets a claim before its sources, also within one step."""
    run = team(
        ("A", "17 * 84 = 1428, plus 12 is 1440, which is 24 * 60; 1440 - 12 = 1428."),
        ("B", "1440 with 84 and 1428, 12 and 60 = 1500, of 17."),
        task="A night costs 84.",
        given={1: "we are 60"},
    )

    provenance = trace_answer(run)

    assert all(source > index for index, one in enumerate(provenance.ancestors) for source in one.sources)


@pytest.mark.parametrize("text", ["\ud800 36 \u202e 1428", "=" * 5_000 + "36", "9" * 400, "1 " * 3_000, "\x00 3,600.5"])
def test_hostile_texts_are_followed_like_others(text: str) -> None:
    """No text raises, in a message, a task or an input."""
    run = team(("A", text), ("B", text), task=text, given={1: text})

    provenance = trace_answer(run)

    assert all(isinstance(one, Ancestor) for one in provenance.ancestors)


@pytest.mark.slow
def test_time_grows_with_the_length_of_the_run() -> None:
    """A claim passed on 4,000 times is followed back in about twice the time of 2,000 times."""

    def follow_s(n_steps: int) -> float:
        messages = [(f"agent{index % 50}", f"We keep 4236 rooms, says {index % 50}.")
                    for index in range(n_steps)]  # fmt: skip
        run = team(*messages, task="How many?")
        ledger = read_ledger(run)
        begin = time.process_time()
        assert trace_answer(run, ledger).suspects
        return time.process_time() - begin

    short = min(follow_s(2_000) for _ in range(3))
    long = min(follow_s(4_000) for _ in range(3))

    assert long < 4 * short + 0.05


def test_a_calculation_is_written_with_its_likeliest_operands() -> None:
    """Of several calculations that give a number the one with the nearest operands is named; without one, none."""
    found = find_calculation("36", [12.0, 3.0, 30.0, 6.0])

    assert found is not None
    assert found.text == "12 * 3"
    assert find_calculation("37.5", [12.0, 3.0]) is None
    assert find_calculation("1985", [1981.0, 4.0], is_written=False) is None


def test_spans_say_where_a_step_has_its_claims_from() -> None:
    """The writer's span names the researcher's, the researcher's says that there is nothing before it."""
    notes = note_run(team(_GUESS, ("Writer", "The answer: 36 rooms."), task="How many rooms?"))

    assert json.loads(str(notes.steps[1][words.CLAIM_SOURCES])) == [
        {"claim": "36", "from": "agent", "agent": "Researcher", "span_id": f"{1:016x}"}
    ]
    assert json.loads(str(notes.steps[0][words.CLAIM_SOURCES])) == [{"claim": "36", "from": "nothing"}]
    assert notes.run == {words.CLAIM_COUNT: 1, words.CLAIM_UNSUPPORTED: 1, words.CLAIM_SUSPECT_SPAN_ID: f"{1:016x}"}


def test_what_is_written_on_a_span_fits_a_back_end() -> None:
    """Tempo cuts at 2,048 bytes: fewer claims are written, whole, and the others are counted."""
    notes = note_run(team(("Writer", " ".join(f"{7_919 * index} näyttöä;" for index in range(1, 300))), task="?"))
    text = str(notes.steps[0][words.CLAIM_SOURCES])

    assert len(text.encode()) <= words.MAX_ATTRIBUTION_BYTES
    assert len(json.loads(text)) + int(str(notes.steps[0][words.CLAIM_LEFT_OUT])) == notes.run[words.CLAIM_COUNT]


def test_nobody_who_does_not_want_claims_on_spans_gets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """`BLAMESPAN_CLAIMS=none` turns them off."""
    monkeypatch.setenv("BLAMESPAN_CLAIMS", "none")

    assert note_run(team(_GUESS, task="How many rooms?")).run == {}


@pytest.mark.parametrize(
    ("said", "calculation", "sources"),
    [
        (
            "It is due 30 days after 3 March 2025, that is on 2 April 2025.",
            "2025-03-03 + 30 days",
            {"3 March 2025", "30"},
        ),
        ("It is due 30 days after 3 March 2025, that is on 3 April 2025.", "", set()),
        ("It began 75 minutes before 10:55, so at 9:40.", "10:55 - 75 minutes", {"10:55", "75"}),
        ("It began 75 minutes before 10:55, so at 9:45.", "", set()),
    ],
)
def test_a_counted_date_or_time_goes_back_to_the_day_and_the_number_of_days(
    said: str, calculation: str, sources: set[str]
) -> None:
    """A date is calculated from a date and a number of days; a day more is not."""
    task = "Dated 3 March 2025, 30 days net. It ends at 10:55 after 75 minutes."
    provenance = trace_answer(team(("Clerk", said), task=task))

    counted = provenance.ancestors[provenance.claims[-1]]

    assert (counted.kind, counted.calculation) == ("calculation" if calculation else "unsupported", calculation)
    assert {provenance.ancestors[index].mention.value.text for index in counted.sources} == sources
