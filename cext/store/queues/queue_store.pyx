"""The store of all consume queues. See queue_store.pxd for its promises, queue_persistence.pxd for
how entries get into files, and consume_queue.pxd for one queue."""
import os

cimport cython
from libc.string cimport memcpy, memset

from cext.base.clock cimport monotonic_us
from cext.store.log.commit_log cimport CommitLog
from cext.store.queues.consume_queue cimport (
    QUEUE_ENTRY_BYTES, Chunk, QueueEnds, QueueEntry, chunk_take, queue_add_chunk, queue_entry_load,
    queue_entry_store, queue_is_of, queue_memory_offset, queue_release)
from cext.store.queues.queue_persistence cimport run_is_due
from cext.store.queues.queue_repair cimport (
    REPAIR_FREE, REPAIR_OVER, REPAIR_TOPIC_BYTES, REPAIR_WRITING, REPAIRS_MAX, repair_move)
from cext.store.queues.queue_writer cimport JOB_PATCH

cdef enum:
    HAND_ENTRIES = 800              # entries of one queue handed over without waiting for a run
    KEEP_CHUNKS = 32                # persisted chunks that a queue keeps for readers: 1,600 entries
    RECLAIM_GOAL = 64               # chunks a search for persisted ones tries to find
    LAST_RESORT_WAIT_MS = 2000      # the reactor's longest wait for the writer when all else failed


@cython.no_gc_clear                  # __dealloc__ needs the object's fields
cdef class QueueStore(QueuePersistence):
    """For the reactor thread; start and stop before or after it runs.

    pool_chunks: chunks for entries in memory; a shard has QUEUE_CHUNKS of
    rmq/broker/core_options.py."""

    def repair_from(self, CommitLog log, delay_levels_ms) -> None:
        """Makes damage that is met while serving be mended from this log. Call it before start(),
        with the log open."""
        self.repair = QueueRepair(log, self.directory, self.entries_per_file, delay_levels_ms)

    def start(self):
        """Starts the writer, sync and repair threads."""
        self.writer.start()
        if self.repair is not None:
            self.repair.start()

    def stop(self):
        """Ends the threads; entries that were not flushed will be rebuilt from the log."""
        if self.repair is not None:
            self.repair.stop()
        self.writer.stop()
        with nogil:
            self._collect(self.log_end)

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
        """The last resort: the reactor waits for the writer, or writes a queue itself."""
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
                # Chunks that a job refers to must not change, so their queues are left alone. And
                # files of a deleted topic must be gone before a new topic of its name writes there.
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

    # ---- turns, the end, topics

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

    cdef int flush_all(self, int64_t now_ms, int64_t log_durable, int timeout_ms) noexcept nogil:
        cdef int64_t deadline = monotonic_us() + <int64_t> timeout_ms * 1000
        cdef int64_t sync_deadline
        self._collect(log_durable)
        while (self.persisted_mark.log_offset < self.log_end or self.dirty_count > 0
               or self.run_open):
            if monotonic_us() > deadline:
                return Status.NO_SPACE if self.counts.last_errno == 28 else Status.IO_ERROR
            # Only when no run is open: else each run would leave a wish for another one.
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

    # ---- repairs

    cdef int request_repair(self, Queue* queue, int64_t offset) noexcept nogil:
        cdef Repair* r
        cdef Chunk* head = queue.head
        cdef QueueEntry entry
        cdef int known
        if (self.repair is None or offset < queue.min_offset
                or offset >= queue_memory_offset(queue)
                or queue.topic_length >= REPAIR_TOPIC_BYTES):
            return Status.CORRUPT
        known = self.repair.recent_status(queue.serial, offset, self.now_ms)
        if known != Status.ABSENT:
            return known
        r = self.repair.slot_for(queue.serial)
        if r == NULL or r.state != REPAIR_FREE:
            return Status.ABSENT                # it is under way, or all slots are busy
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
            if queue != NULL and r.repaired > 0:
                job = self._wait_for_job(JOB_PATCH, queue)
                job.repair = r
                repair_move(r, REPAIR_WRITING)
                self._push(job)
            else:
                self.reader_files.forget(r.serial)      # as in _patched; the file itself is sound
                repair_move(r, REPAIR_OVER)
            r = self.repair.answer()

    cdef void _patched(self, QueueJob* job) noexcept nogil:
        # Open descriptors may belong to a file that was removed.
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
        # Also when nothing was wrong: otherwise the same place would be checked again and again.
        if r.status != Status.OK or r.repaired == 0:
            self.repair.note_recent(r, self.now_ms)
        self.repair.free_slot(r)

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
            self.writer.forget_file_ends(queue)
            return
        ends.min_offset = min_offset
        ends.end_offset = end_offset
        ends.first_physical = ends.last_physical = -1
        ends.last_size = 0
        self.writer.set_file_ends(queue, &ends)

    def failure(self) -> str:
        """The newest failure of a queue file, as a text; empty when all is well."""
        if self.counts.last_errno == 0:
            return ""
        return (f"queue files under {os.fsdecode(self.directory)}: "
                f"{os.strerror(self.counts.last_errno)} "
                f"({self.counts.write_failures} failed writes; entries stay in memory, "
                f"the commit log is complete)")
