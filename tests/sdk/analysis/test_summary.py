"""`blamespan summary` counts like with like, says how sure it is, and shows hostile text as text."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from markdown_it import MarkdownIt

from blamespan.analysis.results.rows import ROW_DEFAULTS
from blamespan.analysis.summary import Summary, summarize
from blamespan.analysis.summary.change import Periods
from blamespan.analysis.summary.command import summary
from blamespan.analysis.summary.page import page_of
from blamespan.analysis.summary.statistics import Share, compare_shares, difference_interval, holm, wilson
from blamespan.analysis.summary.tally import MOST_NAMES, Names, Timeline
from blamespan.errors import ConfigError, UnreadableInput

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e\ud800"
VERIFY = {"taxonomy": "mast", "code": "FM-3.2", "name": "No or incomplete verification", "score": 0.4}
MISREAD = {"taxonomy": "blamespan", "code": "X3", "name": "Evidence misread", "score": 0.6}


def row(number: int, **changes: Any) -> dict[str, Any]:
    """A result: the solver failed at step 1 for not checking."""
    agent, mode = changes.get("agent", "solver"), {**VERIFY, **(changes.get("mode", VERIFY) or {})}
    return {
        **ROW_DEFAULTS,
        "source": f"traces.jsonl:{number}",
        "trace_id": f"{number:032x}",
        "failure_score": 0.9,
        "agent": agent,
        "step": 1,
        "span_id": f"{number:016x}",
        "mode": VERIFY,
        "steps": [
            {"index": 0, "agent": "planner", "kind": "message", "score": 0.25},
            {"index": 1, "agent": agent, "kind": "message", "score": 0.75},
        ],
        "likeness": f"{agent}, {mode['taxonomy']}:{mode['code']}",
        "content": "Checked, that is right.",
        "tracer": {"name": "lexical", "version": "1", "weights": "ab"},
        "started": "2026-11-01T08:00:00.000000Z",
        **changes,
    }


def silent(number: int, **changes: Any) -> dict[str, Any]:
    nothing = {"agent": None, "step": None, "span_id": None, "mode": None, "failure_score": 0.0}
    return row(number, **{**nothing, "abstained": "too short", "content": None, **changes})


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(summary, [str(one) for one in arguments])


class Tags(HTMLParser):
    """Every tag, attribute and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


def test_shares_are_counted_among_their_like() -> None:
    """Failures are shares of runs with a verdict, abstentions of all, agents and modes of the failures."""
    rows = [row(1), row(2, agent="planner", mode=MISREAD), row(3, failure_score=0.2), silent(4)]

    [found] = summarize(rows).judges
    tally = found.tally
    assert (tally.failed, tally.sound, tally.abstained) == (2, 1, 1)
    assert [(name, one.failed) for name, one in tally.agents.ranked()] == [("planner", 1), ("solver", 1)]
    assert tally.modes.counts["blamespan:X3"].confidence == pytest.approx(0.6)
    assert tally.agents.counts["solver"].confidence == pytest.approx(0.75)


def test_known_outcome_counts_more_than_a_score() -> None:
    """A run that is known to have failed or succeeded is so, however sure the tracer is of the opposite."""
    [found] = summarize([row(1, outcome="failed", failure_score=0.1), row(2, outcome="succeeded")]).judges

    assert (found.tally.failed, found.tally.sound) == (1, 1)


def test_tracers_and_revisions_are_counted_apart() -> None:
    """Verdicts of another tracer, other weights or a later revision are never added up."""
    other = {"name": "network", "version": "1", "weights": "cd"}
    rows = [row(1), row(1, revision=1), row(1, tracer=other), row(2)]

    found = summarize(rows)
    assert [(str(one.judge), one.tally.runs) for one in found.judges] == [
        ("lexical 1 (ab)", 2),
        ("lexical 1 (ab), revision 1", 1),
        ("network 1 (cd)", 1),
    ]


