"""The thread that keeps timers in files. See timer_keeper.pxd.

    keeper = TimerKeeper(log, directory, capacity)
    keeper.open(log_end, ..)        False: there is no checkpoint to go on from
    keeper.start()
    ...
    keeper.stop()                   writes what was sealed and the checkpoint
"""
import os
import re
from pathlib import Path

cimport cython
from libc.stdint cimport int64_t, uint32_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from cext.base.atomics cimport (
    load_acquire_i32,
    load_acquire_i64,
    store_release_i32,
    store_release_i64,
)
from cext.base.check cimport check
from cext.base.clock cimport monotonic_us, sleep_ms
from cext.base.native_thread cimport NativeBody, native_thread_join, native_thread_start
from cext.base.state cimport state_move
from cext.base.status cimport CORRUPT, IO_ERROR, NOT_FOUND, OK
from cext.base.sysio cimport close_file, event_open, event_signal, event_wait, sync_file
from cext.store.timers.keeper_batches cimport AHEAD_MS, earliest, load_batch, prefetch
from cext.store.timers.keeper_merge cimport merge_end, merge_some
from cext.store.timers.keeper_runs cimport drop_delivered, take_seal
from cext.store.timers.keeper_state cimport (
    BATCH_ENTRIES,
    BATCHES,
    MARKS_MAX,
    SEAL_FREE,
    SEAL_FULL,
    TimerSeal,
    key_of,
)
from cext.store.timers.timer_checkpoint cimport (
    KEEPER_PATH_BYTES,
    RUNS_MAX,
    timer_checkpoint_load,
    timer_checkpoint_save,
)
from cext.store.timers.timer_heap cimport (
    RECALL_MS,
    TIMER_FRESH,
    TIMER_NEVER,
    key_before,
    timer_heap_trim,
)
from cext.store.timers.timer_position cimport position_sync
from cext.store.timers.timer_run cimport (
    TimerRun,
    run_close,
    run_find,
    run_open,
    run_passed,
    run_path,
    run_peek,
)

from rmq.base.durable_directory import make_directory
from rmq.errors import StoreError

cdef extern from "<unistd.h>" nogil:
    int unlink(const char* path)

cdef enum:
    IDLE_MS = 1000              # the keeper sleeps at most so long
    DURABLE_MS = 50             # the same while it waits for the log's durable mark
    RETRY_MS = 500              # after the disk refused
    SAVE_US = 1000000           # between two checkpoints


# ------------------------------------------------------------------- the checkpoint

cdef int save(KeeperState* k, int64_t durable) noexcept nogil:
    """Writes the checkpoint as far as the log is durable; then removes files that it does not name.
    """
    cdef char path[KEEPER_PATH_BYTES + 64]
    cdef int64_t i, done = 0
    cdef int error = 0, status
    while done < k.mark_count and k.marks[done].log_end <= durable:
        k.table.covers = k.marks[done].covers
        done += 1
    k.mark_count -= done
    for i in range(k.mark_count):
        k.marks[i] = k.marks[i + done]
    for i in range(k.table.run_count):
        k.table.runs[i].named = k.table.runs[i].log_end <= durable
        if k.table.runs[i].named and not k.table.runs[i].synced:
            status = sync_file(k.table.runs[i].fd, &error)
            if status != OK:
                return status
            k.table.runs[i].synced = True
    # The checkpoint may leave out delivered entries, so the position must be on the disk first: a
    # power cut must not set it back to before them.
    if k.position != NULL and position_sync(k.position, k.position_syncer) != OK:
        return IO_ERROR
    status = timer_checkpoint_save(&k.table, k.directory)
    if status != OK:
        return status
    k.saved_us = monotonic_us()
    k.checkpoints += 1
    k.stale = k.mark_count > 0
    for i in range(k.obsolete_count):
        run_path(k.directory, k.obsolete[i], path)
        unlink(path)
    k.obsolete_count = 0
    return OK


cdef bint is_lasting(int status) noexcept nogil:
    """Whether trying again is useless: a damaged run stays damaged, a full disk may not stay full.
    """
    return status == CORRUPT


# ------------------------------------------------------------------- the thread

