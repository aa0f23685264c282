# Preparer: the thread that makes the next segment before it is needed, allocates blocks of the
# segment in use ahead of the writer, and removes dropped segments.
#
# It owns every change of the log's directories while the log is open, so that the reactor never
# waits for an allocation, a removal or the fsync of a directory.
#
#   room        the reactor names the offset up to which it wants blocks; they are allocated in
#               pieces, since the kernel lets nobody write to a file while it allocates (at most
#               0.2 ms for PIECE_BYTES on an idle ext4), and each piece may be used at once. Nothing
#               is synced here: the sync of the first record behind it commits the blocks as well,
#               and its failure is the flusher's to report
#   wanted      the reactor names the next segment's start when it begins the one before
#   ready       the file is whole, synced, renamed into place and its directory entry is synced:
#               only then does the reactor see it, so nothing in it can be acked as durable too
#               early
#   full disk   room_status or prepare_status NO_SPACE: reserve() answers NO_SPACE once the room or
#               the active segment is full; the preparer tries again every 500 ms, and at once when
#               a segment was dropped; then service goes on by itself. The next segment comes after
#               the room, or it would take the space that the active one still needs
#   dropped     kept as the spare file to recycle when the wanted segment is not ready yet; else
#   removed
#
# An EIO while preparing leaves no file behind and is tried again with a new one; only a failed
# fsync of the directory poisons, for it cannot be repeated with a meaning.
#
# Example, segments of 1 GiB: the reactor enters 2147483648 and wants 3221225472; some milliseconds
# later the file is there; the reactor takes it minutes later without a system call.

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
    uint64_t pieces             # of room
    int64_t slowest_piece_us

cdef class Preparer:
    cdef PreparerState state
    cdef NativeThread thread
    cdef CommitLog log          # kept alive while the thread runs
