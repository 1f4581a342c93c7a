"""What can go wrong with a journal.

JournalError
  JournalFull         there is no room now: the sender should keep its request and try again
  JournalUnavailable  the disk did not do what it was told: as above
  JournalUnreadable   a folder or segment is not ours, or of another version
"""

from blamespan.errors import BlamespanError


class JournalError(BlamespanError):
    """Something about the journal failed; nothing that was acknowledged is affected."""


class JournalFull(JournalError):
    """The journal's limit is reached or the disk is full; what was to be written is not."""


class JournalUnavailable(JournalError):
    """Writing failed for another reason than room; what was to be written is not known to be."""


class JournalUnreadable(JournalError):
    """A folder or segment cannot be read; the message says which and what to do.

    Attributes:
        segment: Number of the segment; None where it is the folder.
    """

    def __init__(self, reason: str, segment: int | None = None) -> None:
        super().__init__(reason)
        self.segment = segment
