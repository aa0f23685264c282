"""Queue table: finds the consume queues of a shard by (topic, queue id), and reads them.

Reactor thread. The subclass QueuePersistence brings entries into files. Its subclass QueueStore
adds entries, and moves log_end and every queue's offsets.

A read tries the chunks in memory first, then the page cache, and never waits for a disk: ABSENT
means that another thread must read it. Every entry that is returned was checked against log_end,
except entries in file form (read_entries), which the caller must check.

Example: 50,000 queues cost 50,000 Queue structs of about 200 bytes, a table of 131,072 slots and
READER_FILES descriptors.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from cext.memory.arena cimport SharedArena
from cext.memory.name_map cimport NameMap
from cext.store.queues.consume_queue cimport ChunkPool, Queue, QueueEntry
from cext.store.queues.queue_files cimport QueueFiles

cdef struct QueueCounters:
    int64_t jobs_written        # WRITE jobs that came back OK
    int64_t entries_persisted   # entries that these jobs wrote
    int64_t write_failures      # WRITE jobs that failed; their entries stay and are tried again
    int64_t last_errno          # of the newest failure; 0 when none since the last good barrier
    int64_t sync_writes         # times the reactor had to write a queue itself
    int64_t chunks_reclaimed    # chunks taken back because the pool was empty
    int64_t memory_reads        # reads answered from chunks
    int64_t file_reads          # reads answered from the page cache
    int64_t absent_reads        # reads that need a disk reader
    int64_t corrupt_reads       # entries read from files that cannot be right

cdef class QueueTable:
    cdef readonly bytes directory       # .../consumequeue
    cdef readonly int64_t entries_per_file
    cdef readonly int64_t log_end       # log offset where the newest dispatched record ends
    cdef QueueCounters counts

    cdef NameMap names                  # topic NUL queueId(4) -> Queue*
    cdef Queue** queues                 # all queues, by Queue.index; NULL where one was removed
    cdef int64_t queue_slots            # capacity of `queues`
    cdef int64_t queue_top              # one above the highest index in use
    cdef int64_t queue_count            # queues in the table
    cdef uint64_t next_serial
    cdef SharedArena memory             # for the chunks: the shard's arena, or one of its own
    cdef ChunkPool pool
    cdef QueueFiles reader_files        # for the reactor, read only

    # Finds or makes a queue; NULL: the topic is not valid, queue_id < 0 or there is no memory.
    cdef Queue* open_queue(self, const char* topic, int32_t topic_length,
                           int32_t queue_id) noexcept nogil
    cdef Queue* find_queue(self, const char* topic, int32_t topic_length,
                           int32_t queue_id) noexcept nogil
    # Called when the entry read at `offset` cannot be right. ABSENT: it will be made anew from the
    # log, ask again | CORRUPT: the log has no record for it | NOT_READY: it could not be made now,
    # but the log may have the record; it is tried again in a minute | OK: within the last minute
    # nothing was found wrong there: the entry names its record, which is whole. The subclass does
    # this.
    cdef int request_repair(self, Queue* queue, int64_t offset) noexcept nogil
    # Takes a queue out of the table; the caller owns the struct.
    cdef void take_out(self, Queue* queue) noexcept nogil
    # Reads entries from `offset` on. Returns how many (0 outside [min_offset, max_offset)) | ABSENT
    # (neither in memory nor in the page cache, or being mended) | NOT_READY (could not be mended
    # now: ask again in a while) | CORRUPT (lost for good). An entry of size 0 is a blank: skip it.
    # May return fewer than there are (at the end of a file or of the cached part, or just before
    # damage).
    cdef int read(self, Queue* queue, int64_t offset, int32_t max_entries,
                  QueueEntry* out) noexcept nogil
    # The same in file form and unchecked: call queue_entry_load() and queue_entry_check() for each
    # entry before its use.
    cdef int read_entries(self, Queue* queue, int64_t offset, int32_t max_entries,
                          uint8_t* out) noexcept nogil

    # Makes room for more queues. OK | POOL_EMPTY. The subclass also makes its own arrays longer.
    cdef int grow(self, int64_t slots) noexcept nogil
    cdef int _read_file(self, Queue* queue, int64_t offset, int32_t count,
                        uint8_t* out) noexcept nogil
    cdef int _repair_read(self, Queue* queue, int64_t offset) noexcept nogil

# Makes an array of queues `slots` long. OK | POOL_EMPTY.
cdef int queue_array_grow(Queue*** array, int64_t slots) noexcept nogil
