"""Threads that read what is not in memory. Jobs, states and promises: disk_reader.pxd.

    readers = DiskReader(log, threads=2)
    readers.start()
    ...                     # reactor: submit(job), later completed() -> job
    readers.stop()          # jobs that were not begun come back with CLOSED
"""

import os

cimport cython
from libc.errno cimport ENOENT
from libc.string cimport memset

from cext.base.atomics cimport (
    exchange_i32, fence, load_acquire_i32, load_acquire_i64, store_release_i32)
from cext.base.byteorder cimport load_u32
from cext.base.check cimport check
from cext.base.native_thread cimport native_thread_join, native_thread_start
from cext.base.status cimport Status
from cext.base.sysio cimport (
    close_file, event_open, event_signal, event_wait, open_file, read_at)
from cext.memory.spsc_ring cimport (
    spsc_close, spsc_is_empty, spsc_open, spsc_pop, spsc_push, spsc_put,
)
from cext.store.log.record cimport RECORD_BYTES_MIN, RecordView, record_parse
from cext.store.log.segment cimport segment_open

from rmq.errors import StoreError

cdef extern from "<fcntl.h>" nogil:
    int posix_fadvise(int fd, int64_t offset, int64_t size, int advice)
    enum: O_RDONLY, POSIX_FADV_WILLNEED

cdef enum:
    AHEAD_BYTES_MAX = 4 << 20   # records within this span are hinted to the kernel together


cdef struct OpenSegment:        # open while one job is done
    int fd
    int64_t start               # -1: none open


cdef int use_segment(LogLink* link, OpenSegment* open, int64_t start) noexcept nogil:
    cdef int error
    if open.start == start:
        return Status.OK
    close_file(open.fd)
    open.start = -1
    open.fd = segment_open(link.directory, start, link.segment_bytes, False, &error)
    if open.fd < 0:
        return open.fd
    open.start = start
    return Status.OK


cdef int32_t run_length(LogLink* link, const ReadJob* job, int32_t first, uint32_t room,
                        uint64_t* bytes) noexcept nogil:
    """How many records from `first` on lie side by side in one segment and together fit `room`."""
    cdef int64_t segment_end = job.offsets[first] - job.offsets[first] % link.segment_bytes
    cdef int64_t at = job.offsets[first]
    cdef int32_t i = first
    segment_end += link.segment_bytes
    bytes[0] = 0
    while (i < job.count and job.offsets[i] == at and bytes[0] + job.sizes[i] <= room
            and at + job.sizes[i] <= segment_end):
        bytes[0] += job.sizes[i]
        at += job.sizes[i]
        i += 1
    return i - first


cdef void ask_ahead(LogLink* link, const ReadJob* job, OpenSegment* open) noexcept nogil:
    """Gives the kernel one hint for all records in the first segment, so that the disk can read
    them together."""
    cdef int64_t start = open.start
    cdef int64_t low = job.offsets[0]
    cdef int64_t high = low
    cdef int32_t i
    for i in range(job.count):
        if job.offsets[i] < low or job.offsets[i] + job.sizes[i] > start + link.segment_bytes:
            return
        if job.offsets[i] + job.sizes[i] > high:
            high = job.offsets[i] + job.sizes[i]
    if job.count > 1 and high - low <= AHEAD_BYTES_MAX:
        posix_fadvise(open.fd, low - start, high - low, POSIX_FADV_WILLNEED)


cdef int check_records(ReadJob* job, int32_t records) noexcept nogil:
    """Counts up to `records` more records as done, as far as they are right."""
    cdef RecordView view
    cdef int32_t number
    cdef int32_t goal = job.done_count + records
    while job.done_count < goal:
        number = job.done_count
        if job.check:
            if record_parse(job.buffer + job.done_bytes, job.sizes[number], job.offsets[number],
                            True, &view) != Status.OK or view.total_bytes != job.sizes[number]:
                return Status.CORRUPT
        job.done_bytes += job.sizes[number]
        job.done_count += 1
    return Status.OK


