"""The thread that makes segments ready and removes dropped ones. See preparer.pxd.

    preparer = Preparer(log)
    preparer.start()
    ...
    preparer.stop()
"""

import os

cimport cython

from cext.base.atomics cimport (
    load_acquire_i32, load_acquire_i64, load_acquire_u64, store_release_i32, store_release_u64)
from cext.base.clock cimport monotonic_us
from cext.base.native_thread cimport native_thread_join, native_thread_start
from cext.base.status cimport Status
from cext.base.sysio cimport event_drain, event_signal, event_wait
from cext.base.watermark cimport watermark_move
from cext.store.log.log_link cimport (
    DROPS_MAX, OPERATION_SYNC_DIRECTORY, log_is_poisoned, log_notify, log_poison)
from cext.store.log.segment cimport (
    segment_add_room, segment_prepare, segment_remove, segment_set_aside)

from rmq.errors import StoreError

cdef enum:
    RETRY_MS = 500              # after the disk refused
    PIECE_BYTES = 16777216      # of room allocated at once


cdef inline bint wants_room(PreparerState* state) noexcept nogil:
    return load_acquire_i64(&state.link.wanted_room) > state.link.room


cdef inline bint wants_segment(PreparerState* state) noexcept nogil:
    cdef int64_t wanted = load_acquire_i64(&state.link.wanted_start)
    return wanted >= 0 and wanted != state.done_start


cdef void remove_dropped(PreparerState* state) noexcept nogil:
    """Removes dropped segments, oldest first; keeps one as a spare if it is needed now. If one
    cannot be removed, it is tried again at the next wake-up, and the later ones wait: the next
    start would not accept a log with a gap."""
    cdef LogLink* link = state.link
    cdef int64_t start
    cdef int error
    while link.drops_popped != load_acquire_u64(&link.drops_pushed):
        start = link.drops[link.drops_popped & (DROPS_MAX - 1)]
        if wants_segment(state) and state.spare_start < 0 and segment_set_aside(
                link.directory, link.spare_directory, start, &error) == Status.OK:
            state.spare_start = start
        elif segment_remove(link.directory, start, &error) == Status.OK:
            state.removed += 1
        else:
            state.failures += 1
            return
        store_release_u64(&link.drops_popped, link.drops_popped + 1)


cdef void prepare(PreparerState* state) noexcept nogil:
    """Tries once to make the wanted segment; the outcome is in link.prepare_status."""
    cdef LogLink* link = state.link
    cdef int64_t wanted = load_acquire_i64(&link.wanted_start)
    cdef int fd = -1
    cdef int error = 0
    cdef bint directory_failed = False
    cdef int64_t spare = state.spare_start
    cdef int status = segment_prepare(link.directory, link.spare_directory, wanted,
                                      link.segment_bytes, link.segment_bytes, spare, link.warm,
                                      &fd, &error, &directory_failed)
    state.spare_start = -1          # used up, also after a failure
    link.prepare_error = error
    if status == Status.OK:
        state.done_start = wanted
        state.prepared += 1
        if spare >= 0:
            state.recycled += 1
        link.ready_fd = fd
        link.ready_touched = link.warm or spare >= 0
        watermark_move(&link.ready_start, wanted, b"the log: the next file is made once")
    else:
        state.failures += 1
        if directory_failed:
            log_poison(link, OPERATION_SYNC_DIRECTORY, error, wanted, link.directory)
    if status != load_acquire_i32(&link.prepare_status):
        store_release_i32(&link.prepare_status, status)
        log_notify(link)            # refused for the first time, or possible again


cdef void add_room(PreparerState* state) noexcept nogil:
    """Allocates blocks for the active segment, until all that is wanted is there or the disk
    refuses."""
    cdef LogLink* link = state.link
    cdef int error = 0
    cdef int status = Status.OK
    cdef int64_t start
    cdef int64_t piece
    cdef int64_t began
    # wanted_room is read again for each piece. It is 0 once the writer is in the next segment, and
    # only after that can this segment be dropped, so no recycled file is touched.
    while status == Status.OK and wants_room(state) and not log_is_poisoned(link):
        start = link.room - link.room % link.segment_bytes
        piece = min(<int64_t>PIECE_BYTES, load_acquire_i64(&link.wanted_room) - link.room)
        if piece <= 0:
            return
        began = monotonic_us()
        status = segment_add_room(link.directory, start, link.segment_bytes, link.room - start,
                                  link.room - start + piece, &error)
        state.slowest_piece_us = max(state.slowest_piece_us, monotonic_us() - began)
        if status == Status.OK:
            state.pieces += 1
            watermark_move(&link.room, link.room + piece, b"the log: a file's room never shrinks")
        else:
            state.failures += 1
        link.room_error = error
        store_release_i32(&link.room_status, status)
        log_notify(link)


cdef int preparer_round(PreparerState* state) noexcept nogil:
    remove_dropped(state)
    if log_is_poisoned(state.link):
        return -1
    if wants_room(state):
        add_room(state)
        if wants_room(state):
            return RETRY_MS
    if not wants_segment(state):
        return -1
    prepare(state)
    return RETRY_MS if wants_segment(state) else -1


cdef void run(void* argument) noexcept nogil:
    cdef PreparerState* state = <PreparerState*>argument
    cdef int wait_ms
    while load_acquire_i32(&state.stopping) == 0:
        event_drain(state.link.preparer_event)     # the round handles all signals up to here
        wait_ms = preparer_round(state)
        event_wait(state.link.preparer_event, wait_ms)
    remove_dropped(state)


@cython.no_gc_clear                  # __dealloc__ needs the object's fields
cdef class Preparer:
    def __cinit__(self, CommitLog log not None):
        self.log = log
        self.state.link = &log.link
        self.state.done_start = self.state.spare_start = -1

    def __dealloc__(self):
        self.stop()

    def start(self) -> None:
        """Starts the thread. The log must be open (set_end)."""
        cdef int error = 0
        if self.thread.running:
            raise StoreError("the preparer is already running")
        self.state.stopping = 0
        if native_thread_start(&self.thread, &run, &self.state, b"rmq-preparer",
                               &error) != Status.OK:
            raise StoreError(f"preparer thread: {os.strerror(error)}")

    def stop(self) -> None:
        """Removes what was dropped and ends the thread. May be called twice."""
        if self.thread.running:
            store_release_i32(&self.state.stopping, 1)
            event_signal(self.state.link.preparer_event)
            with nogil:
                native_thread_join(&self.thread)
