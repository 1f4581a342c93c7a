"""Sinks for verdicts: OTLP log events, Phoenix's span annotations, Langfuse's scores. Each is idempotent."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import SplitResult, urlsplit

import httpx
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

from blamespan import conventions as words
from blamespan.errors import ConfigError
from blamespan.evaluations import Evaluation, as_langfuse_score, as_phoenix_annotation
from blamespan.http_client import HttpResponse
from blamespan.otlp.proto import write_attributes
from blamespan.trace import AttributeValue
from blamespan_collector.delivering.backend import AttemptLimit, BackendAccess, Poster, public_name, url_parts
from blamespan_collector.delivering.forwarder import forwarder, http_failure
from blamespan_collector.delivering.sinks import Doubtful, Receipt, Refused, Remote
from blamespan_collector.settings import ListenAddress
from blamespan_collector.wire.evaluations import read_evaluations
from blamespan_collector.wire.outgoing import Kind

EVENT = "gen_ai.evaluation.result"
EVALUATION_ID = "blamespan.evaluation.id"
"""str, on the log event: the same for every revision of one evaluation, for those who read logs to keep the last."""
_VERDICTS: frozenset[Kind] = frozenset({"verdicts"})
_MAX_BYTES = 256 * 1024
_ABSENT_S = 600.0


class EvaluationLogs(Remote):
    """Sends `gen_ai.evaluation.result` events to an OTLP logs backend: the same event is the same bytes.

    Args:
        url: As for `forwarder`.
        access: How to come there.
    """

    kinds = _VERDICTS
    max_bytes = _MAX_BYTES

    def __init__(self, url: str, access: BackendAccess) -> None:
        self._logs = forwarder(url, access, ("logs",))
        self.name = f"evaluations at {self._logs.name.removesuffix('/v1/logs').removesuffix('/')}"

    def addresses(self) -> dict[Kind, str]:
        """Return where the log events go."""
        return {"verdicts": self._logs.addresses()["logs"]}

    async def probe(self, kind: Kind) -> str:
        """Send a request with nothing in it."""
        return await self._logs.probe("logs")

    async def send(self, kind: Kind, payloads: Sequence[bytes]) -> Receipt:
        """Send one log record per evaluation."""
        return await self._logs.send("logs", [_log_request(read_evaluations(payloads))])

    async def close(self) -> None:
        """Close the connections."""
        await self._logs.close()


class PhoenixAnnotations(Remote):
    """Annotates spans in Phoenix, which keeps one annotation per span, name and identifier: a revision replaces it.

    Args:
        url: Phoenix itself, e.g. `http://localhost:6006`.
        key: API key, or empty.
        access: How to come there.
    """

    kinds = _VERDICTS
    max_bytes = _MAX_BYTES

    def __init__(self, url: str, key: str, access: BackendAccess) -> None:
        parts = url_parts(url, ("http", "https"), "phoenix http://localhost:6006")
        self.name = f"phoenix at {public_name(parts)}"
        # Without `sync` Phoenix answers before it looks whether the spans are there
        self._url = f"{url.rstrip('/')}/v1/span_annotations?sync=true"
        self._limit = AttemptLimit()
        self._poster = _json_poster(parts, access, {"authorization": f"Bearer {key}"} if key else {})
        self._absent_since_s: float | None = None

    def addresses(self) -> dict[Kind, str]:
        """Return where annotations go."""
        return {"verdicts": public_name(urlsplit(self._url))}

    async def probe(self, kind: Kind) -> str:
        """Send no annotation.

        Raises:
            Undelivered: if that is not taken.
        """
        answer = await self._post({"data": []})
        if not answer.is_success:
            raise http_failure(answer)
        return f"HTTP {answer.status}"

    async def send(self, kind: Kind, payloads: Sequence[bytes]) -> Receipt:
        """Send all evaluations in one request.

        Raises:
            Doubtful: also where Phoenix does not have the spans yet.
            Refused: where it had none for ten minutes: verdicts must not fill the disk that spans need.
        """
        evaluations = read_evaluations(payloads)
        body = {"data": [as_phoenix_annotation(evaluation) for evaluation in evaluations]}
        answer = await self._post(body)
        if answer.status == 404:
            self._absent_since_s = self._absent_since_s or time.monotonic()
            if time.monotonic() - self._absent_since_s > _ABSENT_S:
                raise Refused(f"HTTP 404: for {_ABSENT_S:.0f} s it had none of the spans. Are they forwarded to it?")
            raise Doubtful("HTTP 404: it does not have the spans, or not yet")
        if not answer.is_success:
            raise http_failure(answer)
        self._absent_since_s = None
        return Receipt()

    async def close(self) -> None:
        """Close the connections."""
        await self._poster.close()

    async def _post(self, body: Any) -> HttpResponse:
        return await self._poster.request(self._limit, "POST", self._url, json.dumps(body).encode())


class LangfuseScores(Remote):
    """Scores observations in Langfuse; an id that comes again replaces its score.

    Args:
        url: Langfuse itself, e.g. `https://cloud.langfuse.com`.
        keys: Public and secret key.
        access: How to come there.

    Raises:
        ConfigError: if a key is missing.
    """

    kinds = _VERDICTS
    max_bytes = _MAX_BYTES

    def __init__(self, url: str, keys: tuple[str, str], access: BackendAccess) -> None:
        parts = url_parts(url, ("http", "https"), "langfuse https://cloud.langfuse.com")
        if not all(keys):
            raise ConfigError("expected Langfuse's keys, got none. Set LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY")
        self.name = f"langfuse at {public_name(parts)}"
        self._url = f"{url.rstrip('/')}/api/public/scores"
        self._projects = f"{url.rstrip('/')}/api/public/projects"
        self._limit = AttemptLimit()
        self._poster = _json_poster(parts, access, {}, auth=httpx.BasicAuth(*keys))

    def addresses(self) -> dict[Kind, str]:
        """Return where scores go."""
        return {"verdicts": public_name(urlsplit(self._url))}

    async def probe(self, kind: Kind) -> str:
        """Ask which project the keys are of: a score cannot be tried without being kept.

        Raises:
            Undelivered: if that is not answered.
        """
        answer = await self._poster.request(self._limit, "GET", self._projects)
        if not answer.is_success:
            raise http_failure(answer)
        return f"HTTP {answer.status}"

    async def send(self, kind: Kind, payloads: Sequence[bytes]) -> Receipt:
        """Send one request per evaluation; what went before a failure is sent again, under the same ids."""
        for evaluation in read_evaluations(payloads):
            if evaluation.score is None:
                continue  # an abstention is no score
            score = json.dumps(as_langfuse_score(evaluation)).encode()
            answer = await self._poster.request(self._limit, "POST", self._url, score)
            if not answer.is_success:
                raise http_failure(answer)
        return Receipt()

    async def close(self) -> None:
        """Close the connections."""
        await self._poster.close()


def _log_request(evaluations: Sequence[Evaluation]) -> bytes:
    request = ExportLogsServiceRequest()
    groups: dict[tuple[str, str], Any] = {}
    for evaluation in evaluations:
        if (evaluation.service, evaluation.tracer) not in groups:
            group = request.resource_logs.add()
            about = {"service.name": evaluation.service} if evaluation.service else {}
            group.resource.attributes.extend(write_attributes(about))
            scoped = group.scope_logs.add()
            scoped.scope.name, scoped.scope.version = words.VERDICT_SCOPE, evaluation.tracer.partition("/")[2]
            groups[evaluation.service, evaluation.tracer] = scoped
        groups[evaluation.service, evaluation.tracer].log_records.append(_log_record(evaluation))
    return request.SerializeToString()


def _log_record(evaluation: Evaluation) -> LogRecord:
    attributes: dict[str, AttributeValue] = {
        gen_ai_attributes.GEN_AI_EVALUATION_NAME: evaluation.name,
        gen_ai_attributes.GEN_AI_EVALUATION_EXPLANATION: evaluation.explanation,
        EVALUATION_ID: evaluation.id,
        words.TRACER_NAME: evaluation.tracer.partition("/")[0],
        words.TRACER_VERSION: evaluation.tracer.partition("/")[2],
        words.REVISION: evaluation.revision,
    }
    if evaluation.score is not None:
        attributes[gen_ai_attributes.GEN_AI_EVALUATION_SCORE_VALUE] = evaluation.score
    if evaluation.label:
        attributes[gen_ai_attributes.GEN_AI_EVALUATION_SCORE_LABEL] = evaluation.label
    return LogRecord(
        time_unix_nano=evaluation.time_ns,
        observed_time_unix_nano=evaluation.time_ns,
        severity_number=SeverityNumber.SEVERITY_NUMBER_INFO,
        event_name=EVENT,
        trace_id=bytes.fromhex(evaluation.trace_id),
        span_id=bytes.fromhex(evaluation.span_id),
        flags=1,
        attributes=write_attributes(attributes),
    )


def _json_poster(
    parts: SplitResult, access: BackendAccess, secrets: dict[str, str], auth: httpx.BasicAuth | None = None
) -> Poster:
    is_secure, is_near = parts.scheme == "https", ListenAddress(parts.hostname or "", 1).is_loopback
    if is_secure:
        access.ssl_context()  # what is wrong with it is raised now
    headers = {"user-agent": "blamespan-collector", "content-type": "application/json"}
    return Poster(headers, secrets, access, auth=auth, is_near=is_near, is_secure=is_secure)
