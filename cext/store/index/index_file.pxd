"""Index file: one file of the key index, in RocketMQ's IndexFile format. Numbers are big-endian.

    @0   i64 begin ms | i64 end ms      store time of the first and of the newest message in it
    @16  i64 begin offset | i64 end offset      log offsets of these two messages
    @32  i32 used slots | i32 count     count: number of the next entry; starts at 1
    @40  slots x i32                    newest entry in the chain of a hash; 0: none
    then entries x 20 bytes             i32 hash, i64 log offset, i32 seconds since begin ms, i32
                                        the entry before it in the chain (0: none); entry 0 is
                                        unused

A file has the full length of its shape from the start, with holes. It is written with pwrite, never
through a mapping: a full disk is then an errno and not a signal. Entries are written with each
batch. The slots of the file being filled stay in memory (SlotTable) and are written now and then:

    1 header with end ms = INT64_MAX   2 changed slots   3 header with the true end ms

So a file whose header has a real end ms has slots that fit its header, whenever the process was
killed. The slots of a file whose header has INT64_MAX may not fit; Apache RocketMQ, which drops
files younger than the checkpoint after a crash, drops it too. Entries from `count` on are written
again.

Example: shape 5,000,000 slots and 20,000,000 entries: 420,000,040 bytes; entry 1 is at 20,000,060;
a key with hash 112658 has its chain in slot 112658, at byte 450,672.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t

cdef enum:
    INDEX_HEAD_BYTES = 40
    INDEX_ENTRY_BYTES = 20
    SLOT_PAGE = 1024                # slots written together: 4 KiB

cdef struct IndexShape:
    int32_t slots                   # maxHashSlotNum
    int32_t entries                 # maxIndexNum; entry 0 is unused

cdef struct IndexFile:
    int64_t name                    # 17 digits: yyyyMMddHHmmssSSS, local time when it was made
    int fd                          # owned; -1 closed
    int64_t begin_ms, end_ms
    int64_t begin_offset, end_offset
    int32_t used_slots
    int32_t count

cdef struct IndexKey:               # one key to be put
    int32_t hash
    int32_t run                     # of a record's first key: the record's number of keys; else 0
    int64_t offset                  # of the record in the log
    int64_t store_ms

cdef struct IndexEntry:
    int32_t hash
    int64_t offset
    int32_t seconds
    int32_t before

cdef struct SlotTable:              # of the file being filled
    int32_t* values                 # owned; anonymous memory, which costs only touched pages
    uint8_t* changed                # owned; one byte for each SLOT_PAGE slots
    int32_t slots

# The indexer thread owns file and table, and no other thread touches them.
# Every function returns OK, or IO_ERROR | NO_SPACE with *error, or what its comment says.
cdef int64_t index_bytes(const IndexShape* shape) noexcept nogil
cdef int index_path(char* out, size_t size, const char* directory, int64_t name) noexcept nogil

cdef int slots_open(SlotTable* table, int32_t slots) noexcept nogil     # OK | POOL_EMPTY
cdef void slots_close(SlotTable* table) noexcept nogil
cdef void slots_clear(SlotTable* table) noexcept nogil                  # gives the memory back

# Makes an empty file that begins where `before` (may be NULL) ends.
cdef int index_create(const char* directory, const IndexShape* shape, int64_t name,
                      const IndexFile* before, IndexFile* out, int* error) noexcept nogil
# CORRUPT: the length is wrong, or the header cannot be right.
cdef int index_open(const char* directory, const IndexShape* shape, int64_t name, IndexFile* out,
                    int* error) noexcept nogil
cdef int index_remove(const char* directory, IndexFile* file, int* error) noexcept nogil
cdef void index_close(IndexFile* file) noexcept nogil

# Puts keys in; there must be room for them. `scratch` has count * INDEX_ENTRY_BYTES bytes. After a
# failure nothing has changed.
cdef int index_put(IndexFile* file, SlotTable* table, const IndexShape* shape,
                   const IndexKey* keys, int32_t count, uint8_t* scratch,
                   int* error) noexcept nogil
# Writes slots and header to the page cache. `scratch` has `room` bytes, at least SLOT_PAGE * 4.
cdef int index_flush(IndexFile* file, SlotTable* table, uint8_t* scratch, int64_t room,
                     int* error) noexcept nogil
# Reads the slots. CORRUPT: a slot points beyond the count. `scratch` has SLOT_PAGE * 4 bytes.
cdef int index_load_slots(const IndexFile* file, SlotTable* table, uint8_t* scratch,
                          int* error) noexcept nogil
# Reads all entries, links the slots anew and cuts the file at an entry that cannot be right or is
# not below `log_end`. Then takes the newest record out, some of whose keys may be missing. Returns
# a log offset: all keys of records below it are in the file | -1: the file is empty | < -1: a
# Status. `scratch` has `room` bytes, at least INDEX_ENTRY_BYTES.
cdef int64_t index_relink(IndexFile* file, SlotTable* table, const IndexShape* shape,
                          int64_t log_end, uint8_t* scratch, int64_t room,
                          int* error) noexcept nogil

# The number of the newest entry in a hash's chain (0: none) | Status. `table` NULL: reads the file.
cdef int32_t index_first(const IndexFile* file, const SlotTable* table, const IndexShape* shape,
                         int32_t hash, int* error) noexcept nogil
cdef int index_entry(const IndexFile* file, const IndexShape* shape, int32_t number,
                     IndexEntry* out, int* error) noexcept nogil
