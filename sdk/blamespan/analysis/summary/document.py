"""A summary as one JSON document; shares of 1, with their 95 % intervals."""

from __future__ import annotations

from typing import Any

from blamespan.analysis.summary.change import CORRECTION, LEAST_FAILURES, METHODS, Change
from blamespan.analysis.summary.clusters import Cluster
from blamespan.analysis.summary.statistics import Share
from blamespan.analysis.summary.summary import JudgeSummary, Summary
from blamespan.analysis.summary.tally import Names, Tally

__all__ = ["as_document"]

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
        "tracers": [_judge(each) for each in summary.judges],
    }


def _judge(found: JudgeSummary) -> Document:
    judge, tally = found.judge, found.tally
    clusters = [one for one in found.clusters if one.count > 1]
    return {
        "tracer": {
            "name": judge.name,
            "version": judge.version,
            "weights": judge.weights,
            "revision": judge.revision,
        },
        **_counts(tally),
        "agents": _names(tally.agents, tally, "agent"),
        "modes": _names(tally.modes, tally, "mode"),
        "pairs": _pairs(tally),
        "names_not_counted": tally.agents.others + tally.modes.others,
        "abstentions": [
            {"reason": reason, **_share(Share(count.failed, tally.runs))}
            for reason, count in tally.reasons.ranked()[:_MOST_NAMES]
        ],
        "failure_scores": list(tally.scores),
        "timeline": _timeline(tally),
        "sampled_failures": found.sampled,
        "repeated_failures": found.repeated,
        "clusters": [_cluster(one, found.sampled) for one in clusters[:_MOST_CLUSTERS]],
        "like_no_other": sum(one.count == 1 for one in found.clusters),
        "before": None if found.before is None else _counts(found.before),
        "after": None if found.before is None or found.after is None else _counts(found.after),
        "changes": [_change(one) for one in found.changes],
    }


def _counts(tally: Tally) -> Document:
    return {
        "runs": tally.runs,
        "failed": _share(Share(tally.failed, tally.judged)),
        "abstained": _share(Share(tally.abstained, tally.runs)),
        "first": None if tally.first is None else tally.first.isoformat(),
        "last": None if tally.last is None else tally.last.isoformat(),
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
    found = []
    for name, count in tally.pairs.ranked()[:_MOST_NAMES]:
        agent, _, mode = name.partition("\n")
        found.append({"agent": agent, "mode": mode or None, "count": count.failed})
    return found


def _timeline(tally: Tally) -> Document:
    moments = tally.timeline.moments(_MOST_MOMENTS)
    return {
        "width_s": tally.timeline.width_s,
        "without_a_clock": tally.untimed,
        "moments": [{"start": one.start.isoformat(), "runs": one.runs, "failed": one.failed} for one in moments],
    }


def _cluster(one: Cluster, sampled: int) -> Document:
    example = one.example
    return {
        "agent": one.agent,
        "mode": one.mode or None,
        "name": one.mode_name,
        "words": list(one.words),
        **_share(Share(one.count, sampled)),
        "example": {
            "source": example.source,
            "trace_id": example.trace_id,
            "step": example.step,
            "span_id": example.span_id,
            "text": example.text,
        },
    }


def _change(one: Change) -> Document:
    low, high = one.interval
    return {
        "part": one.part,
        "name": one.name or None,
        "title": one.title or None,
        "before": _share(one.before),
        "after": _share(one.after),
        "difference": round(one.difference, 6),
        "interval": [round(low, 6), round(high, 6)],
        "p": one.p,
        "corrected_p": one.corrected,
        "method": one.method,
        "significant": one.is_significant,
    }
