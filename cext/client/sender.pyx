"""Sends into the engine's buffers, and the telling of their ends (see sender.pxd).

bench/client.py measures what a message costs this way.
"""
from concurrent.futures import Future

cimport cython
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, malloc, realloc
from libc.string cimport memcpy

from cext.base.byteorder cimport store_u16, store_u32
from cext.base.clock cimport monotonic_us, wake_us, wall_ms
from cext.client.claim cimport WAIT_US, claim_slot, engine_wake, has_time, needs_wake
from cext.client.engine cimport Engine
from cext.client.link cimport link_mark, link_room
from cext.client.loop cimport seal_batch
from cext.client.mutex cimport (
    condition_broadcast, condition_close, condition_open, condition_wait, lock_close, lock_open,
    lock_release, lock_take,
)
from cext.client.mailbox cimport Completion, Mailbox, is_teller
from cext.client.message cimport Message
from cext.client.reply cimport Reply, reply_take
from cext.client.result cimport SendResult, result_of_reply, result_of_slot
from cext.client.slots cimport batch_free, slot_release
from cext.client.state cimport (
    ANSWERED, BORN_DIGITS, KEEP_FRAME, KEEP_SEND, LATE, OPAQUE_AT, Batch, EngineState, Slot,
)
from cext.wire.codes cimport SEND_BATCH_MESSAGE, SEND_MESSAGE_V2
from cext.wire.limits cimport (
    FRAME_BYTES_MAX, RETRY_OR_DLQ_TOPIC_CHARACTERS_MAX, TOPIC_CHARACTERS_MAX,
)
from cext.wire.system_topics cimport RETRY_PREFIX

from cext.client.request import encode_request
from rmq.errors import BusyError, MessageError, RemoteError, not_copied

cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1

cdef enum:
    PREFIX_BYTES = 29                # lengths, mark and the fixed part of a binary header
    EXT_BYTES_AT = 25
    FIELD_BYTES = 7                  # of a field with a one-letter name: i16, letter, i32
    NUMBER_BYTES_MAX = 11
    BATCH_ITEM_BYTES = 22            # of a message in a batch without body and properties
    ITEMS = 128                      # messages that a batch has room for at first
    SPARE_SLOTS = 64                 # that has_room leaves free

SHARDING_KEY = "__SHARDINGKEY"
# Properties that a batch may not hold: such messages are sent alone.
ALONE = frozenset((
    "DELAY", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "TRAN_MSG", "MSG_TYPE",
    "REPLY_TO_CLIENT", "TIMER_DEL_UNIQKEY",
))


cdef inline uint8_t* write_number(uint8_t* out, uint8_t letter, int64_t value) noexcept nogil:
    """A field whose value is a decimal number."""
    cdef uint8_t digits[24]
    cdef uint64_t rest = <uint64_t>(-value if value < 0 else value)
    cdef int count = 0, i
    while True:
        digits[count] = <uint8_t>(48 + rest % 10)
        count += 1
        rest //= 10
        if rest == 0:
            break
    if value < 0:
        digits[count] = 45
        count += 1
    store_u16(out, 1)
    out[2] = letter
    store_u32(out + 3, <uint32_t>count)
    out += FIELD_BYTES
    for i in range(count):
        out[i] = digits[count - 1 - i]
    return out + count


cdef class SendWaiter:
    def __reduce__(self):
        raise not_copied(self, "it belongs to a client of this process")


