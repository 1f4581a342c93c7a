"""Incidents are the first list of the page: how they changed since the latest version, and how a person closes one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import pytest

from blamespan.analysis.summary.statistics import Share, difference_interval
from blamespan.spans import Span
from blamespan_collector.page.incidents import version_changes
from blamespan_collector.settings import ListenAddress
from blamespan_collector.store import RunStore
from blamespan_collector.store.incidents import VersionCount
from tests.collector.paging import asking, stored
from tests.collector.test_incidents import failing


def of_version(version: str, numbers: Sequence[int], **changes: object) -> list[list[Span]]:
    resource = {"service.name": "team", "service.version": version}
    return [[replace(span, resource=resource) for span in failing(number, **changes)] for number in numbers]


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    """Two runs that fail alike, and a sound one."""
    return stored(tmp_path / "runs.db", failing(1), failing(2), failing(3, outcome="succeeded"))


async def test_incidents_are_the_first_list(store: RunStore) -> None:
    """Each leads to its runs; what is chosen by the filter shows no incidents above."""
    [incident] = store.incidents()
    async with asking(store) as client:
        first, filtered = await client.get("/"), await client.get("/?outcome=failed")
        one = await client.get(f"/?incident={incident.id}")

    assert first.text.index("<h1>Incidents</h1>") < first.text.index("<h2>Runs</h2>")
    assert f'href="/?incident={incident.id}"' in first.text
    assert "<h1>Incidents</h1>" not in filtered.text
    assert "reviewer, message, mast:FM-3.3" in one.text
    assert [f"/run/{number:032x}" in one.text for number in (1, 2, 3)] == [True, True, False]


async def test_without_incidents_runs_are_the_first_list(tmp_path: Path) -> None:
    """The sound twin."""
    async with asking(stored(tmp_path / "runs.db", failing(3, outcome="succeeded"))) as client:
        page = await client.get("/")

    assert "<h1>Runs</h1>" in page.text
    assert "Incidents</h1>" not in page.text


async def test_a_person_closes_an_incident(store: RunStore) -> None:
    """By the form that stands there, once; another site, another incident's token or a guess close nothing."""
    [incident] = store.incidents()
    path, form_type = f"/incident/{incident.id}/close", {"content-type": "application/x-www-form-urlencoded"}
    async with asking(store) as client:
        page = await client.get(f"/?incident={incident.id}")
        token = re.search(r'name="token" value="([0-9a-f]+)"', page.text)
        assert token is not None
        form = urlencode({"token": token[1]})
        refused = [
            await client.post(path, content=form, headers={**form_type, "sec-fetch-site": "cross-site"}),
            await client.post(path, content="token=1", headers=form_type),
            await client.post("/incident/other/close", content=form, headers=form_type),
            await client.post(path, content="{}", headers={"content-type": "application/json"}),
        ]
        assert [answer.status_code for answer in refused] == [403, 403, 403, 415]
        assert store.incidents()[0].state == "open"
        closed, again = [await client.post(path, content=form, headers=form_type) for _ in range(2)]
        after = await client.get(closed.headers["location"])

    assert (closed.status_code, again.status_code) == (303, 409)
    assert store.incidents()[0].state == "closed"
    assert "Close it" not in after.text


async def test_nobody_closes_where_anybody_reaches_the_page(store: RunStore) -> None:
    """Off loopback there is no form and nothing to send one to; the command is named."""
    [incident] = store.incidents()
    async with asking(store, ListenAddress("0.0.0.0", 4320)) as client:
        page = await client.get(f"/?incident={incident.id}")
        answer = await client.post(f"/incident/{incident.id}/close", content="token=1")

    assert f"blamespan status --close {incident.id}" in page.text
    assert "<button>Close it" not in page.text
    assert answer.status_code == 404


async def test_an_unknown_incident_is_said(store: RunStore) -> None:
    """Also a hostile one."""
    async with asking(store) as client:
        answer = await client.get("/", params={"incident": "<script>alert(1)</script>'; DROP TABLE incidents"})

    assert answer.status_code == 404
    assert "<script>alert" not in answer.text


async def test_hostile_names_are_text(tmp_path: Path) -> None:
    """Agents, versions and quotes come from traces."""
    hostile = "<script>alert(1)</script>"
    runs = of_version(hostile, [1, 2], agents=("a", hostile), contents=("one", hostile))
    store = stored(tmp_path / "runs.db", *runs, *of_version("1", [3], agents=("a", hostile), contents=("one", hostile)))
    async with asking(store) as client:
        pages = [await client.get("/"), await client.get(f"/?incident={store.incidents()[0].id}")]

    assert all("<script>alert" not in page.text and "&lt;script&gt;" in page.text for page in pages)


async def test_the_page_says_what_changed_since_the_latest_version(tmp_path: Path) -> None:
    """Since 1.4 the reviewer fails so in more runs, with the interval."""
    runs = [
        *of_version("1.3", range(1, 3)),
        *of_version("1.3", range(3, 60), outcome="succeeded"),
        *of_version("1.4", range(60, 80)),
        *of_version("1.4", range(80, 120), outcome="succeeded"),
    ]
    async with asking(stored(tmp_path / "runs.db", *runs)) as client:
        page = await client.get("/")

    said = " ".join(re.sub("<[^>]+>", "", page.text).split())
    low, high = (100 * end for end in difference_interval(Share(2, 59), Share(20, 60)))
    assert f"since 1.4: 3 % → 33 % {low:+.1f} to {high:+.1f} points" in said
    assert "may be chance" not in said


def test_versions_are_compared_within_their_service() -> None:
    """The last two by when they were first seen; one version, or runs that do not say theirs, with none."""
    counts = [
        VersionCount("shop", "2", "", 90, 30), VersionCount("shop", "2", "i1", 10, 30),
        VersionCount("shop", "10", "", 50, 50), VersionCount("shop", "10", "i2", 50, 60),
        VersionCount("shop", "1", "i1", 100, 10), VersionCount("shop", "", "i1", 7, 99),
        VersionCount("other", "1", "i3", 5, 10),
    ]  # fmt: skip

    changes = version_changes(counts)

    assert {
        key: (one.before, one.after, one.change.before.count, one.change.after.count) for key, one in changes.items()
    } == {"i1": ("2", "10", 10, 0), "i2": ("2", "10", 0, 50)}
    assert {one.change.before.total for one in changes.values()} == {100}
