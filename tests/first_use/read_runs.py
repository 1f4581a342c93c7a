"""Print the runs of the local store as JSON: run by the environment that is measured."""

import json
from pathlib import Path

from blamespan import conventions as words
from blamespan.annotate import is_verdict
from blamespan_collector.judged_runs import judged_runs_of_trace
from blamespan_collector.local_runs import embedded_store
from blamespan_collector.store import RunQuery, RunStore

store = RunStore(embedded_store() or Path())
lines = []
for summary in store.search(RunQuery(limit=1_000)):
    spans = store.spans_of(summary.trace_id)
    later = max((span.integer(words.REVISION) or 0 for span in spans if is_verdict(span)), default=0)
    for run, verdict in judged_runs_of_trace(store, summary.trace_id):
        lines.append(
            {
                "program": run.trace.resource.get("service.name"),
                "trace_ids": [part.trace.trace_id for part in run.parts or (run,)],
                "task": run.trace.task,
                "outcome": run.trace.outcome,
                "steps": [[step.agent, step.kind, step.content] for step in run.trace.steps],
                "start_ns": run.trace.steps[0].start_ns if run.trace.steps else 0,
                "is_judged": bool(run.parts) or (verdict is not None and verdict.abstained is None),
                "later_revision": later,
            }
        )
print(json.dumps(sorted(lines, key=lambda line: line["start_ns"])))
