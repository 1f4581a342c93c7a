"""Which broken checks raise the alarm by themselves: those that hardly any sound run breaks.

How many sound runs break each bundled check is counted by `blamespan evaluate checks`, and stored beside the weights. A
check without a count, such as a rule that a user wrote, is taken at its word: its `trust` decides.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from blamespan.attribution import NOBODY_KNOWS
from blamespan.errors import TracerUnavailable
from blamespan.trace import MessageActionTrace
from blamespan_tracer.checks.bundled import CONTRACTS
from blamespan_tracer.checks.check import Check, CheckResult

__all__ = ["MOST_SOUND_RUNS", "SOUND_RATES", "failure_score_of", "find_alarms", "raises_alarm", "sound_rates"]

SOUND_RATES = Path(__file__).parents[1] / "weights" / "check_rates.json"

MOST_SOUND_RUNS = 0.01
"""Share of sound runs up to which a check that they break raises the alarm by itself."""

PLAYED = "played"
"""Corpus of sound runs that were played for this: unlike recordings of others they say what agents were given."""

_LEAST_TRUST = 0.5
"""Of a check that was never counted on sound runs."""


@cache
def sound_rates() -> Mapping[str, float]:
    """Return the share of sound runs that break each bundled check: of real ones or of played ones, whichever is more.

    Raises:
        TracerUnavailable: if the file is missing or damaged.
    """
    try:
        counted = json.loads(SOUND_RATES.read_text(encoding="utf-8"))
        n_played = counted["runs"].pop(PLAYED)
        n_real = sum(counted["runs"].values())
        return {
            name: max(broken.pop(PLAYED, 0) / n_played, sum(broken.values()) / n_real)
            for name, broken in counted["broken"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError) as error:
        raise TracerUnavailable(
            f"expected how many sound runs break each check in {str(SOUND_RATES)!r}, got {error!r}. Install blamespan "
            "again, or count with `blamespan evaluate checks`"
        ) from error


def raises_alarm(check: Check) -> bool:
    """Check whether a run that breaks *check* alone is called failed."""
    rate = sound_rates().get(check.name) if check in CONTRACTS else None  # a user's check may replace one of its name
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
