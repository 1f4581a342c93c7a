"""The commands `blamespan fix` and `blamespan case`; everything heavy is imported when they run."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import click

from blamespan.attribution import FAILURE_WORDS
from blamespan.errors import ConfigError
from blamespan.tracers import DEFAULT_TRACER

if TYPE_CHECKING:
    from blamespan.attribution import Attribution
    from blamespan.testing import Finding
    from blamespan_lab.rerun.fix.case_file import FailureCase
    from blamespan_lab.rerun.fix.proving import ProgramChange, TriedFix
    from blamespan_lab.rerun.recorded_run import ReplayableRun

_MOST_COLUMNS = 100
_CASE_RUNS = 2
"""Times that a test is run here, to see whether it fails each time."""
_SOURCES = {"user": "yours", "judge": "the endpoint's", "feedback": "its own model, told what is wrong"}
_STEP = re.compile(r"\s*\d+\s*=")


def _common(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that both have."""
    for option in (
        click.option("--tracer", "tracer_name", metavar="NAME", help="Who blames; else the verdict in TRACE, or auto."),
        click.option("--run", "which", metavar="ID|N", help="Which of several runs: its number, or its trace id."),
        click.option("--task", help="What the program is asked; the recorded task if not given."),
        click.option("--timeout", "timeout_s", type=click.FloatRange(min=0, min_open=True), default=120.0,
                     show_default=True, metavar="S", help="For one run, in seconds."),
        click.option("--check", metavar="MODULE:FUNCTION", help="Tells of (answer, task) whether it is right."),
        click.argument("program", metavar="MODULE:FACTORY"),
        click.argument("trace", metavar="TRACE"),
    ):  # fmt: skip
        command = option(command)
    return command


@click.command(
    epilog="""\b
The step says what --correction says; else what the LLM at BLAMESPAN_JUDGE_URL writes, where that is set; else its
agent's own model is asked again, told what is wrong. Everything before the step is answered from the recording; after
it the program runs with its own models. Tools answer as recorded; other calls run only where the factory says
`sandbox = True`, or with --run-tools. Without a check, solved means that the finding is gone.

\b
Examples:
  blamespan fix traces.jsonl my_team.app:make --check my_team.app:is_right
  blamespan fix last my_team.app:make --correction "The total is 48." --case tests/test_total.py
"""
)
@_common
@click.option("--correction", "given", metavar="TEXT", help="What the blamed step says instead; STEP=TEXT for another.")
@click.option(
    "--suspects", type=click.IntRange(1), default=3, show_default=True, metavar="N", help="Most that are tried."
)
@click.option(
    "--repeats", type=click.IntRange(1, 100), default=5, show_default=True, metavar="N", help="Runs with, and without."
)
@click.option("--budget", type=click.IntRange(1), default=200, show_default=True, metavar="N", help="Of model calls.")
@click.option("--run-tools", is_flag=True, help="Let tools run from the step on, with their effects.")
@click.option(
    "--case", "out", type=click.Path(path_type=Path), metavar="FILE", help="Write the test of `blamespan case`, too."
)
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON object.")
def fix(
    trace: str,
    program: str,
    given: str | None,
    suspects: int,
    repeats: int,
    budget: int,
    run_tools: bool,
    out: Path | None,
    wants_json: bool,
    **options: Any,
) -> None:
    """Prove what mends a failed run, and say what to change.

    TRACE is as for `blamespan analyze`: a file, or a run in this machine's store.
    MODULE:FACTORY takes no argument and gives an AutoGen team or agent, a compiled LangGraph graph, or a function of
    the task. The exit code is 1 where nothing that was tried solves the run.
    """
    from blamespan_lab.rerun.causes.command import require_failure
    from blamespan_lab.rerun.causes.corrections import AskAgain, correction_sources
    from blamespan_lab.rerun.causes.verify import CallBudget, list_suspects
    from blamespan_lab.rerun.fix.findings import FindingCheck
    from blamespan_lab.rerun.fix.proving import change_at, describe_success, try_fixes
    from blamespan_lab.rerun.trials import ProgramTrials

    failure = _Failure.read(trace, program, options)
    script = failure.run.script
    texts = failure.corrections(given)
    chosen = list_suspects(script, failure.verdict, suspects, texts)
    if texts:
        chosen = [suspect for suspect in chosen if suspect.step in texts]
    first = chosen[0].step if chosen else failure.blamed
    sources = correction_sources(texts, script.trace, failure.verdict)
    if not isinstance(sources[-1], AskAgain):
        sources.append(AskAgain(script.trace, failure.verdict))
    finding = failure.finding(first)
    sought = FindingCheck(finding, failure.tracer) if finding is not None else None
    spending = CallBudget(budget)
    with ProgramTrials(
        program, failure.check, script, failure.task, failure.timeout_s, finding=sought, runs_tools=run_tools
    ) as trials:
        original = trials.original().ran
        if original.succeeded is None and sought is not None:
            failure.require_sign()
        else:
            require_failure(original)
        meaning = describe_success(failure.check, is_checked=original.succeeded is not None, tracer=failure.tracer)
        tried = try_fixes(chosen, script, sources, trials, repeats=repeats, budget=spending)
    best = tried[-1] if tried[-1].is_proved else tried[0]
    change = change_at(script, failure.verdict, best.result.suspect.step)
    if out is not None:
        failure.write_case(best.result.suspect.step, out, is_repeatable=best.is_repeatable)
    if wants_json:
        click.echo(json.dumps(_as_json(failure, tried, best, change, meaning, budget - spending.left)))
    else:
        _print(failure, tried, best, change, meaning, out)
    if not best.is_proved:
        sys.exit(1)


