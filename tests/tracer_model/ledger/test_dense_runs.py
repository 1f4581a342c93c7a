"""The ledger of long runs and of runs dense in values: bounded in time and memory, and still right about a mistake."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from blamespan.trace import Agent, MessageActionTrace, Step
from blamespan_tracer.ledger import Ledger, Mention, Value, read_ledger
from blamespan_tracer.ledger import ledger as ledger_module
from tests.benchmarks.dense_runs import make_dense_run

_MANY, _FEW = ledger_module._MANY_CLAIMS, ledger_module._FEW_CLAIMS
_PLACE = 11
"""Step of an agent, behind the bound of the tests."""


def _read_seconds(run: MessageActionTrace) -> tuple[float, Ledger]:
    start_s = time.process_time()
    ledger = read_ledger(run)
    return time.process_time() - start_s, ledger


def _say(run: MessageActionTrace, index: int, content: str) -> MessageActionTrace:
    steps = list(run.steps)
    steps[index] = replace(steps[index], content=content)
    return replace(run, steps=tuple(steps))


def _with_copied_seal(seal: str, place: int = _PLACE) -> MessageActionTrace:
    """Make a dense run whose tool gives a seal, which an agent copies at the end of a long step."""
    run = make_dense_run(16)
    run = _say(run, 2, f"The seal of the north gate is seal-481516z.\n{run.steps[2].content}")
    return _say(run, place, f"{run.steps[place].content}\nThe seal of the north gate is {seal}.")


def _near(ledger: Ledger, index: int, text: str) -> list[tuple[str, str]]:
    claims = [claim for claim in ledger.claims[index] if claim.mention.value.text == text]
    return [(one.kind, one.source.value.text) for claim in claims for one in claim.contradictions if one.kind == "near"]


def test_few_claims_of_each_step_are_held_once_a_run_has_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the bound a step has at most sixteen claims; before it, and without it, as many as it states."""
    run = make_dense_run(12)
    unbounded = [len(claims) for claims in read_ledger(run).claims]
    monkeypatch.setattr(ledger_module, "_MANY_CLAIMS", 400)

    bounded = [len(claims) for claims in read_ledger(run).claims]

    first = next(index for index in range(12) if sum(unbounded[: index + 1]) >= 400) + 1
    assert bounded[:first] == unbounded[:first]
    assert bounded[first:] == [min(count, _FEW) for count in unbounded[first:]]
    assert max(unbounded) > _FEW


@pytest.mark.parametrize("place", [_PLACE, _PLACE + 4])
def test_a_wrong_copy_is_found_behind_the_bound(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What nearly equals a source is held first: a digit changed late in a dense run is contradicted there."""
    monkeypatch.setattr(ledger_module, "_MANY_CLAIMS", 200)
    wrong, right = _with_copied_seal("seal-481576z", place), _with_copied_seal("seal-481516z", place)

    found, sound = read_ledger(wrong), read_ledger(right)

    assert _near(found, place, "seal-481576z") == [("near", "seal-481516z")]
    assert not any(_near(sound, index, "seal-481576z") for index in range(16))
    assert not any(_near(found, index, "seal-481576z") for index in range(16) if index != place)


def test_words_are_kept_once_a_text() -> None:
    """The values of a text share its words: what is kept of a value does not grow with what stands around it."""
    ledger = read_ledger(make_dense_run(4))

    assert [len({id(claim.mention.text) for claim in claims}) for claims in ledger.claims] == [1, 1, 0, 1]


def test_what_was_not_noted_for_longest_is_forgotten() -> None:
    """Of more keys than are kept at least so many stay, those that were noted last, each with its latest mentions."""
    mentions: list[Mention] = []
    latest = ledger_module._Latest(mentions, most=10)
    for index in range(100):
        mentions.append(Mention(index, False, Value(str(index), "number", 0, str(index))))
        latest.add_last(index)
        latest.add_last("always")

    assert all(latest.get(index) == [mentions[index]] for index in range(91, 100))
    assert not any(index in latest for index in range(80))
    assert latest.get("always") == mentions[-20:]


@pytest.mark.parametrize("n_steps", [0, 1])
def test_a_run_of_hardly_any_steps_has_a_ledger(n_steps: int) -> None:
    """No step, no claims; one step has the claims that it states."""
    ledger = read_ledger(make_dense_run(n_steps))

    assert [len(claims) > 80 for claims in ledger.claims] == [True] * n_steps


@pytest.mark.parametrize(
    "content",
    [
        "| order | amount |\n|---|---|\n" + "\n".join(f"| ord-{row}x | {row * 7} |" for row in range(10_000)),
        "ord-4815x " * 100_000,
        "word_" * 200_000,
        "7 " * 500_000,
        "{" * 1_000_000,
        "\n" * 1_000_000,
        '"' + "a" * 1_000_000,
    ],
    ids=["table", "one identifier", "one word", "digits", "braces", "lines", "quotation"],
)
def test_a_huge_text_is_read_in_bounded_time(content: str) -> None:
    """A table of ten thousand rows, and megabytes: the ends are read, with a bounded number of values."""
    steps = [
        Step(0, f"{1:016x}", "Clerk", "tool_result", content),
        Step(1, f"{2:016x}", "Clerk", "message", content, inputs=(0,)),
        Step(2, f"{3:016x}", "Clerk", "message", content[: len(content) // 2], inputs=(1,)),
    ]
    run = MessageActionTrace("1" * 32, content, tuple(steps), (Agent("Clerk"),))

    seconds, ledger = _read_seconds(run)

    assert seconds < 10
    assert all(len(claims) <= ledger_module._MAX_CLAIMS for claims in ledger.claims)


@pytest.mark.slow
def test_a_run_dense_in_identifiers_is_read_in_bounded_time() -> None:
    """Six hundred steps of eighty identifiers each; twice as long takes about twice as long."""
    half, _ = _read_seconds(make_dense_run(300))
    whole, ledger = _read_seconds(make_dense_run(600))

    assert whole < 30
    assert whole < 3 * half
    assert sum(map(len, ledger.claims)) < _MANY + 2 * ledger_module._MAX_CLAIMS + 600 * _FEW
