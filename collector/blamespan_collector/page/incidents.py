"""Incidents on the page: how they have changed since the latest version, and the form that closes one."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from blamespan.analysis.summary.change import Pair, ShareChange, compare_pairs
from blamespan.analysis.summary.statistics import Share
from blamespan_collector.page.forms import FormTokens, read_form
from blamespan_collector.settings import ListenAddress
from blamespan_collector.store import Incident, RunStore, close_incident
from blamespan_collector.store.incidents import VersionCount


@dataclass(frozen=True, slots=True)
class VersionChange:
    """How often an incident's failure comes in the latest version of its service, and in the one before.

    Attributes:
        before: The version before.
        after: The latest, by when its first stored run started.
        change: Between both, of the stored runs with a verdict.
    """

    before: str
    after: str
    change: ShareChange


@dataclass(frozen=True, slots=True)
class IncidentRow:
    """An incident as the page shows it.

    Attributes:
        incident: It.
        version: How it has changed; None where its service has no two versions.
        token: Of the form that closes it; empty where it takes none.
    """

    incident: Incident
    version: VersionChange | None
    token: str


class Incidents:
    """Shows and closes incidents; closes them only where the page listens on loopback: elsewhere anybody could.

    Args:
        store: Where they are.
        address: Where the page is served.
    """

    def __init__(self, store: RunStore, address: ListenAddress) -> None:
        self._store, self._tokens, self._is_open = store, FormTokens(), address.is_loopback
        path = "/incident/{incident_id}/close"
        self.routes = [Route(path, self._close, methods=["POST"])] if self._is_open else []

    def rows(self, limit: int, incident_id: str | None = None) -> list[IncidentRow]:
        """List incidents, the open ones first; or one, by its id."""
        incidents = self._store.incidents(limit, incident_id=incident_id)
        changes = version_changes(self._store.versions()) if incidents else {}
        return [
            IncidentRow(
                one, changes.get(one.id), self._tokens.make(one.id) if self._is_open and one.state == "open" else ""
            )
            for one in incidents
        ]

    async def _close(self, request: Request) -> Response:
        incident_id = request.path_params["incident_id"]
        self._tokens.check(await read_form(request), incident_id)
        if not await run_in_threadpool(close_incident, self._store.path, incident_id, time.time_ns()):
            raise HTTPException(409, f"Incident {incident_id[:64]!r} is not open any more.")
        return RedirectResponse(f"/?incident={incident_id}", 303)


def version_changes(counts: Sequence[VersionCount]) -> Mapping[str, VersionChange]:
    """Compare the last two versions of each service, by incident; corrected for how many are compared."""
    runs: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    first_ns: dict[str, dict[str, int]] = defaultdict(dict)
    for count in counts:
        if count.version:
            runs[count.service, count.version][count.incident] = count.runs
            seen = first_ns[count.service]
            seen[count.version] = min(count.first_ns, seen.get(count.version, count.first_ns))
    pairs: list[Pair] = []
    versions: dict[str, tuple[str, str]] = {}
    for service, seen in first_ns.items():
        if len(seen) < 2:
            continue
        before, after = sorted(seen, key=lambda version: (seen[version], version))[-2:]
        then, now = runs[service, before], runs[service, after]
        for incident in {**then, **now}:
            shares = [Share(side.get(incident, 0), sum(side.values())) for side in (then, now)]
            if incident:
                pairs.append(("alike", incident, "", shares[0], shares[1]))
                versions[incident] = before, after
    return {change.name: VersionChange(*versions[change.name], change) for change in compare_pairs(pairs)}
