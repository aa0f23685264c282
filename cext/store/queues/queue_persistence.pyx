"""Brings the entries of all queues into files. See queue_persistence.pxd; the thread that writes is
the queue writer (queue_writer.pxd).

Every job that was pushed comes back through _complete. While the writer's thread does not run, a
job is done on the spot (recovery, tools and single-threaded tests).

After a failed write the entries stay in memory: the queue waits until none of its jobs is under
way, and then the next run hands all entries from persisted_offset on over again. A barrier counts
only when no write before it has failed and no queue waits for a retry, so persisted_log_offset
never passes an entry that is not in a file.
"""
import os

cimport cython
from libc.errno cimport errno
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset
from posix.fcntl cimport O_CLOEXEC, O_CREAT, O_RDWR, open
from posix.unistd cimport close

from cext.base.atomics cimport load_acquire_i64
from cext.base.check cimport check
from cext.base.status cimport Status
from cext.base.watermark cimport watermark_move
from cext.store.log.checkpoint cimport checkpoint_read
from cext.store.queues.consume_queue cimport (
    QUEUE_ENTRY_BYTES, Chunk, QueueEntry, queue_chunk_at, queue_destroy, queue_entry_load)
from cext.store.queues.queue_files cimport QueueName, name_of
from cext.store.queues.queue_table cimport queue_array_grow
from cext.store.queues.queue_writer cimport (
    JOB_BARRIER, JOB_CHECKPOINT, JOB_DROP, JOB_ENDS, JOB_KEEP_ENDS, JOB_NOTE, JOB_PATCH,
    JOB_PIN_ENDS, JOB_TRIM, JOB_WRITE, ends_of_chunks)

cdef enum:
    JOBS = 4096                     # ring capacity and number of job structs
    HAND_PER_TURN = 256             # queues of a run handed over in one turn
    TRIM_PER_TURN = 64
    WRITER_FILES = 1024             # descriptors of the writer
    SYNC_FILES = 64                 # descriptors for writes of last resort

cdef const char* PERSISTED_BACK = b"a queue: what is in its files stays there"


cdef bytes ends_path(bytes checkpoint_path):
    return os.path.join(os.path.dirname(checkpoint_path), b"queueEnds")


