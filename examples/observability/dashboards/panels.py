"""What both dashboards are made of: their sources, variables, queries, panels and links."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypeVar
from urllib.parse import quote

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    heatmap,
    prometheus,
    stat,
    table,
    tempo,
    timeseries,
)
from grafana_foundation_sdk.builders import dashboard as dashboards
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models import prometheus as prometheus_models

PROMETHEUS = models.DataSourceRef("prometheus", "${prometheus}")
TEMPO = models.DataSourceRef("tempo", "${tempo}")
"""Chosen at the top of a dashboard, so that it fits any Grafana."""
WHERE = 'instance=~"$instance"'
"""Which collectors count."""

DECISIVE = "{ span.blamespan.blame.decisive = true }"
FAILED = 'span.blamespan.verdict =~ ".*failed"'
"""On a run's span, as are the agent and the mode."""

Query: TypeAlias = prometheus.Dataquery | tempo.Dataquery
AnyPanel: TypeAlias = Builder[models.Panel]
Panel = TypeVar("Panel", timeseries.Panel, stat.Panel, bargauge.Panel, table.Panel, heatmap.Panel)


def dashboard(title: str, uid: str, description: str, rows: Mapping[str, Sequence[AnyPanel]]) -> models.Dashboard:
    """Put a dashboard together: the variables that all queries use, then *rows* of panels; the first has no title."""
    made = _empty(title, uid, description)
    for place, (row, panels) in enumerate(rows.items()):
        if place:
            made.with_row(dashboards.Row(row))
        for panel in panels:
            made.with_panel(panel)
    built = made.build()
    for number, part in enumerate(built.panels or (), start=1):
        part.id_val = number
    return built


def _empty(title: str, uid: str, description: str) -> dashboards.Dashboard:
    instances = {"qryType": 1, "query": "label_values(blamespan_info, instance)", "refId": "instances"}
    return (
        dashboards.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags(["blamespan"])
        .time("now-6h", "now")
        .refresh("30s")
        .timezone("browser")
        .readonly()
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .with_variable(dashboards.DatasourceVariable("prometheus").label("Prometheus").type("prometheus"))
        .with_variable(dashboards.DatasourceVariable("tempo").label("Tempo").type("tempo"))
        .with_variable(
            dashboards.QueryVariable("instance")
            .label("Collector")
            .datasource(PROMETHEUS)
            .query(instances)
            .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
            .multi(True)
            .include_all(True)
            .all_value(".*")
            .current(models.VariableOption(selected=True, text="All", value="$__all"))
        )
        .with_variable(dashboards.TextBoxVariable("page").label("Page of runs").default_value("http://localhost:4320"))
        .link(
            dashboards.DashboardLink("blamespan")
            .type(models.DashboardLinkType.DASHBOARDS)
            .tags(["blamespan"])
            .include_vars(True)
            .keep_time(True)
        )
        .link(
            dashboards.DashboardLink("Page of runs")
            .type(models.DashboardLinkType.LINK)
            .url("${page}")
            .target_blank(True)
        )
    )


def grown(metric: str, window: str, where: str = "") -> str:
    """Ask by how much a counter rose within *window*, also one that began within it.

    `increase` alone knows nothing of what a series began with: who is blamed once would never be shown.
    """
    series = counter(metric, where)
    return f"((({series}) unless ({series} offset {window})) or increase({series}[{window}]))"


def counter(metric: str, where: str = "") -> str:
    """Name a metric of the chosen collectors."""
    return f"{metric}{{{', '.join(filter(None, (WHERE, where)))}}}"


def share(part: str, whole: str) -> str:
    """Divide; where the whole is 0 there is no share, rather than one of 0."""
    return f"{part} / ({whole} > 0)"


def quantile(of: float, metric: str) -> str:
    """Ask for a quantile of a histogram."""
    return f"histogram_quantile({of}, sum by (le) (rate({counter(f'{metric}_bucket')}[$__rate_interval])))"


def over_time(expression: str, legend: str = "") -> prometheus.Dataquery:
    """Ask for a line."""
    return _asked(expression, legend).range()


def at_once(expression: str, legend: str = "") -> prometheus.Dataquery:
    """Ask for one number for the whole time shown."""
    return _asked(expression, legend).instant()


def rows(expression: str) -> prometheus.Dataquery:
    """Ask for a table, one row a series."""
    return at_once(expression).format(prometheus_models.PromQueryFormat.TABLE)


