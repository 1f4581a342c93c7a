"""The form on a run's page: a label is kept once a person of this page sends it, and only then."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import httpx
import pytest

from blamespan.labels.file import LabelsFile
from blamespan.labels.people import DecisiveStep, PersonLabel
from blamespan_collector.judged_runs import judged_runs
from blamespan_collector.settings import ListenAddress
from blamespan_collector.store import RunStore
from tests.collector.documents import HOSTILE, Document
from tests.collector.paging import RUN, annotated, asking, stored
from tests.sdk.talks import talk

AGREES = {"answer": "agrees", "by": "ann", "comment": "so it is"}


@pytest.fixture
def store(path: Path) -> RunStore:
    return stored(path, *annotated(talk(1)))


async def hidden(client: httpx.AsyncClient) -> dict[str, str]:
    """What the form holds that people do not see."""
    page = (await client.get(RUN)).text
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="(\w+)">', page))


async def send(client: httpx.AsyncClient, form: dict[str, str], **headers: str) -> httpx.Response:
    given = {"content-type": "application/x-www-form-urlencoded", **headers}
    return await client.post(f"{RUN}/label", content=urlencode(form), headers=given)


def kept(store: RunStore) -> list[PersonLabel]:
    return LabelsFile(store.path.parent / "labels.jsonl").read()


async def test_label_is_kept_beside_the_store_and_shown(store: RunStore) -> None:
    """Agreeing keeps the verdict's step and mode; the page then says who said so, and fills the name in."""
    async with asking(store) as client:
        answer = await send(client, {**await hidden(client), **AGREES})
        page = Document((await client.get(answer.headers["location"])).text)

    [label] = kept(store)
    assert (answer.status_code, answer.headers["location"]) == (303, f"{RUN}?by=ann#labels")
    assert (label.answer, label.by, label.comment) == ("agrees", "ann", "so it is")
    assert label.decisive == DecisiveStep("reviewer", 2, f"{100_003:016x}", ("mast:FM-3.3",))
    assert label.shown is not None
    assert "ann" in page.said
    assert "The verdict is right so it is" in page.said


async def test_correction_names_step_and_mode(store: RunStore) -> None:
    """Another step and another mode can be said without a script."""
    correction = {"answer": "corrects", "step": "1", "mode": "blamespan:X3", "by": "ann", "comment": ""}
    async with asking(store) as client:
        await send(client, {**await hidden(client), **correction})

    [label] = kept(store)
    assert label.decisive == DecisiveStep("solver", 1, f"{100_002:016x}", ("blamespan:X3",))


@pytest.mark.parametrize(
    ("changes", "headers", "status"),
    [
        ({"token": "0" * 64}, {}, 403),
        ({"token": ""}, {}, 403),
        ({"run": f"{7:016x}"}, {}, 403),
        ({}, {"sec-fetch-site": "cross-site"}, 403),
        ({}, {"sec-fetch-site": "same-site"}, 403),
        ({}, {"content-type": "text/plain"}, 415),
        ({}, {"host": "evil.example"}, 421),
        ({"comment": "x" * 20_000}, {}, 413),
        ({"answer": "maybe"}, {}, 400),
        ({"answer": "corrects", "step": "x"}, {}, 400),
        ({"answer": "corrects", "step": "99"}, {}, 400),
        ({"answer": "corrects", "step": "1", "mode": "mast:FM-9"}, {}, 400),
        ({"by": " "}, {}, 400),
    ],
)
async def test_what_is_not_this_pages_form_is_refused(
    store: RunStore, changes: dict[str, str], headers: dict[str, str], status: int
) -> None:
    """Another site, another name, a guessed token or nonsense leaves no label, and no traceback."""
    async with asking(store) as client:
        answer = await send(client, {**await hidden(client), **AGREES, **changes}, **headers)

    assert answer.status_code == status
    assert kept(store) == []


async def test_token_of_another_run_is_none_of_this(tmp_path: Path) -> None:
    """A token says which run its form is about."""
    store = stored(tmp_path / "runs.db", *annotated(talk(1), talk(2)))
    async with asking(store) as client:
        form = {**await hidden(client), **AGREES}
        answer = await client.post(
            f"/run/{2:032x}/label",
            content=urlencode(form),
            headers={"content-type": "application/x-www-form-urlencoded"},
        )

    assert (answer.status_code, kept(store)) == (403, [])


async def test_hostile_labels_are_only_text(store: RunStore) -> None:
    """What people write is shown as text, like what traces say."""
    async with asking(store) as client:
        for number, said in enumerate(HOSTILE):
            form = {**await hidden(client), **AGREES, "by": f"{number} {said[:80]}", "comment": said[:1_500]}
            assert (await send(client, form)).status_code == 303
        page = Document((await client.get(RUN)).text)

    assert page.scripts == ["/static/page.js"]
    assert len(kept(store)) == len(HOSTILE)


async def test_no_labels_where_anybody_reaches_the_page(store: RunStore) -> None:
    """Off loopback there is no form and nothing to send one to: nobody could say who labels."""
    async with asking(store, ListenAddress("0.0.0.0", 4320)) as client:
        page = await client.get(RUN)
        answer = await send(client, AGREES)

    assert "/label" not in page.text
    assert answer.status_code in (404, 405)


async def test_damaged_labels_do_not_take_the_page_with_them(store: RunStore, tmp_path: Path) -> None:
    """A run is shown whatever stands in the labels file."""
    (tmp_path / "labels.jsonl").write_bytes(b"\xff\x00{nonsense\n" * 3)
    async with asking(store) as client:
        answer = await client.get(RUN)

    assert answer.status_code == 200


def test_stored_runs_come_with_their_verdicts(tmp_path: Path) -> None:
    """For the terminal, the store gives each run with the verdict it went out with, the last to start first."""
    unjudged = replace(talk(3), task="nobody judged this")
    from blamespan.rebuilding.emit import emit

    stored(tmp_path / "runs.db", *annotated(talk(1), talk(2)), emit(unjudged))

    path, runs = judged_runs(tmp_path / "runs.db")
    found = [(run.trace.trace_id, verdict and verdict.decisive_step) for run, verdict in runs]
    assert path == tmp_path / "runs.db"
    assert found == [(f"{3:032x}", None), (f"{2:032x}", 2), (f"{1:032x}", 2)]
