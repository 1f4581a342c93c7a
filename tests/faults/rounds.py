"""What goes wrong in one round: each fault leaves the world well again, and the collector running."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from random import Random

import psutil

from tests.faults.backend import BAD_MOODS, Backend
from tests.faults.client import Clients
from tests.faults.collector import CollectorProcess, NotReady
from tests.faults.damage import damage_file, damageable
from tests.faults.disk import Disk
from tests.faults.filling import fill_journal, foreign_writer

STARTS_WITHIN_S = 40.0
ORPHANS_END_WITHIN_S = 10.0
GOES_ON_WITHIN_S = 10.0
_ATTEMPT_S = 15.0
_DRAINED_WITHIN_S = 400.0


@dataclass(slots=True)
class World:
    """Everything a fault can touch.

    Attributes:
        resent: Spans that were delivered again on request.
        damages: What was done to which kind of file, with how often.
        standstill_s: The longest time without a delivery after a fault, while something waited.
        reasons: What `/readyz` said where that was longer than `GOES_ON_WITHIN_S`.
    """

    random: Random
    collector: CollectorProcess
    backend: Backend
    disk: Disk
    clients: Clients
    resent: int = 0
    damages: Counter[str] = field(default_factory=Counter)
    standstill_s: float = 0.0
    reasons: Counter[str] = field(default_factory=Counter)

    def start(self) -> None:
        """Start the collector; more than once where it finds its folder still in use.

        Raises:
            NotReady: if it does not come up at all.
        """
        until_s = time.monotonic() + STARTS_WITHIN_S
        while True:
            self.collector.spawn()
            try:
                self.clients.point_to(self.collector.wait_ready(_ATTEMPT_S))
                return
            except NotReady:
                self.collector.kill()
                if time.monotonic() > until_s:
                    raise
                time.sleep(0.2)

    def check_goes_on(self, *, until_drained: bool = False) -> None:
        """Wait for the next delivery where something waits, or for all of them; `/readyz` has to say why none comes.

        Args:
            until_drained: Wait until nothing waits that was acknowledged up to now.
        """
        began_s = progress_s = time.monotonic()
        arrivals = self.backend.arrivals
        missing, arrived = arrivals.missing(self.clients.ledger.copy_acknowledged()), len(arrivals.seen)
        is_noted = False
        while missing and time.monotonic() - began_s < _DRAINED_WITHIN_S:
            time.sleep(0.1 if len(missing) < 1_000 else 0.5)
            before, missing = arrived, arrivals.missing(missing)
            arrived, now_s = len(arrivals.seen), time.monotonic()
            if arrived > before:
                progress_s, is_noted = now_s, False
            self.standstill_s = max(self.standstill_s, now_s - progress_s)
            if self.collector.note_unexpected_end() or (not until_drained and arrived > before):
                return
            if now_s - progress_s > GOES_ON_WITHIN_S and not is_noted:
                is_noted = True
                reason = self.collector.not_ready()
                if reason is None:
                    self.collector.failures.append(
                        f"{len(missing)} spans wait, none came for {GOES_ON_WITHIN_S:g} s, and it says it is ready"
                    )
                    return
                self.reasons[reason] += 1

    def wait(self, least_s: float, most_s: float) -> None:
        time.sleep(self.random.uniform(least_s, most_s))


def kill_all(world: World) -> None:
    """Kill every process of the collector under load."""
    world.wait(0.1, 1.2)
    world.collector.kill()
    world.start()


def kill_worker(world: World) -> None:
    """Kill one of the child processes; the main one has to start it again."""
    world.wait(0.1, 0.8)
    workers = world.collector.workers()
    if not workers:
        return kill_all(world)
    world.random.choice(workers).kill()
    world.wait(0.3, 1.0)
    return None


def kill_main(world: World) -> None:
    """Kill the main process only; its children have to end, and must not harm their successors."""
    world.wait(0.1, 0.8)
    orphans = world.collector.kill_main_only()
    try:
        world.start()
    finally:
        for orphan in psutil.wait_procs(orphans, ORPHANS_END_WITHIN_S)[1]:
            world.collector.failures.append(f"child {orphan.pid} outlived its parent by {ORPHANS_END_WITHIN_S:g} s")
            orphan.kill()


def kill_while_starting(world: World) -> None:
    """Kill all, and again at some point of the next start, when the journal is being read again."""
    world.wait(0.1, 0.5)
    world.collector.kill()
    world.collector.spawn()
    world.wait(0.1, 1.5)
    world.collector.kill()
    world.start()


def pause_worker(world: World) -> None:
    """Stop a child process for a while, as a starved machine does."""
    workers = world.collector.workers()
    paused = world.random.choice(workers) if workers else None
    if paused:
        paused.suspend()
    world.wait(0.3, 1.5)
    if paused and paused.is_running():
        paused.resume()


def stop_in_order(world: World) -> None:
    """Ask the collector to stop under load, and start it again."""
    world.wait(0.2, 0.8)
    world.collector.stop()
    world.start()


def outage(world: World) -> None:
    """Let the backend misbehave for a while."""
    world.backend.mood = world.random.choice(BAD_MOODS)
    world.wait(0.5, 2.0)
    world.backend.mood = "well"


def outage_and_kill(world: World) -> None:
    """Kill in the middle of an outage, and start again while it lasts."""
    world.backend.mood = world.random.choice(BAD_MOODS)
    kill_all(world)
    world.backend.mood = "well"


def kill_backend(world: World) -> None:
    """Kill a backend that acknowledges before it persists, and ask for what it lost once it is back."""
    since_s = time.time()
    world.wait(0.5, 2.0)
    world.backend.die(since_s)
    world.wait(0.2, 1.0)
    world.backend.mood = "well"
    world.resent += world.collector.resend(since_s)


def full_disk(world: World) -> None:
    """Let the disk be full for a while, to the last byte or nearly."""
    world.disk.fill(world.random.choice((0, 4096, 100_000, 500_000)))
    world.wait(0.5, 1.5)
    world.disk.fill()
    world.wait(0.2, 0.5)
    world.disk.empty()


def full_disk_and_kill(world: World) -> None:
    """Kill while the disk is full; there is room again some time into the next start."""
    world.disk.fill(world.random.choice((0, 4096, 100_000)))
    world.wait(0.2, 1.0)
    world.collector.kill()
    world.collector.spawn()
    world.wait(0.5, 1.5)
    world.disk.empty()
    try:
        world.clients.point_to(world.collector.wait_ready(_ATTEMPT_S))
    except NotReady:  # no room, no start: in order, as long as it comes up now
        world.collector.kill()
        world.start()


def damage(world: World) -> None:
    """Kill all, mostly while spans wait, and damage one of the files that wait on disk."""
    if world.random.random() < 0.8:
        world.backend.mood = "failing"
    world.wait(0.5, 2.5)
    world.collector.kill()
    files = damageable(world.collector.journal)
    if files:
        kind = world.random.choice(sorted(files))
        world.damages[damage_file(world.random.choice(files[kind]), kind, world.random)] += 1
    world.backend.mood = "well"
    world.start()


def disk_full_by_journal(world: World) -> None:
    """Let the journal fill its own disk while the backend is away; all of it has to go out afterwards."""
    _fill_and_drain(world, is_foreign=False)


def disk_full_by_foreign_writer(world: World) -> None:
    """The same, while another program takes every byte that becomes free."""
    _fill_and_drain(world, is_foreign=True)


def _fill_and_drain(world: World, *, is_foreign: bool) -> None:
    world.backend.mood = "refusing"
    fill_journal(world.collector.addresses["http"], world.clients.ledger, world.random)
    with foreign_writer(world.disk.folder) if is_foreign else nullcontext():
        world.wait(0.5, 1.5)
        end = world.random.choice((None, world.collector.kill, world.collector.stop))
        if end is not None:
            end()
            world.start()
        world.backend.mood = "well"
        world.check_goes_on(until_drained=True)


def calm(world: World) -> None:
    """Nothing; duplicates, late spans and disorder come all the time anyway."""
    world.wait(0.5, 1.0)


FAULTS: dict[Callable[[World], None], int] = {
    kill_all: 5,
    kill_worker: 4,
    kill_main: 2,
    kill_while_starting: 2,
    outage: 4,
    outage_and_kill: 2,
    kill_backend: 3,
    full_disk: 2,
    full_disk_and_kill: 2,
    pause_worker: 1,
    stop_in_order: 2,
    calm: 1,
}
"""How often each comes, relative to the others."""

NAMED_FAULTS: tuple[Callable[[World], None], ...] = (damage, disk_full_by_journal, disk_full_by_foreign_writer)
"""These come only where they are named: damage costs spans, and a journal that fills its disk takes long."""
