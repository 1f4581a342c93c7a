"""The dashboard on verdicts: how many runs fail, who is to blame, for what, how surely, and how often wrongly."""

from __future__ import annotations

from grafana_foundation_sdk.builders import bargauge, common, heatmap, table
from grafana_foundation_sdk.builders import dashboard as dashboards
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat
from panels import (
    DECISIVE,
    FAILED,
    AnyPanel,
    at_once,
    bars,
    counter,
    dashboard,
    grown,
    lines,
    number,
    over_time,
    quantile,
    rows,
    share,
    shown,
    thresholds,
    to_page,
    to_tempo,
    traces,
)

from blamespan import taxonomy

RUNS, BLAME = "blamespan_runs_total", "blamespan_blame_total"
FOUND_FAILED, ABSTAINED = 'verdict=~".*failed"', 'verdict="abstained"'
KNOWN = 'outcome!="unknown"'
SUCCEEDED, HAD_FAILED = 'outcome="succeeded"', 'outcome="failed"'
UNAIDED = "blamespan_failure_unaided_score"
"""A tracer that is told that a run failed finds it failed: only what it says without that can be right or wrong."""
COLORS = {"failed": "red", "looks failed": "orange", "no sign of failure": "green", "abstained": "purple"}


def blame_dashboard() -> models.Dashboard:
    """Make it."""
    return dashboard(
        "Who is to blame",
        "blamespan-blame",
        "Verdicts of blamespan on runs of agents. docs/how-to/grafana.md explains it.",
        {
            "At a glance": [*_at_a_glance(), *_over_time()],
            "Who, and for what": [_by_agent_and_mode(), _matrix(), _latest()],
            "How surely": [_scores(), *_confidence()],
            "How often wrongly, where somebody knows how a run ended": _false_alarms(),
        },
    )


def rose(metric: str, where: str = "", window: str = "$__range") -> str:
    """Ask by how much all of a counter rose together."""
    return f"sum(increase({counter(metric, where)}[{window}]))"


def alarms(where: str, window: str = "$__range") -> str:
    """Ask how many runs were found failed by a verdict that was not told how they ended: a score above a half."""
    fine = rose(f"{UNAIDED}_bucket", f'{where}, le="0.5"', window)
    return f"({rose(f'{UNAIDED}_count', where, window)} - {fine})"


def _at_a_glance() -> list[AnyPanel]:
    calm = thresholds((None, "green"), (0.1, "orange"), (0.3, "red"))
    shares = [
        (
            "Found failed",
            "Which share of all runs failed, or look failed by their verdict?",
            "no run",
            share(rose(RUNS, FOUND_FAILED), rose(RUNS)),
        ),
        (
            "Abstained",
            "Of which share of all runs does nobody know how they ended, the tracer included?",
            "no run",
            share(rose(RUNS, ABSTAINED), rose(RUNS)),
        ),
        (
            "False alarms",
            "Of the runs found failed without being told, whose end somebody knows: which share succeeded?",
            "no run with a known end",
            share(alarms(SUCCEEDED), alarms(KNOWN)),
        ),
    ]
    judged = number().decimals(0)
    return [
        shown(judged, "Runs judged", "How many runs got a verdict?", at_once(rose(RUNS)), width=6, height=4),
        *(
            shown(number("percentunit").thresholds(calm).no_value(nothing), *said, at_once(asked), width=6, height=4)
            for *said, nothing, asked in shares
        ),
    ]


def _over_time() -> list[AnyPanel]:
    verdicts = shown(
        bars(),
        "Runs by verdict",
        "When do runs fail?",
        over_time(f"sum by (verdict) (increase({counter(RUNS)}[$__interval]))", "{{verdict}}"),
        width=12,
    )
    for verdict, color in COLORS.items():
        verdicts.override_by_name(verdict, [models.DynamicConfigValue("color", {"mode": "fixed", "fixedColor": color})])
    agents = shown(
        bars(),
        "Blame by agent",
        "When is who to blame?",
        over_time(f"sum by (agent) ({grown(BLAME, '$__interval')}) > 0", "{{agent}}"),
        width=12,
    )
    return [verdicts, agents.data_links([to_tempo("__field.labels.agent"), to_page("__field.labels.agent")])]


def _blame_by_pair() -> str:
    """Ask who was blamed for what, with the taxonomy and the code as labels of their own, for links."""
    found = f"sum by (agent, mode) ({grown(BLAME, '$__range')}) > 0"
    coded = f'label_replace({found}, "code", "$1", "mode", "[^:]*:(.*)")'
    return f'label_replace({coded}, "taxonomy", "$1", "mode", "([^:]*):.*")'


