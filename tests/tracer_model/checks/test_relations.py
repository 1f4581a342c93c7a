"""Values of another row or column, or replaced; what numbers, counts and times say of each other; tests; actions.

Each mistake stands beside its sound twin: the same run with the value that belongs there.
"""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blamespan.trace import MessageActionTrace
from blamespan_tracer.checks import CHECKS, apply_checks
from blamespan_tracer.ledger.records import find_tables
from blamespan_tracer.ledger.values import find_values
from tests.tracer_model.teams import Said, team

_MARKDOWN = "| Region | Q1 2025 | Q2 2025 |\n|---|---:|---:|\n| North | 4,188 | 3,975 |\n| South | 4,410 | 4,812 |"
_SQL = (
    "month   | gross_eur  | net_eur\n--------+------------+------------\n"
    "2024-07 | 1842310.55 | 1698122.05\n2024-08 | 1611904.20 | 1502377.90\n(2 rows)"
)
_CSV = "sku,description,on_hand,target\nHX-204,hose clamp,12,38\nHX-240,hose clamp,26,60\nHX-402,hose coupling,17,40"
_COLUMNS = "Segment        2023     2022\nIndustrial     17,930   18,655\nMobility       19,402   17,010"
_JSON = (
    '{"passengers": [{"id": "P-71", "name": "Maya Lind", "seat": "14C", "paid": 412.60}, '
    '{"id": "P-72", "name": "Jonas Berg", "seat": "22A", "paid": 318.90}]}'
)


def _answered(table: str, said: str, *after: Said) -> MessageActionTrace:
    """A run in which a tool answers with a table and an agent says something of it."""
    read: tuple[Said, ...] = (("reader", 'read({"what": "it"})', "tool_call"), ("reader", table, "tool_result"))
    return team(*read, ("reader", said), *after, task="What do the records say? Two sentences, please.")


def _broken(run: MessageActionTrace, name: str) -> list[int | None]:
    """The steps that break one check."""
    chosen = [check for check in CHECKS if check.name == name]
    return [result.step for result in apply_checks(chosen, run) if result.outcome == "fail"]


@pytest.mark.parametrize(
    ("name", "table", "sound", "mistake"),
    [
        ("value-of-its-row", _MARKDOWN, "South sold 4,812 units in Q2 2025.", "South sold 3,975 units in Q2 2025."),
        ("value-of-its-row", _CSV, "- HX-240: 26 on hand, target 60", "- HX-240: 17 on hand, target 40"),
        (
            "value-of-its-row",
            _COLUMNS,
            "Industrial had 17,930 people in 2023.",
            "Industrial had 19,402 people in 2023.",
        ),
        ("value-of-its-row", _JSON, "Maya Lind paid 412.60 EUR.", "Maya Lind paid 318.90 EUR."),
        ("value-of-its-row", _SQL, "In July 2024 net_eur was 1,698,122.05.", "In July 2024 net_eur was 1,502,377.90."),
        (
            "value-of-its-row",
            _MARKDOWN,
            "| Region | Q2 2025 |\n|---|---|\n| North | 3,975 |\n| South | 4,812 |",
            "| Region | Q2 2025 |\n|---|---|\n| North | 4,812 |\n| South | 3,975 |",
        ),
        (
            "value-of-its-column",
            _SQL,
            "Net revenue in July was 1,698,122.05 EUR.",
            "Net revenue in July was 1,842,310.55 EUR.",
        ),
        ("value-of-its-column", _COLUMNS, "Mobility had 17,010 people in 2022.", "Mobility had 19,402 people in 2022."),
    ],
)
def test_a_value_belongs_to_the_row_and_the_column_that_a_statement_names(
    name: str, table: str, sound: str, mistake: str
) -> None:
    """A value of another row or column is found, whatever the form of the table; the value of the row itself is not."""
    assert _broken(_answered(table, mistake), name)[:1] == [2]
    assert _broken(_answered(table, sound), name) == []


@pytest.mark.parametrize(
    "said",
    [
        "South sold 4,812 units, 837 more than North with 3,975.",
        "Compared with 3,975 in North, South did well.",
        "North: 3,975. South: 4,812.",
        "The difference between South and the 3,975 of the other region is 837.",
    ],
)
def test_other_rows_may_be_spoken_of(said: str) -> None:
    """A sentence that compares, or names both rows, is not judged."""
    assert _broken(_answered(_MARKDOWN, said), "value-of-its-row") == []


def test_who_carries_a_wrong_value_on_is_not_found() -> None:
    """The mistake is the step that first says it of the wrong row; moved to the next agent, it is that one's."""
    wrong, right = "South sold 3,975 units in Q2 2025.", "South sold 4,812 units in Q2 2025."

    assert _broken(_answered(_MARKDOWN, wrong, ("writer", wrong)), "value-of-its-row") == [2]
    assert _broken(_answered(_MARKDOWN, right, ("writer", wrong)), "value-of-its-row") == [3]