cdef class SendCompletion(Completion):
    def __reduce__(self):
        raise not_copied(self, "it belongs to a client of this process")

    cdef int completed(self, Slot* slot) except -1:
        cdef Message message
        cdef Reply reply
        cdef object result = None, error = None
        if slot.batch != NULL:
            return self.batch_completed(slot)
        message = <Message>slot.message
        self.sender.leave(1, len(message.body))
        if slot.outcome == ANSWERED and slot.id_bytes:
            result = result_of_slot(slot, self.shown, self.broker_name, message)
        elif slot.outcome == ANSWERED:
            reply, error = stored_answer(slot)
            if error is None:
                result = result_of_reply(reply, self.shown, self.broker_name, message,
                                         reply.int_field("queueId"),
                                         reply.int_field("queueOffset"), -1)
        else:
            error = self.sender.engine.failure(slot.outcome, slot.link, slot.code,
                                               slot.deadline_us - slot.started_us)
        return self.sender.finish(self, message, <object>slot.callback, result, error, slot)

    cdef int batch_completed(self, Slot* slot) except -1:
        cdef Sends sender = self.sender
        cdef Batch* batch = slot.batch
        cdef Message message
        cdef Reply reply = None
        cdef object error = None
        cdef object callback
        cdef int32_t queue_id = 0
        cdef int64_t offset = 0
        cdef uint32_t i
        cdef list messages, callbacks
        if self.open == batch:
            self.open = NULL
        if slot.outcome == ANSWERED:
            reply, error = stored_answer(slot)
            if error is None:
                queue_id = reply.int_field("queueId")
                offset = reply.int_field("queueOffset")
        else:
            error = sender.engine.failure(slot.outcome, slot.link, slot.code,
                                          slot.deadline_us - slot.started_us)
        sender.leave(batch.count, batch.body_bytes)
        if error is not None or (sender.retries_not_stored and reply.code != 0) \
                or sender.tracks_latency or slot.callback != <void*>None:
            messages = [<object>batch.items[2 * i] for i in range(batch.count)]
            callbacks = [<object>batch.items[2 * i + 1] for i in range(batch.count)]
            for i in range(2 * batch.count):
                Py_DECREF(<object>batch.items[i])
            batch.count = 0
            results = None if error is not None else [
                result_of_reply(reply, self.shown, self.broker_name, message, queue_id, offset, i)
                for i, message in enumerate(messages)
            ]
            sender._batch_ended(self, messages, callbacks, <object>slot.callback, results, error,
                                slot.attempts, slot.deadline_us, slot.outcome == LATE,
                                (monotonic_us() - slot.started_us) / 1000, slot.number)
            return 0
        for i in range(batch.count):
            message = <Message>batch.items[2 * i]
            callback = <object>batch.items[2 * i + 1]
            result = result_of_reply(reply, self.shown, self.broker_name, message, queue_id,
                                     offset, <int32_t>i)
            Py_DECREF(message)
            Py_DECREF(callback)
            # An exception in it ends nothing: the others are still told.
            tell(callback, result, None, sender)
        batch.count = 0
        return 0


cdef tuple stored_answer(Slot* slot):
    """(reply, None) when the answer says that and where it is stored; else (None, the error)."""
    cdef Reply reply
    try:
        reply = reply_take(slot)
        if reply.code != 0 and not 10 <= reply.code <= 12:
            return None, RemoteError(reply.code, reply.remark or "no reason given")
        reply.int_field("queueId")
        reply.int_field("queueOffset")
        return reply, None
    except Exception as problem:
        return None, problem


cdef int tell(object callback, object result, object error, Sends sender) except -1:
    """Tells the end of a send to a callback, a Future or a SendWaiter."""
    if callback is None:
        return 0
    if isinstance(callback, SendWaiter):
        (<SendWaiter>callback).result = result
        (<SendWaiter>callback).error = error
        (<SendWaiter>callback).done = True
        return 0
    try:
        if isinstance(callback, Future):
            if callback.set_running_or_notify_cancel():
                if error is None:
                    callback.set_result(result)
                else:
                    callback.set_exception(error)
        else:
            callback(result, error)
    except BaseException as problem:     # SystemExit, too, must not keep the others from being told
        sender.mailbox.report(problem)
    return 0


