"""Making a corpus with every core: blocks in processes, kept as they come, gone on with where work was interrupted."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blamespan.cores import cores
from blamespan.errors import BlamespanError
from blamespan.plugins import require
from blamespan.worker_processes import end_with_parent
from blamespan_lab.make.corpus.recipe import Block, CorpusRecipe, blocks_of
from blamespan_lab.make.corpus.storage import CorpusFolder, MadeBlock, read_manifest

if TYPE_CHECKING:
    from blamespan_lab.make.recording import Recording

OnBlock = Callable[[int, int], None]
"""Told after each block for how many runs there are enough to choose from by now, and how many are wanted."""

_MODULES = {"autogen": "autogen_agentchat", "langgraph": "langgraph"}

_worker: tuple[CorpusRecipe, Recording] | None = None
"""What a process of the pool makes, and what it records with."""


def generate_corpus(
    recipe: CorpusRecipe, folder: Path, *, processes: int | None = None, on_block: OnBlock | None = None
) -> dict[str, Any]:
    """Make the corpus of *recipe* in *folder*, or what is missing of it, and give its description.

    What comes out depends on the recipe and the installed versions alone, to the byte, with `faults.writer` being
    `operators`; a model behind an endpoint may answer otherwise every time.

    Args:
        recipe: What to make.
        folder: Where; new, empty, or begun with the same recipe.
        processes: How many work at once; by default as many as there are cores.
        on_block: Told how far it is.

    Raises:
        ConfigError: if the folder holds something else, or the endpoint that the recipe asks for is not set.
        MissingExtra: if a framework of the recipe is not installed.
        BlamespanError: if the disk is full or a process was killed; a second call goes on from there.
    """
    for framework in recipe.teams.frameworks:
        require(_MODULES[framework], framework)
    _check_writer(recipe)
    corpus = CorpusFolder(folder, recipe)
    with corpus.lock():
        if corpus.is_finished():
            return read_manifest(folder)
        blocks = blocks_of(recipe)
        done = corpus.done()
        left = [block for block in blocks if block.number not in done]
        runs_done = sum(block.runs for block in blocks if block.number in done)
        if on_block is not None:
            on_block(runs_done, recipe.runs)
        sizes = {block.number: block.runs for block in left}
        for block in _make_blocks(recipe, left, processes or cores()):
            corpus.keep(block)
            runs_done += sizes[block.number]
            if on_block is not None:
                on_block(runs_done, recipe.runs)
        return corpus.finish()


def _check_writer(recipe: CorpusRecipe) -> None:
    if recipe.faults.writer == "model":
        from blamespan.intercepting.boundaries import PlannedFault
        from blamespan_lab.make.faults.interceptor import interceptor

        interceptor(PlannedFault("aegis:FM-1.1", writer="model"))  # says what of its settings is missing


def _make_blocks(recipe: CorpusRecipe, blocks: Sequence[Block], processes: int) -> Iterator[MadeBlock]:
    """Make the blocks, a few waiting for each process, and yield them as they come."""
    if not blocks:
        return
    context = multiprocessing.get_context("spawn")  # frameworks start threads: a fork may stand still
    with ProcessPoolExecutor(
        min(processes, len(blocks)), mp_context=context, initializer=_start_worker, initargs=(recipe,)
    ) as pool:
        ahead = iter(blocks)
        waiting: set[Future[MadeBlock]] = set()
        try:
            while True:
                while len(waiting) < 2 * processes and (block := next(ahead, None)) is not None:
                    waiting.add(pool.submit(_make_one, block))
                if not waiting:
                    return
                ready, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in ready:
                    yield future.result()
        except BrokenProcessPool as error:
            raise BlamespanError(
                "expected every process to work to its end, got one that was killed, perhaps for its memory. Run the "
                "same command again, with fewer --processes: what was made so far is kept"
            ) from error
        finally:
            for future in waiting:
                future.cancel()


def _start_worker(recipe: CorpusRecipe) -> None:
    """Set a process up: Ctrl-C is the parent's to answer, and without the parent there is nothing to do."""
    global _worker
    from blamespan_lab.make.recording import Recording

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in ("autogen_core", "langgraph", "asyncio", "blamespan_lab.make.simulation"):  # what faults do to them
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    warnings.simplefilter("ignore")  # likewise
    end_with_parent()
    _worker = (recipe, Recording().__enter__())  # open as long as the process: instrumenting takes longer than a run
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)  # runs leave little behind: looking less often saves a tenth of the time


def _make_one(block: Block) -> MadeBlock:
    from blamespan_lab.make.corpus.attempts import make_block

    assert _worker is not None  # the process was set up
    recipe, recording = _worker
    return make_block(recipe, block, recording)
