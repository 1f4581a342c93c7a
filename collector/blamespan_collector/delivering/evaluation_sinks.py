"""Sinks for verdicts: OTLP log events, Phoenix's span annotations, Langfuse's scores. Each is idempotent."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import httpx
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

from blamespan import conventions as words
from blamespan.errors import ConfigError
from blamespan.evaluations import Evaluation, as_langfuse_score, as_phoenix_annotation
from blamespan.otlp.proto import write_attributes
from blamespan.trace import AttributeValue
from blamespan_collector.delivering.evaluations import read_evaluations
from blamespan_collector.delivering.forwarder import (
    ATTEMPT_TIMEOUT_S,
    Client,
    forwarder,
    public_name,
    undelivered,
    url_parts,
)
from blamespan_collector.delivering.sinks import Doubtful, Receipt, Refused, Sink, Stateless, TryAgain
from blamespan_collector.worker.state import Kind

__all__ = ["EvaluationLogs", "LangfuseScores", "PhoenixAnnotations"]

EVENT = "gen_ai.evaluation.result"
EVALUATION_ID = "blamespan.evaluation.id"
"""str, on the log event: the same for every revision of one evaluation, for those who read logs to keep the last."""
_VERDICTS: frozenset[Kind] = frozenset({"verdicts"})
_MAX_BYTES = 256 * 1024
_ABSENT_S = 600.0


class EvaluationLogs(Stateless):
    """Sends `gen_ai.evaluation.result` events to an OTLP logs backend: the same event is the same bytes.

    Args:
        url: As for `forwarder`.
        client: How to come there.
    """

    kinds = _VERDICTS
    max_bytes = _MAX_BYTES

    def __init__(self, url: str, client: Client) -> None:
        self._logs: Sink = forwarder(url.removesuffix("/v1/logs"), client, ("logs",))
        self.name = f"evaluations at {self._logs.name.removesuffix('/')}"

    async def send(self, kind: Kind, payloads: Sequence[bytes]) -> Receipt:
        """Send one log record per evaluation."""
        return await self._logs.send("logs", [_log_request(read_evaluations(payloads))])

    async def close(self) -> None:
        """Close the connections."""
        await self._logs.close()


class PhoenixAnnotations(Stateless):
    """Annotates spans in Phoenix, which keeps one annotation per span, name and identifier: a revision replaces it.

    Args:
        url: Phoenix itself, e.g. `http://localhost:6006`.
        key: API key, or empty.
        client: How to come there.
    """

    kinds = _VERDICTS
    max_bytes = _MAX_BYTES

    def __init__(self, url: str, key: str, client: Client) -> None:
        parts = url_parts(url, ("http", "https"), "--phoenix http://localhost:6006")
        self.name = f"phoenix at {public_name(parts)}"
        # Without `sync` Phoenix answers before it looks whether the spans are there
        self._url = f"{url.rstrip('/')}/v1/span_annotations?sync=true"
        self._client = _json_client(client, {"authorization": f"Bearer {key}"} if key else {}, parts.scheme)
        self._absent_since_s: float | None = None

    async def send(self, kind: Kind, payloads: Sequence[bytes]) -> Receipt:
        """Send all evaluations in one request.

        Raises:
            Doubtful: also where Phoenix does not have the spans yet.
            Refused: where it had none for ten minutes: verdicts must not fill the disk that spans need.
        """
        found = read_evaluations(payloads)
        body = {"data": [as_phoenix_annotation(one) for one in found]}
        answer = await _post(self._client, self._url, body)
        if answer.status_code == 404:
            self._absent_since_s = self._absent_since_s or time.monotonic()
            if time.monotonic() - self._absent_since_s > _ABSENT_S:
                raise Refused(f"HTTP 404: for {_ABSENT_S:.0f} s it had none of the spans. Are they forwarded to it?")
            raise Doubtful("HTTP 404: it does not have the spans, or not yet")
        if not answer.is_success:
            raise undelivered(answer)
        self._absent_since_s = None
        return Receipt()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


class LangfuseScores(Stateless):
    """Scores observations in Langfuse; an id that comes again replaces its score.

    Args:
        url: Langfuse itself, e.g. `https://cloud.langfuse.com`.
        keys: Public and secret key.
        client: How to come there.

    Raises:
        ConfigError: if a key is missing.
    """

    kinds = _VERDICTS
    max_bytes = _MAX_BYTES

    def __init__(self, url: str, keys: tuple[str, str], client: Client) -> None:
        parts = url_parts(url, ("http", "https"), "--langfuse https://cloud.langfuse.com")
        if not all(keys):
            raise ConfigError("expected Langfuse's keys, got none. Set LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY")
        self.name = f"langfuse at {public_name(parts)}"
        self._url = f"{url.rstrip('/')}/api/public/scores"
        self._client = _json_client(client, {}, parts.scheme, auth=httpx.BasicAuth(*keys))

    async def send(self, kind: Kind, payloads: Sequence[bytes]) -> Receipt:
        """Send one request per evaluation; what went before a failure is sent again, under the same ids."""
        for one in read_evaluations(payloads):
            if one.score is None:
                continue  # an abstention is no score
            answer = await _post(self._client, self._url, as_langfuse_score(one))
            if not answer.is_success:
                raise undelivered(answer)
        return Receipt()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def _log_request(found: Sequence[Evaluation]) -> bytes:
    request = ExportLogsServiceRequest()
    groups: dict[tuple[str, str], Any] = {}
    for one in found:
        if (one.service, one.tracer) not in groups:
            group = request.resource_logs.add()
            group.resource.attributes.extend(write_attributes({"service.name": one.service} if one.service else {}))
            scoped = group.scope_logs.add()
            scoped.scope.name, scoped.scope.version = words.VERDICT_SCOPE, one.tracer.partition("/")[2]
            groups[one.service, one.tracer] = scoped
        groups[one.service, one.tracer].log_records.append(_log_record(one))
    return request.SerializeToString()


def _log_record(one: Evaluation) -> LogRecord:
    said: dict[str, AttributeValue] = {
        gen_ai_attributes.GEN_AI_EVALUATION_NAME: one.name,
        gen_ai_attributes.GEN_AI_EVALUATION_EXPLANATION: one.explanation,
        EVALUATION_ID: one.id,
        words.TRACER_NAME: one.tracer.partition("/")[0],
        words.TRACER_VERSION: one.tracer.partition("/")[2],
        words.REVISION: one.revision,
    }
    if one.score is not None:
        said[gen_ai_attributes.GEN_AI_EVALUATION_SCORE_VALUE] = one.score
    if one.label:
        said[gen_ai_attributes.GEN_AI_EVALUATION_SCORE_LABEL] = one.label
    return LogRecord(
        time_unix_nano=one.time_ns,
        observed_time_unix_nano=one.time_ns,
        severity_number=SeverityNumber.SEVERITY_NUMBER_INFO,
        event_name=EVENT,
        trace_id=bytes.fromhex(one.trace_id),
        span_id=bytes.fromhex(one.span_id),
        flags=1,
        attributes=write_attributes(said),
    )


def _json_client(
    client: Client, headers: dict[str, str], scheme: str, auth: httpx.BasicAuth | None = None
) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        headers={"user-agent": "blamespan-collector", **headers},
        auth=auth,
        timeout=ATTEMPT_TIMEOUT_S,
        verify=client.ssl_context() if scheme == "https" else False,
        trust_env=scheme == "https",
    )


async def _post(client: httpx.AsyncClient, url: str, body: Any) -> httpx.Response:
    try:
        return await client.post(url, json=body)
    except httpx.TransportError as error:
        raise TryAgain(f"{type(error).__name__}: {error}") from error
    except httpx.HTTPError as error:
        raise Refused(f"{type(error).__name__}: {error}") from error
