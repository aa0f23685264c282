"""The queue writer's loop and its jobs. See queue_writer.pxd.

Both loops run in Python threads that hold no GIL between entering and leaving; the interpreter sees
them only as two threads that start and end.

Sleeping without losing a wake-up: the writer sets `sleeping`, looks into the ring once more and
then reads the eventfd; the reactor pushes, then looks at `sleeping`. Both are sequentially
consistent, so at least one of the two sees the other.
"""
from libc.errno cimport errno
from libc.stdint cimport uint64_t
from posix.fcntl cimport O_CLOEXEC, O_DIRECTORY, O_RDONLY, open
from posix.unistd cimport close

import threading

from cext.base.atomics cimport (load_acquire_i64, load_seq_i32, store_release_i64, store_seq_i32)
from cext.base.status cimport Status
from cext.base.sysio cimport event_open, event_signal, event_wait
from cext.memory.spsc_ring cimport spsc_close, spsc_is_empty, spsc_open, spsc_pop, spsc_push
from cext.store.checkpoint cimport checkpoint_write
from cext.store.queue_files cimport name_of
from cext.store.queue_scan cimport trim_files

cdef extern from "unistd.h" nogil:
    int syncfs(int fd)


cdef class QueueWriter:
    """Push, pop, wake and wait: reactor thread. The two loops: their own threads."""

    def __cinit__(self, QueueFiles files, int64_t ring_capacity, int checkpoint_fd):
        self.writer.wake_fd = self.syncer.wake_fd = self.done_fd = -1
        self.files = files
        self.checkpoint_fd = checkpoint_fd
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
        """Lets the writer finish its ring and ends both threads; a sync under way is waited for."""
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
        store_release_i64(&self.sync_wanted, self.sync_wanted + 1)
        event_signal(self.syncer.wake_fd)

    # ---- the writer's side

    cdef void _writer_loop(self) noexcept nogil:
        cdef QueueJob* job
        while True:
            job = <QueueJob*> spsc_pop(&self.jobs)
            if job != NULL:
                self.do_job(job)
                spsc_push(&self.done, job)
                if load_seq_i32(&self.reactor_waits):
                    event_signal(self.done_fd)
                continue
            if load_seq_i32(&self.writer.stop):
                break
            store_seq_i32(&self.writer.sleeping, 1)
            if spsc_is_empty(&self.jobs) and not load_seq_i32(&self.writer.stop):
                event_wait(self.writer.wake_fd, 1000)
            store_seq_i32(&self.writer.sleeping, 0)
        self.files.close_all()
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
            store_release_i64(&self.sync_done, wanted)
            if load_seq_i32(&self.reactor_waits):
                event_signal(self.done_fd)
        store_seq_i32(&self.syncer_runs, 0)

    cdef void do_job(self, QueueJob* job) noexcept nogil:
        cdef QueueName name
        cdef int status = Status.OK
        self.files.last_errno = 0
        if job.queue != NULL:
            name = name_of(job.queue)
        if job.kind == JOB_WRITE:
            status = self.files.write_units(&name, job.chunk, job.offset, job.count)
        elif job.kind == JOB_CHECKPOINT:
            if self.checkpoint_fd >= 0:
                status = checkpoint_write(self.checkpoint_fd, &job.fields)
                self.files.last_errno = errno if status != Status.OK else 0
        elif job.kind == JOB_TRIM:
            status = trim_files(self.files, &name, job.log_offset, job.count, &job.offset)
        elif job.kind == JOB_DROP:
            status = self.files.remove_queue(&name)
        job.status = status
        job.error_number = self.files.last_errno
