"""`blamespan show` draws one run: who did what, who builds on whom, who is to blame; on any terminal, and plain."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
from click.testing import CliRunner, Result
from rich.cells import cell_len
from rich.console import Console

from blamespan import conventions as words
from blamespan.analysis.showing import claims as showing_claims
from blamespan.analysis.showing.command import show
from blamespan.analysis.showing.drawing import Picture
from blamespan.analysis.showing.findings import BrokenRule, RuleFindings, rules_of
from blamespan.analysis.showing.run_view import view_of
from blamespan.analysis.showing.shown_run import ShownRun, chosen
from blamespan.analysis.showing.tables import RunTable, print_run
from blamespan.analysis.showing.verdicts import without_idle_suspects
from blamespan.attribution import NO_SIGN, Attribution, Contradicted, Evidence, TracerIdentity
from blamespan.cli import cli
from blamespan.errors import ConfigError, UnreadableInput
from blamespan.evaluations import evaluations_of
from blamespan.plugins import plugins
from blamespan.rebuilding.emit import emit
from blamespan.trace import Agent, Outcome
from tests.sdk.broken_packages import NOT_CHECKED, break_checks
from tests.sdk.builders import otlp_lines, small_run
from tests.sdk.fixed_tracer import LongestStepTracer
from tests.sdk.talks import talk

PAIR = ("planner", "solver")
HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202eevil\u2066 [red]markup[/red] :smile: \x9b31m\r\nnext\x00"


@pytest.fixture(autouse=True)
def fixed_tracer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a tracer speak that can be followed by eye, no rules be installed, and the terminal say nothing."""
    monkeypatch.setattr("blamespan.analysis.showing.command.load_tracer", lambda name: LongestStepTracer())
    monkeypatch.setattr("blamespan.analysis.showing.command.rules_of", lambda trace, may_take_long: RuleFindings())
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


def run(*arguments: object, **environment: str) -> Result:
    return CliRunner().invoke(show, [str(one) for one in arguments], env=environment)


def drawn(
    shown: ShownRun,
    *,
    width: int = 80,
    rules: list[BrokenRule] | None = None,
    every: bool = False,
    verdict: Attribution | None = None,
    encoding: str = "utf-8",
) -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict")
    console = Console(file=file, width=width, highlight=False, color_system=None)
    verdict = verdict or LongestStepTracer().attribute([shown.trace])[0]
    Picture(console, shown, view_of(shown.trace, verdict, rules)).print_run(every=every)
    file.flush()
    file.buffer.seek(0)
    return file.buffer.read().decode(encoding)


def test_run_is_drawn_whole() -> None:
    """Head, lanes, shares as bars, links, evidence between signs, broken rules, error mode, suspects and step set."""
    rules = [
        BrokenRule("sum-holds", "Sums hold", "fail", 1, "12 * 3 = 35", "comes to 36"),
        BrokenRule("answer-given", "An answer is given", "inconclusive", None, "", "states nothing"),
    ]
    picture = drawn(
        ShownRun(
            "runs.jsonl:1",
            talk(1, ["Find it.", "12 * 3 = 35, as anybody can see.", "Good."], agents=PAIR),
            None,
            ("partial",),
        ),
        rules=rules,
    )

    assert picture == dedent("""\
        runs.jsonl:1   failed   2026-09-21 14:14:20   3 steps   2 agents   3.0 s
        3,600 → 90 tokens   failure 0.50
        task: What is 12 * 3?
        most to blame: solver at step 1, 0.71 of the blame, for Deviate from main goal
        (aegis:FM-2.3), likelihood 0.25
        next suspects: step 0 planner 0.18, step 2 planner 0.11
        step set: 0, 1 hold 0.89 of the blame
        by longest 1
        partial
        leaves open answer-given: states nothing
        ● planner 0.29   ● solver 0.71

            0 ●    planner  ██░░░░░░ 0.18  1.0 s  1,200 → 30 tokens
              │    Find it.
           >1 │ ◆  solver  ████████ 0.71  ← 0  1.0 s  1,200 → 30 tokens
              │    Deviate from main goal (aegis:FM-2.3)
              │    “12 * 3 = 35, as anybody can see.”
              │    breaks sum-holds: comes to 36
            2 ●    planner  █░░░░░░░ 0.11  ← 1  1.0 s  1,200 → 30 tokens
                   Good.
        """)


