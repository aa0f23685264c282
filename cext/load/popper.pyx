"""The pop loop (popper.pxd tells what is counted).

    popper = Popper(frames, [b'"c":"g","t":"bench",'], b"broker-a", sockets, window=8)
    popper.run(3_000_000); popper.stats()["messages"]
"""
import os

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from cext.base.byteorder cimport store_u32
from cext.base.check cimport check
from cext.base.clock cimport wall_ms
from cext.base.status cimport Status
from cext.load.histogram cimport Histogram
from cext.load.peer cimport (
    Peer, peer_break, peer_flush, peer_match, peer_open, peer_receive, peer_release, peer_room,
    peer_take_slot,
)
from cext.load.pop_acks cimport ACK_BITS_TEXT, AckRow, AckTexts, ack_bits_text, next_ack_row
from cext.load.records cimport Walk, walk_popped
from cext.load.reply cimport Reply, read_reply, reply_number, reply_text
from cext.load.tally cimport CODE_CONNECTION, CODE_CORRUPT, CODE_UNMATCHED, Tally, tally_add
from cext.load.template cimport FrameSet
from cext.load.epoll cimport (
    EPOLL_CLOEXEC, EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, epoll_create1, epoll_event, fine_timers,
    now_ns, wait_events,
)
from cext.wire.codes cimport BATCH_ACK_MESSAGE, POLLING_FULL, POLLING_TIMEOUT

from rmq.errors import not_copied

cdef extern from "<stdio.h>" nogil:
    int snprintf(char* out, size_t size, const char* form, ...)

cdef enum:
    EVENTS = 256
    REPLY_BYTES_MAX = 5 * 1024 * 1024
    WAIT_NS_MAX = 100_000_000
    REST_NS = 10_000_000
    HEADER_MAX = 256             # of an ack
    NUMBERS_MAX = 192            # of one row, beside its names and bits
    ACK_BYTES_MAX = 65536


