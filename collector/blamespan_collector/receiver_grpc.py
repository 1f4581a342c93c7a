"""OTLP over gRPC: the `TraceService`."""

from __future__ import annotations

import grpc
import grpc.aio
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from blamespan.annotate import cut
from blamespan.errors import MalformedSpan
from blamespan_collector.intake import Busy, Intake
from blamespan_collector.settings import Address, CannotListen

__all__ = ["GrpcReceiver"]

_SERVICE = "opentelemetry.proto.collector.trace.v1.TraceService"
_CONCURRENT_REQUESTS = 128
"""More are refused with RESOURCE_EXHAUSTED, which exporters retry: each holds its whole message in memory."""


class GrpcReceiver:
    """Serves OTLP's `TraceService` on one address.

    Bodies are parsed by us rather than by gRPC, which would answer a malformed one with INTERNAL and no
    reason. Compression and the size limit (RESOURCE_EXHAUSTED, also while inflating) are gRPC's.

    Args:
        intake: Gets the bodies.
        address: Where to listen; port 0 for any free one.
        max_request_bytes: Largest message taken, after decompression.

    Raises:
        CannotListen: if the address cannot be listened on.
    """

    def __init__(self, intake: Intake, address: Address, max_request_bytes: int) -> None:
        self._intake = intake
        self._server = grpc.aio.server(
            maximum_concurrent_rpcs=_CONCURRENT_REQUESTS,
            options=[
                ("grpc.max_receive_message_length", max_request_bytes),
                ("grpc.so_reuseport", 0),  # a second collector on this port must fail, not steal half the spans
            ],
        )
        export = grpc.unary_unary_rpc_method_handler(
            self._export, response_serializer=ExportTraceServiceResponse.SerializeToString
        )
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, {"Export": export}),))
        self.address = Address(address.host, self._bound(address))

    async def start(self) -> None:
        """Begin to answer."""
        await self._server.start()

    async def stop(self) -> None:
        """Finish the requests that are being read and stop listening."""
        await self._server.stop(grace=2)

    def _bound(self, address: Address) -> int:
        try:
            port = self._server.add_insecure_port(str(address))
        except RuntimeError:
            port = 0
        if not port:
            raise CannotListen(
                f"cannot listen for OTLP/gRPC on {address}: the port is taken or the host is not ours. "
                f"Stop what listens on port {address.port}, or choose another with --grpc {address.host}:PORT"
            )
        return port

    async def _export(
        self, body: bytes, context: grpc.aio.ServicerContext[bytes, ExportTraceServiceResponse]
    ) -> ExportTraceServiceResponse:
        try:
            return await self._intake.take(body, "protobuf")
        except MalformedSpan as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, cut(str(error), 1000))
        except Busy as busy:
            info = RetryInfo(retry_delay=Duration(seconds=busy.retry_after_s))
            context.set_trailing_metadata((("google.rpc.retryinfo-bin", info.SerializeToString()),))
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(busy))
        raise AssertionError("abort() raises")
