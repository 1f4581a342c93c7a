"""Every form of value goes the whole way: claims, notes, schemata and evidence cost no more than themselves."""

from __future__ import annotations

import json
import logging
from datetime import date
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from blamespan import conventions as words
from blamespan.analysis.showing.claims import read_answer
from blamespan.cli import cli
from blamespan.pipeline import annotate_traces
from blamespan.rebuilding.emit import emit
from blamespan.trace import Agent, MessageActionTrace, Step, StepKind
from blamespan_tracer.auto.tracer import AutoTracer
from blamespan_tracer.ledger import read_ledger
from blamespan_tracer.run_notes import note_run
from blamespan_tracer.schemata import ErrorSchema, Signature, match_schemata

MANY = "9" * 400
FORMS = {
    "number": ["7", "48213", "-7.5", "1,250.50", "1.250.000", "twenty-three", MANY, "0.000", "1e400", "\u0663\u0664"],
    "money": ["$5", "\u20ac5\u20137 million", "7,684.00 EUR", "10, 20 and 30 euros", "1.2k"],
    "percent": ["5 %", "between 3 and 5 %", "-0.5%", "12 percent"],
    "date": ["3 March 2025", "2025-04-02", "31 December 9999", "0001-01-01", "29 February 2023", "99/99/2024"],
    "dates": [
        "14, 15 and 16 July",
        "July 14, 15 and 16",
        "14\u201316 July 2025",
        "30 to 31 December 9999",
        "40 and 41 May",
    ],
    "time": ["14:22", "3 pm", "25:99", "2\u20134 pm", "9:00-17:30", "13 and 14 pm", "00:00:00"],
    "duration": ["800ms", "0.8 seconds", "1 h 30 min", "30 days", "1000000 years", f"{MANY} months", "half an hour"],
    "size": ["5 to 7 kg", "10 MiB", "3 km", "0 kB", f"{MANY} GB"],
    "identifier": ["#W2378156", "SW-90551", "a1" * 30],
    "name": ["John Smith", "The Hotel Aurora's"],
    "quotation": ['"the invoice is due in thirty days."'],
    "opposite": ["rose", "fell"],
    "url": ["https://example.org/2025-03-03/a?b=7"],
    "code": ["```\nx = 7 * 9\nprint(x)\n```", "f(due='2025-04-02', n=30)"],
    "table": ["day,n\n2025-03-03,7\n2025-03-04,9"],
}
"""Texts of every form of value, those at its edges among them."""

NO_SHRINKING = (Phase.explicit, Phase.generate)
"""A run of four hundred digits takes minutes to shrink."""

GLUE = [" ", ", ", " and ", " to ", "-", " = ", " after ", " days before ", "\n", ": ", " * ", ". That is on "]
KINDS: list[StepKind] = ["message", "tool_call", "tool_result", "plan", "termination"]

pieces = st.sampled_from([text for texts in FORMS.values() for text in texts]) | st.text(max_size=12)
texts = st.lists(st.tuples(pieces, st.sampled_from(GLUE)), max_size=6).map(
    lambda parts: "".join(piece + glue for piece, glue in parts)
)
days = st.sampled_from([date.min, date(2025, 3, 3), date(2024, 2, 29), date.max]) | st.dates()


@st.composite
def calculations(draw: st.DrawFn) -> str:
    """Draw a date, a time or a number that follows from others, rightly or nearly so."""
    count, off = draw(st.integers(1, 400)), draw(st.sampled_from([0, 0, 0, 1]))
    match draw(st.sampled_from(["date", "time", "number"])):
        case "date":
            start = draw(days)
            end = start.toordinal() + draw(st.sampled_from([1, -1])) * count + off
            end_day = date.fromordinal(min(max(end, 1), date.max.toordinal()))
            return f"{count} days from {start.isoformat()} is {end_day.isoformat()}"
        case "time":
            minute = draw(st.integers(0, 1_439))
            end_minute = (minute + count + off) % 1_440
            return f"{count} minutes from {minute // 60}:{minute % 60:02} is {end_minute // 60}:{end_minute % 60:02}"
    other = draw(st.integers(2, 99))
    return f"{count} * {other} = {count * other + off}"


@st.composite
def runs(draw: st.DrawFn) -> MessageActionTrace:
    """Draw a run whose steps state values of any form, calculated from each other or not."""
    steps = [
        Step(index, f"{index + 1:016x}", agent, kind, content, input_text=given_text)
        for index, (agent, kind, content, given_text) in enumerate(
            draw(
                st.lists(
                    st.tuples(
                        st.sampled_from("AB"), st.sampled_from(KINDS), texts | calculations(), st.just("") | texts
                    ),
                    max_size=5,
                )
            )
        )
    ]
    return MessageActionTrace("1" * 32, draw(texts), tuple(steps), (Agent("A"), Agent("B")))


SCHEMATA = [
    ErrorSchema("a", Signature(findings=("unsupported: date",))),
    ErrorSchema("b", Signature(wording="it is <date>")),
]


@cache
def tracer() -> AutoTracer:
    return AutoTracer.bundled()


