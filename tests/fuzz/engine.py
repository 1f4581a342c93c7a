"""Runs one target under atheris (libFuzzer): coverage guides what is tried next. A process of its own per target.

python -m tests.fuzz.engine TARGET --inputs N --findings FOLDER [--grown FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

import atheris
import click

with atheris.instrument_imports(include=["blamespan", "blamespan_collector", "blamespan_integrations"]):
    from tests.fuzz.mutation import MAX_INPUT_BYTES
    from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"
_HANG_S = 10
_MEMORY_MB = 1024
_ONE_ALLOCATION_MB = 512


@click.command()
@click.argument("name", type=click.Choice(list(TARGETS)))
@click.option("--inputs", type=int, required=True)
@click.option("--findings", type=click.Path(path_type=Path), required=True)
@click.option("--grown", type=click.Path(path_type=Path), required=True, help="Inputs that reached new code go here.")
@click.option("--seed", default=1)
def main(*, name: str, inputs: int, findings: Path, grown: Path, seed: int) -> None:
    """Fuzz one target until it breaks, or until so many inputs were tried."""
    target = TARGETS[name]
    findings.mkdir(parents=True, exist_ok=True)
    grown.mkdir(parents=True, exist_ok=True)

    def change(data: bytes, max_size: int, seed: int) -> bytes:
        """Let libFuzzer's own changes and ours take turns."""
        if seed & 1:
            return bytes(atheris.Mutate(data, max_size))
        return target.mutate(data, Random(seed))[:max_size]

    options = [
        f"-runs={inputs}",
        f"-max_len={MAX_INPUT_BYTES}",
        f"-timeout={_HANG_S}",
        f"-rss_limit_mb={_MEMORY_MB}",
        f"-malloc_limit_mb={_ONE_ALLOCATION_MB}",
        f"-artifact_prefix={findings}/{name}-",
        f"-seed={seed}",
        "-print_final_stats=1",
    ]
    corpus = [str(grown), str(CORPUS / name)]
    atheris.Setup([sys.argv[0], *options, *corpus], target.check, custom_mutator=change)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
