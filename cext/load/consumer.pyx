"""Pulls (see consumer.pxd, which says what ends a queue's round).

Every answer is walked record by record (records.pxd), so the counts are of messages seen, not of
bytes received.

    consumer = Consumer(frames, sockets, offsets=[(0, 20_000)] * 8, rewind=True)
    consumer.run(3_000_000); consumer.stats()["messages"]
"""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from cext.base.byteorder cimport load_u32
from cext.base.check cimport check
from cext.base.status cimport Status
from cext.load.histogram cimport Histogram
from cext.load.peer cimport Peer, peer_room, peer_take_slot
from cext.load.records cimport Walk, since_number, unique_number, walk_records
from cext.load.resting_loop cimport REST_NS, RestingLoop
from cext.load.tally cimport CODE_CORRUPT, tally_add
from cext.load.template cimport FrameSet
from cext.wire.codes cimport PULL_NOT_FOUND, PULL_OFFSET_MOVED
from cext.wire.reply_reader cimport ReplyFrame, reply_number

cdef enum:
    REPLY_BYTES_MAX = 5 * 1024 * 1024    # one record of 4 MiB, or 256 KiB of small ones


@cython.no_gc_clear                  # __dealloc__ needs all its fields
cdef class Consumer(RestingLoop):
    def __cinit__(self, FrameSet frames not None, list sockets not None, list offsets not None,
                  bint rewind=False, bint stop_at_tail=False, uint64_t limit=0,
                  bint check_crc=False, bint end_to_end=False):
        """offsets: one (first, end) for each frame of the set; end None: no end. end_to_end: counts
        how long messages took that a Producer of this machine sent."""
        cdef uint32_t i, slots
        cdef list used = sockets[:frames.count]
        if not sockets or len(offsets) != frames.count:
            raise ValueError(f"{len(sockets)} connections, {len(offsets)} offsets, "
                             f"{frames.count} queues")
        self.frames = frames
        self.rewind = rewind
        self.stop_at_tail = stop_at_tail
        self.limit = limit
        self.check_crc = check_crc
        self.fixed_slots = True
        self.end_to_end_counted = end_to_end
        self.end_to_end = Histogram()
        self.cursors = <Cursor*>calloc(frames.count, sizeof(Cursor))
        if self.cursors == NULL:
            raise MemoryError(f"{frames.count} queues")
        for i, (first, end) in enumerate(offsets):
            if first < 0 or (end is not None and end <= first):
                raise ValueError(f"queue {i}: offsets {first} .. {end}")
            self.cursors[i].next_offset = self.cursors[i].first_offset = first
            self.cursors[i].end_offset = -1 if end is None else end
        slots = <uint32_t>((frames.count + len(used) - 1) // len(used))
        self.open_peers(used, REPLY_BYTES_MAX, <uint64_t>slots * frames.max_bytes, slots, False)
        self.reset_stats()

    def __dealloc__(self):
        free(self.cursors)

    # ---- the loop ----

    cdef bint ended(self) noexcept nogil:
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

    cdef void end_round(self, Cursor* cursor) noexcept nogil:
        if self.rewind:
            cursor.next_offset = cursor.first_offset
        else:
            cursor.done = True
            self.done_count += 1

    cdef void count_end_to_end(self, const uint8_t* records, uint32_t length) noexcept nogil:
        """Counts the times of records that were found right; one without a number is left out."""
        cdef uint32_t at = 0, total
        cdef int64_t number
        cdef Walk one
        while at < length:
            total = load_u32(records + at)
            walk_records(records + at, total, 0, False, &one)
            number = unique_number(&one)
            if number >= 0:
                self.end_to_end.record(since_number(number, self.last_answer_ns))
            at += total

    cdef void take_found(self, Cursor* cursor, ReplyFrame* reply) noexcept nogil:
        cdef Walk walk
        if walk_records(reply.frame.body, reply.frame.body_bytes, cursor.next_offset,
                        self.check_crc, &walk) != Status.OK or walk.count == 0:
            tally_add(&self.failures, CODE_CORRUPT, 1)
            return
        if self.end_to_end_counted:
            self.count_end_to_end(reply.frame.body, reply.frame.body_bytes)
        self.found += 1
        self.messages += walk.count
        self.taken += walk.count
        self.body_bytes += walk.body_bytes
        self.skipped += <uint64_t>(walk.last_offset + 1 - cursor.next_offset) - walk.count

    cdef bint take_answer(self, Cursor* cursor, ReplyFrame* reply,
                          int64_t waited_ns) noexcept nogil:
        """Counts an answer and moves the cursor. True: the queue must be asked again at once."""
        cdef int64_t next_offset = 0
        self.pulls += 1
        self.reply_bytes += reply.frame.total_bytes
        if reply.header.code != 0 and not PULL_NOT_FOUND <= reply.header.code <= PULL_OFFSET_MOVED:
            tally_add(&self.failures, reply.header.code, 1)
            self.rest(&cursor.resting)
            return False
        if (reply_number(reply, b"nextBeginOffset", &next_offset) != Status.OK
                or next_offset < 0):
            tally_add(&self.failures, CODE_CORRUPT, 1)
            self.rest(&cursor.resting)
            return False
        if reply.header.code == 0:
            self.latency.record(waited_ns)
            self.take_found(cursor, reply)
        else:
            self.empty += 1
        cursor.next_offset = next_offset
        if (cursor.end_offset >= 0 and next_offset >= cursor.end_offset
                or reply.header.code == PULL_NOT_FOUND and self.stop_at_tail):
            self.end_round(cursor)
        if cursor.done:
            return False
        if reply.header.code == PULL_NOT_FOUND and waited_ns < REST_NS:
            self.rest(&cursor.resting)
            return False
        return True

    cdef void take_reply(self, Peer* peer, int32_t slot, ReplyFrame* reply,
                         int64_t now) noexcept nogil:
        cdef uint32_t queue = <uint32_t>slot * self.peer_count + <uint32_t>(peer - self.peers)
        if (self.take_answer(&self.cursors[queue], reply, now - peer.slots[slot].started_ns)
                and not self.ended()):
            self.ask(peer, queue, now)

    cdef void ask_each(self, bint only_resting, int64_t now) noexcept nogil:
        cdef uint32_t i
        cdef Peer* peer
        for i in range(self.frames.count):
            peer = &self.peers[i % self.peer_count]
            if only_resting and not self.wake(&self.cursors[i].resting):
                continue
            if peer.fd >= 0 and not self.cursors[i].done:
                self.ask(peer, i, now)

    # ---- Python side ----

    def reset_stats(self):
        """Starts counting from now."""
        self.pulls = self.found = self.messages = self.body_bytes = self.reply_bytes = 0
        self.empty = self.skipped = 0
        self.end_to_end.clear()
        self.reset_shared_stats()

    def next_offsets(self):
        """For each queue, the offset that its next pull would ask for."""
        cdef uint32_t i
        return [self.cursors[i].next_offset for i in range(self.frames.count)]

    def stats(self):
        """What happened since reset_stats(); `seconds` ends with the last answer."""
        return self.shared_stats() | {
            "requests": self.pulls,
            "acked": self.found,
            "messages": self.messages,
            "body_bytes": self.body_bytes,
            "bytes_received": self.reply_bytes,
            "empty": self.empty,
            "skipped": self.skipped,
        }
