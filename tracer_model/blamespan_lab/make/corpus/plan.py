"""What a recipe asks for, parted into blocks: runs that are made together and known by a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from blamespan_lab.make.corpus.recipe import CorpusRecipe
from blamespan_lab.make.simulation.topologies import Framework

__all__ = ["Block", "blocks_of", "wanted_runs"]


@dataclass(frozen=True, slots=True)
class Block:
    """Runs of one family, topology and framework.

    Attributes:
        number: From 0; with the recipe, all that decides what runs come out.
        family: Of the tasks.
        topology: Of the teams.
        framework: That runs them.
        clean: How many runs of each purpose are wanted; this and the next four.
        faulty: Likewise.
        harmless: Likewise.
        natural: Likewise.
        several: Likewise.
        failures_before: How many failures the blocks before it are to have: where its places in a run go on from.
    """

    number: int
    family: str
    topology: str
    framework: Framework
    clean: int
    faulty: int
    harmless: int
    natural: int
    several: int
    failures_before: int

    @property
    def runs(self) -> int:
        """Count the runs wanted."""
        return self.clean + self.faulty + self.harmless + self.natural + self.several


def blocks_of(recipe: CorpusRecipe) -> list[Block]:
    """Part *recipe* into blocks of at most about `balance.block` runs, each purpose spread evenly over them."""
    cells = recipe.cells()
    per_cell = -(-recipe.runs // (len(cells) * recipe.balance.block))
    cells = [cell for cell in cells for _ in range(per_cell)]
    spread, assigned = {}, 0
    for purpose, count in wanted_runs(recipe).items():
        spread[purpose] = _spread(count, len(cells), assigned)
        assigned += count
    blocks, failures = [], 0
    for number, (family, topology, framework) in enumerate(cells):
        counts = {purpose: rows[number] for purpose, rows in spread.items()}
        blocks.append(Block(number, family, topology, framework, **counts, failures_before=failures))
        failures += counts["faulty"] + counts["natural"] + counts["several"]
    return [block for block in blocks if block.runs]


def wanted_runs(recipe: CorpusRecipe) -> dict[str, int]:
    """Count the runs wanted, by purpose."""
    shares = asdict(recipe.shares)
    return dict(zip(shares, _apportion(recipe.runs, list(shares.values())), strict=True))


def _apportion(total: int, shares: Sequence[int]) -> list[int]:
    """Part *total* by *shares* in percent, to whole numbers that add up: the largest remainders are rounded up."""
    parts = [total * share // 100 for share in shares]
    remainders = sorted(range(len(shares)), key=lambda index: (-(total * shares[index] % 100), index))
    for index in remainders[: total - sum(parts)]:
        parts[index] += 1
    return parts


def _spread(count: int, n_places: int, start: int) -> list[int]:
    """Spread *count* over places as evenly as can be; what is left over goes to places far from one another."""
    rows = [count // n_places] * n_places
    left = count % n_places
    for number in range(left):
        rows[(start + number * n_places // left) % n_places] += 1
    return rows
