"""Driven core: an open core that is not started, driven turn by turn; and the gather of a pull.

    core = ShardCore(options); core.open(); core.put_topic(b"t", 1, 1, 6, 0)
    driven = DrivenCore(core)
    driven.exchange(client.fileno(), frames, 64)    # writes them, turns until 64 answers are there
    driven.gather(b"t", 0, 32, 1000)                # 1000 looks of a pull of 32 into queue 0
    driven.receive()                                # a turn up to its requests: nothing is answered
    driven.drain()                                  # turns as at a stop, until all is answered
    driven.waits()["revive"]                        # ms that a step lets the reactor sleep

DrivenCore.set_turn_records(core, 8) makes turns small, also those of a core that runs.

No thread of the core runs: so nothing but the cost of a turn is counted, and consume queues are not
written meanwhile.
"""
cimport cython
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memmove, strcmp
from posix.unistd cimport read, write

from cext.base.byteorder cimport load_u32
from cext.base.status cimport OK
from cext.flow.append.appender cimport Appender
from cext.flow.context.step cimport NO_WAIT, Step
from cext.flow.context.turn_context cimport TurnContext
from cext.flow.pull.pull_job cimport PullJob
from cext.flow.pull.queue_entry_scan cimport Found, scan_entries
from cext.flow.shard_calls cimport ShardCalls
from cext.flow.tables.topic_table cimport Topic, topic_queue
from cext.flow.turn cimport run_turn, run_turns
from cext.memory.name_map cimport name_map_find
from cext.net.connection cimport Connection
from cext.store.log.log_link cimport log_own
from cext.store.queues.consume_queue cimport Queue

cdef enum:
    INPUT_BYTES = 1 << 20
    TURNS_MAX = 20                          # without an answer; each may sleep half a second
    NEVER_MS = 1_000_000_000_000_000