@click.command(
    epilog="""\b
Models answer as recorded up to the blamed step, tools wherever they are called as they were then. From the step on the
program runs with its own models. Another call of a tool runs only where the factory says `sandbox = True`; else the
test says so. The test is run here to see that it fails.

\b
Examples:
  blamespan case traces.jsonl my_team.app:make > tests/test_case_1234.py
  blamespan case last my_team.app:make --check my_team.app:is_right --out tests/test_case_1234.py
"""
)
@_common
@click.option(
    "--step", type=click.IntRange(0), metavar="N", help="The step that went wrong; by default the blamed one."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write there; many texts go into a JSON file beside it.",
)
def case(trace: str, program: str, step: int | None, out: Path | None, **options: Any) -> None:
    """Write a failed run down as a pytest file, which passes once the program is mended.

    TRACE is as for `blamespan analyze`: a file, or a run in this machine's store.
    MODULE:FACTORY takes no argument and gives an AutoGen team or agent, a compiled LangGraph graph, or a function of
    the task.
    """
    from blamespan_lab.rerun.recorded_run import check_step

    failure = _Failure.read(trace, program, options)
    if step is None:
        if failure.check is None:
            failure.require_sign()
        blamed = failure.blamed
    else:
        check_step(failure.run.script, blamed := step)
    text = failure.write_case(blamed, out, repeats=_CASE_RUNS)
    if out is None:
        click.echo(text, nl=False)