@pytest.mark.parametrize("options", [[], ["--step", "1"], ["--claims"]])
def test_checks_that_cannot_be_run_are_said_once(
    options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The run is drawn all the same; neither the log nor known failures, which need checks, say it again."""
    monkeypatch.setattr("blamespan.analysis.showing.command.rules_of", rules_of)
    break_checks(monkeypatch)
    (tmp_path / "a.jsonl").write_text(otlp_lines(talk(1, ["a", "bbb"])))
    done = run(tmp_path / "a.jsonl", *options)

    assert done.exit_code == 0
    assert (done.output.count(NOT_CHECKED), caplog.messages) == (1, [])


def test_terminal_without_unicode_gets_ascii() -> None:
    """Where the encoding lacks our signs, ASCII stands for them."""
    picture = drawn(ShownRun("x", small_run()), encoding="ascii")

    assert "   >1   #    solver  tool_call add  ======== 0.50  <- 0" in picture
    assert '"add({' in picture


@pytest.mark.parametrize("width", [40, 57, 80, 160])
@pytest.mark.parametrize("agents", [("planner", "solver"), tuple(f"agent {n} 漢字" for n in range(30))])
def test_every_line_fits_the_terminal(width: int, agents: tuple[str, ...]) -> None:
    """Wide characters, emoji, long words and many agents: no line is wider than the terminal, from 40 columns on."""
    said = ["漢字とかな交じり文です。" * 40, "x" * 900, "a👍🏽b 👨‍👩‍👧 é ñ\u0301 " * 60, "word " * 300, ""]
    picture = drawn(ShownRun("y" * 70, talk(1, said * 3, agents=agents, task="漢字" * 200)), width=width, every=True)

    assert max(cell_len(line) for line in picture.splitlines()) <= width
    if len(agents) == 2:
        assert {line[6:7] for line in picture.splitlines()[-20:]} <= {"●", "◆", "│", " "}


def test_long_runs_show_what_matters() -> None:
    """Of 500 steps the suspects are drawn, what the decisive one builds on, first and last; the rest is counted."""
    said = [f"Step {n}." for n in range(500)]
    said[300] = "wrong " * 2_000
    shown = ShownRun("x", talk(1, said))
    short, whole = drawn(shown), drawn(shown, every=True)

    drawn_steps = [int(found) for found in re.findall(r"^ *>?(\d+) [●◆│ ]", short, re.MULTILINE)]
    assert drawn_steps == [0, 299, 300, 499]
    assert "⋮ 298 steps" in short
    assert "496 more steps, each below 0.05 of the blame: --all shows them" in short
    assert all(f" {n} " in whole for n in range(500))
    assert "--all" not in whole


def test_abstention_is_said() -> None:
    """Without a verdict the reason stands there, and nobody is marked."""
    trace = talk(1, ["", ""])
    picture = drawn(ShownRun("x", trace))

    assert "no verdict: nobody said anything" in picture
    assert "◆" not in picture
    assert "failure" not in picture


@pytest.mark.parametrize(("index", "source"), [(None, "the task"), (0, "step 0 planner")])
def test_what_a_step_contradicts_stands_below_it(index: int | None, source: str) -> None:
    """The words that a step contradicts are shown with where they stand, as one line of plain text."""
    run = talk(1, ["a", "bbb"])
    [verdict] = LongestStepTracer().attribute([run])
    evidence = Evidence(1, "bbb", 1.0, Contradicted(index, f"Paid 12 {HOSTILE}"))

    picture = drawn(ShownRun("x", run), verdict=replace(verdict, evidence=(evidence,)))

    assert f"contradicts {source}: Paid 12" in picture
    assert "\x1b" not in picture


def test_nobody_is_named_without_a_sign_of_failure() -> None:
    """Without suspects a run is drawn in one way, whatever its verdict holds for the case that it failed."""
    run = replace(talk(1, ["a", "bbb"]), outcome="unknown")
    [verdict] = LongestStepTracer().attribute([run])
    picture = drawn(ShownRun("x", run), verdict=without_idle_suspects(replace(verdict, failure_score=0.2)))

    assert f"failure 0.20\ntask: What is 12 * 3?\n{NO_SIGN}: --suspects" in picture
    assert "most to blame" not in picture
    assert "◆" not in picture


_TRACER = TracerIdentity("fixed", "1")


@pytest.mark.parametrize(
    ("part", "line"),
    [
        (1.0, "most to blame: checker at step 4"),
        (0.0, "suspects (no evidence in the run: by where mistakes usually are): checker at step 4"),
    ],
)
def test_suspects_without_evidence_are_called_suspects(part: float, line: str) -> None:
    """The picture of a run, the tables of runs and of steps, and evaluations of spans say what the blame rests on."""
    run = replace(small_run(), outcome="failed")
    shares = [0.0, 1.0, 0.0, 2.0, 5.0]
    by_evidence = [part * share for share in shares]
    verdict = Attribution.of(run, shares, failure_score=1, tracer=_TRACER, by_evidence=by_evidence)
    file = io.StringIO()
    console = Console(file=file, width=160, color_system=None)
    print_run(console, "x", run, verdict, every=True)
    table = RunTable(console, None)
    table.add("x", run, verdict)
    table.print()
    failure, blame = evaluations_of(verdict, run_span_id="", ends_ns={}, numbers={})

    assert line in " ".join(drawn(ShownRun("x", run), width=160, verdict=verdict).split())
    assert file.getvalue().count("suspects, no evidence in the run") == (0 if part else 2)
    assert failure.explanation == f"checker is {'blamed' if part else 'suspected'}, for step 4"
    assert blame.explanation.startswith("checker at step 4" if part else "suspected, no evidence in the run: by where")


def test_order_of_suspects_is_said_where_their_shares_do_not_fall() -> None:
    """The highest step of the agent with the most blame stands above one with more; else nothing is said."""
    run = small_run()
    unordered = drawn(ShownRun("x", run), verdict=Attribution.of(run, [0, 3, 0, 3, 4], failure_score=1, tracer=_TRACER))
    ordered = drawn(ShownRun("x", run), verdict=Attribution.of(run, [0, 4, 0, 3, 2], failure_score=1, tracer=_TRACER))

    assert "most to blame: solver at step 1, 0.30" in unordered
    assert "next suspects: step 4 checker 0.40, step 3 solver 0.30\nstep 1 comes first as the highest of" in unordered
    assert "comes first" not in ordered


def test_an_abstention_keeps_its_reason() -> None:
    """A verdict that names nobody anyway is left as it is."""
    verdict = Attribution.abstain(talk(1), "nothing to read", TracerIdentity("x", "1"))

    assert without_idle_suspects(verdict) is verdict


def test_evidence_far_down_is_shown_where_it_stands() -> None:
    """Of a long text the place of the evidence is seen rather than the beginning."""
    trace = talk(1, ["a " * 3_000 + "THE END " + "b " * 3_000, "Good."])
    [verdict] = LongestStepTracer().attribute([trace])
    verdict = replace(verdict, evidence=(replace(verdict.evidence[0], quote="THE END"),))

    assert "“THE END”" in drawn(ShownRun("x", trace), verdict=verdict)


def test_hostile_text_cannot_command_the_terminal(tmp_path: Path) -> None:
    """Whatever names and texts hold, what is printed holds no escape, no direction, no markup of ours."""
    trace = talk(1, [HOSTILE, HOSTILE * 50], agents=(HOSTILE, "b\nc"), task=HOSTILE)
    (tmp_path / "a.jsonl").write_text(otlp_lines(trace))
    rules = [BrokenRule(HOSTILE + "\udc80", HOSTILE, "fail", 0, HOSTILE, HOSTILE)]
    shown = ShownRun(HOSTILE, trace, None, (HOSTILE,))

    path = tmp_path / "a.jsonl"

    for picture in (drawn(shown, rules=rules), run(path).stdout, run(path, "--step", 1).stdout):
        assert not set(picture) & set("\x1b\x07\x9b\x00\r\u202e\u2066")
        assert "[red]markup[/red] :smile:" in " ".join(picture.split())


def test_step_is_shown_with_all_of_its_text(tmp_path: Path) -> None:
    """`--step` leaves nothing out: the lines as they stand, what it builds on, who builds on it, its span."""
    text = "first line\n\n    second = 2\n" + "long " * 500
    (tmp_path / "a.jsonl").write_text(otlp_lines(talk(1, ["Find it.", text, "Good."], agents=PAIR)))

    said = run(tmp_path / "a.jsonl", "--step", "1", COLUMNS="60").stdout

    assert said.startswith("step 1   solver   ████████ 0.99   ← 0   1.0 s\n1,200 → 30 tokens\n")
    assert "builds on: 0 planner\nbuilt on by: 2 planner\n" in said
    content = said.partition(f"span: {100_002:016x}\n\n")[2].replace("“", "").replace("”", "")
    assert content.startswith("first line\n\n    second = 2\nlong long")
    assert content.split().count("long") == 500


def test_step_is_shown_with_what_it_was_given(tmp_path: Path) -> None:
    """What a step was given stands below what it says, cleaned; a step that was given nothing new has no such part."""
    run_of_two = talk(1, ["Find it.", "It is 36."], agents=PAIR)
    given = replace(run_of_two.steps[1], input_text="The list: 12 and 3.\x1b[31m\n\nBe brief.")
    (tmp_path / "a.jsonl").write_text(otlp_lines(replace(run_of_two, steps=(run_of_two.steps[0], given))))

    said = run(tmp_path / "a.jsonl", "--step", "1").stdout

    assert (
        said.replace("“", "")
        .replace("”", "")
        .endswith(
            "It is 36.\n\nwhat it was given, beside what steps before it said:\n"
            "The list: 12 and 3.\ufffd[31m\n\nBe brief.\n"
        )
    )
    assert "what it was given" not in run(tmp_path / "a.jsonl", "--step", "0").stdout


def test_step_that_is_not_there_is_misuse(tmp_path: Path) -> None:
    """The numbers that there are get named."""
    (tmp_path / "a.jsonl").write_text(otlp_lines(talk(1, ["a", "b"])))

    with pytest.raises(ConfigError, match="expected a step from 0 to 1, got --step 2"):
        CliRunner().invoke(show, [str(tmp_path / "a.jsonl"), "--step", "2"], catch_exceptions=False)


def test_piped_is_plain_and_colour_can_be_forced(tmp_path: Path) -> None:
    """Piped there are no escape codes; FORCE_COLOR brings them; NO_COLOR wins, and leaves nothing bold either."""
    (tmp_path / "a.jsonl").write_text(otlp_lines(talk(1, ["a", "bbb"])))
    path = tmp_path / "a.jsonl"

    assert "\x1b" not in run(path).stdout
    assert "\x1b[1;31m" in run(path, FORCE_COLOR="1", TERM="xterm-256color").stdout
    assert "\x1b" not in run(path, FORCE_COLOR="1", NO_COLOR="1", TERM="xterm-256color").stdout


def test_dumb_terminal_keeps_its_width(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal without escape codes is drawn as wide as it is, not as 80 columns."""
    (tmp_path / "a.jsonl").write_text(otlp_lines(talk(1, ["many words " * 30, "bbb"], task="word " * 40)))
    monkeypatch.setenv("COLUMNS", "40")
    printed = run(tmp_path / "a.jsonl", FORCE_COLOR="1", TERM="dumb").stdout

    assert max(len(text) for text in printed.splitlines()) <= 40
    assert "\x1b" not in printed


def test_run_is_chosen_by_number_or_id(tmp_path: Path) -> None:
    """Several runs: none chosen, they are listed; a number or the beginning of an id chooses one."""
    (tmp_path / "a.jsonl").write_text(
        otlp_lines(*(talk(n << 96, ["x", f"run {n}"], task=f"task {n}") for n in (10, 11)))
    )
    path = tmp_path / "a.jsonl"
    none, second, by_id, wrong = (run(path, *more) for more in ((), ("--run", 2), ("--run", "0000000A"), ("--run", 3)))

    assert none.stdout.splitlines() == [
        f"    1  {10 << 96:032x}     2 steps  failed     task 10",
        f"    2  {11 << 96:032x}     2 steps  failed     task 11",
    ]
    assert str(none.exception) == "expected one run, got 2. Choose one with --run NUMBER"
    assert "task: task 11" in second.stdout
    assert "task: task 10" in by_id.stdout
    assert str(wrong.exception) == "expected a number from 1 to 2, or a trace id, got --run '3'"
    assert wrong.stdout == none.stdout


def test_no_more_runs_are_read_than_needed() -> None:
    """A run of a large file is shown as soon as it is read; a list of runs has an end."""
    read: list[int] = []

    def endless() -> object:
        number = 0
        while True:
            number += 1
            read.append(number)
            yield ShownRun("x", talk(number, ["a"]))

    assert chosen(endless(), "3").trace.trace_id == f"{3:032x}"  # type: ignore[arg-type]
    assert read == [1, 2, 3]
    with pytest.raises(Exception, match="expected one run, got more than 50"):
        chosen(endless(), None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (
            "nothing.jsonl",
            "expected a file, or a stored run by its id, the beginning of its task, or `last`, got 'noth",
        ),
        ("\x1b]0;x", r"got '\x1b]0;x': no such file, and no"),
        ("no*thing.jsonl", "got 'no*thing.jsonl': no such file, and no"),
    ],
)
def test_what_is_not_there_is_said(said: str, error: str) -> None:
    """Neither a file nor an id: both are named."""
    result = run(said)

    assert isinstance(result.exception, UnreadableInput)
    assert error in str(result.exception)


