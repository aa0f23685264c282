"""What the control thread asks of a shard. See shard_calls.pxd."""
import threading
from array import array

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from cext.base.atomics cimport store_release_u64
from cext.base.status cimport (
    CLOSED, CORRUPT, NOT_FOUND, NOT_READY, OK, TOO_LARGE, raise_status)
from cext.flow.control.calls cimport *
from cext.flow.send.check_backs cimport call_check_halves, call_put_producers
from cext.flow.control.control_link cimport (
    CALL,
    CLOSE,
    HOLD,
    RELEASE,
    RESUBMIT,
    SEND_DONE,
    SEND_FRAME,
    TELL_DRAINED,
    CallFn,
    LinkMessage,
    link_make,
    sem_destroy,
    sem_init,
    sem_wait,
)
from cext.flow.tables.group_table cimport CODES_MAX, Subscription
from cext.flow.control.handed cimport call_copy_handed, call_copy_pulled, read_handed
from cext.flow.observe cimport call_copy_topics, read_topics
from cext.flow.options cimport options_set
from cext.flow.pop.pop_calls cimport call_copy_orders, call_put_order
from cext.flow.pop.pop_order cimport OrderBlock
from cext.flow.replica cimport (
    call_append_raw, call_promote, call_set_replicated, call_set_visible)
from cext.flow.send.reply_push cimport call_put_client
from cext.flow.delay.timer_open cimport timer_option, timers_pause, timers_reopen, timers_resume
from cext.memory.spsc_ring cimport spsc_pop, spsc_push
from cext.net.socket_api cimport read, write
from cext.wire.limits cimport DELAY_LEVELS_MAX

from rmq.errors import StoreCorruptError, StoreError, not_copied


cdef void names(Arguments* x, bytes a, bytes b):
    """Clears the arguments and points to one or two names (alive as long as the caller's bytes)."""
    memset(x, 0, sizeof(Arguments))
    x.a = <const uint8_t*> <char*> a
    x.a_bytes = len(a)
    x.b = <const uint8_t*> <char*> b
    x.b_bytes = len(b)


cdef void third(Arguments* x, bytes c, int64_t number):
    x.c = <const uint8_t*> <char*> c
    x.c_bytes = len(c)
    x.numbers[0] = number


