"""Provenance: each claim of the answer goes back to where it comes from, through everybody who passed it on."""

from __future__ import annotations

import json
import time

import pytest

from blamespan import conventions as words
from blamespan.trace import Agent, AgentRole, MessageActionTrace, Step
from blamespan_tracer.ledger import read_ledger
from blamespan_tracer.ledger.derivations import find_calculation
from blamespan_tracer.ledger.provenance import Ancestor, AnswerProvenance, trace_answer
from blamespan_tracer.run_notes import note_run

_ROLES: dict[str, AgentRole] = {"Terminal": "executor", "User": "user"}


def _run(task: str, *messages: tuple[str, str, str], inputs: dict[int, str] | None = None) -> MessageActionTrace:
    """Make a run of (agent, kind, content)."""
    agents = tuple(Agent(name, _ROLES.get(name, "agent")) for name in dict.fromkeys(name for name, _, _ in messages))
    steps = tuple(
        Step(index, f"{index + 1:016x}", agent, kind, content, input_text=(inputs or {}).get(index, ""))  # type: ignore[arg-type]  # kinds are written out
        for index, (agent, kind, content) in enumerate(messages)
    )
    return MessageActionTrace("1" * 32, task, steps, agents)


def _chain(provenance: AnswerProvenance, number: int = 0) -> list[tuple[int, str]]:
    return [(one.mention.step, one.kind) for one in provenance.chain(provenance.claims[number])]


_GUESS = ("Researcher", "message", "The hotel has 36 rooms, I believe.")
_LOOKED_UP = [("Researcher", "tool_call", "rooms({})"), ("Researcher", "tool_result", "36 rooms")]


def test_a_claim_goes_back_to_the_agent_that_made_it_up() -> None:
    """The writer has 36 from the editor, who has it from the researcher, who has it from nowhere: the suspect."""
    run = _run("How many rooms?", _GUESS, ("Editor", "message", "Fine: 36 rooms."), ("Writer", "message", "36 rooms."))

    provenance = trace_answer(run)

    assert _chain(provenance) == [(2, "agent"), (1, "agent"), (0, "unsupported")]
    assert [suspect.mention.step for suspect in provenance.suspects] == [0]
    assert provenance.is_unsupported(provenance.claims[0])


def test_a_claim_that_a_tool_gave_suspects_nobody() -> None:
    """The sound twin: the researcher asked a tool, and the same chain ends there."""
    run = _run(
        "How many rooms?", *_LOOKED_UP, ("Editor", "message", "Fine: 36 rooms."), ("Writer", "message", "36 rooms.")
    )

    provenance = trace_answer(run)

    assert _chain(provenance) == [(3, "agent"), (2, "agent"), (1, "tool")]
    assert provenance.suspects == ()
    assert not provenance.is_unsupported(provenance.claims[0])


def test_the_task_an_input_and_a_user_are_sources() -> None:
    """What an agent was told by the task, in its prompt or by a user it did not make up."""
    run = _run(
        "Refund order 48213.",
        ("User", "message", "I paid 97.50 for it."),
        ("Clerk", "message", "Order 48213: 97.50 refunded under rule 7714."),
        inputs={1: "Refunds fall under rule 7714."},
    )

    provenance = trace_answer(run)

    assert [_chain(provenance, number)[-1] for number in range(3)] == [(-1, "task"), (0, "user"), (1, "input")]
    assert provenance.suspects == ()


def test_a_tool_that_repeats_what_it_was_called_with_is_no_source() -> None:
    """Who passes a guess to a tool that echoes it has still guessed; what the tool finds by itself it has not."""
    call = ("Clerk", "tool_call", "cancel(order=48273)")
    echoed = _run("Cancel my order.", call, ("Clerk", "tool_result", "order 48273 cancelled, refund 97.50"),
                  ("Clerk", "message", "So order 48273 cancelled, refund 97.50."))  # fmt: skip

    provenance = trace_answer(echoed)

    assert _chain(provenance, 0) == [(2, "agent"), (1, "tool"), (0, "unsupported")]
    assert _chain(provenance, 1) == [(2, "agent"), (1, "tool")]


def test_a_calculation_goes_back_to_its_operands() -> None:
    """From what the task gives the result follows; from a number that somebody made up it does not."""
    sound = _run("A night costs 84, we stay 17 nights.", ("Solver", "message", "17 * 84 = 1428"))
    wrong = _run("What does it cost?", ("Solver", "message", "17 * 84 = 1428"))

    known, guessed = trace_answer(sound), trace_answer(wrong)

    assert known.ancestors[known.claims[2]].calculation == "84 * 17"
    assert not known.is_unsupported(known.claims[2])
    assert guessed.ancestors[guessed.claims[2]].kind == "calculation"
    assert guessed.is_unsupported(guessed.claims[2])


def test_three_numbers_do_not_vouch_for_each_other() -> None:
    """12 + 24 = 36, and so 36 - 24 = 12: of three numbers without a source two stay without one."""
    provenance = trace_answer(_run("How many?", ("Solver", "message", "It is 12 + 24 = 36.")))

    kinds = [provenance.ancestors[index].kind for index in provenance.claims]

    assert kinds == ["unsupported", "unsupported", "calculation"]


def test_a_guess_that_a_tool_confirms_later_is_no_suspect() -> None:
    """The tool says the same by itself, before the answer: nobody need be asked. Where it says 38, somebody must."""
    confirmed = _run("How many rooms?", _GUESS, *_LOOKED_UP, ("Researcher", "message", "The hotel has 36 rooms."))
    refuted = _run("How many rooms?", _GUESS, _LOOKED_UP[0], ("Researcher", "tool_result", "38 rooms"),
                   ("Researcher", "message", "The hotel has 36 rooms."))  # fmt: skip

    assert trace_answer(confirmed).suspects == ()
    assert [suspect.mention.step for suspect in trace_answer(refuted).suspects] == [0]