_PLAN = "Here is the plan:\n- Amara 9:00 - 9:45\n- Jonas {}\n- Lea 10:30 - 11:15"
_STOCKTAKING = "the stocktaking from 18 to 29 August."
MISTAKES = {
    "comparison-holds": [
        ("It is now 455 ms, above the 412 ms of last week.", "It is now 455 ms, below the 412 ms of last week."),
        ("The flat costs 980 EUR, under the limit of 1,050 EUR.", "It costs 1,180 EUR, under the limit of 1,050 EUR."),
        ("Sales rose from 4,410 to 4,812 units.", "Sales fell from 4,410 to 4,812 units."),
        ("Churn fell from 5.1 % to 4.8 %.", "Churn rose from 5.1 % to 4.8 %."),
    ],
    "percentage-holds": [
        ("72 errors in 8,000 requests = 0.9 %.", "72 errors in 8,000 requests = 0.09 %."),
        ("18 of 40 invoices are paid (45 %).", "18 of 40 invoices are paid (54 %)."),
        ("8 % of 2,450 is 196.", "8 % of 2,450 is 184."),
        ("Sales 2450.00, commission 8 % = 196.00.", "Sales 2450.00, commission 8 % = 184.00."),
        ("1 of 3 answers is wrong, so 33.3 %.", "1 of 3 answers is wrong, so 30.3 %."),
    ],
    "intervals-fit": [
        (_PLAN.format("9:45 - 10:30"), _PLAN.format("9:30 - 10:15")),
        (f"The leave from 4 to 20 August overlaps {_STOCKTAKING}", f"That from 4 to 15 August overlaps {_STOCKTAKING}"),
        (
            f"That from 4 to 15 August ends before {_STOCKTAKING}",
            f"That from 4 to 20 August ends before {_STOCKTAKING}",
        ),
    ],
}
"""By check, what one message may say wrongly, behind its sound twin."""


@pytest.mark.parametrize(
    ("name", "sound", "mistake"), [(name, *pair) for name, pairs in MISTAKES.items() for pair in pairs]
)
def test_who_says_it_wrongly_first_is_named(name: str, sound: str, mistake: str) -> None:
    """Amounts are compared, shares worked out and spans laid side by side again; what is right is left alone."""
    assert _broken(team(("analyst", mistake), ("writer", "Thanks.")), name) == [0]
    assert _broken(team(("analyst", sound), ("writer", mistake)), name) == [1]
    assert _broken(team(("analyst", sound), ("writer", sound)), name) == []


LEFT_ALONE = {
    "comparison-holds": [  # questions, conditions, differences and other units
        "Is 455 ms below 412 ms?",
        "If latency is 455 ms, below 412 ms it is not.",
        "It came to 75 EUR below the limit of 60 EUR.",
        "He has 3 rooms, over 50 guests fit in.",
        "The price rose from 12 May on to 30 EUR.",
        "Over 300 episodes it took 256 seconds, within 20 minutes.",
        "Delivery: 15.00 euro, free above 300.00 euro.",
        "The fee is waived: 12.50 euro, charged under 100.00 euro orders.",
    ],
    "percentage-holds": [  # round figures, years, other wholes, and a sum with what is added
        "About 18 of 40 invoices are paid (50 %).",
        "Of the 40 invoices 18 are paid; discount 2 % = 14.",
        "In 12 of 2024 reports 40 % of the space is empty.",
        "Price 2,450, plus tax 8 % = 2,646.",
    ],
    "intervals-fit": [f"Check whether 4 to 15 August overlaps {_STOCKTAKING}"],
}


@pytest.mark.parametrize(("name", "said"), [(name, said) for name, all_said in LEFT_ALONE.items() for said in all_said])
def test_what_states_nothing_of_the_kind_is_left_alone(name: str, said: str) -> None:
    """A message may look like the mistake and be none."""
    assert _broken(team(("analyst", said)), name) == []


def _tested(result: str, said: str) -> MessageActionTrace:
    return team(("dev", 'run_tests({"path": "tests"})', "tool_call"), ("dev", result, "tool_result"), ("dev", said))


