"""The loop of the load generator (see event_loop.pxd for its parts).

Its cost matters: generator and broker share the machine, so a generator that burns a core measures
itself. An answer costs one header like the one before it, and one match with a request; a turn
costs each connection one recv and one send.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from cext.base.status cimport Status
from cext.load.epoll cimport (
    EPOLL_CLOEXEC, EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, epoll_create1, epoll_event, fine_timers,
    now_ns, wait_events,
)
from cext.load.histogram cimport Histogram
from cext.load.peer cimport (
    Peer, peer_break, peer_flush, peer_match, peer_open, peer_receive, peer_release,
)
from cext.load.tally cimport CODE_CONNECTION, CODE_UNMATCHED, Tally, tally_add
from cext.wire.reply_reader cimport (
    ReplyFrame, read_reply, reply_reader_close, reply_reader_open,
)

from rmq.errors import not_copied

cdef extern from "<unistd.h>" nogil:
    int close(int fd)

cdef enum:
    EVENTS = 256


@cython.no_gc_clear                  # __dealloc__ needs all its fields
cdef class EventLoop:
    def __cinit__(self):
        self.epoll_fd = -1
        self.latency = Histogram()
        if reply_reader_open(&self.reader) != Status.OK:
            raise MemoryError("no memory for answers")
        self.epoll_fd = epoll_create1(EPOLL_CLOEXEC)
        if self.epoll_fd < 0:
            raise OSError("epoll_create1")

    def __reduce__(self):
        raise not_copied(self, "make one in each process")

    def __dealloc__(self):
        cdef uint32_t i
        if self.peers != NULL:
            for i in range(self.peer_count):
                peer_release(&self.peers[i])
            free(self.peers)
        reply_reader_close(&self.reader)
        if self.epoll_fd >= 0:
            close(self.epoll_fd)

    cdef int open_peers(self, list sockets, uint64_t input_bytes, uint64_t output_bytes,
                        uint32_t slots, bint in_order) except -1:
        """Takes the sockets, with `slots` open requests and buffers of these sizes for each."""
        cdef uint32_t i
        self.sockets = sockets
        self.peers = <Peer*>calloc(len(sockets), sizeof(Peer))
        if self.peers == NULL:
            raise MemoryError(f"{len(sockets)} connections")
        self.peer_count = self.live_count = <uint32_t>len(sockets)
        for i in range(self.peer_count):
            if peer_open(&self.peers[i], sockets[i].fileno(), self.epoll_fd, input_bytes,
                         output_bytes, slots, in_order) != Status.OK:
                raise MemoryError(f"connection {i}: {slots} open requests in {output_bytes} bytes")
        return 0

    # ---- the loop ----

    cdef void begin(self, int64_t now) noexcept nogil:
        pass

    cdef void send_due(self, int64_t now) noexcept nogil:
        pass

    cdef int64_t poll_timeout_ns(self, int64_t now) noexcept nogil:
        return WAIT_NS_MAX

    cdef void take_reply(self, Peer* peer, int32_t slot, ReplyFrame* reply,
                         int64_t now) noexcept nogil:
        pass

    cdef void refill(self, Peer* peer) noexcept nogil:
        pass

    cdef bint ended(self) noexcept nogil:
        return self.live_count == 0

    cdef void lose(self, Peer* peer) noexcept nogil:
        """The connection is broken: its open requests have failed; other connections go on."""
        if peer.fd < 0:
            return
        peer_break(peer)
        self.live_count -= 1
        tally_add(&self.failures, CODE_CONNECTION, max(peer.open_count, 1))
        peer.open_count = 0
        peer.dirty = False

    cdef void take_replies(self, Peer* peer, int64_t now) noexcept nogil:
        cdef ReplyFrame reply
        cdef int32_t slot
        cdef int status
        while True:
            status = read_reply(&self.reader, peer.input + peer.input_start,
                                peer.input_end - peer.input_start,
                                <uint32_t>peer.input_capacity, &reply)
            if status == Status.NOT_READY:
                return
            if status != Status.OK:
                self.lose(peer)
                return
            peer.input_start += reply.frame.total_bytes
            if not reply.header.is_response:
                continue
            slot = peer_match(peer, reply.header.opaque, self.fixed_slots)
            if slot < 0:
                tally_add(&self.failures, CODE_UNMATCHED, 1)
                continue
            self.last_answer_ns = now
            self.take_reply(peer, slot, &reply, now)

    cdef void serve(self, Peer* peer, uint32_t events) noexcept nogil:
        cdef int status = Status.OK
        if events & (EPOLLIN | EPOLLHUP | EPOLLERR):
            status = peer_receive(peer)
            if status == Status.OK:
                self.take_replies(peer, now_ns())
                if peer.fd >= 0:
                    self.refill(peer)
        if status == Status.CLOSED:
            self.lose(peer)
        elif peer.fd >= 0 and (peer.dirty and not peer.wants_room or events & EPOLLOUT):
            if peer_flush(peer) == Status.CLOSED:
                self.lose(peer)

    cdef void flush_all(self) noexcept nogil:
        cdef uint32_t i
        for i in range(self.peer_count):
            if self.peers[i].dirty and self.peers[i].fd >= 0:
                self.serve(&self.peers[i], 0)

    cdef void loop(self, int64_t until) noexcept nogil:
        cdef epoll_event events[EVENTS]
        cdef int count, i
        cdef int64_t now = now_ns(), wait
        cdef Peer* peer
        if not self.started:
            self.started = True
            self.begin(now)
        while now < until and not self.ended():
            self.send_due(now)
            wait = min(until - now, self.poll_timeout_ns(now))
            count = wait_events(self.epoll_fd, events, EVENTS, max(wait, 0))
            for i in range(count):
                peer = <Peer*>events[i].data.ptr
                if peer.fd >= 0:
                    self.serve(peer, events[i].events)
            now = now_ns()
        self.left_ns = now

    # ---- Python side ----

    def run(self, int64_t microseconds):
        """Runs the loop for this time. False: nothing is left to do, or no connection is left."""
        with nogil:
            fine_timers()
            self.loop(now_ns() + microseconds * 1000)
        return not self.ended()

    cdef int reset_shared_stats(self) except -1:
        memset(&self.failures, 0, sizeof(Tally))
        self.latency.clear()
        self.stats_ns = self.last_answer_ns = now_ns()
        return 0

    cdef dict shared_stats(self):
        """The part of stats() that all kinds share."""
        cdef int i
        return {
            "seconds": (self.last_answer_ns - self.stats_ns) / 1e9,
            "failures": {self.failures.codes[i]: self.failures.counts[i]
                         for i in range(self.failures.used)},
            "live_connections": self.live_count,
        }