@dataclass(frozen=True, slots=True)
class _Failure:
    """A failed run, who is blamed, and the program that it is of."""

    source: str
    program: str
    check: str | None
    run: ReplayableRun
    verdict: Attribution
    unaided: Attribution
    findings: tuple[Finding, ...]
    task: str
    timeout_s: float
    tracer: str

    @classmethod
    def read(cls, source: str, program: str, options: dict[str, Any]) -> _Failure:
        """Read the run, and ask who would be to blame for its failure, and what is found without knowing of one."""
        from blamespan.tracers import load_tracer
        from blamespan_lab.rerun.fix.findings import judge_unaided
        from blamespan_lab.rerun.recorded_run import read_replayable, verdict_on

        run = read_replayable(source, options["which"])
        trace = run.recorded.trace
        tracer = options["tracer_name"] or DEFAULT_TRACER
        unaided, findings = judge_unaided(trace, load_tracer(tracer))
        failed = replace(run, recorded=replace(run.recorded, trace=replace(trace, outcome="failed")))
        verdict = verdict_on(failed, options["tracer_name"])
        task = options["task"] if options["task"] is not None else trace.task
        return cls(
            *(source, program, options["check"], run, verdict, unaided, findings, task, options["timeout_s"], tracer)
        )

    @property
    def blamed(self) -> int:
        """Return the step that is blamed.

        Raises:
            ConfigError: if nobody is.
        """
        if self.verdict.decisive_step is None:
            raise ConfigError(
                f"expected somebody to blame for run {self.verdict.trace_id}, got nobody: "
                f"{self.verdict.abstained or 'no verdict'}. Name another --tracer"
            )
        return self.verdict.decisive_step

    def require_sign(self) -> None:
        """Make sure that somebody knows, or the tracer says, that the run failed.

        Raises:
            ConfigError: if not.
        """
        outcome = self.run.recorded.trace.outcome
        if outcome == "failed" or (outcome == "unknown" and self.unaided.word in FAILURE_WORDS):
            return
        reason = (
            "it is known to have succeeded" if outcome == "succeeded" else self.unaided.abstained or "no sign of it"
        )
        raise ConfigError(
            f"expected a run that failed, got run {self.verdict.trace_id}: {reason}. "
            "Name a check that calls its answer wrong with --check MODULE:FUNCTION"
        )

    def corrections(self, given: str | None) -> dict[int, str]:
        """Read the user's correction: of the blamed step, where none is named."""
        from blamespan_lab.rerun.causes.corrections import read_corrections

        if given is None:
            return {}
        return dict(read_corrections([given if _STEP.match(given) else f"{self.blamed}={given}"]).texts)

    def finding(self, step: int) -> Finding | None:
        """Return what is found wrong at a step, or else with its agent."""
        from blamespan_lab.rerun.fix.findings import finding_at

        return finding_at(self.run.script.trace, self.findings, step)

    def write_case(self, step: int, out: Path | None, *, repeats: int = 1, is_repeatable: bool = True) -> str:
        """Write the test of a step, run it, and say on stderr what came of it.

        Raises:
            BlamespanError: if the program cannot be replayed, or the file cannot be written.
        """
        from blamespan_lab.rerun.fix.case_file import FailureCase, write_case

        case = FailureCase(
            *(self.run.script, step, self.finding(step), self.program, self.check, self.task, self.timeout_s),
            self.tracer,
        )
        told, is_checked, is_alike = _try_case(case, repeats)
        if case.finding is None and not is_checked:
            raise ConfigError(
                f"expected a finding or a check to test step {step} by, got neither: no words of it are known to be "
                "wrong. Name a check with --check MODULE:FUNCTION"
            )
        is_alike &= is_repeatable
        text = write_case(case, out, self.command(None), is_checked=is_checked, is_repeatable=is_alike)
        if out is not None:
            click.echo(f"blamespan: wrote {out}", err=True)
        click.echo(f"blamespan: {told}", err=True)
        return text

    def command(self, out: Path | None) -> str:
        """Return the command that writes the test."""
        check = ["--check", self.check] if self.check is not None else []
        name = Path(self.source).name if out is None else self.source
        target = ["--out", str(out)] if out is not None else []
        return shlex.join(["blamespan", "case", name, self.program, *check, *target])


def _try_case(case: FailureCase, repeats: int) -> tuple[str, bool, bool]:
    """Run the test on the program as it is.

    Returns:
        What to say of that, whether there is a check, and whether it came out alike each time.

    Raises:
        BlamespanError: if the program cannot be replayed, for a reason that mending it would not change.
    """
    from blamespan.analysis.showing.legible import printable
    from blamespan.errors import NotReplayed

    failed: list[bool] = []
    answers: set[object] = set()
    is_checked = case.check is not None
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what the program prints is no test
            for _ in range(repeats):
                run = case.run()
                is_checked = run.is_right is not None
                failed.append(case.is_failed_by(run))
                answers.add((run.answer, tuple(step.content for step in run.trace.steps)))
    except NotReplayed as error:
        if "was not recorded" not in str(error) or "not asked for" in str(error):
            raise
        return f"the test cannot tell yet: {printable(str(error))}", is_checked, True
    if not failed:
        return "the test was not run", is_checked, True
    times = f"{sum(failed)} of {len(failed)} times"
    told = f"on the program as it is the test fails {times}, as it should"
    if not any(failed):
        told = "on the program as it is the test passes: it is mended already, or it erred by chance then"
    elif not all(failed):
        told = f"on the program as it is the test fails {times}: its models answer otherwise each time"
    return told, is_checked, len(answers) == 1


