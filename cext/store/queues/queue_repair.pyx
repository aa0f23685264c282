"""Queue repair. See queue_repair.pxd."""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memset
from posix.unistd cimport close

import os

from cext.base.atomics cimport load_acquire_i32, load_acquire_i64, store_release_i32
from cext.base.native_thread cimport NativeBody, native_thread_join, native_thread_start
from cext.base.status cimport Status
from cext.base.sysio cimport event_open, event_signal, event_wait
from cext.memory.spsc_ring cimport spsc_close, spsc_open, spsc_pop, spsc_push, spsc_put
from cext.store.log.commit_log cimport segment_end
from cext.store.log.log_link cimport log_notify
from cext.store.queues.consume_queue cimport (
    QUEUE_ENTRY_BYTES, QueueEntry, queue_entry_check, queue_entry_is_blank, queue_entry_load,
    queue_entry_store)
from cext.store.queues.tags_code cimport tags_code_of
from cext.wire.codes cimport (
    TRANSACTION_PREPARED_TYPE, TRANSACTION_ROLLBACK_TYPE, TRANSACTION_TYPE_MASK,
)
from cext.wire.limits cimport DELAY_LEVELS_MAX

from rmq.errors import StoreError

cdef enum:
    PROBE_BYTES = 16 << 10
    SCAN_BYTES = 1 << 20
    FILES = 8
    BLOCK_ENTRIES = 204
    PROBES_MAX = 4096               # entries tried that do not name their record


cdef inline bint is_record_of(const Repair* r, const RecordView* view) noexcept nogil:
    return (view.queue_id == r.queue_id and view.topic_bytes == <uint32_t> r.topic_length
            and memcmp(view.topic, r.topic, view.topic_bytes) == 0)


cdef struct Candidate:              # a record of the queue, kept until the next one is seen
    int64_t offset                  # queue offset; -1: none
    int64_t physical
    int32_t size
    int64_t tags_code


cdef void take(Repair* r, const Candidate* c, int64_t preceding, int64_t following,
               bint sure, int64_t* last) noexcept nogil:
    """Makes the entry of a record whose queue offset fits that of the record before or after it
    (-1: none). No checksum covers the queue offset, and a flipped bit in it would put the record in
    the place of another."""
    cdef int64_t at = c.offset - r.first
    if c.offset < 0 or (c.offset != preceding + 1 and c.offset != following - 1
                        and not (c.offset == 0 and following < 0)):
        return
    if c.offset <= last[0]:
        if sure:
            return
        memset(r.marks, ENTRY_MISSING, <size_t> r.count)    # the topic was made anew
    last[0] = c.offset
    if 0 <= at < r.count:
        queue_entry_store(r.entries + at * QUEUE_ENTRY_BYTES, c.physical, c.size, c.tags_code)
        r.marks[at] = ENTRY_NEW