@cython.no_gc_clear                  # __dealloc__ needs all its fields
cdef class DrivenCore:
    cdef ShardCalls core
    cdef uint8_t* input                     # owned; received bytes that are no whole frame yet
    cdef uint64_t input_bytes

    def __cinit__(self, ShardCalls core not None):
        self.core = core
        self.input = <uint8_t*> malloc(INPUT_BYTES)
        if self.input == NULL:
            raise MemoryError("no memory for answers")
        core.appender.queues.run_interval_ms = NEVER_MS
        core.appender.queues.run_log_bytes = NEVER_MS
        core.appender.queues.sync_interval_ms = NEVER_MS
        core.turn.net.own(True)
        log_own(&core.appender.log.link, True)

    def __dealloc__(self):
        free(self.input)

    @staticmethod
    def set_turn_records(ShardCalls core not None, int32_t count):
        """Limits the records a turn may append from now on, batches included; never raises it."""
        core.appender.dispatch_max = count

    def turn(self):
        """Makes one turn, as the reactor's thread does."""
        with nogil:
            run_turn(self.core.loop, NO_WAIT)

    def steps(self):
        """The turn's table, in order: (name, has a next_wait, has a drained)."""
        cdef Step* step
        cdef int i
        out = []
        for i in range(self.core.loop.step_count):
            step = &self.core.loop.steps[i]
            out.append((step.name.decode(), step.next_wait != NULL, step.drained != NULL))
        return out

    def waits(self):
        """{name: how many ms the step lets the poll sleep now}, for steps with a next_wait."""
        cdef Step* step
        cdef int i
        out = {}
        for i in range(self.core.loop.step_count):
            step = &self.core.loop.steps[i]
            if step.next_wait != NULL:
                out[step.name.decode()] = step.next_wait(step.service)
        return out

    def receive(self):
        """Makes the beginning of a turn, up to the requests of connections; does not wait.

        Returns (records appended and not dispatched, connections with answers, the turn is full).
        """
        cdef TurnContext turn = self.core.turn
        cdef Appender appender = self.core.appender
        cdef Connection* c
        cdef int answered = 0, i
        with nogil:
            turn.net.poll(0)
            for i in range(self.core.loop.step_count):
                self.core.loop.steps[i].run(self.core.loop.steps[i].service)
                if strcmp(self.core.loop.steps[i].name, b"receive") == 0:
                    break
        c = turn.net.dirty_first
        while c != NULL:
            answered += 1
            c = c.next_dirty
        return (appender.dispatch_count - appender.dispatch_first, answered,
                turn.net.place.connection != NULL)

    def drain(self):
        """Makes turns, as a core that is told to stop: until all is answered, or 1.5 s are over."""
        self.core.turn.stopping = 1
        with nogil:
            run_turns(self.core.loop)

    def exchange(self, int fd, bytes frames not None, int64_t answers):
        """Writes requests to a client's socket, which does not block, and reads `answers` answers.

        RuntimeError: the socket is closed, or the answers do not come.
        """
        cdef const uint8_t* at = <const uint8_t*> <char*> frames
        cdef uint64_t length = len(frames)
        cdef int64_t missing
        with nogil:
            missing = self._exchange(fd, at, length, answers)
        if missing != 0:
            raise RuntimeError(f"{missing} of {answers} answers did not come")

    cdef int64_t _exchange(self, int fd, const uint8_t* at, uint64_t left,
                           int64_t answers) noexcept nogil:
        cdef ssize_t got
        cdef int64_t turns = 0
        while answers > 0 and turns < TURNS_MAX:
            turns += 1
            if left > 0:
                got = write(fd, at, left)
                if got > 0:
                    at += got
                    left -= got
            run_turn(self.core.loop, NO_WAIT)
            got = read(fd, self.input + self.input_bytes, INPUT_BYTES - self.input_bytes)
            if got == 0 or (got < 0 and errno != EAGAIN and errno != EINTR):
                break
            if got > 0:
                self.input_bytes += got
                turns = 0
                answers -= self._take_frames()
        return answers

    cdef int64_t _take_frames(self) noexcept nogil:
        """Drops the whole frames that are here; returns their number."""
        cdef uint64_t used = 0
        cdef uint64_t length
        cdef int64_t count = 0
        while self.input_bytes - used >= 4:
            length = <uint64_t> load_u32(self.input + used) + 4
            if length > self.input_bytes - used:
                break
            used += length
            count += 1
        memmove(self.input, self.input + used, self.input_bytes - used)
        self.input_bytes -= used
        return count

    def gather(self, bytes topic not None, int queue_id, int messages, int64_t count):
        """Does `count` times what a pull does to find its messages, from offset 0 on.

        RuntimeError: there are fewer messages, or they are not in memory.
        """
        cdef ShardCalls core = self.core
        cdef Topic* of = <Topic*> name_map_find(&core.tables.topics, <const uint8_t*> <char*> topic,
                                                <uint32_t> len(topic))
        cdef Queue* queue = NULL if of == NULL else topic_queue(of, core.appender.queues, queue_id)
        cdef PullJob* job
        cdef Found* found
        cdef int64_t _i
        cdef bint good = queue != NULL
        job = <PullJob*> calloc(1, sizeof(PullJob))
        found = <Found*> calloc(1, sizeof(Found))
        if job == NULL or found == NULL:
            free(job)
            free(found)
            raise MemoryError("no memory for a pull")
        job.topic = of
        job.queue_id = queue_id
        job.max_messages = messages
        job.max_bytes = -1
        job.tags.all = True
        with nogil:
            for _i in range(count if good else 0):
                job.scanned = 0
                core.appender.log.new_turn()
                good = good and scan_entries(core.pulls, job, queue,
                                             <int64_t> core.turn.net.jumbo_bytes, found) == OK
                good = good and found.count == messages
        free(job)
        free(found)
        if not good:
            raise RuntimeError(f"no {messages} messages in queue {queue_id} of {topic!r}")
