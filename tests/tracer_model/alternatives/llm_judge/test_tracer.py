"""A judge before a real server in a process of its own, which answers well, badly, late or not at all."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from tests.tracer_model.alternatives.llm_judge.serving import SUM, WRONG, judge, run, runs, served, verdict

GOOD = {"say": verdict()}


def reason(*answers: dict[str, Any], **more: Any) -> str:
    """Have the run judged before these answers; gives why there is no verdict, or the step that is blamed."""
    with served(*answers) as server:
        [found] = judge(server.url, **more).attribute([SUM])
    return found.abstained or f"step {found.decisive_step}"


def test_judge_alone_finds_the_step() -> None:
    """Without an embedded tracer the answer is the verdict: the step, with its mode and its words."""
    with served({"find": WRONG}) as server:
        [found] = judge(server.url).attribute([SUM])

    assert (found.abstained, found.decisive_step, found.agents[0].agent) == (None, 2, "solver")
    assert [(str(each.mode), each.agent) for each in found.modes] == [("mast:FM-2.6", "solver")]
    assert [(each.index, each.quote) for each in found.evidence] == [(2, WRONG)]


def test_nobody_at_fault_is_an_abstention() -> None:
    """Where the judge finds nothing, nobody is blamed, and the score says how sure it is."""
    with served({"find": "nothing like it"}) as server:
        [found] = judge(server.url).attribute([SUM])

    assert found.abstained == "the judge names no agent at fault (failure score 0.10)"
    assert (found.failure_score, found.decisive_step) == (pytest.approx(0.1), None)


@pytest.mark.parametrize("asked_for", ["1", "date"])
def test_server_says_when_to_ask_again(asked_for: str) -> None:
    """Seconds or a date: not before."""
    said = formatdate(time.time() + 2, usegmt=True) if asked_for == "date" else asked_for
    began_s = time.monotonic()

    assert reason({"status": 429, "headers": {"retry-after": said}}, GOOD) == "step 2"
    assert time.monotonic() - began_s > 0.9


def test_suspects_share_the_blame() -> None:
    """Each suspect's share is its weight among all; the fewest that reach 80 % are the step set."""
    answer = verdict()
    answer["suspects"] += [verdict(1, "planner", confidence=0.3, quote="")["suspects"][0]]
    with served({"say": answer}) as server:
        [found] = judge(server.url).attribute([SUM])

    assert [round(each.score, 2) for each in found.steps] == [0, 0.25, 0.75, 0, 0]
    assert (found.step_set, found.failure_score) == ((1, 2), 0.8)


def test_quote_must_stand_in_the_step() -> None:
    """Invented words are left out; blanks may differ, and what stands there is given."""
    twisted = verdict(quote="12  times\n4 is 84")
    with served({"say": verdict(quote="12 times 4 is 85")}, {"say": twisted}) as server:
        tracer = judge(server.url, concurrency=1)
        invented, found = tracer.attribute(runs(2))

    assert ([each.quote for each in invented.evidence], [each.quote for each in found.evidence]) == ([], [WRONG])


@pytest.mark.parametrize(
    "trouble",
    [
        {"status": 429, "headers": {"retry-after": "0"}},
        {"status": 500, "body": "<html>oops</html>"},
        {"drop": True},
        {"say": "Ich denke, es war der Rechner."},
        {"say": json.dumps(verdict())[:60]},
        {"say": verdict(2, "calculator")},
        {"say": {}},
        {**GOOD, "finish": "length"},
        {**GOOD, "pad": 1_100_000},
    ],
    ids=lambda each: json.dumps(each)[:24],
)
def test_passing_trouble_is_asked_again(trouble: dict[str, Any]) -> None:
    """Rate limits, broken servers, nonsense, other languages, invented agents, cut and huge answers: once more."""
    assert reason(trouble, GOOD) == "step 2"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"status": 500}, "the judge did not answer: HTTP 500"),
        ({"status": 307}, "the judge did not answer: HTTP 307, check BLAMESPAN_JUDGE_URL"),
        (
            {"status": 400, "body": '{"error": {"message": "At most 8192 tokens,\\u001b[2J not 9000: long-secret"}}'},
            "the judge did not answer: HTTP 400 (At most 8192 tokens,[2J not 9000: ...)",
        ),
        ({"status": 401, "body": '{"error": {"message": "Wrong key sk-12"}}'}, "HTTP 401, check BLAMESPAN_JUDGE_KEY"),
        ({"status": 404}, "HTTP 404, check BLAMESPAN_JUDGE_URL and BLAMESPAN_JUDGE_MODEL"),
        ({"key": "another"}, "HTTP 401, check BLAMESPAN_JUDGE_KEY"),
        ({"drop": True}, "the judge did not answer: RemoteProtocolError"),
        ({"say": "The solver."}, "the judge's answer does not count: it is not one JSON object"),
        ({"say": verdict(9)}, "the judge's answer does not count: it names step 9, which it was not shown"),
        ({"say": verdict(2, "abacus")}, "it names 'abacus' for step 2, which is another agent's"),
        ({"say": verdict("zwei")}, "'step' must be the number of one step, got 'zwei'"),
        ({"status": 200, "body": "{}"}, "the judge's answer does not count: it is empty"),
    ],
)
def test_what_stays_wrong_is_an_abstention_with_its_reason(answer: dict[str, Any], said: str) -> None:
    """No answer that counts means no verdict, and why: on one line, and without the key."""
    assert said in reason(answer, key="long-secret")


