"""The thread that syncs the commit log and moves `durable`. Modes and promises: flusher.pxd.

    flusher = Flusher(log, sync_mode=True)
    flusher.start()
    ...                         # the reactor's write_out() wakes it
    flusher.stop()              # syncs what is written (unless poisoned) and joins
"""

import os
import time

cimport cython

from cext.base.atomics cimport (
    exchange_i32, fence, load_acquire_i32, load_acquire_i64, load_acquire_u64, store_release_i32,
    store_release_i64, store_release_u64)
from cext.base.check cimport check
from cext.base.clock cimport monotonic_us
from cext.base.latency cimport latency_record
from cext.base.native_thread cimport native_thread_join, native_thread_start
from cext.base.state cimport state_move
from cext.base.status cimport Status
from cext.base.sysio cimport close_file, event_signal, event_wait, sync_data
from cext.base.watermark cimport watermark_move
from cext.store.log.log_link cimport (
    FILE_PATH_MAX, FLUSH_PAGE_BYTES, HANDLES_MAX, OPERATION_SYNC, SegmentHandle, log_is_poisoned,
    log_notify, log_poison)
from cext.store.log.segment cimport segment_path

from rmq.errors import StoreError, StorePoisonedError

cdef enum:
    RIVAL_MS = 1                 # how long the flusher waits while the reactor syncs


