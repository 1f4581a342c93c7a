"""Instances share nothing: with routing by trace id, three of them together do what one does alone."""

from __future__ import annotations

import random
import sys
import tomllib
import zlib
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from blamespan import conventions as words
from blamespan.otlp import request_from_json
from blamespan.spans import Span
from tests.collector.fakes import request, run
from tests.collector.test_command import finished, started

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals"),
    pytest.mark.usefixtures("own_folders"),
]

EXAMPLE = Path(__file__).parents[2] / "examples" / "scale-out"
RUNS = 60


def pieces() -> list[list[Span]]:
    """Many runs, each in three pieces, all shuffled."""
    parts = [run(number, steps=5)[start::3] for number in range(1, RUNS + 1) for start in range(3)]
    random.Random(1).shuffle(parts)
    return parts


def outputs(folder: Path, instances: int) -> list[list[bytes]]:
    """Send every piece to the instance its trace belongs to; give what each wrote, span by span."""
    paths = [folder / f"{instances}-{number}.jsonl" for number in range(instances)]
    with ExitStack() as running, httpx.Client(trust_env=False) as client:
        here = [running.enter_context(started("--out", str(path), quiet_s=30)) for path in paths]
        for piece in pieces():
            _, told = here[zlib.crc32(bytes.fromhex(piece[0].trace_id)) % instances]
            body = request(piece).SerializeToString()
            headers = {"content-type": "application/x-protobuf"}
            client.post(f"http://{told['http']}/v1/traces", content=body, headers=headers).raise_for_status()
        for process, _ in here:
            process.terminate()
        assert [process.wait(30) for process, _ in here] == [0] * instances
    return [spans_written(path) for path in paths]


def spans_written(path: Path) -> list[bytes]:
    requests = [request_from_json(line) for line in path.read_text().splitlines()]
    return [
        _sorted(span).SerializeToString(deterministic=True)
        for one in requests
        for group in one.resource_spans
        for scoped in group.scope_spans
        for span in scoped.spans
    ]


def _sorted(span: ProtoSpan) -> ProtoSpan:
    attributes = sorted(span.attributes, key=lambda item: item.key)
    del span.attributes[:]
    span.attributes.extend(attributes)
    return span


def trace_ids(spans: Sequence[bytes]) -> set[bytes]:
    return {ProtoSpan.FromString(span).trace_id for span in spans}


@pytest.mark.slow
def test_three_instances_give_what_one_gives(tmp_path: Path) -> None:
    """The union of three instances' output is a single instance's, span for span, verdicts included."""
    (alone,) = outputs(tmp_path, 1)
    first, second, third = outputs(tmp_path, 3)
    blamed = [span for span in alone if words.BLAME_DECISIVE.encode() in span]

    assert Counter(first + second + third) == Counter(alone)
    assert (len(alone), len(blamed)) == (RUNS * 6, RUNS)
    assert all(len(trace_ids(part)) > RUNS / 6 for part in (first, second, third))
    assert not trace_ids(first) & trace_ids(second) | trace_ids(second) & trace_ids(third)


def test_shipped_settings_are_settings(tmp_path: Path) -> None:
    """What the example tells each instance, `--check` finds in order, but for addresses and the folder."""
    given = tomllib.loads((EXAMPLE / "blamespan.toml").read_text())
    path = tmp_path / "blamespan.toml"
    text = (EXAMPLE / "blamespan.toml").read_text().replace("/var/lib/blamespan", str(tmp_path / "journal"))
    path.write_text(text.replace(":4317", ":0").replace(":4318", ":0"))
    done = finished("--config", str(path), "--out", str(tmp_path / "out"), "--check")

    assert done.returncode == 0, done.stderr
    assert f"quiet-s = {given['quiet-s']}" in done.stdout


def test_router_names_every_instance_of_the_set() -> None:
    """The three files agree: instances, port, settings."""
    yaml = pytest.importorskip("yaml")
    router = yaml.safe_load((EXAMPLE / "otel-collector.yaml").read_text())
    service, settings, instances = yaml.safe_load_all((EXAMPLE / "kubernetes.yaml").read_text())
    balancing = router["exporters"]["load_balancing"]
    names = [f"{instances['metadata']['name']}-{n}.{service['metadata']['name']}:4317" for n in range(3)]

    assert instances["spec"]["replicas"] == 3
    assert (balancing["routing_key"], balancing["resolver"]["static"]["hostnames"]) == ("traceID", names)
    assert [router["service"]["pipelines"][signal]["exporters"] for signal in ("traces", "logs", "metrics")] == [
        ["load_balancing"],
        ["load_balancing"],  # messages may be log records, which are judged with their trace's spans
        ["otlp/metrics"],
    ]
    assert {**tomllib.loads(settings["data"]["blamespan.toml"]), "forward": None} == {
        **tomllib.loads((EXAMPLE / "blamespan.toml").read_text()),
        "forward": None,
    }
