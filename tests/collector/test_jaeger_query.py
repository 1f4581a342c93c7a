"""The parameters of Jaeger's query API: what they mean, and what is refused."""

from __future__ import annotations

from urllib.parse import parse_qs

import pytest

from blamespan_collector.jaeger.query import (
    QueryRefused,
    TraceQuery,
    find_query,
    read_duration,
    read_trace_id,
    search_query,
)

NOW_NS = 1_700_000_000 * 10**9
DAY_NS = 86_400 * 10**9
TIMES = "&query.start_time_min=2023-11-14T22:13:20Z&query.start_time_max=2023-11-14T23:13:20.000000001%2B01:00"


def search(query: str) -> TraceQuery:
    return search_query(parse_qs(query, keep_blank_values=True), NOW_NS)


def find(query: str) -> TraceQuery:
    return find_query(parse_qs(query, keep_blank_values=True))


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("service=a", TraceQuery(NOW_NS - 2 * DAY_NS, NOW_NS, "a")),
        ("service=a&service=b&operation=", TraceQuery(NOW_NS - 2 * DAY_NS, NOW_NS, "a")),
        ("service=a&start=1000&end=2000&limit=5", TraceQuery(10**6, 2 * 10**6, "a", limit=5)),
        ("service=a&start=1000&end=2000&lookback=1h", TraceQuery(10**6, 2 * 10**6, "a")),
        ("service=a&lookback=custom&limit=99999", TraceQuery(NOW_NS - 2 * DAY_NS, NOW_NS, "a", limit=1_500)),
        ("service=a&lookback=7d", TraceQuery(NOW_NS - 7 * DAY_NS, NOW_NS, "a")),
        (
            "service=a&operation=b&minDuration=1.5ms&maxDuration=2s",
            TraceQuery(NOW_NS - 2 * DAY_NS, NOW_NS, "a", "b", {}, 1_500_000, 2 * 10**9),
        ),
        (
            'service=a&tag=error:true&tag=url:http://x&tags={"http.status_code":"500"}',
            TraceQuery(
                NOW_NS - 2 * DAY_NS,
                NOW_NS,
                "a",
                tags={"error": "true", "url": "http://x", "http.status_code": "500"},
            ),
        ),
    ],
)
def test_search_is_read_as_jaeger_reads_it(query: str, wanted: TraceQuery) -> None:
    """The first of a parameter counts; two days back is the default; durations and tags are Go's and JSON's."""
    assert search(query) == wanted


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("", TraceQuery(NOW_NS, NOW_NS + 1)),
        (
            "query.service_name=a&query.operation_name=b&query.search_depth=3&query.duration_min=1s",
            TraceQuery(NOW_NS, NOW_NS + 1, "a", "b", {}, 10**9, None, 3),
        ),
        (
            "query.service_name=old&query.serviceName=a&query.span_name=b&search_depth=3&query.searchDepth=4&durationMin=1s",
            TraceQuery(NOW_NS, NOW_NS + 1, "a", "b", {}, 10**9, None, 4),
        ),
        (
            'query.serviceName=a&query.operationName=b&query.numTraces=3&query.durationMax=1s&query.attributes={"k":"v"}',
            TraceQuery(NOW_NS, NOW_NS + 1, "a", "b", {"k": "v"}, 0, 10**9, 3),
        ),
    ],
)
def test_find_is_read_as_jaeger_reads_it(query: str, wanted: TraceQuery) -> None:
    """v3 asks in snake or camel case, with RFC 3339 times that may name a zone and nanoseconds."""
    assert find(query + TIMES) == wanted


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "parameter 'service' is required"),
        ("service=", "parameter 'service' is required"),
        ("service=a&limit=0", "unable to parse param 'limit': expected a whole number above 0, got '0'"),
        ("service=a&limit=-5", "unable to parse param 'limit'"),
        ("service=a&limit=1e3", "unable to parse param 'limit'"),
        ("service=a&limit=" + "9" * 5_000, "unable to parse param 'limit'"),
        ("service=a&limit=٣", "unable to parse param 'limit'"),
        ("service=a&start=x", "unable to parse param 'start': expected Unix time in microseconds, got 'x'"),
        ("service=a&end=1.5", "unable to parse param 'end'"),
        ("service=a&minDuration=1", "unable to parse param 'minDuration': expected a duration such as 1.2s"),
        ("service=a&minDuration=2s&maxDuration=1s", "'maxDuration' should be greater than 'minDuration'"),
        ("service=a&lookback=3years", "unable to parse param 'lookback'"),
        ("service=a&tag=error", "malformed 'tag' parameter, expecting key:value, received: 'error'"),
        ("service=a&tag=:x", "malformed 'tag' parameter"),
        ("service=a&tags=x", "malformed 'tags' parameter, cannot unmarshal JSON"),
        ("service=a&tags=[1]", "malformed 'tags' parameter"),
        ('service=a&tags={"a":1}', "malformed 'tags' parameter"),
        ("service=a&tags=" + "[" * 100_000, "malformed 'tags' parameter"),
        ("service=a" + "".join(f"&tag=k{n}:v" for n in range(21)), "expected 20 tags at most, got 21"),
    ],
)
def test_wrong_search_is_refused(query: str, said: str) -> None:
    """What is wrong is named, with what was expected and what came."""
    with pytest.raises(QueryRefused) as refused:
        search(query)

    assert said in str(refused.value)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("query.service_name=a", "query.start_time_min and query.start_time_max are required"),
        (
            "query.start_time_min=x&query.start_time_max=2023-11-14T22:13:20Z",
            "malformed parameter query.start_time_min",
        ),
        ("query.start_time_min=2023-11-14&query.start_time_max=2023-11-14T22:13:20Z", "expected a time such as 2026"),
        ("query.start_time_min=2023-99-14T22:13:20Z&query.start_time_max=2023-11-14T22:13:20Z", "start_time_min"),
        ("query.start_time_min=2023-11-14T22:13:20&query.start_time_max=2023-11-14T22:13:20Z", "start_time_min"),
        (TIMES + "&query.search_depth=x", "unable to parse param 'query.search_depth'"),
        (TIMES + "&query.duration_min=soon", "unable to parse param 'query.duration_min'"),
        (TIMES + "&query.attributes=soon", "malformed 'query.attributes' parameter"),
    ],
)
def test_wrong_find_is_refused(query: str, said: str) -> None:
    """v3 refuses likewise; both times are required there."""
    with pytest.raises(QueryRefused) as refused:
        find(query)

    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("said", "nanoseconds"),
    [
        ("0", 0),
        ("0s", 0),
        ("10ns", 10),
        ("1.5us", 1_500),
        ("2µs", 2_000),
        ("1h2m3.5s", 3_723_500_000_000),
        (".5s", 5 * 10**8),
    ],
)
def test_durations_are_read_as_go_writes_them(said: str, nanoseconds: int) -> None:
    """Units add up, fractions are exact."""
    assert read_duration(said, "x") == nanoseconds


@pytest.mark.parametrize("said", ["", "s", "1", "-1s", "1 s", "1s2", "1e9s", "∞s", "1s" * 1_000])
def test_what_is_no_duration_is_refused(said: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(QueryRefused):
        read_duration(said, "x")


@pytest.mark.parametrize(("said", "trace_id"), [("a", f"{10:032x}"), ("00AB", f"{171:032x}"), ("1" * 32, "1" * 32)])
def test_trace_ids_may_lack_leading_zeros(said: str, trace_id: str) -> None:
    """Jaeger writes ids of 64 bits with 16 digits, and people leave zeros out."""
    assert read_trace_id(said) == trace_id


@pytest.mark.parametrize("said", ["", "x", "0x1", "1" * 33, "1 ", "\uff11", "../1"])
def test_what_is_no_trace_id_is_refused(said: str) -> None:
    """Anything but up to 32 hex digits is named."""
    with pytest.raises(QueryRefused, match="cannot parse trace id: expected 1 to 32 hex digits, got"):
        read_trace_id(said)
