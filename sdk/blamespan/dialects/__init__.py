"""Spans of other instrumentations, seen in our words: a program that is instrumented already needs nothing new.

A dialect (entry-point group `blamespan.dialects`) reads one span at a time into a `SpanReading`; what the readings of
a trace mean together is worked out here, once for all dialects. Nothing of it is written onto the spans: it is
what `split_runs` and `rebuild_run` see beside them.

A trace of our own making costs one look at its scopes. Where several instrumentations recorded the same process,
one of them tells the story and the others only what it leaves out, so that no step counts twice.
"""

from blamespan.dialects.reading import Dialect, Role, SpanReading
from blamespan.dialects.translation import in_our_words, is_foreign

__all__ = ["Dialect", "Role", "SpanReading", "in_our_words", "is_foreign"]
