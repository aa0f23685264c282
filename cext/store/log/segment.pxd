# Segment: one file of the commit log: how it is named, made and removed.
#
# A segment is exactly `segment_bytes` long and named by its first physical offset, 20 digits:
# with 1 GiB segments the third is 00000000002147483648. A file of any other size, or one that is
# not ready, is never seen under such a name: it is made in the spare directory (a sibling,
# commitlog.spare, which Apache RocketMQ does not look at) and renamed into place.
#
# A new file: create -> fallocate -> fsync -> rename -> fsync of the directory. With `warm`
# (RocketMQ's warmMapedFileEnable) zeros are written after the fallocate: the first write to an
# allocated block changes the file system's metadata, which each sync then must commit as well.
# The segment that a start makes or continues may never see traffic: it has its full size, blocks
# for SEGMENT_ROOM_BYTES after the log's end, and a hole from there on. The preparer adds blocks
# ahead of the writer (commit_log.pxd, "Room").
# A recycled file: its first page zeroed -> fsync -> rename -> fsync of the directory. Only after
# the last step may anything in it count as durable. The bytes after the zeroed page of a recycled
# file are stale: the zeros after each write (commit_log) and the position in each record tell them
# from new ones.

from libc.stdint cimport int64_t

cdef enum:
    SEGMENT_HEAD_BYTES = 4096       # zeroed when a file is recycled
    SEGMENT_ROOM_BYTES = 16777216   # of blocks that a file has at a start, before any traffic

# OK | TOO_LARGE (the path does not fit `size` bytes)
cdef int segment_path(char* out, size_t size, const char* directory, int64_t start) noexcept nogil

# Preparer (or the code that opens the store). Makes a segment ready for use: OK with *fd read-write
# | NO_SPACE | IO_ERROR with *error. `room_bytes` of a new file get blocks, or all of it when it is
# warm. `spare_start` >= 0 names a spare file to recycle; it is gone afterwards, even after a
# failure. *directory_sync_failed: the one failure that must poison the log.
cdef int segment_prepare(const char* directory, const char* spare_directory, int64_t start,
                         int64_t segment_bytes, int64_t room_bytes, int64_t spare_start, bint warm,
                         int* fd, int* error, bint* directory_sync_failed) noexcept nogil

# The code that opens the store. Ends the file that will be continued at byte `end`: all bytes after
# it read as zeros (`zero_rest`), or the next 8. Afterwards the file has blocks up to byte *room:
# for room_bytes, or those it had, or fewer when the disk is full. OK | IO_ERROR. Syncs nothing.
cdef int segment_settle(int fd, int64_t end, int64_t segment_bytes, int64_t room_bytes,
                        bint zero_rest, int64_t* room, int* error) noexcept nogil
# Preparer. Allocates blocks for [from, to) of the segment, where its writer does not write yet; a
# failure allocates none. OK | NOT_FOUND (the segment has left the log) | NO_SPACE | IO_ERROR
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
