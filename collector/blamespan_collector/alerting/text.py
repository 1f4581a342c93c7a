"""What an alert says: who, when, why, the quote and the link; pure.

Names and quotes come from traces. A mention, a link or a format of a chat in them must do nothing there.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from blamespan.analysis.showing.legible import counted, printable
from blamespan_collector.store import Incident

_MOST_QUOTE_CHARS = 300
_MOST_NAME_CHARS = 80
_MOST_LISTED = 10
_NOTHING = "\u200b"
"""A space without width: it parts the signs by which chats know a mention or a link."""


def write_alert(incidents: Sequence[Incident], link: str) -> tuple[str, str]:
    """Return the title and the text of an alert, plain.

    Args:
        incidents: One, which is told in full, or several, of which the first ten are listed.
        link: URL of the page.
    """
    if len(incidents) == 1:
        return _title(incidents[0]), "\n".join(_lines(incidents[0], link))
    listed = [f"{_title(incident)}\n  {link_to(incident, link)}" for incident in incidents[:_MOST_LISTED]]
    more = len(incidents) - len(listed)
    return f"{len(incidents)} incidents", "\n".join([*listed, *([f"{more} more: {link}/"] if more else [])])


def link_to(incident: Incident, link: str) -> str:
    """Return where people see an incident on the page."""
    return f"{link}/?incident={incident.id}"


def _title(incident: Incident) -> str:
    what = _plain(incident.mode_name or "fails", _MOST_NAME_CHARS)
    return f"{_plain(incident.agent, _MOST_NAME_CHARS)} ({_service(incident)}): {what}, {counted(incident.runs, 'run')}"


def _lines(incident: Incident, link: str) -> list[str]:
    when = f"first {_time(incident.first_ns)}, last {_time(incident.last_ns)}"
    if incident.opened > 1:
        when += f"; open again since {_time(incident.state_ns)}, {counted(incident.since, 'run')}"
    mode = f"{_plain(incident.mode_name, _MOST_NAME_CHARS)} ({_plain(incident.mode, _MOST_NAME_CHARS)})"
    lines = [
        f"Who:   {_plain(incident.agent, _MOST_NAME_CHARS)} in {_service(incident)}",
        f"When:  {when}",
        f"Why:   {mode if incident.mode else 'no error mode'}; alike: {_plain(incident.likeness, _MOST_QUOTE_CHARS)}",
    ]
    if incident.quote:
        lines.append(f"Quote: “{_plain(incident.quote, _MOST_QUOTE_CHARS)}”")
    return [*lines, f"See:   {link_to(incident, link)}", f"Close: there, or blamespan status --close {incident.id}"]


def _service(incident: Incident) -> str:
    name = " ".join(part for part in (incident.service, incident.version) if part)
    return _plain(name, _MOST_NAME_CHARS) or "no service"


def _time(time_ns: int) -> str:
    return f"{datetime.fromtimestamp(time_ns / 1e9, UTC):%Y-%m-%d %H:%M} UTC"


def _plain(text: str, most: int) -> str:
    shown = printable(text)
    shown = shown if len(shown) <= most else f"{shown[: most - 1]}…"
    for sign in ("@", "<", "]"):
        shown = shown.replace(sign, sign + _NOTHING)
    return shown
