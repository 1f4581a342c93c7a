"""`agent-detective` (PyPI) beside us: it reads an OpenTelemetry trace and names the node where quality broke, by rules.

It is asked as it comes, without a language model to judge for it, and given each run twice: in the spans that it asks
for, an OpenInference AGENT span for each step with name, input and output, below the step that it builds on; and in our
own spans. `auto` is asked about the same runs, once as it is and once told how they ended, which the peer cannot be.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blamespan.analysis.sources import runs_in
from blamespan.importing.recorded import Fault, RecordedRun
from blamespan.otlp import request_to_json, spans_to_proto
from blamespan.rebuilding.emit import emit
from blamespan.trace import MessageActionTrace, Outcome, Step
from blamespan.tracers import load_tracer

COMMAND = "BLAMESPAN_BENCH_DETECTIVE"
"""The variable that holds where its command `detective` is; `scripts/bench tracer` installs it and sets this."""
_DEMO = Path(__file__).parents[2] / "examples" / "traces" / "demo.jsonl"
_WENT_WRONG = {"autogen_team": "analyst", "langgraph_graph": "researcher"}
"""Whom the demo makes go wrong, by its service; of each program's two runs the one with an outcome is that one."""
_TIMEOUT_S = 300
_SECOND_NS = 10**9


@dataclass(frozen=True, slots=True)
class PeerFigure:
    """Whom one tool names.

    Attributes:
        tool: Its name, with what it was given.
        runs: The name of the set of runs.
        failed: Runs of it that failed, with a labelled agent.
        named: Of these, how many it names an agent for.
        right: Of these, how many it names the runs agent for, as the first one.
        sound: Runs that did not fail.
        accused: Of these, how many it calls failed.
    """

    tool: str
    runs: str
    failed: int
    named: int
    right: int
    sound: int
    accused: int


def demo_runs() -> list[RecordedRun]:
    """Read the demo's four runs, each with the agent that was made to go wrong, or none."""
    return [
        replace(run, faults=(Fault(_WENT_WRONG[str(run.trace.resource["service.name"])]),))
        if run.trace.outcome == "failed"
        else replace(run, faults=())
        for run in runs_in([_DEMO])
        if isinstance(run, RecordedRun)
    ]


