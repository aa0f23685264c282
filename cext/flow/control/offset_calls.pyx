"""Offset calls. See offset_calls.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcpy, memset

from cext.base.status cimport MALFORMED, OK, raise_status
from cext.flow.context.call_block cimport Block, block_free, block_numbers, block_take
from cext.flow.context.control_link cimport CallFn
from cext.flow.control.control_side cimport borrowed
from cext.flow.control.queue_calls cimport queue_of
from cext.flow.pull.held_pulls cimport wake_all
from cext.flow.pull.pull_service cimport PullService
from cext.flow.tables.delivery_counter cimport DeliveryCounter, delivery_counter_pulled
from cext.flow.tables.delivery_counter_lists cimport delivery_counter_find
from cext.flow.tables.offset_table cimport (
    GroupOffsets,
    offset_commit,
    offset_query,
    offset_reset,
    offsets_name,
    offsets_remove,
    offsets_take_changed,
)
from cext.flow.tables.tables cimport Tables
from cext.memory.name_map cimport NameEntry, name_map_next
from cext.store.queues.consume_queue cimport Queue
from cext.wire.text cimport Text

cdef enum:
    ENTRY_FIXED_BYTES = 8
    CHANGED_PER_CALL = 4096     # entries

cdef enum Which:                # the offsets that offsets() copies
    COMMITTED = 0
    PULLED = 1                  # up to where each group has pulled
    RESETS = 2                  # resets that no pull has been told of


# ---------------------------------------------------------------- commit, reset, query

cdef struct OneOffset:
    Text group
    Text topic
    int32_t queue_id
    int64_t offset              # query_offset: a result, -1: none
    # results
    int status


cdef void commit_one(PullService s, OneOffset* x) noexcept nogil:
    x.status = offset_commit(&s.tables.offsets, x.topic.bytes, x.topic.length, x.group.bytes,
                             x.group.length, x.queue_id, x.offset)


cdef void reset_one(PullService s, OneOffset* x) noexcept nogil:
    """Held pulls are answered, so that the group's next pull, which is told to go to the offset,
    comes at once."""
    cdef Queue* queue
    x.status = offset_reset(&s.tables.offsets, x.topic.bytes, x.topic.length, x.group.bytes,
                            x.group.length, x.queue_id, x.offset)
    queue = queue_of(s.append, &x.topic, x.queue_id)
    if x.status == OK and queue != NULL:
        wake_all(s, queue)
    delivery_counter_pulled(delivery_counter_find(s.tables, x.topic.bytes, x.topic.length,
                                                  x.group.bytes,
                                                  x.group.length), x.queue_id, -1)


cdef void query_one(Tables s, OneOffset* x) noexcept nogil:
    x.offset = offset_query(&s.offsets, x.topic.bytes, x.topic.length, x.group.bytes,
                            x.group.length, x.queue_id)
    x.status = OK


# ---------------------------------------------------------------- offsets

cdef struct CopyOffsets:
    int32_t which               # Which
    # results
    int status
    Block block                 # per entry u32 name bytes, u32 slots, name, slots * i64


cdef void put_pulled(PullService s, const NameEntry* pair, int32_t slots,
                     uint8_t* out) noexcept nogil:
    """What topic@group has pulled, in as many queues as it has committed."""
    cdef const uint8_t* at = <const uint8_t*> memchr(pair.name, c'@', pair.length)
    cdef uint32_t before = <uint32_t> (at - pair.name)
    cdef const DeliveryCounter* delivered = delivery_counter_find(s.tables, pair.name, before,
                                                                  at + 1,
                                                                  pair.length - before - 1)
    memset(out, 0xFF, 8 * <uint64_t> slots)
    if delivered != NULL and delivered.slots > 0:
        memcpy(out, delivered.pulled, 8 * <uint64_t> min(slots, delivered.slots))


cdef uint64_t offsets_bytes(PullService s) noexcept nogil:
    cdef NameEntry* entry
    cdef uint64_t bytes = 0, cursor = name_map_next(&s.tables.offsets.names, 0, &entry)
    while cursor != 0:
        bytes += 8 + entry.length + 8 * <uint64_t> (<GroupOffsets*> entry.value).slots
        cursor = name_map_next(&s.tables.offsets.names, cursor, &entry)
    return bytes


cdef void copy_offsets(PullService s, CopyOffsets* x) noexcept nogil:
    cdef NameEntry* entry
    cdef GroupOffsets* offsets
    cdef uint64_t cursor
    cdef int64_t none = -1
    cdef int32_t i
    cdef uint8_t* at
    x.status = block_take(&x.block, offsets_bytes(s))
    if x.status != OK:
        return
    at = x.block.bytes
    cursor = name_map_next(&s.tables.offsets.names, 0, &entry)
    while cursor != 0:
        offsets = <GroupOffsets*> entry.value
        memcpy(at, &entry.length, 4)
        memcpy(at + 4, &offsets.slots, 4)
        memcpy(at + 8, entry.name, entry.length)
        at += 8 + entry.length
        memcpy(at, offsets.offsets, 8 * <uint64_t> offsets.slots)
        if x.which == PULLED:
            put_pulled(s, entry, offsets.slots, at)
        for i in range(offsets.slots if x.which == RESETS else 0):
            if not offsets.resets[i]:
                memcpy(at + 8 * <uint64_t> i, &none, 8)
        at += 8 * <uint64_t> offsets.slots
        cursor = name_map_next(&s.tables.offsets.names, cursor, &entry)


cdef dict read_offsets(const Block* block):
    cdef uint64_t at = 0
    cdef uint32_t length
    cdef int32_t slots, i
    cdef int64_t offset
    cdef dict out = {}
    while at < block.length:
        memcpy(&length, block.bytes + at, 4)
        memcpy(&slots, block.bytes + at + 4, 4)
        name = (<char*> block.bytes)[at + 8:at + 8 + length]
        at += 8 + length
        queues = {}
        for i in range(slots):
            memcpy(&offset, block.bytes + at, 8)
            at += 8
            if offset >= 0:
                queues[i] = offset
        out[name] = queues
    return out


# ---------------------------------------------------------------- offset entries
#
# u32 name bytes, u32 slots, name, an i64 (-1: none) and then a u8 (1: a reset) for each slot;
# native byte order. An entry that was removed has no slots.

cdef inline uint64_t entry_bytes(const GroupOffsets* entry) noexcept nogil:
    return ENTRY_FIXED_BYTES + entry.name_bytes + 9 * <uint64_t> entry.slots


cdef uint8_t* copy_entry(uint8_t* at, const GroupOffsets* entry) noexcept nogil:
    memcpy(at, &entry.name_bytes, 4)
    memcpy(at + 4, &entry.slots, 4)
    memcpy(at + ENTRY_FIXED_BYTES, offsets_name(entry), entry.name_bytes)
    at += ENTRY_FIXED_BYTES + entry.name_bytes
    if entry.slots > 0:
        memcpy(at, entry.offsets, 8 * <uint64_t> entry.slots)
        memcpy(at + 8 * <uint64_t> entry.slots, entry.resets, entry.slots)
    return at + 9 * <uint64_t> entry.slots


cdef struct CopyEntries:
    uint64_t count              # take_changed: most to take; result: how many there were
    # results
    int status
    Block block


cdef void copy_entries(PullService s, CopyEntries* x) noexcept nogil:
    """Copies all entries, as they are at one moment."""
    cdef NameEntry* entry
    cdef uint64_t bytes = 0, cursor = name_map_next(&s.tables.offsets.names, 0, &entry)
    cdef uint8_t* at
    while cursor != 0:
        bytes += entry_bytes(<GroupOffsets*> entry.value)
        cursor = name_map_next(&s.tables.offsets.names, cursor, &entry)
    x.status = block_take(&x.block, bytes)
    if x.status != OK:
        return
    at = x.block.bytes
    cursor = name_map_next(&s.tables.offsets.names, 0, &entry)
    while cursor != 0:
        at = copy_entry(at, <GroupOffsets*> entry.value)
        cursor = name_map_next(&s.tables.offsets.names, cursor, &entry)


cdef void take_changed(PullService s, CopyEntries* x) noexcept nogil:
    cdef const GroupOffsets* entry = s.tables.offsets.changed_first
    cdef uint64_t bytes = 0, count = 0
    cdef uint8_t* at
    while entry != NULL and count < x.count:
        bytes += entry_bytes(entry)
        entry = entry.newer
        count += 1
    x.count = count
    x.status = block_take(&x.block, bytes)
    if x.status != OK:
        return
    at = x.block.bytes
    while count > 0:
        at = copy_entry(at, s.tables.offsets.changed_first)
        offsets_take_changed(&s.tables.offsets)
        count -= 1


cdef bytes read_entries(CopyEntries* x):
    raise_status(x.status, "copy of the offsets")
    found = (<char*> x.block.bytes)[:x.block.length]
    block_free(&x.block)
    return found


cdef struct PutEntries:
    Text entries
    # results
    int status


cdef int put_entry(PullService s, const uint8_t* name, uint32_t bytes, uint32_t slots,
                   const uint8_t* values) noexcept nogil:
    """The offsets of one pair; OK, or why they are not taken."""
    cdef const uint8_t* separator = <const uint8_t*> memchr(name, c'@', bytes)
    cdef const uint8_t* resets = values + 8 * <uint64_t> slots
    cdef uint32_t before, i
    cdef int64_t offset
    cdef int status = OK
    if separator == NULL:
        return MALFORMED
    before = <uint32_t> (separator - name)
    for i in range(slots):
        memcpy(&offset, values + 8 * <uint64_t> i, 8)
        if offset < 0:
            continue
        if resets[i]:
            status = offset_reset(&s.tables.offsets, name, before, separator + 1,
                                  bytes - before - 1, <int32_t> i, offset)
        else:
            status = offset_commit(&s.tables.offsets, name, before, separator + 1,
                                   bytes - before - 1, <int32_t> i, offset)
        if status != OK:
            return status
    return OK


cdef void put_entries(PullService s, PutEntries* x) noexcept nogil:
    cdef const uint8_t* at = x.entries.bytes
    cdef const uint8_t* end = at + x.entries.length
    cdef uint32_t bytes, slots
    x.status = OK
    while at < end and x.status == OK:
        x.status = MALFORMED
        if end - at < ENTRY_FIXED_BYTES:
            return
        memcpy(&bytes, at, 4)
        memcpy(&slots, at + 4, 4)
        at += ENTRY_FIXED_BYTES
        if <uint64_t> (end - at) < bytes + 9 * <uint64_t> slots:
            return
        x.status = put_entry(s, at, bytes, slots, at + bytes)
        at += bytes + 9 * <uint64_t> slots


# ---------------------------------------------------------------- pulled

cdef struct CopyPulled:
    Text group
    Text topic
    # results
    int status
    Block block                 # i64 of each queue from 0 on, -1: not pulled


cdef void copy_pulled(PullService s, CopyPulled* x) noexcept nogil:
    cdef const DeliveryCounter* delivered = delivery_counter_find(
        s.tables, x.topic.bytes, x.topic.length, x.group.bytes, x.group.length)
    x.status = block_take(&x.block, 8 * <uint64_t> delivered.slots if delivered != NULL else 0)
    if x.status == OK and x.block.length > 0:
        memcpy(x.block.bytes, delivered.pulled, x.block.length)


# ---------------------------------------------------------------- remove_offsets

cdef struct RemoveOffsets:
    Text group                  # empty: any
    Text topic                  # empty: any


cdef void remove_offsets(PullService s, RemoveOffsets* x) noexcept nogil:
    offsets_remove(&s.tables.offsets, x.topic.bytes, x.topic.length, x.group.bytes, x.group.length)


cdef class OffsetCalls(GroupCalls):
    @property
    def offsets_version(self):
        return self.tables.offsets.version

    def commit_offset(self, bytes group, bytes topic, int32_t queue_id, int64_t offset):
        self._move(<CallFn> commit_one, group, topic, queue_id, offset)

    def reset_offset(self, bytes group, bytes topic, int32_t queue_id, int64_t offset):
        self._move(<CallFn> reset_one, group, topic, queue_id, offset)

    cdef _move(self, CallFn function, bytes group, bytes topic, int32_t queue_id, int64_t offset):
        cdef OneOffset x
        x.group = borrowed(group)
        x.topic = borrowed(topic)
        x.queue_id = queue_id
        x.offset = offset
        self._call(function, <void*> self.pulls, &x)
        raise_status(x.status, f"offset {offset} of queue {queue_id}")

    def query_offset(self, bytes group, bytes topic, int32_t queue_id):
        cdef OneOffset x
        x.group = borrowed(group)
        x.topic = borrowed(topic)
        x.queue_id = queue_id
        self._call(<CallFn> query_one, <void*> self.tables, &x)
        return x.offset

    def offsets(self, int32_t which=0):
        cdef CopyOffsets x
        x.which = which
        self._call(<CallFn> copy_offsets, <void*> self.pulls, &x)
        raise_status(x.status, "copy of the offsets")
        out = read_offsets(&x.block)
        block_free(&x.block)
        return out

    def offset_entries(self):
        cdef CopyEntries x
        self._call(<CallFn> copy_entries, <void*> self.pulls, &x)
        return read_entries(&x)

    def take_changed_offsets(self):
        cdef CopyEntries x
        cdef uint64_t left = self.tables.offsets.changed_count
        blocks = []
        x.count = 1
        while left > 0 and x.count > 0:
            x.count = min(left, <uint64_t> CHANGED_PER_CALL)
            self._call(<CallFn> take_changed, <void*> self.pulls, &x)
            blocks.append(read_entries(&x))
            left -= x.count
        return b"".join(blocks)

    def put_offsets(self, bytes entries):
        cdef PutEntries x
        x.entries = borrowed(entries)
        self._call(<CallFn> put_entries, <void*> self.pulls, &x)
        raise_status(x.status, "offset entries")

    def pulled(self, bytes group, bytes topic):
        cdef CopyPulled x
        x.group = borrowed(group)
        x.topic = borrowed(topic)
        self._call(<CallFn> copy_pulled, <void*> self.pulls, &x)
        raise_status(x.status, "copy of the pull offsets")
        return {i: offset for i, offset in enumerate(block_numbers(&x.block)) if offset >= 0}

    def remove_offsets(self, group, topic):
        cdef RemoveOffsets x
        cdef bytes of_group = group or b"", of_topic = topic or b""
        x.group = borrowed(of_group)
        x.topic = borrowed(of_topic)
        self._call(<CallFn> remove_offsets, <void*> self.pulls, &x)
