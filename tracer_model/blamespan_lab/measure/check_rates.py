"""How often sound runs and labelled mistakes break each bundled check: `blamespan lab evaluate checks`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import TypedDict

from blamespan.importing.recorded import RecordedRun
from blamespan_lab.make.edits.generate import is_sound
from blamespan_lab.measure.programs import mistaken_steps
from blamespan_tracer.checks import CHECKS, apply_checks


class CheckRates(TypedDict):
    """How often each check is broken, by corpus; a corpus that never breaks it is left out.

    Attributes:
        runs: How many sound runs there are.
        broken: How many of them break the check, also where they put that right later.
        steps: How many steps of the sound runs an agent can be blamed for.
        broken_steps: How many of these break the check.
        mistakes: How many steps are labelled as the mistake of a run.
        found: How many of these break the check.
    """

    runs: dict[str, int]
    broken: dict[str, dict[str, int]]
    steps: dict[str, int]
    broken_steps: dict[str, dict[str, int]]
    mistakes: dict[str, int]
    found: dict[str, dict[str, int]]


def count_broken(corpora: Mapping[str, Iterable[RecordedRun]]) -> CheckRates:
    """Count on sound runs and on labelled ones, by the name of their corpus; other runs are passed over."""
    runs, steps, mistakes = Counter[str](), Counter[str](), Counter[str]()
    broken, broken_steps, found = (_Counts(Counter) for _ in range(3))
    for corpus, recorded in corpora.items():
        for run in recorded:
            trace, labelled = run.trace, mistaken_steps(run)
            if not trace.steps or not (labelled or is_sound(run)):
                continue
            results = [one for one in apply_checks(CHECKS, trace) if one.outcome == "fail"]
            if labelled:
                mistakes[corpus] += 1
                for name in {one.check.name for one in results if one.step in labelled}:
                    found[name][corpus] += 1
                continue
            runs[corpus] += 1
            steps[corpus] += sum(map(trace.can_be_blamed, trace.steps))
            for name, times in Counter(name for name, _ in {(one.check.name, one.step) for one in results}).items():
                broken[name][corpus] += 1
                broken_steps[name][corpus] += times
    return {
        "runs": dict(runs),
        "broken": _list_all(broken),
        "steps": dict(steps),
        "broken_steps": _list_all(broken_steps),
        "mistakes": dict(mistakes),
        "found": _list_all(found),
    }


_Counts = defaultdict[str, Counter[str]]


def _list_all(counts: _Counts) -> dict[str, dict[str, int]]:
    return {check.name: dict(counts[check.name]) for check in CHECKS}