@pytest.mark.parametrize(
    ("result", "sound", "mistake"),
    [
        ("6 passed in 0.02s", "All 6 tests pass.", "5 of the 6 tests pass; test_umlaut still fails."),
        ("1 failed, 11 passed in 0.31s", "11 tests pass, one fails.", "All 12 tests pass."),
        ("1 failed, 11 passed in 0.31s", "test_header fails.", "The test suite is green."),
        ("Tests: 40 passed, 2 failed", "40 tests passed and 2 failed.", "42 tests passed and 0 failed."),
        ("118 passed, 2 failed", "118 tests pass, please look at the rest.", "All 120 tests pass, please tag."),
    ],
)
def test_tests_are_reported_as_they_came_out(result: str, sound: str, mistake: str) -> None:
    """The last result of a tool that counts tests decides; the source stands beside the report."""
    assert _broken(_tested(result, mistake), "tests-reported-truly") == [2]
    assert _broken(_tested(result, sound), "tests-reported-truly") == []


@pytest.mark.parametrize(
    "said", ["Once all 12 tests pass we merge.", "Make sure that the test suite is green.", "Do all tests pass?"]
)
def test_hopes_are_no_reports(said: str) -> None:
    """Conditions, requests and questions report nothing."""
    assert _broken(_tested("1 failed, 11 passed", said), "tests-reported-truly") == []


def _tried(*answers: str, change: bool = False) -> MessageActionTrace:
    said: list[Said] = []
    for number, answer in enumerate(answers):
        path = f"/reports/{number}" if change else "/reports"
        said += [("uploader", f'upload({{"to": "{path}"}})', "tool_call"), ("uploader", answer, "tool_result")]
    return team(*said, ("uploader", "Done with it."))


def test_what_failed_is_not_done_again_as_it_was() -> None:
    """The first repetition is found; with a change, after a failure that passes, or once something went, none is."""
    denied, late = "Error: permission denied on /reports", "Error: 503 service unavailable, try again"

    assert _broken(_tried(denied, denied), "failed-action-changed") == [2]
    assert _broken(_tried(denied, denied, change=True), "failed-action-changed") == []
    assert _broken(_tried(late, late), "failed-action-changed") == []
    assert _broken(_tried(denied, "ok"), "failed-action-changed") == []


_JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(
    st.text(alphabet='|,;: \n\tab1-=*_#.{}[]"', max_size=120) | _JSON_VALUES.map(lambda value: f"x {json.dumps(value)}")
)
def test_any_text_is_read_for_tables(text: str) -> None:
    """Whatever looks like a table or like JSON is read, or left alone; cells lie within the text."""
    tables = find_tables(text, sorted(find_values(text), key=lambda value: value.start))

    for row in (row for table in tables for row in table.rows):
        assert 0 <= row.start <= row.stop
        assert all(0 <= cell.start <= len(text) for cell in row.cells.values())


