"""What is to be analyzed, as pieces: files, folders, pipes, URLs, back ends, stored runs (docs/how-to/analyze.md)."""

from blamespan.analysis.sources.files import store_in
from blamespan.analysis.sources.finding import folder_of, is_stored_name, pieces, runs_in
from blamespan.analysis.sources.piece import Piece

__all__ = ["Piece", "folder_of", "is_stored_name", "pieces", "runs_in", "store_in"]
