"""The commit log: what reserve, commit, write_out, view and the marks promise is in commit_log.pxd.

Two rules keep the hot path at a few nanoseconds. `limit` is the lowest offset at which something
must be checked (segment end, unwritten bytes, bytes that a view holds): below it reserve() is one
comparison and a look at the poison. And [written, appended) never crosses a segment's end: a roll
writes the old segment out first, so that write_out() is always one pwrite to one file.

    >>> log = CommitLog("/store/commitlog", segment_bytes=1 << 30)
    >>> log.load(); log.set_end(0)
"""

import mmap
import os
import re
from pathlib import Path

from libc.stdint cimport INT64_MAX
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset, strlen

from cext.base.atomics cimport (
    fence, load_acquire_i32, load_acquire_i64, load_acquire_u64, store_release_i32,
    store_release_i64)
from cext.base.byteorder cimport load_u32
from cext.base.check cimport check, debug_check
from cext.base.clock cimport monotonic_us
from cext.base.status cimport Status, raise_status
from cext.base.sysio cimport (
    close_file, event_open, event_signal, read_at, sync_data, write_at, write_zeros)
from cext.base.thread_owner cimport thread_check
from cext.base.watermark cimport watermark_move
from cext.memory.mirror_ring cimport mirror_ring_at, mirror_ring_close, mirror_ring_open
from cext.memory.region cimport region_lock, region_prefer_node
from cext.store.log.log_link cimport (
    DROPS_MAX, FILE_PATH_MAX, HANDLES_MAX, LOG_PATH_MAX, OPERATION_WRITE, log_is_poisoned,
    log_offer, log_poison, log_push_commit, log_push_drop, log_push_handle, log_wake_flusher,
    log_want_room, log_want_segment)
from cext.store.log.record cimport (
    RECORD_BYTES_LIMIT, RECORD_BYTES_MIN, TERMINATOR_BYTES, RecordView, record_parse,
    record_write_blank)
from cext.store.log.segment cimport (
    SEGMENT_ROOM_BYTES, segment_open, segment_path, segment_prepare, segment_settle)
from cext.store.log.segment_map cimport (
    segment_map_close, segment_map_drop, segment_map_find, segment_map_init, segment_map_new_turn,
    segment_map_view)

from rmq.base.durable_directory import make_directory, sync_directory
from rmq.errors import StoreCorruptError, StoreError

cdef extern from "<unistd.h>" nogil:
    int usleep(unsigned int us)

cdef extern from "<sys/stat.h>" nogil:
    cdef struct c_timespec "timespec":
        long tv_sec
        long tv_nsec
    cdef struct c_stat "stat":
        c_timespec st_mtim
    int c_stat_path "stat" (const char* path, c_stat* out)

cdef enum:
    CLAIM_PART = 16                 # 1/16 of the ring is claimed at once
    AHEAD_PART = 4                  # after a write of 1/4 of ahead_bytes no zeros are written
    NEARLY_FULL_PART = 4            # nearly full: 1/4 of a segment is left, ...
    NEARLY_FULL_BYTES = 16777216    # ... or this much, which 64 connections may have sent already
    NEARLY_ROOM_BYTES = SEGMENT_ROOM_BYTES // 2
    ROOM_FIRST_ASK_BYTES = 262144   # written after a start before more room is asked for
    ROOM_GROWTH = 16                # room is asked for 16 times what the segment holds
    ROOM_WHOLE_PART = 8             # when 1/8 of a segment is used, all of it is asked for

cdef const char* WRITTEN_BACK = b"the log: `written` never moves back"
cdef const char* APPENDED_BACK = b"the log: `appended` never moves back"

OPERATIONS = {1: "pwrite", 2: "fdatasync", 3: "fsync of the directory"}
SEGMENT_NAME = re.compile(r"\d{20}")


