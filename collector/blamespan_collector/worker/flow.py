"""What the worker does, one small step after the other: a batch goes from the journal to the outbox in one direction.

    JournalFeed    entries of the journal, and the time that they stand for
    Assembler      which spans make a trace; it lets go of parts
    VerdictQueue   parts that wait for a verdict, and traces that went on and are owed one
    Passthrough    what goes on as it came
    CommitBatch    bytes for the outbox and the note that they were let go: one commit

What must happen once is one commit. Killed at any point, the next process goes on from there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from blamespan_collector.assembling.assembler import Assembler
from blamespan_collector.assembling.parts import Arrival, Released, TracePart
from blamespan_collector.journal import Entry
from blamespan_collector.journal.entries import item_of
from blamespan_collector.judging.scorer import Scored
from blamespan_collector.settings import Limits
from blamespan_collector.state.state import Record, State
from blamespan_collector.wire.outgoing import Kind, Outgoing
from blamespan_collector.worker.commits import CommitBatch, ReleasedMemory, Wait, commit, retry_disk
from blamespan_collector.worker.counts import WorkerCounts
from blamespan_collector.worker.journal_feed import JournalFeed
from blamespan_collector.worker.passthrough import Passthrough
from blamespan_collector.worker.verdict_queue import VerdictQueue

_RELEASED_AT_ONCE = 512


class Flow:
    """Moves batches through the stages and commits them. For one thread.

    Args:
        feed: Reads the journal.
        queue: Gets the verdicts.
        passthrough: Writes what gets none.
        state: Where it is committed.
        limits: When to stop waiting for a trace.
        kinds: What some sink takes; other bytes go nowhere.
        added: Called with what was put into the outbox.
        counts: Counts.
        now: Unix time in seconds that never runs backwards.
        wait: Called between two attempts to use the disk, as for `retry_disk`.
        commit_bytes: How much goes into one commit, where it can be parted.
    """

    def __init__(
        self,
        feed: JournalFeed,
        queue: VerdictQueue,
        passthrough: Passthrough,
        state: State,
        limits: Limits,
        *,
        kinds: frozenset[Kind],
        added: Callable[[Sequence[Outgoing]], None],
        counts: WorkerCounts,
        now: Callable[[], float],
        wait: Wait | None = None,
        commit_bytes: int = 8 * 1024 * 1024,
    ) -> None:
        self.feed, self.queue, self._passthrough, self._state = feed, queue, passthrough, state
        self._kinds, self._added, self._counts, self._now = kinds, added, counts, now
        self._wait, self._commit_bytes = wait, commit_bytes
        self._memory = ReleasedMemory(state)
        self.assembler: Assembler[int] = Assembler(limits, self._memory, follows=True)
        self._began_s = now()
        # What was carried over is taken up now; what is owed a verdict follows once there is time for it
        self._let_go_at_once([part for entry in feed.carried_entries() for part in self._assemble(entry)])

    def step(self) -> bool:
        """Move one batch: do what there is to do, a little of each. Return whether there was anything.

        Raises:
            Hung: if the tracer does not come back.
            sqlite3.Error: if the state cannot be written; the step can be tried again after a restart only.
        """
        batch = CommitBatch()
        self.feed.note_damages()
        self._take_results(batch)
        parts = self._read(batch)
        parts += self.assembler.due(self.feed.clock_s, self.queue.room)
        parts += self._take_up_owed({part.trace_id for part in parts})
        self._let_go(parts, batch)
        self._let_go_overdue(batch)
        self._commit(batch)
        is_submitted = self.queue.submit()
        return bool(parts or is_submitted or not batch.is_empty)

    def flush(self) -> None:
        """Let all that is held go."""
        self._let_go_at_once(self.assembler.flush())

    def give_up_on_verdicts(self, until_s: float) -> None:
        """Let what waits for a verdict go without; the next process gives it as a revision.

        Args:
            until_s: When to stop (monotonic); what is still held then is taken up from the journal.
        """
        tasks = self.queue.take_all()
        while tasks and time.monotonic() < until_s:
            batch = CommitBatch()
            for task in tasks[:_RELEASED_AT_ONCE]:
                self._release(task.part, batch, awaits_verdict=True)
                task.is_out = True
            self._commit(batch)
            del tasks[:_RELEASED_AT_ONCE]

    def needed(self) -> Iterator[int]:
        """Yield the packed positions of what is held or awaits a verdict."""
        for _, items in self.assembler.list_items():
            yield from items
        for task in self.queue.tasks:
            yield from task.part.items

    def _let_go_at_once(self, parts: Iterable[TracePart[int]]) -> None:
        batch = CommitBatch()
        self._let_go(parts, batch)
        self._commit(batch)

    def _read(self, batch: CommitBatch) -> list[TracePart[int]]:
        """Read on in the journal, unless verdicts are behind; return the parts that this lets go."""
        if not self.queue.room:
            return []
        entries = self.feed.read()
        self._memory.look_up({entry.trace_id for entry in entries})
        parts: list[TracePart[int]] = []
        for entry in self.feed.advance(entries):
            if entry.signal in ("traces", "events"):
                if not (self.feed.is_replaying and self._is_done(entry)):
                    parts += self._assemble(entry)
            elif entry.position > self.feed.passed:
                batch.passed = entry.position
                batch.outgoing += self._passthrough.write_request(entry)
                self._commit_if_large(batch)
        return parts

    def _is_done(self, entry: Entry) -> bool:
        """Check whether the last process let an entry go, or carried it over."""
        released = self._memory.get(entry.trace_id)
        return self.feed.is_carried(entry) or (released is not None and item_of(entry) in released.items)

    def _assemble(self, entry: Entry) -> list[TracePart[int]]:
        self.feed.set_clock(entry)
        arrival = Arrival(entry.trace_id, entry.keys, item_of(entry), entry.size_bytes)
        if entry.signal == "events":
            return self.assembler.attach(arrival, self.feed.clock_s)
        return self.assembler.add([arrival], self.feed.clock_s)

    def _let_go(self, parts: Iterable[TracePart[int]], batch: CommitBatch) -> None:
        """Line parts up for their verdicts; let those go that get none, or not in time."""
        for part in parts:
            self._counts.add(f"traces_{part.reason}")
            if part.reason == "revised":
                if not self.queue.add_owed(part):
                    self._counts.add("verdicts_postponed")
            elif not self.queue.can_judge(part):
                self._release(part, batch)
            elif not self.queue.add(part, max(self.feed.clock_s, self._began_s)):
                self._release_owed(part, batch)

    def _take_up_owed(self, coming: set[bytes]) -> list[TracePart[int]]:
        """Take up traces that are owed a verdict and were left to the state, but for those that are *coming* now."""
        return [
            part
            for trace_id, noted in self.queue.look_up_owed()
            if trace_id not in coming  # the state may know less of it than was let go meanwhile
            for part in self.assembler.take_up(trace_id, self._memory.get(trace_id) or noted, self.feed.clock_s)
        ]

    def _let_go_overdue(self, batch: CommitBatch) -> None:
        """Let parts go whose deadline has passed.

        Raises:
            Hung: if the tracer does not come back.
        """
        now_s = self._now()
        for task in self.queue.take_overdue(now_s):
            self._release(task.part, batch, awaits_verdict=True)
        for task in self.queue.take_expired(now_s):
            self._release_owed(task.part, batch)
            if len(batch.parts) >= _RELEASED_AT_ONCE:
                break  # the rest in the next step
        self.queue.check_tracers()

    def _take_results(self, batch: CommitBatch) -> None:
        for scored in self.queue.take_results():
            task = scored.task
            batch.settled.append(task.part)
            self._counts.took(scored.took_s)
            if task.is_out or task.part.reason == "revised":
                self._revise(scored, batch)
            elif scored.verdict is None:
                self._release(task.part, batch)
            else:
                self._release_judged(scored, batch)

    def _release_judged(self, scored: Scored, batch: CommitBatch) -> None:
        """Let a part go with its verdict."""
        assert scored.verdict is not None
        self._counts.verdicts(scored.verdict.runs)
        part = scored.task.part
        self.queue.add_second(scored, part.released.revision)
        self._add_part(part, Record(part.trace_id, part.released, scored.digests), scored.outgoing, batch)

    def _revise(self, scored: Scored, batch: CommitBatch) -> None:
        """Write a verdict on spans that are out."""
        part = scored.task.part
        noted = self._state.get(part.trace_id)
        if noted is None or (scored.task.is_second and noted.revision != part.released.revision):
            return  # forgotten meanwhile, or judged again on more spans
        digests = self._state.verdicts(part.trace_id)
        outgoing: list[Outgoing] = []
        if scored.verdict is None:
            self._counts.add("verdicts_missed")
        else:
            self._counts.verdicts(scored.verdict.runs, is_first=not digests)
            outgoing = self.queue.write_revision(scored, digests, noted.revision + 1)
            digests = scored.digests
        released: Released[int] = Released(frozenset(), revision=noted.revision + bool(outgoing))
        self.queue.add_second(scored, released.revision)
        batch.outgoing += outgoing
        batch.records.append(Record(part.trace_id, released, digests, is_revision=True))
        self._counts.add("revisions", bool(outgoing))

    def _release(self, part: TracePart[int], batch: CommitBatch, *, awaits_verdict: bool = False) -> None:
        """Let a part go as it came."""
        released = replace(part.released, awaits_verdict=True) if awaits_verdict else part.released
        if awaits_verdict:
            self._counts.add("traces_past_deadline")
        self._add_part(part, Record(part.trace_id, released), self._passthrough.write_part(part), batch)

    def _release_owed(self, part: TracePart[int], batch: CommitBatch) -> None:
        """Let a part go as it came, and follow its trace: a verdict on it is owed."""
        self._release(part, batch, awaits_verdict=True)
        self.assembler.follow(part.trace_id, replace(part.released, awaits_verdict=True), self.feed.clock_s)

    def _add_part(self, part: TracePart[int], record: Record, outgoing: Sequence[Outgoing], batch: CommitBatch) -> None:
        batch.outgoing += outgoing
        batch.records.append(record)
        batch.parts.append(part)
        self._commit_if_large(batch)

    def _commit_if_large(self, batch: CommitBatch) -> None:
        """Commit what there is already, where it is much: a full disk has room for little at once."""
        if batch.size_bytes > self._commit_bytes:
            self._commit(batch)
            batch.clear()

    def _commit(self, batch: CommitBatch) -> None:
        if batch.is_empty:
            return
        awaited = self.queue.awaited_traces()
        for row, record in enumerate(batch.records):
            if record.trace_id in awaited or self.assembler.is_followed(record.trace_id):
                batch.records[row] = replace(record, released=replace(record.released, awaits_verdict=True))
        outgoing = [item for item in batch.outgoing if item.kind in self._kinds]
        done = {item for part in (*batch.parts, *batch.settled) for item in part.items} & self._state.carried
        cleared = self.queue.suspects_among(batch.settled)
        commit(self._state, batch, outgoing, cleared, self._wait)
        self._memory.forget_committed(part.trace_id for part in batch.parts)
        self.queue.clear_suspects(cleared)
        self.feed.passed = batch.passed or self.feed.passed
        self._uncarry(done)
        self._added(outgoing)

    def _uncarry(self, done: set[int]) -> None:
        """Let go of what was carried over and is needed no more."""
        done -= set(self.needed()) if done else done
        if done:
            retry_disk("what is done cannot be forgotten", lambda: self._state.uncarry(done), self._wait)
            self._state.carried -= done
