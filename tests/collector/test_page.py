"""The page: what is stored is shown, to those who ask by our name, and never as markup."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from blamespan import conventions as words
from blamespan.otlp import request_from_json, spans_from_proto
from blamespan.pipeline import attribute_traces
from blamespan.spans import Span
from blamespan_collector.page import page_application
from blamespan_collector.page.guarding import POLICY
from blamespan_collector.store import RunStore, RunWriter
from tests.collector.documents import HOSTILE, OURS, Document
from tests.collector.fakes import request
from tests.collector.paging import RUN, LastStepsTracer, annotated, asking, got, make_newer, stored
from tests.sdk.broken_packages import NOT_CHECKED, break_checks
from tests.sdk.talks import talk


async def test_runs_are_listed_with_their_verdicts(tmp_path: Path) -> None:
    """Each run is a line: what it was asked, how it ended, who is blamed for what, and how surely."""
    store = stored(tmp_path / "runs.db", *annotated(talk(1), talk(2, task="Count the lamps.")))
    page = Document((await got(store, "/")).text)
    said = page.said

    assert "Count the lamps. team 00000000 failed reviewer step 2 Incorrect verification 70 % 100 % 3 3.0 s" in said
    assert said.index("Count the lamps.") < said.index("What is 12 * 3?")
    assert RUN in page.links


async def test_runs_are_filtered_and_paged(tmp_path: Path) -> None:
    """The form's fields leave out what does not fit; `Older runs` goes on with the same filter."""
    store = stored(
        tmp_path / "runs.db", *annotated(*map(talk, range(1, 61)), *(talk(n, task="lamps") for n in range(61, 65)))
    )
    found = Document((await got(store, "/?text=lamps&outcome=failed&agent=reviewer&mode=mast:FM-3.3")).text)
    first = Document((await got(store, "/?text=12")).text)
    [older] = [link for link in first.links if "after=" in link]
    second = Document((await got(store, older)).text)

    runs = [{link for link in page.links if link.startswith("/run/")} for page in (found, first, second)]
    assert [len(one) for one in runs] == [4, 50, 10]
    assert runs[1].isdisjoint(runs[2])
    assert "No stored run fits" in (await got(store, "/?outcome=succeeded")).text


async def test_filter_that_nothing_fits_stays_in_the_form(talked: RunStore) -> None:
    """An agent that nobody was, or an error mode that nobody made, gives no runs, and the form still says why."""
    page = (await got(talked, "/?agent=nobody%3Cb%3E&mode=mast:FM-9.9")).text

    assert "No stored run fits" in page
    assert '<option value="nobody&lt;b&gt;" selected>nobody&lt;b&gt;</option>' in page
    assert '<option value="mast:FM-9.9" selected>mast:FM-9.9</option>' in page


@pytest.mark.parametrize("field", ["text", "agent", "mode", "service"])
async def test_what_is_asked_for_is_cleaned(talked: RunStore, field: str) -> None:
    """Control characters of a link that somebody else wrote are shown as such, and never sent back."""
    page = (await got(talked, f"/?{field}=a%00%1b%5B31m%07%C2%9B%E2%80%AEb")).text

    assert "a��[31m��[U+202E]b" in page
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", page)


async def test_run_page_shows_what_happened(talked: RunStore) -> None:
    """A run's page holds its verdict, steps, agents, times, tokens, suspects, message links and permanent links."""
    answer = await got(talked, RUN)
    page = Document(answer.text)
    said = page.said

    assert "Most to blame: reviewer at step 2 : Incorrect verification mast:FM-3.3, 70 %" in said
    assert "It was recorded as failed" in said
    assert "The step holds 57 % of the blame; steps 1 , 2 together 86 %." in said
    assert "The next 2 suspects step 1 solver 29 % step 0 planner 14 %" in said
    assert "failed 3 steps 3 agents 3.0 s" in said
    assert "2 reviewer message decisive breaks approval-sees-sums" in said
    assert "57 % 1,200 → 30 tokens 1.0 s at +2.0 s" in said
    assert "<mark>Checked, that is right.</mark></div>" in answer.text
    assert {"#step-0", "#step-1", "#step-2"} <= set(page.links)
    assert answer.text.count("<path d=") == 2
    assert "breaks sum-holds" in said