def _by_agent_and_mode() -> bargauge.Panel:
    panel = shown(
        bargauge.Panel(),
        "Blame by agent and error mode",
        "Who is blamed most often, and for what? A bar leads to the decisive steps in Tempo and to the runs.",
        at_once(f"sort_desc(topk(12, {_blame_by_pair()}))", "{{agent}}: {{mode}}"),
        width=12,
        height=10,
    )
    return (
        panel.orientation(kinds.VizOrientation.HORIZONTAL)
        .display_mode(kinds.BarGaugeDisplayMode.BASIC)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .min(0)
        .decimals(0)
        .no_value("nobody is blamed")
        .color_scheme(dashboards.FieldColor().mode(models.FieldColorModeId.FIXED).fixed_color("red"))
        .data_links(
            [to_tempo("__field.labels.agent", "__field.labels"), to_page("__field.labels.agent", "__field.labels")]
        )
    )


def _matrix() -> table.Panel:
    panel = shown(
        table.Panel().show_header(True),
        "Agents by error modes",
        "Which error modes do agents share, and which are one agent's own?",
        rows(_blame_by_pair()),
        width=12,
        height=10,
    )
    matrix = {"rowField": "agent", "columnField": "mode", "valueField": "Value", "emptyValue": "zero"}
    background = models.DynamicConfigValue("custom.cellOptions", {"type": "color-background", "mode": "gradient"})
    panel.with_transformation(models.DataTransformerConfig(id_val="groupingToMatrix", options=matrix))
    panel.override_by_field_type("number", [background]).thresholds(thresholds((None, "transparent"), (1, "red")))
    for code, name in _mode_names().items():
        panel.override_by_name(code, [models.DynamicConfigValue("displayName", f"{code} {name}")])
    panel.override_by_name("agent\\mode", [models.DynamicConfigValue("displayName", "Agent")])
    return panel.decimals(0).no_value("nobody is blamed")


def _mode_names() -> dict[str, str]:
    known = (taxonomy.MAST, taxonomy.AEGIS, taxonomy.EXTENSION)
    return {str(mode): mode.name for modes in known for mode in modes.values()}


def _latest() -> table.Panel:
    return shown(
        table.Panel().show_header(True),
        "Latest decisive steps (Tempo)",
        "Which steps decided the failures that came last? A trace id opens the run.",
        traces(f"{DECISIVE} && {{ {FAILED} }}", 20),
        width=24,
    )


def _scores() -> heatmap.Panel:
    asked = over_time(f"sum by (le) (increase({counter('blamespan_failure_score_bucket')}[$__interval]))", "{{le}}")
    panel = shown(
        heatmap.Panel().interval("1m").tooltip(heatmap.HeatmapTooltip().mode(kinds.TooltipDisplayMode.SINGLE)),
        "Failure scores",
        "How surely do runs fail? Many scores around 0.5 say that the tracer does not know these runs.",
        asked.format(PromQueryFormat.HEATMAP),
        width=12,
    )
    return panel.calculate(False).decimals(1)


def _confidence() -> list[AnyPanel]:
    quantiles = {"half": 0.5, "the least sure tenth": 0.1}
    concentrated = [over_time(quantile(of, "blamespan_blame_share"), legend) for legend, of in quantiles.items()]
    scores = [counter(f"{UNAIDED}_{of}") for of in ("sum", "count")]
    totals = [f"sum by (outcome) (rate({score}[$__rate_interval]))" for score in scores]
    return [
        shown(
            lines("percentunit").max(1),
            "Share of the blame on the most blamed agent",
            "How surely is it this agent, of runs found failed? Low values: several agents are suspected alike.",
            *concentrated,
            width=6,
        ),
        shown(
            lines("none").max(1),
            "Mean failure score by known end",
            "Do scores tell failed runs from those that succeeded, without being told which is which? "
            "The further apart the lines, the better.",
            over_time(share(*totals), "{{outcome}}"),
            width=6,
        ),
    ]


def _false_alarms() -> list[AnyPanel]:
    def judged(where: str) -> str:
        return rose(f"{UNAIDED}_count", where, "1h")

    missed = rose(f"{UNAIDED}_bucket", f'{HAD_FAILED}, le="0.5"', "1h")
    watch = [
        over_time(share(alarms(SUCCEEDED, "1h"), alarms(KNOWN, "1h")), "found failed, had succeeded"),
        over_time(share(alarms(SUCCEEDED, "1h"), judged(SUCCEEDED)), "succeeded, found failed"),
        over_time(share(missed, judged(HAD_FAILED)), "failed, found fine"),
    ]
    return [
        shown(
            lines("percentunit").max(1),
            "False-alarm watch",
            "Within an hour, by verdicts that were not told: how many alarms were false? "
            "How many successes raised one? How many failures raised none?",
            *watch,
            width=12,
        ),
        shown(
            bars(),
            "Runs by known end",
            "How many runs stand behind these shares?",
            over_time(
                f"sum by (outcome) (increase({counter(RUNS, KNOWN)}[$__interval]))",
                "{{outcome}}",
            ),
            width=12,
        ),
    ]