def test_file_without_a_run_is_a_failure(tmp_path: Path) -> None:
    """What cannot be read is named, as `blamespan analyze` does."""
    (tmp_path / "a.json").write_text('{"hello": 1}')
    result = run(tmp_path / "a.json")

    assert "got something that begins with" in result.stderr
    assert str(result.exception) == "expected a recorded run, got none. Check the path"


def test_half_a_run_says_so(tmp_path: Path) -> None:
    """Where the run's own span has not come, what came is drawn, and that it is not all."""
    spans = emit(talk(1, ["Find it.", "12 * 3 = 35"]))[1:]
    (tmp_path / "a.json").write_text(otlp_lines(spans))
    said = " ".join(run(tmp_path / "a.json").stdout.split())

    assert "no span of the run itself: perhaps not all of it has come" in said
    assert "12 * 3 = 35" in said


def test_standard_input_is_read(tmp_path: Path) -> None:
    """`-` is a file too, as for `blamespan analyze`."""
    result = CliRunner().invoke(show, ["-"], input=otlp_lines(talk(1, ["a", "bbb"])))

    assert "task: What is 12 * 3?" in result.stdout, json.dumps(result.stderr)


def test_command_is_offered() -> None:
    """The program knows it, and its help has examples."""
    assert "show" in plugins("blamespan.commands")
    assert "blamespan show traces.jsonl --run 2 --step 5" in CliRunner().invoke(cli, ["show", "--help"]).output


