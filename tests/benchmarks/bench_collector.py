"""How fast `blamespan collect` takes spans in: run it, read the figures. Not collected by pytest.

    PYTHONPATH=. python tests/benchmarks/bench_collector.py [--protocol http|grpc] [--spans-per-s 1000]

A collector in a process of its own, with a tracer that costs nothing, writing to a file; senders in this
process, each waiting for the answer to one request before the next. A trace has 12 spans of about 1 KB of
content each; a request holds 10 traces.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import re
import resource
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import click
import grpc
import grpc.aio
import httpx
from tests.collector.fakes import request, run

ROOT = Path(__file__).parents[2]
MAIN = """
    import resource, sys
    import blamespan_collector.command as command
    from tests.collector.fakes import FirstStepTracer
    command.load_tracer = lambda name: FirstStepTracer()
    try:
        command.collect()
    finally:
        print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, file=sys.stderr)
"""
TRACES_PER_REQUEST = 10
SPANS_PER_TRACE = 12
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--protocol", choices=["http", "grpc"], default="http")
    parser.add_argument("--content-bytes", type=int, default=1024)
    parser.add_argument("--spans-per-s", type=float, default=0, help="send no faster than this")
    arguments = parser.parse_args()
    bodies = _bodies(200, arguments.content_bytes)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "traces.jsonl"
        process, told = _started(out)
        began = time.perf_counter()
        latencies = asyncio.run(_send_all(told, arguments, bodies))
        took_s = time.perf_counter() - began
        process.terminate()
        _, said = process.communicate(timeout=60)
        drained_s = time.perf_counter() - began - took_s
        lines = sum(1 for _ in out.open("rb"))
    spans = len(latencies) * TRACES_PER_REQUEST * SPANS_PER_TRACE
    latencies.sort()
    click.echo(
        f"protocol {arguments.protocol}, {arguments.connections} connections, "
        f"{TRACES_PER_REQUEST * SPANS_PER_TRACE} spans and {len(bodies[0]) // 1024} KiB a request"
    )
    click.echo(f"spans/s acknowledged   {spans / took_s:>10.0f}")
    click.echo(f"ack p50 / p99 ms       {_at(latencies, 0.5):>10.1f} / {_at(latencies, 0.99):.1f}")
    click.echo(f"traces sent / written  {len(latencies) * TRACES_PER_REQUEST:>10} / {lines}")
    click.echo(f"drained after stop, s  {drained_s:>10.1f}, exit code {process.returncode}")
    click.echo(f"collector peak RSS MiB {''.join(re.findall(r'peak (.*)', said)):>10}")
    click.echo(f"sender peak RSS MiB    {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024:>10}")


def _bodies(count: int, content_bytes: int) -> list[bytes]:
    """Make requests that differ from each other; each sender patches their ids before it sends them again."""
    numbers = itertools.count(1)
    return [
        request(
            [
                span
                for _ in range(TRACES_PER_REQUEST)
                for span in run(next(numbers), steps=SPANS_PER_TRACE - 1, content="x" * content_bytes)
            ]
        ).SerializeToString()
        for _ in range(count)
    ]


def _started(out: Path) -> tuple[subprocess.Popen[str], dict[str, str]]:
    arguments = ["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--out", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(MAIN), *arguments], stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stderr
    return process, dict(re.findall(r"(\w+)=(\S+)", process.stderr.readline()))


async def _send_all(told: dict[str, str], arguments: Any, bodies: list[bytes]) -> list[float]:
    until = time.perf_counter() + arguments.seconds
    rounds = itertools.count()
    async with (
        httpx.AsyncClient(base_url=f"http://{told['http']}", trust_env=False, timeout=60) as client,
        grpc.aio.insecure_channel(told["grpc"]) as channel,
    ):
        export = channel.unary_unary(EXPORT)

        async def over_http(body: bytes) -> None:
            answer = await client.post("/v1/traces", content=body, headers={"content-type": "application/x-protobuf"})
            assert answer.status_code in (200, 503), answer.text

        async def over_grpc(body: bytes) -> None:
            await export(body)

        send: Callable[[bytes], Awaitable[None]] = over_http if arguments.protocol == "http" else over_grpc
        per_request = TRACES_PER_REQUEST * SPANS_PER_TRACE
        every_s = per_request * arguments.connections / arguments.spans_per_s if arguments.spans_per_s else 0.0
        senders = (_send(send, bodies, rounds, until, every_s) for _ in range(arguments.connections))
        return [latency for one in await asyncio.gather(*senders) for latency in one]


async def _send(
    send: Callable[[bytes], Awaitable[None]],
    bodies: list[bytes],
    rounds: itertools.count[int],
    until: float,
    every_s: float,
) -> list[float]:
    latencies: list[float] = []
    while time.perf_counter() < until:
        number = next(rounds)
        body = _renamed(bodies[number % len(bodies)], number // len(bodies))
        began = time.perf_counter()
        await send(body)
        latencies.append(time.perf_counter() - began)
        await asyncio.sleep(max(0.0, every_s - latencies[-1]))
    return latencies


def _renamed(body: bytes, generation: int) -> bytes:
    """Give all traces of a request new ids: theirs begin with zeros, so eight bytes of those are replaced."""
    return body.replace(b"\x0a\x10" + bytes(8), b"\x0a\x10" + generation.to_bytes(8, "big")) if generation else body


def _at(latencies: list[float], share: float) -> float:
    return latencies[min(len(latencies) - 1, int(share * len(latencies)))] * 1000


if __name__ == "__main__":
    main()
