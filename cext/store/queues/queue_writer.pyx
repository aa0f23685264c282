"""The queue writer's loop and its jobs. See queue_writer.pxd.

Both loops run in Python threads that do not hold the GIL while they loop; the interpreter sees them
only as two threads that start and end.

No wake-up is lost: the writer sets `sleeping`, looks into the ring once more and then reads the
eventfd; the reactor pushes and then looks at `sleeping`. Each side has a fence between its two
steps, so at least one of them sees the other.
"""
cimport cython
from libc.errno cimport errno
from libc.stdint cimport uint64_t
from libc.stdio cimport rename
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy
from posix.fcntl cimport O_CLOEXEC, O_DIRECTORY, O_RDONLY, open
from posix.unistd cimport close

import threading

from cext.base.atomics cimport (
    fence, load_acquire_i64, load_seq_i32, store_release_i64, store_seq_i32)
from cext.base.check cimport check
from cext.base.status cimport Status
from cext.base.sysio cimport event_open, event_signal, event_wait
from cext.base.watermark cimport watermark_move
from cext.memory.spsc_ring cimport (
    spsc_close, spsc_is_empty, spsc_open, spsc_own_pop, spsc_own_push, spsc_pop, spsc_push,
    spsc_put,
)
from cext.store.log.checkpoint cimport checkpoint_write
from cext.store.queues.consume_queue cimport (
    CHUNK_ENTRIES, QUEUE_ENTRY_BYTES, QueueEntry, queue_entry_load)
from cext.store.queues.queue_ends cimport EndsHeader, ends_write
from cext.store.queues.queue_files cimport name_of
from cext.store.queues.queue_repair cimport ENTRY_NEW
from cext.store.queues.queue_scan cimport load_one, trim_files

cdef extern from "unistd.h" nogil:
    int syncfs(int fd)


cdef enum:
    FIRST_SLOTS = 1024


cdef void ends_of_chunks(const Chunk* chunk, int64_t offset, int64_t count,
                         QueueEnds* ends) noexcept nogil:
    cdef int64_t last = offset + count - 1
    cdef QueueEntry entry
    while offset >= chunk.first_offset + CHUNK_ENTRIES:
        chunk = chunk.next
    queue_entry_load(chunk.entries + (offset - chunk.first_offset) * QUEUE_ENTRY_BYTES, &entry)
    ends.min_offset = offset
    ends.first_physical = entry.physical_offset
    while last >= chunk.first_offset + CHUNK_ENTRIES:
        chunk = chunk.next
    queue_entry_load(chunk.entries + (last - chunk.first_offset) * QUEUE_ENTRY_BYTES, &entry)
    ends.end_offset = last + 1
    ends.last_physical = entry.physical_offset
    ends.last_size = entry.size


