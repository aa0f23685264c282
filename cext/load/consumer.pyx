"""The pull loop (consumer.pxd tells what ends a queue's round).

Every answer is walked record by record (records.pxd), so that the counts are of messages seen and
not of bytes received.

    consumer = Consumer(frames, sockets, offsets=[(0, 20_000)] * 8, rewind=True)
    consumer.run(3_000_000); consumer.stats()["messages"]
"""
import os

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from cext.base.check cimport check
from cext.base.status cimport Status
from cext.load.histogram cimport Histogram
from cext.load.peer cimport (
    Peer, peer_break, peer_flush, peer_match, peer_open, peer_receive, peer_release, peer_room,
    peer_take_slot,
)
from cext.load.records cimport Walk, walk_records
from cext.load.reply cimport Reply, read_reply, reply_number
from cext.load.tally cimport CODE_CONNECTION, CODE_CORRUPT, CODE_UNMATCHED, Tally, tally_add
from cext.load.template cimport FrameSet
from cext.load.epoll cimport (
    EPOLL_CLOEXEC, EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, epoll_create1, epoll_event, fine_timers,
    now_ns, wait_events,
)
from cext.wire.codes cimport PULL_NOT_FOUND, PULL_OFFSET_MOVED

from rmq.errors import not_copied

cdef enum:
    EVENTS = 256
    REPLY_BYTES_MAX = 5 * 1024 * 1024    # one record of 4 MiB, or 256 KiB of small ones
    WAIT_NS_MAX = 100_000_000
    REST_NS = 10_000_000


