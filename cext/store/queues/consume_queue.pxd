"""Consume queue: the 20-byte entries of one (topic, queue id), and the memory of its tail.

An entry is what a consumer needs to find a message: where its record starts in the commit log (8),
how long it is (4), the tag code (8), all big-endian, exactly as in RocketMQ's files. Entry n of a
queue is its logical offset n; file f holds entries f*300000 .. f*300000+299999 and is named by the
byte position of its first entry, twenty digits.

    logical offset      min_offset      persisted_offset   handed_offset      max_offset
    where               |-- files only --|-- with writer ----|-- chunks only ----|
                              head.first_offset
                              |-- chunks: every entry from here on is in memory too ------|

    min_offset <= max_offset <= next_offset, persisted_offset <= handed_offset <= max_offset,
    and no entry at or above persisted_offset is ever without its chunk.

Chunks are 1 KiB, linked oldest to newest, 50 entries each; only the last one may be partly filled.

Example: a queue of 120 entries, of which the writer has confirmed 100, has chunks 0-49, 50-99 and
100-149. The first two may be given back; the third holds 20 entries and has room for 30.

Every field belongs to the reactor thread, except `file_ends` and `file_ends_place`, which belong to
the writer. The writer also reads topic, queue_id and serial, which never change, and the entries of
the chunks it was handed, which do not change either, since entries are only added.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp

from cext.base.byteorder cimport load_i32, load_i64, store_i32, store_i64
from cext.base.status cimport Status
from cext.memory.arena cimport Arena

cdef enum:
    QUEUE_ENTRY_BYTES = 20
    CHUNK_ENTRIES = 50
    CHUNK_BYTES = 1024              # 24 bytes of links and CHUNK_ENTRIES entries
    BLANK_SIZE = 0x7FFFFFFF         # size of a pre-blank entry (0, MAX31, 0): no message here

cdef struct QueueEntry:
    int64_t physical_offset         # commit log position of the record
    int64_t tags_code               # Java hash of the tag; due time in ms of a scheduled message
    int32_t size                    # bytes of the record; 0: a blank entry, skip it

# What the files of one queue hold, according to the writer and not to the files (queue_ends.pxd).
cdef struct QueueEnds:
    int64_t min_offset              # first logical offset that is kept
    int64_t first_physical          # log offset of its record; -1: no entry, or not known
    int64_t end_offset              # one above the last entry
    int64_t last_physical           # log offset of the last entry's record; -1: as above
    int32_t last_size               # bytes of that record

cdef struct Chunk:
    Chunk* next                     # newer; NULL at the tail
    Chunk* previous                 # older; NULL at the head
    int64_t first_offset            # logical offset of entries[0]
    uint8_t entries[1000]           # CHUNK_ENTRIES entries in file form

cdef struct Queue:
    # What an append touches: one cache line.
    uint8_t* write_at               # next free entry of the tail chunk; NULL without chunks
    uint8_t* write_end              # end of the tail chunk's entries; == write_at: make room first
    int64_t next_offset             # logical offset of the next record (flow moves it)
    int64_t max_offset              # entries dispatched so far; readers see offsets below it
    int64_t min_offset              # first readable logical offset
    Chunk* tail                     # newest chunk; owned by the pool, lent to this queue
    void* waiters                   # for flow; the store never looks at it
    int32_t queue_id
    uint8_t dirty                   # waits in the store's list for the next hand-over
    uint8_t has_file                # at least one entry was persisted
    uint8_t waits_for_retry         # a write failed; handed over again by the next run
    uint8_t deleted                 # out of the table; freed when the writer has no job of it left
    # What the slow path touches.
    Chunk* head                     # oldest chunk
    int64_t handed_offset           # entries below it were handed to the writer
    int64_t persisted_offset        # entries below it are in its files (page cache at least)
    int64_t rebuilt_from            # recovery only: records below this log offset are in the files
    int64_t begun_at                # log offset of the record with which replay began it; 0: none
    uint64_t serial                 # never used twice; key of the file caches
    uint32_t chunk_count
    uint32_t in_flight              # jobs that the writer has not given back
    uint32_t index                  # position in the store's list of queues
    int32_t topic_length            # bytes of topic
    QueueEnds file_ends             # writer: the entries that it has written, or found in files
    int64_t file_ends_place         # writer: place in its list of queues + 1; 0: not in it
    char* topic                     # owned; stored after the struct, with a NUL at its end

# Memory for chunks: a part of the shard's arena, touched from the low end as needed.
cdef struct ChunkPool:
    uint8_t* base                   # in the arena; capacity * CHUNK_BYTES
    int64_t capacity                # chunks
    int64_t touched                 # chunks ever lent; the memory of later ones was never written
    Chunk* free_list                # given back, newest first, linked by `next`
    int64_t free_count              # length of free_list
    int64_t refusals                # takes answered with NULL


cdef inline void queue_entry_store(uint8_t* at, int64_t physical_offset, int32_t size,
                                   int64_t tags_code) noexcept nogil:
    store_i64(at, physical_offset)
    store_i32(at + 8, size)
    store_i64(at + 12, tags_code)


cdef inline void queue_entry_load(const uint8_t* at, QueueEntry* entry) noexcept nogil:
    entry.physical_offset = load_i64(at)
    entry.size = load_i32(at + 8)
    entry.tags_code = load_i64(at + 12)


cdef inline bint queue_entry_is_blank(const QueueEntry* entry) noexcept nogil:
    return entry.size == BLANK_SIZE and entry.physical_offset == 0


# Checks a loaded entry. OK, also for a blank, whose size becomes 0 | CORRUPT: the entry names no
# record below `log_end`.
cdef inline int queue_entry_check(QueueEntry* entry, int64_t log_end) noexcept nogil:
    if queue_entry_is_blank(entry):
        entry.size = 0
        return Status.OK
    # One branch for all three conditions, which is never taken.
    if ((entry.size <= 0) | (entry.physical_offset < 0)
            | (entry.physical_offset > log_end - entry.size)):
        return Status.CORRUPT
    return Status.OK


cdef inline bint queue_is_of(const Queue* queue, const char* topic,
                             int32_t topic_length) noexcept nogil:
    return queue.topic_length == topic_length and memcmp(
        queue.topic, topic, <size_t> topic_length) == 0


# The first logical offset that is in memory; max_offset when there is none.
cdef inline int64_t queue_memory_offset(const Queue* queue) noexcept nogil:
    return queue.max_offset if queue.head == NULL else queue.head.first_offset


# OK | POOL_EMPTY: the arena has less than chunk_pool_arena_bytes(capacity) left.
cdef int chunk_pool_open(ChunkPool* pool, Arena* arena, int64_t capacity) noexcept nogil
cdef uint64_t chunk_pool_arena_bytes(int64_t capacity) noexcept nogil
cdef Chunk* chunk_take(ChunkPool* pool) noexcept nogil                         # NULL: empty
cdef void chunk_give(ChunkPool* pool, Chunk* chunk) noexcept nogil

# Makes a queue with room for its topic; NULL: there is no memory. The topic must be valid.
cdef Queue* queue_create(const char* topic, int32_t topic_length, int32_t queue_id,
                         uint64_t serial) noexcept nogil
# Gives the chunks back and frees the struct.
cdef void queue_destroy(Queue* queue, ChunkPool* pool) noexcept nogil
# Adds an empty chunk at the tail, which starts at max_offset.
cdef void queue_add_chunk(Queue* queue, Chunk* chunk) noexcept nogil
# Gives back chunks whose entries are all persisted, oldest first, until `keep` are left; with
# keep == 0 also the partly filled tail. Returns how many.
cdef int queue_release(Queue* queue, ChunkPool* pool, uint32_t keep) noexcept nogil
# The chunk that holds logical `offset`, or NULL when it is not in memory.
cdef Chunk* queue_chunk_at(Queue* queue, int64_t offset) noexcept nogil
# Copies entries [offset, offset + count) from memory in file form; all must be in memory.
cdef void queue_copy_entries(Queue* queue, int64_t offset, int64_t count,
                             uint8_t* out) noexcept nogil
# Whether the topic can be a path component: ^[%|+a-zA-Z0-9_-]+$ and at most 255 bytes.
cdef bint topic_is_valid(const char* topic, int32_t length) noexcept nogil
