"""One reader of values: lists, ranges and units, and moments by which a message dates itself."""

from __future__ import annotations

import time

import pytest

from blamespan.attribution import Attribution
from blamespan.trace import Agent, MessageActionTrace, Step, StepKind
from blamespan_tracer.auto.tracer import AutoTracer
from blamespan_tracer.ledger import Claim, find_values, read_ledger
from blamespan_tracer.ledger.dating import dates_itself
from blamespan_tracer.ledger.provenance import trace_answer


def _claims(task: str, *messages: str) -> tuple[Claim, ...]:
    """Return the claims of the last message."""
    steps = tuple(Step(index, f"{index + 1:016x}", "Clerk", "message", text) for index, text in enumerate(messages))
    return read_ledger(MessageActionTrace("1" * 32, task, steps, (Agent("Clerk"),))).claims[-1]


def _findings(task: str, *messages: str) -> list[str]:
    """Return the values of the last message that have no source, or that one contradicts."""
    return [
        claim.mention.value.text
        for claim in _claims(task, *messages)
        if claim.contradictions or (claim.support is None and not claim.derivation)
    ]


def _moments(task: str, *messages: str) -> list[str]:
    """Return the dates and times among the findings."""
    moments = [value.text for value in find_values(messages[-1]) if value.form in ("date", "time")]
    return [text for text in _findings(task, *messages) if text in moments]


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("on 14, 15 and 16 July", ["07-14", "07-15", "07-16"]),
        ("on 3 and 4 March 2025", ["2025-03-03", "2025-03-04"]),
        ("on July 14, 15 and 16", ["07-14", "07-15", "07-16"]),
        ("on July 14, 15 and 16, 2025", ["2025-07-14", "2025-07-15", "2025-07-16"]),
        ("On July 14 it ends", ["07-14"]),
        ("14\u201316 July", ["07-14", "07-16"]),
        ("from 14 to 16 July", ["07-14", "07-16"]),
        ("on 14, 15, and 16 July", ["07-14", "07-15", "07-16"]),
        ("14th, 15th and 16th of July", ["07-14", "07-15", "07-16"]),
        ("am 14. und 15. Juli 2025", ["2025-07-14", "2025-07-15"]),
        ("between 3 March and 4 April 2025", ["2025-03-03", "2025-04-04"]),
        ("from 30 December to 2 January 2025", ["12-30", "2025-01-02"]),
        ("2\u20134 pm", ["14:00", "16:00"]),
        ("from 11 to 2 pm", ["11:00", "14:00"]),
        ("2:30-4 p.m.", ["14:30", "16:00"]),
        ("9:00-17:30", ["9:00", "17:30"]),
        ("On July 14, 15 people came", ["07-14", "15"]),
        ("rooms 14, 15 and 16", ["14", "15", "16"]),
        ("invoice 7, and 3 March", ["7", "03-03"]),
        ("14 and 2025-07-16", ["14", "2025-07-16"]),
        ("40 and 31 July", ["40", "07-31"]),
        ("room 14 and 3 pm", ["14", "15:00"]),
    ],
)
def test_dates_and_times_of_a_list_share_what_one_of_them_has(text: str, keys: list[str]) -> None:
    """A month, a year or a half of the day stands once for all; what is no list shares nothing."""
    values = list(find_values(text))

    assert [value.key for value in values if value.form != "opposite"] == keys
    assert all(text[value.start : value.stop] == value.text for value in values)


