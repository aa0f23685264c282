"""What the threads around one commit log share. Words, owners and orders: log_link.pxd."""

from libc.string cimport strncpy

from cext.base.atomics cimport (
    exchange_i32, fence, load_acquire_i32, load_acquire_i64, load_acquire_u64, load_seq_i32,
    store_release_i32, store_release_u64)
from cext.base.sysio cimport event_signal
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
    if claim_i32(&link.poison.state, 0, 1):
        link.poison.operation = operation
        link.poison.error = error
        link.poison.offset = offset
        strncpy(link.poison.path, path, LOG_PATH_MAX - 1)
        store_release_i32(&link.poison.state, 2)
    event_signal(link.notify_event)
    event_signal(link.flusher_event)
    event_signal(link.committer_event)


cdef void log_notify(LogLink* link) noexcept nogil:
    fence()              # what we tell about comes before our look at reactor_awake
    if load_seq_i32(&link.reactor_awake) == 0:
        event_signal(link.notify_event)


cdef void log_wake_flusher(LogLink* link) noexcept nogil:
    fence()              # `written` comes before our look at flusher_sleeping
    if load_acquire_i32(&link.flusher_sleeping) != 0:
        if exchange_i32(&link.flusher_sleeping, 0) != 0:
            event_signal(link.flusher_event)


cdef void log_offer(LogLink* link, int64_t committable) noexcept nogil:
    cdef int32_t asleep
    watermark_move(&link.committable, committable,
                   b"the store pool: `committable` never moves back")
    fence()              # it comes before our look at committer_sleeping
    asleep = load_acquire_i32(&link.committer_sleeping)
    if asleep == 0:
        return
    if asleep == 2 and (committable - load_acquire_i64(&link.committed)
                        < link.commit_least_bytes):
        return
    if exchange_i32(&link.committer_sleeping, 0) != 0:
        event_signal(link.committer_event)


cdef bint log_push_commit(LogLink* link, int64_t start, int fd) noexcept nogil:
    cdef uint64_t pushed = link.commit_pushed
    cdef CommitHandle* handle = &link.commit_handles[pushed & (HANDLES_MAX - 1)]
    if pushed - load_acquire_u64(&link.commit_popped) >= HANDLES_MAX:
        return False
    handle.start = start
    handle.data_end = start + link.segment_bytes
    handle.fd = fd
    store_release_u64(&link.commit_pushed, pushed + 1)
    return True


cdef bint log_push_handle(LogLink* link, int64_t start, int fd) noexcept nogil:
    cdef uint64_t pushed = link.handles_pushed
    if pushed - load_acquire_u64(&link.handles_popped) >= HANDLES_MAX:
        return False
    link.handles[pushed & (HANDLES_MAX - 1)].start = start
    link.handles[pushed & (HANDLES_MAX - 1)].fd = fd
    store_release_u64(&link.handles_pushed, pushed + 1)
    return True


cdef bint log_push_drop(LogLink* link, int64_t start) noexcept nogil:
    cdef uint64_t pushed = link.drops_pushed
    if pushed - load_acquire_u64(&link.drops_popped) >= DROPS_MAX:
        return False
    link.drops[pushed & (DROPS_MAX - 1)] = start
    store_release_u64(&link.drops_pushed, pushed + 1)
    event_signal(link.preparer_event)
    return True
