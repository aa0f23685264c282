"""The store of all consume queues. See queue_store.pxd for the promises, queue_writer.pxd for the
thread behind it, consume_queue.pxd for what one queue looks like.

Every job that was pushed comes back through _complete; until start() has been called there is no
writer thread and a job is done on the spot (recovery, tools and single-threaded tests).

A failed write leaves the entries in memory: the queue waits until no job of it is under way, then
all its entries from persisted_offset on are handed over again by the next run. A barrier counts
only when nothing failed before it and nothing waited, so persisted_log_offset never passes an entry
that is not in a file.
"""
import os

cimport cython
from libc.errno cimport errno
from libc.stdint cimport INT64_MAX
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset
from posix.fcntl cimport O_CLOEXEC, O_CREAT, O_RDWR, open
from posix.unistd cimport close

from cext.base.atomics cimport load_acquire_i64
from cext.base.check cimport check
from cext.base.clock cimport monotonic_us
from cext.base.status cimport raise_status
from cext.base.watermark cimport watermark_move
from cext.store.log.checkpoint cimport checkpoint_read
from cext.store.log.commit_log cimport CommitLog
from cext.store.queues.consume_queue cimport (
    QUEUE_ENTRY_BYTES, Chunk, QueueEnds, QueueEntry, chunk_take, queue_add_chunk, queue_chunk_at,
    queue_destroy, queue_entry_load, queue_entry_store, queue_is_of, queue_memory_offset,
    queue_release)
from cext.store.queues.queue_files cimport QueueName, name_of
from cext.store.queues.queue_repair cimport (
    REPAIR_FREE, REPAIR_OVER, REPAIR_TOPIC_BYTES, REPAIR_WRITING, REPAIRS_MAX, repair_move)
from cext.store.queues.queue_table cimport QueueTable, queue_array_grow
from cext.store.queues.queue_writer cimport (
    JOB_BARRIER, JOB_CHECKPOINT, JOB_DROP, JOB_ENDS, JOB_KEEP_ENDS, JOB_NOTE, JOB_PATCH,
    JOB_PIN_ENDS, JOB_TRIM, JOB_WRITE, ends_of_chunks)

cdef enum:
    JOBS = 4096                     # ring capacity and number of job structs
    HAND_ENTRIES = 800              # entries of one queue handed over without waiting for a run
    HAND_PER_TURN = 256             # queues of a run handed over in one turn
    TRIM_PER_TURN = 64
    KEEP_CHUNKS = 32                # persisted chunks a busy queue keeps for readers: 1,600 entries
    RECLAIM_GOAL = 64               # chunks a search for persisted ones tries to find
    WRITER_FILES = 1024             # descriptors of the writer
    SYNC_FILES = 64                 # descriptors for writes of last resort
    LAST_RESORT_WAIT_MS = 2000      # longest the reactor waits for the writer when all else failed

cdef const char* PERSISTED_BACK = b"a queue: what is in its files stays there"


cdef bytes ends_path(bytes checkpoint_path):
    return os.path.join(os.path.dirname(checkpoint_path), b"queueEnds")


