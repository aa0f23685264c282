"""The thread that writes a pooled log to its files. Why and when: committer.pxd.

    log = CommitLog(directory, .., pooled=True)
    committer = Committer(log, least_pages=4, interval_ms=200, thorough_ms=200)
    committer.start()
    ...
    committer.hurry()           # writes what was offered now, however little it is
    committer.stop()            # writes all that was offered (unless poisoned) and joins
"""

import os

cimport cython
from libc.string cimport memset

from cext.base.atomics cimport (
    exchange_i32, fence, load_acquire_i32, load_acquire_i64, load_acquire_u64, store_release_i32,
    store_release_u64)
from cext.base.check cimport check
from cext.base.clock cimport monotonic_us
from cext.base.latency cimport latency_record
from cext.base.native_thread cimport native_thread_join, native_thread_start
from cext.base.status cimport Status
from cext.base.sysio cimport event_signal, event_wait, write_with_zeros_at
from cext.base.watermark cimport watermark_move
from cext.memory.mirror_ring cimport mirror_ring_at
from cext.store.log.log_link cimport (
    FILE_PATH_MAX, FLUSH_PAGE_BYTES, HANDLES_MAX, OPERATION_WRITE, CommitHandle, log_is_poisoned,
    log_notify, log_poison)
from cext.store.log.record cimport TERMINATOR_BYTES
from cext.store.log.segment cimport segment_path

from rmq.errors import StoreError


cdef int write_piece(CommitterState* state, const CommitHandle* handle, int64_t start,
                     int64_t end) noexcept nogil:
    """Writes [start, end) to its segment, with a terminator if there is room for one."""
    cdef char path[FILE_PATH_MAX]
    cdef int error = 0
    cdef uint64_t done = 0
    cdef int64_t room = handle.start + state.link.segment_bytes - end
    cdef int64_t began = monotonic_us()
    cdef int status = write_with_zeros_at(
        handle.fd, mirror_ring_at(state.ring, <uint64_t>start), <uint64_t>(end - start),
        <uint64_t>(room if room < TERMINATOR_BYTES else TERMINATOR_BYTES), start - handle.start,
        &error, &done)
    state.last_commit_us = monotonic_us()
    state.commits += 1
    latency_record(&state.latency, state.last_commit_us - began, 1)
    if status != Status.OK:
        segment_path(path, FILE_PATH_MAX, state.link.directory, handle.start)
        log_poison(state.link, OPERATION_WRITE, error, start + <int64_t>done, path)
        return Status.POISONED
    return Status.OK


cdef int commit_to(CommitterState* state, int64_t target) noexcept nogil:
    """Writes up to `target`, which was offered, piece by piece; moves `committed` after each."""
    cdef LogLink* link = state.link
    cdef CommitHandle* handle
    cdef int64_t at = link.committed                    # only this thread writes it
    cdef int64_t end, segment_end
    while at < target:
        check(link.commit_popped != load_acquire_u64(&link.commit_pushed),
              b"the store pool: a log file is handed over before its bytes are offered", at, target)
        handle = &link.commit_handles[link.commit_popped & (HANDLES_MAX - 1)]
        segment_end = handle.start + link.segment_bytes
        # The reactor wrote data_end before it offered anything beyond the segment.
        end = target if target < segment_end else handle.data_end
        if end > at + COMMIT_BYTES_MAX:
            end = at + COMMIT_BYTES_MAX
        if end > at:
            if log_is_poisoned(link) or write_piece(state, handle, at, end) != Status.OK:
                return Status.POISONED
            at = end
        if target >= segment_end and at >= handle.data_end:
            at = segment_end                            # the rest after the BLANK's head is filler
            store_release_u64(&link.commit_popped, link.commit_popped + 1)
        watermark_move(&link.committed, at, b"the store pool: `committed` never moves back")
        log_notify(link)
    return Status.OK


cdef void sleep_until_offered(CommitterState* state, int64_t seen, int32_t depth,
                              int64_t timeout_ms) noexcept nogil:
    """Sleeps unless more was offered since `seen`; no wake-up is lost (log_link.pxd)."""
    cdef LogLink* link = state.link
    cdef int64_t offered
    cdef bint news
    store_release_i32(&link.committer_sleeping, depth)
    fence()
    offered = load_acquire_i64(&link.committable)
    news = offered != seen if depth == 1 else offered - link.committed >= link.commit_least_bytes
    if not news and load_acquire_i32(&state.stopping) == 0:
        event_wait(link.committer_event, <int>timeout_ms)
    store_release_i32(&link.committer_sleeping, 0)


cdef void run(void* argument) noexcept nogil:
    cdef CommitterState* state = <CommitterState*>argument
    cdef LogLink* link = state.link
    cdef int64_t target, wait_ms
    cdef bint stopping, hurried
    while True:
        stopping = load_acquire_i32(&state.stopping) != 0
        hurried = exchange_i32(&state.hurried, 0) != 0      # before `committable` is read
        target = load_acquire_i64(&link.committable)
        if target == link.committed or log_is_poisoned(link):
            if stopping:
                return
            sleep_until_offered(state, target, 1, -1)
            continue
        wait_ms = state.thorough_ms - (monotonic_us() - state.last_commit_us) // 1000
        if (not stopping and not hurried and wait_ms > 0
                and target - link.committed < link.commit_least_bytes):
            sleep_until_offered(
                state, target, 2, wait_ms if wait_ms < state.interval_ms else state.interval_ms)
            continue
        commit_to(state, target)


@cython.no_gc_clear                  # __dealloc__ needs the object's fields
cdef class Committer:
    def __cinit__(self, CommitLog log not None, *, int64_t least_pages=4, int64_t interval_ms=200,
                  int64_t thorough_ms=200):
        if not log.pooled:
            raise ValueError("the log has no pool: its reactor writes by itself")
        if least_pages < 0 or interval_ms < 1 or thorough_ms < 1:
            raise ValueError("least_pages: at least 0; interval_ms and thorough_ms: at least 1")
        memset(&self.state, 0, sizeof(self.state))
        self.log = log
        self.state.link = &log.link
        self.state.ring = &log.ring
        self.state.interval_ms = interval_ms
        self.state.thorough_ms = thorough_ms
        # A pool that is a quarter full is written, whatever least_pages says.
        log.link.commit_least_bytes = min(least_pages * FLUSH_PAGE_BYTES,
                                          <int64_t>log.ring.size // 4)

    def __dealloc__(self):
        if self.log is not None:
            self.stop()

    def start(self) -> None:
        """Starts the thread. The log must be open (set_end)."""
        cdef int error = 0
        if self.thread.running:
            raise StoreError("the committer is already running")
        self.state.stopping = 0
        self.state.last_commit_us = monotonic_us()
        if native_thread_start(&self.thread, &run, &self.state, b"rmq-committer",
                               &error) != Status.OK:
            raise StoreError(f"committer thread: {os.strerror(error)}")

    def stop(self) -> None:
        """Writes everything offered, unless poisoned, and ends the thread. May be called twice."""
        if self.thread.running:
            store_release_i32(&self.state.stopping, 1)
            event_signal(self.state.link.committer_event)
            with nogil:
                native_thread_join(&self.thread)

    def hurry(self) -> None:
        """Makes the thread write at once what was offered so far, however little. Does not wait.
        Any thread."""
        store_release_i32(&self.state.hurried, 1)
        event_signal(self.state.link.committer_event)