def test_time_grows_with_the_length_of_the_run() -> None:
    """Ten times the tables and answers take at most some thirty times as long."""

    def seconds(n_rows: int) -> float:
        table = "\n".join(["sku,name,stock", *(f"B-{row},Holm {row},{row * 7}" for row in range(n_rows))])
        said: list[Said] = []
        for number in range(n_rows // 4):
            said += [
                ("a", f'ask({{"item": "B-{number}"}})', "tool_call"),
                ("a", f'{{"stock": {number * 7}, "name": "Holm"}}', "tool_result"),
                ("a", f"B-{number} has a stock of {number * 7}."),
            ]
        run = _answered(table, "Read.", *said)
        began = time.process_time()
        _broken(run, "value-of-its-row")
        return time.process_time() - began

    assert seconds(800) < 30 * seconds(80) + 1


_TICKETS = "ORB-101 open, refund\nORB-118 open, refund\nORB-125 open, refund"
_LINTER = "app:3 error: name\napp:9 error: type\napp:12 error: import\nio:4 warning: unused\nio:8 warning: shadow"
_JOINERS = "Ines: account ready, badge ready\nTomasz: account ready, badge missing\nBo: account ready, badge ready"


@pytest.mark.parametrize(
    ("answer", "sound", "mistake"),
    [
        (
            _TICKETS,
            "Three tickets qualify: ORB-101, ORB-118 and ORB-125.",
            "Four tickets qualify: ORB-101, ORB-118 and ORB-125.",
        ),
        (_LINTER, "Five messages: 3 errors and 2 warnings.", "Five messages: 2 errors and 3 warnings."),
        (_JOINERS, "The accounts of all three are ready.", "The badges of all three are ready."),
    ],
)
def test_a_count_is_that_of_what_is_listed(answer: str, sound: str, mistake: str) -> None:
    """What a sentence lists, what a tool lists of each kind, and what it says of each are counted again."""
    assert _broken(_answered(answer, mistake, ("writer", "Thanks.")), "count-holds") == [2]
    assert _broken(_answered(answer, sound, ("writer", mistake)), "count-holds") == [3]
    assert _broken(_answered(answer, sound, ("writer", "Thanks.")), "count-holds") == []


@pytest.mark.parametrize(
    "said",
    [
        "Are all badges ready?",
        "All badges are ready but one.",
        "If all badges are ready, we begin.",
        "2 errors and 3 warnings were there last week, next to 4 notes.",
        "Two things to do: call the shop, then wait for the answer.",
    ],
)
def test_what_counts_nothing_is_left_alone(said: str) -> None:
    """Questions, exceptions, counts of something else and sentences after a colon are not judged."""
    assert _broken(_answered(_JOINERS, said), "count-holds") == []


def test_times_that_were_given_are_left_alone() -> None:
    """Who copies a calendar plans nothing."""
    given = _PLAN.format("9:30 - 10:15")

    assert _broken(_answered(given, given), "intervals-fit") == []


_COSTS = "Costs a year:\n- Boardly: 45 x $29.00 x 12 = $15,660.00\n- Plankit: 45 x $26.50{}"


def test_like_calculations_have_like_factors() -> None:
    """Who multiplies one price by the months and the other not is named; of prices per other things nobody is."""
    sound, mistake = _COSTS.format(" x 12 = $14,310.00"), _COSTS.format(" = $1,192.50")
    prices = "Boardly costs $29.00 per seat and month. Plankit costs $26.50 per seat and {}."

    assert _broken(_answered(prices.format("month"), mistake), "factor-in-all") == [2]
    assert _broken(_answered(prices.format("month"), sound, ("writer", mistake)), "factor-in-all") == [3]
    assert _broken(_answered(prices.format("month"), sound), "factor-in-all") == []
    assert _broken(_answered(prices.format("year"), mistake), "factor-in-all") == []


_PROPOSED = "I would give them 12 % off."
_DECIDED = "Please make it 10 %. That is final for this quarter."


@pytest.mark.parametrize(
    "decided", [_DECIDED, "We will take 10 % rather than that.", "Correction: 10 % is what we give."]
)
def test_a_value_that_was_replaced_is_not_used(decided: str) -> None:
    """The blame is on who goes on with the old value, whoever that is; who takes the new one is sound."""

    def run(told: str, written: str) -> MessageActionTrace:
        return team(("sales", _PROPOSED), ("finance", decided), ("sales", told), ("writer", written))

    sound = "The discount is 10 %."
    assert _broken(run("Go ahead with 12 %.", sound), "latest-word-kept") == [2]
    assert _broken(run("Go ahead with 10 %.", "The discount is 12 %."), "latest-word-kept") == [3]
    assert _broken(run("Go ahead with 10 %.", sound), "latest-word-kept") == []


@pytest.mark.parametrize(
    ("decided", "told"),
    [
        ("12 % is fine; 10 % would have been my choice.", "Go ahead with 12 %."),
        ("Could we make it 10 %?", "Go ahead with 12 %."),
        (_DECIDED, "I had proposed 12 %, we give less."),
    ],
)
def test_a_value_that_nobody_replaced_may_be_used(decided: str, told: str) -> None:
    """Wishes and questions replace nothing, and a step may tell what there was before."""
    run = team(("sales", _PROPOSED), ("finance", decided), ("sales", told))

    assert _broken(run, "latest-word-kept") == []


def _call(agent: str, name: str, **arguments: object) -> Said:
    return (agent, f"{name}({json.dumps(arguments)})", "tool_call")


_COUNTED: tuple[Said, ...] = (
    _call("mailer", "count", region="eu-west"),
    ("mailer", '{"customers": 1318}', "tool_result"),
)
_FOR_SOME, _FOR_ALL = _call("mailer", "send", region="eu-west"), _call("mailer", "send", region="all")
_SENT: Said = ("mailer", "sent", "tool_result")


def test_a_call_stays_as_narrow_as_the_one_before() -> None:
    """Who counts the customers of a region and writes to all is named, whoever it is; who writes to these is not."""
    assert _broken(team(*_COUNTED, _FOR_ALL, _SENT), "call-stays-narrow") == [2]
    moved = (
        _call("lead", "count", region="eu-west"),
        ("lead", "1318", "tool_result"),
        _call("lead", "send", region="all"),
    )
    assert _broken(team(*_COUNTED, _FOR_SOME, _SENT, *moved, _SENT), "call-stays-narrow") == [6]
    assert _broken(team(*_COUNTED, _FOR_SOME, _SENT), "call-stays-narrow") == []


@pytest.mark.parametrize(
    "after",
    [
        (("lead", "Now write to everybody."), _FOR_ALL),
        (_call("mailer", "count", region="all"),),
        (_call("lead", "send", region="all"),),
    ],
)
def test_a_call_may_be_for_all(after: tuple[Said, ...]) -> None:
    """Somebody asked for it, the same search is made wider, or it is another agent's."""
    assert _broken(team(*_COUNTED, *after, _SENT), "call-stays-narrow") == []