def test_decisions_of_a_guard_stand_at_their_step() -> None:
    """A step on which a guard decided says what it did and why; others say nothing of it."""
    trace = talk(1, ("first", "second"))
    about = {words.GUARD_ACTION: "block", words.GUARD_RULE: "agents.a", words.GUARD_REASON: "it is forbidden"}
    steps = (trace.steps[0], replace(trace.steps[1], attributes=about))
    run = ShownRun("here", replace(trace, steps=steps), None)
    [verdict] = LongestStepTracer().attribute([run.trace])
    out = io.StringIO()
    picture = Picture(Console(file=out, width=100), run, view_of(run.trace, verdict))
    picture.print_run(every=True)
    picture.print_step(1)

    assert out.getvalue().count("guard: block, it is forbidden (agents.a)") == 2


ANSWERED = ["The hotel has 36 rooms.", "12 * 3 = 36, and a night costs 84.50 euros.", "36 rooms, 84.50 euros a night."]


def test_claims_of_the_answer_are_followed_back(tmp_path: Path) -> None:
    """One look: the claim, through whom it went, and that there is nothing before; with a source in the task, that."""
    pytest.importorskip("blamespan_tracer.ledger")
    lacking = talk(1, ANSWERED, agents=PAIR)
    given = talk(1, ANSWERED, agents=PAIR, task="36 rooms at 84.50 euros?", outcome="succeeded")
    files = [tmp_path / "lacking.jsonl", tmp_path / "given.jsonl"]
    for file, one in zip(files, (lacking, given), strict=True):
        file.write_text(otlp_lines(one))

    without, with_source = (run(file, "--claims").stdout for file in files)

    assert "answer: step 2 planner, 2 claims, 2 without a source" in without
    assert "first said without a source: step 0 planner, The hotel has 36 rooms." in without
    assert "  step 2 planner ← step 0 planner ← nothing: no source" in without
    assert "each with a source" in with_source
    assert "step 2 planner ← step 0 planner ← the task" in with_source