def test_a_value_that_stands_word_for_word_in_the_task_has_a_source() -> None:
    """`The Hotel Aurora` is the task's `Hotel Aurora:`; the `Hotel Aurelia` is nobody's."""
    run = _run("Plan a stay at Hotel Aurora: when?", ("Writer", "message", "The Hotel Aurora, not the Hotel Aurelia."))

    provenance = trace_answer(run)

    assert _chain(provenance, 0)[-1] == (-1, "task")
    assert [suspect.mention.value.text for suspect in provenance.suspects] == ["Hotel Aurelia"]


def test_the_answer_is_what_is_said_behind_the_words_final_answer() -> None:
    """What stands before them is talk; without them all that the last message states is the answer."""
    text = "We looked at 1200 pages on 2024-05-01. FINAL ANSWER: 36"

    marked = trace_answer(_run("How many?", ("Writer", "message", text)))
    plain = trace_answer(_run("How many?", ("Writer", "message", text.replace("FINAL ANSWER", "so"))))

    assert [marked.ancestors[index].mention.value.text for index in marked.claims] == ["36"]
    assert len(plain.claims) == 3


def test_headings_and_numbers_of_items_are_no_claims() -> None:
    """`1.` in a list and `**Total Cost:**` claim nothing; the price beside them does."""
    provenance = trace_answer(_run("?", ("Writer", "message", "## Key Findings\n1. **Total Cost:** 84 euros\n2. Done")))

    assert [provenance.ancestors[index].mention.value.text for index in provenance.claims] == ["84"]


def test_a_run_without_claims_has_no_answer() -> None:
    """Nothing is followed where nobody states a value."""
    assert trace_answer(_run("Say hello.", ("Writer", "message", "hello there"))) == AnswerProvenance(None, (), ())
    assert trace_answer(MessageActionTrace("1" * 32, "", (), ())).step is None


def test_sources_stand_behind_what_they_are_sources_of() -> None:
    """Whoever walks the ancestors once meets a claim before its sources, also within one step."""
    run = _run(
        "A night costs 84.",
        ("A", "message", "17 * 84 = 1428, plus 12 is 1440, which is 24 * 60; 1440 - 12 = 1428."),
        ("B", "message", "1440 with 84 and 1428, 12 and 60 = 1500, of 17."),
        inputs={1: "we are 60"},
    )

    provenance = trace_answer(run)

    assert all(source > index for index, one in enumerate(provenance.ancestors) for source in one.sources)


@pytest.mark.parametrize("text", ["\ud800 36 \u202e 1428", "=" * 5_000 + "36", "9" * 400, "1 " * 3_000, "\x00 3,600.5"])
def test_hostile_texts_are_followed_like_others(text: str) -> None:
    """No text raises, in a message, a task or an input."""
    run = _run(text, ("A", "message", text), ("B", "message", text), inputs={1: text})

    provenance = trace_answer(run)

    assert all(isinstance(one, Ancestor) for one in provenance.ancestors)


@pytest.mark.slow
def test_time_grows_with_the_length_of_the_run() -> None:
    """A claim passed on 4,000 times is followed back in about twice the time of 2,000 times."""

    def follow_s(n_steps: int) -> float:
        messages = [(f"agent{index % 50}", "message", f"We keep 4236 rooms, says {index % 50}.")
                    for index in range(n_steps)]  # fmt: skip
        run = _run("How many?", *messages)
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
    notes = note_run(_run("How many rooms?", _GUESS, ("Writer", "message", "The answer: 36 rooms.")))

    assert json.loads(str(notes.steps[1][words.CLAIM_SOURCES])) == [
        {"claim": "36", "from": "agent", "agent": "Researcher", "span_id": f"{1:016x}"}
    ]
    assert json.loads(str(notes.steps[0][words.CLAIM_SOURCES])) == [{"claim": "36", "from": "nothing"}]
    assert notes.run == {
        words.CLAIM_COUNT: 1,
        words.CLAIM_UNSUPPORTED: 1,
        words.CLAIM_SUSPECT_SPAN_ID: f"{1:016x}",
    }


def test_what_is_written_on_a_span_fits_a_back_end() -> None:
    """Tempo cuts at 2,048 bytes: fewer claims are written, whole, and the others are counted."""
    notes = note_run(_run("?", ("Writer", "message", " ".join(f"{7_919 * index} näyttöä;" for index in range(1, 300)))))
    text = str(notes.steps[0][words.CLAIM_SOURCES])

    assert len(text.encode()) <= words.MAX_ATTRIBUTION_BYTES
    assert len(json.loads(text)) + int(str(notes.steps[0][words.CLAIM_LEFT_OUT])) == notes.run[words.CLAIM_COUNT]


def test_nobody_who_does_not_want_claims_on_spans_gets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """`BLAMESPAN_CLAIMS=none` turns them off."""
    monkeypatch.setenv("BLAMESPAN_CLAIMS", "none")

    assert note_run(_run("How many rooms?", _GUESS)).run == {}


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
    provenance = trace_answer(_run(task, ("Clerk", "message", said)))

    counted = provenance.ancestors[provenance.claims[-1]]

    assert (counted.kind, counted.calculation) == ("calculation" if calculation else "unsupported", calculation)
    assert {provenance.ancestors[index].mention.value.text for index in counted.sources} == sources