async def test_run_page_says_why_no_check_could_be_run(talked: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A faulty check is not taken for a run that breaks none, and is not offered again."""
    break_checks(monkeypatch)
    answer = await got(talked, RUN)

    assert NOT_CHECKED in Document(answer.text).said
    assert "&lt;b&gt;faulty" in answer.text
    assert "No check is broken." not in answer.text
    assert "Apply checks" not in answer.text


ANSWERED = ["The hotel has 36 rooms.", "Fine.", "36 rooms <b>for</b> 84.50 euros."]


async def test_a_run_that_a_tool_failed_names_the_tool_and_no_agent(tmp_path: Path) -> None:
    """In the list, where it can be filtered by, and on its page, with the words; its twin names an agent."""
    [spans, twin] = annotated(talk(1), talk(2))
    said = {
        words.CAUSE_KIND: "tool",
        words.CAUSE_NAME: "search<b>",
        words.CAUSE_QUOTE: "HTTP 503",
        words.CAUSE_REASON: "down",
    }
    blame = (words.BLAME_AGENT, words.BLAME_STEP, words.BLAME_SPAN_ID, words.BLAME_RANK, words.BLAME_DECISIVE)
    failed = [
        replace(span, attributes={key: value for key, value in span.attributes.items() if key not in blame})
        for span in spans
    ]
    store = stored(tmp_path / "runs.db", [failed[0].with_attributes(said), *failed[1:]], twin)

    listed, filtered = await got(store, "/"), await got(store, "/?agent=the+tool+search%3Cb%3E")
    page = await got(store, f"/run/{failed[0].trace_id}")

    assert "<bdi>the tool search&lt;b&gt;</bdi>" in listed.text
    assert failed[0].trace_id in filtered.text
    assert twin[0].trace_id not in filtered.text
    assert "No agent is blamed, but <b><bdi>the tool search&lt;b&gt;</bdi></b>" in page.text
    assert "<mark>HTTP 503</mark>" in page.text
    assert "No agent is blamed" not in (await got(store, f"/run/{twin[0].trace_id}")).text


async def test_run_page_says_where_the_answer_comes_from(tmp_path: Path) -> None:
    """Each value leads back through those who passed it on; without a source it says so, with one it does not."""
    task = "How many rooms at 84.50 euros?"
    runs = talk(1, ANSWERED, task=task, outcome="succeeded"), talk(2, ["36 rooms."], task="36?", outcome="succeeded")
    store = stored(tmp_path / "runs.db", *annotated(*runs))
    lacking = await got(store, RUN)
    sourced = Document((await got(store, f"/run/{2:032x}")).text).said
    said = Document(lacking.text).said

    assert "Where the answer comes from" in said
    assert said.count("Where the answer comes from : 2 values, 1 without a source") == 1  # leads to what is folded
    assert "Where the answer comes from 2 values, 1 without a source" in said
    assert lacking.text.index('class="steps"') < lacking.text.index('<details class="provenance">')
    assert "First said without a source by planner at step 0" in said
    assert "36 no source" in said
    assert "reviewer step 2 planner step 0 nothing: no source" in said
    assert "84.50 has a source" in said
    assert "reviewer step 2 the task" in said
    assert "<b>for</b>" not in lacking.text
    assert "1 value, each with a source" in sourced
    assert "no source" not in sourced


async def test_large_run_has_its_claims_followed_when_asked(tmp_path: Path) -> None:
    """A run of 1,100 steps opens without them, and with them by the button for checks; what is drawn is bounded."""
    text = " ".join(f"{index}{index}7" for index in range(1, 60))
    store = stored(
        tmp_path / "runs.db", *annotated(talk(1, [f"word {text if n == 1_099 else n}" for n in range(1_100)]))
    )
    plain, asked = [(await got(store, f"{RUN}{query}")).text for query in ("", "?checks=1")]

    assert "Where the answer comes from" not in plain
    assert "Apply checks and follow claims" in plain
    assert "Where the answer comes from" in asked
    assert len(re.findall('<li class="(?:no-source|contradicted)">', asked)) == 40
    assert "further values are not shown" in asked


async def test_long_runs_come_in_parts(long_run: RunStore) -> None:
    """Of a run of more than 500 steps one part is shown at a time, and the decisive step first."""
    pages = [Document((await got(long_run, f"{RUN}?from={start}")).text) for start in ("0", "500", "1000")]
    opened = (await got(long_run, RUN)).text

    assert ["word 499" in page.text for page in pages] == [True, False, False]
    assert "Steps 1000 to 1199 of 1200" in pages[2].text
    assert ["?from=500" in page.links for page in pages] == [True, False, True]
    assert 'id="step-1199"' in opened
    assert 'id="step-500"' not in opened


async def test_every_link_to_a_step_leads_to_it(long_run: RunStore) -> None:
    """No step is out of reach, with or without a script: suspects, marks and inputs are on their part."""
    texts = {start: (await got(long_run, f"{RUN}?from={start}")).text for start in (0, 500, 1_000)}
    shown = {start: set(re.findall(r'<article id="(step-[0-9]+)"', text)) for start, text in texts.items()}
    overview = re.findall(r'<nav class="overview".*?</nav>', texts[0], re.DOTALL)[0]

    assert sorted(int(name[5:]) for names in shown.values() for name in names) == list(range(1_200))
    for start, text in texts.items():
        links = re.findall(r'href="(?:\?from=([0-9]+))?#(step-[0-9]+)"', text)
        assert links
        assert all(name in shown[int(given) if given else start] for given, name in links)
    assert {int(given or 0) for given in re.findall(r'href="(?:\?from=([0-9]+))?#', overview)} == {0, 500, 1_000}


async def test_run_that_grew_is_shown_anew(tmp_path: Path) -> None:
    """What was looked at last is not read again, unless more of it came, or rules are asked for."""
    [spans] = annotated(talk(1, ("Find it.", "12", "More", "Right.")))
    store = stored(tmp_path / "runs.db", spans[:3])
    pages = []
    async with asking(store) as client:
        pages += [(await client.get(RUN)).text for _ in range(2)]
        writer = RunWriter(tmp_path / "runs.db", sync="normal")
        writer.put([request(spans[3:]).SerializeToString()])
        writer.close()
        pages.append((await client.get(RUN)).text)

    assert [len(re.findall("<article", page)) for page in pages] == [2, 2, 4]


@pytest.mark.parametrize("ui", ["https://jaeger.example.com/ui/", None])
async def test_run_leads_to_its_decisive_span_in_jaeger(tmp_path: Path, ui: str | None) -> None:
    """Told where Jaeger's UI is, the page links the trace there, so that it marks the decisive span alone; else not.

    In a run without a sign of failure nothing is looked for, as nothing would be found.
    """
    [spans], [sound] = annotated(talk(1)), annotated(talk(2, outcome="succeeded"))
    store = stored(tmp_path / "runs.db", spans, sound)
    decisive = next(span for span in spans if span.attributes.get(words.BLAME_DECISIVE))
    named_by = [span for span in spans if decisive.span_id in marked_texts(span)]
    answers = [await got(store, f"/run/{number:032x}", jaeger_ui=ui) for number in (1, 2)]
    links = [link for answer in answers for link in Document(answer.text).links if "jaeger.example.com" in link]

    trace = "https://jaeger.example.com/ui/trace"
    decided = f"{trace}/{1:032x}?uiFind=blamespan.blame.decisive%3Dtrue"
    assert links == ([decided, f"{trace}/{2:032x}"] if ui else [])
    assert "No sign of failure" in answers[1].text
    assert [span for span in [*spans, *sound] if "blamespan.blame.decisive=true" in marked_texts(span)] == [decisive]
    assert len(named_by) > 1  # so that its id marks more than it


def marked_texts(span: Span) -> str:
    """List all in which Jaeger's UI looks for the text of `uiFind`, a line each. Source: its `filter-spans.ts`."""
    tags = [(key, str(value).lower()) for key, value in span.attributes.items()]
    texts = [span.span_id, span.name, *(text for key, value in tags for text in (key, value, f"{key}={value}"))]
    return "\n".join(texts)


async def test_each_run_of_a_trace_is_shown(tmp_path: Path) -> None:
    """A trace with two runs shows both, each step under an id of its own."""
    first, second = annotated(talk(1), talk(2, task="Count the lamps."))
    store = stored(tmp_path / "runs.db", [*first, *(replace(span, trace_id=first[0].trace_id) for span in second)])
    text = (await got(store, RUN)).text
    ids = re.findall(r' id="([^"]+)"', text)

    assert len(ids) == len(set(ids))
    assert {"step-0", "step-2", "run-2-step-0", "run-2-step-2"} <= set(ids)
    assert Document(text).said.count("Most to blame:") == 2


async def test_half_a_run_says_partial(tmp_path: Path) -> None:
    """What has not come is said; what has come is shown."""
    [spans] = annotated(talk(1))
    store = stored(tmp_path / "runs.db", spans[1:])
    page = Document((await got(store, RUN)).text)

    assert "This run is partial" in page.text
    assert "1 span that others lie below has not come" in page.text
    assert "12 * 3 = 35" in page.text
    assert "partial" in Document((await got(store, "/")).text).text


async def test_later_verdict_is_shown(tmp_path: Path) -> None:
    """A verdict that came when the spans were out already stands above them."""
    [spans] = annotated(talk(1))
    [attributed] = attribute_traces([spans], LastStepsTracer(), revision=2)
    store = stored(tmp_path / "runs.db", spans, attributed.beside(is_complete=True))
    said = Document((await got(store, RUN)).text).said

    assert "Judged again with what came later (revision 2): reviewer at step 2 : Incorrect verification" in said
    assert "This verdict holds" in said


async def test_abstention_is_shown(tmp_path: Path) -> None:
    """Where there is no verdict the reason stands there, and nobody is blamed."""
    [spans] = annotated(talk(1))
    bare = [replace(span, attributes={k: v for k, v in span.attributes.items() if "blame." not in k}) for span in spans]
    bare[0] = bare[0].with_attributes({words.ABSTAINED: "nobody <b>to</b> blame", words.TRACER_NAME: "x"})
    store = stored(tmp_path / "runs.db", bare)

    for path in ("/", RUN):
        page = Document((await got(store, path)).text)
        assert "nobody <b>to</b> blame" in page.text
        assert "Most to blame:" not in page.text


async def test_two_runs_are_compared(tmp_path: Path) -> None:
    """Two runs stand side by side; where they part is said."""
    store = stored(tmp_path / "runs.db", *annotated(talk(1), talk(2, ("Find it.", "12 * 3 = 36", "Right."))))
    page = Document((await got(store, f"/compare?run={1:032x}&run={2:032x}")).text)
    same = Document((await got(store, f"/compare?run={1:032x}&run={1:032x}")).text)

    assert "They part at line 1" in page.text
    assert {"12 * 3 = 35", "12 * 3 = 36"} <= set(page.parts)
    assert "Every step is the same." in same.text


async def test_run_comes_as_otlp_json(tmp_path: Path) -> None:
    """The document behind `Copy as OTLP-JSON` holds the spans as they are."""
    [spans] = annotated(talk(1, HOSTILE))
    store = stored(tmp_path / "runs.db", spans[:4], spans[4:])
    answer = await got(store, f"{RUN}.json")

    assert answer.headers["content-type"] == "application/json"
    assert list(spans_from_proto(request_from_json(answer.content.decode("ascii")).resource_spans)) == spans


async def test_trace_without_agents_says_so(tmp_path: Path) -> None:
    """Spans of other programs have a page that says what they are."""
    [spans] = annotated(talk(1))
    store = stored(tmp_path / "runs.db", [replace(spans[0], name="GET /", attributes={})])

    page = Document((await got(store, RUN)).text)
    assert "No agents took part in this trace: 1 span of team ." in page.said


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        (f"/run/{2:032x}", 404, "It may have been let go: store-max-age-s and store-max-bytes"),
        ("/run/%3Cscript%3E", 404, "No run '<script>' is stored"),
        ("/run/%00", 404, "is stored"),
        (f"/run/{2:032x}.json", 404, "is stored"),
        ("/compare?run=1", 400, "Expected two runs to compare, got 1"),
        (f"/compare?run={1:032x}&run={2:032x}", 404, "is stored"),
        ("/?after=x", 400, "expected a place as an earlier answer gave it"),
        ("/?outcome=faild", 400, "Expected the outcome to be one of succeeded, failed, unknown, got 'faild'"),
        ("/?outcome=%3Cscript%3E", 400, "got '<script>'"),
        (
            "/?agnet=solver",
            400,
            "Expected one of text, outcome, agent, mode, service, after, incident, incidents to choose runs by",
        ),
        (f"{RUN}?from=x", 400, "Expected the index of a step to show from, got 'x'"),
        (f"{RUN}?from=-1", 400, "got '-1'"),
        ("/static/../page.py", 404, "Not here"),
        ("/static/nothing.js", 404, "There is no such file"),
        ("/etc/passwd", 404, "Not here"),
    ],
)
async def test_what_is_not_there_is_said(talked: RunStore, path: str, status: int, said: str) -> None:
    """Unknown ids, let-go runs and wrong questions get a page that says so, with the way back."""
    answer = await got(talked, path)
    page = Document(answer.text)

    assert (answer.status_code, said in page.text) == (status, True), page.text
    assert "/" in page.links
    assert page.tags <= OURS


