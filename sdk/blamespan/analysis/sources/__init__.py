"""What is to be analyzed, as pieces: files, folders, standard input, URLs, back ends, stored runs (docs/sources.md)."""

from blamespan.analysis.sources.files import store_in
from blamespan.analysis.sources.finding import folder_of, is_stored_name, pieces, runs_in
from blamespan.analysis.sources.piece import Piece

__all__ = ["Piece", "folder_of", "is_stored_name", "pieces", "runs_in", "store_in"]
