"""The ledger: every value is held against what its step could know, and nothing sound is contradicted."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from blamespan.trace import MessageActionTrace, Step
from blamespan_tracer.ledger import Claim, LedgerReader, find_values, read_ledger
from blamespan_tracer.ledger.derivations import explain_number
from tests.tracer_model.teams import team


def _claim(run: MessageActionTrace, text: str) -> Claim:
    [claim] = [one for claims in read_ledger(run).claims for one in claims if one.mention.value.text == text]
    return claim


@pytest.mark.parametrize(
    ("text", "form", "key"),
    [
        ("1,250.50", "number", "1250.5"),
        ("1250.5", "number", "1250.5"),
        ("1.250,50", "number", "1250.5"),
        ("1.250.000", "number", "1250000"),
        ("12,5", "number", "12.5"),
        ("#48213", "number", "48213"),
        ("twenty-three", "number", "23"),
        ("two hundred", "number", "200"),
        ("-07", "number", "-7"),
        ("2024-05-15", "date", "2024-05-15"),
        ("15 May 2024", "date", "2024-05-15"),
        ("May 15th, 2024", "date", "2024-05-15"),
        ("2024/05/15", "date", "2024-05-15"),
        ("5/15/2024", "date", "2024-05-15"),
        ("15 de mayo de 2024", "date", "2024-05-15"),
        ("3 février 2025", "date", "2025-02-03"),
        ("4. Oktober", "date", "10-04"),
        ("3:30 PM", "time", "15:30"),
        ("12 am", "time", "0:00"),
        ("08:30", "time", "8:30"),
        ("#W2378156", "identifier", "w2378156"),
        ("John Smith", "name", "john smith"),
        ("JOHN SMITH", "name", "john smith"),
        ("rose", "opposite", "rose"),
    ],
)
def test_a_value_has_one_key_however_it_is_written(text: str, form: str, key: str) -> None:
    """`1,250.50` and `1250.5` are one number, `15 May 2024` and `2024-05-15` one date."""
    [value] = find_values(f"there is {text} in it")

    assert (value.text, value.form, value.key) == (text, form, key)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ('{"order":48213,"due":"2024-05-15T10:00:00Z","n":-7.5}', ["48213", "2024-05-15", "10:00", "-7.5"]),
        ("one of them may march on, second to none", []),
        ("page 3 of 12: 4 rows", ["3", "12", "4"]),
        ("v1.2.3, 10:45, ratio 3:1, 192.168.0.1", ["10:45"]),
        ("am 3. Mai um 9:15 Uhr, am 31.12.2024", ["05-03", "9:15", "2024-12-31"]),
        ("99/99/2024 or 45 May", []),
    ],
)
def test_values_are_read_where_they_stand_and_nowhere_else(text: str, keys: list[str]) -> None:
    """Compact JSON and other languages are read; pronouns, versions, ratios and days that there are not are none."""
    assert [value.key for value in find_values(text) if value.form not in ("name", "opposite", "identifier")] == keys


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("booking,cabin,nok\nB-410,Skarven,8400\nB-413,Tiuren,50", ["b-410", "8400", "b-413", "50"]),
        ("flight,dep,eur\nHV 408,06:50,214\nNA 931,09:40,168", ["408", "6:50", "214", "931", "9:40", "168"]),
        ("totals\n1,250\n2,300", ["1250", "2300"]),
        ("a note\nWe sold 1,250 in May,3 in June", ["1250", "3"]),
    ],
)
def test_cells_of_a_table_are_read_one_by_one(text: str, keys: list[str]) -> None:
    """A comma between cells is no comma of a number; a number with a comma is one value elsewhere."""
    assert [value.key for value in find_values(text) if value.form != "opposite"] == keys


@pytest.mark.parametrize(
    ("text", "keys"),
    [("Label SW-90551 is ready", ["sw-90551"]), ("Report TR-208, Dear Ms Orlow", ["tr-208", "ms orlow"])],
)
def test_a_word_before_an_identifier_takes_nothing_of_it(text: str, keys: list[str]) -> None:
    """A capital word before an identifier makes no name of its letters."""
    assert [value.key for value in find_values(text)] == keys


def test_what_a_value_is_of_stands_in_its_own_row() -> None:
    """A value of the neighbour's row is contradicted by the row that the agent names, the right one hardly is."""
    table = "nr;name;total;taken\n2207;Petrick, Jana;28;17\n2270;Petrik, Jan;28;20"

    def doubt(taken: int) -> float:
        run = team(("Clerk", "look({})", "tool_call"), ("Clerk", table, "tool_result"), task="How many days?")
        step = Step(2, f"{3:016x}", "Clerk", "message", f"Account 2207, Petrick, Jana: {taken} days are taken.")
        run = replace(run, steps=(*run.steps, step))
        return sum(one.surprise for one in _claim(run, str(taken)).contradictions if one.kind == "row")

    assert doubt(20) > doubt(17) + 1


