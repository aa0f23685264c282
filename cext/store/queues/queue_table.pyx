"""Finds and reads the consume queues of a shard. See queue_table.pxd."""
import os
from pathlib import Path

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from cext.base.status cimport Status
from cext.memory.arena cimport SharedArena
from cext.memory.name_map cimport (
    name_map_close, name_map_find, name_map_open, name_map_put, name_map_remove)
from cext.store.queues.consume_queue cimport (
    QUEUE_ENTRY_BYTES, chunk_pool_open, chunk_pool_arena_bytes, queue_copy_entries, queue_create,
    queue_destroy, queue_entry_check, queue_entry_load, queue_memory_offset, topic_is_valid,
)
from cext.store.queues.queue_files cimport QueueName, name_of
from cext.wire.limits cimport TOPIC_BYTES_MAX
from rmq.base.durable_directory import make_directory

cdef enum:
    FIRST_SLOTS = 1024
    READ_ENTRIES = 256              # one read returns at most so many entries
    READER_FILES = 256              # descriptors of the reactor
    KEY_BYTES = TOPIC_BYTES_MAX + 5


cdef uint32_t make_key(const char* topic, int32_t length, int32_t queue_id,
                       uint8_t* key) noexcept nogil:
    memcpy(key, topic, <size_t> length)
    key[length] = 0
    memcpy(key + length + 1, &queue_id, 4)
    return <uint32_t> length + 5


cdef int queue_array_grow(Queue*** array, int64_t slots) noexcept nogil:
    cdef void* memory = realloc(array[0], <size_t> slots * sizeof(Queue*))
    if memory == NULL:
        return Status.POOL_EMPTY
    array[0] = <Queue**> memory
    return Status.OK


