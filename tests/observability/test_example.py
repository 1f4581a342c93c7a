"""What the files of examples/observability say of each other is true."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from blamespan.conventions import BLAME_AGENT, BLAME_DECISIVE, ERROR_MODE, ERROR_TAXONOMY, VERDICT
from tests.collector.test_options import settings
from tests.observability.example import DASHBOARDS, EXAMPLE, dashboards, links, panels, queries
from tests.reference import write_metrics

yaml = pytest.importorskip("yaml")


def read(path: str) -> Any:
    return yaml.safe_load((EXAMPLE / path).read_text())


def services() -> dict[str, Any]:
    found: dict[str, Any] = read("compose.yaml")["services"]
    return found


def sources() -> dict[str, dict[str, Any]]:
    return {one["type"]: one for one in read("grafana/provisioning/datasources/blamespan.yaml")["datasources"]}


def published(service: dict[str, Any]) -> dict[int, int]:
    """Give the ports of a service that this machine reaches, by the port inside."""
    ports = [port.split(":") for port in service.get("ports", ())]
    return {int(inside): int(outside) for _, outside, inside in ports}


def test_dashboards_are_what_their_programs_make(tmp_path: Path) -> None:
    """Nobody edits the JSON by hand."""
    pytest.importorskip("grafana_foundation_sdk", reason="the group dev has Grafana's library")
    subprocess.run([sys.executable, str(EXAMPLE / "dashboards"), str(tmp_path)], check=True, timeout=60)

    assert {path.name: path.read_text() for path in DASHBOARDS} == {
        path.name: path.read_text() for path in tmp_path.iterdir()
    }


def test_panels_are_told_apart() -> None:
    """In each dashboard every panel has a place, an id and a title of its own, and a question that it answers."""
    for dashboard in dashboards():
        shown = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
        places = [
            (x, y)
            for panel in dashboard["panels"]
            for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
            for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
        ]

        assert len(places) == len(set(places))
        assert max(x for x, _ in places) < 24
        assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
        assert len({panel["title"] for panel in shown}) == len(shown)
        assert all(panel["description"] for panel in shown)


def test_every_metric_asked_for_is_in_the_reference() -> None:
    """The page of metrics explains each one that a panel or a rule asks for."""
    rules = (EXAMPLE / "prometheus" / "blamespan.rules.yml").read_text()
    asked = " ".join([rules, *(target["expr"] for _, target in queries())])
    names = {re.sub("_(bucket|sum|count)$", "", name) for name in re.findall(r"blamespan_[a-z_]+", asked)}
    told = write_metrics()

    assert {name for name in names if f"`{name.removesuffix('_total').removesuffix('_info')}`" not in told} == set()


def test_data_sources_agree() -> None:
    """Dashboards ask the kinds of sources that are provisioned; the files lie where Grafana looks for them."""
    mounts = dict(volume.split(":")[:2] for volume in services()["grafana"]["volumes"])
    home = Path(services()["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    provider = read("grafana/provisioning/dashboards/blamespan.yaml")["providers"][0]
    asked = {target["datasource"]["type"] for panel in panels() for target in panel["targets"]}
    variables = {one["query"] for one in dashboards()[0]["templating"]["list"] if one["type"] == "datasource"}

    assert asked == variables <= sources().keys()
    assert mounts["./grafana/dashboards"] == provider["options"]["path"] == str(home.parent)
    assert home.name in {path.name for path in DASHBOARDS}
    assert mounts["./grafana/provisioning"] == "/etc/grafana/provisioning"


def test_tempo_reads_its_settings_before_and_from_version_3() -> None:
    """Tempo refuses a block that it does not know: only those that 2.8 and 3 share are there."""
    assert read("tempo.yaml").keys() <= {"server", "distributor", "storage", "usage_report"}


def test_page_leads_to_the_jaeger_that_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's links to Jaeger's UI lead to the port where people reach it."""
    monkeypatch.delenv("BLAMESPAN_JAEGER_UI", raising=False)
    told = settings("--config", str(EXAMPLE / "blamespan.toml"))

    assert told.jaeger_ui == f"http://localhost:{published(services()['jaeger'])[16686]}"


