# Disk reader: threads that wait for the disk so that the reactor never does.
#
# The reactor submits a job, goes on, and is woken by an eventfd. A job asks for up to 64 records of
# the commit log (or one range of any file, for consume queues) and names the buffer into which they
# are put, one after the other without gaps. Neighbours in the log are fetched by one pread. With
# `check` each record is parsed, its position compared and its body CRC computed by the reader and
# not by the reactor.
#
# A record of unknown size is read alone (READ_RECORD): its first bytes say how long it is. When it
# is larger than the buffer, the result is TOO_LARGE with its size.
#
# When a segment is dropped while a job reads it, the reader notices it (it compares min_offset
# after the read) and returns NOT_FOUND. Files are opened for each job, so that no removed file
# keeps its space.
#
#   submit() -> the reader thread owns the job -> completed() gives it back. In between the reactor
#   touches neither the job nor its buffer.
#
# Example: records of 400 bytes at 4096, 4496 and 9000, capacity 1000: one pread of 800 bytes, and
# the third record does not fit: status OK, done_count 2, done_bytes 800. The caller asks for the
# third one again.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.base.native_thread cimport NativeThread
from cext.memory.spsc_ring cimport SpscRing
from cext.store.log.commit_log cimport CommitLog
from cext.store.log.log_link cimport LogLink

cdef enum:
    READ_RECORDS_MAX = 64
    READERS_MAX = 8
    READ_JOBS_MAX = 256         # waiting, or done and not collected, for each reader
    READ_FIRST = 4096           # first read of a record of unknown size; the least such buffer

cdef enum ReadKind:
    READ_LOG = 0                # records of the commit log
    READ_FILE = 1               # bytes offsets[0], sizes[0] of `path`
    READ_RECORD = 2             # the record of the commit log at offsets[0]; out: sizes[0]

cdef struct ReadJob:
    int32_t kind                # ReadKind
    int32_t count               # records wanted, 1 .. READ_RECORDS_MAX
    int64_t offsets[READ_RECORDS_MAX]    # physical; in the order in which they are wanted
    uint32_t sizes[READ_RECORDS_MAX]     # whole records
    uint8_t* buffer             # borrowed until completed
    uint32_t capacity
    bint check                  # READ_LOG: parse, position, body CRC
    const char* path            # READ_FILE: borrowed until completed
    void* owner                 # for the submitter's use
    # Results. Status: OK, or why record number done_count could not be read: NOT_FOUND (dropped,
    # or no such file), CORRUPT, IO_ERROR, CLOSED (stop), TOO_LARGE (the first one does not fit). OK
    # with done_count < count: the buffer is full.
    int32_t status
    int32_t done_count          # records in the buffer
    uint32_t done_bytes         # bytes in the buffer; READ_FILE: fewer at the file's end

cdef struct ReaderThread:
    NativeThread thread
    SpscRing jobs               # reactor -> reader
    SpscRing done               # reader -> reactor
    LogLink* link               # borrowed
    int event                   # wakes the reader
    int notify_event            # borrowed: wakes the reactor
    int32_t sleeping            # handled as the flusher's (log_link.pxd)
    int32_t stopping
    int32_t in_flight           # reactor: jobs submitted and not collected
    uint64_t reads              # reader: pread calls

cdef class DiskReader:
    cdef ReaderThread readers[READERS_MAX]
    cdef readonly int count     # threads
    cdef int next_done          # reactor: where completed() looks first
    cdef int notify_event       # owned: readable when completed() has something
    cdef bint running
    cdef CommitLog log          # kept alive while the threads run

    # Reactor. OK | RING_FULL (READ_JOBS_MAX of every reader are under way) | MALFORMED (count,
    # sizes or kind out of range) | CLOSED
    cdef int submit(self, ReadJob* job) noexcept nogil
    # Reactor. A finished job, or NULL. Drain the eventfd first, then call this until it is NULL.
    cdef ReadJob* completed(self) noexcept nogil
    # For the reactor's epoll.
    cdef int event_fd(self) noexcept nogil
