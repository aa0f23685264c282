"""What the threads around one commit log share. Words, owners and orders are in log_link.pxd."""

from libc.string cimport strncpy
from posix.unistd cimport usleep

from cext.base.atomics cimport (
    exchange_i32, fence, load_acquire_i32, load_acquire_i64, load_acquire_u64, load_seq_i32,
    store_release_i64, store_release_u64)
from cext.base.check cimport check
from cext.base.state cimport state_move
from cext.base.sysio cimport event_signal
from cext.base.thread_owner cimport thread_check
from cext.base.watermark cimport watermark_move

cdef extern from *:
    """
    static inline int rmq_claim_i32(int32_t *at, int32_t from, int32_t to)
    {
        return __atomic_compare_exchange_n(at, &from, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    }
    """
    bint claim_i32 "rmq_claim_i32" (int32_t* at, int32_t old, int32_t new) noexcept nogil


cdef void log_poison(LogLink* link, int operation, int error, int64_t offset,
                     const char* path) noexcept nogil:
    if claim_i32(&link.poison.state, POISON_NONE, POISON_FILLING):
        link.poison.operation = operation
        link.poison.error = error
        link.poison.offset = offset
        strncpy(link.poison.path, path, LOG_PATH_MAX - 1)
        state_move(&link.poison.state, POISON_TOLD, 1 << POISON_FILLING,
                   b"the log: a poison is told after it was filled in")
    while not log_is_poisoned(link):    # another thread was first: wait until it has filled the
        usleep(10)                      # poison in, which takes as long as copying a path
    event_signal(link.notify_event)
    event_signal(link.flusher_event)
    event_signal(link.committer_event)


cdef void log_notify(LogLink* link) noexcept nogil:
    fence()              # what is reported comes before reactor_awake is read
    if load_seq_i32(&link.reactor_awake) == 0:
        event_signal(link.notify_event)


cdef void log_wake_flusher(LogLink* link) noexcept nogil:
    fence()              # `written` comes before flusher_sleeping is read
    if load_acquire_i32(&link.flusher_sleeping) != 0:
        if exchange_i32(&link.flusher_sleeping, 0) != 0:
            event_signal(link.flusher_event)


cdef void log_offer(LogLink* link, int64_t committable) noexcept nogil:
    cdef int32_t asleep
    watermark_move(&link.committable, committable,
                   b"the store pool: `committable` never moves back")
    fence()              # `committable` comes before committer_sleeping is read
    asleep = load_acquire_i32(&link.committer_sleeping)
    if asleep == 0:
        return
    if asleep == 2 and (committable - load_acquire_i64(&link.committed)
                        < link.commit_least_bytes):
        return
    if exchange_i32(&link.committer_sleeping, 0) != 0:
        event_signal(link.committer_event)


cdef void log_want_room(LogLink* link, int64_t end) noexcept nogil:
    check(end == 0 or end >= link.wanted_room, b"the log: the room asked for never shrinks",
          link.wanted_room, end)
    store_release_i64(&link.wanted_room, end)


cdef void log_want_segment(LogLink* link, int64_t start) noexcept nogil:
    check(start % link.segment_bytes == 0, b"the log: a file begins where a segment does", start,
          link.segment_bytes)
    watermark_move(&link.wanted_start, start, b"the log: the segment asked for is the next one")


cdef inline bint has_slot(LogLink* link, uint64_t pushed, const uint64_t* popped, uint64_t slots,
                          int64_t last_start, int64_t start) noexcept nogil:
    """Whether one more may be pushed. Checks that the reactor pushes in the order of the log."""
    cdef uint64_t waiting = pushed - load_acquire_u64(popped)
    thread_check(&link.reactor, b"the log: its files are handed over by the reactor")
    check(waiting <= slots, b"the log: no more files wait than were handed over",
          <int64_t> waiting, <int64_t> slots)
    check(pushed == 0 or last_start + link.segment_bytes == start,
          b"the log: files are handed over in their order", last_start, start)
    return waiting < slots


cdef bint log_push_commit(LogLink* link, int64_t start, int fd) noexcept nogil:
    cdef uint64_t pushed = link.commit_pushed
    cdef CommitHandle* handle = &link.commit_handles[pushed & (HANDLES_MAX - 1)]
    if not has_slot(link, pushed, &link.commit_popped, HANDLES_MAX,
                    link.commit_handles[(pushed - 1) & (HANDLES_MAX - 1)].start, start):
        return False
    handle.start = start
    handle.data_end = start + link.segment_bytes
    handle.fd = fd
    store_release_u64(&link.commit_pushed, pushed + 1)
    return True


cdef bint log_push_handle(LogLink* link, int64_t start, int fd) noexcept nogil:
    cdef uint64_t pushed = link.handles_pushed
    if not has_slot(link, pushed, &link.handles_popped, HANDLES_MAX,
                    link.handles[(pushed - 1) & (HANDLES_MAX - 1)].start, start):
        return False
    link.handles[pushed & (HANDLES_MAX - 1)].start = start
    link.handles[pushed & (HANDLES_MAX - 1)].fd = fd
    store_release_u64(&link.handles_pushed, pushed + 1)
    return True


cdef bint log_push_drop(LogLink* link, int64_t start) noexcept nogil:
    cdef uint64_t pushed = link.drops_pushed
    if not has_slot(link, pushed, &link.drops_popped, DROPS_MAX,
                    link.drops[(pushed - 1) & (DROPS_MAX - 1)], start):
        return False
    link.drops[pushed & (DROPS_MAX - 1)] = start
    store_release_u64(&link.drops_pushed, pushed + 1)
    event_signal(link.preparer_event)
    return True
