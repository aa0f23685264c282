"""Pops (see popper.pxd for what is counted).

    popper = Popper(frames, [b'"c":"g","t":"bench",'], b"broker-a", sockets, window=8)
    popper.run(3_000_000); popper.stats()["messages"]
"""
import json

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from cext.base.byteorder cimport store_u32
from cext.base.check cimport check
from cext.base.clock cimport wall_ms
from cext.base.status cimport Status
from cext.load.peer cimport Peer, peer_room, peer_take_slot
from cext.load.pop_acks cimport ACK_BITS_TEXT, AckRow, AckTexts, ack_bits_text, next_ack_row
from cext.load.records cimport Walk, walk_popped
from cext.load.resting_loop cimport RestingLoop
from cext.load.signer cimport SIGNATURE_BYTES, Signer
from cext.load.tally cimport CODE_CORRUPT, tally_add
from cext.load.template cimport FrameSet
from cext.wire.codes cimport BATCH_ACK_MESSAGE, POLLING_FULL, POLLING_TIMEOUT
from cext.wire.reply_reader cimport ReplyFrame, reply_bytes, reply_number

cdef extern from "<stdio.h>" nogil:
    int snprintf(char* out, size_t size, const char* form, ...)

cdef enum:
    REPLY_BYTES_MAX = 5 * 1024 * 1024
    HEADER_MAX = 256             # of an ack, after its fields
    HEAD_MAX = 1024              # of an ack, before its fields
    SIGNATURE_END = 3            # "}, after it
    NUMBERS_MAX = 192            # of one row, without its names and bits
    ACK_BYTES_MAX = 65536


cdef bytes head_of_acks(Signer signer):
    cdef bytes code = b'{"code":%d,' % <int>BATCH_ACK_MESSAGE
    if signer is None:
        return code
    name = json.dumps(signer.access_key.decode()).encode()
    return (code + b'"extFields":{"AccessKey":' + name + b',"Signature":"'
            + b"." * SIGNATURE_BYTES + b'"},')