@pytest.mark.parametrize(
    ("make", "said"),
    [(make_newer, "a newer blamespan wrote it. Upgrade with: pip install"), (Path.exists, "Start blamespan collect")],
)
async def test_store_that_cannot_be_read_is_said(tmp_path: Path, make: Callable[[Path], object], said: str) -> None:
    """A store of another version, or none, is a page that says what to run."""
    make(tmp_path / "runs.db")
    answer = await got(RunStore(tmp_path / "runs.db"), "/")

    assert answer.status_code == 503
    assert said in Document(answer.text).text


async def test_hostile_text_is_only_text(tmp_path: Path) -> None:
    """Whatever a trace says, wherever it says it, the page holds no element or attribute but ours."""
    every = [
        talk(number, [*HOSTILE, text], task=text, agents=(text, *HOSTILE[:3])) for number, text in enumerate(HOSTILE, 1)
    ]
    spans = [
        [replace(span, name=text, resource={"service.name": text}).with_attributes(
            {words.EVIDENCE: text, words.ERROR_TYPE: text, words.ERROR_NAME: text, words.TRACER_VERSION: text}
        ) for span in spans]
        for text, spans in zip(HOSTILE, annotated(*every), strict=True)
    ]  # fmt: skip
    store = stored(tmp_path / "runs.db", *spans)
    paths = ["/", f"/?text={HOSTILE[0]}&agent={HOSTILE[3]}", f"/compare?run={1:032x}&run={2:032x}"]

    for path in [*paths, *(f"/run/{number:032x}" for number in range(1, len(HOSTILE) + 1))]:
        answer = await got(store, path)
        page = Document(answer.text)
        assert answer.status_code == 200
        assert page.tags <= OURS
        assert page.scripts == ["/static/page.js"]
        assert page.suspicious == []
        assert all(link.startswith(("/", "#", "?")) for link in page.links)
        assert not any(one in answer.text for one in ("\x00", "\x1b", "\u202e", "\u2066"))
    assert "<script>alert(1)</script>" in page.text
    assert "[U+202E]" in page.text


