"""What goes wrong in one round: each fault leaves the world well again, and the collector running."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import psutil

from tests.faults.backend import BAD_MOODS, Backend
from tests.faults.client import Clients
from tests.faults.collector import CollectorProcess, NotReady
from tests.faults.disk import Disk

STARTS_WITHIN_S = 40.0
ORPHANS_END_WITHIN_S = 10.0
_ATTEMPT_S = 15.0


@dataclass(slots=True)
class World:
    """Everything a fault can touch."""

    random: Random
    collector: CollectorProcess
    backend: Backend
    disk: Disk
    clients: Clients

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
    full_disk: 2,
    full_disk_and_kill: 2,
    pause_worker: 1,
    stop_in_order: 2,
    calm: 1,
}
"""How often each comes, relative to the others."""
