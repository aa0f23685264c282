"""Sends (see producer.pxd for closed and open loop).

A request costs one rendered frame, which is a copy, one answer, and one histogram increment.

    producer = Producer(frames, sockets, window=64)
    producer.run(500_000); producer.reset_stats(); producer.run(3_000_000)
    producer.stats()["acked"]
"""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.load.epoll cimport now_ns
from cext.load.event_loop cimport WAIT_NS_MAX, EventLoop
from cext.load.histogram cimport Histogram
from cext.load.peer cimport Peer, peer_room, peer_take
from cext.load.tally cimport tally_add
from cext.load.template cimport FrameSet
from cext.wire.reply_reader cimport ReplyFrame

cdef enum:
    REPLY_BYTES_MAX = 256 * 1024     # holds a batch's answer with thousands of ids
    OVERDUE_STEPS = 1_000_000        # beyond so many overdue requests, several count as one


@cython.no_gc_clear                  # its owners are freed first and may use it
cdef class Producer(EventLoop):
    def __cinit__(self, FrameSet frames not None, list sockets not None, uint32_t window=1,
                  double rate=0.0, uint64_t limit=0, bint in_order=False):
        if not sockets or window == 0 or window > 1_000_000 or not rate >= 0.0:
            raise ValueError(f"{len(sockets)} connections, window {window}, rate {rate}")
        self.frames = frames
        self.window = window
        self.rate = rate
        self.limit = limit
        self.delay = Histogram()
        self.service = Histogram()
        self.open_peers(sockets, REPLY_BYTES_MAX, <uint64_t>window * frames.max_bytes, window,
                        in_order)
        self.reset_stats()

    # ---- the loop ----

    cdef bint sent_all(self) noexcept nogil:
        return self.stopping or (self.limit != 0 and self.sent >= self.limit)

    cdef bint ended(self) noexcept nogil:
        """Nothing is left to send and nothing is open; or no connection is left."""
        cdef uint32_t i
        if self.live_count == 0:
            return True
        if not self.sent_all():
            return False
        for i in range(self.peer_count):
            if self.peers[i].open_count:
                return False
        return True

    cdef bint put_request(self, Peer* peer, int64_t started_ns, int64_t now) noexcept nogil:
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
        peer.slots[slot].went_ns = now
        self.unique = max(self.unique, <uint64_t>started_ns)
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
        while not self.sent_all() and self.put_request(peer, now, now):
            pass

    cdef void begin(self, int64_t now) noexcept nogil:
        cdef uint32_t i
        self.start_ns = now
        if self.rate == 0.0:
            for i in range(self.peer_count):
                self.fill(&self.peers[i], now)
            self.flush_all()

    cdef void refill(self, Peer* peer) noexcept nogil:
        if self.rate == 0.0:
            self.fill(peer, now_ns())

    cdef void send_due(self, int64_t now) noexcept nogil:
        """Open loop: gives every due request to the next peer that has a free slot."""
        cdef uint64_t due = <uint64_t>(<double>(now - self.start_ns) * self.rate / 1e9) + 1
        cdef int64_t started_ns
        cdef uint32_t tried = 0
        cdef Peer* peer
        if self.rate == 0.0:
            return
        while self.due_sent < due and tried < self.peer_count and not self.sent_all():
            peer = &self.peers[self.next_peer]
            self.next_peer = self.next_peer + 1 if self.next_peer + 1 < self.peer_count else 0
            started_ns = self.start_ns + <int64_t>(<double>self.due_sent * 1e9 / self.rate)
            if peer.fd >= 0 and self.put_request(peer, started_ns, now):
                self.due_sent += 1
                self.delay.record(now - started_ns)
                tried = 0
            else:
                tried += 1
        self.flush_all()

    cdef int64_t poll_timeout_ns(self, int64_t now) noexcept nogil:
        """The time until the next request is due."""
        cdef int64_t due
        if self.rate == 0.0 or self.sent_all():
            return WAIT_NS_MAX
        due = self.start_ns + <int64_t>(<double>self.due_sent * 1e9 / self.rate) - now
        # If one is due and unsent, all windows are full, so only an answer can help.
        return min(due, <int64_t>WAIT_NS_MAX) if due > 0 else WAIT_NS_MAX

    cdef void take_reply(self, Peer* peer, int32_t slot, ReplyFrame* reply,
                         int64_t now) noexcept nogil:
        if reply.header.code == 0:
            self.acked += 1
            self.latency.record(now - peer.slots[slot].started_ns)
            self.service.record(now - peer.slots[slot].went_ns)
        else:
            tally_add(&self.failures, reply.header.code, 1)

    cdef uint64_t overdue_count(self) noexcept nogil:
        cdef uint64_t due
        if self.rate == 0.0 or not self.started or self.left_ns <= self.start_ns:
            return 0
        due = <uint64_t>(<double>(self.left_ns - self.start_ns) * self.rate / 1e9)
        if due <= self.due_sent or self.limit != 0 and self.sent >= self.limit:
            return 0
        due -= self.due_sent
        return min(due, self.limit - self.sent) if self.limit != 0 else due

    cdef void record_overdue(self) noexcept nogil:
        cdef uint64_t count = self.overdue_count()
        cdef uint64_t step = count // OVERDUE_STEPS + 1
        cdef uint64_t done = 0, times
        cdef int64_t due_ns
        while done < count:
            times = min(step, count - done)
            done += times
            # The last of these requests has waited least.
            due_ns = self.start_ns + <int64_t>(
                <double>(self.due_sent + done - 1) * 1e9 / self.rate)
            self.latency.record_many(self.left_ns - due_ns, times)
            self.delay.record_many(self.left_ns - due_ns, times)

    cdef void record_open(self, Peer* peer) noexcept nogil:
        cdef uint32_t i
        if peer.open_count == 0:
            return                       # requests of a broken connection count as failures
        for i in range(peer.slot_count):
            if peer.slots[i].opaque != 0:
                self.latency.record(self.left_ns - peer.slots[i].started_ns)
                self.service.record(self.left_ns - peer.slots[i].went_ns)

    # ---- Python side ----

    def pace(self, double rate):
        """Begins a new schedule of `rate` requests a second now. Unsent requests of the schedule
        before are forgotten."""
        if not self.rate > 0.0 or not rate > 0.0:
            raise ValueError(f"rate {rate} behind {self.rate}: a schedule has one all the time")
        self.start_ns = now_ns()
        self.due_sent = 0
        self.rate = rate

    def finish(self, int64_t microseconds):
        """Sends nothing new and waits for open requests; returns how many are not answered yet.
        What was due and not sent has waited until the run ended, and is counted so, once."""
        cdef uint32_t i, open_count = 0
        if not self.stopping:
            self.stopping = True
            with nogil:
                self.record_overdue()
        with nogil:
            self.loop(now_ns() + microseconds * 1000)
        for i in range(self.peer_count):
            open_count += self.peers[i].open_count
        return open_count

    def give_up(self):
        """After finish(): open requests are no longer waited for; each has taken at least until
        now."""
        cdef uint32_t i
        for i in range(self.peer_count):
            self.record_open(&self.peers[i])

    def reset_stats(self):
        """Starts counting from now; open requests stay open and count when they are answered."""
        self.requests = self.acked = self.bytes_sent = 0
        self.delay.clear()
        self.service.clear()
        self.reset_shared_stats()

    def stats(self):
        """What happened since reset_stats(); `seconds` ends with the last answer."""
        return self.shared_stats() | {
            "requests": self.requests,
            "acked": self.acked,
            "messages": self.acked * self.frames.messages,
            "bytes_sent": self.bytes_sent,
            "overdue": self.overdue_count(),
        }
