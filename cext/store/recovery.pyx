"""How recovery chooses a row and follows it: all rows are in recovery.pxd."""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy, memset

import os

from cext.base.clock cimport monotonic_us, wall_ms
from cext.base.status cimport Status, raise_status
from cext.store.deleted_topics cimport Deleted, DeletedTopics
from cext.store.known_end cimport (
    find_known_end, keep_known_end, note_clean_end, note_persisted_ends)
from cext.store.log.checkpoint cimport CheckpointFields, checkpoint_write
from cext.store.log.checkpoint import boot_id
from cext.store.log.commit_log cimport CommitLog
from cext.store.log.log_progress cimport LogProgress
from cext.store.log.log_scan cimport LogScan
from cext.store.log.record cimport RecordView
from cext.store.queues.consume_queue cimport (
    BLANK_SIZE, QUEUE_ENTRY_BYTES, Queue, QueueEnds, queue_entry_store, queue_release,
    topic_is_valid)
from cext.store.queues.queue_ends cimport EndsEntry, EndsHeader, ends_header, ends_next
from cext.store.queues.queue_files cimport QueueName, name_of
from cext.store.queues.queue_scan cimport (
    QueueState, check_queue, cut_queue, first_entry, scan_queue, trim_files,
)
from cext.store.queues.queue_store cimport QueueStore
from cext.store.queues.tags_code cimport DelayLevels, tags_code_of
from cext.wire.codes cimport (
    TRANSACTION_PREPARED_TYPE, TRANSACTION_ROLLBACK_TYPE, TRANSACTION_TYPE_MASK,
)
from cext.wire.limits cimport DELAY_LEVELS_MAX

from rmq.errors import StoreError

REBOOTED = "the machine was started since"
# 1s 5s 10s 30s 1m .. 10m 20m 30m 1h 2h: RocketMQ's messageDelayLevel.
DELAY_LEVELS_MS = (1_000, 5_000, 10_000, 30_000, *(m * 60_000 for m in range(1, 11)), 1_200_000,
                   1_800_000, 3_600_000, 7_200_000)

cdef enum:
    CHECKPOINT_SLACK_MS = 3_000
    DAY_MS = 86_400_000
    GAP_BLANKS_MAX = 1_000_000

cdef int GAP = -1000                # dispatch: the queue ends below the record's offset
cdef int MISFIT = -1001             # dispatch: a record reaches over the start


