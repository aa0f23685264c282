# Flusher: the thread that calls fdatasync and moves `durable`.
#
#   sync mode    as soon as written > durable: fdatasync, then durable = what was written before
#                the call. Records that arrive meanwhile wait for the next one: group commit without
#                a timer.
#   async mode   looks every interval_ms while something is not synced: fdatasync when at least
#                least_pages pages wait or a segment is full, and in any case every thorough_ms.
#   idle         asleep on an eventfd; the reactor signals only a sleeping flusher (log_link.pxd).
#
# The reactor may do a sync itself instead of the flusher (sync_here): in sync mode, while the
# flusher sleeps and syncs are quick. Waking the flusher and being woken by it costs as much as a
# sync of a fast disk, and requests that arrive while the reactor waits gather in the sockets. The
# thread that syncs holds `syncing` of the link, so only one syncs at a time and the other waits.
#
# Segments are synced in order, and `durable` only moves over ranges whose fdatasync has returned.
# The flusher closes a segment that is full and synced. A failed fdatasync poisons the log:
# `durable` stays where it is, no sync is tried again, and the reactor is woken.
#
# Example, sync mode: written is 1000 and the sync takes 100 us, in which 64 more sends move written
# to 26,600. durable becomes 1000; the second sync covers all 64 at once, and durable is 26,600.

from libc.stdint cimport int32_t, int64_t, uint64_t

from cext.base.latency cimport Latency
from cext.base.native_thread cimport NativeThread
from cext.store.log.commit_log cimport CommitLog
from cext.store.log.log_link cimport LogLink

cdef enum:
    SYNC_HERE_US_MAX = 1000      # syncs that usually take longer are left to the flusher's thread
    SLOW_SYNC_US = 4000          # one sync that took longer counts at once and in full

cdef struct FlusherState:
    LogLink* link                # borrowed; outlives the thread
    int32_t stopping             # owner -> thread
    int32_t sync_mode            # 1 SYNC_FLUSH, 0 ASYNC_FLUSH; set before the start
    int32_t force                # owner -> thread: sync everything now, whatever the mode
    int64_t interval_ms          # owner -> thread, as the next two: flushIntervalCommitLog
    int64_t least_pages          # flushCommitLogLeastPages
    int64_t thorough_ms          # flushCommitLogThoroughInterval
    int64_t next_check_us        # thread: when async mode looks again; 0: nothing was waiting
    int64_t last_sync_us         # this and what follows: the thread that holds link.syncing
    uint64_t syncs               # counters for stats
    uint64_t sync_us             # time spent in fdatasync
    Latency latency              # thread; of each fdatasync

cdef class Flusher:
    cdef FlusherState state
    cdef NativeThread thread
    cdef CommitLog log           # kept alive while the thread runs

    # Reactor. Whether sync_here() would sync now.
    cdef bint syncs_here(self) noexcept nogil
    # Reactor. Syncs what is written, in this thread. OK | POISONED | NOT_READY: the flusher must do
    # it, and must be woken.
    cdef int sync_here(self) noexcept nogil
    # Any thread. Makes the flusher sync what is written now, in any mode; returns at once.
    cdef void request_sync(self) noexcept nogil
    # Any thread. Sets flush_interval_ms, flush_least_pages or flush_thorough_ms; False for other
    # names. A wait that has begun is computed anew.
    cdef bint set_option(self, str name, int64_t value)