cdef int keeper_round(TimerKeeper keeper, bint finishing) noexcept nogil:
    cdef KeeperState* k = &keeper.state
    cdef int64_t due_ms = 0, wait = IDLE_MS
    cdef int status = OK, more = 0
    if load_acquire_i32(&k.seal.state) == SEAL_FULL:
        if k.table.run_count < RUNS_MAX - 1 and k.mark_count < MARKS_MAX:
            status = take_seal(k)
        if is_lasting(status):
            return status - 1000
        if load_acquire_i32(&k.seal.state) == SEAL_FULL:
            wait = RETRY_MS if status != OK else DURABLE_MS
    more = load_batch(k, &due_ms)
    while more == 1:
        prefetch(k, &k.batches[(k.tail - 1) & (BATCHES - 1)], keeper.log.link.directory,
                 keeper.log.segment_bytes, load_acquire_i64(&keeper.log.marks.written))
        more = load_batch(k, &due_ms)
    if more < 0:
        return more - 1000 if is_lasting(more) else RETRY_MS
    if due_ms != 0 and due_ms != TIMER_NEVER:
        wait = min(wait, max(<int64_t> 1, due_ms - AHEAD_MS - load_acquire_i64(&k.clock_ms)))
    drop_delivered(k)
    if k.stale and (k.mark_count == 0 or k.marks[0].log_end <= keeper.log.durable()) and (
            finishing or monotonic_us() - k.saved_us >= SAVE_US):
        if save(k, keeper.log.durable()) != OK:
            return RETRY_MS
    if k.stale:
        wait = min(wait, <int64_t> DURABLE_MS)
    status = merge_some(k)
    if status < 0:
        return status - 1000 if is_lasting(status) else RETRY_MS
    return 0 if status == 1 else <int> wait


cdef void keeper_give_up(KeeperState* k) noexcept nogil:
    cdef char path[KEEPER_PATH_BYTES + 64]
    snprintf(path, sizeof(path), b"%s/checkpoint", k.directory)
    unlink(path)
    store_release_i32(&k.broken, 1)


cdef void run(TimerKeeper keeper) noexcept nogil:
    cdef int wait_ms
    while load_acquire_i32(&keeper.state.stopping) == 0:
        wait_ms = keeper_round(keeper, False)
        if wait_ms < 0:
            keeper_give_up(&keeper.state)
            return
        if wait_ms > 0:
            event_wait(keeper.state.event, sleep_ms(wait_ms))


# ------------------------------------------------------------------- the class