@cython.no_gc_clear                  # __dealloc__ needs the object's fields
cdef class QueueRepair:
    """The reactor calls ask() and the methods beside it; everything else is the thread's."""

    def __cinit__(self, CommitLog log not None, directory, int64_t entries_per_file,
                  delay_levels_ms):
        cdef int error = 0
        self.wake_fd = -1
        self.log = log
        self.probe = LogCursor(log, PROBE_BYTES)
        self.scan = LogCursor(log, SCAN_BYTES)
        self.files = QueueFiles(directory, entries_per_file, FILES, False)
        self.levels.count = min(len(delay_levels_ms), <int> DELAY_LEVELS_MAX)
        for i in range(self.levels.count):
            self.levels.milliseconds[i] = delay_levels_ms[i]
        if (spsc_open(&self.requests, REPAIRS_MAX) != Status.OK
                or spsc_open(&self.results, REPAIRS_MAX) != Status.OK):
            raise MemoryError("no memory for the repair of queue files")
        self.wake_fd = event_open(&error)
        if self.wake_fd < 0:
            raise OSError(error, "eventfd for the repair of queue files")

    def __dealloc__(self):
        cdef int i
        for i in range(REPAIRS_MAX):
            free(self.slots[i].entries)
            free(self.slots[i].marks)
        if self.wake_fd >= 0:
            close(self.wake_fd)
        spsc_close(&self.requests)
        spsc_close(&self.results)

    def start(self) -> None:
        cdef int error = 0
        store_release_i32(&self.stopping, 0)
        if native_thread_start(&self.thread, <NativeBody> run_repairs, <void*> self,
                               b"rmq-repair", &error) != Status.OK:
            raise StoreError(f"thread for the repair of queue files: {os.strerror(error)}")

    def stop(self) -> None:
        """Ends the thread. A repair that was under way is asked for again by the next pull that
        meets the place."""
        if self.thread.running:
            store_release_i32(&self.stopping, 1)
            event_signal(self.wake_fd)
            with nogil:
                native_thread_join(&self.thread)

    # ---- the reactor's side

    cdef int recent_status(self, uint64_t serial, int64_t offset, int64_t now_ms) noexcept nogil:
        cdef int found = Status.ABSENT
        cdef int i
        for i in range(RECENT_REPAIRS_MAX):
            if (self.recent[i].serial == serial and now_ms < self.recent[i].until_ms
                    and self.recent[i].from_offset <= offset < self.recent[i].to_offset):
                if self.recent[i].status == Status.CORRUPT:
                    return Status.CORRUPT
                if found != Status.NOT_READY:
                    found = self.recent[i].status
        return found

    cdef void note_recent(self, const Repair* r, int64_t now_ms) noexcept nogil:
        cdef RecentRepair* v = &self.recent[self.next_recent]
        self.next_recent = (self.next_recent + 1) % RECENT_REPAIRS_MAX
        v.serial = r.serial
        v.from_offset = r.missing_from
        v.to_offset = r.missing_to
        v.until_ms = now_ms + RECENT_REPAIR_MS
        v.status = r.status
        if r.status == Status.OK or r.status == Status.CORRUPT:
            return
        v.status = Status.NOT_READY
        if r.count > 0:                     # none of these could be made anew either
            v.from_offset = r.first
            v.to_offset = r.first + r.count

    cdef Repair* slot_for(self, uint64_t serial) noexcept nogil:
        cdef Repair* found = NULL
        cdef int i
        for i in range(REPAIRS_MAX):
            if self.slots[i].state == REPAIR_FREE:
                found = &self.slots[i]
            elif self.slots[i].serial == serial:
                return &self.slots[i]
        return found

    cdef bint ask(self, Repair* r) noexcept nogil:
        if not self.thread.running or not spsc_push(&self.requests, r):
            return False
        repair_move(r, REPAIR_LOOKING)
        self.busy += 1
        event_signal(self.wake_fd)
        return True

    cdef Repair* answer(self) noexcept nogil:
        return <Repair*> spsc_pop(&self.results)

    cdef void free_slot(self, Repair* r) noexcept nogil:
        free(r.entries)
        free(r.marks)
        r.entries = r.marks = NULL
        repair_move(r, REPAIR_FREE)
        self.busy -= 1

    # ---- the thread

    cdef void run(self) noexcept nogil:
        cdef Repair* r
        while not load_acquire_i32(&self.stopping):
            r = <Repair*> spsc_pop(&self.requests)
            if r == NULL:
                event_wait(self.wake_fd, -1)
                continue
            self._do(r)
            spsc_put(&self.results, r, b"queue repair: as many places as slots")
            log_notify(&self.log.link)

    cdef void _do(self, Repair* r) noexcept nogil:
        cdef QueueName name
        cdef int64_t low_physical = 0
        cdef int64_t high_physical = r.high_physical
        cdef int64_t low_offset, high_offset
        name.topic = r.topic
        name.queue_id = r.queue_id
        name.serial = r.serial
        r.entries = r.marks = NULL
        r.repaired = r.count = 0
        r.missing_from = r.offset
        r.missing_to = r.offset + 1
        self.files.forget(r.serial)             # the file may be another one by now
        self.probe.window.copy_next_piece()     # and the log must be read anew
        r.status = self._judge(r, &name)
        if r.status == Status.OK or r.status == Status.CORRUPT:
            return
        r.first = max(r.low, r.offset - BEFORE_ENTRIES)
        r.count = min(r.high - r.first, <int64_t> REPAIR_ENTRIES)
        r.entries = <uint8_t*> malloc(<size_t> r.count * QUEUE_ENTRY_BYTES)
        r.marks = <uint8_t*> calloc(<size_t> r.count, 1)
        r.status = Status.POOL_EMPTY
        if r.entries == NULL or r.marks == NULL:
            r.count = 0
            return
        low_offset = self._search(r, &name, r.first - 1, r.low - 1, &low_physical)
        high_offset = self._search(r, &name, r.first + r.count, r.high, &high_physical)
        if high_offset < 0 and r.first + r.count == r.high:
            high_offset = r.high            # the first entry in memory
        r.status = self._read_log(r, low_physical, high_physical, low_offset, high_offset)
        if r.status == Status.OK:
            self._compare(r, &name)
        self.files.forget(r.serial)

    cdef bint _names_its_record(self, const Repair* r, const uint8_t* raw, int64_t offset,
                                RecordView* view) noexcept nogil:
        cdef QueueEntry entry
        queue_entry_load(raw, &entry)
        return (not queue_entry_is_blank(&entry)
                and queue_entry_check(
                    &entry, load_acquire_i64(&self.log.marks.written)) == Status.OK
                and self.probe.at(entry.physical_offset, view) == Status.OK
                and view.total_bytes == <uint32_t> entry.size and view.queue_offset == offset
                and is_record_of(r, view))

    cdef int _judge(self, Repair* r, const QueueName* name) noexcept nogil:
        """OK: nothing is wrong (any more) | CORRUPT: the record is wrong | NOT_READY: the entry is.
        """
        cdef uint8_t raw[QUEUE_ENTRY_BYTES]
        cdef QueueEntry entry
        cdef RecordView view
        cdef int64_t written = load_acquire_i64(&self.log.marks.written)
        cdef int64_t end
        cdef int status
        if self.files.read_entries(name, r.offset, 1, False, raw) != 1:
            return Status.NOT_READY
        if self._names_its_record(r, raw, r.offset, &view):
            return Status.OK
        queue_entry_load(raw, &entry)
        if queue_entry_is_blank(&entry):
            return Status.OK                    # there is no message at this offset
        if queue_entry_check(&entry, written) != Status.OK:
            return Status.NOT_READY
        status = self.probe.at(entry.physical_offset, &view)
        # The entry names a whole record of another place, or one that cannot be read now: the log
        # around it will tell.
        if status == Status.OK or status == Status.IO_ERROR or status == Status.POOL_EMPTY:
            return Status.NOT_READY
        end = entry.physical_offset + entry.size
        if end < written and end != segment_end(self.log, entry.physical_offset):
            status = self.probe.at(end, &view)
            if status != Status.OK and status != Status.ABSENT:
                return Status.NOT_READY
        return Status.CORRUPT if self._in_order(r, name, entry.physical_offset, entry.size) \
            else Status.NOT_READY

    cdef bint _in_order(self, Repair* r, const QueueName* name, int64_t physical,
                        int32_t size) noexcept nogil:
        """Whether the entries before and after this one name records before and after its record in
        the log."""
        cdef uint8_t raw[QUEUE_ENTRY_BYTES]
        cdef QueueEntry entry
        if r.offset > r.low and self.files.read_entries(name, r.offset - 1, 1, False, raw) == 1:
            queue_entry_load(raw, &entry)
            if not queue_entry_is_blank(&entry) and (
                    entry.size <= 0 or entry.physical_offset + entry.size > physical):
                return False
        if r.offset + 1 < r.high and self.files.read_entries(name, r.offset + 1, 1, False,
                                                             raw) == 1:
            queue_entry_load(raw, &entry)
            if not queue_entry_is_blank(&entry) and (
                    entry.size <= 0 or entry.physical_offset < physical + size):
                return False
        return True

    cdef int64_t _search(self, const Repair* r, const QueueName* name, int64_t at, int64_t stop,
                         int64_t* physical) noexcept nogil:
        """The nearest entry that names its record, from `at` to before `stop`, which may be lower
        than `at`; or -1. Its record ends (going down) or begins (going up) at `physical`."""
        cdef uint8_t entries[BLOCK_ENTRIES * QUEUE_ENTRY_BYTES]
        cdef RecordView view
        cdef int64_t step = 1 if stop > at else -1
        cdef int64_t start = 0, count = 0
        cdef int probes = 0
        while at != stop and probes < PROBES_MAX and not load_acquire_i32(&self.stopping):
            if not start <= at < start + count:
                start = at if step > 0 else max(at - BLOCK_ENTRIES + 1, stop + 1,
                                                at - at % self.files.entries_per_file)
                count = self.files.read_entries(name, start, BLOCK_ENTRIES, False, entries)
                if count <= 0 or at >= start + count:
                    # There are no entries: on to the next file, or to the next block of this one.
                    count = 0
                    if step < 0:
                        at = start - 1
                    else:
                        at = min(stop, at - at % self.files.entries_per_file
                                 + self.files.entries_per_file)
                    continue
            if self._names_its_record(r, entries + (at - start) * QUEUE_ENTRY_BYTES, at, &view):
                physical[0] = view.physical_offset
                if step < 0:
                    physical[0] += view.total_bytes
                return at
            probes += 1
            at += step
        return -1

    cdef int _read_log(self, Repair* r, int64_t low, int64_t high, int64_t low_offset,
                       int64_t high_offset) noexcept nogil:
        """Makes the entries of the queue's records in [low, high), which are between the records of
        two queue offsets. If there is no lower one (-1), records of an older queue of the same name
        may come first."""
        cdef RecordView view
        cdef Candidate before
        cdef bint sure = low_offset >= 0
        cdef int64_t preceding = low_offset, last = low_offset
        cdef int64_t seen = 0
        cdef int kind
        cdef int status
        before.offset = -1
        self.scan.window.copy_next_piece()
        self.scan.seek(low)
        while True:
            seen += 1
            if seen % 1024 == 1 and load_acquire_i32(&self.stopping):
                return Status.CLOSED
            status = self.scan.next(&view)
            if status == Status.NOT_READY or (status == Status.OK and view.physical_offset >= high):
                take(r, &before, preceding, high_offset, sure, &last)
                return Status.OK
            if status != Status.OK:
                return status
            kind = view.sys_flag & TRANSACTION_TYPE_MASK
            if (kind == TRANSACTION_PREPARED_TYPE or kind == TRANSACTION_ROLLBACK_TYPE
                    or not is_record_of(r, &view)):
                continue
            take(r, &before, preceding, view.queue_offset, sure, &last)
            if before.offset >= 0:
                preceding = before.offset
            if sure and last >= r.first + r.count - 1:
                return Status.OK
            before.offset = view.queue_offset
            before.physical = view.physical_offset
            before.size = <int32_t> view.total_bytes
            before.tags_code = tags_code_of(&view, &self.levels)

    cdef void _compare(self, Repair* r, const QueueName* name) noexcept nogil:
        """Compares with the file: equal entries need not be written, and entries for which the log
        has no record are noted as missing."""
        cdef uint8_t entries[BLOCK_ENTRIES * QUEUE_ENTRY_BYTES]
        cdef QueueEntry entry
        cdef RecordView view
        cdef int64_t at = 0, i, count, room
        while at < r.count:
            room = min(r.count - at, <int64_t> BLOCK_ENTRIES)
            count = self.files.read_entries(name, r.first + at, <int32_t> room, False, entries)
            count = max(count, <int64_t> 0)
            for i in range(count):
                if r.marks[at + i] == ENTRY_NEW and memcmp(
                        entries + i * QUEUE_ENTRY_BYTES,
                        r.entries + (at + i) * QUEUE_ENTRY_BYTES, QUEUE_ENTRY_BYTES) == 0:
                    r.marks[at + i] = ENTRY_SAME
            at += count if count > 0 else min(
                room, self.files.entries_per_file - (r.first + at) % self.files.entries_per_file)
        for i in range(r.count):
            r.repaired += r.marks[i] == ENTRY_NEW
        at = r.offset - r.first
        if r.marks[at] == ENTRY_SAME:           # if anything is wrong, it is the record
            queue_entry_load(r.entries + at * QUEUE_ENTRY_BYTES, &entry)
            r.status = self.probe.at(entry.physical_offset, &view)
            if r.status == Status.NOT_FOUND or r.status == Status.ABSENT:
                r.status = Status.CORRUPT
        if r.marks[at] != ENTRY_MISSING:
            return
        r.status = Status.CORRUPT
        while r.missing_from > r.first and r.marks[r.missing_from - 1 - r.first] == ENTRY_MISSING:
            r.missing_from -= 1
        while r.missing_to < r.first + r.count and r.marks[r.missing_to - r.first] == ENTRY_MISSING:
            r.missing_to += 1


cdef void run_repairs(QueueRepair repair) noexcept nogil:
    repair.run()
