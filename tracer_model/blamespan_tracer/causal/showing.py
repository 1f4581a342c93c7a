"""How a run is shown to a language model: as it stands, or with the contracts that its steps break."""

from __future__ import annotations

from blamespan.trace import MessageActionTrace
from blamespan_tracer.contracts.judging import judge_in_use
from blamespan_tracer.rendering import RenderedRun, render_run

__all__ = ["show"]


def show(trace: MessageActionTrace, *, names_broken: bool) -> RenderedRun:
    """Render *trace*; with *names_broken* the headings say which of the contracts in use a decision breaks.

    Raises:
        ConfigError: if contracts are asked for and one of those in use is none.
    """
    return render_run(trace, broken=_broken(trace) if names_broken else None)


def _broken(trace: MessageActionTrace) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for verdict in judge_in_use(trace):
        if verdict.outcome == "fail" and verdict.step is not None:
            found.setdefault(verdict.step, []).append(verdict.contract.name)
    return found