def test_only_like_is_compared_with_like(tmp_path: Path) -> None:
    """Older results of another tracer are named and compared with nobody."""
    old = written(tmp_path / "old.jsonl", [row(1, tracer={"name": "old", "version": "0", "weights": ""})])

    result = run(written(tmp_path / "new.jsonl", [row(2)]), "--against", old)

    assert "old 0 speaks in the older results alone" in result.stdout
    assert "nothing to compare" in result.stdout


def test_alike_failures_are_one_group() -> None:
    """Failures with one likeness in one service belong together; another place, service or known failure is another."""
    checked, called = "solver, message, mast:FM-3.2, check sum-holds", "solver, tool call add, mast:FM-3.2"
    rows = [row(n, likeness=checked, content=f"The sum is {n}.") for n in range(1, 9)]
    rows += [row(n, likeness=called) for n in range(9, 14)]
    rows += [row(n, likeness=checked, service="shop") for n in range(14, 17)]
    rows += [row(17, likeness="schema counts-twice"), row(18, failure_score=0.1, likeness=checked)]

    groups = summarize(rows).judges[0].tally.ranked_alike()
    assert [(group.example.alike, group.runs) for group in groups] == [
        (checked, 8),
        (called, 5),
        (f"shop: {checked}", 3),
        ("schema counts-twice", 1),
    ]
    assert groups[0].example.text == "The sum is 1."


def test_groups_do_not_depend_on_the_order_of_rows() -> None:
    """However results are spread over files, the same failures are alike, and the first one stands for them."""
    rows = [row(n, likeness=f"solver, {'message' if n % 3 else 'plan'}") for n in range(1, 40)]

    def ranked(some: Iterable[dict[str, Any]]) -> list[tuple[str, int, str]]:
        groups = summarize(some).judges[0].tally.ranked_alike()
        return [(group.example.alike, group.runs, group.example.trace_id) for group in groups]

    assert ranked(rows) == ranked(reversed(rows))


def test_names_beyond_the_bound_are_counted_together() -> None:
    """An archive that names its agents anew in every run takes no more memory for it."""
    names = Names()
    for number in range(MOST_NAMES + 7):
        names.add(f"agent {number}")

    assert (len(names.counts), names.others) == (MOST_NAMES, 7)


def test_timeline_widens_with_time() -> None:
    """Any span of time fits into few stretches, and no run is lost on the way."""
    timeline = Timeline()
    for number in range(3_000):
        timeline.add(
            datetime(2000 + number % 90, 1 + number % 12, 1 + number % 28, number % 24, tzinfo=UTC), has_failed=True
        )

    moments = timeline.moments(48)
    assert len(moments) <= 48
    assert sum(one.failed for one in moments) == 3_000


@pytest.mark.parametrize(
    ("count", "total", "low", "high"), [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (81, 263, 0.2553, 0.3662)]
)
def test_wilson_interval_is_the_published_one(count: int, total: int, low: float, high: float) -> None:
    """The interval of 81 in 263 is that of Newcombe's paper (1998, table I)."""
    assert wilson(count, total) == pytest.approx((low, high), abs=5e-5)


def test_difference_interval_is_the_published_one() -> None:
    """56/70 against 48/80 gives 0.0524 to 0.3339 (Newcombe 1998, table II, method 10)."""
    assert difference_interval(Share(48, 80), Share(56, 70)) == pytest.approx((0.0524, 0.3339), abs=5e-5)


def test_fisher_adds_up_every_table_no_likelier() -> None:
    """Tea with milk: 3 of 4 against 1 of 4 is p = 0.4857."""
    test = compare_shares(Share(1, 4), Share(3, 4))

    assert (test.method, test.p) == ("Fisher's exact test", pytest.approx(34 / 70))


def test_large_counts_are_tested_by_the_normal_law_alike() -> None:
    """Where Fisher's sum would be too long the z test takes over, and both agree near the border."""
    exact = compare_shares(Share(2_000, 12_000), Share(2_100, 12_000))
    normal = compare_shares(Share(5_490, 12_000), Share(5_600, 12_000))

    assert (exact.method, normal.method) == ("Fisher's exact test", "two-proportion z test")
    pooled = 4_100 / 24_000
    z = (100 / 12_000) / math.sqrt(pooled * (1 - pooled) * 2 / 12_000)
    assert exact.p == pytest.approx(math.erfc(z / math.sqrt(2)), rel=0.05)


