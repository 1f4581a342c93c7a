from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blamespan_tracer.representation.arithmetic import equations, value_of


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("so 12 * 3 = 35", "12 * 3 = 35"),
        ("The cost is 602 + 3,080 = 3,683 euros.", "602 + 3,080 = 3,683"),
        ("- 23 + 19 = 43 apples", "23 + 19 = 43"),
        ("60 \\times 2 = 121", "60 \\times 2 = 121"),
        ("((1 + 2) * 3) = (4 * 3)", "((1 + 2) * 3) = (4 * 3)"),
        ("2^10 = 1000", "2^10 = 1000"),
        ("$100 - $20 = $90.", "$100 - $20 = $90"),
    ],
)
def test_sum_that_does_not_hold_is_found_where_it_stands(text: str, shown: str) -> None:
    """A written sum is worked out again, and quoted as it stands; a list's mark is no minus."""
    found = equations(text)

    assert [(text[each.start : each.end].strip(), each.holds) for each in found] == [(shown, False)]


@pytest.mark.parametrize(
    "text",
    [
        "10 / 3 = 3.33",
        "100 / 7 = 14.28",
        "10 / 4 = 2",
        "7 - -7 * 4 = 35",
        "1.10 + 2.20 = 3.3",
        "17 \u00d7 35 = 595 pages",
        "f(2) = 3 + 4 = 7",
    ],
)
def test_sum_that_holds_as_far_as_it_is_rounded_holds(text: str) -> None:
    """A quotient may be rounded or cut at its last place."""
    found = equations(text)

    assert found
    assert all(each.holds for each in found)


@pytest.mark.parametrize(
    "text",
    [
        "2x + 3 = 7",
        "sqrt(9 + 16) = 5",
        "3 x 4 = 12",
        "n = 2 * 5 = 10x",
        "20% of 50 = 10",
        "a[3] + 4 = 10",
        "x - 3 = 7",
        "half of 8 + 2 = 6",
        "assert 2 + 2 == 5",
        "1 / 0 = 7",
        "9^9^9^9 = 1",
        "5 = 6",
    ],
)
def test_what_may_not_be_wholly_written_is_left_alone(text: str) -> None:
    """Variables, functions, per cents, comparisons and the incomputable are no sums to judge."""
    assert equations(text) == ()


@given(st.integers(-999, 999), st.integers(-999, 999), st.sampled_from("+-*"), st.integers(-3, 3))
def test_right_sums_hold_and_wrong_ones_do_not(one: int, other: int, sign: str, off: int) -> None:
    """A sum of whole numbers holds exactly when Python says so."""
    result = {"+": one + other, "-": one - other, "*": one * other}[sign] + off
    text = f"we get ({one}) {sign} ({other}) = ({result}) in all"

    assert [each.holds for each in equations(text)] == [off == 0]


@given(st.text(alphabet="0123456789.,()+-*/^= x\n€", max_size=300))
def test_any_text_is_read(text: str) -> None:
    """Whatever stands there, reading it raises nothing and quotes lie within it."""
    assert all(0 <= each.start < each.end <= len(text) for each in equations(text))


@pytest.mark.parametrize(
    "text", ["(" * 400 + "1" + ")" * 400 + "=1", "1+1=" * 50_000, "-" * 290 + "1=1", "=" * 200_000]
)
def test_hostile_sums_cost_little(text: str) -> None:
    """Depth, length and number of sums are bounded."""
    start_s = time.process_time()
    equations(text)

    assert time.process_time() - start_s < 1.0


def test_value_follows_precedence() -> None:
    """Powers bind before products, products before sums, brackets first."""
    assert value_of("2 + 3 * (4 - 1) ^ 2 / 9") == 5.0