cdef list take_numbers(Arguments* x):
    """The i64 numbers that a call left in its block, which is freed."""
    cdef int64_t number
    cdef uint64_t i
    out = []
    for i in range(x.block_bytes // 8):
        memcpy(&number, x.block + 8 * i, 8)
        out.append(number)
    free(x.block)
    return out


cdef class ShardCalls:
    def __cinit__(self, *_given):
        self.s = ShardState()
        self.lock = threading.RLock()

    def __reduce__(self):
        raise not_copied(self, "one process owns a store")

    # ---------------------------------------------------------------- the two ways

    cdef _wake(self):
        cdef uint64_t one = 1
        write(self.s.net.wake_fd, &one, 8)

    cdef int64_t _call(self, CallFn function, Arguments* arguments) except? -999:
        cdef LinkMessage message
        cdef bint pushed
        if not self.running:
            function(<void*> self.s, arguments)
            return arguments.status
        memset(&message, 0, sizeof(message))
        message.kind = CALL
        message.call = function
        message.arguments = arguments
        sem_init(&message.done, 0, 0)
        with self.lock:
            pushed = spsc_push(&self.s.link.to_reactor, &message)
            if not pushed:
                raise StoreError("the reactor does not take calls any more")
            self._wake()
            with nogil:
                while sem_wait(&message.done) != 0:
                    pass                    # interrupted by a signal
        sem_destroy(&message.done)
        return arguments.status

    cdef _post(self, int32_t kind, uint64_t connection, bytes data):
        cdef LinkMessage* message = link_make(kind, connection, <const uint8_t*> <char*> data,
                                              len(data))
        if message == NULL:
            raise MemoryError("no memory for a frame to the reactor")
        with self.lock:
            while not spsc_push(&self.s.link.to_reactor, message):
                if not self.running:
                    free(message)
                    return
                self._wake()
                threading.Event().wait(0.001)
            self._wake()

    @property
    def control_fd(self):
        return self.s.link.control_fd

    def poll(self):
        """What has come for the control thread: list of (kind, connection, payload)."""
        cdef LinkMessage* message
        cdef uint64_t ignored
        cdef list out = []
        read(self.s.link.control_fd, &ignored, 8)
        while len(out) < 4096:
            message = <LinkMessage*> spsc_pop(&self.s.link.to_control)
            if message == NULL:
                return out
            out.append((message.kind, message.connection_id,
                        (<char*> message.data)[:message.length]))
            store_release_u64(&self.s.link.bytes_out, self.s.link.bytes_out + message.length)
            free(message)
        ignored = 1
        write(self.s.link.control_fd, &ignored, 8)      # there is more: come again
        return out

    def send(self, uint64_t connection, bytes frame):
        """Sends a whole frame (with its length bytes); dropped if the connection is gone."""
        self._post(SEND_FRAME, connection, frame)

    def resubmit(self, uint64_t connection, bytes frame):
        """Gives a frame (without its length bytes) to the hot path once more."""
        self._post(RESUBMIT, connection, len(frame).to_bytes(4, "big") + frame)

    def send_done(self, uint64_t connection):
        """A send that was handed over is answered or given back: its client may go on."""
        self._post(SEND_DONE, connection, b"")

    def hold(self, uint64_t connection):
        """The client is not read until release(): enough of it waits here."""
        self._post(HOLD, connection, b"")

    def release(self, uint64_t connection):
        """After hold(): it is read again."""
        self._post(RELEASE, connection, b"")

    def tell_drained(self, uint64_t connection):
        """After hold(): poll() tells when all that was sent to the client has left."""
        self._post(TELL_DRAINED, connection, b"")

    def close_connection(self, uint64_t connection):
        """Closes after what is queued for it has been sent."""
        self._post(CLOSE, connection, b"")

    def put_client(self, bytes client_id, uint64_t connection):
        """Replies to this client go to the connection; 0: it has none."""
        cdef Arguments x
        names(&x, client_id, b"")
        x.numbers[0] = connection
        raise_status(<int> self._call(<CallFn> call_put_client, &x), f"client {client_id!r}")

    # ---------------------------------------------------------------- topics, groups, offsets

    def put_topic(self, bytes name, int32_t read_queues, int32_t write_queues, int32_t perm,
                  int32_t order):
        cdef Arguments x
        names(&x, name, b"")
        x.numbers[0] = read_queues
        x.numbers[1] = write_queues
        x.numbers[2] = perm
        x.numbers[3] = order
        raise_status(<int> self._call(<CallFn> call_put_topic, &x), f"topic {name!r}")

    def remove_topic(self, bytes name):
        """The log offset below which all its messages are."""
        cdef Arguments x
        names(&x, name, b"")
        self._call(<CallFn> call_remove_topic, &x)
        return x.results[0]

    def put_group(self, bytes name, int32_t consume_enable, int32_t broadcast_enable):
        cdef Arguments x
        names(&x, name, b"")
        x.numbers[0] = consume_enable
        x.numbers[1] = broadcast_enable
        raise_status(<int> self._call(<CallFn> call_put_group, &x), f"group {name!r}")

    def put_retries(self, bytes group, int32_t queues, int32_t times_max, bytes levels):
        """How the group's messages come again: a delay level a retry; none: 3, 4, 5 .."""
        cdef Arguments x
        names(&x, group, levels)
        x.numbers[0] = queues
        x.numbers[1] = times_max
        raise_status(<int> self._call(<CallFn> call_put_retries, &x), f"group {group!r}")

    def lock_group(self, bytes group, int64_t ms):
        """Clients of the group hold locks of queues for so long; 0: none does."""
        cdef Arguments x
        names(&x, group, b"")
        x.numbers[0] = ms
        self._call(<CallFn> call_lock_group, &x)

    def remove_group(self, bytes name):
        cdef Arguments x
        names(&x, name, b"")
        self._call(<CallFn> call_remove_group, &x)

    def put_subscription(self, bytes group, bytes topic, int64_t sub_version, codes,
                         int32_t broadcasting, bytes program=b"", int32_t function=0):
        """codes: the tags' hash codes, None for all messages; program: SQL92, instead of them."""
        cdef Arguments x
        cdef Subscription subscription
        cdef int i
        names(&x, topic, group)
        third(&x, program, function)
        subscription.version = sub_version
        subscription.broadcasting = broadcasting != 0
        subscription.filter.all = codes is None or len(codes) > CODES_MAX
        subscription.filter.count = 0
        if not subscription.filter.all:
            subscription.filter.count = len(codes)
            for i, code in enumerate(codes):
                subscription.filter.codes[i] = code
        x.subscription = &subscription
        raise_status(<int> self._call(<CallFn> call_put_subscription, &x), f"group {group!r}")

    def put_expression(self, bytes text, bytes program, int32_t function=0):
        """What pulls that bring this SQL92 expression along are filtered by."""
        cdef Arguments x
        names(&x, text, b"")
        third(&x, program, function)
        raise_status(<int> self._call(<CallFn> call_put_expression, &x), "SQL92 program")

    def remove_subscriptions(self, bytes group):
        cdef Arguments x
        names(&x, b"", group)
        self._call(<CallFn> call_remove_subscriptions, &x)

    def commit_offset(self, bytes group, bytes topic, int32_t queue_id, int64_t offset):
        cdef Arguments x
        names(&x, topic, group)
        x.numbers[0] = queue_id
        x.numbers[1] = offset
        raise_status(<int> self._call(<CallFn> call_commit_offset, &x),
                     f"offset {offset} of queue {queue_id}")

    def reset_offset(self, bytes group, bytes topic, int32_t queue_id, int64_t offset):
        """Moves the offset; the group's next pull of the queue is told to go there (21)."""
        cdef Arguments x
        names(&x, topic, group)
        x.numbers[0] = queue_id
        x.numbers[1] = offset
        raise_status(<int> self._call(<CallFn> call_reset_offset, &x),
                     f"offset {offset} of queue {queue_id}")

    def query_offset(self, bytes group, bytes topic, int32_t queue_id):
        cdef Arguments x
        names(&x, topic, group)
        x.numbers[0] = queue_id
        self._call(<CallFn> call_query_offset, &x)
        return x.results[0]

    @property
    def offsets_version(self):
        """Grows with each change of an offset; read without asking the reactor."""
        return self.s.offsets.version

    def offsets(self, int32_t which=0):
        """A copy of all consumer offsets: {b"topic@group": {queue id: offset}}. 1: up to where each
        queue was pulled; 2: resets that no pull has been told of yet."""
        cdef Arguments x
        cdef uint64_t at = 0
        cdef uint32_t length
        cdef int32_t slots, i
        cdef int64_t offset
        names(&x, b"", b"")
        x.numbers[0] = which
        raise_status(<int> self._call(<CallFn> call_copy_offsets, &x), "copy of the offsets")
        out = {}
        while at < x.block_bytes:
            memcpy(&length, x.block + at, 4)
            memcpy(&slots, x.block + at + 4, 4)
            name = (<char*> x.block)[at + 8:at + 8 + length]
            at += 8 + length
            queues = {}
            for i in range(slots):
                memcpy(&offset, x.block + at, 8)
                at += 8
                if offset >= 0:
                    queues[i] = offset
            out[name] = queues
        free(x.block)
        return out

    def remove_offsets(self, group, topic):
        cdef Arguments x
        cdef bytes of_group = group or b"", of_topic = topic or b""
        names(&x, of_topic, of_group)
        self._call(<CallFn> call_remove_offsets, &x)

    @property
    def pop_orders_version(self):
        """Grows with each change of what pops in order hold; read without asking the reactor."""
        return self.s.pops.order_version

    def pop_orders(self):
        """What pops in order hold: [(topic, group, queue id, block)], blocks as they lie."""
        cdef Arguments x
        cdef uint64_t at = 0
        cdef uint32_t topic, group
        cdef int32_t queue_id
        names(&x, b"", b"")
        raise_status(<int> self._call(<CallFn> call_copy_orders, &x), "copy of the orders")
        out = []
        while at < x.block_bytes:
            memcpy(&topic, x.block + at, 4)
            memcpy(&group, x.block + at + 4, 4)
            memcpy(&queue_id, x.block + at + 8, 4)
            at += 12
            out.append(((<char*> x.block)[at:at + topic],
                        (<char*> x.block)[at + topic:at + topic + group], queue_id,
                        (<char*> x.block)[at + topic + group:
                                          at + topic + group + sizeof(OrderBlock)]))
            at += topic + group + sizeof(OrderBlock)
        free(x.block)
        return out

    def put_pop_order(self, bytes topic, bytes group, int32_t queue_id, bytes block):
        cdef Arguments x
        names(&x, topic, group)
        third(&x, block, queue_id)
        raise_status(<int> self._call(<CallFn> call_put_order, &x), f"topic {topic!r}")

    def queue_range(self, bytes topic, int32_t queue_id):
        cdef Arguments x
        names(&x, topic, b"")
        x.numbers[0] = queue_id
        if self._call(<CallFn> call_queue_range, &x) != OK:
            return None
        return x.results[0], x.results[1]

    def queue_ranges(self, bytes topic, int32_t count):
        """[(min, max offset)] of the queues from 0 on; (0, 0) of one that holds nothing yet, and of
        all of a topic that is unknown. A bounded number of queues per turn."""
        cdef Arguments x
        cdef int64_t first
        cdef int64_t status
        out = []
        for first in range(0, count, RANGES_MAX):
            names(&x, topic, b"")
            x.numbers[0] = first
            x.numbers[1] = min(<int64_t> RANGES_MAX, count - first)
            status = self._call(<CallFn> call_queue_ranges, &x)
            if status == NOT_FOUND:
                out += [(0, 0)] * x.numbers[1]
                continue
            raise_status(<int> status, f"ranges of {topic!r}")
            numbers = take_numbers(&x)
            out += zip(numbers[::2], numbers[1::2])
        return out

    def queue_snapshot(self, bytes topic, int32_t queue_id):
        """(min, max, first offset in memory, 20-byte units from there on), or None."""
        cdef Arguments x
        names(&x, topic, b"")
        x.numbers[0] = queue_id
        if self._call(<CallFn> call_queue_snapshot, &x) != OK:
            return None
        units = (<char*> x.block)[:x.block_bytes]
        free(x.block)
        return x.results[0], x.results[1], x.results[2], units

    def topic_stats(self, bytes topic):
        """Since the start: (messages in, bytes in, messages out, bytes out), or None."""
        cdef Arguments x
        names(&x, topic, b"")
        if self._call(<CallFn> call_topic_stats, &x) != OK:
            return None
        return x.results[0], x.results[1], x.results[2], x.results[3]

    def topic_table(self):
        """Every topic's counters and queues: {name: (messages in, bytes in, messages out, bytes
        out, [(min, max offset) or None of each queue], TopicNumbers)}. A bounded number of topics
        per turn."""
        cdef Arguments x
        cdef int64_t cursor = 0
        cdef dict out = {}
        while True:
            names(&x, b"", b"")
            x.numbers[0] = cursor
            raise_status(<int> self._call(<CallFn> call_copy_topics, &x), "copy of the topics")
            read_topics(x.block, x.block_bytes, out)
            free(x.block)
            cursor = x.results[0]
            if cursor == 0:
                return out

    def pulled(self, bytes group not None, bytes topic not None):
        """{queue id: offset up to which the group has pulled it since the start}."""
        cdef Arguments x
        names(&x, topic, group)
        raise_status(<int> self._call(<CallFn> call_copy_pulled, &x), "copy of the pull offsets")
        return {i: offset for i, offset in enumerate(take_numbers(&x)) if offset >= 0}

    def handed(self):
        """{(group, topic): (messages, bytes)} handed out since the start."""
        cdef Arguments x
        cdef int64_t cursor = 0
        cdef dict out = {}
        while True:
            names(&x, b"", b"")
            x.numbers[0] = cursor
            raise_status(<int> self._call(<CallFn> call_copy_handed, &x), "copy of the counters")
            read_handed(&x, out)
            free(x.block)
            cursor = x.results[0]
            if cursor == 0:
                return out

    # ---------------------------------------------------------------- messages

    def append(self, bytes topic, int32_t queue_id, bytes body, bytes properties, int32_t flag,
               int32_t sys_flag, int64_t born_ms, bytes born_host, int32_t reconsume_times,
               int64_t prepared_offset, tags_code=None):
        """Stores a message; (physical offset, queue offset) once written. Raises StoreError."""
        cdef Arguments x
        names(&x, topic, born_host)
        x.c = <const uint8_t*> <char*> body
        x.c_bytes = len(body)
        x.d = <const uint8_t*> <char*> properties
        x.d_bytes = len(properties)
        x.numbers[0] = queue_id
        x.numbers[1] = flag
        x.numbers[2] = sys_flag
        x.numbers[3] = born_ms
        x.numbers[4] = reconsume_times
        x.numbers[5] = prepared_offset
        x.numbers[6] = 0 if tags_code is None else tags_code
        x.numbers[7] = tags_code is not None
        raise_status(<int> self._call(<CallFn> call_append, &x), f"append to {topic!r}")
        return x.results[0], x.results[1]

    def is_in_memory(self, int64_t physical_offset):
        cdef Arguments x
        names(&x, b"", b"")
        x.numbers[0] = physical_offset
        x.numbers[1] = 91
        self._call(<CallFn> call_is_in_memory, &x)
        return bool(x.results[0])

    # ---------------------------------------------------------------- delays, transactions

    def set_delay_levels(self, list delays_ms, list offsets):
        """Starts the delivery of delayed messages; level 1 is the first of both lists."""
        cdef Arguments x
        cdef int64_t numbers[2 * DELAY_LEVELS_MAX]
        cdef int32_t i, count = len(delays_ms)
        if count > DELAY_LEVELS_MAX or len(offsets) != count:
            raise ValueError(f"{count} delay levels, {len(offsets)} offsets")
        names(&x, b"", b"")
        for i in range(count):
            numbers[i] = delays_ms[i]
            numbers[DELAY_LEVELS_MAX + i] = offsets[i]
        x.a = <const uint8_t*> numbers
        x.b = <const uint8_t*> (numbers + DELAY_LEVELS_MAX)
        x.numbers[0] = count
        raise_status(<int> self._call(<CallFn> call_set_delay_levels, &x), "delay levels")

    def delay_offsets(self, int32_t stop=0):
        """(per level the offset of the first message not delivered, end of the log that holds
        what was delivered): the offsets may be kept once the log is durable up to there. `stop`
        ends the delivery in the same moment."""
        cdef Arguments x
        names(&x, b"", b"")
        x.numbers[0] = stop
        raise_status(<int> self._call(<CallFn> call_delay_offsets, &x), "delay offsets")
        return take_numbers(&x), x.results[0]

    def start_transactions(self, int64_t first, int32_t serve):
        """serve 0: all half messages below `first` are ended, control will mark more by
        end_halves(); serve 1: half messages and their ends are taken from now on."""
        cdef Arguments x
        names(&x, b"", b"")
        x.numbers[0] = first
        x.numbers[1] = serve
        self._call(<CallFn> call_start_transactions, &x)

    def end_halves(self, list offsets, int32_t with_op):
        """Marks half messages ended, with an op message or because there is one; how many of
        them were open until now."""
        cdef Arguments x
        cdef int64_t of_one
        cdef bytearray packed = bytearray(8 * len(offsets))
        cdef char* at = packed
        names(&x, b"", b"")
        for offset in offsets:
            of_one = offset
            memcpy(at, &of_one, 8)
            at += 8
        x.a = <const uint8_t*> <char*> packed
        x.numbers[0] = len(offsets)
        x.numbers[1] = with_op
        self._call(<CallFn> call_end_halves, &x)
        return x.results[0]

    def open_halves(self, int64_t after, int32_t limit):
        """(everything below is ended, where to go on, offsets of open half messages)."""
        cdef Arguments x
        names(&x, b"", b"")
        x.numbers[0] = after
        x.numbers[1] = limit
        raise_status(<int> self._call(<CallFn> call_open_halves, &x), "open transactions")
        return x.results[0], x.results[1], take_numbers(&x)

    def put_producers(self, bytes group, list connections):
        """Who is asked about the group's open transactions (some of its connections)."""
        cdef Arguments x
        cdef bytes ids = array("Q", connections).tobytes()
        names(&x, group, ids)
        raise_status(<int> self._call(<CallFn> call_put_producers, &x), f"group {group!r}")

    def check_halves(self, int64_t after, int64_t end, tuple rules):
        """Has producers asked about some of the half messages that are open, from `after` on;
        rules: began_ms, young_ms, times_max, age_max_ms, leave_full (flow/send/check_backs.pxd).
        (where to go on, how many were asked about, stored anew while nobody could be asked, what
        hinders it: 0 nothing, 1 producers that do not read, 2 the log; offsets for control)."""
        cdef Arguments x
        cdef int i
        names(&x, b"", b"")
        x.numbers[0] = after
        x.numbers[1] = end
        for i in range(5):
            x.numbers[2 + i] = rules[i]
        raise_status(<int> self._call(<CallFn> call_check_halves, &x), "open transactions")
        return x.results[0], x.results[1], x.results[2], x.results[3], take_numbers(&x)

    # ---------------------------------------------------------------- settings, files

    def set_writable(self, int32_t flag, bytes reason):
        cdef Arguments x
        names(&x, reason, b"")
        x.numbers[0] = flag
        self._call(<CallFn> call_set_writable, &x)

    def set_replicated(self, int64_t offset):
        """Every follower that counts has the log up to here. ProtocolError when it is more than
        there is of it: what a follower says is not believed."""
        cdef Arguments x
        names(&x, b"", b"")
        x.numbers[0] = offset
        raise_status(<int> self._call(<CallFn> call_set_replicated, &x),
                     f"a follower says that it has the log up to {offset}")

    def append_raw(self, int64_t offset, bytes data):
        """Bytes of another log that belong at `offset`, the end of this one; the new end. Whole
        records are taken: the next bytes belong at what is returned.

        Only for a core that is not writable (StoreError). StoreCorruptError: what stands at the end
        is no record of there, or `offset` is not the end; ProtocolError: a record larger than this
        broker takes. What is returned is less than was given also when the log has no room now.
        """
        cdef Arguments x
        cdef int64_t status
        names(&x, data, b"")
        x.numbers[0] = offset
        status = self._call(<CallFn> call_append_raw, &x)
        if status == CLOSED:
            raise StoreError("raw bytes are for the log of a replica; this core takes sends")
        if status == NOT_FOUND:
            raise StoreCorruptError(f"raw bytes for offset {offset} of the log, which ends at "
                                    f"{x.results[0]}")
        if status == CORRUPT or status == TOO_LARGE:
            raise_status(<int> status, f"raw bytes at offset {x.results[0]} of the log are no "
                                       f"record for there (problem {x.results[1]})")
        return x.results[0]

    def set_visible(self, int64_t offset):
        """Consumers may be given what is below this offset of the log, and nothing else."""
        cdef Arguments x
        names(&x, b"", b"")
        x.numbers[0] = offset
        self._call(<CallFn> call_set_visible, &x)

    def promote(self):
        """All of the log is visible. False: not all is dispatched yet, ask again; True: it is, and
        set_writable() makes a leader of this core."""
        cdef Arguments x
        cdef int64_t status
        names(&x, b"", b"")
        status = self._call(<CallFn> call_promote, &x)
        if status != NOT_READY:
            raise_status(<int> status, "the log")
        return status == OK

    def restart_timers(self):
        """After a file of timers was found damaged: they are read from their queue again."""
        cdef Arguments x
        names(&x, b"", b"")
        self._call(<CallFn> timers_pause, &x)
        timers_reopen(self.s)
        self._call(<CallFn> timers_resume, &x)

    def set_option(self, str name, int64_t value):
        """Changes one of the run-time changeable options; KeyError for any other."""
        if name == "clock_skew_ms":         # tests move the clock that delays are counted by
            self.s.schedule.skew_ms = value
        elif name == "transactions_set_aside":  # what was given up and may still be committed
            self.s.halves.set_aside = value
        elif not timer_option(self.s, name, value):
            options_set(&self.s.options, name, value)

    def drop_segments(self, int64_t before_ms, int32_t max_count, int32_t force):
        """Deletes the oldest log files last modified before a time (any time when forced)."""
        cdef Arguments x
        cdef int32_t dropped = 0
        cdef int64_t modified_ms
        while dropped < max_count:
            if not force:
                modified_ms = self.s.log.first_segment_modified_ms()
                if modified_ms < 0 or modified_ms >= before_ms:
                    break
            names(&x, b"", b"")
            if self._call(<CallFn> call_drop_segment, &x) != OK:
                break
            dropped += 1
        return dropped
