"""The thread that keeps timers in files. See timer_keeper.pxd.

    keeper = TimerKeeper(log, directory, capacity)
    keeper.open(log_end)            False: there is no checkpoint to go on from
    keeper.start()
    ...
    keeper.stop()                   writes what was sealed and the checkpoint
"""
import os
import re
from pathlib import Path

cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free, malloc, qsort
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
from cext.store.log.segment cimport segment_path
from cext.store.timers.timer_checkpoint cimport (
    KEEPER_PATH_BYTES,
    RUNS_MAX,
    timer_checkpoint_load,
    timer_checkpoint_save,
)
from cext.store.timers.timer_heap cimport (
    RECALL_MS,
    TIMER_FRESH,
    TIMER_MESSAGE,
    TIMER_NEVER,
    key_before,
    key_same,
    timer_heap_trim,
    timer_sort,
)
from cext.store.timers.timer_position cimport position_sync
from cext.store.timers.timer_run cimport (
    run_close,
    run_find,
    run_open,
    run_passed,
    run_path,
    run_peek,
    run_writer_add,
    run_writer_drop,
    run_writer_finish,
    run_writer_open,
)

from rmq.base.durable_directory import make_directory
from rmq.errors import StoreError

cdef extern from "<unistd.h>" nogil:
    int unlink(const char* path)

cdef extern from "<fcntl.h>" nogil:
    int posix_fadvise(int fd, int64_t offset, int64_t length, int advice)
    int c_open "open" (const char* path, int flags, ...)
    int POSIX_FADV_WILLNEED
    int O_RDONLY
    int O_CLOEXEC

cdef enum:
    AHEAD_MS = 2000             # entries are handed over so long before they are due
    IDLE_MS = 1000              # the keeper looks as often at least
    DURABLE_MS = 50             # looks at the log's durable mark
    RETRY_MS = 500              # after the disk refused
    SAVE_US = 1000000           # between two checkpoints
    MERGE_STEP = 16384          # entries merged between two looks at everything else
    NEAR_BYTES = 67108864       # records so near to the log's end are in memory
    GAP_BYTES = 131072          # records nearer to each other are read at once


cdef inline TimerKey key_of(int64_t due_ms, int64_t place) noexcept nogil:
    cdef TimerKey key
    key.due_ms = due_ms
    key.place = place
    return key


# ------------------------------------------------------------------- runs

cdef void doom(KeeperState* k, uint64_t number) noexcept nogil:
    """The file goes once a checkpoint is on disk that does not name it."""
    if k.doomed_count < DOOMED_MAX:
        k.doomed[k.doomed_count] = number
        k.doomed_count += 1                 # what does not fit goes at the next start
    k.stale = True


cdef void drop_run(KeeperState* k, int64_t at) noexcept nogil:
    doom(k, k.table.runs[at].number)
    run_close(&k.table.runs[at])
    k.table.run_count -= 1
    while at < k.table.run_count:
        k.table.runs[at] = k.table.runs[at + 1]
        at += 1


cdef void drop_delivered(KeeperState* k) noexcept nogil:
    """Runs of which nothing is left to be handed over nor to be delivered."""
    cdef int64_t delivered = load_acquire_i64(&k.delivered_ms)
    cdef int64_t at = 0
    while at < k.table.run_count:
        if (k.table.runs[at].named and k.table.runs[at].cursor >= k.table.runs[at].count
                and k.table.runs[at].last_ms < delivered and not k.merge.active):
            drop_run(k, at)
        else:
            at += 1


