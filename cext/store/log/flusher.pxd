# Flusher: the thread that calls fdatasync and moves `durable`.
#
#   sync mode    as soon as written > durable: fdatasync, durable = what was written before it
#                began. What arrives meanwhile waits for the next one: group commit without a timer.
#   async mode   every interval_ms while something is not synced: fdatasync when at least
#                least_pages pages wait or a segment is full, and in any case every thorough_ms.
#   idle         asleep on an eventfd; the reactor signals only a sleeping flusher (log_link.pxd).
#
# The reactor may do the flusher's work for one sync (sync_here): in sync mode, while the flusher
# sleeps and syncs are quick. To wake the flusher and be woken by it costs as much as a fast disk's
# sync takes, and while the reactor waits what arrives gathers in the sockets. `syncing` of the link
# is held by whoever syncs, so there is one at a time and the other one waits for it.
#
# Segments are synced in order, and `durable` only moves over ranges whose fdatasync has returned. A
# segment that is full and synced is closed here. A failed fdatasync poisons the log: `durable`
# stays where it is, no sync is tried again, and the reactor is woken.
#
# Example, sync mode: written 1000, the sync takes 100 us, in which 64 more sends bring written to
# 26,600. durable becomes 1000; the second sync covers all 64 at once; durable 26,600.

from libc.stdint cimport int32_t, int64_t, uint64_t

from cext.base.latency cimport Latency
from cext.base.native_thread cimport NativeThread
from cext.store.log.commit_log cimport CommitLog
from cext.store.log.log_link cimport LogLink

cdef enum:
    SYNC_HERE_US_MAX = 1000      # syncs that usually take longer are left to the flusher's thread
    SLOW_SYNC_US = 4000          # a single one that took longer counts at once, not on average

cdef struct FlusherState:
    LogLink* link                # borrowed; outlives the thread
    int32_t stopping             # owner -> thread
    int32_t sync_mode            # 1 SYNC_FLUSH, 0 ASYNC_FLUSH; set before the start
    int32_t force                # owner -> thread: sync everything now, whatever the mode
    int64_t interval_ms          # owner -> thread, as the next two: flushIntervalCommitLog
    int64_t least_pages          # flushCommitLogLeastPages
    int64_t thorough_ms          # flushCommitLogThoroughInterval
    int64_t next_check_us        # thread: async mode looks again then; 0: nothing was waiting
    int64_t last_sync_us         # this and the following: who holds link.syncing
    uint64_t syncs               # counters for stats
    uint64_t sync_us             # time spent in fdatasync
    Latency latency              # thread; of each fdatasync

cdef class Flusher:
    cdef FlusherState state
    cdef NativeThread thread
    cdef CommitLog log           # kept alive while the thread runs

    # Reactor. Whether sync_here() would do it now.
    cdef bint syncs_here(self) noexcept nogil
    # Reactor. Syncs what is written in this thread: OK, POISONED, or NOT_READY when it is the
    # flusher's turn (then it has to be woken).
    cdef int sync_here(self) noexcept nogil
    # Any thread. Syncs whatever is written now, whatever the mode; returns at once.
    cdef void request_sync(self) noexcept nogil
    # Any thread. flush_interval_ms, flush_least_pages, flush_thorough_ms; False for other names.
    # A wait that has begun is measured anew.
    cdef bint set_option(self, str name, int64_t value)
