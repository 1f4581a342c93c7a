"""`blamespan skill`: a skill file that tells coding agents how to use blamespan, in the Agent Skills format."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(
    epilog="""\b
Example:
  mkdir -p .agents/skills/blamespan && blamespan skill > .agents/skills/blamespan/SKILL.md
"""
)
def skill() -> None:
    """Print a skill file for coding agents: ask for failures, read a verdict, verify a fix."""
    click.echo((Path(__file__).parent / "SKILL.md").read_text(encoding="utf-8"), nl=False)