@pytest.mark.parametrize("answer", [{"say": verdict(agent=None)}, {"say": verdict("2")}])
def test_odd_but_plain_answers_count(answer: dict[str, Any]) -> None:
    """A step without its agent, a number as text."""
    assert reason(answer) == "step 2"


@pytest.mark.parametrize("names", [True, False])
def test_server_that_takes_no_schema_is_asked_without(names: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Its refusal is met once, said once, and its answers are read as strictly; named or not makes no difference."""
    refuses = {**GOOD, "refuses": ["response_format"], "names": names}
    with served(refuses) as server, caplog.at_level(logging.WARNING):
        found = judge(server.url, concurrency=1).attribute(runs(3))
        asked = server.asked()

    assert [each.decisive_step for each in found] == [2, 2, 2]
    assert [("response_format" in body) for _, _, body in asked[-3:]] == [False] * 3
    assert len(asked) == (4 if names else 6)
    assert len([each for each in caplog.messages if "asked without response_format" in each]) == 1


def test_newer_word_for_the_most_tokens_is_found(caplog: pytest.LogCaptureFixture) -> None:
    """Where `max_tokens` is refused, answers are bounded by `max_completion_tokens`, and nothing is lost."""
    with served({**GOOD, "refuses": ["max_tokens"]}) as server, caplog.at_level(logging.WARNING):
        [found] = judge(server.url, answer_tokens=500).attribute([SUM])
        asked = [body for _, _, body in server.asked()]

    assert found.decisive_step == 2
    assert [(each.get("max_tokens"), each.get("max_completion_tokens")) for each in asked] == [(500, None), (None, 500)]
    assert caplog.messages == []


def test_refusal_of_one_question_costs_no_feature() -> None:
    """A run that the server calls a bad question is refused; the next one is asked with everything again."""
    with served(*[{"status": 400}] * 4, GOOD) as server:
        first, second = judge(server.url, concurrency=1).attribute(runs(2))
        asked = server.asked()

    assert (first.abstained, second.decisive_step) == ("the judge did not answer: HTTP 400", 2)
    assert {"max_tokens", "temperature", "response_format"} <= set(asked[-1][2])


def test_nobody_there_is_said_and_not_waited_for() -> None:
    """Where nothing listens, twenty runs go without a verdict after the attempts of a few."""
    tracer = judge("http://127.0.0.1:9/v1", concurrency=1)

    found = tracer.attribute(runs(20))

    assert {each.abstained for each in found} == {"the judge did not answer: ConnectError, check BLAMESPAN_JUDGE_URL"}
    assert "; 12 attempts that came to nothing;" in tracer.account


def test_wrong_key_is_asked_once() -> None:
    """A key that is refused is not tried on every run."""
    with served({"status": 401}) as server:
        found = judge(server.url, concurrency=1).attribute(runs(20))
        asked = server.asked()

    assert (len(asked), {each.abstained for each in found}) == (
        1,
        {"the judge did not answer: HTTP 401, check BLAMESPAN_JUDGE_KEY"},
    )


def test_deadline_holds_for_all_runs_together() -> None:
    """A call comes back when its time is over: what is not judged by then says so."""
    began_s = time.monotonic()
    with served({**GOOD, "wait_s": 100}) as server:
        found = judge(server.url, concurrency=2, deadline_s=0.5).attribute(runs(6))

    assert time.monotonic() - began_s < 90
    assert {each.abstained for each in found} <= {
        "the judge did not answer: timeout",
        "the judge's time was over before it could answer",
    }
    assert found[-1].abstained == "the judge's time was over before it could answer"


def test_dripping_headers_do_not_stretch_the_deadline() -> None:
    """A server that keeps sending a little, before any body, is waited for no longer than one that sends nothing."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        threading.Thread(target=drip, args=(listening,), daemon=True).start()
        began_s = time.monotonic()
        [found] = judge(f"http://127.0.0.1:{listening.getsockname()[1]}/v1", deadline_s=0.7).attribute([SUM])

    assert time.monotonic() - began_s < 30
    assert found.abstained is not None


def drip(listening: socket.socket) -> None:
    with suppress(OSError):
        answering, _ = listening.accept()
        with answering:
            answering.recv(65_536)
            for byte in b"HTTP/1.1 200 OK\r\nx: " + b"y" * 600:
                answering.send(bytes([byte]))
                time.sleep(0.2)


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        ({"budget_tokens": 13_000}, "the budget of 13,000 tokens is spent"),
        ({"budget_money": 0.013, "price": (1e-6, 1e-6)}, "the budget of 0.013 is spent"),
    ],
)
def test_budget_is_never_passed(budget: dict[str, Any], said: str) -> None:
    """What a question may cost at most must be left; the rest of the runs say that it is not."""
    usage = {"prompt_tokens": 2_000, "completion_tokens": 3_000}
    with served({**GOOD, "usage": usage}) as server:
        tracer = judge(server.url, answer_tokens=4_000, **budget)
        found = tracer.attribute(runs(6))
        n_asked = len(server.asked())

    assert 0 < n_asked * 5_000 <= 13_000
    assert [each.abstained for each in found].count(said) == 6 - n_asked


