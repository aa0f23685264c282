# The flusher: the one thread that calls fdatasync, and the one that moves `durable`.
#
#   sync mode    as soon as written > durable: fdatasync, durable = what was written before it
#                began. What arrives meanwhile waits for the next one: group commit without a timer.
#   async mode   every interval_ms while something is not synced: fdatasync when at least
#                least_pages pages wait or a segment is full, and in any case every thorough_ms.
#   idle         asleep on an eventfd; the reactor signals only a sleeping flusher (log_link.pxd).
#
# Segments are synced in order, and `durable` only moves over ranges whose fdatasync has returned. A
# segment that is full and synced is closed here. A failed fdatasync poisons the log: `durable`
# stays where it is, no sync is tried again, and the reactor is told.
#
# Example, sync mode: written 1000, the sync takes 100 us, in which 64 more sends bring written to
# 26,600. durable becomes 1000; the second sync covers all 64 at once; durable 26,600.

from libc.stdint cimport int32_t, int64_t, uint64_t

from cext.base.latency cimport Latency
from cext.base.native_thread cimport NativeThread
from cext.store.commit_log cimport CommitLog
from cext.store.log_link cimport LogLink

cdef struct FlusherState:
    LogLink* link                # borrowed; outlives the thread
    int32_t stopping             # owner -> thread
    int32_t sync_mode            # owner -> thread: 1 SYNC_FLUSH, 0 ASYNC_FLUSH
    int32_t force                # owner -> thread: sync everything now, whatever the mode
    int64_t interval_ms          # flushIntervalCommitLog; owner -> thread
    int64_t least_pages          # flushCommitLogLeastPages
    int64_t thorough_ms          # flushCommitLogThoroughInterval
    int64_t next_check_us        # thread: async mode looks again then; 0: nothing was waiting
    int64_t last_sync_us         # thread
    uint64_t syncs               # thread; counters for stats
    uint64_t sync_us             # time spent in fdatasync
    Latency latency              # thread; of each fdatasync

cdef class Flusher:
    cdef FlusherState state
    cdef NativeThread thread
    cdef CommitLog log           # kept alive while the thread runs

    # Any thread. Syncs whatever is written now, whatever the mode; returns at once.
    cdef void request_sync(self) noexcept nogil