@cython.no_gc_clear                  # __dealloc__ needs the object's fields
cdef class QueueTable:
    """For the reactor thread."""

    def __cinit__(self, directory, int64_t entries_per_file=300_000, int64_t pool_chunks=65_536,
                  checkpoint_path=None, SharedArena memory=None):
        self.directory = os.fsencode(directory)
        self.entries_per_file = entries_per_file
        self.next_serial = 1
        self.memory = memory or SharedArena(chunk_pool_arena_bytes(pool_chunks))
        if pool_chunks < 2 or chunk_pool_open(&self.pool, &self.memory.arena,
                                              pool_chunks) != Status.OK:
            raise MemoryError(f"no address space for {pool_chunks} queue chunks")
        if (name_map_open(&self.names) != Status.OK
                or QueueTable.grow(self, FIRST_SLOTS) != Status.OK):
            raise MemoryError("no memory for the queue table")
        make_directory(Path(os.fsdecode(self.directory)))
        self.reader_files = QueueFiles(self.directory, entries_per_file, READER_FILES, False)

    def __dealloc__(self):
        cdef int64_t i
        if self.queues != NULL:
            for i in range(self.queue_top):
                if self.queues[i] != NULL:
                    queue_destroy(self.queues[i], &self.pool)
        free(self.queues)
        name_map_close(&self.names)

    # ---- the table

    cdef Queue* find_queue(self, const char* topic, int32_t topic_length,
                           int32_t queue_id) noexcept nogil:
        cdef uint8_t key[KEY_BYTES]
        if topic_length <= 0 or topic_length > TOPIC_BYTES_MAX:
            return NULL
        return <Queue*> name_map_find(&self.names, key,
                                      make_key(topic, topic_length, queue_id, key))

    cdef Queue* open_queue(self, const char* topic, int32_t topic_length,
                           int32_t queue_id) noexcept nogil:
        cdef uint8_t key[KEY_BYTES]
        cdef Queue* queue = self.find_queue(topic, topic_length, queue_id)
        cdef int64_t at
        if queue != NULL:
            return queue
        if queue_id < 0 or not topic_is_valid(topic, topic_length):
            return NULL
        if self.queue_top == self.queue_slots and self.grow(2 * self.queue_slots) != Status.OK:
            return NULL
        queue = queue_create(topic, topic_length, queue_id, self.next_serial)
        if queue == NULL:
            return NULL
        if name_map_put(&self.names, key, make_key(topic, topic_length, queue_id, key),
                        queue) != Status.OK:
            queue_destroy(queue, &self.pool)
            return NULL
        self.next_serial += 1
        at = self.queue_top
        if self.queue_count < self.queue_top:       # a removed queue left a gap
            at = 0
            while self.queues[at] != NULL:
                at += 1
        else:
            self.queue_top += 1
        self.queues[at] = queue
        queue.index = <uint32_t> at
        self.queue_count += 1
        return queue

    cdef void take_out(self, Queue* queue) noexcept nogil:
        cdef uint8_t key[KEY_BYTES]
        name_map_remove(&self.names, key, make_key(queue.topic, queue.topic_length,
                                                   queue.queue_id, key))
        self.queues[queue.index] = NULL
        self.queue_count -= 1

    cdef int grow(self, int64_t slots) noexcept nogil:
        cdef int status = queue_array_grow(&self.queues, slots)
        if status == Status.OK:
            self.queue_slots = slots
        return status

    # ---- reading

    cdef int read_entries(self, Queue* queue, int64_t offset, int32_t max_entries,
                          uint8_t* out) noexcept nogil:
        cdef int64_t memory_offset, count
        if max_entries <= 0 or offset < queue.min_offset or offset >= queue.max_offset:
            return 0
        memory_offset = queue_memory_offset(queue)
        if offset < memory_offset:
            return self._read_file(
                queue, offset, <int32_t> min(<int64_t> max_entries, memory_offset - offset), out)
        count = min(<int64_t> max_entries, queue.max_offset - offset)
        queue_copy_entries(queue, offset, count, out)
        self.counts.memory_reads += 1
        return <int> count

    cdef int _read_file(self, Queue* queue, int64_t offset, int32_t count,
                        uint8_t* out) noexcept nogil:
        cdef QueueName name = name_of(queue)
        cdef int got = self.reader_files.read_entries(&name, offset, count, True, out)
        if got == Status.ABSENT or got == Status.IO_ERROR:     # as no descriptor: a reader will see
            self.counts.absent_reads += 1
            return Status.ABSENT
        if got == Status.NOT_FOUND or got == 0:
            self.counts.corrupt_reads += 1
            return Status.CORRUPT
        self.counts.file_reads += got > 0
        return got

    cdef int request_repair(self, Queue* _queue, int64_t _offset) noexcept nogil:
        return Status.CORRUPT

    cdef int read(self, Queue* queue, int64_t offset, int32_t max_entries,
                  QueueEntry* out) noexcept nogil:
        cdef uint8_t entries[READ_ENTRIES * QUEUE_ENTRY_BYTES]
        cdef int got = self.read_entries(queue, offset, min(max_entries, READ_ENTRIES), entries)
        cdef int i
        if got == Status.CORRUPT:
            return self._repair_read(queue, offset)
        for i in range(got):
            queue_entry_load(entries + i * QUEUE_ENTRY_BYTES, &out[i])
            if queue_entry_check(&out[i], self.log_end) != Status.OK:
                self.counts.corrupt_reads += 1
                return i if i > 0 else self._repair_read(queue, offset)
        return got

    cdef int _repair_read(self, Queue* queue, int64_t offset) noexcept nogil:
        cdef int status = self.request_repair(queue, offset)
        # If nothing is wrong there, the next read returns the entry.
        return <int> Status.NOT_READY if status == Status.OK else status

    # ---- for Python: calls of the control thread, between two turns

    def queue_names(self) -> list:
        """(topic, queue id) of all queues."""
        cdef int64_t i
        return [(self.queues[i].topic[:self.queues[i].topic_length], self.queues[i].queue_id)
                for i in range(self.queue_top) if self.queues[i] != NULL]
