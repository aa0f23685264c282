"""Index store: the files of the key index, index/<17 digits>, oldest first; the last is filled.

What is done with what is found at the start; the index is derived data, the log is the truth:

    row what is on disk                              what is done                   who leaves it so
    I1  no file                                      indexing from the log's start  new store; index
                                                                                    deleted or off
    I2  a file of another length, or with a header   it and all younger ones are    other settings;
        that cannot be, or with keys missing before  removed                        power cut; kill
        it                                                                          of Apache
    I3  trusted, and the last header shows an end    its slots are read             clean stop;
        below the log's end                                                         kill -9
    I4  as I3, but a slot points behind the count;   the file is relinked           kill -9 while
        or the header shows INT64_MAX                                          slots went out
    I5  not trusted                                  the first file younger than    power cut;
                                                     the checkpoint's index time,   Apache RocketMQ
                                                     or the last, is relinked;      was killed
                                                     younger ones are removed
    I6  relinking cuts a file                        indexing goes on from there    log shorter;
                                                                                    damage
    Trusted: a clean stop, or a kill while this very kernel was running (rows S4, S6 of recovery).

Relinking (index_file.pxd) reads all entries and keeps what can be right. Indexing goes on behind
the newest record of the last file, after relinking with that record itself; so no key is lost and
none is in twice. A file is synced when it is full, every `sync_ms` and at stop: `safe_ms` is the
checkpoint's index time. Files go when the log has gone beyond them, but never the last one.

Example: files 20260101000000000 (full) and 20260102000000000 (300 entries), killed by -9, log end
9,000,000, newest record of the second at 8,999,000: I3, indexing goes on behind 8,999,000.
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
    const uint8_t* topic            # borrowed, as all that follows but the answer
    const uint8_t* key
    uint32_t topic_bytes, key_bytes
    int32_t kind                    # KeyKind
    int32_t hits_max                # 1 .. HITS_MAX
    int64_t begin_ms, end_ms        # store time of the wanted messages, both included
    int64_t* hits                   # log offsets, newest first; room for hits_max
    int32_t hit_count
    uint8_t* body                   # copies of the hits' records one after the other; free()d by
    uint64_t body_bytes, body_room  # who asked
    uint64_t body_max               # 0: no copies are wanted
    bint body_full                  # a hit did not fit any more: it and older ones are left out
    int64_t last_ms, last_offset    # newest record indexed

cdef class IndexStore:
    """All by one thread at a time: the opener, then the indexer."""
    cdef IndexShape shape
    cdef char directory[LOG_PATH_MAX]
    cdef IndexFile* files           # owned
    cdef int32_t file_count, file_room
    cdef bint filling               # the last file takes keys; the table is its own
    cdef bint changed, unsynced     # since the last flush; the last sync
    cdef SlotTable table            # owned
    cdef uint8_t* scratch           # owned; SCRATCH_BYTES
    cdef LogCursor checker          # looks at the record of each hit
    cdef int64_t safe_ms            # read by the reactor with acquire order
    cdef int64_t log_end            # at the start; entries at or above it are cut
    cdef bint trusted
    cdef int64_t index_ms           # of the checkpoint
    cdef int32_t row                # I1 .. I6: what was found
    cdef int32_t last_errno         # of the newest failure
    cdef uint64_t entries_put, failures, removed, relinked, false_hits

    # After open(): looks at the files and returns the log offset where indexing goes on, or
    # Status < 0. *behind: the record there is indexed already.
    cdef int64_t recover(self, bint* behind) noexcept nogil
    # How many of the keys are in, from the first on; less than `count` after a failure.
    cdef int32_t put(self, const IndexKey* keys, int32_t count, int64_t wall_ms) noexcept nogil
    cdef int flush(self) noexcept nogil     # to the page cache: survives kill -9 as it is
    cdef int sync(self) noexcept nogil      # flush, and to the disk; moves safe_ms
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