cdef int add_run(KeeperState* k, const RunWriter* written, int64_t level, int64_t last_ms,
                 int64_t covers, int64_t log_end, const TimerKey* from_key) noexcept nogil:
    """A new run, to be handed over from a key on. OK, or why it cannot be read."""
    cdef TimerRun* run = &k.table.runs[k.table.run_count]
    cdef int64_t cursor
    cdef int status
    memset(run, 0, sizeof(TimerRun))
    run.number = written.number
    run.level = level
    run.count = written.count
    run.oldest = written.oldest
    run.covers = covers
    run.log_end = log_end
    run.last_ms = last_ms
    status = run_open(run, k.directory)
    if status != OK:
        return status
    cursor = run_find(run, from_key)
    if cursor < 0:
        run_close(run)
        return <int> cursor
    run.cursor = cursor
    k.table.run_count += 1
    k.stale = True
    return OK


cdef int forget_from(KeeperState* k, const TimerKey* key) noexcept nogil:
    """The reactor has forgotten what is not before the key: it is to be handed over again."""
    cdef int64_t i, cursor
    for i in range(k.table.run_count):
        if key.due_ms == TIMER_NEVER:
            continue
        cursor = run_find(&k.table.runs[i], key)
        if cursor < 0:
            return <int> cursor
        k.table.runs[i].cursor = min(k.table.runs[i].cursor, cursor)
    return OK


cdef int take_seal(KeeperState* k) noexcept nogil:
    """The sealed entries become a run. OK, or why not: it is tried again."""
    cdef TimerSeal* seal = &k.seal
    cdef int64_t delivered = load_acquire_i64(&k.delivered_ms)
    cdef int64_t i, last = -1
    cdef RunWriter writer
    cdef int status = OK
    timer_sort(seal.entries, seal.count)
    i = 0                               # tried again after a failure: it is sorted already
    while i < seal.count and seal.entries[i].key.due_ms < delivered:
        i += 1
    if i < seal.count:
        status = run_writer_open(&writer, k.directory, k.table.next_number)
        while status == OK and i < seal.count:
            if last < 0 or not key_same(&seal.entries[i].key, &seal.entries[last].key):
                status = run_writer_add(&writer, &seal.entries[i])
            last = i
            i += 1
        if status == OK:
            status = run_writer_finish(&writer)
        else:
            run_writer_drop(&writer)
        if status == OK:
            status = add_run(k, &writer, 0, seal.entries[last].key.due_ms, seal.covers,
                             seal.log_end, &seal.bound)
        if status != OK:
            return status
        k.table.next_number += 1
    status = forget_from(k, &seal.bound)
    if status != OK:
        return status
    k.marks[k.mark_count].covers = seal.covers
    k.marks[k.mark_count].log_end = seal.log_end
    k.mark_count += 1
    k.stale = True
    k.seals_taken += 1
    k.sealed += seal.count
    seal.count = 0
    state_move(&seal.state, SEAL_FREE, 1 << SEAL_FULL, b"timers: a seal is full before it is taken")
    return OK


# ------------------------------------------------------------------- handing over

cdef int earliest(KeeperState* k, TimerRun** of_run, TimerEntry** entry) noexcept nogil:
    """The next entry of all runs. OK | NOT_FOUND | why a run cannot be read."""
    cdef TimerEntry* one = NULL
    cdef int64_t i
    cdef int status
    of_run[0] = NULL
    for i in range(k.table.run_count):
        status = run_peek(&k.table.runs[i], &one)
        if status == NOT_FOUND:
            continue
        if status != OK:
            return status
        if of_run[0] == NULL or key_before(&one.key, &entry[0].key):
            of_run[0] = &k.table.runs[i]
            entry[0] = one
    return OK if of_run[0] != NULL else NOT_FOUND


