"""Which broken checks raise the alarm by themselves: those that hardly any sound run breaks.

How many sound runs break each bundled check is counted by `blamespan lab evaluate checks`, and stored beside the
weights. A check without a count, such as a rule that a user wrote, is taken at its word: its `trust` decides.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from blamespan.attribution import NOBODY_KNOWS
from blamespan.errors import TracerUnavailable
from blamespan.trace import MessageActionTrace
from blamespan_tracer.checks.bundled import CHECKS
from blamespan_tracer.checks.check import Check, CheckResult

SOUND_RATES = Path(__file__).parents[1] / "weights" / "check_rates.json"

MOST_SOUND_RUNS = 0.01
"""Share of sound runs up to which a check that they break raises the alarm by itself."""

PLAYED = "played"
"""Corpus of sound runs that were played for this: unlike recordings of others they say what agents were given."""

_LEAST_TRUST = 0.5
"""Of a check that was never counted on sound runs."""

_PRIOR_BROKEN = 0.5
"""Broken checks, seen and unseen alike, that are taken to have been counted beforehand: the prior of Jeffreys."""
_LEAST_ODDS = 0.05
_NEW = ""
"""Stands for a check that was never counted."""


@cache
def _read_rates() -> Mapping[str, Any]:
    """Read how often sound runs and labelled mistakes break each check.

    Raises:
        TracerUnavailable: if the file is missing or damaged.
    """
    try:
        rates: Mapping[str, Any] = json.loads(SOUND_RATES.read_text(encoding="utf-8"))
        weigh(rates)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError) as error:
        raise TracerUnavailable(
            f"expected how many sound runs break each check in {str(SOUND_RATES)!r}, got {error!r}. Install blamespan "
            "again, or count with `blamespan lab evaluate checks`"
        ) from error
    return rates


@cache
def sound_rates() -> Mapping[str, float]:
    """Return the share of sound runs that break each bundled check: of real ones or of played ones, whichever is more.

    Raises:
        TracerUnavailable: if the file is missing or damaged.
    """
    rates = _read_rates()
    return {name: max(n / of for n, of in _count(rates["runs"], own)) for name, own in rates["broken"].items()}


@cache
def _weights() -> Mapping[str, float]:
    return weigh(_read_rates())


def weigh(rates: Mapping[str, Any]) -> dict[str, float]:
    """Return how much each check says where it is broken: the logarithm of a likelihood ratio, in nats.

    That is the share of the steps that are labelled as the mistake that break it, to the share of the steps of sound
    runs; of each the larger one of real runs and of played ones. Of few steps both are drawn to the checks' average.

    Args:
        rates: As `blamespan lab evaluate checks` counts them.

    Raises:
        KeyError: if counts are missing,
        ZeroDivisionError: or there are no sound runs or no mistakes,
        ValueError: or no check is ever broken.
    """
    usual_found, usual_broken = (
        sum(max(n / of for n, of in _count(rates[size], own)) for own in rates[counts].values()) / len(rates[counts])
        for size, counts in (("mistakes", "found"), ("steps", "broken_steps"))
    )

    def drawn(sizes: Mapping[str, int], own: Mapping[str, int], usual: float) -> float:
        return max((n + _PRIOR_BROKEN) / (of + _PRIOR_BROKEN / usual) for n, of in _count(sizes, own))

    weights = {
        name: math.log(
            drawn(rates["mistakes"], rates["found"][name], usual_found) / drawn(rates["steps"], own, usual_broken)
        )
        for name, own in rates["broken_steps"].items()
    }
    return weights | {_NEW: math.log(usual_found / usual_broken)}


def _count(sizes: Mapping[str, int], own: Mapping[str, int]) -> list[tuple[int, int]]:
    """Return how often a check is broken, and by how many, among real runs and among played ones."""
    n_played, of_played = own.get(PLAYED, 0), sizes.get(PLAYED, 0)
    real, played = (sum(own.values()) - n_played, sum(sizes.values()) - of_played), (n_played, of_played)
    return [real, played] if of_played else [real]


def weight_of(check: Check) -> float:
    """Return how much it says that a step breaks *check*, in nats: the logarithm of how much more often mistakes do.

    A check that was never counted, such as a user's, says as much as the bundled ones do on average, and more or less
    by the odds of its trust.

    Raises:
        TracerUnavailable: if the counts are missing or damaged.
    """
    weight = _weights().get(check.name) if check in CHECKS else None
    if weight is not None:
        return weight
    trust = min(max(check.trust, _LEAST_ODDS), 1.0 - _LEAST_ODDS)
    return _weights()[_NEW] + math.log(trust / (1.0 - trust))


def raises_alarm(check: Check) -> bool:
    """Check whether a run that breaks *check* alone is called failed."""
    is_bundled = check in CHECKS  # a user's check may have the name of one
    rate = sound_rates().get(check.name) if is_bundled else None
    return check.trust >= _LEAST_TRUST if rate is None else rate <= MOST_SOUND_RUNS


def find_alarms(trace: MessageActionTrace, results: Iterable[CheckResult]) -> list[CheckResult]:
    """Return the broken checks that raise the alarm, those that the run puts right later left out.

    Checks whose breaking is a symptom are left out where another one is broken.
    """
    alarms = [
        result
        for result in results
        if result.outcome == "fail"
        and not result.is_repaired
        and result.step is not None
        and trace.can_be_blamed(trace.steps[result.step])
        and raises_alarm(result.check)
    ]
    return [result for result in alarms if not result.check.is_symptom] or alarms


def failure_score_of(alarms: Iterable[CheckResult]) -> float:
    """Return how likely a run failed by broken checks, on a scale on which the alarm lies at a half; 0 for none."""
    trust = max((result.check.trust for result in alarms), default=None)
    return 0.0 if trust is None else NOBODY_KNOWS + (1.0 - NOBODY_KNOWS) * trust
