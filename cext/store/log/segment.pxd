# Segment: one file of the commit log: its name, how it is made, how it is removed.
#
# A segment is exactly `segment_bytes` long and named by its first physical offset, 20 digits:
# with 1 GiB segments the third is 00000000002147483648. A file of any other size, or one that is
# not ready, is never seen under such a name: it is made in the spare directory (a sibling,
# commitlog.spare, which Apache RocketMQ does not look at) and renamed into place.
#
# A new file: create -> fallocate -> fsync -> rename -> fsync of the directory. With `warm`
# (RocketMQ's warmMapedFileEnable) zeros are written after the fallocate: the first write to an
# allocated block changes the file system's metadata, which each sync then has to commit as well.
# The one that a start makes, or finds and goes on with, may never see traffic: it has its full
# size, blocks for SEGMENT_ROOM_BYTES behind the log's end, and a hole from there on. Blocks are
# added by the preparer, ahead of the writer (commit_log.pxd, "Room").
# A recycled one: its first page zeroed -> fsync -> rename -> fsync of the directory. Only after the
# last step may anything in it count as durable. What is behind the zeroed page of a recycled file
# is stale: the zeros after each write (commit_log) and the position in each record tell it from the
# living.

from libc.stdint cimport int64_t

cdef enum:
    SEGMENT_HEAD_BYTES = 4096       # zeroed when a file is recycled
    SEGMENT_ROOM_BYTES = 16777216   # that a file has at a start although nobody may ever send

# OK | TOO_LARGE (the path does not fit `size` bytes)
cdef int segment_path(char* out, size_t size, const char* directory, int64_t start) noexcept nogil

# Preparer (or whoever opens the store). A segment ready for use: OK with *fd read-write, or
# NO_SPACE | IO_ERROR with *error. `room_bytes` of a new file get blocks; all of one that is warm.
# `spare_start` >= 0 names a spare file to recycle; it is gone afterwards, whatever the outcome.
# *directory_sync_failed: the one failure that must poison.
cdef int segment_prepare(const char* directory, const char* spare_directory, int64_t start,
                         int64_t segment_bytes, int64_t room_bytes, int64_t spare_start, bint warm,
                         int* fd, int* error, bint* directory_sync_failed) noexcept nogil

# Whoever opens the store. The file that is gone on with ends at byte `end`: what is behind reads
# as zeros (`zero_rest`; else 8 bytes of it), and has blocks up to byte *room: for room_bytes, or
# what it had, or fewer when the disk is full. OK | IO_ERROR. Syncs nothing.
cdef int segment_settle(int fd, int64_t end, int64_t segment_bytes, int64_t room_bytes,
                        bint zero_rest, int64_t* room, int* error) noexcept nogil
# Preparer. Blocks for [from, to) of the segment, whose writer does not write there yet; for none of
# it when it fails. OK | NOT_FOUND (it has left the log) | NO_SPACE | IO_ERROR
cdef int segment_add_room(const char* directory, int64_t start, int64_t segment_bytes,
                          int64_t from_, int64_t to, int* error) noexcept nogil

# Preparer. Moves a segment out of the log to the spare directory. OK | IO_ERROR
cdef int segment_set_aside(const char* directory, const char* spare_directory, int64_t start,
                           int* error) noexcept nogil
# Preparer. Removes a segment. OK (also when it is not there) | IO_ERROR
cdef int segment_remove(const char* directory, int64_t start, int* error) noexcept nogil

# Opens an existing segment after checking its size. fd | IO_ERROR | NOT_FOUND | CORRUPT (size)
cdef int segment_open(const char* directory, int64_t start, int64_t segment_bytes, bint writable,
                      int* error) noexcept nogil
