"""From the journal to the outbox: what the worker does, one small step after the other.

Time is the journal's while it lags behind and the clock's once it has caught up, so that neither a restart nor
a backlog cuts a trace in two. What must happen once is one commit: a trace's bytes in the outbox and the note
that they were let go. Killed at any point, the next process goes on from there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from blamespan.errors import MalformedSpan
from blamespan_collector.assembling.assembler import Assembler
from blamespan_collector.assembling.parts import Arrival, Part, Released
from blamespan_collector.journal import Damage, Entry, JournalReader, Position
from blamespan_collector.journal.items import divided, item_of, pack_position, unpack_position
from blamespan_collector.judging.lanes import JudgingLane
from blamespan_collector.judging.scorer import MAX_ATTEMPTS, Scored, Task, outgoing_raw
from blamespan_collector.settings import Limits
from blamespan_collector.state.state import Record, State
from blamespan_collector.wire.outgoing import Kind, Outgoing
from blamespan_collector.wire.raw_spans import RawSpan, pieces, raw_spans, without_repeats
from blamespan_collector.worker.commits import PASSED, Write, commit, patiently
from blamespan_collector.worker.counts import WorkerCounts
from blamespan_collector.worker.owed import Owed
from blamespan_collector.worker.released_memory import ReleasedMemory

__all__ = ["Flow", "Hung"]

_logger = logging.getLogger("blamespan.collector")

_READ_AT_ONCE = 512
_RELEASED_AT_ONCE = 512
_MAX_WAITING = 512
"""Traces that wait for the tracer before more is read."""
_MAX_TRACE_BYTES = 64 * 1024 * 1024
"""Larger traces go on without a verdict: to read one takes many times its size in memory."""


class Hung(Exception):
    """The tracer does not come back: only a new process can get rid of it."""


class Flow:
    """Reads, assembles, asks for verdicts and commits. For one thread.

    Args:
        reader: Reads the journal.
        state: Where it is written.
        limits: When to stop waiting for a trace.
        deadline_s: How long a trace waits for its verdict.
        lanes: Give the verdicts; a trace goes to the first that takes it.
        max_bytes: Largest piece put into the outbox.
        kinds: What some sink takes; the rest is counted and goes nowhere.
        added: Told of what was put into the outbox.
        counts: Counts.
        now: Unix time in seconds that never runs backwards.
        find_room: Called where a commit has no room on the disk.
        commit_bytes: How much goes into one commit, where it can be parted.
    """

    def __init__(
        self,
        reader: JournalReader,
        state: State,
        limits: Limits,
        lanes: Sequence[JudgingLane],
        *,
        deadline_s: float,
        max_bytes: int,
        kinds: frozenset[Kind],
        added: Callable[[Sequence[Outgoing]], None],
        counts: WorkerCounts,
        now: Callable[[], float],
        find_room: Callable[[], bool] = lambda: False,
        commit_bytes: int = 8 * 1024 * 1024,
    ) -> None:
        self._reader, self._state, self._lanes, self._counts = reader, state, lanes, counts
        self._deadline_s, self._max_bytes, self._kinds = deadline_s, max_bytes, kinds
        self._added, self._now = added, now
        self._find_room, self._commit_bytes = find_room, commit_bytes
        self._memory = ReleasedMemory(state)
        self.assembler: Assembler[int] = Assembler(limits, self._memory, follows=True)
        self._owed = Owed(state)
        self._attempts = state.attempts()
        self._began_s = now()
        self._clock_s, self._is_replaying = 0.0, True
        self._passed = unpack_position(state.noted(PASSED))
        self.read_to = Position(0, 0)
        self._damaged_segments: set[int] = set()
        self._restore()

    def step(self) -> bool:
        """Do what there is to do, a little of each. Returns whether there was anything.

        Raises:
            Hung: if the tracer does not come back.
            sqlite3.Error: if the state cannot be written; the step can be tried again after a restart only.
        """
        write = Write()
        self._note_damages()
        self._take_results(write)
        parts = self._read(write)
        parts += self.assembler.due(self._clock_s, max(0, _MAX_WAITING - self._waiting))
        parts += self._owed_before({part.trace_id for part in parts})
        self._let_go(parts, write)
        self._expire(write)
        self._commit(write)
        submitted = self._submit()
        return bool(parts or submitted or not write.is_empty)

    def flush(self) -> None:
        """Let all that is held go."""
        write = Write()
        self._let_go(self.assembler.flush(), write)
        self._commit(write)

    def give_up_on_verdicts(self, until_s: float) -> None:
        """Let what waits for a verdict go without; the next process gives it as a revision.

        Args:
            until_s: When to stop (monotonic); what is still held then is taken up from the journal.
        """
        tasks = [task for task in self._held if not task.is_out and task.part.reason != "revised"]
        for lane in self._lanes:
            lane.waiting.clear()
        while tasks and time.monotonic() < until_s:
            write = Write()
            for task in tasks[:_RELEASED_AT_ONCE]:
                self._go_on(task.part, write, awaits_verdict=True)
                task.is_out = True
            self._commit(write)
            del tasks[:_RELEASED_AT_ONCE]

    @property
    def is_idle(self) -> bool:
        """Tell whether nothing waits for a verdict."""
        return self.waiting_traces == 0

    @property
    def waiting_traces(self) -> int:
        """Count the traces that wait for a verdict."""
        return self._waiting + len(self._owed) + len(self._scoring)

    @property
    def lag_s(self) -> float:
        """Tell how far behind the journal we are."""
        return max(0.0, self._now() - self._clock_s) if self._clock_s else 0.0

    def read_below(self) -> int:
        """Tell below which segment everything was read."""
        segments = self._reader.segments()
        return self.read_to.segment if self._reader.read(self.read_to, 1) else max(segments, default=0)

    def needed(self) -> Iterator[int]:
        """List the packed positions of what is held or awaits a verdict."""
        for _, items in self.assembler.kept():
            yield from items
        for task in (*self._held, *self._owed.tasks):
            yield from task.part.items

    @property
    def _held(self) -> list[Task]:
        return [task for lane in self._lanes for task in (*lane.scoring, *lane.waiting)]

    @property
    def _scoring(self) -> list[Task]:
        return [task for lane in self._lanes for task in lane.scoring]

    @property
    def _waiting(self) -> int:
        """Count the traces that are not given to a scorer yet."""
        return sum(len(lane.waiting) for lane in self._lanes)

    def _lane_of(self, part: Part[int]) -> JudgingLane:
        return next(lane for lane in self._lanes if lane.takes(part))

    def _awaiting(self) -> set[bytes]:
        """List the traces that are out and get a verdict."""
        being_judged = {task.part.trace_id for task in self._scoring if task.is_out or task.part.reason == "revised"}
        return being_judged.union(task.part.trace_id for task in self._owed.tasks)

    def _restore(self) -> None:
        """Take up what was carried over; what awaits a verdict follows once there is time for it."""
        write = Write()
        parts = [part for entry in list(self._state.carried_entries()) for part in self._arrive(entry)]
        self._let_go(parts, write)
        self._commit(write)

    def _read(self, write: Write) -> list[Part[int]]:
        """Read on in the journal, unless verdicts are behind."""
        if self._waiting >= _MAX_WAITING:
            return []
        entries = patiently("the journal cannot be read", lambda: self._reader.read(self.read_to, _READ_AT_ONCE))
        self._note_damages()
        self._memory.look_up({entry.trace_id for entry in entries})
        parts: list[Part[int]] = []
        for entry in entries:
            if entry.signal in ("traces", "events"):
                if not (self._is_replaying and self._is_done(entry)):
                    parts += self._arrive(entry)
            elif entry.position > self._passed:
                self._pass(entry, write)
                self._commit_if_large(write)
            self.read_to = entry.position
        if len(entries) < _READ_AT_ONCE:
            self._is_replaying = False
            self._clock_s = max(self._clock_s, self._now())
        return parts

    def _arrive(self, entry: Entry) -> list[Part[int]]:
        self._clock_s = max(self._clock_s, min(entry.received_ns / 1e9, self._now()))
        arrival = Arrival(entry.trace_id, entry.keys, item_of(entry), entry.size_bytes)
        if entry.signal == "events":
            return self.assembler.attach(arrival, self._clock_s)
        return self.assembler.add([arrival], self._clock_s)

    def _is_done(self, entry: Entry) -> bool:
        """Tell whether the last process let an entry go, or carried it over."""
        item, released = item_of(entry), self._memory.get(entry.trace_id)
        return item in self._state.carried or (released is not None and item in released.items)

    def _pass(self, entry: Entry, write: Write) -> None:
        """Send logs and metrics on as they came, split only where they must be."""
        write.passed = entry.position
        self._counts.add(f"{entry.signal}_requests_passed")
        if entry.signal not in self._kinds:
            self._counts.add(f"{entry.signal}_without_sink")
            return
        try:
            (payload,) = self.payloads([pack_position(entry.position)])
            records = list(raw_spans(payload))
        except (KeyError, MalformedSpan) as error:
            self._lost(f"a request of {entry.signal}", 1, error)
            return
        if len(payload) <= self._max_bytes:
            write.outgoing.append(Outgoing(entry.signal, len(records), payload))
        else:
            write.outgoing += [Outgoing(entry.signal, *piece) for piece in pieces(records, self._max_bytes)]

    def _let_go(self, parts: Iterable[Part[int]], write: Write) -> None:
        for part in parts:
            self._counts.add(f"traces_{part.reason}")
            attempts = self._attempts.get(part.trace_id, 0)
            if part.reason == "revised":
                if not self._owed.add(part, attempts):
                    self._counts.add("verdicts_postponed")
                continue
            deadline_s = max(self._clock_s, self._began_s) + self._deadline_s
            is_readable = part.size_bytes <= _MAX_TRACE_BYTES and attempts <= MAX_ATTEMPTS
            lane = self._lane_of(part)
            if part.is_worth_a_verdict and is_readable and not lane.is_overdue:
                lane.waiting.append(Task(part, deadline_s, attempts))
            else:
                is_owed = part.is_worth_a_verdict and is_readable
                self._go_on(part, write, awaits_verdict=is_owed)
                if is_owed:
                    self.assembler.follow(part.trace_id, replace(part.released, awaits_verdict=True), self._clock_s)

    def _owed_before(self, known: set[bytes]) -> list[Part[int]]:
        """Take up what is owed and was left to the state, but for what is *known* to come now."""
        found = self._owed.more()
        known |= self._awaiting() if found else set()
        return [
            part
            for trace_id, noted in found
            if trace_id not in known  # the state may know less of it than was let go meanwhile
            for part in self.assembler.take_up(trace_id, self._memory.get(trace_id) or noted, self._clock_s)
        ]

    def _go_on(self, part: Part[int], write: Write, *, awaits_verdict: bool = False) -> None:
        """Let a part go as it came."""
        released = replace(part.released, awaits_verdict=True) if awaits_verdict else part.released
        try:
            spans, _ = divided(part.items)  # events went on as the logs they are
            write.outgoing += outgoing_raw(part, self.payloads(spans), self._max_bytes)
        except (KeyError, MalformedSpan) as error:
            write.outgoing += self._readable_rest(part, spans, error)
        write.records.append(Record(part.trace_id, released))
        write.parts.append(part)
        if awaits_verdict:
            self._counts.add("traces_past_deadline")
        self._commit_if_large(write)

    def _readable_rest(self, part: Part[int], items: Sequence[int], error: Exception) -> list[Outgoing]:
        """Let go what can be read of a part, and count the rest as lost."""
        spans: list[RawSpan] = []
        for item in items:
            with suppress(KeyError, MalformedSpan):
                spans += raw_spans(self.payloads([item])[0])
        spans = without_repeats(spans, part.span_ids)
        self._lost(f"a part of trace {part.trace_id.hex()}", len(part.span_ids) - len(spans), error)
        return [Outgoing("traces", count, data) for count, data in pieces(spans, self._max_bytes)]

    def _expire(self, write: Write) -> None:
        """Let traces go whose deadline has passed."""
        now_s = self._now()
        for task in self._scoring:
            if task.deadline_s <= now_s and not task.is_out:
                task.is_out = True
                self._go_on(task.part, write, awaits_verdict=True)
        for lane in self._lanes:
            for task in lane.expired(now_s):
                self._go_on(task.part, write, awaits_verdict=True)
                released = replace(task.part.released, awaits_verdict=True)
                self.assembler.follow(task.part.trace_id, released, self._clock_s)
                if len(write.parts) >= _RELEASED_AT_ONCE:
                    break  # the rest in the next step
            if lane.hung_s is not None:
                raise Hung(f"the tracer did not come back from {len(lane.scoring)} traces in {lane.hung_s:.0f} s")

    def _submit(self) -> bool:
        """Give the scorers their next batches."""
        before = self._waiting + len(self._owed)
        held = {task.part.trace_id for task in self._held} if self._owed else set()
        for lane in self._lanes:  # a trace is in one lane at a time, or its verdicts could overtake each other
            self._owed.remove(lane.submit([task for task in self._owed.tasks if task.part.trace_id not in held]))
        return self._waiting + len(self._owed) < before

    def _take_results(self, write: Write) -> None:
        for lane in self._lanes:
            self._settle(lane.results(), write)

    def _settle(self, results: Sequence[Scored], write: Write) -> None:
        for scored in results:
            self._counts.took(scored.took_s)
            if scored.task.is_out or scored.task.part.reason == "revised":
                self._revise(scored, write)
            elif scored.verdict is None:
                self._go_on(scored.task.part, write)
            else:
                self._counts.verdicts(scored.verdict.runs)
                write.outgoing += scored.outgoing
                part = scored.task.part
                write.records.append(Record(part.trace_id, part.released, scored.digests))
                write.parts.append(part)
                self._commit_if_large(write)
        write.settled += [scored.task.part for scored in results]

    def _revise(self, scored: Scored, write: Write) -> None:
        """Tell a verdict on spans that are out."""
        part = scored.task.part
        noted = self._state.get(part.trace_id)
        if noted is None:
            return  # forgotten meanwhile
        known = self._state.verdicts(part.trace_id)
        outgoing: list[Outgoing] = []
        if scored.verdict is None:
            self._counts.add("verdicts_missed")
        else:
            self._counts.verdicts(scored.verdict.runs, is_first=not known)
            outgoing = self._lanes[0].scorer.beside(scored, known, noted.revision + 1)
        write.outgoing += outgoing
        released: Released[int] = Released(frozenset(), revision=noted.revision + bool(outgoing))
        digests = known if scored.verdict is None else scored.digests
        write.records.append(Record(part.trace_id, released, digests, is_revision=True))
        self._counts.add("revisions", bool(outgoing))

    def _commit(self, write: Write) -> None:
        if write.is_empty:
            return
        awaiting = self._awaiting()
        for row, record in enumerate(write.records):
            if record.trace_id in awaiting or self.assembler.is_followed(record.trace_id):
                write.records[row] = replace(record, released=replace(record.released, awaits_verdict=True))
        outgoing = [one for one in write.outgoing if one.kind in self._kinds]
        done = {item for part in (*write.parts, *write.settled) for item in part.items} & self._state.carried
        suspects = {part.trace_id for part in write.settled} & self._attempts.keys()
        commit(self._state, write, outgoing, suspects, self._find_room)
        self._memory.committed(part.trace_id for part in write.parts)
        for trace_id in suspects:
            del self._attempts[trace_id]
        self._passed = write.passed or self._passed
        self._uncarry(done)
        self._added(outgoing)

    def _commit_if_large(self, write: Write) -> None:
        """Commit what there is already, where it is much: a full disk has room for little at once."""
        if write.size_bytes > self._commit_bytes:
            self._commit(write)
            write.clear()

    def _uncarry(self, done: set[int]) -> None:
        """Let go of what was carried over and is needed no more."""
        done -= set(self.needed()) if done else done
        if done:
            patiently("what is done cannot be forgotten", lambda: self._state.uncarry(done))
            self._state.carried -= done

    def payloads(self, items: Sequence[int]) -> list[bytes]:
        """Read what stands for a trace's spans.

        Raises:
            KeyError: if some of it is gone.
        """
        return patiently("the journal cannot be read", lambda: self._payloads(items))

    def _payloads(self, items: Sequence[int]) -> list[bytes]:
        carried = self._state.carried
        if not carried or carried.isdisjoint(items):
            return self._reader.payloads([unpack_position(item) for item in items])
        return [
            self._state.carried_payload(item) if item in carried else self._reader.payload(unpack_position(item))
            for item in items
        ]

    def _note_damages(self) -> None:
        """Count, log and keep what the journal's reader found damaged since it was asked last."""
        for damage in self._reader.take_damages():
            rows = self._unknown_rows(damage)
            # Of what was read before, the spans are counted when their trace goes on without them
            spans = damage.spans if rows and not damage.was_read else 0
            try:
                kept = self._reader.keep_damaged(damage)
            except OSError as error:
                _logger.warning("damaged bytes of the journal cannot be kept: %s", error)
            else:
                if kept is None:  # the process before us told
                    continue
            self._damaged_segments.add(damage.segment)
            self._counts.counts["segments_damaged"] = len(self._damaged_segments)
            self._counts.add("entries_damaged", len(rows))
            self._counts.add("spans_lost", spans)
            _logger.error("%s. %d entries with %d spans are lost; everything else goes on", damage, len(rows), spans)

    def _unknown_rows(self, damage: Damage) -> list[int]:
        """List the rows of a damage that were not let go, sent on or carried over before."""
        if not damage.rows:
            return []
        if damage.signal in ("logs", "metrics"):
            return [row for row in damage.rows if Position(damage.segment, row) > self._passed]
        done = self._state.done_rows(damage.segment)
        return [row for row in damage.rows if row not in done]

    def _lost(self, what: str, spans: int, error: Exception) -> None:
        self._counts.add("spans_lost", spans)
        _logger.error("%s (%d) is lost: its journal segment is damaged or gone (%r)", what, spans, error)