@cython.no_gc_clear                  # __dealloc__ needs all its fields
cdef class Sends:
    def __cinit__(self, *args, **kwargs):
        lock_open(&self.gate_lock)
        condition_open(&self.gate_opened)
        self.messages_max = 65_535
        self.bytes_max = 100 << 20

    def __dealloc__(self):
        condition_close(&self.gate_opened)
        lock_close(&self.gate_lock)

    def connect_sender(self, Engine engine not None, Mailbox mailbox not None):
        self.engine = engine
        self.mailbox = mailbox

    def __reduce__(self):
        raise not_copied(self, "start one in each process, from its parameters")

    # ---- the gate

    cdef bint is_full(self, int64_t bytes) noexcept:
        return self.messages_in_flight > 0 and (
            self.messages_in_flight >= self.messages_max
            or self.bytes_in_flight + bytes > self.bytes_max)

    def has_room(self, int64_t size):
        """Whether a send of `size` bytes would begin at once, with slots left for other requests of
        the client. For callers that must not wait in a call, such as an event loop."""
        return not self.is_full(size) and self.engine.state.free_count > SPARE_SLOTS

    cdef int enter(self, int64_t bytes) except -1:
        """Counts a message in; BusyError when there was no room for it in time."""
        cdef int64_t until_us, looked_us = 0
        cdef uint32_t count
        while self.is_full(bytes):
            if is_teller(self.mailbox):
                break
            if not has_time(<int64_t>self.timeout_ms * 1000, &looked_us, &until_us):
                raise BusyError(
                    f"{self.messages_in_flight} messages ({self.bytes_in_flight} bytes) are under "
                    f"way, and it did not get less within {self.timeout_ms} ms"
                )
            self.gate_waiters += 1
            count = self.gate_count
            with nogil:
                lock_take(&self.gate_lock)
                if self.gate_count == count:
                    condition_wait(&self.gate_opened, &self.gate_lock,
                                   min(wake_us(until_us), looked_us + WAIT_US))
                lock_release(&self.gate_lock)
            self.gate_waiters -= 1
            PyErr_CheckSignals()
        self.messages_in_flight += 1
        self.bytes_in_flight += bytes
        return 0

    cdef void leave(self, int64_t messages, int64_t bytes) noexcept:
        self.messages_in_flight -= messages
        self.bytes_in_flight -= bytes
        # Threads are not woken for every message: when they are, a quarter of the room is free.
        if self.gate_waiters and self.messages_in_flight <= self.messages_max - (
                self.messages_max >> 2) and self.bytes_in_flight <= self.bytes_max - (
                self.bytes_max >> 2):
            lock_take(&self.gate_lock)
            self.gate_count += 1
            condition_broadcast(&self.gate_opened)
            lock_release(&self.gate_lock)

    def enter_gate(self, int64_t size):
        """Counts in a send of `size` bytes that does not go through this class; BusyError."""
        self.enter(size)

    def leave_gate(self, int64_t size):
        """Such a send has ended, or did not begin. Call it once for each enter_gate."""
        self.leave(1, size)

    # ---- how sends end

    def await_send(self, SendWaiter waiter not None, Mailbox mailbox not None):
        """Delivers `mailbox` until the waiter's send has ended; returns its result or raises."""
        while not waiter.done:
            mailbox.tell(mailbox.take(monotonic_us() + WAIT_US))
            PyErr_CheckSignals()
        if waiter.error is not None:
            raise waiter.error
        return waiter.result

    def tell_callback(self, callback, result, error):
        """Calls a callback, or sets a Future, as the engine's side does."""
        tell(callback, result, error, self)

    cdef int finish(self, SendCompletion target, Message message, object callback, object result,
                    object error, Slot* slot) except -1:
        if self.tracks_latency or error is not None or (
                self.retries_not_stored and (<SendResult>result).code != 0):
            if self._ended(target, message, callback, result, error, slot.attempts,
                           slot.deadline_us, slot.outcome == LATE,
                           (monotonic_us() - slot.started_us) / 1000, slot.number):
                return 0             # it is on its way again
        return tell(callback, result, error, self)

    # ---- what Producer (Python) supplies

    def _ended(self, target, message, callback, result, error, attempts, deadline_us, late, ms,
               number):
        return False

    def _batch_ended(self, target, messages, callbacks, callback, results, error, attempts,
                     deadline_us, late, ms, number):
        raise NotImplementedError


