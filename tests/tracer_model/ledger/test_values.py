"""One reader of values: lists, ranges and units, and moments by which a message dates itself."""

from __future__ import annotations

import math
import time
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blamespan.attribution import Attribution
from blamespan_tracer.auto.tracer import AutoTracer
from blamespan_tracer.ledger import Claim, find_values, read_ledger
from blamespan_tracer.ledger.dating import dates_itself
from blamespan_tracer.ledger.provenance import trace_answer
from blamespan_tracer.ledger.values import dimension_of
from tests.tracer_model.teams import team


def _claims(task: str, *messages: str) -> tuple[Claim, ...]:
    """Return the claims of the last message."""
    return read_ledger(team(*(("Clerk", text) for text in messages), task=task)).claims[-1]


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
        ("The fee is EUR 1,250.", "The fee is 1'250 \u20ac.", "The fee is 1'280 \u20ac.", "1'280"),
        ("The change is -$1,250.", "The change is USD -1250.", "The change is USD -1280.", "-1280"),
        ('{"orders":[48213,77001]}', "Order 48213 is next.", "Order 48273 is next.", "48273"),
        ("The train leaves at 14h30.", "The train leaves at 2:30 pm.", "The train leaves at 2:40 pm.", "2:40 pm"),
        ("\u4ef7\u683c\u662f1250\u5143", "It costs 1,250 yuan.", "It costs 1,280 yuan.", "1,280"),
        ("The error is 1.5e-3.", "The error is 0.0015.", "The error is 0.0017.", "0.0017"),
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