def _print(
    failure: _Failure, tried: Sequence[TriedFix], best: TriedFix, change: ProgramChange, meaning: str, out: Path | None
) -> None:
    from blamespan_lab.rerun.feedback.writing import quoted

    result, feedback = best.result, change.feedback
    step = failure.run.script.trace.steps[result.suspect.step]
    _row("blamed", f"{quoted(step.agent, 80)}, step {step.index}, {result.suspect.share:.2f} of the blame")
    if feedback.mode is not None:
        _row("error", f"{feedback.mode.name} ({feedback.mode})")
    _row("it said", quoted(step.content, 200))
    if feedback.source is not None:
        _row("but", str(feedback.source))
    elif (finding := failure.finding(step.index)) is not None:
        _row("found", f"{finding.check}: {finding.reason or finding.quote}")
    for other in tried:
        if other is not best:
            _row(
                "not",
                f"{quoted(other.result.suspect.agent, 80)}, step {other.result.suspect.step}: {other.result.reason}",
            )
    by = _SOURCES.get(result.source, result.source)
    _row("correction", f"{quoted(result.says, 200)} ({by})" if result.says else by or "none")
    _row("solved", _solved(best))
    click.echo()
    _say(meaning)
    _say(
        f"In brackets the 95 % interval. Of each run {best.answered} answers of models came from the recording; after "
        f"them models were asked, {result.asked} times in all. "
        + ("The runs of each kind came out alike." if best.is_repeatable else "Runs of a kind came out differently.")
    )
    click.echo()
    if not best.is_proved:
        _say(f"Nothing is proved: {result.reason}. {_next(result.reason, step.index)}")
    _say(f"What to change{'' if best.is_proved else ', if it was that'}: {change.where}")
    _say(feedback.advice, "  ")
    if best.is_proved and out is None:
        _say("To keep it, once it is mended:")
        click.echo(f"  {failure.command(Path('tests') / f'test_step_{step.index}.py')}")


def _next(reason: str, step: int) -> str:
    """Say what to try where nothing was proved."""
    from blamespan_lab.rerun.trials import NO_MODEL

    if "not recorded and not run" in reason:
        return "Let the factory say `sandbox = True` if its tools may run, or give --run-tools."
    if reason.startswith(NO_MODEL):
        return "Mend the code that says it; `blamespan case` keeps the run as a test."
    if "something else" in reason or "recorded" in reason:
        return "Give the program as it was when the run was recorded; of a mended one `blamespan case` tells more."
    if "did not end within" in reason:
        return "Give a higher --timeout."
    return f'Say what it should have said: --correction "{step}=...".'


def _solved(tried: TriedFix) -> str:
    result = tried.result
    if not result.corrected.total:
        return "not tried"
    shares = [(result.corrected, "with it"), (result.unchanged, "without")]
    told = [
        f"{share.count} of {share.total} {how} ({100 * share.interval[0]:.0f}-{100 * share.interval[1]:.0f} %)"
        for share, how in shares
        if share.total
    ]
    return ", ".join(told)


def _row(name: str, text: str) -> None:
    _say(text, f"{name:<11}", " " * 11)


def _say(text: str, first: str = "", indent: str | None = None) -> None:
    """Print a paragraph; what comes from a run is made fit for a terminal."""
    from blamespan.analysis.showing.legible import printable

    later = first if indent is None else indent
    click.echo(fill(printable(text), _columns(), initial_indent=first, subsequent_indent=later))


def _columns() -> int:
    return max(40, min(_MOST_COLUMNS, shutil.get_terminal_size((_MOST_COLUMNS, 24)).columns))


def _as_json(
    failure: _Failure, tried: Sequence[TriedFix], best: TriedFix, change: ProgramChange, meaning: str, asked: int
) -> dict[str, object]:
    from blamespan_lab.rerun.causes.command import suspect_json

    finding = failure.finding(best.result.suspect.step)
    return {
        "trace_id": failure.verdict.trace_id,
        "proved": best.is_proved,
        **suspect_json(best.result),
        "finding": None if finding is None else asdict(finding),
        "success": meaning,
        "repeatable": best.is_repeatable,
        "change": {"where": change.where, "advice": change.feedback.advice},
        "tried": [suspect_json(other.result) for other in tried],
        "models_asked": asked,
    }
