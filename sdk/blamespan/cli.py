"""The `blamespan` command and `blamespan lab`: groups of what the installed packages offer.

Exit codes, for every command: 0 done; 1 it ran and the answer is no, or it failed; 2 it was asked wrongly, settings
files and variables included. Data goes to stdout, talk to stderr.
"""

from __future__ import annotations

import os
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn, cast

import click

from blamespan._version import __version__
from blamespan.errors import BlamespanError, ConfigError, reason_of
from blamespan.plugins import load_entry, missing_extra, plugins
from blamespan.variables import mistyped_variables

_COMMANDS = "blamespan.commands"
"""The entry points that offer the commands of the first page."""
_LAB_COMMANDS = "blamespan.lab"
"""The entry points that offer the commands below `blamespan lab`."""
_HEADINGS = {
    _COMMANDS: {
        "Watch": ("demo", "collect", "open", "status"),
        "Look": ("analyze", "show", "summary"),
        "Say": ("annotate", "learn", "schemata"),
        "Act": ("fix", "guard", "mcp"),
        "Make, train and measure": ("lab",),
    },
    _LAB_COMMANDS: {
        "Make": ("generate", "probe"),
        "Train": ("train",),
        "Measure": ("evaluate", "stress"),
        "Try": ("replay", "checks", "modes"),
    },
}
"""The headings of each group's help, in order, and the commands below each."""
_MORE: tuple[str, ...] = ("case", "judge", "skill", "verify")
"""The commands that the first page names in its last line only: each is asked for less often."""


class SuggestingGroup(click.Group):
    """A group that answers a mistyped command with those most like it."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command by its name."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = get_close_matches(args[0], self.list_commands(ctx), n=2)
            if not near:
                raise
            raise click.UsageError(f"{error.message.rstrip('.')}. Did you mean {' or '.join(near)}?", ctx) from error


class _Commands(SuggestingGroup):
    """Finds commands among the entry points of the group's name, so that each package brings its own."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the names of the commands."""
        return list(plugins(self._entry_points))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command; one that cannot be loaded says why when it is called."""
        entry = plugins(self._entry_points).get(cmd_name)
        if entry is None:
            return None
        try:
            return cast(click.Command, load_entry(entry))
        except BlamespanError as error:  # one broken package must not take the other commands with it
            return _unavailable(cmd_name, error)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands below their headings; those of other packages come last."""
        headings = _HEADINGS[self._entry_points]
        names = self.list_commands(ctx)
        more = [name for name in names if name in _MORE]
        others = [name for name in names if name not in more and not any(name in ours for ours in headings.values())]
        limit = formatter.width - 6 - max(map(len, names), default=0)
        for title, ours in {**headings, "Others": others}.items():
            commands = [(name, command) for name in ours if (command := self.get_command(ctx, name)) is not None]
            if commands:
                with formatter.section(title):
                    formatter.write_dl([(name, command.get_short_help_str(limit)) for name, command in commands])
        if more:
            formatter.write_paragraph()
            formatter.write_text(f"More: {', '.join(more)} (blamespan COMMAND --help)")

    @property
    def _entry_points(self) -> str:
        return _LAB_COMMANDS if self.name == "lab" else _COMMANDS


def _unavailable(name: str, error: BlamespanError) -> click.Command:
    def refuse(**_: object) -> None:
        raise error

    argument = click.Argument(["args"], nargs=-1, type=click.UNPROCESSED)
    settings = {"ignore_unknown_options": True}
    reason = str(error)
    return click.Command(
        name, callback=refuse, params=[argument], help=reason, short_help=reason, context_settings=settings
    )


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="blamespan")
def cli() -> None:
    """Say which agent failed, at which step and how.

    Quick look:  blamespan demo
    """
    for mistyped in mistyped_variables():
        click.echo(f"blamespan: {mistyped}", err=True)


@click.group(cls=_Commands)
def lab() -> None:
    """Make labelled runs, train tracers, and measure them.

    Example:  blamespan lab generate small --out corpora/small
    """


def make_folder(folder: Path) -> None:
    """Make the folder that `--out` names.

    Raises:
        ConfigError: if it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"expected --out to name a folder, got {str(folder)!r}: {reason_of(error)}") from error


def main() -> None:
    """Run the command line; errors raised on purpose become one line on stderr."""
    try:
        cli(prog_name="blamespan")
    except BlamespanError as error:
        _fail(error)
    except ModuleNotFoundError as error:  # commands import what they need when they run
        missing = missing_extra(error, "this command")
        if missing is None:
            raise
        _fail(missing)
    except BrokenPipeError:  # the reader of our stdout has gone: not our failure
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _fail(error: BlamespanError) -> NoReturn:
    click.echo(f"blamespan: {error}", err=True)
    sys.exit(2 if isinstance(error, ConfigError) else 1)


if __name__ == "__main__":
    main()
