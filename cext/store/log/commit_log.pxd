# Commit log: segments in a row, with the newest part of the log in memory (the tail).
#
# What the marks promise, and so what an ack means:
#   appended   reserve() + commit(): the record is in the tail ring of this process. A kill loses
#              it. Nothing may be acked yet.
#   written    write_out() returned OK: pwrite has taken the bytes. kill -9 of the process loses
#              nothing below `written`; a power cut may. ASYNC_FLUSH acks here.
#              With a store pool (pooled, transientStorePoolEnable) ASYNC_FLUSH acks at `appended`
#              instead, as RocketMQ does: a kill loses what was acked and not yet committed.
#   durable    the flusher's fdatasync returned: a power cut loses nothing below `durable`. The
#              segment's blocks, size and directory entry were synced before its first byte was
#              written. SYNC_FLUSH acks here.
#   poisoned   a pwrite, an fdatasync or the fsync of the directory failed. The first cause is kept
#              (operation, errno, path, offset). From then on nothing is written, synced or acked;
#              no sync is tried twice, because the kernel may have dropped the dirty pages and would
#              then report success. Bytes below `written` may still be read. Only reopening the log
#              ends this.
#
# A turn of the reactor:
#   new_turn -> { reserve -> record_start .. record_finish -> commit } * n -> write_out -> view * m
#
# The first write to a block that is only allocated changes metadata of the file system, which the
# next sync must commit as well: half of the sync's time on ext4. A log that syncs for its producers
# (ahead_bytes) therefore writes zeros after a small write that comes to such blocks, so that a few
# hundred syncs share one commit of metadata. The price: bytes of small writes go to the disk twice.
#
# Room: a segment that is entered by a roll has blocks for all of its bytes, and the next segment is
# asked for at once. The segment that a start makes or continues may never see traffic, so it has
# blocks for only 16 MiB after the log's end (segment.pxd). reserve() gives out nothing beyond these
# blocks, so no write needs a block that is not there, and a full disk is known before anything is
# promised. More blocks are asked for long before they are needed: after the first 256 KiB, for
# 16 MiB + 16 times what the segment holds, and again each time half of that is used. When that
# would be all of the segment, or an eighth of it is used, the rest and the next segment are asked
# for. These are three or four requests to the preparer in the first gigabyte, and the reactor waits
# for none of them.
#
# Offsets are physical: byte p is in segment p - p % segment_bytes. The tail ring holds the last
# ring_bytes of the log, byte p at p & (ring_bytes - 1); any part of it is contiguous (mirror_ring).
#
# Example, segment 1024, at appended = 900: reserve(100) fits, since 900 + 100 + 8 <= 1024; after
# commit(97) appended = 997. reserve(50): 997 + 50 + 8 > 1024, so BLANK(27 bytes) is written at 997,
# the segment is written out, appended = written = 1024 and the record goes to the next segment.
#
# All methods: reactor thread only, unless said otherwise.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.memory.mirror_ring cimport MirrorRing
from cext.store.log.log_link cimport LogLink, Watermarks
from cext.store.log.segment_map cimport SegmentMap

