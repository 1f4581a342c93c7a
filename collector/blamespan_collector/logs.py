"""The log on stderr: as text for people or as JSON lines for machines, in both one line per record."""

from __future__ import annotations

import json
import logging
import sys
import time

from blamespan_collector.settings import LogFormat

_MAX_MESSAGE = 4_000
_MAX_TRACEBACK = 8_000


def configure_logs(form: LogFormat, level: str) -> None:
    """Write what all loggers of this process say to stderr."""
    writer = logging.StreamHandler(sys.stderr)
    writer.setFormatter(_JsonLines() if form == "json" else _TextLines())
    logging.basicConfig(level=level.upper(), handlers=[writer], force=True)
    for noisy in ("httpx", "httpcore", "uvicorn.error", "uvicorn.access", "asyncio", "grpc"):
        logging.getLogger(noisy).setLevel(max(logging.getLogger().level, logging.WARNING))


def announce(form: LogFormat, text: str) -> None:
    """Write to stderr what whoever started us waits for, whatever the log's level: that we are ready, how we ended."""
    if form == "json":
        text = _JsonLines().format(logging.LogRecord("blamespan", logging.INFO, "", 0, text, (), None))
    else:
        text = f"blamespan: {text}"
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


class _TextLines(logging.Formatter):
    """`2026-01-31T12:00:00Z ERROR message`; what could move a terminal's cursor is escaped."""

    def format(self, record: logging.LogRecord) -> str:
        lines = _escape(record.getMessage(), _MAX_MESSAGE)
        for line in self._traceback(record):
            lines += f"\n    {_escape(line, _MAX_MESSAGE)}"
        return f"{_time(record)} {record.levelname} {lines}"

    def _traceback(self, record: logging.LogRecord) -> list[str]:
        return self.formatException(record.exc_info)[-_MAX_TRACEBACK:].splitlines() if record.exc_info else []


class _JsonLines(logging.Formatter):
    """One object per line: `time`, `level`, `logger`, `message` and, where there is one, `error`."""

    def format(self, record: logging.LogRecord) -> str:
        document = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": record.processName,
            "message": record.getMessage()[:_MAX_MESSAGE],
        }
        if record.exc_info:
            document["error"] = self.formatException(record.exc_info)[-_MAX_TRACEBACK:]
        return json.dumps(document)  # ASCII: no byte of it can move a cursor


def _time(record: logging.LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03d}Z"


def _escape(text: str, most: int) -> str:
    cut = text[:most]
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in cut)
