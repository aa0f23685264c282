"""The send loop (producer.pxd tells closed from open loop).

Its cost matters: generator and broker share the machine, so a generator that burns a core measures
itself. Per request: one rendered frame (a copy), one answer found and matched (two short searches),
one histogram increment; per turn and connection one recv and one send.

    producer = Producer(frames, sockets, window=64)
    producer.run(500_000); producer.reset_stats(); producer.run(3_000_000)
    producer.stats()["acked"]
"""
import os

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from cext.base.status cimport Status
from cext.load.histogram cimport Histogram
from cext.load.peer cimport (
    Peer, peer_break, peer_flush, peer_match, peer_open, peer_receive, peer_release, peer_room,
    peer_take,
)
from cext.load.reply cimport Reply, read_reply
from cext.load.tally cimport CODE_CONNECTION, CODE_UNMATCHED, Tally, tally_add
from cext.load.template cimport FrameSet
from cext.load.epoll cimport (
    EPOLL_CLOEXEC, EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, epoll_create1, epoll_event, fine_timers,
    now_ns, wait_events,
)

from rmq.errors import not_copied

cdef enum:
    EVENTS = 256
    REPLY_BYTES_MAX = 256 * 1024     # a batch answer of thousands of ids still fits
    WAIT_NS_MAX = 100_000_000


