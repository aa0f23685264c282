"""Keeper batches. See keeper_batches.pxd."""
from libc.stdint cimport int64_t
from libc.stdlib cimport qsort

from cext.base.atomics cimport load_acquire_i64, store_release_i64
from cext.base.check cimport check
from cext.base.status cimport NOT_FOUND, OK
from cext.base.sysio cimport close_file
from cext.store.log.segment cimport segment_path
from cext.store.timers.keeper_state cimport BATCH_ENTRIES, BATCHES, key_of
from cext.store.timers.timer_checkpoint cimport KEEPER_PATH_BYTES
from cext.store.timers.timer_heap cimport (
    TIMER_MESSAGE,
    TIMER_NEVER,
    TimerKey,
    key_before,
    key_same,
)
from cext.store.timers.timer_run cimport run_peek

cdef extern from "<fcntl.h>" nogil:
    int posix_fadvise(int fd, int64_t offset, int64_t length, int advice)
    int c_open "open" (const char* path, int flags, ...)
    int POSIX_FADV_WILLNEED
    int O_RDONLY
    int O_CLOEXEC

cdef enum:
    NEAR_BYTES = 67108864       # records so near the log's end are in memory
    GAP_BYTES = 131072          # records nearer to each other than this are read at once


cdef int earliest(KeeperState* k, TimerRun** of_run, TimerEntry** entry) noexcept nogil:
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