cdef int sync_segment(FlusherState* state, SegmentHandle* handle, int64_t durable) noexcept nogil:
    """Calls fdatasync once; never again after a failure."""
    cdef char path[FILE_PATH_MAX]
    cdef int error = 0
    cdef int64_t began = monotonic_us()
    cdef int status = sync_data(handle.fd, &error)
    state.last_sync_us = monotonic_us()
    began = state.last_sync_us - began
    state.sync_us += <uint64_t>began
    # A long sync counts in full at once; each later one moves the number by an eighth.
    store_release_i64(&state.link.usual_sync_us, began if began > SLOW_SYNC_US else (
        state.link.usual_sync_us * 7 + began) // 8)
    state.syncs += 1
    latency_record(&state.latency, began, 1)
    if status != Status.OK:
        segment_path(path, FILE_PATH_MAX, state.link.directory, handle.start)
        log_poison(state.link, OPERATION_SYNC, error, durable, path)
        return Status.POISONED
    return Status.OK


cdef int flush_to(FlusherState* state, int64_t target) noexcept nogil:
    """Moves `durable` to `target`, which had been written before the call, segment by segment.

    The caller holds link.syncing."""
    cdef LogLink* link = state.link
    cdef SegmentHandle* handle
    cdef int64_t durable = link.marks.durable        # only the holder of link.syncing writes it
    cdef int64_t reach
    cdef int64_t end
    while durable < target:
        check(link.handles_popped != load_acquire_u64(&link.handles_pushed),
              b"the log: a file is handed to the flusher before its bytes are written", durable,
              target)
        handle = &link.handles[link.handles_popped & (HANDLES_MAX - 1)]
        end = handle.start + link.segment_bytes
        reach = target if target < end else end
        if log_is_poisoned(link) or sync_segment(state, handle, durable) != Status.OK:
            return Status.POISONED
        durable = reach
        watermark_move(&link.marks.durable, durable, b"the log: `durable` never moves back")
        check(durable <= load_acquire_i64(&link.marks.written),
              b"the log: what is durable was written", durable, link.marks.written)
        if durable == end:                           # the reactor is in the next segment
            close_file(handle.fd)
            store_release_u64(&link.handles_popped, link.handles_popped + 1)
    log_notify(link)
    return Status.OK


cdef int flush_alone(FlusherState* state, int64_t target) noexcept nogil:
    """Calls flush_to() unless another thread is syncing; then NOT_READY, and nothing is done."""
    cdef int status
    if exchange_i32(&state.link.syncing, 1) != 0:
        return Status.NOT_READY
    status = flush_to(state, target)
    state_move(&state.link.syncing, 0, 1 << 1, b"the log: who ends a sync has begun it")
    return status


cdef void sleep_until_written(FlusherState* state, int64_t durable) noexcept nogil:
    """Sleeps until the reactor or the owner has work; no wake-up is lost (log_link.pxd)."""
    cdef LogLink* link = state.link
    store_release_i32(&link.flusher_sleeping, 1)
    fence()
    if (load_acquire_i64(&link.marks.written) == durable or log_is_poisoned(link)) and (
            load_acquire_i32(&state.stopping) == 0):
        event_wait(link.flusher_event, -1)
    store_release_i32(&link.flusher_sleeping, 0)


cdef int64_t wait_before_sync(FlusherState* state, int64_t target) noexcept nogil:
    """Async mode: 0 when it is time to sync up to `target`, else the ms to sleep."""
    cdef int64_t now = monotonic_us()
    cdef int64_t durable = load_acquire_i64(&state.link.marks.durable)
    cdef int64_t pages = target // FLUSH_PAGE_BYTES - durable // FLUSH_PAGE_BYTES
    cdef int64_t interval_ms = load_acquire_i64(&state.interval_ms)
    if state.next_check_us == 0 or state.next_check_us > now + interval_ms * 1000:
        state.next_check_us = now + interval_ms * 1000
    if now < state.next_check_us:
        return (state.next_check_us - now + 999) // 1000
    if (pages >= load_acquire_i64(&state.least_pages)
            or now - state.last_sync_us >= load_acquire_i64(&state.thorough_ms) * 1000
            or target // state.link.segment_bytes != durable // state.link.segment_bytes):
        return 0
    state.next_check_us = now + interval_ms * 1000
    return interval_ms


cdef void run(void* argument) noexcept nogil:
    cdef FlusherState* state = <FlusherState*>argument
    cdef LogLink* link = state.link
    cdef int64_t target
    cdef int64_t durable
    cdef int64_t wait_ms
    cdef bint stopping
    while True:
        stopping = load_acquire_i32(&state.stopping) != 0
        durable = load_acquire_i64(&link.marks.durable)
        target = load_acquire_i64(&link.marks.written)
        if log_is_poisoned(link) or target == durable:
            if stopping:
                return
            state.next_check_us = 0
            sleep_until_written(state, durable)
            continue
        if (load_acquire_i32(&state.sync_mode) == 0 and not stopping
                and exchange_i32(&state.force, 0) == 0):
            wait_ms = wait_before_sync(state, target)
            if wait_ms > 0:
                event_wait(link.flusher_event, <int>wait_ms)
                continue
        state.next_check_us = 0
        if flush_alone(state, target) == Status.NOT_READY:
            event_wait(link.flusher_event, RIVAL_MS)


@cython.no_gc_clear                  # __dealloc__ needs the object's fields
cdef class Flusher:
    def __cinit__(self, CommitLog log not None, *, bint sync_mode=False, int64_t interval_ms=500,
                  int64_t least_pages=4, int64_t thorough_ms=10000):
        if interval_ms < 1 or least_pages < 0 or thorough_ms < 0:
            raise ValueError("interval_ms >= 1, least_pages >= 0, thorough_ms >= 0")
        self.log = log
        self.state.link = &log.link
        self.state.sync_mode = sync_mode
        self.state.interval_ms = interval_ms
        self.state.least_pages = least_pages
        self.state.thorough_ms = thorough_ms
        self.state.last_sync_us = monotonic_us()

    def __dealloc__(self):
        self.stop()

    cdef bint syncs_here(self) noexcept nogil:
        cdef LogLink* link = self.state.link
        return (self.state.sync_mode != 0 and self.thread.running
                and load_acquire_i64(&link.usual_sync_us) <= SYNC_HERE_US_MAX
                and load_acquire_i32(&link.flusher_sleeping) != 0)

    cdef int sync_here(self) noexcept nogil:
        cdef LogLink* link = self.state.link
        cdef int64_t target = link.marks.written        # only the reactor writes it
        cdef SegmentHandle* handle
        if not self.syncs_here():
            return Status.NOT_READY
        # Only the active segment is synced here: the flusher must close the full ones.
        handle = &link.handles[(link.handles_pushed - 1) & (HANDLES_MAX - 1)]
        if (load_acquire_u64(&link.handles_popped) + 1 != link.handles_pushed
                or target >= handle.start + link.segment_bytes):
            return Status.NOT_READY
        return flush_alone(&self.state, target)

    cdef void request_sync(self) noexcept nogil:
        store_release_i32(&self.state.force, 1)
        event_signal(self.state.link.flusher_event)

    cdef bint set_option(self, str name, int64_t value):
        if name == "flush_interval_ms":
            store_release_i64(&self.state.interval_ms, value)
        elif name == "flush_least_pages":
            store_release_i64(&self.state.least_pages, value)
        elif name == "flush_thorough_ms":
            store_release_i64(&self.state.thorough_ms, value)
        else:
            return False
        event_signal(self.state.link.flusher_event)
        return True

    def start(self) -> None:
        """Starts the thread. The log must be open (set_end)."""
        cdef int error = 0
        if self.thread.running:
            raise StoreError("the flusher is already running")
        self.state.stopping = 0
        if native_thread_start(&self.thread, &run, &self.state, b"rmq-flusher",
                               &error) != Status.OK:
            raise StoreError(f"flusher thread: {os.strerror(error)}")

    def stop(self) -> None:
        """Syncs everything written, unless poisoned, and ends the thread. May be called twice."""
        if self.thread.running:
            store_release_i32(&self.state.stopping, 1)
            event_signal(self.state.link.flusher_event)
            with nogil:
                native_thread_join(&self.thread)

    def flush(self, double timeout_s=60.0) -> int:
        """Waits until everything written at the time of the call is durable; returns `durable`.
        For stop and checkpoint, from a thread that may wait. Raises when poisoned or too slow."""
        cdef int64_t target = load_acquire_i64(&self.log.marks.written)
        deadline = time.monotonic() + timeout_s
        if self.thread.running:
            self.request_sync()
        while self.log.durable() < target:
            if not self.thread.running:
                with nogil:
                    flush_alone(&self.state, target)
                if self.log.durable() >= target:
                    break
            if self.log.poisoned():
                raise StorePoisonedError(str(self.log.poison_cause()))
            if time.monotonic() > deadline:
                raise StoreError(
                    f"durable is {self.log.durable()} after {timeout_s} s, not {target}")
            time.sleep(0.0005)
        return self.log.durable()
