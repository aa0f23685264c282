"""Sends into the engine's buffers, alone or gathered (see target.pxd).

bench/client.py measures what a message costs this way.
"""
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, malloc, realloc
from libc.string cimport memcpy

from cext.base.byteorder cimport store_u16, store_u32
from cext.base.clock cimport monotonic_us, wall_ms
from cext.client.claim cimport claim_slot, engine_wake, needs_wake
from cext.client.link cimport link_mark, link_room
from cext.client.loop cimport seal_batch
from cext.client.mutex cimport lock_release, lock_take
from cext.client.mailbox cimport Mailbox
from cext.client.message cimport Message
from cext.client.sends cimport SendCompletion, Sends
from cext.client.slots cimport batch_free, slot_release
from cext.client.state cimport (
    BORN_DIGITS, KEEP_FRAME, KEEP_SEND, OPAQUE_AT, Batch, EngineState, Slot,
)
from cext.wire.codes cimport SEND_BATCH_MESSAGE, SEND_MESSAGE_V2
from cext.wire.limits cimport FRAME_BYTES_MAX

from cext.client.request import encode_request
from rmq.errors import MessageError, not_copied

cdef enum:
    PREFIX_BYTES = 29                # lengths, mark and the fixed part of a binary header
    EXT_BYTES_AT = 25
    FIELD_BYTES = 7                  # of a field with a one-letter name: i16, letter, i32
    NUMBER_BYTES_MAX = 11
    BATCH_ITEM_BYTES = 22            # of a message in a batch without body and properties
    ITEMS = 128                      # messages that a batch has room for at first


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


def batch_item_bytes(Message message not None):
    """How many bytes the message takes in a batch."""
    message.identify(wall_ms())
    return BATCH_ITEM_BYTES + len(message.body) + message.properties_size()