@cython.no_gc_clear                  # __dealloc__ needs all its fields
cdef class Popper(RestingLoop):
    def __cinit__(self, FrameSet frames not None, list names not None, bytes broker_name not None,
                  list sockets not None, uint32_t window=1, uint64_t limit=0):
        """names: `"c":"group","t":"topic",` for each frame of the set."""
        cdef uint32_t i
        cdef bytes name
        if not sockets or window < 1 or len(names) != frames.count:
            raise ValueError(f"{len(sockets)} connections, window {window}, {len(names)} names, "
                             f"{frames.count} topics")
        if any(len(each) > 2048 for each in names) or len(broker_name) > 256:
            raise ValueError("a name is too long")
        if frames.max_bytes > ACK_BYTES_MAX:
            raise ValueError(f"a pop of {frames.max_bytes} bytes")
        self.frames = frames
        self.fixed_slots = True
        self.window = window
        self.limit = limit
        self.ack_names = names
        self.signer = frames.signer     # acks are signed by the account that pops
        self.ack_head = head_of_acks(self.signer)
        if len(self.ack_head) > HEAD_MAX:
            raise ValueError("the access key is too long")
        self.head = <const uint8_t*><char*>self.ack_head
        self.head_length = <uint32_t>len(self.ack_head)
        self.signature_at = self.head_length - SIGNATURE_BYTES - SIGNATURE_END
        self.ack_tail = b'],"brokerName":"' + broker_name + b'"}'
        self.tail = <const uint8_t*><char*>self.ack_tail
        self.tail_length = len(self.ack_tail)
        self.slots = <PopSlot*>calloc(len(sockets) * window, sizeof(PopSlot))
        self.names = <NameParts*>calloc(frames.count, sizeof(NameParts))
        if self.slots == NULL or self.names == NULL:
            raise MemoryError(f"{len(sockets)} connections, window {window}")
        for i in range(frames.count):
            name = names[i]
            self.names[i].bytes = <const uint8_t*><char*>name
            self.names[i].length = len(name)
        self.open_peers(sockets, REPLY_BYTES_MAX, <uint64_t>window * ACK_BYTES_MAX, window, False)
        self.reset_stats()

    def __dealloc__(self):
        free(self.slots)
        free(self.names)

    # ---- the loop ----

    cdef bint ended(self) noexcept nogil:
        return self.live_count == 0 or (self.limit != 0 and self.taken >= self.limit)

    cdef void ask(self, Peer* peer, uint32_t number, int64_t now) noexcept nogil:
        cdef uint32_t slot = <uint32_t>(peer - self.peers) * self.window + number
        cdef uint8_t* out = peer_room(peer, self.frames.max_bytes)
        self.slots[slot].messages = 0
        check(out != NULL, b"the load generator: output for one pop of every slot", slot,
              <int64_t>peer.output_end)
        if self.ended():
            self.rest(&self.slots[slot].resting)
            return
        peer_take_slot(peer, <int32_t>number, now)
        peer.output_end += self.frames.render(slot % self.frames.count, peer.slots[number].opaque,
                                              0, wall_ms(), out)
        peer.dirty = True

    cdef bint acknowledge(self, Peer* peer, uint32_t number, ReplyFrame* reply,
                          int64_t now) noexcept nogil:
        """Sends one batch ack for all that the reply gave; False: its texts cannot be right."""
        cdef uint32_t slot = <uint32_t>(peer - self.peers) * self.window + number
        cdef const NameParts* names = &self.names[slot % self.frames.count]
        cdef uint8_t* out = peer_room(peer, ACK_BYTES_MAX)
        cdef uint32_t length, at
        cdef int64_t pop_ms = 0, invisible_ms = 0, revive_queue = 0
        cdef char bits[ACK_BITS_TEXT]
        cdef AckTexts texts
        cdef AckRow row
        cdef int status
        texts.at = 0
        if (out == NULL
                or reply_number(reply, b"popTime", &pop_ms) != Status.OK
                or reply_number(reply, b"invisibleTime", &invisible_ms) != Status.OK
                or reply_number(reply, b"reviveQid", &revive_queue) != Status.OK
                or reply_bytes(reply, b"startOffsetInfo", &texts.starts,
                               &texts.starts_length) != Status.OK
                or reply_bytes(reply, b"msgOffsetInfo", &texts.offsets,
                               &texts.offsets_length) != Status.OK):
            return False
        peer_take_slot(peer, <int32_t>number, now)
        memcpy(out + 8, self.head, self.head_length)
        length = self.head_length + <uint32_t>snprintf(
            <char*>out + 8 + self.head_length, HEADER_MAX, b'"flag":0,"language":"JAVA",'
            b'"opaque":%d,"serializeTypeCurrentRPC":"JSON","version":513}',
            peer.slots[number].opaque)
        at = 8 + length
        memcpy(out + at, b'{"acks":[', 9)
        at += 9
        while True:
            status = next_ack_row(&texts, &row)
            if status != Status.OK:
                break
            if ACK_BYTES_MAX - at < names.length + NUMBERS_MAX + ACK_BITS_TEXT \
                    + self.tail_length:
                status = Status.MALFORMED
                break
            if self.slots[slot].messages > 0:
                out[at] = c','
                at += 1
            out[at] = c'{'
            memcpy(out + at + 1, names.bytes, names.length)
            at += 1 + names.length
            ack_bits_text(&row, bits)
            at += <uint32_t>snprintf(
                <char*>out + at, NUMBERS_MAX + ACK_BITS_TEXT,
                b'"r":"%c","so":%lld,"q":%lld,"rq":%lld,"pt":%lld,"it":%lld,"b":"%s"}', row.retry,
                <long long>row.start, <long long>row.queue_id, <long long>revive_queue,
                <long long>pop_ms, <long long>invisible_ms, bits)
            self.slots[slot].messages += row.count
            if row.retry != c'0':
                self.again += row.count
        if status != Status.NOT_FOUND or self.slots[slot].messages == 0:
            peer.slots[number].opaque = 0
            peer.open_count -= 1
            return False
        memcpy(out + at, self.tail, self.tail_length)
        at += self.tail_length
        store_u32(out, at - 4)
        store_u32(out + 4, length)
        if self.signer is not None:
            self.signer.begin()
            self.signer.add(self.signer.name, self.signer.name_bytes)
            self.signer.add(out + 8 + length, at - 8 - length)
            self.signer.end(out + 8 + self.signature_at)
        peer.output_end += at
        peer.dirty = True
        return True

    cdef void take_pop(self, Peer* peer, uint32_t number, ReplyFrame* reply, int64_t now,
                       int64_t waited_ns) noexcept nogil:
        cdef PopSlot* slot = &self.slots[<uint32_t>(peer - self.peers) * self.window + number]
        cdef Walk walk
        self.pops += 1
        if reply.header.code == POLLING_FULL or reply.header.code == POLLING_TIMEOUT:
            self.empty += 1
            self.rest(&slot.resting)
        elif reply.header.code != 0:
            tally_add(&self.failures, reply.header.code, 1)
            self.rest(&slot.resting)
        elif (walk_popped(reply.frame.body, reply.frame.body_bytes, &walk) != Status.OK
                or not self.acknowledge(peer, number, reply, now)):
            tally_add(&self.failures, CODE_CORRUPT, 1)
            slot.messages = 0
            self.rest(&slot.resting)
        else:
            self.latency.record(waited_ns)
            self.found += 1
            self.body_bytes += walk.body_bytes
            if walk.count != slot.messages:
                tally_add(&self.failures, CODE_CORRUPT, 1)

    cdef void take_ack(self, Peer* peer, uint32_t number, ReplyFrame* reply,
                       int64_t now) noexcept nogil:
        cdef PopSlot* slot = &self.slots[<uint32_t>(peer - self.peers) * self.window + number]
        if reply.header.code == 0:
            self.acks += 1
            self.messages += slot.messages
            self.taken += slot.messages
            self.ask(peer, number, now)
            return
        tally_add(&self.failures, reply.header.code, 1)
        slot.messages = 0
        self.rest(&slot.resting)

    cdef void take_reply(self, Peer* peer, int32_t slot, ReplyFrame* reply,
                         int64_t now) noexcept nogil:
        self.reply_bytes += reply.frame.total_bytes
        if self.slots[<uint32_t>(peer - self.peers) * self.window + <uint32_t>slot].messages > 0:
            self.take_ack(peer, <uint32_t>slot, reply, now)
        else:
            self.take_pop(peer, <uint32_t>slot, reply, now, now - peer.slots[slot].started_ns)

    cdef void ask_each(self, bint only_resting, int64_t now) noexcept nogil:
        cdef uint32_t i, number
        cdef PopSlot* slot
        for i in range(self.peer_count):
            for number in range(self.window):
                slot = &self.slots[i * self.window + number]
                if only_resting and not self.wake(&slot.resting):
                    continue
                if self.peers[i].fd >= 0:
                    self.ask(&self.peers[i], number, now)

    # ---- Python side ----

    def reset_stats(self):
        """Starts counting from now."""
        self.pops = self.found = self.acks = self.messages = self.again = self.body_bytes = 0
        self.reply_bytes = self.empty = 0
        self.reset_shared_stats()

    def stats(self):
        """What happened since reset_stats(); `seconds` ends with the last answer."""
        return self.shared_stats() | {
            "requests": self.pops,
            "acked": self.acks,
            "messages": self.messages,
            "again": self.again,
            "body_bytes": self.body_bytes,
            "bytes_received": self.reply_bytes,
            "empty": self.empty,
        }
