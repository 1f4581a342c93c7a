"""Every documented search for failures finds the runs that failed or look failed, and no sound one.

TraceQL is evaluated by the few lines below, which know what our queries use and refuse all else. Source: Tempo's
documentation: conditions hold of one span, `&&` and `>>` combine sets of spans of one trace, `=~` is anchored.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
import pytest

from blamespan.attribution import Attribution, Evidence, ModeBlame, TracerIdentity
from blamespan.pipeline import AttributedTrace, attribute_traces
from blamespan.rebuilding.emit import emit
from blamespan.spans import Span
from blamespan.taxonomy import mode
from blamespan.trace import MessageActionTrace, Outcome
from blamespan_collector.jaeger import jaeger_routes
from blamespan_collector.page import page_application
from blamespan_collector.settings import ListenAddress
from tests.collector.paging import stored
from tests.observability.example import PAGE, links, panels
from tests.sdk.talks import NOW_NS, talk

README = Path(__file__).parents[2] / "README.md"
ENDS: dict[int, tuple[Outcome, float]] = {
    1: ("failed", 0.2),
    2: ("unknown", 0.9),
    3: ("unknown", 0.2),
    4: ("succeeded", 0.94),
    5: ("unknown", 0.0),
}
"""How each run ended, and its failure score; the tracer abstains on the last one."""
FAILURES = {1, 2}


class WriterTracer:
    """Blames the writer for a contradiction, whatever the run."""

    identity = TracerIdentity("writer", "1")

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        return [self._one(trace, int(trace.trace_id, 16)) for trace in traces]

    def _one(self, trace: MessageActionTrace, number: int) -> Attribution:
        if number == len(ENDS):
            return Attribution.abstain(trace, "too short", self.identity)
        score = ENDS[number][1]
        return Attribution.of(
            trace,
            [1.0, 2.0, 1.5],
            failure_score=score,
            unaided_score=score,
            tracer=self.identity,
            modes=[ModeBlame(mode("aegis:FM-2.3"), "writer", 0.7)],
            evidence=[Evidence(1, "12 * 3 = 35", 1.0)],
        )


def judged() -> list[list[Span]]:
    """Give the spans of the five runs, with their verdicts."""
    runs = [talk(number, agents=("planner", "writer", "reviewer"), outcome=end) for number, (end, _) in ENDS.items()]
    traces = [emit(replace(run, resource={"service.name": "sales"})) for run in runs]
    verdicts: list[AttributedTrace] = attribute_traces(traces, WriterTracer())
    return [one.on(spans, is_complete=True) for one, spans in zip(verdicts, traces, strict=True)]


def test_documented_questions_find_their_runs() -> None:
    """Each query of docs/how-to/grafana.md is asked of five runs; those on failures find the failed ones alone."""
    rows = re.findall(r"^\| ([^|*]+?) \| `(\{.+?\})(?: \\\| select\([^`]*)?` \|$", PAGE.read_text(), re.MULTILINE)
    found = {question: numbers(query) for question, query in rows}

    assert found == {
        "Runs that failed or look failed": FAILURES,
        "The steps that decided failures": FAILURES,
        "Those of one agent, for one mode": FAILURES,
        "What speaks for it": FAILURES,
        "Failures of one service within the last weeks": FAILURES,
        "Silent failures: no span says ERROR": FAILURES,
        "False alarms": {4},
        "The next suspects": FAILURES,
        "Runs without a verdict, and why": {5},
        "Verdicts that came after the spans": set(),
    }


def test_readme_and_dashboards_ask_for_the_same_runs() -> None:
    """README's query, the panel of decisive steps, and the links of bars, filled in for one agent and mode."""
    (readme,) = re.findall(r"`(\{ span\..+?\})`", README.read_text())
    asked = [
        target["query"] for panel in panels() for target in panel["targets"] if target["datasource"]["type"] == "tempo"
    ]
    filled = {"agent": "writer", "taxonomy": "aegis", "code": "FM-2.3"}
    linked = [
        re.sub(r"\$\{__field\.labels\.(\w+):percentencode\}", lambda match: filled[match[1]], unquote(query))
        for _, url in links()
        for query in re.findall(r"%22query%22%3A%22(.+?)%22%2C%22limit", url)
    ]

    assert [numbers(query.replace('\\"', '"')) for query in (readme, *asked, *linked)] == [FAILURES] * 4


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("blamespan.verdict:failed", {1}),
        ("blamespan.verdict:looks failed", {2}),
        ("blamespan.verdict:no sign of failure", {3, 4}),
        ("blamespan.verdict:abstained", {5}),
        ("blamespan.blame.decisive:true", FAILURES),
        ("blamespan.blame.agent:writer", FAILURES),
    ],
)
async def test_jaeger_finds_the_same_runs_by_equality(tmp_path: Path, tag: str, expected: set[int]) -> None:
    """Asked for one word Jaeger's API finds the runs of that word, and warns on failures and abstentions alone."""
    store = stored(tmp_path / "runs.db", *judged())
    app = page_application(
        store, ListenAddress("127.0.0.1", 4320), routes=jaeger_routes(store, lambda: NOW_NS + 3_600 * 10**9)
    )
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:4320") as client:
        answer = await client.get("/api/traces", params={"service": "sales", "lookback": "2h", "tag": tag})
    traces = answer.json()["data"]
    warned = {int(one["traceID"], 16) for one in traces if any(span["warnings"] for span in one["spans"])}

    assert {int(one["traceID"], 16) for one in traces} == expected
    assert warned == expected & {*FAILURES, 5}


# -- TraceQL, as much as is asked


def numbers(query: str) -> set[int]:
    """Give the runs that a query finds."""
    return {number for number, spans in enumerate(judged(), 1) if matches(query, spans)}


def matches(query: str, spans: Sequence[Span]) -> list[Span]:
    first, *others = re.split(r"(?<=\}) (&&|>>) (?=\{)", query)
    found = [span for span in spans if holds(first, span)]
    for combined, condition in zip(others[::2], others[1::2], strict=True):
        right = [span for span in spans if holds(condition, span)]
        below = [span for span in right if any(lies_below(span, above, spans) for above in found)]
        found = below if combined == ">>" else found + right if found and right else []
    return found


def lies_below(span: Span, above: Span, spans: Sequence[Span]) -> bool:
    parents = {one.span_id: one.parent_id for one in spans}
    parent = parents[span.span_id]
    while parent is not None and parent != above.span_id:
        parent = parents.get(parent)
    return parent is not None


COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    ">": lambda value, limit: value is not None and value > limit,
    "<=": lambda value, limit: value is not None and value <= limit,
    "=~": lambda value, pattern: isinstance(value, str) and re.fullmatch(pattern, value) is not None,
}
LITERALS = {"true": True, "nil": None, "error": "error"}


def holds(condition: str, span: Span) -> bool:
    return all(
        COMPARED[compared](value_of(key, span), literal)
        for key, compared, literal in comparisons(condition.strip("{} "))
    )


def comparisons(condition: str) -> Iterator[tuple[str, str, Any]]:
    for part in condition.split(" && "):
        key, compared, literal = part.split(" ", 2)
        yield (
            key,
            compared,
            literal.strip('"')
            if literal[0] == '"'
            else LITERALS.get(literal)
            if literal in LITERALS
            else float(literal),
        )


def value_of(key: str, span: Span) -> Any:
    scope, _, name = key.partition(".")
    if key in ("status", "instrumentation:name"):
        return span.status if key == "status" else span.scope.name
    return {"span": span.attributes, "resource": span.resource}[scope].get(name)
