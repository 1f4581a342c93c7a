"""What goes over the link between the worker and whoever started it.

Messages are small dicts. Worker to intake, each second and when something changes:

    {"ready": bool,                     whether it is at work
     "trouble": str | None,             why nothing is delivered now, in a sentence
     "tracer": str, "to": [str],        who gives the verdicts and where they go, for people
     "counts": {name: int},             since its start, see `service/metrics.py`
     "gauges": {name: float},           as they are now
     "blame": [[agent, mode, number]],  since its start
     "runs": [[outcome, verdict, tracer, number]],
     "incidents": [[id, service, agent, mode, runs]], those that are open
     "histograms": {name: [[labels, [[upper, cumulative number]], sum]]},
     "died": str,                       what it broke on, in its last message
     "failed": str,                     why it gives up and another start cannot help
     "misused": bool}                   whether that is because a setting is wrong

Intake to worker: `{"wake": [segment, row]}` after commits, `{"stop": seconds}` once.
"""

from __future__ import annotations

from typing import Any, TypeAlias

WorkerMessage: TypeAlias = dict[str, Any]
"""One message of the worker; `Any`, as its parts are of several types and each is checked where it is read."""

NO_ROOM = 75
"""Exit code of a worker that ended for want of disk: the next one begins as soon as there is some."""
