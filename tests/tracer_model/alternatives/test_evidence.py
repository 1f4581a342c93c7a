"""What is quoted of a blamed step."""

from __future__ import annotations

from blamespan.attribution import Evidence
from blamespan_tracer.alternatives.evidence import quote_steps
from tests.tracer_model.teams import team


def quoted(*said: tuple[str, str], step: int, task: str = "") -> str:
    shares = [float(place == step) for place in range(len(said))]
    (found,) = quote_steps(team(*said, task=task), shares)
    assert found.index == step
    return found.quote


def test_the_sentence_with_the_new_number_is_quoted() -> None:
    """What a step brings into the run is what it is blamed for, not what it repeats."""
    said = [
        ("A", "Order 7731 is of 12 May."),
        ("B", "I looked at order 7731 of 12 May. It comes to 80 euros. I will go on."),
        ("A", "Good."),
    ]

    assert quoted(*said, step=1) == "It comes to 80 euros."


def test_a_frame_that_is_always_there_is_not_quoted() -> None:
    """Its numbers are new each time and say nothing."""
    said = [
        ("A", "The viewport shows 38% of page 7. The ferry leaves at 9."),
        ("A", "The viewport shows 41% of page 8. The museum is closed."),
    ]

    assert quoted(*said, step=0) == "The ferry leaves at 9."
    assert quoted(*said, step=1) == "The museum is closed."


def test_without_numbers_it_is_what_others_take_up() -> None:
    """Of sentences that say nothing new in numbers, the one whose words come again; of others the last."""
    said = [
        ("A", "Who wrote it?"),
        ("B", "Let me see. The author is Brandt. Fine."),
        ("A", "The author is Brandt, then."),
    ]

    assert quoted(*said, step=1) == "The author is Brandt."
    assert quoted(("A", "Hm. Well."), step=0) == "Well."


def test_steps_with_little_blame_and_without_words_are_not_quoted() -> None:
    """At most three are, the most blamed first."""
    run = team(("A", "One."), ("B", "Two."), ("A", " "), ("B", "Three."), ("A", "Four."))

    assert quote_steps(run, [0.2, 0.5, 0.29, 0.01, 0.0]) == [Evidence(1, "Two.", 0.5), Evidence(0, "One.", 0.2)]
    assert [item.index for item in quote_steps(run, [0.3, 0.3, 0.0, 0.2, 0.2])] == [0, 1, 3]