@cython.no_gc_clear                  # __dealloc__ needs the object's fields
cdef class QueueWriter:
    """The reactor pushes, pops, wakes and waits; each of the two loops is a thread of its own."""

    def __cinit__(self, QueueFiles files, int64_t ring_capacity, int checkpoint_fd):
        self.writer.wake_fd = self.syncer.wake_fd = self.done_fd = -1
        self.files = files
        self.checkpoint_fd = checkpoint_fd
        self.ends_name = b""
        self.threads = []
        if (spsc_open(&self.jobs, <uint64_t> ring_capacity) != Status.OK
                or spsc_open(&self.done, <uint64_t> ring_capacity) != Status.OK):
            raise MemoryError("no memory for the queue writer's rings")
        cdef int error = 0
        self.writer.wake_fd = event_open(&error)
        self.syncer.wake_fd = event_open(&error)
        self.done_fd = event_open(&error)
        if error != 0:
            raise OSError(error, "eventfd for the queue writer")

    def __dealloc__(self):
        for fd in (self.writer.wake_fd, self.syncer.wake_fd, self.done_fd):
            if fd >= 0:
                close(fd)
        spsc_close(&self.jobs)
        spsc_close(&self.done)
        free(self.file_ends)

    def keep_ends(self, bytes path):
        """Sets the path of queueEnds. Call it before start()."""
        cdef bytes temporary = path + b".tmp"
        cdef bytes pinned = path + b".pinned"
        cdef bytes synced = path + b".synced"
        self.ends_name = path
        self.ends_names = (temporary, pinned, synced)
        self.ends_path = path
        self.temporary_path = temporary
        self.pinned_path = pinned
        self.synced_path = synced

    def start(self):
        """Starts both threads."""
        store_seq_i32(&self.writer_runs, 1)
        store_seq_i32(&self.syncer_runs, 1)
        for target, name in ((self._run_writer, "rmq-queue-writer"),
                             (self._run_syncer, "rmq-queue-sync")):
            thread = threading.Thread(target=target, name=name, daemon=True)
            thread.start()
            self.threads.append(thread)

    def stop(self):
        """Lets the writer finish its ring and ends both threads; waits for a sync under way."""
        store_seq_i32(&self.writer.stop, 1)
        store_seq_i32(&self.syncer.stop, 1)
        event_signal(self.writer.wake_fd)
        event_signal(self.syncer.wake_fd)
        for thread in self.threads:
            thread.join()
        self.threads.clear()

    def _run_writer(self):
        with nogil:
            self._writer_loop()

    def _run_syncer(self):
        with nogil:
            self._syncer_loop()

    # ---- the reactor's side

    cdef bint push(self, QueueJob* job) noexcept nogil:
        return spsc_push(&self.jobs, job)

    cdef QueueJob* pop_done(self) noexcept nogil:
        return <QueueJob*> spsc_pop(&self.done)

    cdef void wake(self) noexcept nogil:
        fence()
        if load_seq_i32(&self.writer.sleeping):
            store_seq_i32(&self.writer.sleeping, 0)
            event_signal(self.writer.wake_fd)

    cdef void wait_done(self, int timeout_ms) noexcept nogil:
        store_seq_i32(&self.reactor_waits, 1)
        self.wake()
        if spsc_is_empty(&self.done):
            event_wait(self.done_fd, timeout_ms)
        store_seq_i32(&self.reactor_waits, 0)

    cdef void ask_sync(self) noexcept nogil:
        cdef int64_t done = load_acquire_i64(&self.sync_done)
        check(done <= self.sync_wanted, b"the queue writer: no more syncs end than were asked for",
              done, self.sync_wanted)
        store_release_i64(&self.sync_wanted, self.sync_wanted + 1)
        event_signal(self.syncer.wake_fd)

    # ---- the writer's side

    cdef void _writer_loop(self) noexcept nogil:
        cdef QueueJob* job
        spsc_own_pop(&self.jobs, True)
        spsc_own_push(&self.done, True)
        while True:
            job = <QueueJob*> spsc_pop(&self.jobs)
            if job != NULL:
                self.do_job(job)
                spsc_put(&self.done, job, b"the queue writer: room for each job that is done")
                fence()
                if load_seq_i32(&self.reactor_waits):
                    event_signal(self.done_fd)
                continue
            if load_seq_i32(&self.writer.stop):
                break
            store_seq_i32(&self.writer.sleeping, 1)
            fence()
            if spsc_is_empty(&self.jobs) and not load_seq_i32(&self.writer.stop):
                event_wait(self.writer.wake_fd, 1000)
            store_seq_i32(&self.writer.sleeping, 0)
        self.files.close_all()
        spsc_own_pop(&self.jobs, False)
        spsc_own_push(&self.done, False)
        store_seq_i32(&self.writer_runs, 0)

    cdef void _syncer_loop(self) noexcept nogil:
        cdef int64_t wanted
        cdef int fd
        while not load_seq_i32(&self.syncer.stop):
            wanted = load_acquire_i64(&self.sync_wanted)
            if wanted == self.sync_done:
                event_wait(self.syncer.wake_fd, 10_000)
                continue
            self.sync_errno = 0
            fd = open(self.files.directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
            if fd < 0 or syncfs(fd) != 0:
                self.sync_errno = errno
            if fd >= 0:
                close(fd)
            watermark_move(&self.sync_done, wanted,
                           b"the queue writer: `sync_done` never moves back")
            if load_seq_i32(&self.reactor_waits):
                event_signal(self.done_fd)
        store_seq_i32(&self.syncer_runs, 0)

    # ---- what the files hold

    cdef void set_file_ends(self, Queue* queue, const QueueEnds* ends) noexcept nogil:
        cdef void* memory
        if queue.file_ends_place == 0:
            if self.file_ends_count == self.file_ends_slots:
                memory = realloc(
                    self.file_ends,
                    <size_t> max(2 * self.file_ends_slots, <int64_t> FIRST_SLOTS) * sizeof(Queue*))
                if memory == NULL:
                    return              # the next queueEnds lacks it, so a start reads the log
                self.file_ends = <Queue**> memory
                self.file_ends_slots = max(2 * self.file_ends_slots, <int64_t> FIRST_SLOTS)
            self.file_ends[self.file_ends_count] = queue
            self.file_ends_count += 1
            queue.file_ends_place = self.file_ends_count
        queue.file_ends = ends[0]

    cdef void note_file_ends(self, Queue* queue, const QueueEnds* ends) noexcept nogil:
        cdef QueueEnds now = queue.file_ends
        if queue.file_ends_place == 0 or now.min_offset >= now.end_offset:
            now = ends[0]
        elif ends.end_offset >= now.end_offset:
            now.end_offset = ends.end_offset
            now.last_physical = ends.last_physical
            now.last_size = ends.last_size
        self.set_file_ends(queue, &now)

    cdef void forget_file_ends(self, Queue* queue) noexcept nogil:
        cdef int64_t at = queue.file_ends_place - 1
        if at < 0:
            return
        check(at < self.file_ends_count and self.file_ends[at] == queue,
              b"the queue writer: a queue has its place among those with file ends", at,
              self.file_ends_count)
        self.file_ends_count -= 1
        self.file_ends[at] = self.file_ends[self.file_ends_count]
        self.file_ends[at].file_ends_place = at + 1
        queue.file_ends_place = 0

    cdef void read_file_ends(self, QueueFiles files) noexcept nogil:
        cdef int64_t i
        cdef Queue* queue
        cdef QueueName name
        cdef QueueEnds ends
        cdef QueueEntry first, last
        for i in range(self.file_ends_count):
            queue = self.file_ends[i]
            ends = queue.file_ends
            ends.min_offset = min(queue.min_offset, ends.end_offset)
            if ends.min_offset == ends.end_offset or (
                    ends.min_offset == queue.file_ends.min_offset
                    and ends.first_physical >= 0 and ends.last_physical >= 0):
                queue.file_ends = ends
                continue
            name = name_of(queue)
            if (load_one(files, &name, ends.min_offset, &first) == 1
                    and load_one(files, &name, ends.end_offset - 1, &last) == 1):
                ends.first_physical = first.physical_offset
                ends.last_physical = last.physical_offset
                ends.last_size = last.size
                queue.file_ends = ends

    cdef int _write_ends(self, const QueueJob* job) noexcept nogil:
        cdef EndsHeader header
        cdef const char* path = self.pinned_path if job.kind == JOB_PIN_ENDS else self.ends_path
        cdef int status
        if path == NULL:
            return Status.OK
        memcpy(header.boot_id, job.fields.boot_id, 16)
        header.log_offset = job.fields.persisted_offset
        header.anchor = job.fields.persisted_anchor
        status = ends_write(path, self.temporary_path, &header, self.file_ends,
                            self.file_ends_count)
        self.files.last_errno = errno if status != Status.OK else 0
        return status

    cdef int _keep_ends(self) noexcept nogil:
        if self.ends_path == NULL or rename(self.pinned_path, self.synced_path) == 0:
            return Status.OK
        self.files.last_errno = errno
        return Status.IO_ERROR

    cdef int _patch(self, const QueueJob* job) noexcept nogil:
        """Writes the new entries, in runs, except those trimmed since the repair began."""
        cdef const Repair* r = job.repair
        cdef QueueName name = name_of(job.queue)
        cdef int64_t per_file = self.files.entries_per_file
        cdef int64_t at = 0, end
        cdef int status
        self.files.forget(job.queue.serial)     # the open file may be a removed one
        if job.queue.file_ends_place == 0:
            return Status.OK
        if job.queue.file_ends.min_offset > r.first:
            at = job.queue.file_ends.min_offset - r.first
        while at < r.count:
            if r.marks[at] != ENTRY_NEW:
                at += 1
                continue
            end = at + 1
            while end < r.count and r.marks[end] == ENTRY_NEW and (r.first + end) % per_file != 0:
                end += 1
            status = self.files.write_block(&name, r.entries + at * QUEUE_ENTRY_BYTES, r.first + at,
                                            end - at, job.queue.file_ends.min_offset)
            if status != Status.OK:
                return status
            at = end
        return Status.OK

    cdef int _trim(self, QueueJob* job) noexcept nogil:
        cdef QueueName name = name_of(job.queue)
        cdef QueueEnds ends = job.queue.file_ends
        cdef QueueEntry entry
        cdef int64_t low = job.offset
        cdef int status = trim_files(self.files, &name, job.log_offset, job.count, &low)
        if status != Status.OK:
            return status
        job.offset = low
        if job.queue.file_ends_place == 0 or low <= ends.min_offset or low > ends.end_offset:
            return Status.OK
        entry.physical_offset = -1
        if low < ends.end_offset and load_one(self.files, &name, low, &entry) != 1:
            return Status.OK                # file_ends stay as they are: they are still true
        ends.min_offset = low
        ends.first_physical = entry.physical_offset
        self.set_file_ends(job.queue, &ends)
        return Status.OK

    cdef void do_job(self, QueueJob* job) noexcept nogil:
        cdef QueueName name
        cdef QueueEnds ends
        cdef int status = Status.OK
        self.files.last_errno = 0
        if job.queue != NULL:
            name = name_of(job.queue)
        if job.kind == JOB_WRITE:
            ends_of_chunks(job.chunk, job.offset, job.count, &ends)
            status = self.files.write_entries(
                &name, job.chunk, job.offset, job.count,
                job.queue.file_ends.min_offset if job.queue.file_ends_place != 0 else job.offset)
            if status == Status.OK:
                self.note_file_ends(job.queue, &ends)
        elif job.kind == JOB_CHECKPOINT:
            if self.checkpoint_fd >= 0:
                status = checkpoint_write(self.checkpoint_fd, &job.fields)
                self.files.last_errno = errno if status != Status.OK else 0
        elif job.kind == JOB_TRIM:
            status = self._trim(job)
        elif job.kind == JOB_DROP:
            self.forget_file_ends(job.queue)
            status = self.files.remove_queue(&name)
        elif job.kind == JOB_NOTE:
            self.note_file_ends(job.queue, &job.ends)
        elif job.kind == JOB_ENDS or job.kind == JOB_PIN_ENDS:
            status = self._write_ends(job)
        elif job.kind == JOB_PATCH:
            status = self._patch(job)
        elif job.kind == JOB_KEEP_ENDS:
            status = self._keep_ends()
        job.status = status
        job.error_number = self.files.last_errno