@cython.no_gc_clear                  # __dealloc__ needs the object's fields
cdef class QueuePersistence(QueueTable):
    def __cinit__(self, directory, int64_t entries_per_file=300_000, int64_t pool_chunks=65_536,
                  checkpoint_path=None, memory=None):
        self.checkpoint_fd = -1
        self.job_memory = <QueueJob*> calloc(JOBS, sizeof(QueueJob))
        if self.job_memory == NULL:
            raise MemoryError("no memory for queue jobs")
        self.trim_at = -1
        self.last_physical = -1
        self.persisted_mark.anchor = self.synced_mark.anchor = -1
        self.run_interval_ms = 3_000
        self.run_log_bytes = 256 << 20
        self.sync_interval_ms = 60_000
        if (queue_array_grow(&self.dirty, self.queue_slots) != Status.OK
                or queue_array_grow(&self.run, self.queue_slots) != Status.OK):
            raise MemoryError("no memory for the lists of queues")
        if checkpoint_path is not None:
            self._open_checkpoint(os.fsencode(checkpoint_path))
        self.sync_files = QueueFiles(self.directory, entries_per_file, SYNC_FILES, True)
        self.writer = QueueWriter(
            QueueFiles(self.directory, entries_per_file, WRITER_FILES, True), JOBS,
            self.checkpoint_fd)
        if checkpoint_path is not None:
            self.writer.keep_ends(ends_path(os.fsencode(checkpoint_path)))
        cdef int64_t i
        for i in range(JOBS):
            self.job_memory[i].next_free = self.free_jobs
            self.free_jobs = &self.job_memory[i]

    def __dealloc__(self):
        free(self.dirty)
        free(self.run)
        if self.job_memory != NULL and self.checkpoint_fd >= 0:    # NULL: __cinit__ did not run
            close(self.checkpoint_fd)
        free(self.job_memory)

    def _open_checkpoint(self, bytes path):
        self.checkpoint_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o644)
        if self.checkpoint_fd < 0:
            raise OSError(errno, os.strerror(errno), path)
        if checkpoint_read(self.checkpoint_fd, &self.checkpoint) == Status.IO_ERROR:
            raise OSError(errno, os.strerror(errno), path)

    def use_checkpoint(self, path) -> None:
        """Sets the checkpoint file, which is made when missing. Call it before start()."""
        self._open_checkpoint(os.fsencode(path))
        self.writer.checkpoint_fd = self.checkpoint_fd
        self.writer.keep_ends(ends_path(os.fsencode(path)))

    # ---- the lists

    cdef int grow(self, int64_t slots) noexcept nogil:
        if (queue_array_grow(&self.dirty, slots) != Status.OK
                or queue_array_grow(&self.run, slots) != Status.OK):
            return Status.POOL_EMPTY
        return QueueTable.grow(self, slots)

    cdef void mark_dirty(self, Queue* queue) noexcept nogil:
        queue.dirty = 1
        self.dirty[self.dirty_count] = queue
        self.dirty_count += 1

    cdef void delete_queue(self, Queue* queue) noexcept nogil:
        cdef int64_t i
        cdef QueueJob* job
        self.take_out(queue)
        if queue.dirty:
            for i in range(self.dirty_count):
                if self.dirty[i] == queue:
                    self.dirty_count -= 1
                    self.dirty[i] = self.dirty[self.dirty_count]
                    break
            for i in range(self.run_at, self.run_count):
                if self.run[i] == queue:
                    self.run[i] = NULL
        if queue.has_file:
            self.file_count -= 1
        queue.deleted = 1
        # Checkpoint and queueEnds must soon be written without this queue.
        self.want_run = self.want_ends = True
        job = self._wait_for_job(JOB_DROP, queue)
        self.drops += 1
        self._push(job)
        self.writer.wake()

    cdef void _free_queue(self, Queue* queue) noexcept nogil:
        self.reader_files.forget(queue.serial)
        self.sync_files.forget(queue.serial)
        queue_destroy(queue, &self.pool)

    # ---- jobs

    cdef QueueJob* _take_job(self, int32_t kind, Queue* queue) noexcept nogil:
        cdef QueueJob* job = self.free_jobs
        if job == NULL:
            return NULL
        self.free_jobs = job.next_free
        memset(job, 0, sizeof(QueueJob))
        job.kind = kind
        job.queue = queue
        if queue != NULL:
            queue.in_flight += 1
        return job

    cdef QueueJob* _wait_for_job(self, int32_t kind, Queue* queue) noexcept nogil:
        cdef QueueJob* job = self._take_job(kind, queue)
        while job == NULL:
            self.writer.wait_done(10)
            self._collect(0)
            job = self._take_job(kind, queue)
        return job

    cdef void _push(self, QueueJob* job) noexcept nogil:
        if self.writer.writer_runs:
            check(self.writer.push(job), b"the queue writer: as many jobs as slots of its ring",
                  job.kind, 0)
            self.pushed = True
        else:
            self.writer.do_job(job)
            self._complete(job)

    cdef void _collect(self, int64_t log_durable) noexcept nogil:
        cdef QueueJob* job = self.writer.pop_done()
        while job != NULL:
            self._complete(job)
            job = self.writer.pop_done()
        if (self.sync_open and self.sync_started
                and load_acquire_i64(&self.writer.sync_done) == self.writer.sync_wanted):
            self._sync_done(log_durable)

    cdef void _complete(self, QueueJob* job) noexcept nogil:
        cdef Queue* queue = job.queue
        if queue != NULL:
            check(queue.in_flight > 0, b"a queue: no more jobs end than were begun",
                  queue.in_flight, job.kind)
            queue.in_flight -= 1
        if job.kind == JOB_WRITE:
            self._written(job)
        elif job.kind == JOB_BARRIER:
            self._barrier_done()
        elif job.kind == JOB_PIN_ENDS:
            self.ends_pinned = job.status == Status.OK
            self.sync_started = True
            self.writer.ask_sync()
        elif job.kind == JOB_ENDS:
            self.want_ends = self.want_ends or job.status != Status.OK
        elif job.kind == JOB_TRIM:
            self._trimmed(job)
        elif job.kind == JOB_PATCH:
            self._patched(job)
        elif job.kind == JOB_DROP:
            check(self.drops > 0, b"queues: no more removals end than were begun", self.drops, 0)
            self.drops -= 1
            self._free_queue(queue)
            queue = NULL
        if queue != NULL and queue.waits_for_retry and queue.in_flight == 0 and not queue.deleted:
            self._retry(queue)
        if job.status != Status.OK:
            self.counts.last_errno = job.error_number
        job.next_free = self.free_jobs
        self.free_jobs = job

    cdef bint _hand_over(self, Queue* queue) noexcept nogil:
        cdef QueueJob* job
        if queue.waits_for_retry or queue.handed_offset == queue.max_offset:
            return True
        job = self._take_job(JOB_WRITE, queue)
        if job == NULL:
            return False
        job.chunk = queue_chunk_at(queue, queue.handed_offset)
        job.offset = queue.handed_offset
        job.count = queue.max_offset - queue.handed_offset
        check(job.chunk != NULL and job.count > 0,
              b"a queue: what is handed to the writer is in memory", queue.handed_offset,
              queue.max_offset)
        queue.handed_offset = queue.max_offset
        self._push(job)
        return True

    cdef void _written(self, QueueJob* job) noexcept nogil:
        cdef Queue* queue = job.queue
        if queue.deleted:
            return
        if job.status != Status.OK:
            self.counts.write_failures += 1
            self.failed_in_run = True
            queue.waits_for_retry = 1
        elif job.offset <= queue.persisted_offset < job.offset + job.count:
            self.counts.jobs_written += 1
            self.counts.entries_persisted += job.offset + job.count - queue.persisted_offset
            watermark_move(&queue.persisted_offset, job.offset + job.count, PERSISTED_BACK)
            check(queue.persisted_offset <= queue.handed_offset,
                  b"a queue: what is in its files was handed to the writer",
                  queue.persisted_offset, queue.handed_offset)
            if not queue.has_file:
                queue.has_file = 1
                self.file_count += 1

    cdef void _retry(self, Queue* queue) noexcept nogil:
        """Puts a queue back among the dirty ones, after a write of it failed and when none of its
        jobs is under way any more."""
        queue.waits_for_retry = 0
        self.failed_in_run = True               # also when it failed before the run began
        queue.handed_offset = queue.persisted_offset
        if not queue.dirty:
            self.mark_dirty(queue)

    cdef int _persist_here(self, Queue* queue) noexcept nogil:
        cdef int64_t count = queue.max_offset - queue.persisted_offset
        cdef Chunk* chunk = queue_chunk_at(queue, queue.persisted_offset)
        cdef QueueName name = name_of(queue)
        cdef QueueJob* job
        cdef int status
        if count == 0:
            return Status.OK
        status = self.sync_files.write_entries(&name, chunk, queue.persisted_offset, count,
                                               queue.min_offset)
        if status != Status.OK:
            self.counts.write_failures += 1
            self.counts.last_errno = self.sync_files.last_errno
            return status
        self.counts.sync_writes += 1
        self.counts.entries_persisted += count
        job = self._wait_for_job(JOB_NOTE, queue)
        ends_of_chunks(chunk, queue.persisted_offset, count, &job.ends)
        self._push(job)
        watermark_move(&queue.persisted_offset, queue.max_offset, PERSISTED_BACK)
        queue.handed_offset = queue.max_offset
        if not queue.has_file:
            queue.has_file = 1
            self.file_count += 1
        return Status.OK

    # ---- runs

    cdef void _begin_run(self, int64_t now_ms) noexcept nogil:
        cdef Queue** swap = self.run
        self.last_run_ms = now_ms
        self.last_run_log_end = self.log_end
        if (self.dirty_count == 0 and not self.want_run
                and self.persisted_mark.log_offset == self.log_end):
            return
        self.want_run = False
        self.failed_in_run = False          # queues that wait for a retry set it before the barrier
        self.run = self.dirty
        self.run_count = self.dirty_count
        self.run_at = 0
        self.dirty = swap
        self.dirty_count = 0
        self.run_mark.log_offset = self.log_end
        self.run_mark.stamp_ms = now_ms
        self.run_mark.anchor = self.last_physical
        self.run_open = True

    cdef void _continue_run(self) noexcept nogil:
        cdef int64_t limit = min(self.run_count, self.run_at + HAND_PER_TURN)
        cdef Queue* queue
        cdef QueueJob* job
        while self.run_at < limit:
            queue = self.run[self.run_at]
            if queue != NULL:
                if not self._hand_over(queue):
                    return                  # no free job: go on in the next turn
                queue.dirty = 0
            self.run_at += 1
        if self.run_at == self.run_count:
            job = self._take_job(JOB_BARRIER, NULL)
            if job != NULL:
                self.run_at += 1            # the barrier is pushed; _barrier_done ends the run
                self._push(job)

    cdef void _barrier_done(self) noexcept nogil:
        self.run_open = False
        if not self.failed_in_run:
            self.persisted_mark = self.run_mark
            self.persisted_log_offset = self.run_mark.log_offset
            self.counts.last_errno = 0
            self._send_checkpoint()
            if (self.want_ends or self.run_mark.stamp_ms - self.ends_ms >= self.sync_interval_ms
                    or self.run_mark.log_offset - self.ends_log_offset >= self.run_log_bytes):
                self._send_ends()

    # ---- syncs and the checkpoint

    cdef void _begin_sync(self, int64_t now_ms) noexcept nogil:
        self.last_sync_ms = now_ms
        if not self.writer.syncer_runs:
            return
        cdef QueueJob* job = self._ends_job(JOB_PIN_ENDS)
        if job == NULL:
            return
        self.sync_mark = self.persisted_mark
        self.sync_log_end = self.log_end
        self.sync_open = True
        self.sync_started = False           # the file comes first, so that the sync covers it
        self._push(job)

    cdef void _sync_done(self, int64_t log_durable) noexcept nogil:
        cdef QueueJob* job
        if self.writer.sync_errno != 0:
            self.counts.last_errno = self.writer.sync_errno
            self.sync_open = False
        # The pinned ends may know records above the mark, so these must be durable first.
        elif log_durable >= self.sync_log_end:
            if self.ends_pinned:
                job = self._take_job(JOB_KEEP_ENDS, NULL)
                if job == NULL:
                    return                  # the next turn will have a free job
                self._push(job)
            self.sync_open = False
            self.synced_mark = self.sync_mark
            self.synced_log_offset = self.sync_mark.log_offset
            self._send_checkpoint()

    cdef void _send_checkpoint(self) noexcept nogil:
        cdef QueueJob* job
        if self.checkpoint_fd < 0:
            return
        job = self._take_job(JOB_CHECKPOINT, NULL)
        if job == NULL:
            return                          # the next barrier sends one
        job.fields = self.checkpoint
        job.fields.physic_ms = job.fields.logics_ms = self.synced_mark.stamp_ms
        job.fields.persisted_offset = self.persisted_mark.log_offset
        job.fields.persisted_anchor = self.persisted_mark.anchor
        job.fields.synced_offset = self.synced_mark.log_offset
        job.fields.synced_anchor = self.synced_mark.anchor
        job.fields.queue_count = self.file_count
        if self.index_safe_ms != NULL:
            job.fields.index_ms = load_acquire_i64(self.index_safe_ms)
        self._push(job)

    cdef QueueJob* _ends_job(self, int32_t kind) noexcept nogil:
        cdef QueueJob* job = self._take_job(kind, NULL)
        if job != NULL:
            memcpy(job.fields.boot_id, self.checkpoint.boot_id, 16)
            job.fields.persisted_offset = self.persisted_mark.log_offset
            job.fields.persisted_anchor = self.persisted_mark.anchor
        return job

    cdef bint _send_ends(self) noexcept nogil:
        """Makes the writer write queueEnds as of the newest barrier. False: no job is free."""
        cdef QueueJob* job = self._ends_job(JOB_ENDS)
        self.want_ends = job == NULL
        if job == NULL:
            return False
        self.ends_log_offset = self.persisted_mark.log_offset
        self.ends_ms = self.persisted_mark.stamp_ms
        self._push(job)
        return True

    # ---- trims

    cdef void drop_below(self, int64_t log_min) noexcept nogil:
        self.trim_log_min = log_min
        self.trim_at = 0

    cdef void _continue_trim(self) noexcept nogil:
        cdef int64_t limit = min(self.queue_top, self.trim_at + TRIM_PER_TURN)
        cdef Queue* queue
        cdef QueueJob* job
        while self.trim_at < limit:
            queue = self.queues[self.trim_at]
            # A job of this queue would put the repeated write off to after the next barrier, which
            # would then count without it.
            if queue != NULL and queue.waits_for_retry:
                return
            # min == max: the queue's files were trimmed when it became empty.
            if queue != NULL and queue.min_offset < queue.max_offset:
                job = self._take_job(JOB_TRIM, queue)
                if job == NULL:
                    return
                job.offset = queue.min_offset
                job.count = queue.persisted_offset
                job.log_offset = self.trim_log_min
                self._push(job)
            self.trim_at += 1
        if self.trim_at >= self.queue_top:
            self.trim_at = -1

    cdef void _trimmed(self, QueueJob* job) noexcept nogil:
        cdef Queue* queue = job.queue
        cdef Chunk* chunk
        cdef QueueEntry entry
        if queue.deleted or job.status != Status.OK:
            return
        queue.min_offset = max(queue.min_offset, job.offset)
        if job.offset < job.count:
            return                          # some entry in the files is still needed
        while queue.min_offset < queue.max_offset:
            chunk = queue_chunk_at(queue, queue.min_offset)
            if chunk == NULL:
                return
            queue_entry_load(
                chunk.entries + (queue.min_offset - chunk.first_offset) * QUEUE_ENTRY_BYTES, &entry)
            if entry.physical_offset >= job.log_offset:
                return
            queue.min_offset += 1

    # ---- repairs, which the subclass does

    cdef void _patched(self, QueueJob* _job) noexcept nogil:
        pass
