"""Results as rows, how they are kept while they come, and the files they are written to."""

from blamespan.analysis.results.rows import read_rows

__all__ = ["read_rows"]