def test_claims_come_as_one_json_document(tmp_path: Path) -> None:
    """`--claims --json` prints chains with the spans that they go through, and nothing else."""
    pytest.importorskip("blamespan_tracer.ledger")
    (tmp_path / "run.jsonl").write_text(otlp_lines(talk(1, ANSWERED, agents=PAIR)))

    document = json.loads(run(tmp_path / "run.jsonl", "--claims", "--json").stdout)

    assert document["answer"] == {"step": 2, "agent": "planner"}
    assert [(one["claim"], one["is_unsupported"]) for one in document["claims"]] == [("84.50", True), ("36", True)]
    assert {one["standing"] for one in document["claims"]} == {"no source"}
    assert [mention["kind"] for mention in document["claims"][0]["mentions"]] == ["agent", "unsupported"]
    assert [mention["step"] for mention in document["suspects"]] == [0, 1]
    assert re.fullmatch("[0-9a-f]{16}", document["suspects"][0]["span_id"])


SOURCE = "Aurora: 38 rooms. A night costs 84.50 euros, train ICE 74 leaves on 2 May 2025 at 10:15."
WRONG = "FINAL ANSWER: ICE 74 leaves on 2 May 2025 for the Aurora with its 36 rooms at 84.50 euros."


def judged_talk(answer: str, *, is_blamed: bool, outcome: Outcome = "failed") -> dict[str, tuple[str, str]]:
    """Return of each value of an answer how it stands and what is had instead, in the order in which they are shown."""
    trace = talk(1, ["I look it up.", SOURCE, answer], agents=("a", "desk", "b"), task="Is it ICE 74?", outcome=outcome)
    trace = replace(trace, agents=(Agent("a"), Agent("desk", "user"), Agent("b")))
    evidence = [Evidence(2, answer, 0.9, Contradicted(1, "Aurora: 38 rooms."))] if "36" in answer else []
    verdict = Attribution.of(
        trace,
        [0.1, 0, 0.9] if is_blamed else [0.9, 0, 0.1],
        failure_score=0.9,
        tracer=TracerIdentity("fixed", "1"),
        evidence=evidence if is_blamed else (),
    )
    answer_shown = showing_claims.answer_of(trace, verdict)
    assert answer_shown is not None
    return {claim.mentions[0].value: (claim.standing, claim.mentions[0].contradicted) for claim in answer_shown.claims}


