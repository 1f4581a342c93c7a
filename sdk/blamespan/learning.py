"""Learning a team's own failures: `blamespan.learn()`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from blamespan.analysis.spending import VARIABLE, prices_in_use
from blamespan.errors import ConfigError
from blamespan.plugins import load_part


@dataclass(frozen=True, slots=True)
class Learnt:
    """What a team's runs taught the tracer.

    Attributes:
        lines: The same in a few lines, for people.
        figures: The same for programs: what was made, how often the decisive step is named before and after, what is
            well known, what it cost.
        folder: Where runs, labels and what was learnt are kept.
        is_used: Whether anything learnt is measurably better than the tracer by itself, and was put into use.
    """

    lines: tuple[str, ...]
    figures: Mapping[str, Any]
    folder: Path
    is_used: bool


@dataclass(frozen=True, slots=True)
class LearnSettings:
    """How a team is learnt.

    Attributes:
        runs: Recorded runs to learn from, too: files or folders of traces.
        labels: What is known of these; `labels.jsonl` beside them by default.
        out: Folder of the campaign; `runs/learn/PROGRAM` by default.
        budget: Most runs with a fault.
        tokens: Most tokens of models in all runs.
        max_cost: Most US dollars for them, by the table of prices that `BLAMESPAN_PRICES` names.
        minutes: Most minutes that runs may take.
        timeout_s: Seconds after which one run is stopped.
        writer: `operators`, or `model` for an LLM at `BLAMESPAN_MANIPULATOR_URL`.
        processes: Runs at once; all cores by default.
        model: Folder or Hugging Face id of a causal language model that is taught the same failures; None for none.
        use: Whether what is better is put beside this user's store, where every tracer finds it.

    Raises:
        ConfigError: if there is a bound on money, and no table of prices.
    """

    runs: Sequence[str | Path] = ()
    labels: str | Path | None = None
    out: str | Path | None = None
    budget: int = 300
    tokens: int | None = None
    max_cost: float | None = None
    minutes: float | None = None
    timeout_s: float = 120.0
    writer: str = "operators"
    processes: int | None = None
    model: str | None = None
    use: bool = True

    def __post_init__(self) -> None:
        if self.max_cost is not None and prices_in_use() is None:
            raise ConfigError(
                f"a bound of {self.max_cost:g} US dollars needs a table of prices, got none. Name one by {VARIABLE}, "
                "or give a bound on --tokens"
            )


Progress = Callable[[str, int, int], None]


def learn(
    program: str | Callable[[], Any] | None = None,
    tasks: Sequence[str] = (),
    check: str | Callable[[str, str], Any] | None = None,
    *,
    on_progress: Progress = lambda title, done, total: None,
    **settings: Any,
) -> Learnt:
    """Run a team clean and with faults put into it, and teach the tracer the failures of this very team.

    Each task is run without a fault, then again and again with one, as the budget lasts. Of each failure, the earliest
    step whose repair makes the run succeed is found by running it again from there. A killed call goes on where it was
    when it is made again. What was learnt is used only where it is measurably better on tasks that it has not seen.

    Args:
        program: `module:factory`, or the factory, which other processes import by its name. It takes no argument and
            gives an AutoGen team or agent, a compiled LangGraph graph, an Agent Framework workflow or agent, or a
            function of the task. Where its attribute `sandbox` is true its tools run whenever they are called; else
            faulty runs are answered from recordings.
        tasks: What the program is asked.
        check: `module:function` or the function of (answer, task): whether the answer is right. Without it, the
            factory's attribute `check` is taken, if it has one.
        on_progress: Told what is done, and how many runs of how many.
        settings: Those of `LearnSettings`: `budget=600, minutes=20`.

    Raises:
        ConfigError: if an argument is wrong, or the program cannot be run.
        BlamespanError: if no task succeeds without a fault, no fault makes any run fail, or the disk is full.
        MissingExtra: if no framework that could be recorded is installed, or no packages to learn with.
        TracerUnavailable: if the language model cannot be loaded.
    """
    known = [one.name for one in fields(LearnSettings)]
    if unknown := next((name for name in settings if name not in known), None):
        near = get_close_matches(unknown, known, n=1, cutoff=0.0)[0]
        raise ConfigError(f"learn() has no setting {unknown!r}. Did you mean {near!r}?")
    return cast(Learnt, load_part("learn")(program, tasks, check, LearnSettings(**settings), on_progress))