cdef int load_batch(KeeperState* k, int64_t* due_ms) noexcept nogil:
    """Hands over what is due soon. 1: there may be more; 0: not before `due_ms`; status < 0."""
    cdef int64_t until = load_acquire_i64(&k.clock_ms) + AHEAD_MS
    cdef TimerBatch* batch
    cdef TimerRun* run = NULL
    cdef TimerEntry* entry = NULL
    cdef TimerKey bound
    cdef int status
    cdef int64_t waiting = k.tail - load_acquire_i64(&k.head)
    due_ms[0] = 0
    check(0 <= waiting <= BATCHES, b"timers: no more batches wait than there are", k.tail, waiting)
    if waiting == BATCHES:
        return 0
    batch = &k.batches[k.tail & (BATCHES - 1)]
    batch.count = 0
    while True:
        status = earliest(k, &run, &entry)
        if status != OK or batch.count == BATCH_ENTRIES or entry.key.due_ms > until:
            break
        batch.entries[batch.count] = entry[0]
        batch.count += 1
        run.cursor += 1
    if status != OK and status != NOT_FOUND:
        return status
    bound = entry.key if status == OK else key_of(TIMER_NEVER, 0)
    due_ms[0] = bound.due_ms
    if batch.count == 0 and key_same(&bound, &k.sent_bound) and k.sent_seals == k.seals_taken:
        return 0
    batch.bound = k.sent_bound = bound
    batch.seals = k.sent_seals = k.seals_taken
    k.loaded += batch.count
    store_release_i64(&k.tail, k.tail + 1)
    return batch.count == BATCH_ENTRIES


cdef int compare_offsets(const void* a, const void* b) noexcept nogil:
    cdef int64_t one = (<const int64_t*> a)[0]
    cdef int64_t other = (<const int64_t*> b)[0]
    return -1 if one < other else one > other


cdef void advise(KeeperState* k, const char* log_directory, int64_t segment_bytes, int64_t begin,
                 int64_t end) noexcept nogil:
    cdef int64_t segment = begin - begin % segment_bytes
    if segment != k.prefetch_segment:
        close_file(k.prefetch_fd)
        segment_path(k.prefetch_path, KEEPER_PATH_BYTES + 64, log_directory, segment)
        k.prefetch_fd = c_open(k.prefetch_path, O_RDONLY | O_CLOEXEC)
        k.prefetch_segment = segment
    if k.prefetch_fd >= 0:
        posix_fadvise(k.prefetch_fd, begin - segment, end - begin, POSIX_FADV_WILLNEED)