def test_server_that_counts_nothing_is_counted_by_estimate() -> None:
    """Without usage figures a question costs what was estimated, and the account says so."""
    with served({**GOOD, "usage": None}) as server:
        tracer = judge(server.url, budget_tokens=1_000_000)
        tracer.attribute([SUM])

    assert "tokens asked and 4,096 answered" in tracer.account
    assert "of them estimated" in tracer.account


def test_questions_go_out_side_by_side_but_not_more_than_allowed() -> None:
    """As many runs are asked about at once as are allowed, and never more."""
    with served({**GOOD, "together": 3, "wait_s": 0.1}) as server:
        judge(server.url, concurrency=3).attribute(runs(7))
        server.asked()

    assert server.most_at_once == 3


def test_verdicts_come_in_the_order_of_the_runs() -> None:
    """However answers overtake each other, each run gets its own."""
    with served({**GOOD, "wait_s": 0.2}, GOOD) as server:
        found = judge(server.url, concurrency=8).attribute(runs(8))

    assert [each.trace_id for each in found] == [f"{number:032x}" for number in range(1, 9)]


def test_kept_answers_are_not_paid_for_again(tmp_path: Path) -> None:
    """The same question to the same model is answered from disk; another taxonomy, model or run is not."""
    with served({"find": WRONG}) as server:
        first, second = (judge(server.url, cache=tmp_path) for _ in range(2))
        one, other = first.attribute([SUM]), second.attribute([SUM])
        judge(server.url, cache=tmp_path, taxonomy="aegis").attribute([SUM])
        asked = server.asked()

    assert one == other
    assert "0 questions to small; 1 answered from the cache" in second.account
    assert len(asked) == 2
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.rglob("*.json"))


@pytest.mark.parametrize("content", ["", "{", "[]", '{"text": 5}', '{"text": "x"}'])
def test_damaged_answer_is_asked_again(tmp_path: Path, content: str) -> None:
    """A kept answer that cannot be read is as good as none, and is written anew."""
    with served(GOOD) as server:
        judge(server.url, cache=tmp_path).attribute([SUM])
        [kept] = tmp_path.rglob("*.json")
        kept.write_text(content)
        [found] = judge(server.url, cache=tmp_path).attribute([SUM])

    assert (found.decisive_step, "0.9" in kept.read_text()) == (2, True)


def test_nonsense_is_not_kept(tmp_path: Path) -> None:
    """What could not be read today may be answered tomorrow."""
    with served({"say": "?"}) as server:
        judge(server.url, cache=tmp_path).attribute([SUM])

    assert list(tmp_path.rglob("*.json")) == []


def test_cache_that_cannot_be_written_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A file where the folder should be: it is said once, and the verdicts come."""
    (tmp_path / "taken").write_text("")
    with served(GOOD) as server:
        found = judge(server.url, cache=tmp_path / "taken", concurrency=1).attribute(runs(3))

    assert [each.decisive_step for each in found] == [2, 2, 2]
    assert len([each for each in caplog.messages if "answers are not kept" in each]) == 1


def test_one_folder_serves_many_at_once(tmp_path: Path) -> None:
    """Judges that write the same answers side by side leave whole ones and nothing else."""
    with served(GOOD) as server, ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: judge(server.url, cache=tmp_path).attribute(runs(6)), range(4)))

    assert all(each == found[0] for each in found)
    assert len(list(tmp_path.rglob("*.json"))) == 6
    assert list(tmp_path.rglob(".new-*")) == []


def test_run_without_anybody_to_blame_is_not_asked_about() -> None:
    """Nobody pays for a question that has no answer."""
    with served(GOOD) as server:
        [found] = judge(server.url).attribute([run([("user", "Hello?")])])
        asked = server.asked()

    assert (found.abstained, asked) == ("no step is an agent's decision: there is nobody to blame", [])


def test_no_run_is_no_question() -> None:
    """An empty batch is answered at once."""
    assert judge("http://127.0.0.1:9/v1").attribute([]) == []