@pytest.mark.parametrize(
    ("text", "quantities"),
    [
        ("10, 20 and 30 euros", ["eur 10", "eur 20", "eur 30"]),
        ("5 to 7 kg", ["g 5000", "g 7000"]),
        ("\u20ac5\u20137 million", ["eur 5000000", "eur 7000000"]),
        ("between 3 and 5 %", ["percent 0.03", "percent 0.05"]),
        ("90 minutes", ["s 5400"]),
        ("1.5 h", ["s 5400"]),
        ("1 h 30 min", ["s 5400", "s 5400"]),
        ("1 hour and 30 minutes", ["s 5400", "s 5400"]),
        ("half an hour", ["s 1800"]),
        ("1.2k", ["# 1200"]),
        ("3 million", ["# 3000000"]),
        ("$3M", ["usd 3000000"]),
        ("512MB", ["b 512000000"]),
        ("2 GiB", ["b 2147483648"]),
        ("24 months", ["months 24"]),
        ("the 1990s", [""]),
        ("the 90s", [""]),
        ("order 48213 and 30 days", ["", "s 2592000"]),
        ("$5 and 3 items", ["usd 5", ""]),
        ("3,000,000 or \u20ac3 million", ["", "eur 3000000"]),
        ("5 kg\n200 g", ["g 5000", "g 200"]),
    ],
)
def test_amounts_are_the_same_in_every_unit(text: str, quantities: list[str]) -> None:
    """A unit, a currency or `million` stands once for a range or list; two units of one amount are one amount."""
    assert [value.quantity for value in find_values(text)] == quantities


_MEETING = "The meeting is on 2025-07-14, 2025-07-15 and 2025-07-16, at 14:00 to 16:00."


@pytest.mark.parametrize(
    ("task", "right", "wrong", "value"),
    [
        (_MEETING, "We meet on 14, 15 and 16 July.", "We meet on 14, 15 and 17 July.", "17 July"),
        (_MEETING, "We meet on 14, 15 and 16 July.", "We meet on 13, 15 and 16 July.", "13"),
        (_MEETING, "We meet from 2 to 4 pm.", "We meet from 2 to 5 pm.", "5 pm"),
        ("The call took 800ms.", "The call took 0.8 seconds.", "The call took 0.9 seconds.", "0.9"),
        ("The film takes 90 minutes.", "The film takes 1.5 h.", "The film takes 1.4 h.", "1.4"),
        ("The film takes 90 minutes.", "The film takes 1 h 30 min.", "The film takes 1 h 36 min.", "36"),
        ("Revenue was 3,000,000 euros.", "Revenue was 3 million euros.", "Revenue was 3.4 million euros.", "3.4"),
        ("We sold 1,200 units.", "We sold 1.2k units.", "We sold 1.7k units.", "1.7"),
        ("The disk holds 2 TB.", "The disk holds 2,000 GB.", "The disk holds 2,600 GB.", "2,600"),
        ("The parcel weighs 2.5 kg.", "The parcel weighs 2,500 g.", "The parcel weighs 2,650 g.", "2,650"),
        ("The rate is 0.045.", "The rate is 4.5 %.", "The rate is 4.7 %.", "4.7"),
    ],
)
def test_a_value_restated_in_another_way_agrees_and_a_different_one_is_found(
    task: str, right: str, wrong: str, value: str
) -> None:
    """The step that restates it rightly is not doubted; the one that does not is, by this value alone."""
    assert _findings(task, right) == []
    assert value in _findings(task, wrong)
    assert set(_findings(task, wrong)) <= {value, "1"}  # of `1 h 36 min` both numbers are wrong


@pytest.mark.parametrize(
    "message",
    [
        "Incident update, 14:22 UTC: checkout is back. Next update 14:50.",
        "## Status report - 3 March 2025\nAll is well.",
        "**Incident update #3 (14:22 UTC)**\nAll is well.",
        "[14:22] The deploy is done.",
        "Date: 2025-03-03\nAll is well.",
        "All is well. Report generated 2025-03-03 14:22.",
        "All is well. We will report back at 15:00.",
        "All is well. I'll follow up by 3 April.",
        "As of 14:22, all is well.",
    ],
)
def test_a_moment_by_which_a_message_dates_itself_needs_no_source(message: str) -> None:
    """Its own clock, and its own next appointment, are facts that only the speaker has."""
    assert _moments("How is checkout?", message) == []
    assert _moments("How is checkout?", "Incident update, 14:32 UTC. Next update 14:40.", message) == []


