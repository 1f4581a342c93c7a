"""Senders: they repeat what was not answered, as OpenTelemetry's exporters do, and note what was acknowledged."""

from __future__ import annotations

import heapq
import http.client
import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import cast

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from tests.faults.ledger import Ledger
from tests.faults.traffic import Batch

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
RETRIED_CODES = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.ABORTED,
}
RETRIED_STATUSES = {408, 429, 502, 503, 504}
_ANSWER_WITHIN_S = 5.0
_LONGEST_WAIT_S = 0.4
_SENDERS = 4


class Refused(Exception):
    """The collector said that sending this again is useless: for a well-formed request, a fault of its own."""


class NoAnswer(Exception):
    """Not acknowledged; it may have been taken in nevertheless."""


class Clients:
    """Sends what `runs` makes at a steady pace from threads, to wherever the collector listens now.

    Attributes:
        ledger: The senders' books.
        refusals: What the collector refused for good, with how often.
    """

    def __init__(self, ledger: Ledger, traffic: Iterator[list[Batch]], runs_per_s: float) -> None:
        self.ledger = ledger
        self._traffic = traffic
        self._every_s = 1 / runs_per_s
        self._addresses: dict[str, str] = {}
        self._waiting: list[tuple[float, int, Batch]] = []
        self._numbers = itertools.count()
        self._lock = threading.Condition()
        self._making = True
        self._sending = 0
        self._ended = False
        self.refusals = Counter[str]()
        work = [self._make, *[self._send] * _SENDERS]
        self._threads = [threading.Thread(target=one, daemon=True) for one in work]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def point_to(self, addresses: dict[str, str]) -> None:
        """Send to `http` and `grpc` of *addresses* from now on."""
        with self._lock:
            self._addresses = addresses

    def finish(self, within_s: float) -> bool:
        """Begin nothing new; wait until all is answered. False where it was not in time."""
        with self._lock:
            self._making = False
            return self._lock.wait_for(lambda: not self._waiting and not self._sending, within_s)

    def stop(self) -> None:
        with self._lock:
            self._making, self._ended = False, True
            self._lock.notify_all()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(10)

    def _make(self) -> None:
        for batches in self._traffic:
            with self._lock:
                if not self._making:
                    return
                now_s = time.monotonic()
                for batch in batches:
                    self._put(batch, now_s + batch.after_s)
            time.sleep(self._every_s)

    def _put(self, batch: Batch, at_s: float) -> None:
        heapq.heappush(self._waiting, (at_s, next(self._numbers), batch))
        self._lock.notify()

    def _next(self) -> Batch | None:
        with self._lock:
            while not self._ended:
                now_s = time.monotonic()
                if self._waiting and self._waiting[0][0] <= now_s:
                    self._sending += 1
                    return heapq.heappop(self._waiting)[2]
                self._lock.wait(self._waiting[0][0] - now_s if self._waiting else None)
        return None

    def _send(self) -> None:
        connection = _Connection()
        while (batch := self._next()) is not None:
            again_s = self._attempt(connection, batch)
            with self._lock:
                if again_s is not None:
                    self._put(batch, time.monotonic() + again_s)
                self._sending -= 1
                self._lock.notify_all()
        connection.close()

    def _attempt(self, connection: _Connection, batch: Batch) -> float | None:
        """Send once. Returns after how many seconds to try again, None where that is done with."""
        if not batch.attempts:
            self.ledger.send(batch.body)
        batch.attempts += 1
        try:
            connection.send(batch, self._addresses)
        except NoAnswer:
            return min(_LONGEST_WAIT_S, 0.05 * 2**batch.attempts) if batch.patient else None
        except Refused as refusal:
            self.refusals[str(refusal)] += 1
            return None
        self.ledger.acknowledge(batch.keys)
        return None


class _Connection:
    """One sender's own connections, made anew when the collector comes back elsewhere."""

    def __init__(self) -> None:
        self._addresses: dict[str, str] = {}
        self._http: http.client.HTTPConnection | None = None
        self._channel: grpc.Channel | None = None

    def send(self, batch: Batch, addresses: dict[str, str]) -> None:
        """Send and wait for the answer.

        Raises:
            NoAnswer: if it was not acknowledged and may be sent again.
            Refused: if it may not.
        """
        if not addresses:
            raise NoAnswer
        if addresses is not self._addresses:
            self.close()
            self._addresses = addresses
        if batch.over_grpc:
            self._over_grpc(batch.body)
        else:
            self._over_http(batch.body)

    def close(self) -> None:
        if self._http:
            self._http.close()
        if self._channel:
            self._channel.close()
        self._http = self._channel = None

    def _over_http(self, body: bytes) -> None:
        if self._http is None:
            self._http = http.client.HTTPConnection(self._addresses["http"], timeout=_ANSWER_WITHIN_S)
        try:
            self._http.request("POST", "/v1/traces", body, {"content-type": "application/x-protobuf"})
            answer = self._http.getresponse()
            said = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._http.close()
            raise NoAnswer from error
        if answer.status in RETRIED_STATUSES:
            raise NoAnswer
        if answer.status != 200:
            raise Refused(f"HTTP {answer.status}: {said[:300]!r}")
        _check(ExportTraceServiceResponse.FromString(said))

    def _over_grpc(self, body: bytes) -> None:
        if self._channel is None:
            self._channel = grpc.insecure_channel(
                self._addresses["grpc"], options=[("grpc.use_local_subchannel_pool", 1)]
            )
        try:
            said = self._channel.unary_unary(EXPORT)(body, timeout=_ANSWER_WITHIN_S)
        except grpc.RpcError as error:
            call = cast(grpc.Call, error)
            if call.code() in RETRIED_CODES:
                raise NoAnswer from error
            raise Refused(f"gRPC {call.code().name}: {str(call.details())[:300]}") from error
        _check(ExportTraceServiceResponse.FromString(said))


def _check(answer: ExportTraceServiceResponse) -> None:
    if answer.partial_success.rejected_spans:
        raise Refused(f"partial success: {answer.partial_success.error_message[:300]}")