_AROUND = st.sampled_from(
    [("", ""), ("It is ", "."), ("(", ")"), ('{"a": ', "}"), ("| ", " |"), ("a = ", ", b"), ("约", "人")]
)
_ZEROS = "0\u0660\u0966\uff10"
"""The digit zero of four scripts; the other nine follow it."""
_WORDS = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
_SMALL_NUMBERS = ["", *_WORDS.split(), "eighteen", "nineteen"]
_TENS = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def _spell(number: int) -> str:
    """Write a number below a billion in words."""
    for size, name in ((1_000_000, "million"), (1_000, "thousand"), (100, "hundred")):
        if number >= size:
            rest = _spell(number % size)
            return f"{_spell(number // size)} {name}" + (f" {rest}" if rest else "")
    if number < 20:
        return _SMALL_NUMBERS[number]
    return _TENS[number // 10] + (f"-{_SMALL_NUMBERS[number % 10]}" if number % 10 else "")


@given(
    st.integers(-999_999_999, 999_999_999),
    st.integers(0, 99),
    st.sampled_from([",", "'", "\u2019", "\u00a0", "\u202f", "\u2009", ""]),
    st.sampled_from(["-", "\u2212"]),
    _AROUND,
)
def test_a_number_is_the_same_with_any_separator(
    whole: int, cents: int, separator: str, minus: str, around: tuple[str, str]
) -> None:
    """Thousands, decimals and the sign are written in several ways, and a number stands wherever text lets it."""
    written = f"{abs(whole):,}".replace(",", separator) + (f".{cents:02}" if cents else "")
    written = f"{minus if whole < 0 else ''}{written}"
    [value] = find_values(around[0] + written + around[1])

    assert value.text == written
    assert float(value.key) == (-1 if whole < 0 else 1) * (abs(whole) + cents / 100)
    assert (value.form, value.key.isascii()) == ("number", True)


@given(st.integers(2, 999_999_999))
def test_a_number_in_words_is_that_number(number: int) -> None:
    """Words are added up as people read them."""
    assert [value.key for value in find_values(f"We need {_spell(number)}.")] == [str(number)]


@given(st.integers(0, 10**12), st.sampled_from(_ZEROS))
def test_digits_of_every_script_are_the_same_number(number: int, zero: str) -> None:
    """Who writes Arabic, Hindi or full-width digits states the same value."""
    [value] = find_values("".join(chr(ord(zero) + int(digit)) for digit in str(number)))

    assert value.key == str(number)


@given(
    st.integers(1, 9_999_999),
    st.sampled_from(
        ["${}", "-${}", "US${}", "{} USD", "USD {}", "$ {}", "{} dollars", "\u20ac{}", "\u20ac {}", "{} \u20ac",
         "{}\u20ac", "EUR {}", "{} EUR", "EUR\u00a0{}", "{} euros", "CHF {}", "{} CHF", "\u00a3{}", "\u00a5{}",
         "{}\u5186", "{}\u5143", "\u20b9{}"]
    ),
)  # fmt: skip
def test_a_currency_stands_on_either_side(amount: int, written: str) -> None:
    """A mark, a code and a word name the same money, before the amount and behind it; a sign before both counts."""
    names = {"USD": "usd", "$": "usd", "doll": "usd", "EUR": "eur", "\u20ac": "eur", "euro": "eur", "CHF": "chf"}
    names |= {"\u00a3": "gbp", "\u00a5": "jpy", "\u5186": "jpy", "\u5143": "cny", "\u20b9": "inr"}
    [value] = find_values(f"It costs {written.format(f'{amount:,}')} in all.")
    currency = next(name for mark, name in names.items() if mark in written)

    assert (value.unit, float(value.key)) == (currency, -amount if written[0] == "-" else amount)
    assert dimension_of(value.unit) == "money"


@given(
    st.integers(1, 999),
    st.integers(0, 9),
    st.sampled_from(
        [("k", 10**3), (" thousand", 10**3), (" million", 10**6), ("M", 10**6), ("bn", 10**9), (" mio", 10**6)]
    ),
    st.booleans(),
)
def test_a_magnitude_counts_before_and_behind_its_currency(
    whole: int, tenth: int, scale: tuple[str, int], is_before: bool
) -> None:
    """`$3.5M` and `3.5 million dollars` are one amount."""
    word, size = scale
    amount = f"{whole}.{tenth}{word}"
    [value] = find_values(f"${amount}" if is_before else f"{amount.replace('M', ' million')} dollars")

    assert value.quantity == f"usd {(10 * whole + tenth) * size / 10:.12g}"


@given(st.dates(date(1900, 1, 1), date(2099, 12, 31)))
def test_a_date_is_the_same_however_it_is_written(day: date) -> None:
    """ISO, slashes, words in three languages, a log's stamp and Chinese characters: one key."""
    month, german = day.strftime("%B"), ["Januar", "Februar", "M\u00e4rz", "April", "Mai", "Juni", "Juli"]
    german += ["August", "September", "Oktober", "November", "Dezember"]
    written = [
        day.isoformat(),
        f"{day:%Y/%m/%d}",
        f"{day.day} {month} {day.year}",
        f"{month} {day.day}, {day.year}",
        f"{day:%d-%b-%Y}",
        f"{day:%d/%b/%Y}:10:20:30",
        f"{day.day}. {german[day.month - 1]} {day.year}",
        f"{day:%d.%m.%Y}" if day.day > 12 else day.isoformat(),
        f"{day.year}\u5e74{day.month}\u6708{day.day}\u65e5",
    ]
    keys = [next(value.key for value in find_values(f"On {text} it ends") if value.form == "date") for text in written]

    assert keys == [day.isoformat()] * len(written)


@given(
    st.dates(date(1990, 1, 1), date(2060, 12, 1)), st.integers(1, 20), st.sampled_from(["\u2013", "-", " to ", " and "])
)
def test_a_range_of_dates_has_two_ends(start: date, days: int, link: str) -> None:
    """The month and the year of the second day are those of the first, where it is in the same month."""
    end = start + timedelta(days=days)
    if (start.year, start.month) != (end.year, end.month):
        return
    values = find_values(f"from {start.day}{link}{end.day} {end:%B} {end.year}")

    assert [value.key for value in values] == [start.isoformat(), end.isoformat()]


@given(st.integers(0, 23), st.integers(0, 59), st.integers(0, 59), st.sampled_from(["am", "PM", "a.m."]))
def test_a_time_is_the_same_by_12_and_by_24_hours(hour: int, minute: int, second: int, spelling: str) -> None:
    """`2:05 pm`, `14:05`, `14h05`, `14.05 Uhr` and a log's `14:05:00.123` are one time."""
    half = ("p" if hour > 11 else "a") + spelling[1:].lower()
    half = half.upper() if spelling.isupper() else half
    written = [f"{hour % 12 or 12}:{minute:02} {half}", f"{hour:02}:{minute:02}", f"{hour}h{minute:02}"]
    written += [f"{hour}.{minute:02} Uhr", f"{hour:02}:{minute:02}:00.123", f"2024-05-15T{hour:02}:{minute:02}:00Z"]
    keys = [[value.key for value in find_values(f"at {text} there") if value.form == "time"] for text in written]

    assert keys == [[f"{hour}:{minute:02}"]] * len(written)
    if second:
        assert find_values(f"{hour:02}:{minute:02}:{second:02}")[0].key == f"{hour}:{minute:02}:{second:02}"


@pytest.mark.parametrize(
    "text",
    ["v1.2.3", "192.168.0.1", "10.0.0.0/8", "2.0.1-rc", "3:1", "00:1A:2B:3C:4D:5E", "1/2", "%.2f", "f\"{price:.2f}\"",
     "H2O", "x86", "50:99", "99/99/2024", "[3](notes.md)[4/5]", "a/b2", "me2@mail.org"],
)  # fmt: skip
def test_what_only_looks_like_a_number_is_none(text: str) -> None:
    """Versions, addresses, ratios, format strings and names with digits state no number, date or time."""
    assert [value.text for value in find_values(text) if value.form in ("number", "date", "time")] == (
        ["3"] if text.startswith("[3]") else []
    )


@pytest.mark.parametrize(
    "text", ["SKU-12345", "abc123", "a1b2c3d4-e5f6", "1e10a4f3-12ab-4f3a-8888-123456789012", "0x1F"]
)
def test_an_identifier_is_one_value(text: str) -> None:
    """No part of it is a number, a time or a name of its own."""
    assert [(value.form, value.text) for value in find_values(f"see {text}, please")] == [("identifier", text)]


@given(st.lists(st.integers(-(10**6), 10**6), min_size=2, max_size=9))
def test_a_compact_list_is_read_item_by_item(numbers: list[int]) -> None:
    """In a list of JSON a comma parts numbers; with one group of digits, `[1,250]`, it may part thousands."""
    keys = [value.key for value in find_values(f'{{"a":[{",".join(map(str, [*numbers, 5]))}]}}')]

    assert keys == [str(number) for number in [*numbers, 5]]
    assert [value.key for value in find_values("[1,250]")] == ["1250"]


@given(st.text(max_size=300) | st.text("0123456789.,:-/ $\u20acAaMmk'\u2019#\"[]|\n", max_size=300))
def test_any_text_is_read_and_every_value_stands_where_it_says(text: str) -> None:
    """No text raises; a value has a key, and its text stands at its offset."""
    values = find_values(text)

    assert all(text[value.start : value.stop] == value.text and value.key for value in values)
    assert all(math.isfinite(float(value.key)) for value in values if value.form == "number")
    assert find_values(text) is values


@pytest.mark.parametrize(
    "part",
    [
        "14, ", "5 kg ", "1 h ", "next update ", "On July ", "update ", "$1 to ", "Status a 14:22. ", "Jan 1, ", "Aa ",
        "7", "(((", "[{(", ",", "1,", "1.", "1'000", "1\u00a0000", "1 000", "A'", "O\u2019", "a1-", "1-", "11:", "$",
        "-", "#1", "\"a", "\u201ca b ", "a,b\n", "a,\n", "a", "A", "1e", "1e5", "half a ", "twenty-one ",
        "one hundred ", "[1,1,", "[1,1]", "\u6f22", "\u6f225", "\ud800", "\u202e1",
    ],
)  # fmt: skip
def test_hostile_text_is_read_in_linear_time(part: str) -> None:
    """Twice the text takes about twice the time, whatever it imitates."""

    def seconds(size: int) -> float:
        content = f"{size} {part * (size // len(part))} and 16 July"
        begin = time.thread_time()
        for value in find_values(content)[:300]:
            dates_itself(content, value)
        return time.thread_time() - begin

    seconds(1_000)
    bound = 3 * seconds(20_000) + 0.2

    assert seconds(40_000) < bound or seconds(40_001) < bound


def test_a_megabyte_of_prose_is_read_in_seconds() -> None:
    """A page of every form, 4,000 times over: 1.1 MB."""
    page = 'On 14 July 2025, at 9:30, Anna Lund paid $1,250.50 for order SK-48213: "the parcel arrived at noon".\n'
    text = "".join(f"{number}. {page}" for number in range(10_500))
    begin = time.process_time()
    values = find_values(text)

    assert time.process_time() - begin < 12
    assert len(values) == 7 * 10_500


def test_who_repeats_the_moment_of_a_message_has_it_from_there() -> None:
    """The clock of one agent's message is a source for the others, and nobody's guess."""
    update, said = "Incident update, 14:22 UTC: checkout is back.", "Checkout was back at 14:22."
    provenance = trace_answer(team(("Clerk", update), ("Writer", said), task="How?"))

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
    tracer: AutoTracer, task: str, answer: str, said: str, right: str, wrong: str
) -> None:
    """The alarm is raised at the step that restates a tool's value wrongly, and not in its sound twin."""

    def judge(value: str) -> Attribution:
        call, result = ("Clerk", "look_up({})", "tool_call"), ("Clerk", answer, "tool_result")
        return tracer.attribute([team(call, result, ("Clerk", said.format(value)), task=task)])[0]

    sound, failed = judge(right), judge(wrong)

    assert sound.failure_score < 0.5 < failed.failure_score
    assert failed.decisive_step == 2
