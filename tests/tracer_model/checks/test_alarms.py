"""A check that hardly any sound run breaks raises the alarm by itself, unless the run puts that right later."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from blamespan import conventions as words
from blamespan.errors import TracerUnavailable
from blamespan_tracer.auto.tracer import AutoTracer
from blamespan_tracer.checks import CHECKS, alarms, apply_checks, read_toml_checks
from blamespan_tracer.checks.alarms import (
    MOST_SOUND_RUNS,
    SOUND_RATES,
    find_alarms,
    raises_alarm,
    sound_rates,
    weigh,
    weight_of,
)
from tests.tracer_model.checks.test_bundled import (
    BROKEN,
    DENIED,
    LONG,
    PRICES,
    branching,
    call,
    guarded,
    instructed,
    with_facts,
    with_inputs,
)
from tests.tracer_model.teams import team

BY_NAME = {check.name: check for check in CHECKS}
OTHER = "The second half has other words altogether, since nobody wants to read about one thing two times in a row."


@pytest.mark.parametrize("name", BROKEN)
def test_broken_check_raises_the_alarm_and_names_its_step(tracer: AutoTracer, name: str) -> None:
    """A run that breaks a check is called failed: by its step, its mode and its quote."""
    run, _, _ = BROKEN[name]
    [first, *_] = find_alarms(run, apply_checks(CHECKS, run)) or [None]

    [verdict] = tracer.attribute([run])

    if sound_rates()[name] > MOST_SOUND_RUNS:
        assert first is None
        return
    assert first is not None
    assert verdict.calls_failed
    assert verdict.decisive_step == first.step
    assert verdict.modes[0].mode in {one.mode for one in apply_checks(CHECKS, run) if one.outcome == "fail"}
    assert verdict.evidence[0].quote == first.quote


SOUND = {
    "sum-holds": team(("a", "fine"), ("b", "We get 12 * 3 = 36.")),
    "result-believed": team(
        *call("a", "ask", "The red kettle costs 48 euros."), ("a", "The red kettle costs 48 euros."), ("b", "ok")
    ),
    "task-kept": team(
        ("a", "The delivery budget is 590 euros."), ("b", "ok"), task="The delivery budget is 590 euros."
    ),
    "value-of-its-row": team(
        *call("a", "ask", PRICES), ("a", "The gross price of the cup is 4,812 cents."), ("b", "ok")
    ),
    "value-of-its-column": team(
        *call("a", "ask", PRICES), ("a", "The net price of the kettle is 3,340 cents."), ("b", "ok")
    ),
    "comparison-holds": team(("a", "The kettle costs 45 euros, under the limit of 48 euros."), ("b", "ok")),
    "percentage-holds": team(("a", "12 of 48 kettles are red (25 %)."), ("b", "ok")),
    "count-holds": team(("a", "Four kettles are red: RK-7, RK-8, RK-9 and RK-11."), ("b", "ok")),
    "intervals-fit": team(("a", "The sale from 4 to 12 May overlaps the fair from 12 to 14 May."), ("b", "ok")),
    "factor-in-all": team(("a", "- Kettles: 48 x $29 x 12 = $16,704\n- Cups: 48 x $7 x 12 = $4,032"), ("b", "ok")),
    "latest-word-kept": team(("a", "Let us give 12 % off."), ("b", "Please make it 10 %."), ("a", "We give 10 % off.")),
    "call-stays-narrow": team(
        *call("a", "count", "48", kind="red"), *call("a", "delete", "48", kind="red"), ("a", "Done."), ("b", "ok")
    ),
    "tests-reported-truly": team(*call("a", "run_tests", "12 passed"), ("a", "All 12 tests pass."), ("b", "ok")),
    "failed-action-changed": team(
        *call("a", "ask", DENIED, item="kettle"), *call("a", "ask", "48", item="kettle, as admin"), ("a", "It is 48.")
    ),
    "budget-kept": guarded(team(("a", "Go on."), ("b", "No model was asked.")), 1, "tool"),
    "step-new": team(("a", LONG), ("b", "go on"), ("a", OTHER)),
    "call-new": team(
        *call("a", "ask", "48", item="kettle"), ("b", "hm"), *call("a", "ask", "12", item="cup"), ("a", "48 and 12")
    ),
    "tool-error-met": team(
        *call("a", "ask", "Error: the shop is closed"), ("a", "The shop cannot be asked: it is closed."), ("b", "good")
    ),
    "arguments-well-formed": team(*call("a", "ask", "48", item="kettle"), ("a", "It costs 48."), ("b", "good")),
    "number-has-source": with_inputs(
        team(("a", "There are 31 boxes of 40."), ("b", "I take 31 of them."), task="Count 31 boxes of 40.")
    ),
    "hand-off-arrives": team(
        ("a", "over to you", "handoff"), ("b", "I have it, and it is done."), recipients={0: ["b"]}
    ),
    "objection-heard": team(("a", LONG), ("b", "That is wrong, this needs to change."), ("a", OTHER)),
    "approval-sees-errors": team(
        *call("a", "run_tests", "2 tests passed: test_sum"), ("a", "Approved, all is right."), ("b", "thanks")
    ),
    "approval-sees-sums": team(("a", "So 12 * 3 = 36."), ("b", "I checked it, that is correct.")),
    "text-whole": team(("a", f"{LONG} Here is the code.\n```python\nprint(1)\n```"), ("b", "thanks")),
    "ends-when-done": team(("a", LONG), ("b", OTHER), ("a", "Then we are through with both halves of it. TERMINATE")),
    "done-when-ended": team(
        ("a", "first part"), ("b", "The museum is open from 11 to 17. TERMINATE"), task="Is it open from 11 to 17?"
    ),
    "branch-holds": branching("true"),
    "variable-filled": with_facts(
        team(("a", "48"), ("b", "The price is 48.")), {}, {words.NODE_INPUTS: '{"price": 48}'}
    ),
    "role-rules-kept": instructed("Give it as plain text."),
    "user-rules-kept": team(
        ("b", "Please answer in German."),
        ("a", "The boat leaves at nine and is not late today."),
        task="When? Always answer in English.",
    ),
    "answer-given": team(("a", "It is 48."), ("b", "So the answer is 48.")),
}
"""For checks that can be broken, a run like the one that breaks it, without the mistake."""


@pytest.mark.parametrize("name", SOUND)
def test_sound_twin_raises_no_alarm(tracer: AutoTracer, name: str) -> None:
    """A run without the mistake breaks nothing, and nobody is called to blame for anything."""
    run = SOUND[name]

    assert [result for result in apply_checks(CHECKS, run) if result.outcome == "fail"] == []
    assert not tracer.attribute([run])[0].calls_failed


REPAIRED = {
    "sum-holds": team(("a", "We get 12 * 3 = 35."), ("b", "No: 12 * 3 = 36."), ("a", "Right, so it is 36.")),
    "sum-holds, in one message": team(("a", "We get 12 * 3 = 35. Wait, 12 * 3 = 36, so 36."), ("b", "36 it is.")),
    "sum-holds, refuted": team(("a", "We get 12 * 3 = 35."), ("b", "35 is wrong."), ("a", "I take the value back.")),
    "result-believed": team(
        *call("a", "ask", "The red kettle costs 48 euros."),
        ("a", "The red kettle costs 84 euros."),
        ("b", "The shop says 48 euros, not 84."),
        ("a", "Right, the red kettle costs 48 euros."),
    ),
    "task-kept": team(
        ("a", "The delivery budget is 950 euros."),
        ("b", "The task says 590."),
        ("a", "The delivery budget is 590 euros."),
        task="The delivery budget is 590 euros.",
    ),
    "step-new": team(("a", LONG), ("b", "go on"), ("a", LONG), ("b", "You said that."), ("a", OTHER)),
    "tool-error-met": team(
        *call("a", "ask", "Error: the shop is closed"),
        ("a", "The kettle costs 48 euros."),
        ("b", "Did you ask?"),
        *call("a", "ask", "The kettle costs 52 euros."),
        ("a", "It costs 52 euros."),
    ),
    "arguments-well-formed": team(
        ("a", 'ask({"item": "kettle)', "tool_call"),
        ("a", "invalid json", "tool_result"),
        *call("a", "ask", "48", item="kettle"),
        ("a", "It costs 48."),
    ),
    "approval-sees-sums": team(
        ("a", "So 12 * 3 = 35."),
        ("b", "I checked it, that is correct."),
        ("a", "I was wrong: 12 * 3 = 36."),
        ("b", "I checked it again, 36 is correct."),
    ),
    "hand-off-arrives": team(
        ("a", "over to you", "handoff"),
        ("a", "over to you", "handoff"),
        ("b", "I have it."),
        recipients={0: ["nobody"], 1: ["b"]},
    ),
}
"""Runs that break the check whose name comes first, and put it right."""

LOOK_ALIKES = {
    "a deduction": team(
        ("a", "Three days were short."), ("b", "Meals: 3 \N{MULTIPLICATION SIGN} 5.60 = \N{MINUS SIGN}16.80 EUR.")
    ),
    "what customers could not do": team(("a", "Go."), ("b", "For 47 minutes customers could not complete an order.")),
    "a well, which remains open": team(("a", "Which?"), ("b", "Well 3 is closed for 14 days. Well 4 remains open.")),
    "other code after an error": team(
        *call("a", "run", "KeyError: 'liters'"),
        ("a", 'The column is litres.\n```python\nprint(df["litres"].sum())\n```'),
        ("b", "run it"),
    ),
}
"""Sound runs that look as if they broke a check."""


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_what_looks_like_a_mistake_raises_no_alarm(tracer: AutoTracer, name: str) -> None:
    """Words and sums of sound runs that only look like a breach call no run failed."""
    assert not tracer.attribute([LOOK_ALIKES[name]])[0].calls_failed


@pytest.mark.parametrize("name", REPAIRED)
def test_repaired_mistake_raises_no_alarm(name: str) -> None:
    """What the run puts right later is still reported as broken, and no cause for an alarm."""
    run = REPAIRED[name]
    results = [result for result in apply_checks(CHECKS, run) if result.outcome == "fail"]

    assert find_alarms(run, results) == []
    if "in one message" not in name:
        assert name.partition(",")[0] in {result.check.name for result in results}


def test_wrong_value_that_comes_back_is_not_repaired() -> None:
    """Who is corrected and states the wrong value again has not put it right."""
    run = team(("a", "We get 12 * 3 = 35."), ("b", "No: 12 * 3 = 36."), ("a", "The answer is 35."))

    assert [result.step for result in find_alarms(run, apply_checks(CHECKS, run))] == [0]


def test_another_right_sum_repairs_nothing() -> None:
    """A sum that holds puts another one that does not hold right in no way."""
    run = team(("a", "We get 12 * 3 = 35."), ("b", "And 2 + 2 = 4."), ("a", "And 2 + 3 = 5."))

    assert [result.step for result in find_alarms(run, apply_checks(CHECKS, run))] == [0]


def test_rule_of_a_user_raises_the_alarm(tmp_path: Path) -> None:
    """A rule that a user wrote is taken at its word: by its trust, also under the name of a bundled check."""
    rules = tmp_path / "rules.toml"
    rules.write_text(
        '[[check]]\nname = "nobody-guesses"\nmode = "mast:FM-1.1"\nforbid = { text = "I guess" }\n'
        '[[check]]\nname = "call-new"\ntrust = 0.2\nforbid = { text = "call" }\n'
    )
    checks = read_toml_checks(rules)
    first = AutoTracer.bundled()
    tracer = AutoTracer(first._weights, checks=(*CHECKS, *checks), check_files="abc")
    run = team(("a", "The boat leaves at nine."), ("b", "I guess that is right."))

    verdict, sound = tracer.attribute([run, team(("a", "The boat leaves at nine."), ("b", "Then that is right."))])

    assert list(map(raises_alarm, checks)) == [True, False]
    assert (verdict.calls_failed, verdict.decisive_step, str(verdict.modes[0].mode)) == (True, 1, "mast:FM-1.1")
    assert verdict.evidence[0].quote == "I guess that is right."
    assert not sound.calls_failed
    assert tracer.settings["checks"] == "abc"


def test_every_bundled_check_was_counted_on_sound_runs() -> None:
    """The rates are of the checks that there are: a new one is counted before it ships."""
    assert sorted(sound_rates()) == sorted(BY_NAME)
    assert raises_alarm(BY_NAME["sum-holds"])
    assert not raises_alarm(BY_NAME["call-new"])


def test_weight_is_how_much_more_often_mistakes_break_a_check() -> None:
    """A check that mistakes break and sound runs do not weighs the more, the more mistakes break it."""
    sizes = {"runs": {"real": 100}, "steps": {"real": 1_000}, "mistakes": {"real": 100}}
    broken = {"often": {}, "seldom": {}, "by sound runs": {"real": 50}}
    found = {"often": {"real": 20}, "seldom": {"real": 2}, "by sound runs": {"real": 5}}

    weights = weigh({**sizes, "broken": broken, "broken_steps": broken, "found": found})

    assert weights["often"] > weights["seldom"] > weights["by sound runs"]
    assert weights["by sound runs"] == pytest.approx(0.0, abs=0.1)  # 5 % of the mistakes, 5 % of the sound steps


def test_rule_without_a_count_weighs_by_its_trust(tmp_path: Path) -> None:
    """A user's rule says as much as the bundled ones on average where its trust is even, and more with more trust."""
    rules = tmp_path / "rules.toml"
    rules.write_text(
        "".join(
            f'[[check]]\nname = "{name}"\ntrust = {trust}\nforbid = {{ text = "I guess" }}\n'
            for name, trust in (("low", 0.2), ("even", 0.5), ("high", 0.9), ("sum-holds", 0.5))
        )
    )

    low, even, high, of_that_name = map(weight_of, read_toml_checks(rules))

    assert low < even < high
    assert of_that_name == even != weight_of(BY_NAME["sum-holds"])
    assert weight_of(BY_NAME["sum-holds"]) > weight_of(BY_NAME["call-new"]) > 0


def _forget() -> None:
    for cached in (alarms.sound_rates, alarms._read_rates, alarms._weights):
        cached.cache_clear()


def test_damaged_rates_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rates that cannot be read are an error that names the file and the command, not an alarm too many."""
    for number, text in enumerate(("{", "[]", json.dumps({"runs": {}, "broken": {"sum-holds": {}}}))):
        path = tmp_path / f"{number}.json"
        path.write_text(text)
        monkeypatch.setattr("blamespan_tracer.checks.alarms.SOUND_RATES", path)
        _forget()
        with pytest.raises(TracerUnavailable, match=f"{number}.json.*blamespan lab evaluate checks"):
            sound_rates()
    monkeypatch.setattr("blamespan_tracer.checks.alarms.SOUND_RATES", SOUND_RATES)
    _forget()

    assert sound_rates()