cdef class Producer:
    def __cinit__(self, FrameSet frames not None, list sockets not None, uint32_t window=1,
                  double rate=0.0, uint64_t limit=0, bint in_order=False, uint64_t first_unique=0):
        cdef uint32_t i
        if not sockets or window == 0 or window > 1_000_000 or not rate >= 0.0:
            raise ValueError(f"{len(sockets)} connections, window {window}, rate {rate}")
        self.frames = frames
        self.sockets = sockets
        self.window = window
        self.rate = rate
        self.limit = limit
        self.unique = first_unique
        self.latency = Histogram()
        self.epoll_fd = epoll_create1(EPOLL_CLOEXEC)
        if self.epoll_fd < 0:
            raise OSError("epoll_create1")
        self.peers = <Peer*>calloc(len(sockets), sizeof(Peer))
        if self.peers == NULL:
            raise MemoryError()
        self.peer_count = len(sockets)
        for i in range(self.peer_count):
            if peer_open(&self.peers[i], sockets[i].fileno(), self.epoll_fd, REPLY_BYTES_MAX,
                         <uint64_t>window * frames.max_bytes, window, in_order) != Status.OK:
                raise MemoryError(f"connection {i}: window {window} x {frames.max_bytes} bytes")
        self.live_count = self.peer_count
        self.reset_stats()

    def __reduce__(self):
        raise not_copied(self, "make one in each process")

    def __dealloc__(self):
        cdef uint32_t i
        if self.peers != NULL:
            for i in range(self.peer_count):
                peer_release(&self.peers[i])
            free(self.peers)
        if self.epoll_fd >= 0:
            os.close(self.epoll_fd)

    # ---- the loop ----

    cdef bint finished(self) noexcept nogil:
        return self.stopping or (self.limit != 0 and self.sent >= self.limit)

    cdef bint put_request(self, Peer* peer, int64_t started_ns) noexcept nogil:
        """Renders the next frame into the peer's output; False when its window is full."""
        cdef uint8_t* out
        cdef uint32_t length
        cdef int slot
        if peer.open_count >= self.window:
            return False
        out = peer_room(peer, self.frames.max_bytes)
        if out == NULL:
            return False
        slot = peer_take(peer, started_ns)
        if slot < 0:
            return False
        length = self.frames.render(self.next_frame, peer.slots[slot].opaque, self.unique, 0, out)
        peer.output_end += length
        peer.dirty = True
        self.unique += self.frames.messages
        self.next_frame += 1
        if self.next_frame == self.frames.count:
            self.next_frame = 0
        self.sent += 1
        self.requests += 1
        self.bytes_sent += length
        return True

    cdef void fill(self, Peer* peer, int64_t now) noexcept nogil:
        while not self.finished() and self.put_request(peer, now):
            pass

    cdef void send_due(self, int64_t now) noexcept nogil:
        """Open loop: gives every due request to the next peer that has a free slot."""
        cdef uint64_t due = <uint64_t>(<double>(now - self.start_ns) * self.rate / 1e9) + 1
        cdef int64_t started_ns
        cdef uint32_t tried = 0
        cdef Peer* peer
        while self.due_sent < due and tried < self.peer_count and not self.finished():
            peer = &self.peers[self.next_peer]
            self.next_peer = self.next_peer + 1 if self.next_peer + 1 < self.peer_count else 0
            started_ns = self.start_ns + <int64_t>(<double>self.due_sent * 1e9 / self.rate)
            if peer.fd >= 0 and self.put_request(peer, started_ns):
                self.due_sent += 1
                tried = 0
            else:
                tried += 1
        for tried in range(self.peer_count):
            peer = &self.peers[tried]
            if peer.dirty and not peer.wants_room and peer_flush(peer) == Status.CLOSED:
                self.lose(peer)

    cdef void lose(self, Peer* peer) noexcept nogil:
        """The connection is gone: its open requests have failed, the others go on."""
        if peer.fd < 0:
            return
        peer_break(peer)
        self.live_count -= 1
        tally_add(&self.failures, CODE_CONNECTION, max(peer.open_count, 1))
        peer.open_count = 0
        peer.dirty = False

    cdef void take_answers(self, Peer* peer, int64_t now) noexcept nogil:
        cdef Reply reply
        cdef int slot
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
            slot = peer_match(peer, reply.opaque, False)
            if slot < 0:
                tally_add(&self.failures, CODE_UNMATCHED, 1)
                continue
            self.last_answer_ns = now
            if reply.code == 0:
                self.acked += 1
                self.latency.record(now - peer.slots[slot].started_ns)
            else:
                tally_add(&self.failures, reply.code, 1)

    cdef void serve(self, Peer* peer, uint32_t events) noexcept nogil:
        cdef int status = Status.OK
        if events & (EPOLLIN | EPOLLHUP | EPOLLERR):
            status = peer_receive(peer)
            if status == Status.OK:
                self.take_answers(peer, now_ns())
                if self.rate == 0.0 and peer.fd >= 0:
                    self.fill(peer, now_ns())
        if status == Status.CLOSED:
            self.lose(peer)
        elif peer.fd >= 0 and (peer.dirty and not peer.wants_room or events & EPOLLOUT):
            if peer_flush(peer) == Status.CLOSED:
                self.lose(peer)

    cdef int64_t patience(self, int64_t now, int64_t until) noexcept nogil:
        """How long to sleep: to the next due request, to the end of the run, at most 100 ms."""
        cdef int64_t wait = min(until - now, <int64_t>WAIT_NS_MAX)
        cdef int64_t due
        if self.rate > 0.0 and not self.finished():
            due = self.start_ns + <int64_t>(<double>self.due_sent * 1e9 / self.rate) - now
            # Already due and still unsent: all windows are full, so only an answer can help.
            if due > 0:
                wait = min(wait, due)
        return max(wait, 0)

    cdef void loop(self, int64_t until) noexcept nogil:
        cdef epoll_event events[EVENTS]
        cdef int count, i
        cdef uint32_t k, open_count
        cdef int64_t now = now_ns()
        cdef Peer* peer
        if not self.started:
            self.started = True
            self.start_ns = now
            if self.rate == 0.0:
                for k in range(self.peer_count):
                    self.fill(&self.peers[k], now)
                    self.serve(&self.peers[k], 0)
        while now < until and self.live_count > 0:
            if self.finished():
                open_count = 0
                for k in range(self.peer_count):
                    open_count += self.peers[k].open_count
                if open_count == 0:
                    return
            elif self.rate > 0.0:
                self.send_due(now)
            count = wait_events(self.epoll_fd, events, EVENTS, self.patience(now, until))
            for i in range(count):
                peer = <Peer*>events[i].data.ptr
                if peer.fd >= 0:
                    self.serve(peer, events[i].events)
            now = now_ns()

    # ---- Python side ----

    def run(self, int64_t microseconds):
        """Runs the loop for so long. False when there is nothing left to do."""
        cdef uint32_t i
        with nogil:
            fine_timers()
            self.loop(now_ns() + microseconds * 1000)
        if self.live_count == 0:
            return False
        if not self.finished():
            return True
        for i in range(self.peer_count):
            if self.peers[i].open_count:
                return True
        return False

    def finish(self, int64_t microseconds):
        """Sends nothing new and waits for what is open; the number of requests never answered."""
        cdef uint32_t i, open_count = 0
        self.stopping = True
        with nogil:
            self.loop(now_ns() + microseconds * 1000)
        for i in range(self.peer_count):
            open_count += self.peers[i].open_count
        return open_count

    def reset_stats(self):
        """Starts counting from now; open requests stay open and count when they are answered."""
        memset(&self.failures, 0, sizeof(Tally))
        self.latency.clear()
        self.requests = self.acked = self.bytes_sent = 0
        self.stats_ns = self.last_answer_ns = now_ns()

    def stats(self):
        """What happened since reset_stats(); `seconds` ends with the last answer."""
        cdef int i
        overdue = 0
        if self.rate > 0.0 and self.started:
            due = int((now_ns() - self.start_ns) * self.rate / 1e9)
            overdue = max(0, min(due, self.limit or due) - self.due_sent)
        return {
            "requests": self.requests,
            "acked": self.acked,
            "messages": self.acked * self.frames.messages,
            "bytes_sent": self.bytes_sent,
            "seconds": (self.last_answer_ns - self.stats_ns) / 1e9,
            "failures": {self.failures.codes[i]: self.failures.counts[i]
                         for i in range(self.failures.used)},
            "live_connections": self.live_count,
            "overdue": overdue,
        }