@cython.no_gc_clear                  # __dealloc__ needs the object's fields
cdef class TimerKeeper:
    def __cinit__(self, CommitLog log not None, str directory not None, int64_t capacity):
        cdef int error = 0
        cdef bytes path = os.fsencode(directory)
        memset(&self.state, 0, sizeof(self.state))
        self.state.event = self.state.prefetch_fd = -1
        self.state.prefetch_segment = -1
        if len(path) >= KEEPER_PATH_BYTES:
            raise StoreError(f"{directory}: the path is too long")
        memcpy(self.state.directory, <const char*> path, len(path))
        self.log = log
        self.directory = directory
        self.capacity = capacity
        self.passed = []
        self.state.batches = <TimerBatch*> malloc(BATCHES * sizeof(TimerBatch))
        self.state.seal.entries = <TimerEntry*> malloc((capacity + 1) // 2 * sizeof(TimerEntry))
        self.state.event = event_open(&error)
        if self.state.batches == NULL or self.state.seal.entries == NULL or error != 0:
            raise MemoryError("no memory or descriptor for timers")
        self._forget()

    def __dealloc__(self):
        self._join()
        self._forget()
        free(self.state.batches)
        free(self.state.seal.entries)
        close_file(self.state.event)
        close_file(self.state.prefetch_fd)

    cdef void _forget(self) noexcept nogil:
        cdef KeeperState* k = &self.state
        cdef int64_t i
        if k.merge.active:
            merge_end(k)
        for i in range(k.table.run_count):
            run_close(&k.table.runs[i])
        k.table.run_count = k.mark_count = k.obsolete_count = k.table.covers = 0
        k.head = k.tail = k.seals_made = k.seals_taken = k.sent_seals = 0
        state_move(&k.seal.state, SEAL_FREE, 1 << SEAL_FREE | 1 << SEAL_FULL,
                   b"timers: a seal is free or full")
        k.seal.count = 0
        k.broken = k.stale = 0
        k.sent_bound = k.bound = k.forgotten = key_of(TIMER_NEVER, 0)

    def open(self, int64_t log_end, int64_t before_ms, int64_t before_place) -> bool:
        """Goes on from the checkpoint. False: there is none that fits a log of this length, so
        there are no runs, and the queue must be read from its beginning. Everything before the key
        (before_ms, before_place) is delivered."""
        cdef KeeperState* k = &self.state
        cdef TimerRun* of_run = NULL
        cdef TimerEntry* entry = NULL
        cdef int status
        make_directory(Path(self.directory))
        self._forget()
        k.clock_ms = before_ms
        k.delivered_ms = before_ms - RECALL_MS
        self.damage = None
        self.passed = []
        status = timer_checkpoint_load(&k.table, k.directory, log_end)
        if status == NOT_FOUND and self._numbers():
            self.damage = f"{self.directory}/checkpoint is missing"
        elif status == CORRUPT:
            self.damage = f"{self.directory}/checkpoint is damaged, or of a longer log"
        elif status != OK and status != NOT_FOUND:
            self.damage = f"{self.directory}/checkpoint cannot be read"
        if status == OK:
            status = self._open_runs(key_of(before_ms, before_place))
        if status == OK:
            status = earliest(k, &of_run, &entry)
            if status == OK:
                k.bound = entry.key
            status = OK if status == NOT_FOUND else status
        if status != OK:
            if self.damage is None and k.table.run_count:
                self.damage = "a run of the timers is damaged"
            self._forget()
            self.passed = []
            k.table.next_number = max([0] + self._numbers()) + 1
        names = {k.table.runs[i].number for i in range(k.table.run_count)}
        for number in self._numbers():
            if number not in names:
                os.unlink(os.path.join(self.directory, f"{number:020d}.run"))
        return status == OK

    cdef int _open_runs(self, TimerKey from_key):
        """Opens every run that the checkpoint names, at the first entry that is not delivered."""
        cdef KeeperState* k = &self.state
        cdef TimerEntry* entry = NULL
        cdef int64_t i, cursor, named = k.table.run_count
        cdef int status
        k.table.run_count = 0
        for i in range(named):
            file_name = f"{k.table.runs[i].number:020d}.run"
            self.damage = f"{self.directory}/{file_name} is missing or damaged"
            status = run_open(&k.table.runs[i], k.directory)
            if status != OK:
                return status
            k.table.run_count += 1
            k.table.runs[i].named = k.table.runs[i].synced = True
            if k.table.runs[i].count == 0:
                return CORRUPT
            k.table.runs[i].cursor = k.table.runs[i].count - 1
            status = run_peek(&k.table.runs[i], &entry)
            if status != OK:
                return status
            k.table.runs[i].last_ms = entry.key.due_ms
            status = run_passed(&k.table.runs[i], &from_key, self.passed)
            if status != OK:
                return status
            cursor = run_find(&k.table.runs[i], &from_key)
            if cursor < 0:
                return <int> cursor
            k.table.runs[i].cursor = cursor
        self.damage = None
        return OK

    def _numbers(self) -> list:
        found = (re.fullmatch(r"(\d{20})\.run", name) for name in os.listdir(self.directory))
        return [int(match[1]) for match in found if match]

    @property
    def covers(self) -> int:
        """Messages of the queue below this offset are in the runs."""
        return self.state.table.covers

    def oldest(self) -> int:
        """The log offset before which no run has an entry, except runs that are all delivered."""
        cdef int64_t i, least = TIMER_NEVER
        for i in range(self.state.table.run_count):
            if self.state.table.runs[i].last_ms >= self.state.delivered_ms:
                least = min(least, self.state.table.runs[i].oldest)
        return least

    def forget(self) -> None:
        """Removes the checkpoint, so that the next open() finds none. The thread must not run."""
        try:
            os.unlink(os.path.join(self.directory, "checkpoint"))
        except FileNotFoundError:
            pass

    def start(self) -> None:
        """Starts the thread."""
        cdef int error = 0
        self.state.stopping = 0
        if native_thread_start(&self.thread, <NativeBody> run, <void*> self, b"rmq-timers",
                               &error) != OK:
            raise StoreError(f"timer thread: {os.strerror(error)}")

    cdef void _join(self) noexcept:
        if self.thread.running:
            store_release_i32(&self.state.stopping, 1)
            event_signal(self.state.event)
            with nogil:
                native_thread_join(&self.thread)

    def stop(self) -> None:
        """Ends the thread and does the work that it left. May be called twice."""
        if self.thread.running:
            self._join()
            self.finish()

    def finish(self) -> None:
        """Takes the seal and writes the checkpoint, if the log is durable and the disk has room.
        The thread must not run."""
        cdef int wait_ms, turns = 0
        with nogil:
            while not self.state.broken and turns < 100 and (
                    self.state.seal.state == SEAL_FULL or self.state.stale):
                wait_ms = keeper_round(self, True)
                if wait_ms < 0:
                    break
                turns += 1

    cdef bint can_seal(self) noexcept nogil:
        return load_acquire_i32(&self.state.seal.state) == SEAL_FREE

    cdef void seal(self, TimerHeap* heap, int64_t keep, int64_t covers,
                   int64_t log_end) noexcept nogil:
        cdef KeeperState* k = &self.state
        cdef int64_t i
        for i in range(heap.count):
            if heap.entries[i].flags & TIMER_FRESH and k.seal.count < (self.capacity + 1) // 2:
                heap.entries[i].flags &= ~<uint32_t> TIMER_FRESH
                k.seal.entries[k.seal.count] = heap.entries[i]
                k.seal.count += 1
        k.forgotten = timer_heap_trim(heap, keep)
        k.seal.bound = k.forgotten
        k.seal.covers = covers
        k.seal.log_end = log_end
        k.seals_made += 1
        if key_before(&k.forgotten, &k.bound):
            k.bound = k.forgotten
        state_move(&k.seal.state, SEAL_FULL, 1 << SEAL_FREE,
                   b"timers: a seal is free before it is filled")
        event_signal(k.event)

    cdef void seal_also(self, const TimerEntry* entry) noexcept nogil:
        cdef TimerSeal* seal = &self.state.seal
        if seal.count < (self.capacity + 1) // 2:
            seal.entries[seal.count] = entry[0]
            seal.entries[seal.count].flags &= ~<uint32_t> TIMER_FRESH
            seal.count += 1

    cdef TimerBatch* next_batch(self) noexcept nogil:
        cdef KeeperState* k = &self.state
        if k.head == load_acquire_i64(&k.tail):
            return NULL
        return &k.batches[k.head & (BATCHES - 1)]

    cdef void taken(self) noexcept nogil:
        cdef KeeperState* k = &self.state
        cdef TimerBatch* batch = &k.batches[k.head & (BATCHES - 1)]
        check(k.head < load_acquire_i64(&k.tail), b"timers: a batch that is taken was made", k.head,
              k.tail)
        check(0 <= batch.count <= BATCH_ENTRIES, b"timers: a batch holds what fits it", batch.count,
              BATCH_ENTRIES)
        check(batch.seals <= k.seals_made, b"timers: no more seals are taken than were made",
              batch.seals, k.seals_made)
        k.bound = batch.bound
        if batch.seals != k.seals_made and key_before(&k.forgotten, &k.bound):
            k.bound = k.forgotten
        if batch.count == BATCH_ENTRIES:
            event_signal(k.event)           # a full batch: there may be more
        store_release_i64(&k.head, k.head + 1)

    cdef void set_position(self, PositionFile* position, int syncer) noexcept nogil:
        self.state.position, self.state.position_syncer = position, syncer

    cdef void set_clock(self, int64_t clock_ms, int64_t delivered_ms) noexcept nogil:
        store_release_i64(&self.state.clock_ms, clock_ms)
        store_release_i64(&self.state.delivered_ms, delivered_ms - RECALL_MS)

    cdef void wake(self) noexcept nogil:
        event_signal(self.state.event)

    cdef bint is_broken(self) noexcept nogil:
        return load_acquire_i32(&self.state.broken) != 0

    def counters(self) -> dict:
        """Plain reads: entries loaded, sealed and merged, checkpoints, runs, covers, and about how
        many entries wait in runs and batches."""
        cdef KeeperState* k = &self.state
        cdef int64_t waiting = 0, i
        for i in range(min(k.table.run_count, <int64_t> RUNS_MAX)):
            waiting += max(k.table.runs[i].count - k.table.runs[i].cursor, <int64_t> 0)
        if k.batches != NULL:
            for i in range(k.head, min(k.tail, k.head + BATCHES)):
                waiting += k.batches[i % BATCHES].count
        return {"waiting": waiting, "loaded": k.loaded, "sealed": k.sealed, "merged": k.merged,
                "checkpoints": k.checkpoints, "runs": k.table.run_count, "covers": k.table.covers}