def test_holm_is_ordered_and_never_below_the_raw_chance() -> None:
    """0.01, 0.02, 0.03, 0.005 become 0.03, 0.04, 0.04, 0.02."""
    assert holm([0.01, 0.02, 0.03, 0.005]) == pytest.approx([0.03, 0.04, 0.04, 0.02])


def test_change_is_found_and_noise_is_not() -> None:
    """A mode that doubles is significant; an agent that stays is not."""
    rows = [row(n, mode=MISREAD if n % 5 == 0 else VERIFY) for n in range(1, 501)]
    later = [row(n, mode=MISREAD if n % 5 < 2 else VERIFY, started="2026-12-01T08:00:00Z") for n in range(501, 1001)]

    found = summarize([*rows, *later], periods=Periods(datetime(2026, 11, 15, tzinfo=UTC))).judges[0]
    assert {(one.name, one.is_significant) for one in found.changes if one.part in ("mode", "agent")} == {
        ("blamespan:X3", True),
        ("mast:FM-3.2", True),
        ("solver", False),
    }
    assert found.changes[0].before.value == pytest.approx(0.2)


def versioned(version: str, failed: int, total: int, **changes: Any) -> list[dict[str, Any]]:
    """Runs of a version, of which so many fail alike."""
    started = f"2026-11-{int(version[-1]) + 1:02}T08:00:00Z"
    return [
        row(n, version=version, service="shop", started=started, failure_score=0.9 if n < failed else 0.1, **changes)
        for n in range(total)
    ]


def test_versions_are_compared_side_by_side(tmp_path: Path) -> None:
    """The last two versions by when they were first seen, or the two that are named; the change has its interval."""
    rows = [*versioned("1.4", 44, 400), *versioned("1.2", 0, 400), *versioned("1.3", 12, 400), row(1)]
    path = written(tmp_path / "results.jsonl", rows)

    last, named = run(path, "--compare", "version"), run(path, "--compare", "1.2..1.4", "--json")
    text = run(path, "--compare", "1.3..1.4", "--markdown").stdout

    assert "400 runs shop 1.3 and 400 shop 1.4" in last.stdout
    assert "`shop: solver, mast:FM-3.2: No or incomplete verification`" in text
    assert "| 3.0 % | 11.0 % | +8.0 (+4.5 to +11.7) |" in text
    [tracer] = json.loads(named.stdout)["tracers"]
    assert tracer["compared"] == ["shop 1.2", "shop 1.4"]
    assert {one["part"] for one in tracer["changes"] if one["significant"]} == {"failed", "agent", "mode", "alike"}


def test_versions_that_do_not_differ_show_no_change(tmp_path: Path) -> None:
    """The sound twin: as many failures in both versions are no finding."""
    path = written(tmp_path / "results.jsonl", [*versioned("1.3", 12, 400), *versioned("1.4", 13, 400)])

    assert "No change is significant" in run(path, "--compare", "version", "--markdown").stdout


@pytest.mark.parametrize("compare", ["1.3", "..1.4", "1.4..1.4"])
def test_versions_to_compare_are_two(tmp_path: Path, compare: str) -> None:
    """What names no two versions is refused; runs that do not say theirs are said to be compared with nobody."""
    path = written(tmp_path / "results.jsonl", [row(1)])

    refused = CliRunner().invoke(summary, [str(path), "--compare", compare])
    assert isinstance(refused.exception, ConfigError)
    assert "1.3..1.4" in str(refused.exception)
    assert "nothing is compared" in run(path, "--compare", "version").stderr