cdef class Popper:
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
        self.sockets = sockets
        self.peer_count = self.live_count = len(sockets)
        self.window = window
        self.limit = limit
        self.ack_names = names
        self.ack_tail = b'],"brokerName":"' + broker_name + b'"}'
        self.tail = <const uint8_t*><char*>self.ack_tail
        self.tail_length = len(self.ack_tail)
        self.latency = Histogram()
        self.epoll_fd = epoll_create1(EPOLL_CLOEXEC)
        if self.epoll_fd < 0:
            raise OSError("epoll_create1")
        self.peers = <Peer*>calloc(self.peer_count, sizeof(Peer))
        self.slots = <PopSlot*>calloc(self.peer_count * window, sizeof(PopSlot))
        self.names = <NameParts*>calloc(frames.count, sizeof(NameParts))
        if self.peers == NULL or self.slots == NULL or self.names == NULL:
            raise MemoryError()
        for i in range(frames.count):
            name = names[i]
            self.names[i].bytes = <const uint8_t*><char*>name
            self.names[i].length = len(name)
        for i in range(self.peer_count):
            if peer_open(&self.peers[i], self.sockets[i].fileno(), self.epoll_fd, REPLY_BYTES_MAX,
                         <uint64_t>window * ACK_BYTES_MAX, window, False) != Status.OK:
                raise MemoryError(f"connection {i}: window {window}")
        self.reset_stats()

    def __reduce__(self):
        raise not_copied(self, "make one in each process")

    def __dealloc__(self):
        cdef uint32_t i
        if self.peers != NULL:
            for i in range(self.peer_count):
                peer_release(&self.peers[i])
            free(self.peers)
        free(self.slots)
        free(self.names)
        if self.epoll_fd >= 0:
            os.close(self.epoll_fd)

    # ---- the loop ----

    cdef bint finished(self) noexcept nogil:
        return self.live_count == 0 or (self.limit != 0 and self.taken >= self.limit)

    cdef void rest(self, PopSlot* slot) noexcept nogil:
        if not slot.resting:
            slot.resting = True
            self.resting_count += 1

    cdef void ask(self, Peer* peer, uint32_t number, int64_t now) noexcept nogil:
        cdef uint32_t slot = <uint32_t>(peer - self.peers) * self.window + number
        cdef uint8_t* out = peer_room(peer, self.frames.max_bytes)
        self.slots[slot].messages = 0
        check(out != NULL, b"the load generator: output for one pop of every slot", slot,
              <int64_t>peer.output_end)
        if self.finished():
            self.rest(&self.slots[slot])
            return
        peer_take_slot(peer, <int32_t>number, now)
        peer.output_end += self.frames.render(slot % self.frames.count, peer.slots[number].opaque,
                                              0, wall_ms(), out)
        peer.dirty = True

    cdef bint acknowledge(self, Peer* peer, uint32_t number, const Reply* reply,
                          int64_t now) noexcept nogil:
        """One batch ack of all that the reply gave; False when its texts cannot be right."""
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
                or reply_number(reply, b"popTime", 7, &pop_ms) != Status.OK
                or reply_number(reply, b"invisibleTime", 13, &invisible_ms) != Status.OK
                or reply_number(reply, b"reviveQid", 9, &revive_queue) != Status.OK
                or reply_text(reply, b"startOffsetInfo", 15, &texts.starts,
                              &texts.starts_length) != Status.OK
                or reply_text(reply, b"msgOffsetInfo", 13, &texts.offsets,
                              &texts.offsets_length) != Status.OK):
            return False
        peer_take_slot(peer, <int32_t>number, now)
        length = <uint32_t>snprintf(
            <char*>out + 8, HEADER_MAX, b'{"code":%d,"flag":0,"language":"JAVA","opaque":%d,'
            b'"serializeTypeCurrentRPC":"JSON","version":513}', <int>BATCH_ACK_MESSAGE,
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
        peer.output_end += at
        peer.dirty = True
        return True

    cdef void take_pop(self, Peer* peer, uint32_t number, const Reply* reply, int64_t now,
                       int64_t waited_ns) noexcept nogil:
        cdef PopSlot* slot = &self.slots[<uint32_t>(peer - self.peers) * self.window + number]
        cdef Walk walk
        self.pops += 1
        if reply.code == POLLING_FULL or reply.code == POLLING_TIMEOUT:
            self.empty += 1
            self.rest(slot)
        elif reply.code != 0:
            tally_add(&self.failures, reply.code, 1)
            self.rest(slot)
        elif (walk_popped(reply.body, reply.body_bytes, &walk) != Status.OK
                or not self.acknowledge(peer, number, reply, now)):
            tally_add(&self.failures, CODE_CORRUPT, 1)
            slot.messages = 0
            self.rest(slot)
        else:
            self.latency.record(waited_ns)
            self.found += 1
            self.body_bytes += walk.body_bytes
            if walk.count != slot.messages:
                tally_add(&self.failures, CODE_CORRUPT, 1)

    cdef void take_ack(self, Peer* peer, uint32_t number, const Reply* reply,
                       int64_t now) noexcept nogil:
        cdef PopSlot* slot = &self.slots[<uint32_t>(peer - self.peers) * self.window + number]
        if reply.code == 0:
            self.acks += 1
            self.messages += slot.messages
            self.taken += slot.messages
            self.ask(peer, number, now)
            return
        tally_add(&self.failures, reply.code, 1)
        slot.messages = 0
        self.rest(slot)

    cdef void take_answers(self, Peer* peer, int64_t now) noexcept nogil:
        cdef Reply reply
        cdef int32_t number
        cdef int status
        while True:
            status = read_reply(peer.input + peer.input_start, peer.input_end - peer.input_start,
                                <uint32_t>peer.input_capacity, &self.hints, &reply)
            if status == Status.NOT_READY:
                return
            if status != Status.OK:
                self.lose(peer)
                return
            peer.input_start += reply.total
            if not reply.flag_response:
                continue
            number = peer_match(peer, reply.opaque, True)
            if number < 0:
                tally_add(&self.failures, CODE_UNMATCHED, 1)
                continue
            self.last_answer_ns = now
            self.reply_bytes += reply.total
            if self.slots[<uint32_t>(peer - self.peers) * self.window
                          + <uint32_t>number].messages > 0:
                self.take_ack(peer, <uint32_t>number, &reply, now)
            else:
                self.take_pop(peer, <uint32_t>number, &reply, now,
                              now - peer.slots[number].started_ns)

    cdef void lose(self, Peer* peer) noexcept nogil:
        if peer.fd < 0:
            return
        peer_break(peer)
        self.live_count -= 1
        tally_add(&self.failures, CODE_CONNECTION, max(peer.open_count, 1))
        peer.open_count = 0

    cdef void serve(self, Peer* peer, uint32_t events) noexcept nogil:
        cdef int status = Status.OK
        if events & (EPOLLIN | EPOLLHUP | EPOLLERR):
            status = peer_receive(peer)
            if status == Status.OK:
                self.take_answers(peer, now_ns())
        if status == Status.CLOSED:
            self.lose(peer)
        elif peer.fd >= 0 and (peer.dirty and not peer.wants_room or events & EPOLLOUT):
            if peer_flush(peer) == Status.CLOSED:
                self.lose(peer)

    cdef void ask_all(self, bint only_resting) noexcept nogil:
        """Asks in every slot at the start, in the resting ones at each tick."""
        cdef uint32_t i, number
        cdef int64_t now = now_ns()
        cdef PopSlot* slot
        for i in range(self.peer_count):
            for number in range(self.window):
                slot = &self.slots[i * self.window + number]
                if only_resting:
                    if not slot.resting:
                        continue
                    slot.resting = False
                    self.resting_count -= 1
                if self.peers[i].fd >= 0:
                    self.ask(&self.peers[i], number, now)
            if self.peers[i].fd >= 0:
                self.serve(&self.peers[i], 0)

    cdef void loop(self, int64_t until) noexcept nogil:
        cdef epoll_event events[EVENTS]
        cdef int count, i
        cdef int64_t now = now_ns(), rested = now, wait
        cdef Peer* peer
        if not self.started:
            self.started = True
            self.ask_all(False)
        while now < until and not self.finished():
            wait = min(until - now, <int64_t>WAIT_NS_MAX)
            if self.resting_count:
                wait = min(wait, <int64_t>REST_NS)
            count = wait_events(self.epoll_fd, events, EVENTS, wait)
            for i in range(count):
                peer = <Peer*>events[i].data.ptr
                if peer.fd >= 0:
                    self.serve(peer, events[i].events)
            now = now_ns()
            if self.resting_count and now - rested >= REST_NS:
                rested = now
                self.ask_all(True)

    # ---- Python side ----

    def run(self, int64_t microseconds):
        """Runs the loop for so long. False when the limit is reached, or no connection is left."""
        with nogil:
            fine_timers()
            self.loop(now_ns() + microseconds * 1000)
        return not self.finished()

    def reset_stats(self):
        """Starts counting from now."""
        memset(&self.failures, 0, sizeof(Tally))
        self.latency.clear()
        self.pops = self.found = self.acks = self.messages = self.again = self.body_bytes = 0
        self.reply_bytes = self.empty = 0
        self.stats_ns = self.last_answer_ns = now_ns()

    def stats(self):
        """What happened since reset_stats(); `seconds` ends with the last answer."""
        cdef int i
        return {
            "requests": self.pops,
            "acked": self.acks,
            "messages": self.messages,
            "again": self.again,
            "body_bytes": self.body_bytes,
            "bytes_received": self.reply_bytes,
            "empty": self.empty,
            "seconds": (self.last_answer_ns - self.stats_ns) / 1e9,
            "failures": {self.failures.codes[i]: self.failures.counts[i]
                         for i in range(self.failures.used)},
            "live_connections": self.live_count,
        }