@pytest.mark.parametrize(
    ("text", "number", "operands"),
    [
        ("17 and 28 leave 11", "11", "beside"),
        ("That leaves 11 days", "11", "latest"),
        ("That leaves 13 days", "13", ""),
    ],
)
def test_where_a_result_is_calculated_from_is_told(text: str, number: str, operands: str) -> None:
    """A difference of two numbers beside it, or said last, is calculated; another number is not."""
    run = team(("Clerk", "Of 28 days 17 are taken."), ("Clerk", text), task="Days?")

    assert _claim(run, number).calculated.operands == operands


def test_a_copied_number_that_differs_in_a_digit_is_contradicted_by_its_source() -> None:
    """The order number of the task is 48213; who calls it 48273 contradicts the task, who copies it does not."""
    task = "Refund order 48213 of Mrs Olsen."
    wrong = team(("Clerk", "I refund order 48273 now."), task=task)
    right = team(("Clerk", "I refund order 48213 now."), task=task)

    [contradiction] = [one for one in _claim(wrong, "48273").contradictions if one.kind == "near"]

    assert contradiction.source.value.text == "48213"
    assert contradiction.source.step == -1
    assert _claim(right, "48213").support is not None
    assert not _claim(right, "48213").contradictions


def test_who_repeats_a_wrong_number_is_supported_by_who_said_it_first() -> None:
    """The first is the mistake: later steps copied it."""
    run = team(("A", "It is order 48273."), ("B", "Order 48273 is refunded."), task="Refund order 48213.")
    first, second = (claims[0] for claims in read_ledger(run).claims)

    assert first.support is None
    assert first.is_repeated
    assert second.support is not None


def test_a_repaired_number_is_marked() -> None:
    """Who says the right number later, and nobody the wrong one any more, repairs it."""
    run = team(("A", "Order 48273?"), ("B", "No, order 48213."), task="Refund order 48213.")

    assert _claim(run, "48273").contradictions[0].is_repaired


def test_a_number_with_another_unit_is_contradicted() -> None:
    """The tool said 250 mg; 250 g is another dose, 250 mg is not."""
    messages = [("A", "dose({})", "tool_call"), ("A", "Give 250 mg twice.", "tool_result")]
    wrong = team(*messages, ("A", "Give 250 g twice."), task="Dose?")
    right = team(*messages, ("A", "Give 250 mg twice."), task="Dose?")

    assert [one.kind for one in read_ledger(wrong).claims[2][0].contradictions] == ["unit"]
    assert not read_ledger(right).claims[2][0].contradictions


def test_an_opposite_word_between_the_same_words_is_contradicted() -> None:
    """The report says that prices rose; that they fell is the opposite, that they rose is not."""
    report = ("A", "In Oslo house prices rose in May by a little.", "tool_result")
    ask = ("A", "report({})", "tool_call")
    wrong = team(ask, report, ("A", "In Oslo house prices fell in May by a little."), task="Prices?")
    right = team(ask, report, ("A", "In Oslo house prices rose in May by a little."), task="Prices?")

    def kinds(run: MessageActionTrace) -> list[str]:
        return [one.kind for claim in read_ledger(run).claims[2] for one in claim.contradictions]

    assert kinds(wrong) == ["opposite"]
    assert kinds(right) == []


@pytest.mark.parametrize(
    ("key", "operands"),
    [("417.5", [381.25, 36.25]), ("12.5", [45.0, 40.0]), ("1609.34", [1.0, 1609.34]), ("87.5", [7.0, 8.0])],
)
def test_calculated_numbers_are_explained(key: str, operands: list[float]) -> None:
    """Sums, percent change and per cent of others explain a number; a number that nothing gives is not explained."""
    assert explain_number(key, operands).surprise > 0
    assert explain_number("417.6", [381.25, 36.25]).surprise == 0


