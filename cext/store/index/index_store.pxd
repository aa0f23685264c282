"""Index store: the files of the key index, index/<17 digits>, oldest first; keys go into the last.

What a start does with the files it finds (the index is derived data, the log is the truth):

    row what is on disk                              what is done                   what leads here
    I1  no file                                      indexing from the log's start  new store; index
                                                                                    deleted or off
    I2  a file of another length, or whose header    it and all younger files       other settings;
        cannot be right, or with keys missing        are removed                    power cut; kill
        before it                                                                   of Apache
    I3  trusted, and the last header has an end      its slots are read             clean stop;
        below the log's end                                                         kill -9
    I4  as I3, but a slot points beyond the count;   the file is relinked           kill -9 while
        or the header has INT64_MAX                                                 slots were
                                                                                    written
    I5  not trusted                                  the first file younger than    power cut;
                                                     the checkpoint's index time,   Apache RocketMQ
                                                     or the last, is relinked;      was killed
                                                     younger ones are removed
    I6  relinking cuts a file                        indexing goes on from there    log shorter;
                                                                                    damage
    Trusted: a clean stop, or a kill while this very kernel was running (rows S4, S6 of recovery).

Relinking (index_file.pxd) reads all entries and keeps those that can be right. Indexing goes on
after the newest record of the last file, or after relinking with that record itself; so no key is
lost and none is in the index twice. A file is synced when it is full, every `sync_ms` and at stop:
`safe_ms` is the checkpoint's index time. A file is removed when the log no longer has its messages,
except the last file.

Example: files 20260101000000000 (full) and 20260102000000000 (300 entries), killed by -9, log end
9,000,000, newest record of the second file at 8,999,000: I3, indexing goes on after that record.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.store.index.index_file cimport IndexFile, IndexKey, IndexShape, SlotTable
from cext.store.log.log_cursor cimport LogCursor
from cext.store.log.log_link cimport LOG_PATH_MAX
from cext.store.log.record cimport RecordView

cdef enum:
    KEYS_MAX = 4096                 # put at once
    HITS_MAX = 1024                 # of one query

cdef struct IndexQuery:
    const uint8_t* topic            # borrowed, like `key`
    const uint8_t* key
    uint32_t topic_bytes, key_bytes
    int32_t kind                    # KeyKind
    int32_t hits_max                # 1 .. HITS_MAX
    int64_t begin_ms, end_ms        # store time of the wanted messages, both included
    int64_t* hits                   # log offsets, newest first; room for hits_max
    int32_t hit_count
    uint8_t* body                   # copies of the hits' records, one after the other; the caller
    uint64_t body_bytes, body_room  # calls free()
    uint64_t body_max               # 0: no copies are wanted
    bint body_full                  # a hit did not fit: it and older ones are left out
    int64_t last_ms, last_offset    # of the newest indexed record

cdef class IndexStore:
    """Used by one thread at a time: the one that opens it, then the indexer."""
    cdef IndexShape shape
    cdef char directory[LOG_PATH_MAX]
    cdef IndexFile* files           # owned
    cdef int32_t file_count, file_room
    cdef bint filling               # the last file takes keys, and `table` has its slots
    cdef bint changed, unsynced     # since the last flush; since the last sync
    cdef SlotTable table            # owned
    cdef uint8_t* scratch           # owned; SCRATCH_BYTES
    cdef LogCursor checker          # looks at the record of each hit
    cdef int64_t safe_ms            # read by the reactor with acquire order
    cdef int64_t log_end            # the log's end at the start; later entries are cut
    cdef bint trusted
    cdef int64_t index_ms           # index time of the checkpoint
    cdef int32_t row                # I1 .. I6: what the start found
    cdef int32_t last_errno         # of the newest failure
    cdef uint64_t entries_put, failures, removed, relinked, false_hits

    # After open(): mends the files and returns the log offset where indexing goes on, or a
    # Status < 0. *behind: the record at that offset is already indexed.
    cdef int64_t recover(self, bint* behind) noexcept nogil
    # Puts keys in and returns how many, from the first on; fewer than `count` after a failure.
    cdef int32_t put(self, const IndexKey* keys, int32_t count, int64_t wall_ms) noexcept nogil
    cdef int flush(self) noexcept nogil     # writes to the page cache, which survives kill -9
    cdef int sync(self) noexcept nogil      # the same, and to the disk; moves safe_ms
    cdef int search(self, IndexQuery* query) noexcept nogil
    cdef int drop_below(self, int64_t log_min) noexcept nogil

    cdef bint _add(self, const IndexFile* file) noexcept nogil
    cdef int32_t _first_gap(self) noexcept nogil
    cdef int64_t _first_with_keys(self, int64_t offset, bint behind) noexcept nogil
    cdef int64_t _load_last(self) noexcept nogil
    cdef int64_t _relink(self, int32_t at) noexcept nogil
    cdef int _truncate_after(self, int32_t count) noexcept nogil
    cdef int _roll(self, int64_t wall_ms) noexcept nogil
    cdef int _failed(self, int status, int error) noexcept nogil
    cdef int _search_file(self, int32_t at, int32_t hash, IndexQuery* query) noexcept nogil
    cdef bint _copy(self, const RecordView* view, IndexQuery* query) noexcept nogil
    cdef bint _is_hit(self, int64_t offset, IndexQuery* query) noexcept nogil
