"""`python -m blamespan` is the `blamespan` command."""

from blamespan.cli import main

main()
