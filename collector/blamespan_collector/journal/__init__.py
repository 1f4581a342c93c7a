"""The journal: what was acknowledged, on disk until it is delivered.

One folder holds `segments/NNNNNNNNNN.log`, records with checksums, and beside each a `.mark` that says how far it is
acknowledged. One process appends (`JournalWriter`), one reads and drops (`JournalReader`); neither waits for the
other. What is damaged is found, left out and told (`Damage`). A segment is written until it is large,
then the next one begins; the highest one is the one being written and is never dropped, so that numbers
never repeat.
"""

from blamespan_collector.journal.entries import (
    PARENT_IS_REMOTE,
    REMOTE_IS_KNOWN,
    RUN_COMPLETE,
    STEP,
    Entry,
    NewEntry,
    Position,
    Signal,
    SpanKey,
)
from blamespan_collector.journal.errors import JournalError, JournalFull, JournalUnavailable, JournalUnreadable
from blamespan_collector.journal.folder import FolderLock, folder_bytes, has_room, segments
from blamespan_collector.journal.reader import JournalReader
from blamespan_collector.journal.segment import Damage
from blamespan_collector.journal.writer import JournalWriter
from blamespan_collector.settings import Sync

__all__ = [
    "PARENT_IS_REMOTE",
    "REMOTE_IS_KNOWN",
    "RUN_COMPLETE",
    "STEP",
    "Damage",
    "Entry",
    "FolderLock",
    "JournalError",
    "JournalFull",
    "JournalReader",
    "JournalUnavailable",
    "JournalUnreadable",
    "JournalWriter",
    "NewEntry",
    "Position",
    "Signal",
    "SpanKey",
    "Sync",
    "folder_bytes",
    "has_room",
    "segments",
]