cdef class CommitLog:
    def __cinit__(self, str directory, int64_t segment_bytes=1 << 30, int64_t ring_bytes=16 << 20,
                  int64_t max_record_bytes=(4 << 20) + (64 << 10), int mappings=16,
                  bint pooled=False, bint warm=False, int32_t node=-1, int64_t ahead_bytes=0):
        cdef int error = 0
        cdef uint64_t size = 1 << 16
        cdef bytes path = os.fsencode(directory.rstrip("/"))
        if segment_bytes < 4096:
            raise ValueError(f"segment_bytes {segment_bytes}: at least 4096")
        if not 0 < max_record_bytes <= 1 << 30:
            raise ValueError(f"max_record_bytes {max_record_bytes}: 1 to 2**30")
        if not path.startswith(b"/") or len(path) > LOG_PATH_MAX - 64:
            raise ValueError(
                f"directory {directory!r}: absolute, at most {LOG_PATH_MAX - 64} bytes")
        # Half of the ring can be appended to while views hold the other half.
        while size < <uint64_t>ring_bytes or size < 2 * <uint64_t>(max_record_bytes + 64):
            size *= 2
        self.directory = directory.rstrip("/")
        self.segment_bytes = segment_bytes
        self.max_record_bytes = max_record_bytes
        self.active_fd = self.link.ready_fd = -1
        self.link.flusher_event = self.link.preparer_event = self.link.notify_event = -1
        self.link.committer_event = -1
        self.pooled = pooled
        self.ahead_bytes = ahead_bytes
        self.link.marks = &self.marks
        self.link.segment_bytes = segment_bytes
        self.link.warm = warm
        self.link.wanted_start = self.link.ready_start = -1
        memcpy(self.link.directory, <const char*>path, len(path))
        path += b".spare"
        memcpy(self.link.spare_directory, <const char*>path, len(path))
        if mirror_ring_open(&self.ring, size) != Status.OK:
            raise StoreError(f"no memory for a tail of {size} bytes")
        if node >= 0:                       # a refusal is reported with that of the arena
            region_prefer_node(self.ring.base, size, node, &error)
        self.ring_locked = region_lock(self.ring.base, size, &error) == Status.OK
        error = 0                           # the limit may be small; rmq.broker reports it
        self.window_bytes = size // 2
        self.pinned_low = INT64_MAX
        segment_map_init(&self.map, self.link.directory, segment_bytes, mappings)
        self.link.flusher_event = event_open(&error)
        self.link.preparer_event = event_open(&error)
        self.link.notify_event = event_open(&error)
        if pooled:
            self.link.committer_event = event_open(&error)
        if error != 0:
            raise StoreError(f"eventfd: {os.strerror(error)}")

    def __dealloc__(self):
        self.close()

    def close(self) -> None:
        """Releases files and memory; flusher and preparer must have stopped. Writes nothing."""
        cdef uint64_t i
        for i in range(self.link.handles_popped, self.link.handles_pushed):
            close_file(self.link.handles[i & (HANDLES_MAX - 1)].fd)
        self.link.handles_popped = self.link.handles_pushed
        if self.link.ready_start > self.active_start:
            close_file(self.link.ready_fd)
        self.link.ready_fd = self.active_fd = -1
        self.limit = 0
        self.opened = False
        close_file(self.link.flusher_event)
        close_file(self.link.preparer_event)
        close_file(self.link.notify_event)
        close_file(self.link.committer_event)
        self.link.committer_event = -1
        self.link.flusher_event = self.link.preparer_event = self.link.notify_event = -1
        segment_map_close(&self.map)
        mirror_ring_close(&self.ring)

    # ---- writing -------------------------------------------------------------------------------

    cdef uint8_t* reserve(self, uint32_t max_bytes, int* status) noexcept nogil:
        if self.marks.appended + max_bytes <= self.limit and not log_is_poisoned(&self.link):
            self.reserved = max_bytes
            status[0] = Status.OK
            return mirror_ring_at(&self.ring, <uint64_t>self.marks.appended)
        return self.reserve_slowly(max_bytes, status)

    cdef uint8_t* reserve_slowly(self, uint32_t max_bytes, int* status) noexcept nogil:
        cdef int64_t low
        self.reserved = 0
        if log_is_poisoned(&self.link):
            status[0] = Status.POISONED
            return NULL
        if not self.opened:
            status[0] = Status.CLOSED
            return NULL
        if (max_bytes > self.max_record_bytes
                or <int64_t>max_bytes + TERMINATOR_BYTES > self.segment_bytes):
            status[0] = Status.TOO_LARGE
            return NULL
        self.look_for_room(self.marks.appended + max_bytes + TERMINATOR_BYTES)
        if self.marks.appended + max_bytes + TERMINATOR_BYTES > self.active_end:
            status[0] = self.roll()
            if status[0] != Status.OK:
                return NULL
        if self.marks.appended + max_bytes + TERMINATOR_BYTES > self.room_end:
            status[0] = Status.NOT_READY
            if load_acquire_i32(&self.link.room_status) == Status.NO_SPACE:
                status[0] = Status.NO_SPACE
            return NULL
        low = self.marks.written if self.marks.written < self.pinned_low else self.pinned_low
        low += <int64_t>self.ring.size
        if self.marks.appended + max_bytes + TERMINATOR_BYTES > self.link.claimed:
            watermark_move(&self.link.claimed, self.marks.appended + max_bytes
                           + TERMINATOR_BYTES + <int64_t>self.ring.size // CLAIM_PART,
                           b"the log: what the ring is claimed for never moves back")
            fence()             # others see the claim before any byte that is written there
        low = min(low, min(min(self.room_end, self.ask_at), self.link.claimed))
        self.limit = low - TERMINATOR_BYTES
        if self.marks.appended + max_bytes > self.limit:
            status[0] = Status.RING_FULL
            return NULL
        self.reserved = max_bytes
        status[0] = Status.OK
        return mirror_ring_at(&self.ring, <uint64_t>self.marks.appended)

    cdef void commit(self, uint32_t bytes) noexcept nogil:
        check(<int64_t>bytes <= self.reserved, b"the log: more bytes than were reserved", bytes,
              self.reserved)
        thread_check(&self.link.reactor, b"the log: it is appended to by the reactor")
        debug_check(self.marks.appended + bytes + TERMINATOR_BYTES <= self.room_end,
                    b"the log: a record ends before its file's room does",
                    self.marks.appended + bytes, self.room_end)
        debug_check(self.marks.appended + bytes + TERMINATOR_BYTES <= self.link.claimed,
                    b"the log: a record ends before what the ring is claimed for does",
                    self.marks.appended + bytes, self.link.claimed)
        self.reserved -= bytes
        self.marks.appended += bytes

    cdef bint nearly_full(self) noexcept nogil:
        cdef int64_t low = min(self.segment_bytes // NEARLY_FULL_PART, <int64_t>NEARLY_FULL_BYTES)
        if not self.opened or log_is_poisoned(&self.link):
            return False
        if self.marks.appended + low > self.active_end:
            return self.next_segment() == Status.NOT_READY
        low = min(low, <int64_t>NEARLY_ROOM_BYTES)
        return (self.room_end < self.active_end and self.marks.appended + low > self.room_end
                and self.marks.appended + low > load_acquire_i64(&self.link.room)
                and load_acquire_i64(&self.link.wanted_room) > self.room_end
                and load_acquire_i32(&self.link.room_status) != Status.NO_SPACE)

    cdef bint awaits_room(self, int64_t bytes) noexcept nogil:
        cdef int64_t end = self.marks.appended + bytes + TERMINATOR_BYTES
        return (self.room_end < end <= self.active_end
                and load_acquire_i64(&self.link.room) < end
                and end <= load_acquire_i64(&self.link.wanted_room)
                and load_acquire_i32(&self.link.room_status) == Status.OK
                and not log_is_poisoned(&self.link))

    cdef bint wait_for_room(self, int64_t bytes, int64_t timeout_us) noexcept nogil:
        cdef int64_t until = monotonic_us() + timeout_us
        while self.awaits_room(bytes):
            if monotonic_us() > until:
                return False
            usleep(50)
        return True

    cdef void look_for_room(self, int64_t end) noexcept nogil:
        if self.room_end < self.active_end:
            # link.room may still be that of the segment before: then room_end stays.
            self.room_end = min(self.active_end,
                                max(self.room_end, load_acquire_i64(&self.link.room)))
        check(self.room_end <= self.active_end, b"the log: a file's room ends where it does",
              self.room_end, self.active_end)
        if end > self.ask_at:
            self.ask_for_room(min(end, self.active_end))

    cdef void ask_for_room(self, int64_t end) noexcept nogil:
        cdef int64_t used = end - self.active_start
        cdef int64_t ahead = SEGMENT_ROOM_BYTES + ROOM_GROWTH * used
        if used >= self.segment_bytes // ROOM_WHOLE_PART or end + ahead >= self.active_end:
            self.ask_at = INT64_MAX
            log_want_room(&self.link, self.active_end)
            log_want_segment(&self.link, self.active_end)
        else:
            self.ask_at = end + ahead // 2
            log_want_room(&self.link, end + ahead)
        event_signal(self.link.preparer_event)

    cdef int next_segment(self) noexcept nogil:
        if load_acquire_i64(&self.link.ready_start) != self.active_end:
            if load_acquire_i32(&self.link.prepare_status) == Status.NO_SPACE:
                return Status.NO_SPACE
            return Status.NOT_READY
        # There must also be room to hand the active segment over.
        if self.link.handles_pushed - load_acquire_u64(&self.link.handles_popped) >= HANDLES_MAX:
            return Status.NOT_READY
        if self.pooled and (self.link.commit_pushed - load_acquire_u64(&self.link.commit_popped)
                            >= HANDLES_MAX):
            return Status.NOT_READY
        return Status.OK

    cdef int roll(self) noexcept nogil:
        """Finishes the active segment and enters the next one, if that is prepared."""
        cdef int64_t end = self.active_end
        cdef int status = self.next_segment()       # before anything is changed
        if status != Status.OK:
            return status
        check(self.active_start <= self.marks.appended <= end - TERMINATOR_BYTES,
              b"the log: its end lies in the active file, before its last 8 bytes",
              self.marks.appended, end)
        record_write_blank(mirror_ring_at(&self.ring, <uint64_t>self.marks.appended),
                           <uint32_t>(end - self.marks.appended))
        self.marks.appended += TERMINATOR_BYTES
        # The rest after the BLANK's head is filler: it counts as written, but never is.
        if self.pooled:
            self.link.commit_handles[(self.link.commit_pushed - 1) & (HANDLES_MAX - 1)].data_end = \
                self.marks.appended
        else:
            status = self.write_range(self.marks.appended, end, 0)
            if status != Status.OK:
                return status
        watermark_move(&self.marks.appended, end, APPENDED_BACK)
        status = self.activate(end, self.link.ready_fd, end + self.segment_bytes)
        check(status == Status.OK, b"the log: room to hand a file over was there before", status,
              end)
        if self.pooled:
            self.hand_over()
        log_wake_flusher(&self.link)
        self.rolls += 1
        return Status.OK

    cdef int activate(self, int64_t start, int fd, int64_t room) noexcept nogil:
        """Makes the segment at `start` the active one. If it has all of its blocks, the next
        segment is asked for at once; else later, together with the rest of this one's blocks."""
        self.active_start = start
        self.active_end = start + self.segment_bytes
        self.active_fd = fd
        self.touched = self.active_end if self.link.ready_touched else start
        self.limit = 0
        if not log_push_handle(&self.link, start, fd):
            return Status.NOT_READY
        if self.pooled and not log_push_commit(&self.link, start, fd):
            return Status.NOT_READY
        self.room_end = room
        # If the disk was full at the start, there may be less room than that.
        self.ask_at = min(self.marks.appended + ROOM_FIRST_ASK_BYTES, room)
        if room == self.active_end:
            self.ask_at = INT64_MAX
            log_want_room(&self.link, 0)
            log_want_segment(&self.link, self.active_end)
            event_signal(self.link.preparer_event)
        return Status.OK

    cdef void hand_over(self) noexcept nogil:
        """With a pool: offers what is appended to the committer, and copies how far it has written
        to `written`."""
        cdef int64_t committed = load_acquire_i64(&self.link.committed)
        check(committed <= self.link.committable,
              b"the store pool: what is committed was offered", committed, self.link.committable)
        if self.marks.appended != self.link.committable:
            log_offer(&self.link, self.marks.appended)
        if committed > self.marks.written:
            watermark_move(&self.marks.written, committed, WRITTEN_BACK)
            log_wake_flusher(&self.link)

    cdef bint commit_moved(self) noexcept nogil:
        return self.pooled and load_acquire_i64(&self.link.committed) > self.marks.written

    cdef bint wait_for_commit(self, int64_t timeout_us) noexcept nogil:
        cdef int64_t until = monotonic_us() + timeout_us
        while not self.commit_moved():
            if (log_is_poisoned(&self.link) or self.marks.appended == self.marks.written
                    or monotonic_us() > until):
                return False
            usleep(50)
        return True

    cdef int write_out(self) noexcept nogil:
        cdef int64_t start = self.marks.written
        cdef int64_t room
        cdef int status
        thread_check(&self.link.reactor, b"the log: it is written by the reactor")
        if log_is_poisoned(&self.link):
            return Status.POISONED
        check(self.marks.written <= self.marks.appended,
              b"the log: what is written was appended", self.marks.written, self.marks.appended)
        if self.pooled:
            self.hand_over()
            return Status.OK
        if self.marks.appended == self.marks.written:
            return Status.OK
        room = self.active_end - self.marks.appended
        if room > TERMINATOR_BYTES:
            room = TERMINATOR_BYTES
        memset(mirror_ring_at(&self.ring, <uint64_t>self.marks.appended), 0, <size_t>room)
        status = self.write_range(self.marks.appended, self.marks.appended, <uint32_t>room)
        if status == Status.OK and self.ahead_bytes > 0 and self.marks.written > self.touched:
            status = self.touch_ahead(self.marks.written + room, self.marks.written - start)
        if status == Status.OK and not self.holds_flusher:
            log_wake_flusher(&self.link)
        return status

    cdef void wake_flusher(self) noexcept nogil:
        log_wake_flusher(&self.link)

    cdef int write_range(self, int64_t end, int64_t mark, uint32_t terminator) noexcept nogil:
        """Writes [written, end) and the terminator to the active segment; `written` becomes `mark`.
        """
        cdef int error = 0
        cdef uint64_t done = 0
        cdef int64_t start = self.marks.written
        cdef int status = write_at(
            self.active_fd, mirror_ring_at(&self.ring, <uint64_t>start),
            <uint64_t>(end - start) + terminator, start - self.active_start, &error, &done)
        self.writes += 1
        if status != Status.OK:
            return self.write_failed(error, start + <int64_t>done)
        watermark_move(&self.marks.written, mark, WRITTEN_BACK)
        return Status.OK

    cdef int write_failed(self, int error, int64_t offset) noexcept nogil:
        cdef char path[FILE_PATH_MAX]
        segment_path(path, FILE_PATH_MAX, self.link.directory, self.active_start)
        log_poison(&self.link, OPERATION_WRITE, error, offset, path)
        return Status.POISONED

    cdef int touch_ahead(self, int64_t end, int64_t bytes) noexcept nogil:
        """Writes zeros from `end` on, after a write of `bytes` bytes that came to blocks never
        written before."""
        cdef int64_t to = min(self.room_end, end - end % self.ahead_bytes + self.ahead_bytes)
        cdef int error = 0
        # A large write is worth its own commit of metadata; writing it twice would cost more.
        if bytes >= self.ahead_bytes // AHEAD_PART:
            self.touched = end
            return Status.OK
        self.touched = to
        if write_zeros(self.active_fd, end - self.active_start, to - end, &error) != Status.OK:
            return self.write_failed(error, end)
        return Status.OK

    # ---- reading -------------------------------------------------------------------------------

    cdef int view(self, int64_t offset, uint32_t size, const uint8_t** out) noexcept nogil:
        cdef int64_t end = offset + size
        cdef int64_t low = self.marks.appended - self.window_bytes
        cdef int64_t in_segment
        thread_check(&self.link.reactor, b"the log: views are given to the reactor")
        if offset < 0 or size == 0 or end > self.marks.appended:
            return Status.CORRUPT
        if offset < self.link.min_offset:
            return Status.NOT_FOUND
        if low < self.ring_low:
            low = self.ring_low
        in_segment = offset % self.segment_bytes
        if in_segment + size > self.segment_bytes:
            return Status.CORRUPT
        # Bytes not written yet are always in the ring, however old (reserve() takes care of that).
        if offset >= low or offset >= self.marks.written:
            if offset < self.pinned_low:
                self.pinned_low = offset
                self.limit = 0
            out[0] = mirror_ring_at(&self.ring, <uint64_t>offset)
            return Status.OK
        return segment_map_view(&self.map, offset - in_segment, in_segment, size, out)

    cdef void new_turn(self) noexcept nogil:
        self.pinned_low = INT64_MAX
        segment_map_new_turn(&self.map)

    cdef void unpin(self, int64_t before) noexcept nogil:
        if self.pinned_low != before:
            self.pinned_low = before
            self.limit = 0

    cdef int64_t durable(self) noexcept nogil:
        return load_acquire_i64(&self.marks.durable)

    cdef bint poisoned(self) noexcept nogil:
        return log_is_poisoned(&self.link)

    cdef void reactor_sleeps(self) noexcept nogil:
        store_release_i32(&self.link.reactor_awake, 0)
        fence()

    cdef void reactor_wakes(self) noexcept nogil:
        store_release_i32(&self.link.reactor_awake, 1)

    cdef int64_t read_log(self, int64_t offset, uint8_t* out, uint64_t size) noexcept nogil:
        cdef int64_t end = load_acquire_i64(&self.marks.written)
        cdef int64_t got = 0
        cdef int64_t count
        cdef int64_t in_segment
        cdef int error
        cdef int fd
        if offset < load_acquire_i64(&self.link.min_offset):
            return Status.NOT_FOUND
        if offset >= end:
            return 0
        if <int64_t>size > end - offset:
            size = <uint64_t>(end - offset)
        while got < <int64_t>size:
            in_segment = (offset + got) % self.segment_bytes
            count = self.segment_bytes - in_segment
            if count > <int64_t>size - got:
                count = <int64_t>size - got
            fd = segment_open(self.link.directory, offset + got - in_segment, self.segment_bytes,
                              False, &error)
            if fd < 0:
                return fd
            count = read_at(fd, out + got, <uint64_t>count, in_segment, &error)
            close_file(fd)
            if count <= 0:
                return Status.IO_ERROR
            got += count
        # A segment dropped meanwhile may already hold other bytes, which is known only now.
        if offset < load_acquire_i64(&self.link.min_offset):
            return Status.NOT_FOUND
        return got

    # ---- retention -----------------------------------------------------------------------------

    cdef int64_t min_offset(self) noexcept nogil:
        return load_acquire_i64(&self.link.min_offset)

    cdef int64_t first_segment_modified_ms(self) noexcept nogil:
        cdef char path[FILE_PATH_MAX]
        cdef c_stat out
        segment_path(path, FILE_PATH_MAX, self.link.directory, self.link.min_offset)
        if c_stat_path(path, &out) != 0:
            return Status.IO_ERROR
        return <int64_t>out.st_mtim.tv_sec * 1000 + out.st_mtim.tv_nsec // 1000000

    cdef int drop_first_segment(self) noexcept nogil:
        cdef int64_t start = self.link.min_offset
        cdef int64_t end = start + self.segment_bytes
        if start >= self.active_start:
            return Status.NOT_FOUND
        if load_acquire_i64(&self.marks.durable) < end or not drops_have_room(self):
            return Status.NOT_READY
        # Readers must stop using the segment before its bytes may change.
        watermark_move(&self.link.min_offset, end, b"the log: its beginning never moves back")
        segment_map_drop(&self.map, start)
        check(log_push_drop(&self.link, start), b"the log: room for a file that is dropped", start,
              end)
        return Status.OK

    # ---- opening -------------------------------------------------------------------------------

    cdef int64_t segment_count(self) noexcept nogil:
        return (self.active_end - self.link.min_offset) // self.segment_bytes

    cdef int64_t segment_start(self, int64_t index) noexcept nogil:
        return self.link.min_offset + index * self.segment_bytes

    cdef const uint8_t* map_segment(self, int64_t index) noexcept nogil:
        cdef uint8_t* base = NULL
        if index < 0 or index >= self.segment_count():
            return NULL
        if segment_map_find(&self.map, self.segment_start(index), &base) != Status.OK:
            return NULL
        return base

    def load(self) -> int:
        """Finds the segments and returns their number. Each must have the exact size and follow the
        one before; a last one of length zero is removed. No record is read. Until set_end() the log
        can be read up to the end of the last segment."""
        if self.opened:
            raise StoreError("load: the log is already open")
        make_directory(Path(self.directory))
        starts = sorted(int(name) for name in os.listdir(self.directory)
                        if SEGMENT_NAME.fullmatch(name))
        if starts and os.path.getsize(self.path_of(max(starts))) == 0:
            os.unlink(self.path_of(starts.pop()))
        for index, start in enumerate(starts):
            path = self.path_of(start)
            size = os.path.getsize(path)
            if size != self.segment_bytes:
                raise StoreCorruptError(
                    f"{path}: {size} bytes, but mappedFileSizeCommitLog is {self.segment_bytes}")
            if start % self.segment_bytes or start != starts[0] + index * self.segment_bytes:
                raise StoreCorruptError(
                    f"{path}: the segments before it end at "
                    f"{starts[0] + index * self.segment_bytes}, not here")
        first = starts[0] if starts else 0
        end = first + len(starts) * self.segment_bytes
        store_release_i64(&self.link.min_offset, first)
        self.active_start = end - self.segment_bytes if starts else first
        self.active_end = end
        self.marks.appended = self.ring_low = end
        store_release_i64(&self.marks.written, end)
        return len(starts)

    def forget_pages(self, int64_t since):
        """Makes later reads take the log from `since` on, which may not have been synced, from the
        disk. After a failed write-back the kernel shows the pages until it needs their memory.
        StoreError: a write-back has failed that was not reported before."""
        cdef int64_t start
        for start in range(max(self.link.min_offset, since - since % self.segment_bytes),
                           self.active_end, self.segment_bytes):
            fd = os.open(self.path_of(start), os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fdatasync(fd)
                at = max(0, since - start)
                os.posix_fadvise(fd, at - at % mmap.PAGESIZE, 0, os.POSIX_FADV_DONTNEED)
            except OSError as error:
                raise StoreError(f"{self.path_of(start)}: {error.strerror}: what a killed process "
                                 "has written did not reach the disk; the next start takes what "
                                 "did") from None
            finally:
                os.close(fd)

    cpdef int set_end(self, int64_t end, bint zero_rest=True) except -1:
        """Ends the log at `end`: everything after it is lost, all marks become `end`, and the log
        can be written. Before it returns, all bytes below `end` have been synced (a killed process
        leaves dirty pages) and, with `zero_rest`, the rest of the segment reads as zeros. That is
        needed after anything but a clean stop, because a record that was once cut off could
        otherwise appear again after a later one. Without `zero_rest` only 8 bytes are zeroed."""
        cdef int64_t first = self.link.min_offset
        if self.opened:
            raise StoreError("set_end: the log is already open")
        if not first <= end <= self.active_end:
            raise ValueError(f"set_end({end}): the log has {first} .. {self.active_end}")
        if 0 < self.segment_bytes - end % self.segment_bytes < TERMINATOR_BYTES:
            raise StoreCorruptError(f"end {end} is inside the last 8 bytes of a segment")
        self.settle_files(end, zero_rest)
        self.marks.appended = self.marks.dispatched = self.ring_low = end
        self.marks.replicated = 0
        self.marks.visible = INT64_MAX
        store_release_i64(&self.link.claimed, end)
        store_release_i64(&self.marks.written, end)
        store_release_i64(&self.marks.durable, end)
        store_release_i64(&self.link.committable, end)
        store_release_i64(&self.link.committed, end)
        self.pinned_low = INT64_MAX
        self.opened = True
        return 0

    cdef int settle_files(self, int64_t end, bint zero_rest) except -1:
        """Makes the files fit `end`: the active segment exists and is open, and none follows it."""
        cdef int64_t active = end - end % self.segment_bytes
        cdef int64_t start
        cdef int64_t room = self.segment_bytes      # of the active segment
        cdef int64_t least = max(<int64_t>SEGMENT_ROOM_BYTES, 2 * self.max_record_bytes)
        cdef int error = 0
        cdef int fd = -1
        cdef int status
        cdef bint directory_failed = False
        # From the last one down, so that a crash in between leaves no gap.
        for past in reversed(range(active + self.segment_bytes, self.active_end,
                                   self.segment_bytes)):
            os.unlink(self.path_of(past))
        for name in os.listdir(self.spare_directory()) if os.path.isdir(
                self.spare_directory()) else ():
            os.unlink(f"{self.spare_directory()}/{name}")
        for start in range(self.link.min_offset, min(active + self.segment_bytes, self.active_end),
                           self.segment_bytes):
            fd = segment_open(self.link.directory, start, self.segment_bytes, True, &error)
            raise_status(fd, self.path_of(start))
            status = Status.OK
            if start == active:
                status = segment_settle(fd, end - active, self.segment_bytes, least, zero_rest,
                                        &room, &error)
            if status == Status.OK:
                status = sync_data(fd, &error)
            if status != Status.OK or start != active:
                close_file(fd)
            raise_status(status, f"{self.path_of(start)}: {os.strerror(error)}")
        if active >= self.active_end:
            status = segment_prepare(
                self.link.directory, self.link.spare_directory, active, self.segment_bytes,
                least, -1, self.link.warm, &fd, &error, &directory_failed)
            if not self.link.warm:
                room = min(self.segment_bytes, least)
            raise_status(status, f"{self.path_of(active)}: {os.strerror(error)}")
        sync_directory(self.directory)
        self.link.room = active + room
        self.marks.appended = end
        raise_status(self.activate(active, fd, self.link.room),
                     f"{self.directory}: no room to hand over the active file")
        return 0

    def path_of(self, int64_t start) -> str:
        """Path of the segment that starts at `start`."""
        return f"{self.directory}/{start:020d}"

    def spare_directory(self) -> str:
        """The directory for files that are not segments of the log, or not yet."""
        return f"{self.directory}.spare"

    # ---- any thread, with the GIL --------------------------------------------------------------

    def poison_cause(self) -> "tuple[str, int, str, int] | None":
        """(operation, errno, path, offset) of the first failure; None while there is none."""
        if not self.poisoned():
            return None
        operation = OPERATIONS.get(self.link.poison.operation, "?")
        path = self.link.poison.path[:strlen(self.link.poison.path)]
        return operation, self.link.poison.error, os.fsdecode(path), self.link.poison.offset

    def read_record(self, int64_t offset, int or_fail=0) -> "bytes | None":
        """The whole record at `offset`, below `written`, checked (position, lengths, body CRC).
        None when there is none, or when the disk cannot be read; with `or_fail` the latter raises a
        StoreError. May wait for the disk; the GIL is released."""
        cdef uint8_t head[8]
        cdef uint8_t* data
        cdef int64_t count
        cdef uint64_t size
        cdef RecordView view
        cdef int status
        if offset < 0:
            return None
        with nogil:
            count = self.read_log(offset, head, 8)
        if or_fail and count == Status.IO_ERROR:
            raise StoreError(f"the log cannot be read at {offset} now")
        size = load_u32(head) if count == 8 else 0
        if size < RECORD_BYTES_MIN or size > RECORD_BYTES_LIMIT or (
                offset % self.segment_bytes + <int64_t>size > self.segment_bytes):
            return None
        data = <uint8_t*>malloc(size)
        if data == NULL:
            raise MemoryError(f"a record of {size} bytes")
        try:
            with nogil:
                count = self.read_log(offset, data, size)
                status = Status.NOT_FOUND
                if count == <int64_t>size:
                    status = record_parse(data, size, offset, True, &view)
            if or_fail and count == Status.IO_ERROR:
                raise StoreError(f"the log cannot be read at {offset} now")
            return data[:size] if status == Status.OK else None
        finally:
            free(data)


cdef bint drops_have_room(CommitLog log) noexcept nogil:
    return log.link.drops_pushed - load_acquire_u64(&log.link.drops_popped) < DROPS_MAX