def test_json_is_one_document(tmp_path: Path) -> None:
    """Programs get figures with intervals and nothing else on stdout."""
    path = written(tmp_path / "results.jsonl", [row(1), row(2), silent(3)])

    document = json.loads(run(path, "--json").stdout)

    [tracer] = document["tracers"]
    assert tracer["failed"] == {"count": 2, "of": 2, "share": 1.0, "interval": [0.34238, 1.0]}
    assert tracer["agents"][0]["agent"] == "solver"
    assert tracer["alike"][0]["example"]["source"] == "traces.jsonl:1"
    assert tracer["timeline"]["moments"][0]["runs"] == 2


def test_page_needs_nothing_else_and_text_stays_text(tmp_path: Path) -> None:
    """Hostile names and contents become no markup, and the policy lets nothing load or run."""
    rows = [row(n, agent=HOSTILE, content=HOSTILE, source=HOSTILE, mode={**VERIFY, "name": HOSTILE}) for n in (1, 2, 3)]
    old = [row(n, agent=HOSTILE, started="2026-01-01T00:00:00Z") for n in range(4, 12)]
    out = tmp_path / "page.html"

    result = run(written(tmp_path / "results.jsonl", rows + old), "--before", "2026-06-01", "--html", out)

    page = out.read_text()
    tags = Tags(page)
    assert result.exit_code == 0
    assert "script" not in tags.tags
    assert not [value for name, value in tags.attributes if name in ("src", "href", "style") or name.startswith("on")]
    [policy] = [value for _, value in tags.attributes if value and value.startswith("default-src")]
    assert re.fullmatch(r"default-src 'none'; style-src 'sha256-[\w+/=]+'; base-uri 'none'; form-action 'none'", policy)
    assert "\u202e" not in page
    assert "\x1b" not in result.stdout


def test_every_plot_has_a_name_and_a_table() -> None:
    """Who cannot see a plot finds its figures beside it."""
    tags = Tags(page_of(summarize([row(n) for n in range(1, 40)]), title="results"))

    plots = tags.tags.count("svg")
    assert plots >= 3
    assert tags.tags.count("table") >= plots
    assert tags.tags.count("caption") == tags.tags.count("table")
    assert [name for name, value in tags.attributes if name == "role" and value == "img"] == ["role"] * plots


def test_no_colour_when_not_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR is honoured even where colour is forced."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")

    assert "\x1b[3" not in run(written(tmp_path / "results.jsonl", [row(1), silent(2)])).stdout


def test_traces_are_no_results(tmp_path: Path) -> None:
    """Who gives traces instead of results is told the command that makes results."""
    path = tmp_path / "traces.jsonl"
    path.write_text('{"resourceSpans": []}\n')

    result = run(path)

    assert result.exit_code == 1
    assert "expected a result of `blamespan analyze`" in result.stderr
    assert "blamespan analyze TRACES --json > results.jsonl" in result.stderr


def test_empty_results_are_said(tmp_path: Path) -> None:
    """Nothing to sum up is an error that says how to get something."""
    (tmp_path / "results.jsonl").touch()

    result = run(tmp_path / "results.jsonl")

    assert isinstance(result.exception, UnreadableInput)
    assert "blamespan analyze TRACES --json > results.jsonl" in str(result.exception)


@pytest.mark.parametrize(
    "wrong",
    [
        {"failure_score": math.nan},
        {"failure_score": 7},
        {"tracer": {}},
        {"steps": [{"index": 1, "score": "x"}]},
        {"mode": {"code": 3}},
        {"step": -1},
    ],
)
def test_wrong_row_is_named_and_the_rest_is_summed_up(tmp_path: Path, wrong: dict[str, Any]) -> None:
    """A row that is none does not take the others with it; the exit code says that something is missing."""
    result = run(written(tmp_path / "results.jsonl", [row(1), row(2, **wrong), row(3)]), "--json")

    assert json.loads(result.stdout)["runs"] == 2
    assert "row 2: expected a result" in result.stderr
    assert result.exit_code == 1


def test_line_cut_off_by_a_kill_is_named(tmp_path: Path) -> None:
    """Results that were killed midway are summed up as far as they go."""
    path = written(tmp_path / "results.jsonl", [row(1), row(2)])
    path.write_text(path.read_text()[:-40])

    result = run(path, "--json")

    assert json.loads(result.stdout)["runs"] == 1
    assert (result.exit_code, "results.jsonl:2" in result.stderr) == (1, True)