@cython.no_gc_clear                  # __dealloc__ needs all that it has
cdef class QueueStore(QueueTable):
    """Reactor thread; start, stop and the test entry points before or after it runs.

    pool_chunks: of entries in memory; a shard gives QUEUE_CHUNKS of rmq/broker/core_options.py."""

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
        if self.job_memory != NULL and self.checkpoint_fd >= 0:    # NULL: __cinit__ never ran
            close(self.checkpoint_fd)
        free(self.job_memory)

    def _open_checkpoint(self, bytes path):
        self.checkpoint_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o644)
        if self.checkpoint_fd < 0:
            raise OSError(errno, os.strerror(errno), path)
        if checkpoint_read(self.checkpoint_fd, &self.checkpoint) == Status.IO_ERROR:
            raise OSError(errno, os.strerror(errno), path)

    def use_checkpoint(self, path) -> None:
        """The checkpoint file to keep, made when missing; before start()."""
        self._open_checkpoint(os.fsencode(path))
        self.writer.checkpoint_fd = self.checkpoint_fd
        self.writer.keep_ends(ends_path(os.fsencode(path)))

    def mend_from(self, CommitLog log, delay_levels_ms) -> None:
        """Damage met while serving is mended from this log; before start(), the log being open."""
        self.repair = QueueRepair(log, self.directory, self.entries_per_file, delay_levels_ms)

    def start(self):
        """Starts the writer, sync and repair threads."""
        self.writer.start()
        if self.repair is not None:
            self.repair.start()

    def stop(self):
        """Ends the threads; what was not flushed stays to be rebuilt from the log."""
        if self.repair is not None:
            self.repair.stop()
        self.writer.stop()
        with nogil:
            self._collect(self.log_end)

    # ---- the lists

    cdef int grow(self, int64_t slots) noexcept nogil:
        if (queue_array_grow(&self.dirty, slots) != Status.OK
                or queue_array_grow(&self.run, slots) != Status.OK):
            return Status.POOL_EMPTY
        return QueueTable.grow(self, slots)

    cdef void _free_queue(self, Queue* queue) noexcept nogil:
        self.reader_files.forget(queue.serial)
        self.sync_files.forget(queue.serial)
        queue_destroy(queue, &self.pool)

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
        # Checkpoint and queueEnds must soon know of one queue less.
        self.want_run = self.want_ends = True
        job = self._wait_for_job(JOB_DROP, queue)
        self.drops += 1
        self._push(job)
        self.writer.wake()

    cdef int delete_topic(self, const char* topic, int32_t topic_length, int64_t kept_from,
                          bint* used) noexcept nogil:
        cdef int64_t i
        cdef Queue* queue
        cdef int deleted = 0
        used[0] = False
        for i in range(self.queue_top):
            queue = self.queues[i]
            if (queue != NULL and queue.begun_at < kept_from
                    and queue_is_of(queue, topic, topic_length)):
                used[0] = used[0] or queue.next_offset > 0 or queue.max_offset > 0
                self.delete_queue(queue)
                deleted += 1
        return deleted

    # ---- appending

    cdef int append(self, Queue* queue, int64_t physical_offset, int32_t size,
                    int64_t tags_code) noexcept nogil:
        cdef int status
        if queue.write_at == queue.write_end:
            status = self.make_room(queue)
            if status != Status.OK:
                return status
        queue_entry_store(queue.write_at, physical_offset, size, tags_code)
        queue.write_at += QUEUE_ENTRY_BYTES
        queue.max_offset += 1
        self.log_end = physical_offset + size
        self.last_physical = physical_offset
        if not queue.dirty:
            self.mark_dirty(queue)
        return Status.OK

    cdef void mark_dirty(self, Queue* queue) noexcept nogil:
        queue.dirty = 1
        self.dirty[self.dirty_count] = queue
        self.dirty_count += 1

    cdef int make_room(self, Queue* queue) noexcept nogil:
        cdef Chunk* chunk
        cdef int status
        if queue.write_at != queue.write_end:
            return Status.OK
        if queue.max_offset - queue.handed_offset >= HAND_ENTRIES:
            self._hand_over(queue)
        if queue.chunk_count > KEEP_CHUNKS:
            queue_release(queue, &self.pool, KEEP_CHUNKS)
        chunk = chunk_take(&self.pool)
        if chunk == NULL:
            if self._reclaim(RECLAIM_GOAL) == 0:
                status = self._write_here()
                if status != Status.OK:
                    return status
            chunk = chunk_take(&self.pool)
            if chunk == NULL:
                return Status.POOL_EMPTY
        queue_add_chunk(queue, chunk)
        return Status.OK

    cdef int _reclaim(self, int64_t wanted) noexcept nogil:
        """Takes back persisted chunks of any queue, starting where the last search ended."""
        cdef int64_t _seen
        cdef Queue* queue
        cdef int found = 0
        for _seen in range(self.queue_top):
            if self.clock_hand >= self.queue_top:
                self.clock_hand = 0
            queue = self.queues[self.clock_hand]
            self.clock_hand += 1
            if queue != NULL and queue.head != NULL:
                found += queue_release(queue, &self.pool, 0)
                if found >= wanted:
                    break
        self.counts.chunks_reclaimed += found
        return found

    cdef int _write_here(self) noexcept nogil:
        """Last resort: the reactor waits for the writer, or writes a queue itself."""
        cdef int64_t deadline = monotonic_us() + LAST_RESORT_WAIT_MS * 1000
        cdef int64_t _seen
        cdef Queue* queue
        cdef int status = Status.POOL_EMPTY
        while True:
            self._collect(0)
            if self._reclaim(RECLAIM_GOAL) > 0:
                return Status.OK
            for _seen in range(self.queue_top):
                if self.clock_hand >= self.queue_top:
                    self.clock_hand = 0
                queue = self.queues[self.clock_hand]
                self.clock_hand += 1
                # Chunks a job refers to must stay as they are, so such queues are left alone; and
                # files of a deleted topic must be gone before its successor writes there.
                if queue == NULL or queue.in_flight > 0 or queue.head == NULL or self.drops > 0:
                    continue
                status = self._persist_here(queue)
                if status != Status.OK:
                    return status
                if queue_release(queue, &self.pool, 0) > 0:
                    return Status.OK
            if monotonic_us() > deadline:
                return status
            self.writer.wait_done(50)

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

    cdef void _sync_done(self, int64_t log_durable) noexcept nogil:
        cdef QueueJob* job
        if self.writer.sync_errno != 0:
            self.counts.last_errno = self.writer.sync_errno
            self.sync_open = False
        # What is pinned may know of records above the mark: it must not outlive them.
        elif log_durable >= self.sync_log_end:
            if self.ends_pinned:
                job = self._take_job(JOB_KEEP_ENDS, NULL)
                if job == NULL:
                    return                  # the next turn has one
                self._push(job)
            self.sync_open = False
            self.synced_mark = self.sync_mark
            self.synced_log_offset = self.sync_mark.log_offset
            self._send_checkpoint()

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
        """No job of the queue is under way any more, and a write of it failed."""
        queue.waits_for_retry = 0
        self.failed_in_run = True               # also when it failed before the run began
        queue.handed_offset = queue.persisted_offset
        if not queue.dirty:
            self.mark_dirty(queue)

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

    # ---- runs, trims and the checkpoint

    cdef void turn(self, int64_t now_ms, int64_t log_durable) noexcept nogil:
        self.now_ms = now_ms
        self._collect(log_durable)
        if self.repair is not None and self.repair.busy > 0:
            self._collect_repairs()
        if not self.run_open:
            if self.want_run or run_is_due(self, now_ms):
                self._begin_run(now_ms)
        if self.run_open and self.run_at <= self.run_count:
            self._continue_run()
        if self.trim_at >= 0:
            self._continue_trim()
        if (not self.sync_open and now_ms - self.last_sync_ms >= self.sync_interval_ms
                and self.persisted_mark.log_offset > self.synced_mark.log_offset):
            self._begin_sync(now_ms)
        if self.pushed:
            self.pushed = False
            self.writer.wake()

    cdef void _begin_run(self, int64_t now_ms) noexcept nogil:
        cdef Queue** swap = self.run
        self.last_run_ms = now_ms
        self.last_run_log_end = self.log_end
        if (self.dirty_count == 0 and not self.want_run
                and self.persisted_mark.log_offset == self.log_end):
            return
        self.want_run = False
        self.failed_in_run = False          # what waits for its retry says so before the barrier
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
                    return                  # no job left: next turn
                queue.dirty = 0
            self.run_at += 1
        if self.run_at == self.run_count:
            job = self._take_job(JOB_BARRIER, NULL)
            if job != NULL:
                self.run_at += 1            # the barrier is out; _barrier_done closes the run
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
        self.sync_started = False           # first that file: the sync must find all of it
        self._push(job)

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
        """Has queueEnds written, which holds for the newest barrier. False: no job is left."""
        cdef QueueJob* job = self._ends_job(JOB_ENDS)
        self.want_ends = job == NULL
        if job == NULL:
            return False
        self.ends_log_offset = self.persisted_mark.log_offset
        self.ends_ms = self.persisted_mark.stamp_ms
        self._push(job)
        return True

    # ---- repairs

    cdef int mend(self, Queue* queue, int64_t offset) noexcept nogil:
        cdef Repair* r
        cdef Chunk* head = queue.head
        cdef QueueEntry entry
        cdef int known
        if (self.repair is None or offset < queue.min_offset
                or offset >= queue_memory_offset(queue)
                or queue.topic_length >= REPAIR_TOPIC_BYTES):
            return Status.CORRUPT
        known = self.repair.vain_status(queue.serial, offset, self.now_ms)
        if known != Status.ABSENT:
            return known
        r = self.repair.slot_for(queue.serial)
        if r == NULL or r.state != REPAIR_FREE:
            return Status.ABSENT                # this one, or another, comes first
        memset(r, 0, sizeof(Repair))
        r.serial = queue.serial
        memcpy(r.topic, queue.topic, <size_t> queue.topic_length)
        r.topic_length = queue.topic_length
        r.queue_id = queue.queue_id
        r.offset = offset
        r.low = queue.min_offset
        r.high = queue_memory_offset(queue)
        r.high_physical = self.log_end
        if head != NULL and head.first_offset < queue.max_offset:
            queue_entry_load(head.entries, &entry)
            if entry.physical_offset > 0:
                r.high_physical = entry.physical_offset
        return Status.ABSENT if self.repair.ask(r) else <int> Status.NOT_READY

    cdef Queue* _queue_of(self, const Repair* r) noexcept nogil:
        cdef Queue* queue = self.find_queue(r.topic, r.topic_length, r.queue_id)
        return queue if queue != NULL and queue.serial == r.serial else NULL

    cdef void _collect_repairs(self) noexcept nogil:
        cdef Repair* r = self.repair.answer()
        cdef Queue* queue
        cdef QueueJob* job
        while r != NULL:
            queue = self._queue_of(r)
            job = NULL
            if queue != NULL and r.mended > 0:
                job = self._wait_for_job(JOB_PATCH, queue)
                job.repair = r
                repair_move(r, REPAIR_WRITING)
                self._push(job)
            else:
                self.reader_files.forget(r.serial)      # as below: the file on the disk is sound
                repair_move(r, REPAIR_OVER)
            r = self.repair.answer()

    cdef void _patched(self, QueueJob* job) noexcept nogil:
        # Descriptors may be of a file that was taken away.
        self.reader_files.forget(job.repair.serial)
        self.sync_files.forget(job.repair.serial)
        repair_move(job.repair, REPAIR_OVER)
        if job.status != Status.OK:
            job.repair.status = job.status

    cdef Repair* repair_over(self, Queue** queue) noexcept nogil:
        cdef int i
        if self.repair is None or self.repair.busy == 0:
            return NULL
        for i in range(REPAIRS_MAX):
            if self.repair.slots[i].state == REPAIR_OVER:
                queue[0] = self._queue_of(&self.repair.slots[i])
                return &self.repair.slots[i]
        return NULL

    cdef void repair_logged(self, Repair* r) noexcept nogil:
        # Also when nothing was wrong: it would be found right again and again.
        if r.status != Status.OK or r.mended == 0:
            self.repair.note_vain(r, self.now_ms)
        self.repair.free_slot(r)

    cdef void drop_below(self, int64_t log_min) noexcept nogil:
        self.trim_log_min = log_min
        self.trim_at = 0

    cdef void _continue_trim(self) noexcept nogil:
        cdef int64_t limit = min(self.queue_top, self.trim_at + TRIM_PER_TURN)
        cdef Queue* queue
        cdef QueueJob* job
        while self.trim_at < limit:
            queue = self.queues[self.trim_at]
            # A job of it behind the next barrier would let that count without the repeated write.
            if queue != NULL and queue.waits_for_retry:
                return
            # min == max: its files were trimmed when it became so.
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
            return                          # an entry in the files is still alive
        while queue.min_offset < queue.max_offset:
            chunk = queue_chunk_at(queue, queue.min_offset)
            if chunk == NULL:
                return
            queue_entry_load(
                chunk.entries + (queue.min_offset - chunk.first_offset) * QUEUE_ENTRY_BYTES, &entry)
            if entry.physical_offset >= job.log_offset:
                return
            queue.min_offset += 1

    cdef int flush_all(self, int64_t now_ms, int64_t log_durable, int timeout_ms) noexcept nogil:
        cdef int64_t deadline = monotonic_us() + <int64_t> timeout_ms * 1000
        cdef int64_t sync_deadline
        self._collect(log_durable)
        while (self.persisted_mark.log_offset < self.log_end or self.dirty_count > 0
               or self.run_open):
            if monotonic_us() > deadline:
                return Status.NO_SPACE if self.counts.last_errno == 28 else Status.IO_ERROR
            # Only when none is open: a wish left over would begin another run for ever.
            self.want_run = self.want_run or not self.run_open
            self.turn(now_ms, log_durable)
            if self.writer.writer_runs and self.run_open:
                self.writer.wait_done(20)
                self._collect(log_durable)
        sync_deadline = min(deadline, monotonic_us() + 1_000_000)
        if self.synced_mark.log_offset < self.persisted_mark.log_offset and not self.sync_open:
            self._begin_sync(now_ms)
        while self.sync_open and log_durable >= self.sync_log_end:
            if monotonic_us() > sync_deadline:
                break
            self.writer.wait_done(20)
            self._collect(log_durable)
        self._send_checkpoint()
        self._send_ends()
        self.writer.wake()
        return Status.OK

    # ---- recovery

    cdef void set_range(self, Queue* queue, int64_t min_offset, int64_t end_offset,
                        bint has_file) noexcept nogil:
        cdef QueueEnds ends
        queue.min_offset = min_offset
        queue.max_offset = queue.next_offset = end_offset
        queue.handed_offset = queue.persisted_offset = end_offset
        if has_file and not queue.has_file:
            self.file_count += 1
        if queue.has_file and not has_file:
            self.file_count -= 1
        queue.has_file = has_file
        if end_offset == 0:
            self.writer.forget_filed(queue)
            return
        ends.min_offset = min_offset
        ends.end_offset = end_offset
        ends.first_physical = ends.last_physical = -1
        ends.last_size = 0
        self.writer.set_filed(queue, &ends)

    # ---- Python's view: tests, tools, recovery

    def counters(self) -> dict:
        """All counters, the pool's filling and the marks."""
        return {
            "jobs_written": self.counts.jobs_written,
            "entries_persisted": self.counts.entries_persisted,
            "write_failures": self.counts.write_failures, "last_errno": self.counts.last_errno,
            "sync_writes": self.counts.sync_writes,
            "chunks_reclaimed": self.counts.chunks_reclaimed,
            "memory_reads": self.counts.memory_reads, "file_reads": self.counts.file_reads,
            "absent_reads": self.counts.absent_reads, "corrupt_reads": self.counts.corrupt_reads,
            "queues": self.queue_count, "queues_with_files": self.file_count,
            "chunks_free": self.pool.capacity - self.pool.touched + self.pool.free_count,
            "chunks": self.pool.capacity, "file_opens": self.writer.files.opens,
            "file_writes": self.writer.files.writes, "log_end": self.log_end,
            "persisted_log_offset": self.persisted_log_offset,
            "synced_log_offset": self.synced_log_offset,
        }

    def failure(self) -> str:
        """What the newest failure of a queue file was; empty when all is well."""
        if self.counts.last_errno == 0:
            return ""
        return (f"queue files under {os.fsdecode(self.directory)}: "
                f"{os.strerror(self.counts.last_errno)} "
                f"({self.counts.write_failures} failed writes; entries stay in memory, "
                f"the commit log is complete)")

    def add(self, bytes topic, int queue_id, list entries) -> int:
        """Appends (physical offset, size, tags code) tuples; returns the queue's max offset."""
        cdef Queue* queue = self.open_queue(topic, <int32_t> len(topic), queue_id)
        cdef int status
        if queue == NULL:
            raise ValueError(f"no queue can be called {topic!r}/{queue_id}")
        for physical, size, tags in entries:
            status = self.append(queue, physical, size, tags)
            raise_status(status, f"append to {topic!r}/{queue_id}")
        queue.next_offset = queue.max_offset
        return queue.max_offset

    def flush(self, int64_t now_ms, int64_t log_durable, int timeout_ms=60_000) -> None:
        """Everything into files, then the checkpoint; raises StoreError with the cause."""
        cdef int status
        with nogil:
            status = self.flush_all(now_ms, log_durable, timeout_ms)
        raise_status(status, self.failure() or f"queues are not in files after {timeout_ms} ms")

    def drop(self, int64_t log_min) -> None:
        """The log now starts at log_min."""
        self.drop_below(log_min)

    def remove_topic(self, bytes topic) -> int:
        """Deletes all queues of a topic; how many there were."""
        cdef bint _used = False
        return self.delete_topic(topic, <int32_t> len(topic), INT64_MAX, &_used)
