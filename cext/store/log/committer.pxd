# Committer: the thread that writes the log to its files when there is a store pool
# (transientStorePoolEnable, ASYNC_FLUSH). Without a pool the reactor writes by itself.
#
#   reactor    appends to the tail ring, which is the pool now, and acks; at the end of its turn it
#              offers what it has appended (link.committable)
#   committer  writes [committed, committable) in pieces of at most COMMIT_BYTES_MAX: as soon as
#              least_bytes wait (commitCommitLogLeastPages); whatever waits thorough_ms
#              (commitCommitLogThoroughInterval) after the last write; or at once when it is asked
#              to (hurry). Then it moves `committed` and wakes the reactor
#   reactor    copies `committed` to `written`: consumers see the messages, the flusher syncs them
#
# The gain: the copy into the page cache, and every wait of the kernel in it, is on another core.
# The price is the same as in RocketMQ: a killed process loses what was acked and not committed, at
# most thorough_ms of messages while the disk keeps up, and the whole pool when it does not.
#
# A failed write poisons the log, and what is in the pool is lost.
#
# Example: least 16 KiB, thorough 200 ms: a lone message is written at once, and the few that come
# in the next 200 ms are written at the end of these. A stream of 100 MB/s is written in pieces of
# 16 KiB and more: as much as gathers while the last piece is written.

from libc.stdint cimport int32_t, int64_t, uint64_t

from cext.base.latency cimport Latency
from cext.base.native_thread cimport NativeThread
from cext.memory.mirror_ring cimport MirrorRing
from cext.store.log.commit_log cimport CommitLog
from cext.store.log.log_link cimport LogLink

cdef enum:
    COMMIT_BYTES_MAX = 4194304

cdef struct CommitterState:
    LogLink* link               # borrowed; outlives the thread
    const MirrorRing* ring      # borrowed
    int32_t stopping            # owner -> thread
    int32_t hurried             # anyone -> thread, which clears it: write what was offered now
    int64_t interval_ms         # commitIntervalCommitLog: the thread looks at least so often; owner
    int64_t thorough_ms         # owner
    int64_t last_commit_us      # thread
    uint64_t commits            # thread; number of writes
    Latency latency             # thread; of each write

cdef class Committer:
    cdef CommitterState state
    cdef NativeThread thread
    cdef CommitLog log          # kept alive while the thread runs