def test_clock_nonsense_is_no_time(tmp_path: Path) -> None:
    """A run whose clock says nonsense belongs to no period, and is said to."""
    rows = [row(1, started="0001-01-01T00:00:00Z"), row(2, started="soon"), row(3, started=None)]

    result = run(written(tmp_path / "results.jsonl", rows), "--before", "2026-01-01")

    assert "3 runs in neither period" in result.stdout
    assert "no run says when it began" in result.stderr


def test_one_comparison_at_a_time(tmp_path: Path) -> None:
    """Two ways to compare at once are refused before anything is read."""
    result = run(tmp_path / "none.jsonl", "--before", "2026-01-01", "--against", tmp_path)

    assert isinstance(result.exception, ConfigError)
    assert "got --before and --against" in str(result.exception)


def test_period_must_not_end_before_it_begins(tmp_path: Path) -> None:
    """Dates the wrong way round are said."""
    result = run(tmp_path / "none.jsonl", "--between", "2026-02-01", "2026-01-01")

    assert isinstance(result.exception, ConfigError)


def test_same_result_twice_is_noticed() -> None:
    """A file given twice would count each run twice: said."""
    found: Summary = summarize([*map(row, range(1, 40)), *map(row, range(1, 40))])

    assert found.judges[0].tally.repeated == 39


def test_markdown_says_who_fails_how_and_where(tmp_path: Path) -> None:
    """A comment on a pull request says how many runs failed and names the commonest kinds with an example."""
    rows = [*(row(i) for i in range(4)), *(row(i, agent="planner", mode=MISREAD) for i in range(4, 6)), silent(6)]

    text = run(written(tmp_path / "a.jsonl", rows), "--markdown").stdout

    assert text.startswith("### blamespan: `a.jsonl`\n")
    assert "**6 of 6 runs failed** (100.0 %, 95 %: 61.0 to 100.0), 1 without a verdict" in text
    assert "| 4 | `solver` | `No or incomplete verification` (`mast:FM-3.2`) | " in text
    assert "step 1: `Checked, that is right.` |" in text


def test_markdown_obeys_nothing_a_trace_says(tmp_path: Path) -> None:
    """Links, mentions, tables, headings and HTML of a run stay in code spans, on their own line and in their cell."""
    said = "a | b `` @all [x](http://x) <img src=x>\n# Approved"
    text = run(written(tmp_path / "a.jsonl", [row(1, agent=said, content=said)]), "--markdown").stdout
    [line] = [line for line in text.splitlines() if "@all" in line]

    html = MarkdownIt("gfm-like", {"linkify": False}).render(text)

    assert "# Approved" in line
    assert html.count("<td") == 4
    assert "<a " not in html
    assert "<img" not in html
    assert all("@all" in code for code in re.findall(r"<code>([^<]*@[^<]*)</code>", html))
    assert not re.search(r"@all", re.sub(r"<code>[^<]*</code>", "", html))


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--fail-above", 70), 0),
        (("--fail-above", 60), 3),
        (("--fail-above", 60, "--markdown"), 3),
        (("--against", "same.jsonl", "--fail-if-worse"), 0),
        (("--against", "better.jsonl", "--fail-if-worse"), 3),
        (("--against", "worse.jsonl", "--fail-if-worse"), 0),
    ],
)
def test_exit_code_says_whether_too_many_runs_failed(tmp_path: Path, arguments: tuple[object, ...], code: int) -> None:
    """A step of CI stops where more fail than allowed, or significantly more than before; what improves passes."""
    sound = {"failure_score": 0.1}
    now = written(tmp_path / "now.jsonl", [row(i, **(sound if i % 3 == 0 else {})) for i in range(60)])
    written(tmp_path / "same.jsonl", [row(i, **(sound if i % 3 == 0 else {})) for i in range(100, 160)])
    written(tmp_path / "better.jsonl", [row(i, **sound) for i in range(100, 160)])
    written(tmp_path / "worse.jsonl", [row(i) for i in range(100, 160)])

    named = [tmp_path / word if str(word).endswith(".jsonl") else word for word in arguments]

    assert run(now, *named).exit_code == code