@pytest.mark.parametrize(
    "message",
    [
        "The invoice is due on 2 April 2025.",
        "The train departs at 14:22.",
        "The next train departs at 14:22.",
        "15 May 2024",
        "The report of 3 March 2025 says so.",
        "Invoice dated 3 March 2025 is open.",
        "Status: delayed until 14:22",
        "We will ship the order on 3 April.",
    ],
)
def test_a_moment_of_anything_else_does(message: str) -> None:
    """When something else happens is a claim."""
    assert len(_moments("How is it?", message)) == 1


def test_an_appointment_that_was_asked_for_is_held_against_what_was_asked() -> None:
    """Who was told when the next update is due, and names another time, is found."""
    task = "Write the update. Next update 14:50."

    assert _findings(task, "All is well. Next update 14:50.") == []
    assert _findings(task, "All is well. Next update 14:30.") == ["14:30"]


@pytest.mark.parametrize(
    "text",
    [
        "14, " * 2_000 + "and 16 July",
        "5 kg " * 2_000,
        "1 h " * 2_000 + "30 min",
        "next update " * 3_000 + "14:50",
        "On July " * 2_000,
        "update " * 2_000 + ", 14:22",
        "Status " + "a " * 20_000 + "14:22. " * 300,
        "$1 to " * 2_000,
    ],
)
def test_hostile_lists_are_read_in_linear_time(text: str) -> None:
    """Twice the text takes about twice the time, whatever it imitates."""

    def seconds(content: str) -> float:
        begin = time.process_time()
        for value in find_values(content):
            dates_itself(content, value)
        return time.process_time() - begin

    half = text[: len(text) // 2]
    seconds(half)

    assert seconds(text) < 4 * seconds(half) + 0.2


def test_who_repeats_the_moment_of_a_message_has_it_from_there() -> None:
    """The clock of one agent's message is a source for the others, and nobody's guess."""
    steps = (
        Step(0, f"{1:016x}", "Clerk", "message", "Incident update, 14:22 UTC: checkout is back."),
        Step(1, f"{2:016x}", "Writer", "message", "Checkout was back at 14:22."),
    )
    provenance = trace_answer(MessageActionTrace("1" * 32, "How?", steps, (Agent("Clerk"), Agent("Writer"))))

    assert [(one.mention.step, one.kind) for one in provenance.chain(provenance.claims[0])] == [
        (1, "agent"),
        (0, "agent"),
    ]
    assert not provenance.is_unsupported(provenance.claims[0])


_ROOMS = '{"free": ["2025-07-14", "2025-07-15", "2025-07-16"], "price": 120}'
_CALLS = '{"service": "checkout", "latency": "800ms", "calls": 4120}'
_INCIDENT = '{"service": "checkout", "error_rate": "4.1 %", "status": "mitigated"}'
_UPDATE = "Incident update, 14:22 UTC: checkout is mitigated, error rate {} %. Next update 14:50."


@pytest.mark.parametrize(
    ("task", "answer", "said", "right", "wrong"),
    [
        ("Find a room for three nights.", _ROOMS, "A room is free on 14, 15 and {} July, for 120 a night.", "16", "17"),
        ("How long does a call take?", _CALLS, "A call to checkout takes {} seconds, over 4,120 calls.", "0.8", "0.9"),
        ("Write an incident update.", _INCIDENT, _UPDATE, "4.1", "4.7"),
    ],
)
def test_the_verdict_names_the_wrong_restatement_and_nobody_for_the_right_one(
    task: str, answer: str, said: str, right: str, wrong: str
) -> None:
    """The alarm is raised at the step that restates a tool's value wrongly, and not in its sound twin."""

    def judge(value: str) -> Attribution:
        messages: list[tuple[StepKind, str]] = [
            ("tool_call", "look_up({})"),
            ("tool_result", answer),
            ("message", said.format(value)),
        ]
        steps = tuple(Step(index, f"{index + 1:016x}", "Clerk", *one) for index, one in enumerate(messages))
        [verdict] = AutoTracer.bundled().attribute([MessageActionTrace("1" * 32, task, steps, (Agent("Clerk"),))])
        return verdict

    sound, failed = judge(right), judge(wrong)

    assert sound.failure_score < 0.5 < failed.failure_score
    assert failed.decisive_step == 2