cdef class CommitLog:
    cdef Watermarks marks           # log_link.pxd says which threads write them
    cdef LogLink link               # shared with flusher and preparer
    cdef MirrorRing ring            # owned: the tail
    cdef SegmentMap map             # owned: old segments, read-only
    cdef readonly str directory
    cdef readonly int64_t segment_bytes     # exact size of every segment
    cdef readonly int64_t max_record_bytes  # most that one reserve() may ask for
    cdef int64_t window_bytes       # newest part of the ring that view() serves from
    # reserve() needs no further checks up to here; 0: it must check. The limit and the terminator
    # after it are never beyond link.claimed.
    cdef int64_t limit
    cdef int64_t ring_low           # the ring holds nothing below (the log's end at start-up)
    cdef int64_t pinned_low         # lowest ring byte given out by view() in this turn
    cdef int64_t reserved           # most that the next commit() may take
    cdef int64_t active_start       # segment being written
    cdef int64_t active_end
    cdef int64_t ahead_bytes        # fixed; zeros written ahead at once, 0: none
    cdef int64_t touched            # blocks of the active segment below it were written before
    cdef int64_t room_end           # the active segment has blocks up to here, when last looked at
    cdef int64_t ask_at             # a record that ends beyond it asks for room; or INT64_MAX
    cdef int active_fd              # borrowed from the flusher, which closes it when all is synced
    cdef bint opened                # set_end() was called
    cdef bint holds_flusher         # write_out() wakes no flusher: the reactor itself will sync
    cdef readonly bint ring_locked  # the kernel may not swap the ring out
    cdef readonly bint pooled       # a committer writes, not write_out(); fixed before set_end()
    cdef readonly uint64_t rolls    # counters
    cdef readonly uint64_t writes

    # Returns where the next record may be written, max_bytes contiguous bytes. Its physical offset
    # is marks.appended, read after this call, since a roll moves it. NULL with *status:
    #   NOT_READY  the next segment, or room in this one, is not there yet
    #   NO_SPACE   the same, because the disk is full
    #   RING_FULL  call write_out() first; if that does not help, end the turn, whose views hold
    #              the ring
    #   TOO_LARGE  more than max_record_bytes, or more than a segment holds
    #   POISONED   until the log is reopened
    # A refusal changes nothing; ask again later. Between a reserve() and its commit() no other
    # method of this class may be called, except another reserve().
    cdef uint8_t* reserve(self, uint32_t max_bytes, int* status) noexcept nogil
    # Whether the active segment, or its room, is nearly full while more is on its way: senders that
    # can wait should do so.
    cdef bint nearly_full(self) noexcept nogil
    # Whether blocks for `bytes` more bytes (any number) of the active segment are on their way.
    cdef bint awaits_room(self, int64_t bytes) noexcept nogil
    # Waits until these blocks are there or have failed to come. False: neither within `timeout_us`.
    cdef bint wait_for_room(self, int64_t bytes, int64_t timeout_us) noexcept nogil
    # Makes the reserved bytes one record or several: bytes <= max_bytes of the last reserve().
    cdef void commit(self, uint32_t bytes) noexcept nogil
    # Writes [written, appended) with one pwrite, and 8 zero bytes after it, so that a recycled
    # segment never shows a stale record. Then `written` moves, and the flusher is woken if it
    # sleeps. OK (also when there is nothing to write) | POISONED. With a pool: offers all of it to
    # the committer, and moves `written` as far as the committer has come; never waits.
    cdef int write_out(self) noexcept nogil
    # Wakes the flusher if it sleeps, so that it syncs what is written.
    cdef void wake_flusher(self) noexcept nogil
    # With a pool: whether the committer has come further than `written`. Any thread.
    cdef bint commit_moved(self) noexcept nogil
    # With a pool that is full: waits until the committer has come further, at most `timeout_us`.
    # True when it has; write_out() then moves `written`.
    cdef bint wait_for_commit(self, int64_t timeout_us) noexcept nogil

    # `size` bytes of the log at `offset`, valid until new_turn(): from the ring, or from mapped
    # pages that are in memory. OK | ABSENT (ask a disk reader) | CORRUPT (not inside the log,
    # crosses a segment's end, or the file is no segment) | NOT_FOUND (below the first segment).
    cdef int view(self, int64_t offset, uint32_t size, const uint8_t** out) noexcept nogil
    # Makes every pointer that view() gave out invalid.
    cdef void new_turn(self) noexcept nogil
    # Makes the pointers invalid that view() gave out since `pinned_low` was `before`, so that the
    # ring can be written further.
    cdef void unpin(self, int64_t before) noexcept nogil

    # `durable` with acquire order. Any thread.
    cdef int64_t durable(self) noexcept nogil
    # Always True after the first failure. Any thread.
    cdef bint poisoned(self) noexcept nogil
    # The reactor calls these around its sleep, so that the flusher need not signal it while it is
    # awake: first reactor_sleeps(), then a last look at durable(), then the sleep, and
    # reactor_wakes() after it.
    cdef void reactor_sleeps(self) noexcept nogil
    cdef void reactor_wakes(self) noexcept nogil

    # For retention: the first readable offset; when the first segment was last modified (ms since
    # 1970, or < 0).
    cdef int64_t min_offset(self) noexcept nogil
    cdef int64_t first_segment_modified_ms(self) noexcept nogil
    # Takes the oldest segment out of the log; the preparer removes its file, or recycles it when
    # the next segment is not prepared yet. OK | NOT_FOUND (only the one being written is left) |
    # NOT_READY (not durable yet, or too many removals wait).
    cdef int drop_first_segment(self) noexcept nogil

    # For recovery, between load() and set_end(). The index-th segment, mapped as a whole, or NULL.
    # Page faults read the pages that are not in memory; prefer read_log() where the disk may be
    # bad. The pointer is valid until `limit` other segments have been mapped in later turns
    # (new_turn()).
    cdef const uint8_t* map_segment(self, int64_t index) noexcept nogil
    cdef int64_t segment_count(self) noexcept nogil
    cdef int64_t segment_start(self, int64_t index) noexcept nogil
    # Reads the files with pread. Any thread. The count (less at the log's end) | status < 0.
    cdef int64_t read_log(self, int64_t offset, uint8_t* out, uint64_t size) noexcept nogil
    cpdef int set_end(self, int64_t end, bint zero_rest=*) except -1

    cdef uint8_t* reserve_slowly(self, uint32_t max_bytes, int* status) noexcept nogil
    # Whether the next segment can be entered: OK | NOT_READY | NO_SPACE.
    cdef int next_segment(self) noexcept nogil
    # Looks how much room there is now, and asks for more (and the next segment) when it is time.
    cdef void look_for_room(self, int64_t end) noexcept nogil
    # Asks for blocks for some more of the active segment, or for all of it and the next segment.
    cdef void ask_for_room(self, int64_t end) noexcept nogil
    cdef int roll(self) noexcept nogil
    cdef void hand_over(self) noexcept nogil
    cdef int write_range(self, int64_t end, int64_t mark, uint32_t terminator) noexcept nogil
    cdef int touch_ahead(self, int64_t end, int64_t bytes) noexcept nogil
    cdef int write_failed(self, int error, int64_t offset) noexcept nogil
    cdef int settle_files(self, int64_t end, bint zero_rest) except -1
    # `room`: the offset up to which the segment has blocks.
    cdef int activate(self, int64_t start, int fd, int64_t room) noexcept nogil


# The end of the segment in which an offset is. Any thread.
cdef inline int64_t segment_end(CommitLog log, int64_t offset) noexcept nogil:
    return offset - offset % log.segment_bytes + log.segment_bytes