cdef int read_records(ReaderThread* reader, ReadJob* job, OpenSegment* open) noexcept nogil:
    cdef LogLink* link = reader.link
    cdef int64_t offset
    cdef int64_t in_segment
    cdef int32_t records
    cdef uint64_t bytes
    cdef int64_t got
    cdef int error
    cdef int status
    while job.done_count < job.count:
        offset = job.offsets[job.done_count]
        in_segment = offset % link.segment_bytes
        if in_segment + job.sizes[job.done_count] > link.segment_bytes:
            return Status.CORRUPT
        if offset + job.sizes[job.done_count] > load_acquire_i64(&link.marks.written):
            return Status.CORRUPT
        if offset < load_acquire_i64(&link.min_offset):
            return Status.NOT_FOUND
        records = run_length(link, job, job.done_count, job.capacity - job.done_bytes, &bytes)
        if records == 0:
            return Status.TOO_LARGE if job.done_count == 0 else Status.OK
        status = use_segment(link, open, offset - in_segment)
        if status != Status.OK:
            return status
        if job.done_count == 0:
            ask_ahead(link, job, open)
        reader.reads += 1
        got = read_at(open.fd, job.buffer + job.done_bytes, bytes, in_segment, &error)
        if offset < load_acquire_i64(&link.min_offset):
            return Status.NOT_FOUND     # dropped meanwhile: may be another segment's bytes
        if got != <int64_t>bytes:
            return Status.IO_ERROR
        status = check_records(job, records)
        if status != Status.OK:
            return status
    return Status.OK


cdef int read_part(ReaderThread* reader, ReadJob* job, const OpenSegment* open,
                   uint32_t end) noexcept nogil:
    """Reads the record's bytes up to `end`, from done_bytes on."""
    cdef int error
    cdef int64_t size = <int64_t> end - job.done_bytes
    reader.reads += 1
    if read_at(open.fd, job.buffer + job.done_bytes, size,
               job.offsets[0] - open.start + job.done_bytes, &error) != size:
        return Status.IO_ERROR
    job.done_bytes = end
    return Status.OK


cdef int read_unsized(ReaderThread* reader, ReadJob* job, OpenSegment* open) noexcept nogil:
    """Reads one record of which only the offset is known."""
    cdef LogLink* link = reader.link
    cdef RecordView view
    cdef int64_t offset = job.offsets[0]
    cdef int64_t start = offset - offset % link.segment_bytes
    cdef int64_t end = load_acquire_i64(&link.marks.written)
    cdef int status
    if offset < load_acquire_i64(&link.min_offset):
        return Status.NOT_FOUND
    if end > start + link.segment_bytes:
        end = start + link.segment_bytes
    if offset + RECORD_BYTES_MIN > end:
        return Status.CORRUPT
    status = use_segment(link, open, start)
    if status == Status.OK:
        status = read_part(reader, job, open, <uint32_t> (
            READ_FIRST if end - offset > READ_FIRST else end - offset))
    if status != Status.OK:
        return status
    job.sizes[0] = load_u32(job.buffer)
    if job.sizes[0] < RECORD_BYTES_MIN or offset + job.sizes[0] > end:
        status = Status.CORRUPT
    elif job.sizes[0] > job.capacity:
        status = Status.TOO_LARGE
    elif job.sizes[0] > job.done_bytes:
        status = read_part(reader, job, open, job.sizes[0])
    if offset < load_acquire_i64(&link.min_offset):
        return Status.NOT_FOUND     # dropped meanwhile: may be another segment's bytes
    if status == Status.OK and (
            record_parse(job.buffer, job.sizes[0], offset, True, &view) != Status.OK
            or view.total_bytes != job.sizes[0]):
        status = Status.CORRUPT
    job.done_bytes = job.sizes[0] if status == Status.OK else 0
    job.done_count = status == Status.OK
    return status


cdef int read_file(ReaderThread* reader, ReadJob* job) noexcept nogil:
    cdef int error
    cdef int64_t got
    cdef int fd
    if job.sizes[0] > job.capacity:
        return Status.TOO_LARGE
    fd = open_file(job.path, O_RDONLY, &error)
    if fd < 0:
        return Status.NOT_FOUND if error == ENOENT else Status.IO_ERROR
    reader.reads += 1
    got = read_at(fd, job.buffer, job.sizes[0], job.offsets[0], &error)
    close_file(fd)
    if got < 0:
        return Status.IO_ERROR
    job.done_bytes = <uint32_t>got
    job.done_count = 1
    return Status.OK


cdef void do_job(ReaderThread* reader, ReadJob* job) noexcept nogil:
    cdef OpenSegment open
    open.fd = -1
    open.start = -1
    job.done_count = 0
    job.done_bytes = 0
    if load_acquire_i32(&reader.stopping) != 0:
        job.status = Status.CLOSED
    elif job.kind == READ_FILE:
        job.status = read_file(reader, job)
    elif job.kind == READ_RECORD:
        job.status = read_unsized(reader, job, &open)
        close_file(open.fd)
    else:
        job.status = read_records(reader, job, &open)
        close_file(open.fd)


