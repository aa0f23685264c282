# Preparer: the thread that makes the next segment before it is needed, allocates blocks of the
# segment in use ahead of the writer, and removes dropped segments.
#
# It owns every change of the log's directories while the log is open, so that the reactor never
# waits for an allocation, a removal or the fsync of a directory.
#
#   room        the reactor names the offset up to which it wants blocks. They are allocated in
#               pieces, because the kernel stops all writes to a file while it allocates (at most
#               0.2 ms for PIECE_BYTES on an idle ext4), and each piece may be used at once. Nothing
#               is synced here: the sync of the first record in the new blocks commits them as well,
#               and the flusher reports its failure
#   wanted      the reactor names the next segment's start when it begins the one before
#   ready       the file is whole, synced and renamed into place, and its directory entry is synced:
#               only then does the reactor see it, so nothing in it can be acked as durable too
#               early
#   full disk   room_status or prepare_status is NO_SPACE: reserve() returns NO_SPACE once the room
#               or the active segment is full. The preparer tries again every 500 ms, and at once
#               when a segment was dropped; after a success service goes on by itself. The next
#               segment is made after the room, or it would take the space that the active one
#               still needs
#   dropped     a dropped segment is kept as the spare file to recycle if the wanted segment is not
#               ready yet, and removed otherwise
#
# When preparing fails with EIO no file is left, and it is tried again with a new one. Only a failed
# fsync of the directory poisons the log, because repeating it would prove nothing.
#
# Example, segments of 1 GiB: the reactor enters 2147483648 and wants 3221225472. Some milliseconds
# later the file is there, and minutes later the reactor enters it without a system call.

from libc.stdint cimport int32_t, int64_t, uint64_t

from cext.base.native_thread cimport NativeThread
from cext.store.log.commit_log cimport CommitLog
from cext.store.log.log_link cimport LogLink

cdef struct PreparerState:
    LogLink* link               # borrowed; outlives the thread
    int32_t stopping            # owner -> thread
    int64_t done_start          # thread: the segment last made ready
    int64_t spare_start         # thread: former start of the spare file; -1 none
    uint64_t prepared           # thread; counters
    uint64_t recycled
    uint64_t removed
    uint64_t failures
    uint64_t pieces             # of room allocated
    int64_t slowest_piece_us

cdef class Preparer:
    cdef PreparerState state
    cdef NativeThread thread
    cdef CommitLog log          # kept alive while the thread runs

# The thread, or another one while it does not run. Does all the work there is; returns how many ms
# to sleep (-1: until signalled).
cdef int preparer_round(PreparerState* state) noexcept nogil
