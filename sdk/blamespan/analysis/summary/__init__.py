"""What the verdicts on many runs say together: who fails, how, how often, alike in what, and what has changed."""

from blamespan.analysis.summary.summary import Summary, summarize

__all__ = ["Summary", "summarize"]