@pytest.mark.parametrize(
    ("task", "claim", "is_explained"),
    [
        ("It leaves on 2024-05-15 and takes 10 days.", "2024-05-25", True),
        ("It leaves on 2024-05-15 and takes 10 days.", "2024-05-26", False),
        ("Signed on 2024-01-31 for 3 months.", "2024-04-30", True),
        ("It starts at 09:40 and takes 75 minutes.", "10:55", True),
        ("It starts at 09:40 and takes 75 minutes.", "10:45", False),
        ("From 2024-05-01 to 2024-06-15, please.", "45", True),
        ("From 09:10 to 11:25, please.", "135", True),
        ("From 09:10 to 11:25, please.", "133", False),
    ],
)
def test_dates_and_times_are_counted_on(task: str, claim: str, is_explained: bool) -> None:
    """A date some days after a known one, and the days between two, are explained; a day more is not."""
    run = team(("A", f"That makes {claim}."), task=task)

    assert (_claim(run, claim).derivation > 0) is is_explained


def test_a_day_without_its_year_is_that_day() -> None:
    """Who leaves the year out copies the date; who changes the day does not."""
    right = team(("A", "I am there on 15 May."), task="Be there on 15 May 2024.")
    wrong = team(("A", "I am there on 16 May."), task="Be there on 15 May 2024.")

    assert _claim(right, "15 May").support is not None
    assert [one.kind for one in _claim(wrong, "16 May").contradictions][:1] == ["near"]


def test_values_copied_beside_a_claim_tell_where_it_was_copied_from() -> None:
    """Of three values near a wrong one, all stand where the right one stands; on a page of new values none does."""
    task = "Loan 2200 of Stellbrink: rate 3.45 %, 180 months, balance 18,431."
    copied = team(("A", "Loan 2200: rate 3.45 %, 180 months, balance 18,481."), task=task)
    new = team(("A", "Offer 9371: rate 7.12 %, 96 weeks, balance 18,481."), task=task)

    [one, *_] = _claim(copied, "18,481").contradictions
    [other, *_] = _claim(new, "18,481").contradictions

    assert (one.n_alongside, one.n_around) == (3, 3)
    assert (other.n_alongside, other.n_around) == (0, 0)


def test_made_up_numbers_do_not_vouch_for_each_other() -> None:
    """A sum of numbers that nobody had is no derivation for later steps."""
    made_up = team(("A", "Rent 83127, heat 41555."), ("B", "Sum: 124682."), task="Total?")
    given = team(("A", "I add."), ("B", "Sum: 124682."), task="Rent 83127, heat 41555. Total?")

    assert _claim(made_up, "124682").derivation == 0
    assert _claim(given, "124682").derivation > 0


def test_what_a_step_was_given_is_a_source() -> None:
    """A number of the agent's own prompt has a source, though no step before says it."""
    run = team(("A", "The limit is 90210."), task="Go.")
    given = replace(run, steps=(replace(run.steps[0], input_text="Mind the limit of 90210."),))

    assert _claim(run, "90210").support is None
    assert _claim(given, "90210").support is not None


@pytest.mark.slow
def test_time_grows_with_the_length_of_the_run() -> None:
    """Four times the steps take about four times as long."""

    def seconds(n_steps: int) -> float:
        messages = [("A", f"Row {i}: order {10_000 + 37 * i} costs {i * 3.25:.2f} EUR.") for i in range(n_steps)]
        run = team(*messages, task="List all orders.")
        begin = time.process_time()
        read_ledger(run)
        return time.process_time() - begin

    seconds(50)
    assert seconds(2_000) < 10 * max(seconds(500), 0.02)


def test_a_run_read_step_by_step_has_the_ledger_of_the_whole() -> None:
    """Holding a step takes nothing up: the ledger is that of the steps that were taken, whatever was tried between."""
    run = team(
        ("a", "Order 48273 costs 120 EUR, twice that is 240."),
        ("b", "So 240 for order 48213, paid on 2024-05-15."),
        task="Order 48213 costs 120 EUR.",
    )
    reader, held = LedgerReader(run.task), []
    for step in run.steps:
        reader.hold(step.index, "Order 99999 costs 7,777 EUR.", decides=True)
        held.append(reader.hold(step.index, step.content, decides=True))
        reader.take(held[-1])

    def shown(claims: tuple[Claim, ...]) -> list[object]:
        return [
            (claim.mention.value, claim.derivation, [(one.kind, one.source.value) for one in claim.contradictions])
            for claim in claims
        ]

    assert [shown(reader.finish(step)) for step in held] == [shown(claims) for claims in read_ledger(run).claims]