cdef void run(void* argument) noexcept nogil:
    cdef ReaderThread* reader = <ReaderThread*>argument
    cdef ReadJob* job
    while True:
        job = <ReadJob*>spsc_pop(&reader.jobs)
        if job != NULL:
            do_job(reader, job)
            # submit() counts the jobs that are not collected, so there is room.
            spsc_put(&reader.done, job, b"a disk reader: room for each read that is done")
            event_signal(reader.notify_event)
            continue
        if load_acquire_i32(&reader.stopping) != 0:
            return
        store_release_i32(&reader.sleeping, 1)
        fence()
        if spsc_is_empty(&reader.jobs) and load_acquire_i32(&reader.stopping) == 0:
            event_wait(reader.event, -1)
        store_release_i32(&reader.sleeping, 0)


cdef bint is_well_formed(const ReadJob* job) noexcept nogil:
    cdef int32_t i
    if job.count < 1 or job.count > READ_RECORDS_MAX or job.buffer == NULL:
        return False
    if job.kind == READ_FILE:
        return job.count == 1 and job.path != NULL and job.offsets[0] >= 0
    if job.kind == READ_RECORD:
        return job.count == 1 and job.offsets[0] >= 0 and job.capacity >= READ_FIRST
    for i in range(job.count):
        if job.offsets[i] < 0 or job.sizes[i] == 0:
            return False
    return job.kind == READ_LOG


@cython.no_gc_clear                  # __dealloc__ needs the object's fields
cdef class DiskReader:
    def __cinit__(self, CommitLog log not None, int threads=2):
        cdef int error = 0
        cdef int i
        memset(self.readers, 0, sizeof(self.readers))
        self.notify_event = -1
        for i in range(READERS_MAX):
            self.readers[i].event = -1
        if not 1 <= threads <= READERS_MAX:
            raise ValueError(f"threads {threads}: 1 to {READERS_MAX}")
        self.log = log
        self.notify_event = event_open(&error)
        for i in range(threads):
            self.readers[i].event = event_open(&error)
            self.readers[i].notify_event = self.notify_event
            self.readers[i].link = &log.link
            if error != 0 or spsc_open(&self.readers[i].jobs, READ_JOBS_MAX) != Status.OK or (
                    spsc_open(&self.readers[i].done, READ_JOBS_MAX) != Status.OK):
                raise StoreError("no memory or descriptor for a disk reader")
        self.count = threads

    def __dealloc__(self):
        cdef int i
        self.stop()
        for i in range(READERS_MAX):
            spsc_close(&self.readers[i].jobs)
            spsc_close(&self.readers[i].done)
            close_file(self.readers[i].event)
        close_file(self.notify_event)

    cdef int submit(self, ReadJob* job) noexcept nogil:
        cdef ReaderThread* reader = &self.readers[0]
        cdef int i
        if not self.running:
            return Status.CLOSED
        if not is_well_formed(job):
            return Status.MALFORMED
        for i in range(1, self.count):
            if self.readers[i].in_flight < reader.in_flight:
                reader = &self.readers[i]
        if reader.in_flight >= READ_JOBS_MAX or not spsc_push(&reader.jobs, job):
            return Status.RING_FULL
        reader.in_flight += 1
        fence()                 # the push comes before `sleeping` is read
        if load_acquire_i32(&reader.sleeping) != 0 and exchange_i32(&reader.sleeping, 0) != 0:
            event_signal(reader.event)
        return Status.OK

    cdef ReadJob* completed(self) noexcept nogil:
        cdef ReadJob* job
        cdef int i
        cdef int number
        for i in range(self.count):
            number = (self.next_done + i) % self.count
            job = <ReadJob*>spsc_pop(&self.readers[number].done)
            if job != NULL:
                check(self.readers[number].in_flight > 0,
                      b"a disk reader: no more reads end than were asked for",
                      self.readers[number].in_flight, number)
                self.readers[number].in_flight -= 1
                self.next_done = number
                return job
        return NULL

    cdef int event_fd(self) noexcept nogil:
        return self.notify_event

    def start(self) -> None:
        """Starts the threads."""
        cdef int error = 0
        cdef int i
        if self.running:
            raise StoreError("the disk readers are already running")
        self.running = True
        for i in range(self.count):
            self.readers[i].stopping = 0
            if native_thread_start(&self.readers[i].thread, &run, &self.readers[i], b"rmq-reader",
                                   &error) != Status.OK:
                self.stop()
                raise StoreError(f"disk reader thread: {os.strerror(error)}")

    def stop(self) -> None:
        """Ends the threads; jobs not begun come back with CLOSED. May be called twice."""
        cdef int i
        self.running = False
        for i in range(self.count):
            store_release_i32(&self.readers[i].stopping, 1)
            event_signal(self.readers[i].event)
        for i in range(self.count):
            with nogil:
                native_thread_join(&self.readers[i].thread)