def test_limit_on_failures_says_what_was_exceeded(tmp_path: Path) -> None:
    """The line on stderr names the share, the number of runs and the limit; runs without a verdict do not count."""
    rows = [row(1), row(2, failure_score=0.1), *(silent(i) for i in range(3, 20))]

    said = run(written(tmp_path / "a.jsonl", rows), "--fail-above", 49.5).stderr

    assert "50.0 % of 2 runs failed, more than the 49.5 % that --fail-above allows" in said


def test_worse_needs_something_to_compare(tmp_path: Path) -> None:
    """Without an earlier period the flag would always pass."""
    with pytest.raises(ConfigError, match="--fail-if-worse compares with before, got nothing to compare"):
        CliRunner().invoke(
            summary, [str(written(tmp_path / "a.jsonl", [row(1)])), "--fail-if-worse"], catch_exceptions=False
        )


def test_decisions_of_guards_are_a_line(tmp_path: Path) -> None:
    """What guards did is counted over the runs, strictest first; without a guard the line is not there."""
    marks = [{"step": 1, "agent": "solver", "action": action} for action in ("block", "observe", "block", "nonsense")]
    guarded = run(written(tmp_path / "guarded.jsonl", [row(1, guard=marks), row(2, guard=marks[:1]), row(3)]))
    plain = run(written(tmp_path / "plain.jsonl", [row(1)]))
    document = json.loads(run(tmp_path / "guarded.jsonl", "--json").stdout)

    assert "guard       3 block, 1 observe in 2 runs" in guarded.stdout
    assert "guard" not in plain.stdout
    assert document["tracers"][0]["guard"] == {"runs": 2, "actions": {"block": 3, "observe": 1}}


def test_agents_are_scored_by_whom_they_obey(tmp_path: Path) -> None:
    """Of conflicts of instructions each agent's are counted over the runs, who gives way most often first."""
    kept, lost = ({"agent": "solver", "obeyed": side} for side in ("higher", "lower"))
    other = {"agent": HOSTILE, "obeyed": "higher"}
    rows = [row(1, instruction_conflicts=[kept, lost, other]), silent(2, instruction_conflicts=[kept]), row(3)]
    path = written(tmp_path / "conflicts.jsonl", rows)
    result, plain = run(path), run(written(tmp_path / "plain.jsonl", [row(1)]))
    [tracer] = json.loads(run(path, "--json").stdout)["tracers"]
    [summed] = summarize(rows).judges

    assert re.search(r"solver +3 +2 +66.7 % +20.8 to 93.9", result.stdout)
    assert "instructions disagree" not in plain.stdout
    assert next((item["agent"], item["count"], item["of"]) for item in tracer["adherence"]) == ("solver", 2, 3)
    assert [adherence.share for _, adherence in summed.tally.ranked_adherence()] == [Share(2, 3), Share(1, 1)]
    assert "Whom agents obey" in page_of(summarize(rows), title="t")
    assert "| `solver` | 3 | 66.7 % (20.8 to 93.9) |" in run(path, "--markdown").stdout


def test_suspects_put_to_the_test_are_a_line(tmp_path: Path) -> None:
    """What `blamespan verify` found out is counted; without it the line is not there."""
    marks = [{"index": 1, "outcome": outcome} for outcome in ("confirmed", "refuted", "confirmed", "nonsense")]
    path = written(tmp_path / "verified.jsonl", [row(1, verified=marks), row(2)])
    plain = run(written(tmp_path / "plain.jsonl", [row(1)]))

    assert "suspects    put to the test: 2 confirmed, 1 refuted" in run(path).stdout
    assert "put to the test" not in plain.stdout
    assert json.loads(run(path, "--json").stdout)["tracers"][0]["verified"] == {"confirmed": 2, "refuted": 1}
