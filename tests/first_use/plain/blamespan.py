"""Stands in for the package where a program is timed without it."""


def instrument(**settings: object) -> None:
    """Do nothing."""


def record_outcome(*said: object, **named: object) -> bool:
    """Do nothing."""
    return True