def recorded_runs(data: Path, most: int) -> dict[str, list[RecordedRun]]:
    """Read recorded runs: failed ones with the agent that people blame, and sound ones; nothing where none are.

    Args:
        data: Folder of recorded runs of public benchmarks.
        most: Runs of each set, drawn evenly.
    """
    sources = {"Who&When, development": data / "who_and_when_dev", "tau-bench, airline": data / "tau_bench"}
    sets = {}
    for name, path in sources.items():
        runs = [run for run in runs_in([path]) if isinstance(run, RecordedRun)] if path.is_dir() else []
        usable = [run for run in runs if run.faults or run.trace.outcome == "succeeded"]
        if usable:
            sets[name] = usable[:: max(1, len(usable) // most)][:most]
    return sets


def measure(name: str, runs: Sequence[RecordedRun]) -> Iterator[PeerFigure]:
    """Ask both tools about each run; its label says who failed, or that nobody did."""
    command = os.environ.get(COMMAND, "")
    if command:
        for tool, write in (("agent-detective, AGENT spans", _agent_spans), ("agent-detective, our spans", _our_spans)):
            yield _figure(tool, name, runs, list(_ask_detective(command, [write(run.trace) for run in runs])))
    yield _figure("blamespan, auto", name, runs, list(_ask_auto(runs, is_told=False)))
    yield _figure("blamespan, auto, told how runs ended", name, runs, list(_ask_auto(runs, is_told=True)))


def _figure(tool: str, name: str, runs: Sequence[RecordedRun], named: Sequence[str | None]) -> PeerFigure:
    failed = [(run, agent) for run, agent in zip(runs, named, strict=True) if run.faults]
    sound = [agent for run, agent in zip(runs, named, strict=True) if not run.faults]
    return PeerFigure(
        tool,
        name,
        len(failed),
        sum(agent is not None for _, agent in failed),
        sum(agent is not None and _bare(agent) == _bare(run.faults[0].agent) for run, agent in failed if run.faults),
        len(sound),
        sum(agent is not None for agent in sound),
    )


def _ask_auto(runs: Sequence[RecordedRun], *, is_told: bool) -> Iterator[str | None]:
    """Name the blamed agent of each run that the verdict calls failed, or that is known to have."""
    ends: list[Outcome] = [("failed" if run.faults else "succeeded") if is_told else "unknown" for run in runs]
    traces = [replace(run.trace, outcome=end) for run, end in zip(runs, ends, strict=True)]
    for verdict, end in zip(load_tracer("auto").attribute(traces), ends, strict=True):
        is_named = verdict.decisive_step is not None and (verdict.calls_failed or end == "failed")
        yield verdict.agents[0].agent if is_named and end != "succeeded" else None


def _ask_detective(command: str, documents: Sequence[str]) -> Iterator[str | None]:
    """Name the first culprit of each trace, asked in one file, as it asks for; None where it names none."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.jsonl"
        for document in documents:
            path.write_text(document)
            done = subprocess.run(
                [command, "analyze", str(path), "--json"],
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
                env={key: value for key, value in os.environ.items() if not key.startswith("JUDGE_")},
            )
            yield _culprit(done.stdout)


def _culprit(answer: str) -> str | None:
    if not answer.strip():
        return None  # it found no agent in the trace, and says so on stderr
    for graph in json.loads(answer)["graphs"]:
        if graph["culprits"]:
            return str(graph["culprits"][0])
    return None


def _our_spans(trace: MessageActionTrace) -> str:
    return request_to_json(ExportTraceServiceRequest(resource_spans=spans_to_proto(emit(trace))))


def _agent_spans(trace: MessageActionTrace) -> str:
    steps = [step for step in trace.steps if step.kind != "tool_result"]
    spans = [_agent_span(trace, step) for step in steps]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})


def _agent_span(trace: MessageActionTrace, step: Step) -> dict[str, Any]:
    parent = _parent(trace, step)
    given = "\n".join(trace.steps[index].content for index in step.inputs) or trace.task
    texts = {
        "openinference.span.kind": "AGENT",
        "gen_ai.agent.name": step.agent,
        "input.value": given,
        "output.value": step.content,
    }
    start_ns = (step.index + 1) * _SECOND_NS
    return {
        "traceId": trace.trace_id,
        "spanId": f"{step.index + 1:016x}",
        **({} if parent is None else {"parentSpanId": f"{parent.index + 1:016x}"}),
        "name": step.agent,
        "kind": 1,
        "startTimeUnixNano": str(start_ns),
        "endTimeUnixNano": str(start_ns + _SECOND_NS),
        "attributes": [{"key": key, "value": {"stringValue": text}} for key, text in texts.items()],
    }


def _parent(trace: MessageActionTrace, step: Step) -> Step | None:
    """Find the step that this one builds on last, past the results of tools; else the one before it."""
    parent: Step | None = step
    while parent is not None and (parent is step or parent.kind == "tool_result"):
        index = parent.inputs[-1] if parent.inputs else parent.index - 1
        parent = trace.steps[index] if index >= 0 else None
    return parent


def _bare(agent: str) -> str:
    """Compare names without case and without what an orchestrator adds in brackets, as Who&When is scored."""
    return re.sub(r"\s+\([^()]*\)$", "", agent).casefold()


def table(figures: Iterable[PeerFigure]) -> list[str]:
    """Write the figures as a Markdown table."""
    lines = [
        "| tool | runs | names an agent, of failed runs | names the labelled one | names somebody in sound runs |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {one.tool} | {one.runs} | {one.named} of {one.failed} | {one.right} | {one.accused} of {one.sound} |"
        for one in figures
    ]
    return lines
