"""The shop desk that every framework's program runs: a researcher looks an article up, a writer answers the customer.

The models are scripted, and answer by what they read. With a fault, one of them copies one number wrongly.
"""

from __future__ import annotations

import re
from typing import Literal

Fault = Literal["", "researcher", "writer"]

TASK = "A customer asks: what does the lamp A12 cost, and when does it come?"
CATALOGUE = {"A12": "The lamp A12 costs 48 euros. 7 are in stock. Delivery takes 3 days."}
RESEARCHER = "You look articles up with the tool look_up and report their price and delivery time."
WRITER = "You answer the customer in two sentences, by what the researcher reports."
CALL = {"article": "A12"}
FOUND = re.compile(r"The lamp A12 costs (\d+) euros\. \d+ are in stock\. Delivery takes (\d+) days")
REPORTED = re.compile(r"The catalogue says: the lamp A12 costs (\d+) euros, and delivery takes (\d+) days")


def look_up(article: str) -> str:
    """Look an article of the shop up.

    Args:
        article: Its number.
    """
    return CATALOGUE[article]


def report(read: str, fault: Fault) -> str:
    """Write the researcher's report by what it has *read*."""
    price, days = FOUND.findall(read)[-1]
    told = price[::-1] if fault == "researcher" else price
    return f"The catalogue says: the lamp A12 costs {told} euros, and delivery takes {days} days."


def answer(read: str, fault: Fault) -> str:
    """Write the writer's answer by the report that it has *read*."""
    price, days = REPORTED.findall(read)[-1]
    told = price[::-1] if fault == "writer" else price
    return f"The lamp A12 costs {told} euros. It comes within {days} days."