@cython.no_gc_clear                  # __dealloc__ needs all that it has
cdef class Recovery:
    """One use: made, run, thrown away. Calling thread only; the writer has not been started."""
    cdef CommitLog log
    cdef QueueStore queues
    cdef LogScan scan
    cdef DelayLevels levels
    cdef QueueState* states         # owned; by Queue.index
    cdef int64_t state_count, state_slots
    cdef int64_t table_start, table_anchor
    cdef int64_t log_min, log_limit  # first byte of the log; end of its last segment
    cdef int64_t start              # entries below are believed, records from here on dispatched
    cdef int64_t scan_from          # start of the scan, <= start
    cdef bint everything            # S10: nothing is believed; gaps are filled with blanks
    cdef bint thorough              # pages of queue files may be of different age
    cdef bint from_table            # A1: queueEnds was believed
    cdef CheckpointFields checkpoint
    cdef bytes boot
    cdef int64_t anchor             # record that ends at `start`; -1: not known
    cdef int64_t highest            # end of the highest record any queue names; -1: none
    cdef int64_t highest_anchor     # its start
    cdef int64_t dispatched, unqueued, gaps, cut, last_store_ms, rebuilt
    cdef LogProgress progress
    cdef DeletedTopics deleted
    cdef int64_t known_end          # where the log once reached
    cdef str row, root
    cdef list notes

    def __cinit__(self, CommitLog log, QueueStore queues, delay_levels_ms, bint check_crc,
                  dict deleted, str root):
        self.log, self.root, self.queues, self.notes = log, root, queues, []
        self.boot = boot_id()
        self.checkpoint = queues.checkpoint
        self.known_end = find_known_end(root, &self.checkpoint, self.boot)
        self.levels.count = min(len(delay_levels_ms), <int> DELAY_LEVELS_MAX)
        for i in range(self.levels.count):
            self.levels.milliseconds[i] = delay_levels_ms[i]
        self.log_min = log.min_offset()
        self.log_limit = log.segment_start(log.segment_count())
        self.scan = LogScan(log, check_crc)
        note_persisted_ends(self.scan, root, &self.checkpoint, self.boot)
        self.deleted, self.progress = DeletedTopics(deleted), LogProgress()

    def __dealloc__(self):
        free(self.states)

    # ---- the queue files as they are

    def find_queues(self):
        """Opens every queue that has a directory."""
        names = []
        for topic in sorted(os.listdir(self.queues.directory)):
            inner = os.path.join(self.queues.directory, topic)
            if not topic_is_valid(topic, <int32_t> len(topic)) or not os.path.isdir(inner):
                self.notes.append(f"not a topic: {os.fsdecode(inner)}")
                continue
            for number in os.listdir(inner):
                if number.isdigit() and int(number) < 1 << 31 and b"%d" % int(number) == number:
                    names.append((topic, int(number)))
                else:
                    self.notes.append(f"not a queue: {os.fsdecode(inner)}/{os.fsdecode(number)}")
        for topic, number in names:
            if self.queues.open_queue(topic, <int32_t> len(topic), number) == NULL:
                raise MemoryError("no memory for the queues")
        self.grow_states()

    cdef int grow_states(self) except -1:
        """A state for each queue; what is known of their ends stays."""
        cdef int64_t count = self.queues.queue_top
        cdef void* memory
        if count < self.state_slots:
            self.state_count = max(self.state_count, count)
            return 0
        memory = realloc(self.states, <size_t> (2 * count + 1024) * sizeof(QueueState))
        if memory == NULL:
            raise MemoryError("no memory for the queues")
        self.states = <QueueState*> memory
        memset(self.states + self.state_slots, 0,
               <size_t> (2 * count + 1024 - self.state_slots) * sizeof(QueueState))
        self.state_slots = 2 * count + 1024
        self.state_count = count
        return 0

    def search_ends(self):
        """Without queueEnds: where the entries of each queue seem to end."""
        cdef Queue* queue
        cdef QueueName name
        cdef int64_t i
        cdef int status
        self.highest = self.highest_anchor = -1
        for i in range(self.state_count):
            queue = self.queues.queues[i]
            name = name_of(queue)
            with nogil:
                status = scan_queue(self.queues.sync_files, &name, &self.states[i])
            self.check(status, queue, &self.states[i])
            if self.states[i].mended:
                self.notes.append(f"Q3/Q4 last file mended: {self.name(queue)}")
            if self.states[i].damaged:
                self.note_damage(queue, &self.states[i], "Q5" if self.states[i].garbled_offset < 0
                                 else "Q8")
            elif self.states[i].last_physical >= 0:
                if self.states[i].last_physical + self.states[i].last_size > self.highest:
                    self.highest = self.states[i].last_physical + self.states[i].last_size
                    self.highest_anchor = self.states[i].last_physical

    # ---- what the files must hold

    def use_ends(self) -> bool:
        """A1: takes the newest queueEnds that counts. False: there is none."""
        for suffix, row in ((b"", "S4"), (b".synced", "S5")):
            path = self.queues.writer.ends_name + suffix
            try:
                with open(path, "rb") as file:
                    data = file.read()
            except OSError:
                continue
            problem = self.take_ends(data, row)
            if not problem:
                self.from_table = True
                self.anchor = self.table_anchor
                self.begin(row, self.table_start)
                return True
            if problem != REBOOTED:
                self.notes.append(f"A1 {os.fsdecode(path)}: {problem}; it is not believed")
        return False

    def take_ends(self, bytes data, str row) -> str:
        """Notes the entries with the queues; what is wrong with the file, or nothing."""
        cdef const uint8_t* bytes_of = <const uint8_t*> <const char*> data
        cdef EndsHeader header
        cdef EndsEntry entry
        cdef Queue* queue
        cdef int64_t at = 0
        if not ends_header(bytes_of, len(data), &header):
            return "it is damaged"
        if row == "S4" and (memcmp(header.boot_id, <const char*> self.boot, 16) != 0
                            or self.boot == bytes(16)):
            return REBOOTED
        self.table_start = max(self.log_min, header.log_offset)
        self.table_anchor = header.anchor
        if not self.is_boundary(self.table_start, header.anchor):
            return f"no record ends at log offset {self.table_start}"
        while ends_next(bytes_of, len(data), &at, &entry):
            queue = self.queues.open_queue(entry.topic, entry.topic_length, entry.queue_id)
            if queue == NULL:
                continue                # the checksum is right: memory is out
            if queue.index >= self.state_count:
                self.grow_states()
            self.states[queue.index].known = 1
            self.states[queue.index].ends = entry.ends
        return ""

    def read_ends(self):
        """A3: the log says what lies below the start."""
        cdef int status
        self.notes.append(f"A3 the log is read from {self.log_min} to {self.start} to see what the "
                          f"queue files must hold")
        with nogil:
            status = self.read_log()
        self.check_scan(status)
        self.scan = self.scan.anew()

    cdef int read_log(self) noexcept nogil:
        cdef RecordView view
        cdef int status
        cdef int kind
        self.scan.seek(self.log_min)
        self.progress.begin(self.log_min, self.start)
        while self.scan.position < self.start:
            if self.scan.position >= self.progress.look_at:
                self.progress.look(self.scan.position)
            status = self.scan.next(&view)
            if status != Status.OK:
                return <int> Status.OK if status == Status.NOT_READY else status
            kind = view.sys_flag & TRANSACTION_TYPE_MASK
            if kind != TRANSACTION_PREPARED_TYPE and kind != TRANSACTION_ROLLBACK_TYPE \
                    and view.queue_offset >= 0 \
                    and not self.deleted.has(&view) \
                    and view.physical_offset + view.total_bytes <= self.start:
                status = self.note_record(&view)
                if status != Status.OK:
                    return status
        return Status.OK

    cdef int note_record(self, const RecordView* view) noexcept nogil:
        cdef Queue* queue = self.queues.find_queue(
            <const char*> view.topic, <int32_t> view.topic_bytes, view.queue_id)
        cdef QueueState* state
        if queue == NULL:
            # No directory: deleted with its topic. Or lost, and then S3 has all dispatched.
            return Status.OK
        state = &self.states[queue.index]
        if not state.known or view.queue_offset < state.ends.end_offset:
            state.known = 1                 # lower: the topic was made anew (Q6)
            state.ends.min_offset = view.queue_offset
            state.ends.first_physical = view.physical_offset
        state.ends.end_offset = view.queue_offset + 1
        state.ends.last_physical = view.physical_offset
        state.ends.last_size = <int32_t> view.total_bytes
        return Status.OK

    cdef str name(self, Queue* queue):
        return f"{queue.topic[:queue.topic_length].decode('ascii')}/{queue.queue_id}"

    cdef str path(self, Queue* queue, int64_t offset):
        """Its directory, or the file and the byte in it where the entry of an offset stands."""
        cdef int64_t per_file = self.queues.entries_per_file
        directory = f"{os.fsdecode(self.queues.directory)}/{self.name(queue)}"
        if offset < 0:
            return directory
        return (f"{directory}/{offset // per_file * per_file * QUEUE_ENTRY_BYTES:020d}:"
                f"{offset % per_file * QUEUE_ENTRY_BYTES}")

    cdef int check(self, int status, Queue* queue, QueueState* state) except -1:
        """A file that was listed and cannot be found is damage: the log has what it held."""
        if status == Status.NOT_FOUND:
            state.damaged = 1
        elif status < 0:
            errno = self.queues.sync_files.last_errno
            raise StoreError(f"consume queue {self.name(queue)} under "
                             f"{os.fsdecode(self.queues.directory)}: {os.strerror(errno)}")
        return 0

    cdef note_damage(self, Queue* queue, const QueueState* state, str row):
        cdef int64_t offset = state.garbled_offset
        what = f"damaged at offset {offset}"
        if offset < 0:
            what = "files are missing or of a wrong length"
        self.notes.append(f"{row} {self.path(queue, offset)}: {what}; the queue is made anew from "
                          f"the log")

    # ---- where dispatch starts

    def choose_start(self, bint clean):
        cdef bint same_boot = (memcmp(self.checkpoint.boot_id, <const char*> self.boot, 16) == 0
                               and self.boot != bytes(16))
        cdef int64_t with_files
        self.thorough = not same_boot
        if self.use_ends():
            if clean and not self.checkpoint.own_valid:
                note_clean_end(self.scan, self.queues)
            return None
        self.search_ends()
        with_files = sum(1 for i in range(self.state_count) if self.states[i].first_file >= 0)
        if with_files == 0:
            return self.begin("S2", self.log_min)
        if self.checkpoint.own_valid:
            self.start = max(self.log_min, self.checkpoint.persisted_offset if same_boot
                             else self.checkpoint.synced_offset)
            self.anchor = (self.checkpoint.persisted_anchor if same_boot
                           else self.checkpoint.synced_anchor)
            if not self.is_boundary(self.start, self.anchor):
                self.notes.append(f"S9: no record boundary at {self.start}")
                return self.start_by_time("S9")
            if with_files < self.checkpoint.queue_count:
                self.notes.append(f"{with_files} queues with files, the checkpoint counted "
                                  f"{self.checkpoint.queue_count}")
                self.scan_from = self.log_min
                self.row = "S3"
                return None
            return self.begin("S4" if same_boot else "S5", self.start)
        if clean and self.highest > self.log_min:
            self.thorough = False
            self.begin("S6", self.highest)
            self.anchor = self.highest_anchor
            if not self.is_boundary(self.highest, self.anchor):
                self.notes.append(f"S9: no record of the queues ends at {self.highest}")
                return self.start_by_time("S9")
            self.scan.note_persisted_end(self.highest)
            self.scan_from = self.highest - 1 - (self.highest - 1) % self.log.segment_bytes
            return None
        return self.start_by_time("")

    cdef begin(self, str row, int64_t start, bint everything=False):
        self.row, self.start, self.everything = row, max(start, self.log_min), everything
        self.scan_from = self.start

    def start_by_time(self, str row):
        """S7, S8: RocketMQ's rule, the newest segment whose leading message is old enough."""
        cdef int64_t written_ms = min(self.checkpoint.physic_ms, self.checkpoint.logics_ms)
        cdef int64_t limit_ms = 0
        cdef int64_t i
        cdef RecordView view
        self.thorough = True
        self.anchor = -1
        # A checkpoint of the future is a garbled one: it would vouch for everything.
        if 0 < written_ms <= wall_ms() + DAY_MS:
            limit_ms = written_ms - CHECKPOINT_SLACK_MS
        for i in range(self.log.segment_count() - 1, -1, -1):
            if (self.scan.peek(self.log.segment_start(i), &view) == Status.OK
                    and 0 < view.store_timestamp_ms <= limit_ms):
                self.begin(row or "S7", self.log.segment_start(i))
                return
        self.begin(row or "S8", self.log_min)

    cdef bint is_boundary(self, int64_t offset, int64_t anchor):
        """Does a record (or a segment) start at `offset`, or the last record end there?"""
        cdef RecordView view
        if offset == self.log_min or (offset % self.log.segment_bytes == 0
                                      and self.log_min <= offset <= self.log_limit):
            return True
        if not self.log_min < offset < self.log_limit:
            return False
        if (self.log_min <= anchor < offset and self.scan.peek(anchor, &view) == Status.OK
                and anchor + <int64_t> view.total_bytes == offset):
            return True
        # The anchor itself may be damaged; a record at the offset proves as much.
        return self.scan.peek(offset, &view) == Status.OK

    # ---- dispatching

    def prepare_queues(self):
        """Cuts every queue at the start and gives it its range."""
        cdef Queue* queue
        cdef QueueState* state
        cdef QueueName name
        cdef int64_t i, end, low
        cdef int status = Status.OK
        for i in range(self.state_count):
            queue = self.queues.queues[i]
            state = &self.states[i]
            if self.is_gone(queue, state):
                self.remove(queue, state)
                continue
            if state.damaged or self.everything or self.row == "S2":
                self.rebuild(queue, state)
                continue
            if state.known:
                self.compare(queue, state)
                continue
            name = name_of(queue)
            if self.from_table:
                # All of it is above the start, or it is not what was left here.
                with nogil:
                    status = scan_queue(self.queues.sync_files, &name, state)
                self.check(status, queue, state)
            elif state.last_physical >= self.start and not self.thorough and not self.is_own(
                    queue, state):
                state.garbled_offset = state.end_offset - 1
                self.note_damage(queue, state, "Q8")
                self.rebuild(queue, state)
                continue
            end = state.end_offset
            with nogil:
                status = cut_queue(self.queues.sync_files, &name, state, self.start,
                                   self.thorough or self.from_table)
            self.check(status, queue, state)
            if state.damaged or (self.from_table and state.end_offset > 0):
                self.note_damage(queue, state, "Q8")
                self.rebuild(queue, state)
                continue
            self.cut += end - state.end_offset
            with nogil:
                low = self.lowest(&name, state)
            if low == Status.CORRUPT or low == Status.NOT_FOUND:
                state.garbled_offset = state.first_file * self.queues.entries_per_file
                self.note_damage(queue, state, "Q8")
                self.rebuild(queue, state)
                continue
            self.check(<int> min(low, <int64_t> 0), queue, state)
            self.queues.set_range(queue, low, state.end_offset, state.first_file >= 0)
            # Without a file nothing below the start is there either.
            queue.rebuilt_from = self.start if state.first_file >= 0 else 0

    cdef int compare(self, Queue* queue, QueueState* state) except -1:
        """The files hold what is known, and the queue has its range from that; or it is rebuilt."""
        cdef QueueName name = name_of(queue)
        cdef QueueEnds ends = state.ends
        cdef int64_t searched = state.end_offset
        cdef int status
        with nogil:
            status = check_queue(self.queues.sync_files, &name, self.log_min, state)
        self.check(status, queue, state)
        if state.damaged:
            self.note_damage(queue, state, "Q9")
            self.rebuild(queue, state)
            return 0
        if state.mended:
            self.notes.append(f"Q3/Q4 file of a wrong length mended: {self.path(queue, -1)}")
        self.cut += max(searched - ends.end_offset, <int64_t> 0)
        self.queues.set_range(queue, state.min_offset, ends.end_offset, state.first_file >= 0)
        if state.min_offset == ends.min_offset:
            self.queues.writer.set_filed(queue, &ends)
        # An entry may know more than the start says.
        queue.rebuilt_from = max(self.start, ends.last_physical + 1)
        return 0

    cdef bint is_gone(self, const Queue* queue, QueueState* state) noexcept nogil:
        """Q11: nothing below the start belongs to the queue. An entry of queueEnds may be of the
        time before the deletion."""
        cdef Deleted* d = self.deleted.of_queue(queue)
        cdef RecordView view
        if d == NULL:
            return False
        if state.known:
            if state.ends.last_physical >= d.below or state.ends.last_physical < 0 \
                    or self.scan.peek(state.ends.last_physical, &view) != Status.OK \
                    or view.queue_id != queue.queue_id \
                    or view.topic_bytes != <uint32_t> queue.topic_length \
                    or memcmp(view.topic, queue.topic, view.topic_bytes) != 0 \
                    or not self.deleted.has(&view):
                return False
            state.known = 0
        # What was stored since lies above the start, or the log was read for it.
        return not self.from_table or d.below >= self.start

    cdef bint is_own(self, Queue* queue, const QueueState* state) noexcept nogil:
        """Whether the last entry's record is what the entry says. On the same boot the log has
        every record that any queue names: an entry beyond the start that names none is garbled, and
        to cut it would lose the record it stood for."""
        cdef RecordView view
        return (self.scan.peek(state.last_physical, &view) == Status.OK
                and view.queue_offset == state.end_offset - 1 and view.queue_id == queue.queue_id
                and view.topic_bytes == <uint32_t> queue.topic_length
                and memcmp(view.topic, queue.topic, view.topic_bytes) == 0)

    cdef int rebuild(self, Queue* queue, QueueState* state) except -1:
        """Q5, Q8: the queue's files go; it is dispatched from the log's start."""
        self.remove(queue, state)
        if not self.everything and self.start > self.log_min:
            self.scan_from = self.log_min
        self.rebuilt += 1
        return 0

    cdef int remove(self, Queue* queue, QueueState* state) except -1:
        cdef QueueName name = name_of(queue)
        cdef int status
        with nogil:
            status = self.queues.sync_files.remove_queue(&name)
        self.check(status, queue, state)
        state.damaged = state.mended = 0
        state.end_offset = state.min_offset = 0
        state.first_file = state.last_file = state.last_physical = state.garbled_offset = -1
        self.queues.set_range(queue, 0, 0, False)
        queue.rebuilt_from = 0
        return 0

    cdef int64_t lowest(self, const QueueName* name, QueueState* state) noexcept nogil:
        """First offset whose record is still in the log; old files go."""
        cdef int64_t low = state.end_offset
        cdef int64_t high
        cdef int status
        if state.first_file < 0:
            return low
        if state.first_file < state.last_file:
            status = trim_files(self.queues.sync_files, name, self.log_min, state.end_offset, &low)
            return status if status < 0 else low
        high = state.end_offset - state.first_file * self.queues.entries_per_file
        low = first_entry(self.queues.sync_files, name, state.first_file, 0, high, self.log_min)
        return low if low < 0 else low + state.first_file * self.queues.entries_per_file

    cdef int dispatch_all(self) noexcept nogil:
        """From scan_from to the end of the log. OK, GAP, MISFIT or a failure."""
        cdef RecordView view
        cdef int status
        self.scan.seek(self.scan_from)
        self.progress.begin(self.scan_from, self.log_limit)
        while True:
            if self.scan.position >= self.progress.look_at:
                self.progress.look(self.scan.position)
            status = self.scan.next(&view)
            if status == Status.NOT_READY:
                return Status.OK
            if status != Status.OK:
                return status
            self.last_store_ms = max(self.last_store_ms, view.store_timestamp_ms)
            if view.physical_offset < self.start < view.physical_offset + view.total_bytes:
                return MISFIT
            status = self.dispatch(&view)
            if status != Status.OK:
                return status

    cdef int dispatch(self, const RecordView* view) noexcept nogil:
        cdef Queue* queue
        cdef int kind = view.sys_flag & TRANSACTION_TYPE_MASK
        cdef int status
        if (kind == TRANSACTION_PREPARED_TYPE or kind == TRANSACTION_ROLLBACK_TYPE
                or self.deleted.has(view)):
            return Status.OK
        queue = self.queues.find_queue(<const char*> view.topic, <int32_t> view.topic_bytes,
                                       view.queue_id)
        if queue == NULL and self.from_table and view.physical_offset < self.start:
            return Status.OK                    # its topic was deleted
        if queue == NULL:
            queue = self.queues.open_queue(<const char*> view.topic, <int32_t> view.topic_bytes,
                                           view.queue_id)
        if queue == NULL or view.queue_offset < 0:
            self.unqueued += 1
            return Status.OK
        if view.physical_offset < queue.rebuilt_from:
            return Status.OK
        if view.queue_offset < queue.max_offset:
            status = self.cut_at(queue, view.queue_offset)          # Q6
            if queue.index < self.state_count:
                self.states[queue.index].known = 0
            if status != Status.OK:
                return status
        elif view.queue_offset > queue.max_offset:
            if queue.min_offset < queue.max_offset:
                if not self.everything and self.scan.damage_count == 0:
                    return GAP                                      # S10
                status = self.fill_gap(queue, view.queue_offset)
                if status != Status.OK:
                    return status
            else:
                self.queues.set_range(queue, view.queue_offset, view.queue_offset,
                                      queue.has_file)
                queue_release(queue, &self.queues.pool, 0)
        self.dispatched += 1
        return self.queues.append(queue, view.physical_offset, <int32_t> view.total_bytes,
                                  tags_code_of(view, &self.levels))

    cdef int fill_gap(self, Queue* queue, int64_t offset) noexcept nogil:
        """Records between are damaged or were never written: blanks keep the offsets right."""
        cdef int status
        self.gaps += 1
        if offset - queue.max_offset > GAP_BLANKS_MAX:
            return self.cut_at(queue, offset)
        while queue.max_offset < offset:
            status = self.queues.make_room(queue)
            if status != Status.OK:
                return status
            queue_entry_store(queue.write_at, 0, BLANK_SIZE, 0)
            queue.write_at += QUEUE_ENTRY_BYTES
            queue.max_offset += 1
        if not queue.dirty:
            self.queues.mark_dirty(queue)
        return Status.OK

    cdef int cut_at(self, Queue* queue, int64_t offset) noexcept nogil:
        """The queue now ends at `offset`: entries from there on go, from memory and files. An
        offset above the end leaves nothing of the queue: it starts there."""
        cdef QueueName name = name_of(queue)
        cdef int64_t per_file = self.queues.entries_per_file
        cdef int64_t file
        cdef int status = self.queues._persist_here(queue)
        if status != Status.OK:
            return status
        queue_release(queue, &self.queues.pool, 0)
        # Descriptors the writer or reader may hold must not outlive their file.
        self.queues.writer.files.forget(queue.serial)
        self.queues.reader_files.forget(queue.serial)
        if offset <= queue.min_offset or offset > queue.max_offset:
            status = self.queues.sync_files.remove_queue(&name)
            self.queues.set_range(queue, offset, offset, False)
            return status
        for file in range((queue.max_offset - 1) // per_file, offset // per_file - 1, -1):
            if file * per_file >= offset:
                status = self.queues.sync_files.remove_file(&name, file)
            else:
                status = self.queues.sync_files.clear_from(&name, offset)
            if status != Status.OK and status != Status.NOT_FOUND:
                return status
        self.queues.set_range(queue, queue.min_offset, offset, True)
        return Status.OK

    # ---- the whole

    def run(self, bint clean) -> dict:
        cdef int status
        cdef int64_t began = monotonic_us()
        self.find_queues()
        if self.log.segment_count() == 0:
            self.begin("S1", 0, True)
        else:
            if not clean and self.checkpoint.own_valid:
                self.log.forget_pages(self.checkpoint.synced_offset)
            self.choose_start(clean)
            if not self.from_table and self.start > self.log_min:
                self.read_ends()
        self.prepare_queues()
        with nogil:
            status = self.dispatch_all()
        if status == GAP or status == MISFIT:
            status = self.start_over("a queue lacks entries below it" if status == GAP
                                     else "no record starts")
        self.check_scan(status)
        if self.cut_beyond():
            self.check_scan(self.start_over("it ends, and a queue is damaged there"))
        self.keep_offsets()
        dispatch_from = self.start
        if self.scan.position < self.known_end:
            keep_known_end(self.root, self.known_end)
        self.finish(clean)
        return self.report(clean, dispatch_from, (monotonic_us() - began) // 1000)

    cdef int start_over(self, str why) except 1:
        cdef int status
        self.notes.append(f"S10: at log offset {self.scan.position} {why}")
        self.drop_memory()
        self.begin("S10", self.log_min, True)
        self.scan = self.scan.anew()
        self.dispatched = self.unqueued = self.cut = self.rebuilt = 0
        self.find_queues()
        self.prepare_queues()
        with nogil:
            status = self.dispatch_all()
        return status

    def drop_memory(self):
        """Forgets every entry in memory: the queues are empty again."""
        cdef int64_t i
        cdef Queue* queue
        for i in range(self.queues.queue_top):
            queue = self.queues.queues[i]
            if queue != NULL:
                queue.persisted_offset = queue.handed_offset = queue.max_offset
                queue_release(queue, &self.queues.pool, 0)
                queue.dirty = 0
                self.queues.set_range(queue, 0, 0, False)
                self.queues.writer.files.forget(queue.serial)
        self.queues.dirty_count = 0

    def check_scan(self, int status):
        if status == Status.OK:
            return
        failure = self.queues.failure()
        raise_status(status, f"commit log {self.log.directory} at offset {self.scan.position}"
                             f"{'; ' + failure if failure else ''}")

    def cut_beyond(self) -> bool:
        """Q1 where the log ended before the start, Q12 where it ended before what an entry of
        queueEnds knows: what the queues say beyond its end goes. True: one of them is damaged
        where it is to be cut, and half cut (Q8); all have to be made anew."""
        cdef int64_t i
        cdef Queue* queue
        cdef QueueName name
        cdef int64_t end
        cdef bint is_short = self.scan.position < self.start
        cdef int status
        if is_short:
            self.start = self.scan.position
            self.anchor = self.scan.last_record
        for i in range(self.state_count):
            if not is_short and not (self.states[i].known and
                                     self.states[i].ends.last_physical >= self.scan.position):
                continue
            queue = self.queues.queues[i]
            name = name_of(queue)
            self.queues.writer.files.forget(queue.serial)
            end = self.states[i].end_offset
            with nogil:
                status = cut_queue(self.queues.sync_files, &name, &self.states[i],
                                   self.scan.position, False)
            self.check(status, queue, &self.states[i])
            if self.states[i].damaged:
                self.note_damage(queue, &self.states[i], "Q8")
                return True
            if self.states[i].end_offset != end:
                self.cut += end - self.states[i].end_offset
                self.queues.set_range(queue, min(queue.min_offset, self.states[i].end_offset),
                                      self.states[i].end_offset, self.states[i].first_file >= 0)
        return False

    def keep_offsets(self):
        """Q10: offsets that were given once are not given again."""
        cdef int64_t i
        cdef Queue* queue
        cdef int64_t end
        cdef int status = Status.OK
        for i in range(self.state_count):
            queue = self.queues.queues[i]
            end = self.states[i].ends.end_offset
            if not self.states[i].known or queue.max_offset >= end or not self.from_table:
                continue
            self.notes.append(f"Q10 {self.path(queue, -1)}: ends at offset {queue.max_offset}, but "
                              f"messages up to offset {end} were stored; none of these offsets is "
                              f"given again")
            if queue.min_offset == queue.max_offset:
                self.queues.set_range(queue, end, end, queue.has_file)
                queue_release(queue, &self.queues.pool, 0)
            else:
                status = self.fill_gap(queue, end)
            self.check_scan(status)

    def finish(self, bint clean):
        """Opens the log at its end and writes what is now true into the checkpoint."""
        cdef QueueStore queues = self.queues
        cdef int64_t end = self.scan.position
        cdef int64_t i
        cdef bint sound = clean and self.row in ("S4", "S6") and self.scan.end_problem <= 1
        for i in range(queues.queue_top):
            if queues.queues[i] != NULL:
                queues.queues[i].next_offset = queues.queues[i].max_offset
        self.log.set_end(end, zero_rest=not (sound and end == self.start))
        with nogil:
            queues.writer.read_filed(queues.sync_files)
        # The searches are over: nothing of them is needed while serving.
        queues.sync_files.close_all()
        queues.log_end = end
        queues.last_physical = (self.scan.last_record if self.scan.last_record >= 0
                                else self.anchor)
        if self.rebuilt > 0 or self.row == "S3" or self.start > end:
            # What was made anew below the start is in memory only: after a crash, all over again.
            self.start, self.anchor = min(self.log_min, end), -1
        queues.persisted_mark.log_offset = queues.persisted_log_offset = self.start
        queues.persisted_mark.anchor = self.anchor
        queues.last_run_log_end = self.start
        queues.synced_mark = queues.persisted_mark
        if self.row == "S4" and self.checkpoint.synced_offset < self.start:
            queues.synced_mark.log_offset = self.checkpoint.synced_offset
            queues.synced_mark.anchor = self.checkpoint.synced_anchor
        queues.synced_log_offset = queues.synced_mark.log_offset
        if self.row in ("S4", "S5", "S6", "S7") and self.start > self.log_min:
            queues.synced_mark.stamp_ms = min(self.checkpoint.physic_ms, self.checkpoint.logics_ms)
        queues.want_run = queues.want_ends = True
        memcpy(queues.checkpoint.boot_id, <const char*> self.boot, 16)
        if queues.checkpoint_fd >= 0:
            self.write_checkpoint()

    def write_checkpoint(self):
        """At once: until then the file may speak of a log that is no more."""
        cdef CheckpointFields fields = self.queues.checkpoint
        fields.physic_ms = fields.logics_ms = self.queues.synced_mark.stamp_ms
        fields.persisted_offset = self.queues.persisted_log_offset
        fields.persisted_anchor = self.queues.persisted_mark.anchor
        fields.synced_offset = self.queues.synced_log_offset
        fields.synced_anchor = self.queues.synced_mark.anchor
        fields.queue_count = 0 if self.dispatched else self.queues.file_count
        raise_status(checkpoint_write(self.queues.checkpoint_fd, &fields), "checkpoint")

    def report(self, bint clean, int64_t dispatch_from, int64_t milliseconds) -> dict:
        return {
            "row": self.row, "own_checkpoint": bool(self.checkpoint.own_valid),
            "clean": bool(clean), "log_min": self.log_min, "log_end": self.scan.position,
            "known_end": self.known_end, "end_problem": self.scan.end_cause(),
            "scan_from": self.scan_from, "dispatch_from": dispatch_from,
            "records_scanned": self.scan.records, "records_dispatched": self.dispatched,
            "records_without_queue": self.unqueued, "entries_cut": self.cut, "gaps": self.gaps,
            "queues": self.queues.queue_count, "queues_rebuilt": self.rebuilt,
            "last_store_ms": self.last_store_ms, "damage_count": self.scan.damage_count,
            "damages": self.scan.damage_rows(), "notes": self.notes, "milliseconds": milliseconds,
        }


def recover(CommitLog log, QueueStore queues, root, bint clean,
            delay_levels_ms=DELAY_LEVELS_MS, bint check_crc=True, deleted=None) -> dict:
    """Brings log and queues into one state and opens the log for writing; returns what was done.

    Before: log.load(), a new QueueStore that was not started, the store's lock held. `root` is the
    store directory; its checkpoint is read and from now on written there. `clean`: no abort file.
    `deleted`: topic -> (log offset, ms); its records below that are not newer are no messages.
    After: queues.start(); all entries dispatched here are in memory or files, and readable.
    """
    if queues.checkpoint_fd < 0:
        queues.use_checkpoint(os.path.join(os.fspath(root), "checkpoint"))
    return Recovery(log, queues, delay_levels_ms, check_crc, deleted or {},
                    os.fspath(root)).run(clean)