def traces(query: str, most: int) -> tempo.Dataquery:
    """Ask Tempo for spans."""
    return tempo.Dataquery().query_type("traceql").query(query).limit(most).ref_id("A").datasource(TEMPO)


def _asked(expression: str, legend: str) -> prometheus.Dataquery:
    return prometheus.Dataquery().expr(expression).legend_format(legend or "__auto").datasource(PROMETHEUS)


def shown(panel: Panel, title: str, question: str, *asked: Query, width: int, height: int = 8) -> Panel:
    """Give a panel its title, the question that it answers, its queries (A, B, ...) and its size."""
    panel.title(title).description(question).span(width).height(height)
    panel.datasource(TEMPO if isinstance(asked[0], tempo.Dataquery) else PROMETHEUS)
    for letter, query in zip("ABCDEFGH", asked, strict=False):
        panel.with_target(query.ref_id(letter))
    return panel


def lines(unit: str = "short") -> timeseries.Panel:
    """Begin a panel of lines."""
    legend = (
        common.VizLegendOptions().display_mode(kinds.LegendDisplayMode.LIST).placement(kinds.LegendPlacement.BOTTOM)
    )
    tooltip = common.VizTooltipOptions().mode(kinds.TooltipDisplayMode.MULTI).sort(kinds.SortOrder.DESCENDING)
    return timeseries.Panel().unit(unit).min(0).legend(legend.show_legend(True)).tooltip(tooltip).fill_opacity(10)


def bars(unit: str = "short") -> timeseries.Panel:
    """Begin a panel of bars over time, one upon the other; each bar is a minute or more."""
    stacked = common.StackingConfig().mode(kinds.StackingMode.NORMAL)
    return (
        lines(unit).draw_style(kinds.GraphDrawStyle.BARS).stacking(stacked).fill_opacity(80).interval("1m").decimals(0)
    )


def number(unit: str = "short") -> stat.Panel:
    """Begin a panel of one number."""
    reduced = common.ReduceDataOptions().calcs(["lastNotNull"])
    return stat.Panel().unit(unit).reduce_options(reduced).graph_mode(kinds.BigValueGraphMode.NONE)


def thresholds(*steps: tuple[float | None, str]) -> dashboards.ThresholdsConfig:
    """Colour values from each number on."""
    found = [models.Threshold(value=value, color=color) for value, color in steps]
    return dashboards.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(found)


def to_tempo(agent: str, mode: str = "") -> dashboards.DashboardLink:
    """Link to the decisive steps in Tempo, as Grafana's Explore shows them.

    Args:
        agent: Grafana's variable with the agent.
        mode: A variable whose `.taxonomy` and `.code` are the error mode's.
    """
    wanted = [FAILED, 'span.blamespan.blame.agent = "AGENT"']
    if mode:
        wanted += ['span.blamespan.error.taxonomy = "TAXONOMY"', 'span.blamespan.error.mode = "CODE"']
    query = {
        "refId": "A",
        "datasource": {"type": "tempo", "uid": "TEMPO"},
        "queryType": "traceql",
        "query": f"{DECISIVE} && {{ {' && '.join(wanted)} }}",
        "limit": 50,
        "tableType": "traces",
    }
    pane = {"datasource": "TEMPO", "queries": [query], "range": {"from": "FROM", "to": "TO"}}
    url = quote(json.dumps({"blame": pane}, separators=(",", ":")), safe="")
    variables = {
        "AGENT": f"${{{agent}:percentencode}}",
        "TAXONOMY": f"${{{mode}.taxonomy:percentencode}}",
        "CODE": f"${{{mode}.code:percentencode}}",
        "TEMPO": "${tempo}",
        "FROM": "${__from}",
        "TO": "${__to}",
    }
    for word, variable in variables.items():
        url = url.replace(word, variable)
    return dashboards.DashboardLink("Decisive steps in Tempo").url(f"/explore?schemaVersion=1&orgId=1&panes={url}")


def to_page(agent: str, mode: str = "") -> dashboards.DashboardLink:
    """Link to the runs on the collector's own page; arguments as those of `to_tempo`."""
    wanted = f"agent=${{{agent}:percentencode}}" + (f"&mode=${{{mode}.mode:percentencode}}" if mode else "")
    return dashboards.DashboardLink("Runs on the page").url(f"${{page}}/?{wanted}").target_blank(True)