def test_values_that_the_answer_is_about_come_first() -> None:
    """What a source contradicts, then amounts and dates; then names; last what the task said itself."""
    pytest.importorskip("blamespan_tracer.ledger")

    shown = judged_talk(WRONG, is_blamed=True)

    first, *amounts, last = shown
    assert (first, set(amounts), last) == ("36", {"2 May 2025", "84.50"}, "74")


def test_claim_of_a_suspected_step_is_not_called_sourced() -> None:
    """In a suspected step no claim has simply a source: of one that is contradicted the source stands beside it."""
    pytest.importorskip("blamespan_tracer.ledger")
    right = WRONG.replace("36", "38")

    blamed, other = judged_talk(WRONG, is_blamed=True), judged_talk(right, is_blamed=False)
    sound = judged_talk(right, is_blamed=True, outcome="succeeded")

    assert blamed["36"][0] == "contradicted"
    assert "38 rooms" in blamed["36"][1]
    assert {standing for standing, _ in blamed.values()} == {"contradicted", "suspected"}
    assert (
        {standing for standing, _ in other.values()} == {standing for standing, _ in sound.values()} == {"has a source"}
    )


def test_claim_of_a_step_that_breaks_a_rule_is_not_called_sourced() -> None:
    """A rule that a step breaks is enough, whatever the verdict says; one that is left open is not."""
    pytest.importorskip("blamespan_tracer.ledger")
    trace = talk(1, ["36 rooms.", "So 36 rooms."], agents=PAIR, task="36 rooms?", outcome="unknown")
    broken = BrokenRule("sum-holds", "", "fail", 0, "", "")

    standings = []
    for rule in (broken, replace(broken, outcome="inconclusive")):
        answer = showing_claims.answer_of(trace, None, [rule])
        assert answer is not None
        standings.append((answer.claims[0].standing, answer.summary))

    assert standings == [("suspected", "1 from suspected steps"), ("has a source", "each with a source")]


