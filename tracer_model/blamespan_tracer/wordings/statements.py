"""How agents and questions state facts and rules. `{The}` is a phrase that opens a sentence, `{the}` one within."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["CORRECTIONS", "LABELS", "RULES", "STATEMENTS", "WORKED"]

STATEMENTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "amount": (
            "{The} is {value}",
            "{The} comes to {value}",
            "{The} amounts to {value}",
            "{The} stands at {value}",
            "{The} equals {value}",
            "{The}: {value}",
            "{The} = {value}",
            "{The} works out at {value}",
            "I get {value} for {the}",
            "I have {value} for {the}",
            "We are at {value} for {the}",
            "For {the}, that is {value}",
            "As for {the}, it is {value}",
            "With {value} for {the}, this part is settled",
            "{The} turns out to be {value}",
        ),
        "name": (
            "{The} is {value}",
            "{The}: {value}",
            "{value} is {the}",
            "It is {value} for {the}",
            "{The} turns out to be {value}",
            "{The} was found to be {value}",
            "I have {value} as {the}",
            "{The} must be {value}",
            "As for {the}, it is {value}",
        ),
        "choice": (
            "{The} are {value}",
            "{The} must be {value}",
            "{The} are to be {value}",
            "{The} should be {value}",
            "{The}: {value}",
            "We want {the} {value}",
            "{The} have to be {value}",
        ),
        "verdict": (
            "{The} is {value}",
            "{The}: {value}",
            "By the limits, {the} is {value}",
            "That makes {the} {value}",
            "{The} turns out to be {value}",
        ),
        "limit": (
            "{The} must be {value}",
            "{The} is to be {value}",
            "{The} has to be {value}",
            "We need {the} to be {value}",
            "{The}: {value}",
            "{The} should be {value}",
        ),
    }
)
"""By the kind of the fact; a sentence without its full stop."""

WORKED = (
    "{The} is {working} = {value}",
    "{The}: {working} = {value}",
    "{The} = {working} = {value}",
    "{working} = {value} for {the}",
    "{The} comes to {working} = {value}",
    "{The} is {value} ({working})",
    "With {working}, {the} is {value}",
    "Working with {working}, I get {value} for {the}",
    "{working} gives {value} for {the}",
)
"""An amount with the arithmetic that leads to it."""

CORRECTIONS = (
    "{The} [is|should be] {value}, not {wrong}",
    "{The} is not {wrong} but {value}",
    "{The} [must|should] be {value} [rather than|instead of] {wrong}",
    "I get {value} for {the}, not {wrong}",
    "For {the} I find {value} [rather than|instead of] {wrong}",
    "{The}: {value} [and not|instead of] {wrong}",
)
"""Somebody said *wrong*."""

LABELS = ("{n}. ", "{n}) ", "- ", "* ", "")
"""How the lines of a list open."""

RULES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "sum": (
            "{The} is {a} plus {b}",
            "Add {a} and {b} to get {the}",
            "{The} is the sum of {a} and {b}",
            "To get {the}, add up {a} and {b}",
            "{The} is {a} and {b} together",
            "For {the}, add {a} and {b}",
            "Put together {a} and {b} to find {the}",
        ),
        "product": (
            "{The} is {a} times {b}",
            "Multiply {a} by {b} to get {the}",
            "{The} is {a} multiplied by {b}",
            "To find {the}, multiply {a} by {b}",
            "{The} equals {a} times {b}",
            "For {the}, multiply {a} and {b}",
            "{The} is the product of {a} and {b}",
        ),
        "difference": (
            "{The} is {a} minus {b}",
            "Subtract {b} from {a} to get {the}",
            "{The} is {a} less {b}",
            "To get {the}, take {b} away from {a}",
            "{The} is {a} reduced by {b}",
            "For {the}, subtract {b} from {a}",
            "{The} is the difference between {a} and {b}",
        ),
        "quotient": (
            "{The} is {a} divided by {b}",
            "Divide {a} by {b} to get {the}",
            "To find {the}, divide {a} by {b}",
            "{The} equals {a} divided by {b}",
            "For {the}, divide {a} by {b}",
            "{The} is {a} over {b}",
        ),
        "percent": (
            "{The} is {a} of {b}",
            "Take {a} of {b} to get {the}",
            "{The} equals {a} of {b}",
            "For {the}, take {a} of {b}",
        ),
        "larger": (
            "{The} is the larger of {a} and {b}",
            "{The} is the greater of {a} and {b}",
            "For {the}, take the larger of {a} and {b}",
            "Take the higher of {a} and {b} to get {the}",
        ),
        "smaller": (
            "{The} is the smaller of {a} and {b}",
            "{The} is the lower of {a} and {b}",
            "For {the}, take the smaller of {a} and {b}",
            "Take the lesser of {a} and {b} to get {the}",
        ),
        "lowest": (
            "{The} is the one with the lowest {measure}",
            "For {the}, take the one with the lowest {measure}",
            "{The} is whichever has the smallest {measure}",
        ),
        "highest": (
            "{The} is the one with the highest {measure}",
            "For {the}, take the one with the highest {measure}",
            "{The} is whichever has the largest {measure}",
        ),
    }
)
"""By operation; `{a}` and `{b}` are the phrases of its inputs, `{b}` all but the first where there are more."""