cdef class Consumer:
    def __cinit__(self, FrameSet frames not None, list sockets not None, list offsets not None,
                  bint rewind=False, bint stop_at_tail=False, uint64_t limit=0,
                  bint check_crc=False):
        """offsets: one (first, end) per frame of the set; end None: no end."""
        cdef uint32_t i, slots
        if not sockets or len(offsets) != frames.count:
            raise ValueError(f"{len(sockets)} connections, {len(offsets)} offsets, "
                             f"{frames.count} queues")
        self.frames = frames
        self.sockets = sockets[:frames.count]
        self.peer_count = self.live_count = len(self.sockets)
        self.rewind = rewind
        self.stop_at_tail = stop_at_tail
        self.limit = limit
        self.check_crc = check_crc
        self.latency = Histogram()
        self.epoll_fd = epoll_create1(EPOLL_CLOEXEC)
        if self.epoll_fd < 0:
            raise OSError("epoll_create1")
        self.peers = <Peer*>calloc(self.peer_count, sizeof(Peer))
        self.cursors = <Cursor*>calloc(frames.count, sizeof(Cursor))
        if self.peers == NULL or self.cursors == NULL:
            raise MemoryError()
        for i, (first, end) in enumerate(offsets):
            if first < 0 or (end is not None and end <= first):
                raise ValueError(f"queue {i}: offsets {first} .. {end}")
            self.cursors[i].next_offset = self.cursors[i].first_offset = first
            self.cursors[i].end_offset = -1 if end is None else end
        slots = (frames.count + self.peer_count - 1) // self.peer_count
        for i in range(self.peer_count):
            if peer_open(&self.peers[i], self.sockets[i].fileno(), self.epoll_fd, REPLY_BYTES_MAX,
                         <uint64_t>slots * frames.max_bytes, slots, False) != Status.OK:
                raise MemoryError(f"connection {i}: {slots} queues")
        self.reset_stats()

    def __reduce__(self):
        raise not_copied(self, "make one in each process")

    def __dealloc__(self):
        cdef uint32_t i
        if self.peers != NULL:
            for i in range(self.peer_count):
                peer_release(&self.peers[i])
            free(self.peers)
        free(self.cursors)
        if self.epoll_fd >= 0:
            os.close(self.epoll_fd)

    # ---- the loop ----

    cdef bint finished(self) noexcept nogil:
        return (self.done_count == self.frames.count or self.live_count == 0
                or (self.limit != 0 and self.taken >= self.limit))

    cdef void ask(self, Peer* peer, uint32_t queue, int64_t now) noexcept nogil:
        cdef uint8_t* out = peer_room(peer, self.frames.max_bytes)
        cdef uint32_t slot = queue // self.peer_count
        check(out != NULL, b"the load generator: output for one pull of every slot", queue,
              <int64_t>peer.output_end)
        peer_take_slot(peer, <int32_t>slot, now)
        peer.output_end += self.frames.render(queue, peer.slots[slot].opaque, 0,
                                              self.cursors[queue].next_offset, out)
        peer.dirty = True

    cdef void rest(self, Cursor* cursor) noexcept nogil:
        if not cursor.resting:
            cursor.resting = True
            self.resting_count += 1

    cdef void end_round(self, Cursor* cursor) noexcept nogil:
        if self.rewind:
            cursor.next_offset = cursor.first_offset
        else:
            cursor.done = True
            self.done_count += 1

    cdef void take_found(self, Cursor* cursor, const Reply* reply) noexcept nogil:
        cdef Walk walk
        if walk_records(reply.body, reply.body_bytes, cursor.next_offset, self.check_crc,
                        &walk) != Status.OK or walk.count == 0:
            tally_add(&self.failures, CODE_CORRUPT, 1)
            return
        self.found += 1
        self.messages += walk.count
        self.taken += walk.count
        self.body_bytes += walk.body_bytes
        self.skipped += <uint64_t>(walk.last_offset + 1 - cursor.next_offset) - walk.count

    cdef bint take_answer(self, Cursor* cursor, const Reply* reply,
                          int64_t waited_ns) noexcept nogil:
        """Counts an answer, moves the cursor; True when the queue is to be asked again at once."""
        cdef int64_t next_offset = 0
        self.pulls += 1
        self.reply_bytes += reply.total
        if reply.code != 0 and not PULL_NOT_FOUND <= reply.code <= PULL_OFFSET_MOVED:
            tally_add(&self.failures, reply.code, 1)
            self.rest(cursor)
            return False
        if (reply_number(reply, b"nextBeginOffset", 15, &next_offset) != Status.OK
                or next_offset < 0):
            tally_add(&self.failures, CODE_CORRUPT, 1)
            self.rest(cursor)
            return False
        if reply.code == 0:
            self.latency.record(waited_ns)
            self.take_found(cursor, reply)
        else:
            self.empty += 1
        cursor.next_offset = next_offset
        if (cursor.end_offset >= 0 and next_offset >= cursor.end_offset
                or reply.code == PULL_NOT_FOUND and self.stop_at_tail):
            self.end_round(cursor)
        if cursor.done:
            return False
        if reply.code == PULL_NOT_FOUND and waited_ns < REST_NS:
            self.rest(cursor)
            return False
        return True

    cdef void take_answers(self, Peer* peer, uint32_t peer_index, int64_t now) noexcept nogil:
        cdef Reply reply
        cdef int slot, status
        cdef uint32_t queue
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
            slot = peer_match(peer, reply.opaque, True)
            if slot < 0:
                tally_add(&self.failures, CODE_UNMATCHED, 1)
                continue
            self.last_answer_ns = now
            queue = <uint32_t>slot * self.peer_count + peer_index
            if (self.take_answer(&self.cursors[queue], &reply, now - peer.slots[slot].started_ns)
                    and not self.finished()):
                self.ask(peer, queue, now)

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
                self.take_answers(peer, <uint32_t>(peer - self.peers), now_ns())
        if status == Status.CLOSED:
            self.lose(peer)
        elif peer.fd >= 0 and (peer.dirty and not peer.wants_room or events & EPOLLOUT):
            if peer_flush(peer) == Status.CLOSED:
                self.lose(peer)

    cdef void ask_all(self, bint only_resting) noexcept nogil:
        """Asks every queue at the start, the resting ones at each tick."""
        cdef uint32_t i
        cdef int64_t now = now_ns()
        cdef Peer* peer
        for i in range(self.frames.count):
            peer = &self.peers[i % self.peer_count]
            if only_resting:
                if not self.cursors[i].resting:
                    continue
                self.cursors[i].resting = False
                self.resting_count -= 1
            if peer.fd >= 0 and not self.cursors[i].done:
                self.ask(peer, i, now)
        for i in range(self.peer_count):
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
        """Runs the loop for so long. False when every queue is done, or the limit is reached."""
        with nogil:
            fine_timers()
            self.loop(now_ns() + microseconds * 1000)
        return not self.finished()

    def reset_stats(self):
        """Starts counting from now."""
        memset(&self.failures, 0, sizeof(Tally))
        self.latency.clear()
        self.pulls = self.found = self.messages = self.body_bytes = self.reply_bytes = 0
        self.empty = self.skipped = 0
        self.stats_ns = self.last_answer_ns = now_ns()

    def next_offsets(self):
        """Per queue, the offset its next pull would ask for."""
        cdef uint32_t i
        return [self.cursors[i].next_offset for i in range(self.frames.count)]

    def stats(self):
        """What happened since reset_stats(); `seconds` ends with the last answer."""
        cdef int i
        return {
            "requests": self.pulls,
            "acked": self.found,
            "messages": self.messages,
            "body_bytes": self.body_bytes,
            "bytes_received": self.reply_bytes,
            "empty": self.empty,
            "skipped": self.skipped,
            "seconds": (self.last_answer_ns - self.stats_ns) / 1e9,
            "failures": {self.failures.codes[i]: self.failures.counts[i]
                         for i in range(self.failures.used)},
            "live_connections": self.live_count,
        }
