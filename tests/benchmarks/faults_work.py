"""The work that is timed: faults put into bundled teams and examined by replay, in processes that take turns."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from random import Random

from blamespan.intercepting.boundaries import PlannedFault
from blamespan_lab.make.counterfactual import CounterfactualResult, examine
from blamespan_lab.make.faults.catalogue import KINDS
from blamespan_lab.make.recording import Recording
from blamespan_lab.make.simulation.agents.team import CASTS
from blamespan_lab.make.simulation.program import Framework, Program
from blamespan_lab.make.simulation.random_stream import stable_seed
from blamespan_lab.make.simulation.tasks import FAMILIES
from blamespan_lab.make.simulation.topologies import TOPOLOGIES


@dataclass(frozen=True, slots=True)
class Cell:
    """Programs of one sort, each with one fault, of every third none: its agents' own mistakes are looked into.

    Attributes:
        number: Chooses tasks and faults.
        programs: How many.
    """

    family: str
    topology: str
    framework: Framework
    number: int
    programs: int


@dataclass(frozen=True, slots=True)
class Examined:
    """What came of one cell.

    Attributes:
        cell: Which.
        written: Faults that could be written, with a twin that succeeds.
        flipped: Those that made the run fail, and did not once they alone were put right.
        kept: Runs kept with a label that replay has confirmed, by purpose.
        dropped: Programs of which nothing was kept, by why.
        failures: Place of the decisive step, steps, and modes of each failure kept.
        digest: Of every span and label.
        cpu_s: Processor seconds.
        start_s: When work on it began, on this machine's clock; imports are done by then.
        end_s: When it ended.
    """

    cell: Cell
    written: int
    flipped: int
    kept: dict[str, int]
    dropped: dict[str, int]
    failures: tuple[tuple[int, int, tuple[str, ...]], ...]
    digest: str
    cpu_s: float
    start_s: float
    end_s: float


def cells(programs: int) -> list[Cell]:
    """List every family, topology and framework that go together, each with as many programs."""
    sorts = [
        (family, topology, framework)
        for family in FAMILIES
        for topology in TOPOLOGIES
        for framework in TOPOLOGIES[topology].frameworks
    ]
    return [Cell(*sort, number, programs) for number, sort in enumerate(sorts)]


def examined(work: Sequence[Cell], processes: int) -> list[Examined]:
    """Examine every cell, in so many processes at once."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_begin) as pool:
        list(pool.map(_warm, range(processes)))
        return list(pool.map(_examine, work))


_recordings: list[Recording] = []


def _begin() -> None:
    _recordings.append(Recording())
    _recordings[0].__enter__()


def _warm(number: int) -> None:
    """Import what is imported late, and give the other processes time to take one of these too."""
    for framework in ("autogen", "langgraph"):
        examine(Program("lookup", "chain", framework, seed=number), seed=number, recording=_recordings[0])
    time.sleep(0.5)


def _examine(cell: Cell) -> Examined:
    start_s, start_cpu_s = time.monotonic(), time.process_time()
    cases = list(_cases(cell))
    ended = time.process_time() - start_cpu_s, start_s, time.monotonic()
    kept: dict[str, int] = {}
    dropped: dict[str, int] = {}
    failures: list[tuple[int, int, tuple[str, ...]]] = []
    digest = hashlib.blake2b(digest_size=16)
    for _, case in cases:
        if case.dropped:
            dropped[case.dropped] = dropped.get(case.dropped, 0) + 1
        for run in case.runs:
            digest.update(json.dumps(run.label.as_json(), sort_keys=True).encode())
            digest.update("".join(span.to_json(indent=None) for span in run.spans).encode())
            if run.label.verified:
                kept[run.label.purpose] = kept.get(run.label.purpose, 0) + 1
            if run.label.decisive is not None:
                decisive = run.label.decisive
                failures.append((decisive.step, len(run.trace.steps), decisive.modes))
    put_in = [case for is_put_in, case in cases if is_put_in and case.runs]
    flipped = sum(run.label.purpose == "faulty" for case in put_in for run in case.runs)
    return Examined(
        cell,
        len(put_in) + sum(is_put_in and case.dropped in ("repair-fails", "no-step") for is_put_in, case in cases),
        flipped,
        kept,
        dropped,
        tuple(failures),
        digest.hexdigest(),
        *ended,
    )


def _cases(cell: Cell) -> Iterator[tuple[bool, CounterfactualResult]]:
    for number in range(cell.programs):
        seed = stable_seed("bench", cell.number, number) % 2**32
        rng = Random(seed)
        is_put_in = number % 3 != 2
        program = Program(
            cell.family,
            cell.topology,
            cell.framework,
            cast=rng.choice(CASTS),
            seed=seed,
            mistakes=0.02 if is_put_in else 0.1,
        )
        yield is_put_in, examine(program, [_fault(rng)] if is_put_in else [], seed=seed, recording=_recordings[0])


def _fault(rng: Random) -> PlannedFault:
    kind = KINDS[rng.choice(sorted(KINDS))]
    return PlannedFault(kind.name, step=rng.randrange(8), mechanism=rng.choice(kind.mechanisms))