async def test_huge_texts_are_cut(tmp_path: Path) -> None:
    """Contents of a megabyte each are shown in part, with what is left out; the page stays of a size to be read."""
    store = stored(tmp_path / "runs.db", *annotated(talk(1, ["<b>" * 350_000] * 12)))
    answer = await got(store, RUN)

    assert len(answer.content) < 2_400_000
    assert "further characters stand in the OTLP-JSON" in answer.text


async def test_browsers_are_kept_strict(talked: RunStore) -> None:
    """Every answer forbids all scripts and styles but ours, and being framed, sniffed or read from elsewhere."""

    for path in ("/", RUN, f"{RUN}.json", "/static/page.css", "/nothing"):
        headers = (await got(talked, path)).headers
        assert headers["content-security-policy"] == POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert not any(name.startswith("access-control-") for name in headers)
    assert "default-src 'none'; script-src 'self'; style-src 'self';" in POLICY
    assert "unsafe" not in POLICY


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:4320", 200),
        ("localhost:4320", 200),
        ("LocalHost", 200),
        ("[::1]:4320", 200),
        ("192.168.1.7:4320", 200),
        ("runs.example:443", 200),
        ("evil.example", 421),
        ("evil.example:4320", 421),
        ("127.0.0.1.evil.example:4320", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1:4320@evil.example", 421),
    ],
)
async def test_names_of_others_are_refused(talked: RunStore, host: str, status: int) -> None:
    """A name that somebody else lets point to this machine is not answered; addresses, and names of ours, are."""
    async with asking(talked, hosts=("runs.example",)) as client:
        answer = await client.get("/", headers={"host": host})

    assert answer.status_code == status
    assert ("BLAMESPAN_PAGE_HOST" in answer.text) == (status == 421)


