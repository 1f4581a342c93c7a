"""A run as one text: every claim of the ledger stands where it is said to stand, and before it what it could know."""

from __future__ import annotations

from blamespan.trace import Agent, MessageActionTrace, Step
from blamespan_tracer.ledger import read_ledger
from blamespan_tracer.reader.layout import lay_out_run

RUN = MessageActionTrace(
    "3" * 32,
    "Order 1,250 screws for Acme Corp by 12 May 2026.",
    (
        Step(0, "1" * 16, "Buyer", "message", "Acme Corp wants 1,250 screws.", input_text="You buy. Limit: 9,000."),
        Step(1, "2" * 16, "Buyer", "tool_call", 'order({"n": 1250, "for": "Acme Corp"})'),
        Step(2, "3" * 16, "Buyer", "tool_result", "Ordered 1,250 screws as PO-77812."),
        Step(3, "4" * 16, "Writer", "message", "PO-77812 for 1,250 screws arrives on 2026-05-12. 😀 “1,250” it is."),
    ),
    (Agent("Buyer"), Agent("Writer")),
)  # fmt: skip


def test_claims_stand_where_they_are_said_to() -> None:
    """The words at a claim's place are the claim's; the order is the text's, and none is left out."""
    ledger = read_ledger(RUN)

    text = lay_out_run(RUN, ledger)

    assert len(text.claims) == sum(map(len, ledger.claims))
    assert [placed.start for placed in text.claims] == sorted(placed.start for placed in text.claims)
    for placed in text.claims:
        assert text.text[placed.start : placed.stop] == placed.claim.mention.value.text


def test_what_a_step_was_given_stands_before_it() -> None:
    """The text begins with the task; each step stands behind what it was given and behind its agent's name."""
    text = lay_out_run(RUN, read_ledger(RUN)).text

    assert text.startswith("Task: Order 1,250 screws")
    assert text.index("Limit: 9,000.") < text.index("Buyer: Acme Corp wants") < text.index("Writer: PO-77812")


def test_empty_run_is_its_task() -> None:
    """A run without steps has no claims."""
    empty = MessageActionTrace("4" * 32, "Nothing to do.", (), ())

    text = lay_out_run(empty, read_ledger(empty))

    assert (text.text, text.claims) == ("Task: Nothing to do.\n\n", ())
