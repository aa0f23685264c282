# Commit log: segments in a row, and the tail of it in memory.
#
# What the marks promise, and so what an ack means:
#   append     reserve() + commit(): the record is in the tail ring of this process. A kill loses
#              it. Nothing may be acked.
#   written    write_out() returned OK: pwrite has taken it. kill -9 of the process loses nothing
#              below `written`; a power cut may. ASYNC_FLUSH acks here.
#              With a store pool (pooled, transientStorePoolEnable) ASYNC_FLUSH acks at `appended`
#              instead, as RocketMQ does: a kill loses what was acked and not yet committed.
#   durable    the flusher's fdatasync returned: a power cut loses nothing below `durable`. The
#              segment's blocks, size and directory entry were synced before its first byte was
#              written. SYNC_FLUSH acks here.
#   poisoned   a pwrite, an fdatasync or the fsync of the directory failed. The first cause is kept
#              (operation, errno, path, offset). For ever: nothing is written, synced or acked any
#              more; no sync is tried twice, because the kernel may have dropped the dirty pages and
#              then reports success. What is below `written` may still be read. Reopen to recover.
#
# A turn of the reactor:
#   new_turn -> { reserve -> record_start .. record_finish -> commit } * n -> write_out -> view * m
#
# The first write to a block that is only allocated changes metadata of the file system, which the
# next sync has to commit as well: half of its time on ext4. A log that syncs for its producers
# (ahead_bytes) therefore writes zeros behind a small write that comes to such blocks, so that a few
# hundred syncs share one such commit. What it costs: bytes of small writes go to the disk twice.
#
# Room: a segment that is entered by a roll has blocks for all of it, and the next one is wanted at
# once. The one that a start makes or goes on with may never see traffic, and has blocks for 16 MiB
# behind the end only (segment.pxd). reserve() gives out nothing beyond them, so no write needs a
# block that is not there, and a full disk is known before anything is promised. More is asked for
# long before: with the first 256 KiB for 16 MiB + 16 times what the segment holds, again when half
# of that is used; and when that would be all of it, or an eighth is used, for all of it and for the
# next segment. Those are three or four requests to the preparer in the first gigabyte, none of
# which the reactor waits for.
#
# Offsets are physical: byte p is in segment p - p % segment_bytes. The tail ring holds the last
# ring_bytes of the log at p & (ring_bytes - 1), contiguous wherever it starts (mirror_ring).
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
    cdef Watermarks marks           # see log_link.pxd for who writes which
    cdef LogLink link               # shared with flusher and preparer
    cdef MirrorRing ring            # owned: the tail
    cdef SegmentMap map             # owned: old segments, read-only
    cdef readonly str directory
    cdef readonly int64_t segment_bytes     # exact size of every segment
    cdef readonly int64_t max_record_bytes  # most that one reserve() may ask for
    cdef int64_t window_bytes       # newest part of the ring that view() serves from
    # reserve() up to here needs no thought; 0: think. With the terminator not beyond link.claimed.
    cdef int64_t limit
    cdef int64_t ring_low           # the ring holds nothing below (end at start-up)
    cdef int64_t pinned_low         # lowest ring byte given out by view() in this turn
    cdef int64_t reserved           # most that the next commit() may take
    cdef int64_t active_start       # segment being written
    cdef int64_t active_end
    cdef int64_t ahead_bytes        # fixed; zeros written ahead at once, 0: none
    cdef int64_t touched            # the active segment's blocks below it were written once
    cdef int64_t room_end           # the active segment has blocks up to here, as far as we looked
    cdef int64_t ask_at             # a record that ends beyond it asks for more; or INT64_MAX
    cdef int active_fd              # borrowed from the flusher, who closes it when all is synced
    cdef bint opened                # set_end() was called
    cdef bint holds_flusher         # write_out() wakes nobody: the reactor sees to the sync itself
    cdef readonly bint ring_locked  # the kernel may not swap the ring out
    cdef readonly bint pooled       # a committer writes, not write_out(); before set_end()
    cdef readonly uint64_t rolls    # counters
    cdef readonly uint64_t writes

    # Where the next record may be written: max_bytes contiguous bytes; its physical offset is
    # marks.appended (after this call: a roll moves it). NULL with *status:
    #   NOT_READY  the next segment, or room in this one, is not there yet
    #   NO_SPACE   it is not, because the disk is full
    #   RING_FULL  write_out() first; if it persists, end the turn: views of it hold the ring
    #   TOO_LARGE  more than max_record_bytes, or than a segment holds
    #   POISONED   for ever
    # A refusal changes nothing; ask again later. Nothing else of this class but commit() or another
    # reserve() may be called between a reserve() and its commit().
    cdef uint8_t* reserve(self, uint32_t max_bytes, int* status) noexcept nogil
    # The active segment, or its room, is nearly full and more on its way: who can had better wait.
    cdef bint nearly_full(self) noexcept nogil
    # Whether blocks for so many more bytes of the active segment are on their way; and whether they
    # are there, or fail to come, within so long. Any number of bytes.
    cdef bint awaits_room(self, int64_t bytes) noexcept nogil
    cdef bint wait_for_room(self, int64_t bytes, int64_t timeout_us) noexcept nogil
    # The reserved bytes are a record now (or several): bytes <= max_bytes of the last reserve().
    cdef void commit(self, uint32_t bytes) noexcept nogil
    # One pwrite of [written, appended) and 8 zero bytes behind it, so that a recycled segment never
    # shows a stale record; then `written` moves and the flusher is woken if it sleeps. OK (also
    # when there is nothing to write) | POISONED. With a pool: offers it all to the committer, and
    # `written` moves as far as that has come; never waits.
    cdef int write_out(self) noexcept nogil
    # Wakes the flusher if it sleeps: what is written shall be synced by it.
    cdef void wake_flusher(self) noexcept nogil
    # With a pool: whether the committer has come further than `written`. Any thread.
    cdef bint commit_moved(self) noexcept nogil
    # With a pool that is full: waits for the committer to come further, at most so long. True when
    # it did; write_out() takes that in.
    cdef bint wait_for_commit(self, int64_t timeout_us) noexcept nogil

    # `size` bytes of the log at `offset`, valid until new_turn(): from the ring, or from mapped
    # pages that are in memory. OK | ABSENT (ask a disk reader) | CORRUPT (not inside the log,
    # crosses a segment's end, or the file is no segment) | NOT_FOUND (below the first segment).
    cdef int view(self, int64_t offset, uint32_t size, const uint8_t** out) noexcept nogil
    # Ends the validity of every pointer view() gave out.
    cdef void new_turn(self) noexcept nogil
    # Ends that of pointers given out since `pinned_low` was `before`: the ring may be written on.
    cdef void unpin(self, int64_t before) noexcept nogil

    # `durable` with acquire order. Any thread.
    cdef int64_t durable(self) noexcept nogil
    # True for ever after the first failure. Any thread.
    cdef bint poisoned(self) noexcept nogil
    # What the reactor does around its sleep, to spare the flusher's signals while it is awake:
    # reactor_sleeps() first, then a last look at durable(), then sleep; reactor_wakes() after.
    cdef void reactor_sleeps(self) noexcept nogil
    cdef void reactor_wakes(self) noexcept nogil

    # Retention. First readable offset; first segment's last modification (ms since 1970, or < 0).
    cdef int64_t min_offset(self) noexcept nogil
    cdef int64_t first_segment_modified_ms(self) noexcept nogil
    # Takes the oldest segment out of the log; the preparer removes its file, or recycles it when
    # the next segment is not prepared yet. OK | NOT_FOUND (only the one being written is left) |
    # NOT_READY (not durable yet, or too many removals wait).
    cdef int drop_first_segment(self) noexcept nogil

    # For recovery, between load() and set_end(). The index-th segment mapped whole, or NULL. Pages
    # not in memory are read by the fault; prefer read_log() where the disk may be bad. The pointer
    # is good until `limit` other segments have been mapped in later turns (new_turn()).
    cdef const uint8_t* map_segment(self, int64_t index) noexcept nogil
    cdef int64_t segment_count(self) noexcept nogil
    cdef int64_t segment_start(self, int64_t index) noexcept nogil
    # pread of the files, any thread: count (short at the log's end) | status < 0.
    cdef int64_t read_log(self, int64_t offset, uint8_t* out, uint64_t size) noexcept nogil
    cpdef int set_end(self, int64_t end, bint zero_rest=*) except -1

    cdef uint8_t* reserve_slowly(self, uint32_t max_bytes, int* status) noexcept nogil
    # Whether the next segment can be entered: OK | NOT_READY | NO_SPACE.
    cdef int next_segment(self) noexcept nogil
    # Looks at the room there is now, and asks for more (and the next segment) if it is time to.
    cdef void look_for_room(self, int64_t end) noexcept nogil
    # Asks for all of the active segment and the next one, or for room as it is used.
    cdef void ask_for_room(self, int64_t end) noexcept nogil
    cdef int roll(self) noexcept nogil
    cdef void hand_over(self) noexcept nogil
    cdef int write_range(self, int64_t end, int64_t mark, uint32_t terminator) noexcept nogil
    cdef int touch_ahead(self, int64_t end, int64_t bytes) noexcept nogil
    cdef int write_failed(self, int error, int64_t offset) noexcept nogil
    cdef int settle_files(self, int64_t end, bint zero_rest) except -1
    # `room`: offset up to which the segment has blocks.
    cdef int activate(self, int64_t start, int fd, int64_t room) noexcept nogil


# Where the segment of an offset ends. Any thread.
cdef inline int64_t segment_end(CommitLog log, int64_t offset) noexcept nogil:
    return offset - offset % log.segment_bytes + log.segment_bytes