cdef class Target(SendCompletion):
    def __init__(self, Sends sender not None, str topic not None, str shown not None,
                 str broker_name not None, str address not None, int32_t queue_id, int32_t link,
                 dict fields not None):
        """fields: a, c, d, k of the request by their letters."""
        fixed = {**fields, "b": topic, "e": queue_id, "j": 0, "n": broker_name}
        self.sender = sender
        self.topic = topic
        self.shown = shown
        self.broker_name = broker_name
        self.address = address
        self.queue_id = queue_id
        self.link = link
        self.single_head = encode_request(SEND_MESSAGE_V2, {**fixed, "m": False})
        self.batch_head = encode_request(
            SEND_BATCH_MESSAGE, {"g": "0" * BORN_DIGITS, **fixed, "f": 0, "h": 0, "m": True}
        )
        self.born_at = PREFIX_BYTES + FIELD_BYTES       # the first field

    def __reduce__(self):
        raise not_copied(self, "it belongs to a client of this process")

    cdef int submit(self, Message message, bytes body, int sys_flag, object callback,
                    Mailbox mailbox, int64_t timeout_us, int attempts) except -1:
        """Sends one message in a frame of its own."""
        cdef EngineState* state = self.sender.engine.state
        cdef int64_t born_ms = wall_ms(), until_us
        cdef uint32_t head_bytes = <uint32_t>len(self.single_head), header_bytes
        cdef uint32_t body_bytes = <uint32_t>len(body)
        cdef int32_t properties_bytes
        cdef uint8_t* start
        cdef uint8_t* out
        cdef Slot* slot
        cdef bint wake
        message.identify(born_ms)
        slot = claim_slot(state, timeout_us, &until_us, mailbox)
        if slot == NULL:
            raise mailbox.refusal()
        # Until the lock is released, no other thread gets the GIL: the message stays as it is.
        try:
            properties_bytes = message.properties_size()
        except Exception:
            give_back(state, slot)
            raise
        start = link_room(state.links[self.link], head_bytes + 4 * FIELD_BYTES
                          + 3 * (NUMBER_BYTES_MAX + 10) + properties_bytes + body_bytes)
        if start == NULL:
            give_back(state, slot)
            raise MemoryError()
        memcpy(start, <const char*>self.single_head, head_bytes)
        out = write_number(start + head_bytes, c'f', sys_flag)
        out = write_number(out, c'g', born_ms)
        out = write_number(out, c'h', message.flag)
        store_u16(out, 1)
        out[2] = c'i'
        store_u32(out + 3, <uint32_t>properties_bytes)
        out = message.write_properties(out + FIELD_BYTES)
        header_bytes = <uint32_t>(out - start) - 8
        memcpy(out, <const char*>body, body_bytes)
        store_u32(start, 4 + header_bytes + body_bytes)
        store_u32(start + 4, <uint32_t>1 << 24 | header_bytes)
        store_u32(start + OPAQUE_AT, <uint32_t>slot.opaque)
        store_u32(start + EXT_BYTES_AT, header_bytes + 8 - PREFIX_BYTES)
        state.links[self.link].fill_used += 8 + header_bytes + body_bytes
        fill_slot(slot, self, message, callback, mailbox, attempts)
        slot.link = self.link
        slot.keep = KEEP_SEND
        slot.framed = True
        slot.started_us = monotonic_us()
        slot.deadline_us = until_us
        state.next_deadline_us = min(state.next_deadline_us, until_us)
        state.frames_sent += 1
        slot.number = state.frames_sent
        link_mark(state, state.links[self.link])
        wake = needs_wake(state, 0)
        lock_release(&state.lock)
        if wake:
            engine_wake(state)
        return 0

    cdef Batch* new_batch(self, Slot* slot, uint32_t capacity, object callback, Mailbox mailbox,
                          int attempts) except NULL:
        """Lock held; on an exception it is released and the slot given back."""
        cdef EngineState* state = self.sender.engine.state
        cdef Batch* batch = <Batch*>calloc(1, sizeof(Batch))
        if batch != NULL:
            batch.bytes = <uint8_t*>malloc(capacity)
            batch.items = <void**>malloc(2 * ITEMS * sizeof(void*))
        if batch == NULL or batch.bytes == NULL or batch.items == NULL:
            batch_free(batch)
            give_back(state, slot)
            raise MemoryError()
        batch.items_capacity = ITEMS
        batch.capacity = capacity
        batch.limit = self.sender.batch_bytes
        batch.head = <const uint8_t*><const char*>self.batch_head
        batch.head_bytes = <uint32_t>len(self.batch_head)
        batch.born_at = self.born_at
        batch.slot = slot
        slot.batch = batch
        fill_slot(slot, self, None, callback, mailbox, attempts)
        slot.link = self.link
        slot.keep = KEEP_FRAME
        return batch

    cdef int gather(self, Message message, object callback) except -1:
        """Appends the message to the open batch, or opens one."""
        cdef Sends sender = self.sender
        cdef EngineState* state = sender.engine.state
        cdef int64_t until_us
        cdef uint32_t need
        cdef Batch* batch
        cdef Slot* slot
        cdef bint wake = False
        message.identify(wall_ms())
        need = size_of(message)
        lock_take(&state.lock)
        batch = self.open
        if batch != NULL and (batch.sealed or batch.used + need > batch.limit):
            if not batch.sealed:
                seal_batch(state, batch, monotonic_us())
                wake = needs_wake(state, 0)
            self.open = batch = NULL
        if batch == NULL:
            lock_release(&state.lock)
            if wake:
                engine_wake(state)
                wake = False
            slot = claim_slot(state, <int64_t>sender.timeout_ms * 1000, &until_us, sender.mailbox)
            if slot == NULL:
                raise sender.mailbox.refusal()
            if self.open != NULL and not self.open.sealed \
                    and self.open.used + need <= self.open.limit:
                slot_release(state, slot)     # another thread opened one while this one waited
                batch = self.open
            elif size_of(message) != need:
                give_back(state, slot)
                raise MessageError("a message's properties changed while it was sent")
            else:
                batch = self.new_batch(slot, max(need, sender.batch_bytes), None, sender.mailbox,
                                       0)
                batch.timeout_ms = sender.timeout_ms
                batch.due_us = monotonic_us() + sender.linger_us
                batch.next = state.open_first
                state.open_first = batch
                self.open = batch
                wake = needs_wake(state, batch.due_us)
        if not append(batch, message, callback, need):
            lock_release(&state.lock)
            raise MemoryError()
        # It also counts as full when another message of this size would not fit: the next one goes
        # to the next queue.
        if batch.used + need > batch.limit:
            seal_batch(state, batch, monotonic_us())
            self.open = NULL
            wake = needs_wake(state, 0) or wake
        lock_release(&state.lock)
        if wake:
            engine_wake(state)
        return 0

    cdef int submit_batch(self, list messages, list callbacks, object callback, Mailbox mailbox,
                          int64_t timeout_us, int attempts) except -1:
        """Sends several messages in one frame, now. Each has a callback, or all share one."""
        cdef EngineState* state = self.sender.engine.state
        cdef int64_t now_ms = wall_ms(), now_us, until_us
        cdef uint64_t total = 0
        cdef Message message
        cdef Batch* batch
        cdef Slot* slot
        cdef bint wake
        cdef int i = 0
        slot = claim_slot(state, timeout_us, &until_us, mailbox)
        if slot == NULL:
            raise mailbox.refusal()
        try:
            for message in messages:
                message.identify(now_ms)
                total += size_of(message)
            if total > FRAME_BYTES_MAX:
                raise MessageError(f"a batch of {total} bytes")
        except Exception:
            give_back(state, slot)
            raise
        batch = self.new_batch(slot, <uint32_t>total, callback, mailbox, attempts)
        now_us = monotonic_us()
        batch.timeout_ms = <int32_t>max((until_us - now_us) // 1000, 1)
        for message in messages:
            callback = callbacks[i] if callbacks is not None else None
            i += 1
            if not append(batch, message, callback, size_of(message)):
                batch.timeout_ms = 0          # ended as late at once
                break
        seal_batch(state, batch, now_us)
        wake = needs_wake(state, 0)
        lock_release(&state.lock)
        if wake:
            engine_wake(state)
        return 0


cdef inline void give_back(EngineState* state, Slot* slot) noexcept:
    """Gives the slot back. The lock is held, and released."""
    slot_release(state, slot)
    lock_release(&state.lock)


cdef inline uint32_t size_of(Message message) except 0:
    """How many bytes the message takes in a batch."""
    return <uint32_t>(BATCH_ITEM_BYTES + len(message.body) + message.properties_size())


cdef inline void fill_slot(Slot* slot, Target target, Message message, object callback,
                           Mailbox mailbox, int attempts) noexcept:
    slot.token = <void*>target
    slot.message = <void*>message
    slot.callback = <void*>callback
    slot.owner = <void*>mailbox
    slot.mailbox = mailbox.state
    slot.attempts = <uint8_t>attempts
    Py_INCREF(target)
    Py_INCREF(message)
    Py_INCREF(callback)
    Py_INCREF(mailbox)


cdef bint append(Batch* batch, Message message, object callback, uint32_t need) noexcept:
    """Lock held. False without memory; then the batch is as before."""
    cdef uint32_t body_bytes = <uint32_t>len(message.body), properties_bytes
    cdef uint8_t* out
    cdef void** more
    if batch.used + need > batch.capacity:
        return False                 # another thread has made the message larger
    if batch.count == batch.items_capacity:
        more = <void**>realloc(batch.items, 4 * batch.items_capacity * sizeof(void*))
        if more == NULL:
            return False
        batch.items = more
        batch.items_capacity *= 2
    out = batch.bytes + batch.used
    properties_bytes = need - BATCH_ITEM_BYTES - body_bytes
    store_u32(out, need)
    store_u32(out + 4, 0)
    store_u32(out + 8, 0)
    store_u32(out + 12, <uint32_t>message.flag)
    store_u32(out + 16, body_bytes)
    memcpy(out + 20, <const char*>message.body, body_bytes)
    store_u16(out + 20 + body_bytes, <unsigned short>properties_bytes)
    message.write_properties(out + 22 + body_bytes)
    batch.items[2 * batch.count] = <void*>message
    batch.items[2 * batch.count + 1] = <void*>callback
    Py_INCREF(message)
    Py_INCREF(callback)
    batch.count += 1
    batch.body_bytes += body_bytes
    batch.used += need
    return True


cdef class TopicQueues:
    def __init__(self, list targets not None, route, uint32_t turn=0):
        if not targets:
            raise ValueError("a topic without queues")
        self.targets = targets
        self.route = route
        self.turn = turn

    def __reduce__(self):
        raise not_copied(self, "it belongs to a client of this process")

    cdef Target take(self):
        if self.current is None or self.current.open == NULL or self.current.open.sealed:
            self.turn += 1
            self.current = <Target>self.targets[self.turn % <uint32_t>len(self.targets)]
        return self.current

    def choose(self, avoid=None, usable=None):
        """The next queue in turn; if there is one, of a usable broker that is not `avoid`."""
        best = None
        for _each in self.targets:
            self.turn += 1
            target = <Target>self.targets[self.turn % <uint32_t>len(self.targets)]
            if target.broker_name != avoid:
                if usable is None or usable(target.broker_name):
                    return target
                best = best or target
        return best or self.targets[self.turn % <uint32_t>len(self.targets)]


@cython.no_gc_clear                  # as its base class
cdef class Sender(Sends):
    def __cinit__(self, *args, **kwargs):
        self.topics = {}

    def __reduce__(self):
        raise not_copied(self, "start one in each process, from its parameters")

    # ---- sends

    def send_async(self, Message message not None, callback=None, *, queue=None, selector=None,
                   arg=None, timeout_ms=None):
        """Sends without waiting. callback(result, error) is called when it is known how it ended,
        one of the two being None, in a thread of the client; without a callback the concurrent
        Future of a SendResult is returned."""
        cdef TopicQueues queues
        cdef Target target
        cdef uint32_t size = <uint32_t>len(message.body)
        cdef object future = None
        cdef bint together = self.batching and message.wait_store_msg_ok
        cdef bint plain = self.direct and queue is None and selector is None and timeout_ms is None
        if message.extra is not None:
            if SHARDING_KEY in message.extra:
                plain = False
            elif together and not ALONE.isdisjoint(message.extra):
                together = False
        if callback is None:
            callback = future = Future()
        if not plain or size == 0 or size >= self.compress_from or size > self.body_max:
            self._send_otherwise(message, callback, queue, selector, arg, timeout_ms)
            return future
        queues = self.topics.get(message.topic)
        if queues is None:
            queues = self._find_queues(message.topic)
        target = queues.take()
        self.enter(size)
        try:
            if together:
                target.gather(message, callback)
            else:
                target.submit(message, message.body, 0, callback, self.mailbox,
                              <int64_t>self.timeout_ms * 1000, 0)
        except BaseException:
            self.leave(1, size)
            raise
        return future

    def submit_to(self, Target target not None, Message message not None, bytes body not None,
                  int sys_flag, callback, double timeout_ms, int attempts=0, Mailbox mailbox=None,
                  bint gathered=False):
        """Sends one message to this queue; its end is told in `mailbox`. gathered: in a batch."""
        cdef Mailbox where = mailbox if mailbox is not None else self.mailbox
        self.enter(len(message.body))
        try:
            if gathered and self.batching and may_gather(message):
                target.gather(message, callback)
            else:
                target.submit(message, body, sys_flag, callback, where,
                              <int64_t>(timeout_ms * 1000), attempts)
        except BaseException:
            self.leave(1, len(message.body))
            raise

    def submit_batch_to(self, Target target not None, list messages not None, callbacks, callback,
                        double timeout_ms, int attempts=0, Mailbox mailbox=None):
        """Sends several messages of the target's topic in one frame."""
        cdef Mailbox where = mailbox if mailbox is not None else self.mailbox
        cdef int64_t size = 0
        cdef Message message
        for message in messages:
            size += len(message.body)
        self.enter(size)
        self.messages_in_flight += len(messages) - 1
        try:
            target.submit_batch(messages, callbacks, callback, where,
                                <int64_t>(timeout_ms * 1000), attempts)
        except BaseException:
            self.leave(len(messages), size)
            raise

    def seal_batches(self):
        """Sends what was gathered so far at once."""
        cdef EngineState* state = self.engine.state
        cdef TopicQueues queues
        cdef Target target
        cdef bint wake = False
        lock_take(&state.lock)
        for queues in self.topics.values():
            for target in queues.targets:
                if target.open != NULL and not target.open.sealed:
                    seal_batch(state, target.open, monotonic_us())
                    target.open = NULL
                    wake = True
        wake = wake and needs_wake(state, 0)
        lock_release(&state.lock)
        if wake:
            engine_wake(state)

    # ---- what Producer (Python) supplies

    def _find_queues(self, str topic):
        raise NotImplementedError

    def _send_otherwise(self, message, callback, queue, selector, arg, timeout_ms):
        raise NotImplementedError


def may_gather(Message message not None):
    """Whether a batch may hold it."""
    return message.wait_store_msg_ok and (
        message.extra is None or ALONE.isdisjoint(message.extra))


def monotonic_ms():
    """The clock that deadlines are measured by, in ms."""
    return monotonic_us() / 1000


def batch_item_bytes(Message message not None):
    """How many bytes the message takes in a batch."""
    message.identify(wall_ms())
    return BATCH_ITEM_BYTES + len(message.body) + message.properties_size()


def check_topic(str topic not None):
    """Raises MessageError for a name to which no broker takes sends."""
    cdef Py_UCS4 c
    if not 0 < len(topic) <= RETRY_OR_DLQ_TOPIC_CHARACTERS_MAX or (
            len(topic) > TOPIC_CHARACTERS_MAX and not topic.startswith(RETRY_PREFIX.decode())):
        raise MessageError(f"a topic of {len(topic)} characters: 1 to {TOPIC_CHARACTERS_MAX} "
                           f"are allowed")
    for c in topic:
        if not (48 <= c <= 57 or 65 <= c <= 90 or 97 <= c <= 122 or c == c'%' or c == c'|'
                or c == c'-' or c == c'_'):
            raise MessageError(f"topic {topic!r}: only letters, digits, %, |, - and _ are allowed")