def test_json_needs_claims_or_advice(tmp_path: Path) -> None:
    """Without --claims or --advice there is nothing that `show` says as JSON: it names the command that does."""
    (tmp_path / "run.jsonl").write_text(otlp_lines(talk(1)))
    answer = run(tmp_path / "run.jsonl", "--json")

    assert isinstance(answer.exception, ConfigError)
    assert "expected --claims or --advice beside --json" in str(answer.exception)


def test_hostile_claims_do_not_reach_the_terminal(tmp_path: Path) -> None:
    """What a run says about values stays text: no control character passes, at any width."""
    pytest.importorskip("blamespan_tracer.ledger")
    said = [f"{HOSTILE} 4236 rooms {HOSTILE}", f"so {HOSTILE} 4236 rooms"]
    (tmp_path / "run.jsonl").write_text(otlp_lines(talk(1, said, agents=(HOSTILE, "b"))))

    for width in ("20", "80"):
        answer = run(tmp_path / "run.jsonl", "--claims", COLUMNS=width)

        assert answer.exit_code == 0
        assert "4236" in answer.stdout
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", answer.stdout)


def test_what_is_hidden_of_a_long_chain_is_counted() -> None:
    """A claim that 500 steps passed on is shown by its ends; of 300 claims forty are shown, and the others counted."""
    pytest.importorskip("blamespan_tracer.ledger")
    passed_on = talk(1, ["We keep 4236 rooms."] * 500, agents=PAIR)
    many = talk(1, [" ".join(f"{index}{index}7" for index in range(1, 301))], agents=PAIR)

    chain = showing_claims.answer_of(passed_on)
    claims = showing_claims.answer_of(many, may_take_long=True)

    assert chain is not None
    assert claims is not None
    assert len(chain.claims[0].mentions) == 8
    assert chain.claims[0].n_hidden > 100
    assert (len(claims.claims), claims.n_hidden) == (40, claims.n_claims - 40)
    assert claims.n_claims > 250
