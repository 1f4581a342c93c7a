"""A summary as one JSON document; shares of 1, with their 95 % intervals."""

from __future__ import annotations

from typing import Any

from blamespan.analysis.summary.change import CORRECTION, LEAST_FAILURES, METHODS, ShareChange
from blamespan.analysis.summary.statistics import Share
from blamespan.analysis.summary.summary import JudgeSummary, Summary
from blamespan.analysis.summary.tally import AlikeFailures, Names, Tally

_MOST_NAMES = 1_000
_MOST_GROUPS = 200
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
    ranked = tally.ranked_alike()
    groups = [group for group in ranked if group.runs > 1]
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
        "names_not_counted": tally.agents.others + tally.modes.others + tally.others,
        "abstentions": [
            {"reason": reason, **_share(Share(count.failed, tally.runs))}
            for reason, count in tally.reasons.ranked()[:_MOST_NAMES]
        ],
        "adherence": [
            {"agent": name, **_share(adherence.share)} for name, adherence in tally.ranked_adherence()[:_MOST_NAMES]
        ],
        "verified": dict(sorted(tally.verified.items())),
        "failure_scores": list(tally.scores),
        "timeline": _timeline(tally),
        "repeated_failures": tally.repeated,
        "alike": [_group(group, tally) for group in groups[:_MOST_GROUPS]],
        "like_no_other": len(ranked) - len(groups),
        "compared": list(judge_summary.sides),
        "before": None if judge_summary.before is None else _counts(judge_summary.before),
        "after": None if judge_summary.before is None or judge_summary.after is None else _counts(judge_summary.after),
        "changes": [_change(change) for change in judge_summary.changes],
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


def _group(group: AlikeFailures, tally: Tally) -> Document:
    example = group.example
    return {
        "likeness": example.likeness,
        "service": example.service or None,
        "agent": example.agent,
        "mode": example.mode or None,
        "name": example.mode_name,
        **_share(Share(group.runs, tally.failed)),
        "last_week": group.count_of_week(tally.last),
        "example": {
            "source": example.source,
            "trace_id": example.trace_id,
            "started": None if example.start is None else example.start.isoformat(),
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
