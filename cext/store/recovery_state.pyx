"""Recovery state. See recovery_state.pxd."""
cimport cython
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

import os

from cext.base.status cimport Status, raise_status
from cext.store.known_end cimport find_known_end, note_persisted_ends
from cext.store.log.checkpoint import boot_id
from cext.store.queues.consume_queue cimport QUEUE_ENTRY_BYTES, topic_is_valid
from cext.wire.limits cimport DELAY_LEVELS_MAX

from rmq.errors import StoreError


@cython.no_gc_clear                  # __dealloc__ needs the object's fields
cdef class RecoveryState:
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

    cdef object find_queues(self):
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

    cdef str name(self, Queue* queue):
        return f"{queue.topic[:queue.topic_length].decode('ascii')}/{queue.queue_id}"

    cdef str path(self, Queue* queue, int64_t offset):
        cdef int64_t per_file = self.queues.entries_per_file
        directory = f"{os.fsdecode(self.queues.directory)}/{self.name(queue)}"
        if offset < 0:
            return directory
        return (f"{directory}/{offset // per_file * per_file * QUEUE_ENTRY_BYTES:020d}:"
                f"{offset % per_file * QUEUE_ENTRY_BYTES}")

    cdef int check(self, int status, Queue* queue, QueueState* state) except -1:
        if status == Status.NOT_FOUND:
            state.damaged = 1
        elif status < 0:
            errno = self.queues.sync_files.last_errno
            raise StoreError(f"consume queue {self.name(queue)} under "
                             f"{os.fsdecode(self.queues.directory)}: {os.strerror(errno)}")
        return 0

    cdef object note_damage(self, Queue* queue, const QueueState* state, str row):
        cdef int64_t offset = state.garbled_offset
        what = f"damaged at offset {offset}"
        if offset < 0:
            what = "files are missing or of a wrong length"
        self.notes.append(f"{row} {self.path(queue, offset)}: {what}; the queue is made anew from "
                          f"the log")

    cdef object check_scan(self, int status):
        if status == Status.OK:
            return
        failure = self.queues.failure()
        raise_status(status, f"commit log {self.log.directory} at offset {self.scan.position}"
                             f"{'; ' + failure if failure else ''}")