def test_addresses_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is asked or sent to listens there: between containers by name, from this machine on published ports."""
    for variable in ("BLAMESPAN_PAGE", "BLAMESPAN_STORE"):
        monkeypatch.delenv(variable, raising=False)
    told = settings("--config", str(EXAMPLE / "blamespan.toml"))
    tempo, scraped = read("tempo.yaml"), read("prometheus/prometheus.yml")["scrape_configs"][0]
    otlp = urlsplit(f"//{tempo['distributor']['receivers']['otlp']['protocols']['grpc']['endpoint']}").port
    listening = {
        "blamespan": {address.port for address in (told.grpc, told.http, told.monitor, told.page) if address},
        "tempo": {tempo["server"]["http_listen_port"], otlp},
        "jaeger": {4317, 16686},  # its defaults
        "prometheus": {9090},
    }
    asked = [
        *told.forward,
        *(source["url"] for source in sources().values()),
        *(f"http://{target}" for target in scraped["static_configs"][0]["targets"]),
        services()["sample"]["environment"]["OTEL_EXPORTER_OTLP_ENDPOINT"],
    ]
    page = next(one["query"] for one in dashboards()[0]["templating"]["list"] if one["name"] == "page")

    assert {(urlsplit(url).hostname, urlsplit(url).port) for url in asked} <= {
        (host, port) for host, ports in listening.items() for port in ports
    }
    assert published(services()["blamespan"]) == {port: port for port in listening["blamespan"]}
    assert urlsplit(page).port == (told.page.port if told.page else None)
    assert (
        sources()["prometheus"]["jsonData"]["timeInterval"]
        == read("prometheus/prometheus.yml")["global"]["scrape_interval"]
    )
    assert str(told.journal) in dict(volume.split(":")[:2] for volume in services()["blamespan"]["volumes"]).values()


def test_images_are_pinned_and_ports_are_this_machines() -> None:
    """A stranger gets what we name, and nobody else reaches what has no login."""
    pulled = [one["image"] for one in services().values() if "build" not in one]
    ports = [port for one in services().values() for port in one.get("ports", ())]

    assert all(re.search(r":v?\d+\.\d+\.\d+$", image) for image in pulled)
    assert len(pulled) == 4
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_files_that_are_mounted_or_built_from_are_there() -> None:
    """Every path that compose or the Dockerfile names exists; what is copied is not ignored."""
    volumes = [volume.split(":")[0] for one in services().values() for volume in one.get("volumes", ())]
    named = {volume for volume in volumes if not volume.startswith("./")}
    dockerfile = (EXAMPLE / "Dockerfile").read_text()
    sent = re.findall(r"^!(\S+)", (EXAMPLE / "Dockerfile.dockerignore").read_text(), re.MULTILINE)
    root = EXAMPLE.parents[1]
    targets = {one["build"]["target"] for one in services().values() if "build" in one}

    assert [volume for volume in volumes if volume.startswith("./") and not (EXAMPLE / volume).exists()] == []
    assert named == set(read("compose.yaml")["volumes"])
    assert targets == {"collector", "sample"} <= set(re.findall(r"^FROM .* AS (\w+)$", dockerfile, re.MULTILINE))
    assert [path for path in sent if not (root / path).exists()] == []
    assert {"constraints.txt", "examples/observability/send_runs.py"} <= set(sent)


@pytest.mark.parametrize(("title", "url"), list(links()), ids=lambda value: str(value)[:40])
def test_links_lead_to_the_steps_and_the_runs(title: str, url: str) -> None:
    """A bar leads to a TraceQL search in Explore, on words that verdicts carry, or to the page's own filter."""
    for variable in re.findall(r"\$\{[^}]+\}", url):
        assert variable in ("${tempo}", "${page}", "${__from}", "${__to}") or variable.endswith(":percentencode}")
    filled = re.sub(r"\$\{(?:__field\.labels\.)?(\w+)(?::percentencode)?\}", lambda found: found[1], url)
    if not url.startswith("/explore"):
        assert re.fullmatch(r"page/\?agent=agent(&mode=mode)?", filled), title
        return
    panes = dict(part.split("=") for part in urlsplit(filled).query.split("&"))["panes"]
    pane = json.loads(unquote(panes))["blame"]
    (query,) = pane["queries"]
    words = re.findall(r"span\.([a-z.]+)", query["query"])

    assert (pane["datasource"], query["datasource"]) == ("tempo", {"type": "tempo", "uid": "tempo"})
    assert pane["range"] == {"from": "__from", "to": "__to"}
    assert words[:3] == [BLAME_DECISIVE, VERDICT, BLAME_AGENT]
    assert set(words[3:]) <= {ERROR_TAXONOMY, ERROR_MODE}
    assert 'span.blamespan.blame.agent = "agent"' in query["query"]


def test_bars_are_linked() -> None:
    """The bars of blame, over time and by agent and mode, each lead both ways."""
    linked = [title for title, _ in links()]

    assert linked == ["Blame by agent"] * 2 + ["Blame by agent and error mode"] * 2
