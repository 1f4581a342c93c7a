"""Every error blamespan raises on purpose.

BlamespanError
  ConfigError       a setting is missing or wrong                     (also ValueError)
  MissingExtra      a feature needs a package that is not installed   (also ImportError)
  MalformedSpan     a span cannot be read or placed                   (also ValueError)
  MalformedTrace    a message-action trace breaks one of its rules    (also ValueError)
  MalformedVerdict  a tracer's verdict does not fit its run           (also ValueError)
  NoAgentSteps      spans hold nothing an agent did                   (also ValueError)
  UnreadableInput   a file cannot be read as what it should be        (also ValueError)
  NotWritten        a verdict could not be written back
  NotReplayed       a program does otherwise than was recorded of it
  HttpError         a back end gave no answer that can be used        (in `blamespan.http_client`)
  TracerUnavailable a tracer or its weights cannot be loaded

Each message says what was expected, what came, and what to do next.
"""


class BlamespanError(Exception):
    """Catch this to catch every error blamespan raises on purpose."""


class ConfigError(BlamespanError, ValueError):
    """A setting is missing or wrong; nothing was started."""


class MissingExtra(BlamespanError, ImportError):
    """A feature was asked for whose packages are not installed; the message names the `pip install`."""


class MalformedSpan(BlamespanError, ValueError):
    """A span cannot be read or placed in a trace."""


class MalformedTrace(BlamespanError, ValueError):
    """A message-action trace breaks one of the rules of `blamespan.trace`."""


class MalformedVerdict(BlamespanError, ValueError):
    """A tracer answered with something that is no verdict on the run it was asked about."""


class NoAgentSteps(BlamespanError, ValueError):
    """The spans hold no agent message, tool call or other step: there is nothing to attribute."""


class UnreadableInput(BlamespanError, ValueError):
    """A file or a line of it is not what it was read as; other files are unaffected."""


class NotWritten(BlamespanError):
    """A back end did not take the verdict on a run; those on other runs are unaffected."""


class NotReplayed(BlamespanError):
    """A program that is replayed raises, does not end, or does otherwise than was recorded of it."""


class TracerUnavailable(BlamespanError):
    """A tracer is not installed, or its weights cannot be loaded."""


def reason_of(error: Exception) -> str:
    """Say why a file cannot be read or written, for a sentence that names the file: `No such file or directory`."""
    if isinstance(error, UnicodeDecodeError):
        return "no text in UTF-8"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