async def test_only_reading_is_allowed(talked: RunStore) -> None:
    """Nothing can be changed through the page."""
    async with asking(talked) as client:
        answers = [await client.request(method, "/") for method in ("POST", "PUT", "DELETE", "OPTIONS")]

    assert {answer.status_code for answer in answers} == {405}


def test_page_loads_nothing_from_elsewhere() -> None:
    """Style and script name no other place, and evaluate nothing."""
    folder = Path(page_application.__code__.co_filename).parent / "static"
    text = "".join((folder / name).read_text() for name in ("page.css", "page.js"))

    assert not any(word in text for word in ("http:", "https:", "url(", "@import", "eval(", "innerHTML", "</script"))


async def test_long_name_fits_beside_its_lane(tmp_path: Path) -> None:
    """A name that is wider than its place is drawn narrower, not cut; a short one is left as it is."""
    [spans] = annotated(talk(1, agents=("MagenticOneOrchestrator", "solver", "x" * 99)))
    answer = (await got(stored(tmp_path / "runs.db", spans), RUN)).text
    names = re.findall(r'<text x="142"([^>]*)>([^<]*)</text>', answer)

    assert [(("textLength" in attributes), name) for attributes, name in names] == [
        (True, "MagenticOneOrchestrator"),
        (False, "solver"),
        (True, "x" * 23 + "…"),
    ]