cdef void prefetch(KeeperState* k, const TimerBatch* batch, const char* log_directory,
                   int64_t segment_bytes, int64_t written) noexcept nogil:
    """Has the kernel read the records of what was handed over, those long ago stored."""
    cdef int64_t* offsets = k.prefetch_offsets
    cdef int64_t i, n = 0, begin
    for i in range(batch.count):
        if (batch.entries[i].key.place & ~TIMER_MESSAGE) < written - NEAR_BYTES:
            offsets[n] = batch.entries[i].key.place & ~TIMER_MESSAGE
            n += 1
    if n == 0:
        return
    qsort(offsets, n, sizeof(int64_t), &compare_offsets)
    begin = 0
    for i in range(1, n + 1):
        if i == n or offsets[i] - offsets[i - 1] > GAP_BYTES or (
                offsets[i] // segment_bytes != offsets[begin] // segment_bytes):
            advise(k, log_directory, segment_bytes, offsets[begin], offsets[i - 1] + 4096)
            begin = i


# ------------------------------------------------------------------- merging

cdef int64_t crowded_level(KeeperState* k) noexcept nogil:
    """A level of which MERGE_RUNS runs are named by the checkpoint; -1: none."""
    cdef int64_t level, i, runs
    for level in range(16):
        runs = 0
        for i in range(k.table.run_count):
            runs += k.table.runs[i].level == level and k.table.runs[i].named
        if runs >= MERGE_RUNS:
            return level
    return -1


cdef void merge_end(KeeperState* k) noexcept nogil:
    cdef int64_t i
    for i in range(k.merge.input_count):
        run_close(&k.merge.inputs[i])
    run_writer_drop(&k.merge.writer)
    k.merge.active = False


cdef int merge_begin(KeeperState* k, int64_t level) noexcept nogil:
    cdef RunMerge* merge = &k.merge
    cdef TimerKey delivered = key_of(load_acquire_i64(&k.delivered_ms), 0)
    cdef int64_t i, cursor
    cdef int status = run_writer_open(&merge.writer, k.directory, k.table.next_number)
    merge.level = level
    merge.input_count = 0
    merge.any = False
    for i in range(k.table.run_count):
        if (status != OK or merge.input_count == MERGE_RUNS or k.table.runs[i].level != level
                or not k.table.runs[i].named):
            continue
        merge.inputs[merge.input_count] = k.table.runs[i]
        status = run_open(&merge.inputs[merge.input_count], k.directory)
        if status != OK:
            break
        merge.input_count += 1
        cursor = run_find(&merge.inputs[merge.input_count - 1], &delivered)
        if cursor < 0:
            status = <int> cursor
        else:
            merge.inputs[merge.input_count - 1].cursor = cursor
    if status != OK:
        merge_end(k)
        return status
    k.table.next_number += 1
    merge.active = True
    return OK


cdef bint is_input(const RunMerge* merge, uint64_t number) noexcept nogil:
    cdef int64_t i
    for i in range(merge.input_count):
        if merge.inputs[i].number == number:
            return True
    return False


cdef int merge_swap(KeeperState* k) noexcept nogil:
    """All is written: the new run takes the place of the old ones."""
    cdef RunMerge* merge = &k.merge
    cdef TimerKey next_key = key_of(TIMER_NEVER, 0)
    cdef TimerEntry* entry = NULL
    cdef int64_t covers = 0, log_end = 0, at
    cdef int status = run_writer_finish(&merge.writer)
    if status != OK:
        return status
    for at in range(k.table.run_count):
        if not is_input(merge, k.table.runs[at].number):
            continue
        if run_peek(&k.table.runs[at], &entry) == OK and key_before(&entry.key, &next_key):
            next_key = entry.key
        covers = max(covers, k.table.runs[at].covers)
        log_end = max(log_end, k.table.runs[at].log_end)
    if merge.writer.count == 0:
        doom(k, merge.writer.number)
    else:
        status = add_run(k, &merge.writer, merge.level + 1, merge.last.due_ms, covers, log_end,
                         &next_key)
    at = 0
    while status == OK and at < k.table.run_count:
        if is_input(merge, k.table.runs[at].number):
            drop_run(k, at)
        else:
            at += 1
    return status


cdef int merge_step(KeeperState* k) noexcept nogil:
    """OK, or why it was given up."""
    cdef RunMerge* merge = &k.merge
    cdef TimerRun* run
    cdef TimerEntry* one = NULL
    cdef TimerEntry* entry = NULL
    cdef int64_t i, _entry
    cdef int status = OK
    for _entry in range(MERGE_STEP):
        run = NULL
        for i in range(merge.input_count):
            status = run_peek(&merge.inputs[i], &one)
            if status == NOT_FOUND:
                continue
            if status != OK:
                return status
            if run == NULL or key_before(&one.key, &entry.key):
                run = &merge.inputs[i]
                entry = one
        if run == NULL:
            status = merge_swap(k)
            merge_end(k)
            return status
        if not merge.any or not key_same(&entry.key, &merge.last):
            status = run_writer_add(&merge.writer, entry)
            if status != OK:
                return status
            k.merged += 1
        merge.last = entry.key
        merge.any = True
        run.cursor += 1
    return OK


cdef int merge_some(KeeperState* k) noexcept nogil:
    """1: there is more to merge; 0: nothing; status < 0: a run cannot be read or written."""
    cdef int64_t level
    cdef int status
    if not k.merge.active:
        level = crowded_level(k)
        if level < 0:
            return 0
        status = merge_begin(k, level)
        return 1 if status == OK else status
    status = merge_step(k)
    if status != OK:
        if k.merge.active:
            merge_end(k)
        return status
    return 1


# ------------------------------------------------------------------- the checkpoint

cdef int save(KeeperState* k, int64_t durable) noexcept nogil:
    """Writes the checkpoint as far as the log is durable; then files go that it does not name."""
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
    # It may leave out what was delivered: a power cut must not put the position before that.
    if k.position != NULL and position_sync(k.position, k.position_syncer) != OK:
        return IO_ERROR
    status = timer_checkpoint_save(&k.table, k.directory)
    if status != OK:
        return status
    k.saved_us = monotonic_us()
    k.checkpoints += 1
    k.stale = k.mark_count > 0
    for i in range(k.doomed_count):
        run_path(k.directory, k.doomed[i], path)
        unlink(path)
    k.doomed_count = 0
    return OK


cdef bint is_lasting(int status) noexcept nogil:
    """A damaged run stays damaged; a full disk does not stay full."""
    return status == CORRUPT


# ------------------------------------------------------------------- the thread

cdef int step(TimerKeeper keeper, bint finishing) noexcept nogil:
    """Does what there is to do; how many ms to sleep, or CORRUPT - 1000: a run is damaged."""
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


cdef void give_up(KeeperState* k) noexcept nogil:
    """A run is damaged: without a checkpoint the next start reads the whole queue again."""
    cdef char path[KEEPER_PATH_BYTES + 64]
    snprintf(path, sizeof(path), b"%s/checkpoint", k.directory)
    unlink(path)
    store_release_i32(&k.broken, 1)


cdef void run(TimerKeeper keeper) noexcept nogil:
    cdef int wait_ms
    while load_acquire_i32(&keeper.state.stopping) == 0:
        wait_ms = step(keeper, False)
        if wait_ms < 0:
            give_up(&keeper.state)
            return
        if wait_ms > 0:
            event_wait(keeper.state.event, sleep_ms(wait_ms))


# ------------------------------------------------------------------- the class

@cython.no_gc_clear                  # __dealloc__ needs all that it has
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
        k.table.run_count = k.mark_count = k.doomed_count = k.table.covers = 0
        k.head = k.tail = k.seals_made = k.seals_taken = k.sent_seals = 0
        k.seal.state = SEAL_FREE
        k.seal.count = 0
        k.broken = k.stale = 0
        k.sent_bound = k.bound = k.forgotten = key_of(TIMER_NEVER, 0)

    def open(self, int64_t log_end, int64_t before_ms, int64_t before_place) -> bool:
        """Goes on from the checkpoint; False when there is none that fits a log of this length:
        then there are no runs, and the queue has to be read from its beginning. All that is before
        the key (before_ms, before_place) is delivered."""
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
        """Every run the checkpoint names, read from the first entry not delivered on."""
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
        """Log offset before which no record is of an entry in a run that is not all delivered."""
        cdef int64_t i, least = TIMER_NEVER
        for i in range(self.state.table.run_count):
            if self.state.table.runs[i].last_ms >= self.state.delivered_ms:
                least = min(least, self.state.table.runs[i].oldest)
        return least

    def forget(self) -> None:
        """Without the thread: the next open() finds no checkpoint."""
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
        """Ends the thread and does what it left. Harmless when stopped."""
        if self.thread.running:
            self._join()
            self.finish()

    def finish(self) -> None:
        """Without the thread: takes the seal and writes the checkpoint, if the log is durable and
        the disk takes them."""
        cdef int wait_ms, turns = 0
        with nogil:
            while not self.state.broken and turns < 100 and (
                    self.state.seal.state == SEAL_FULL or self.state.stale):
                wait_ms = step(self, True)
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
            event_signal(k.event)           # there is more where this came from
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

    def step(self) -> int:
        """Only while the thread does not run: one round in this thread; how long it would sleep."""
        cdef int wait_ms
        if self.thread.running:
            raise StoreError("the keeper is running")
        with nogil:
            wait_ms = step(self, True)
        if wait_ms < 0:
            give_up(&self.state)
        return wait_ms