@given(runs())
@settings(max_examples=60, phases=NO_SHRINKING)
def test_claims_notes_and_schemata_of_any_values_are_read(run: MessageActionTrace) -> None:
    """Nothing raises, whatever stands beside what, and every value stands where it says."""
    ledger = read_ledger(run)
    for step, claims in zip(run.steps, ledger.claims, strict=True):
        for value in (claim.mention.value for claim in claims):
            assert step.content[value.start : value.stop] == value.text

    assert read_answer(run, may_take_long=True) is not None
    assert note_run(run).run.get(words.CLAIM_COUNT, 0) == len(read_answer(run, may_take_long=True).claims)  # type: ignore[union-attr]
    match_schemata(run, SCHEMATA, ledger=ledger)


@given(runs())
@settings(max_examples=20, phases=NO_SHRINKING)
def test_any_values_get_a_verdict_without_a_word_of_trouble(run: MessageActionTrace) -> None:
    """The whole pipeline, down to evidence on the spans, warns of nothing."""
    with pytest.MonkeyPatch.context() as patch:
        troubles: list[str] = []
        patch.setattr(logging.getLogger("blamespan"), "handle", lambda record: troubles.append(record.getMessage()))

        [spans] = annotate_traces([emit(run)], tracer())

        assert troubles == []
        assert not str(spans[0].attributes.get(words.ABSTAINED, "")).startswith("could not be attributed")


def test_runs_of_every_pair_of_forms_are_analyzed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """`blamespan analyze` logs nothing of a value that is given in one form and answered in another."""
    file = tmp_path / "runs.jsonl"
    samples = [(one, other) for one, other in product([form[0] for form in FORMS.values()], ["2025-04-02", "14:22"])]
    lines = [
        {"task": f"It is {given_text}, 30 days net.", "outcome": "unknown", "steps": [
            {"agent": "clerk", "kind": "message", "content": f"That is 30 days after {given_text}, so {answer}."},
            {"agent": "writer", "kind": "message", "content": f"It is {answer}."}]}
        for given_text, answer in samples
    ]  # fmt: skip
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")

    answer = CliRunner().invoke(
        cli, ["analyze", str(file), "--json", "--processes", "1", "--annotated", str(tmp_path / "spans.jsonl")]
    )

    rows = [json.loads(line) for line in answer.stdout.splitlines()]
    assert answer.exit_code == 0
    assert len(rows) == len(samples)
    assert [row["error"] for row in rows if row["error"]] == []
    assert [record.getMessage() for record in caplog.records] == []


EVIDENT = [
    ("clerk", "tool_call", "look({})"),
    ("clerk", "tool_result", "Order 48213 of Mrs Olsen costs 1,250.50 EUR, due 2025-04-02."),
    ("clerk", "message", "Order 48273 of Mrs Olsen costs 1,250.50 EUR, due 2025-04-02."),
    ("writer", "message", "Order 48273 of Mrs Olsen costs 1,250.50 EUR, due 2025-04-02."),
]


@pytest.mark.parametrize(
    ("place", "failure", "is_lost"),
    [
        ("auto.tracer.quote_steps", "no evidence is quoted", ()),
        ("run_notes.trace_answer", "come from is not noted", (words.CLAIM_COUNT,)),
        ("run_notes.match_schemata", "known failures are not noted", (words.SCHEMA_NAME,)),
        ("run_notes.read_ledger", "nothing is noted", (words.CLAIM_COUNT, words.SCHEMA_NAME)),
    ],
)
def test_a_part_that_raises_costs_only_what_it_says(
    place: str,
    failure: str,
    is_lost: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The verdict, the spans and the other notes stay; the log has one line with the error, and no traceback."""

    def break_down(*_: object, **__: object) -> None:
        raise ValueError("could not convert\nstring to float: '2025-04-02'")

    run = MessageActionTrace(
        "1" * 32,
        "What does order 48213 cost?",
        tuple(Step(index, f"{index + 1:016x}", *said) for index, said in enumerate(EVIDENT)),  # type: ignore[arg-type]
        (Agent("clerk"), Agent("writer")),
        outcome="failed",
    )
    known = ErrorSchema("a", Signature(kind="message", wording="Order 48273 of Mrs Olsen costs"), threshold=0.1)
    monkeypatch.setattr("blamespan_tracer.run_notes.schemata_in_use", lambda: (known,))
    wanted = {words.BLAME_STEP, words.CLAIM_COUNT, words.SCHEMA_NAME}
    [unharmed] = annotate_traces([emit(run)], tracer())
    assert wanted <= unharmed[0].attributes.keys()
    monkeypatch.setattr(f"blamespan_tracer.{place}", break_down)

    [spans] = annotate_traces([emit(run)], tracer())

    assert wanted - spans[0].attributes.keys() == set(is_lost)
    assert len(spans) == len(unharmed)
    [record] = caplog.records
    assert failure in record.getMessage()
    assert "could not convert string to float: '2025-04-02'" in record.getMessage()
    assert "\n" not in record.getMessage()
    assert record.exc_info is None or not record.exc_info


def test_show_says_what_broke_and_not_that_a_package_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a part raises while it is asked is reported as what it is."""

    def break_down(*_: object, **__: object) -> None:
        raise ValueError("a mistake of ours")

    monkeypatch.setattr("blamespan_tracer.ledger.provenance.trace_answer", break_down)
    file = tmp_path / "run.json"
    steps = [{"agent": "clerk", "kind": "message", "content": "It is 36."}]
    file.write_text(json.dumps({"task": "?", "outcome": "unknown", "steps": steps}))

    answer = CliRunner().invoke(cli, ["show", str(file), "--claims"])

    assert "ValueError: a mistake of ours" in str(answer.exception)
    assert "pip install" not in str(answer.exception)
