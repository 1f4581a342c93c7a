"""What is to be analyzed, as pieces: files, folders, globs, standard input, URLs, back ends (docs/sources.md)."""

from blamespan.analysis.sources.finding import pieces, runs_in
from blamespan.analysis.sources.piece import Piece

__all__ = ["Piece", "pieces", "runs_in"]
