"""A summary as one JSON document; shares of 1, with their 95 % intervals."""

from __future__ import annotations

from typing import Any

from blamespan.analysis.summary.change import CORRECTION, LEAST_FAILURES, METHODS, ShareChange
from blamespan.analysis.summary.clusters import Cluster
from blamespan.analysis.summary.statistics import Share
from blamespan.analysis.summary.summary import JudgeSummary, Summary
from blamespan.analysis.summary.tally import Names, Tally

_MOST_NAMES = 1_000
_MOST_CLUSTERS = 200
_MOST_MOMENTS = 400

Document = dict[str, Any]


def as_document(summary: Summary) -> Document:
    """Lay a summary out for programs."""
    return {
        "runs": summary.runs,
        "intervals": "Wilson, 95 %; of differences Newcombe, 95 %",
        "tests": METHODS,
        "correction": CORRECTION,
        "least_failures_compared": LEAST_FAILURES,
        "outside_periods": summary.outside,
        "left_out": summary.left_out,
        "only_before": [str(judge) for judge in summary.only_before],
        "tracers": [_judge(judge_summary) for judge_summary in summary.judges],
    }


def _judge(judge_summary: JudgeSummary) -> Document:
    judge, tally = judge_summary.judge, judge_summary.tally
    clusters = [cluster for cluster in judge_summary.clusters if cluster.count > 1]
    return {
        "tracer": {
            "name": judge.name,
            "version": judge.version,
            "weights": judge.weights,
            "revision": judge.revision,
        },
        **_counts(tally),
        "agents": _names(tally.agents, tally, "agent"),
        "causes": _names(tally.causes, tally, "cause"),
        "modes": _names(tally.modes, tally, "mode"),
        "pairs": _pairs(tally),
        "names_not_counted": tally.agents.others + tally.modes.others,
        "abstentions": [
            {"reason": reason, **_share(Share(count.failed, tally.runs))}
            for reason, count in tally.reasons.ranked()[:_MOST_NAMES]
        ],
        "known_failures": [
            {
                "schema": name,
                "runs": found.runs,
                "last_week": found.count_of_week(tally.last),
                "first_trace_id": found.first,
                "first_began": None if found.began is None else found.began.isoformat(),
            }
            for name, found in sorted(tally.known.items(), key=lambda item: (-item[1].runs, item[0]))[:_MOST_NAMES]
        ],
        "adherence": [
            {"agent": name, **_share(adherence.share)} for name, adherence in tally.ranked_adherence()[:_MOST_NAMES]
        ],
        "verified": dict(sorted(tally.verified.items())),
        "failure_scores": list(tally.scores),
        "timeline": _timeline(tally),
        "sampled_failures": judge_summary.sampled,
        "repeated_failures": judge_summary.repeated,
        "clusters": [_cluster(cluster, judge_summary.sampled) for cluster in clusters[:_MOST_CLUSTERS]],
        "like_no_other": sum(cluster.count == 1 for cluster in judge_summary.clusters),
        "before": None if judge_summary.before is None else _counts(judge_summary.before),
        "after": None if judge_summary.before is None or judge_summary.after is None else _counts(judge_summary.after),
        "changes": [_change(cluster) for cluster in judge_summary.changes],
    }


def _counts(tally: Tally) -> Document:
    return {
        "runs": tally.runs,
        "failed": _share(Share(tally.failed, tally.judged)),
        "abstained": _share(Share(tally.abstained, tally.runs)),
        "first": None if tally.first is None else tally.first.isoformat(),
        "last": None if tally.last is None else tally.last.isoformat(),
        "usage": None
        if not tally.counted
        else {
            "runs": tally.counted,
            "input_tokens": tally.input_tokens,
            "output_tokens": tally.output_tokens,
            "usd": round(tally.usd, 8) if tally.priced else None,
            "usd_of_failed": round(tally.usd_of_failed, 8) if tally.priced else None,
            "runs_without_a_price": tally.unpriced,
        },
        "guard": {"runs": tally.guarded, "actions": dict(sorted(tally.guard.items()))},
    }


def _share(share: Share) -> Document:
    low, high = share.interval
    return {
        "count": share.count,
        "of": share.total,
        "share": round(share.value, 6),
        "interval": [round(low, 6), round(high, 6)],
    }


def _names(names: Names, tally: Tally, key: str) -> list[Document]:
    return [
        {
            key: name,
            **({"name": count.title} if count.title else {}),
            **_share(Share(count.failed, tally.failed)),
            "confidence": round(count.confidence, 6),
        }
        for name, count in names.ranked()[:_MOST_NAMES]
    ]


def _pairs(tally: Tally) -> list[Document]:
    pairs = []
    for name, count in tally.pairs.ranked()[:_MOST_NAMES]:
        agent, _, mode = name.partition("\n")
        pairs.append({"agent": agent, "mode": mode or None, "count": count.failed})
    return pairs


def _timeline(tally: Tally) -> Document:
    moments = tally.timeline.moments(_MOST_MOMENTS)
    return {
        "width_s": tally.timeline.width_s,
        "without_a_clock": tally.untimed,
        "moments": [
            {"start": moment.start.isoformat(), "runs": moment.runs, "failed": moment.failed} for moment in moments
        ],
    }


def _cluster(cluster: Cluster, sampled: int) -> Document:
    example = cluster.example
    return {
        "agent": cluster.agent,
        "mode": cluster.mode or None,
        "name": cluster.mode_name,
        "words": list(cluster.words),
        **_share(Share(cluster.count, sampled)),
        "example": {
            "source": example.source,
            "trace_id": example.trace_id,
            "step": example.step,
            "span_id": example.span_id,
            "text": example.text,
        },
    }


def _change(change: ShareChange) -> Document:
    low, high = change.interval
    return {
        "part": change.part,
        "name": change.name or None,
        "title": change.title or None,
        "before": _share(change.before),
        "after": _share(change.after),
        "difference": round(change.difference, 6),
        "interval": [round(low, 6), round(high, 6)],
        "p": change.p,
        "corrected_p": change.corrected,
        "method": change.method,
        "significant": change.is_significant,
    }
