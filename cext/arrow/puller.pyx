"""Puller: reads one queue of a broker by pulls. See puller.pxd.

    puller = Puller(decoder, sock.fileno(), (before, between, after), first, end)
    while (outcome := puller.fill()) == BATCH: yield maker.batch()

Every length is compared with what is there before it is used. The largest frame taken is that of
the protocol (16 MiB), and the buffer grows only as far as the broker's answers need.
"""
cimport cython
from cpython.buffer cimport PyBUF_WRITE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.errno cimport EAGAIN, EINTR, ETIMEDOUT, errno
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memmove

from cext.arrow.decoder cimport Decoder
from cext.base.byteorder cimport load_u32, store_u32
from cext.base.status cimport Status
from cext.store.log.record cimport RECORD_BYTES_MIN
from cext.wire.codes cimport PULL_NOT_FOUND, PULL_OFFSET_MOVED, PULL_RETRY_IMMEDIATELY, SUCCESS
from cext.wire.limits cimport FRAME_BYTES_MAX
from cext.wire.reply_reader cimport ReplyFrame, read_reply_head, reply_number

from rmq.errors import not_copied

cdef extern from "<stdio.h>" nogil:
    int snprintf(char* out, size_t size, const char* form, ...)

cdef extern from "<poll.h>" nogil:
    struct pollfd:
        int fd
        short events
        short revents
    int poll(pollfd* fds, unsigned long count, int timeout_ms)
    enum:
        POLLIN
        POLLOUT

cdef extern from "<sys/socket.h>" nogil:
    ssize_t recv(int fd, void* to, size_t bytes, int flags)
    ssize_t send(int fd, const void* data, size_t bytes, int flags)
    enum:
        MSG_NOSIGNAL

# Remark of Apache's brokers when a part of a queue is lost: the queue goes on at nextBeginOffset.
cdef bytes HOLE = b"OFFSET_FOUND_NULL"

cdef enum:
    INPUT_BYTES = 256 << 10         # received at a time: decoded while it is in the cache
    NUMBER_BYTES = 24


@cython.no_gc_clear                  # __dealloc__ needs all its fields
cdef class Puller:
    """For one thread and one queue; while it lives, nobody else can use the connection."""

    def __cinit__(self, Decoder decoder not None, int fd, tuple request not None,
                  int64_t first_offset, int64_t end_offset, int timeout_ms=120_000,
                  receive_into=None, send_all=None, sign=None, int rest_ms=1000):
        cdef bytes before, between, after
        self.parts = request
        before, between, after = request
        self.before, self.between, self.after = before, between, after
        self.request_bytes = sum(map(len, request)) + 8 + 2 * NUMBER_BYTES
        self.request = <uint8_t*> malloc(self.request_bytes)
        if self.request == NULL:
            raise MemoryError("no memory for pulls")
        self.decoder = decoder
        self.fd = fd
        self.sign = sign
        self.receive_into = receive_into
        self.send_all = send_all
        self.first_offset = self.next_offset = self.answer_next = first_offset
        self.end_offset = end_offset
        self.timeout_ms = timeout_ms
        self.rest_ms = rest_ms
        self.in_step = True
        self.min_offset = self.max_offset = -1
        self.remark = b""
        self.capacity = INPUT_BYTES
        self.input = <uint8_t*> malloc(INPUT_BYTES)
        if self.input == NULL:
            raise MemoryError("no memory for pulls")

    def __reduce__(self):
        raise not_copied(self, "make one in each process, with a connection of its own")

    def __dealloc__(self):
        free(self.input)
        free(self.request)

    def fill(self) -> int:
        """Decodes until the columns are full (BATCH) or there is another Outcome to report."""
        cdef ReplyFrame reply
        cdef int status
        cdef uint64_t used, whole
        while True:
            whole = self._whole_records()
            if whole > 0:
                with nogil:
                    used = 0
                    status = self.decoder.decode(
                        self.input + self.records_start, whole,
                        self.first_offset, self.end_offset, &self.next_offset, &used)
                    self.records_start += used
                if status == Status.NOT_READY:
                    return BATCH
                if status == Status.CLOSED:
                    self.next_offset = self.end_offset
                    return self._end()
                if status == Status.POOL_EMPTY:
                    self.decoder.raise_failure()
                if status != Status.OK:
                    return DAMAGED
                if self.records_start == self.records_end and self.body_left == 0:
                    self.next_offset = max(self.next_offset, self.answer_next)
            if self.decoder.columns.is_full():
                return BATCH
            if self.next_offset >= self.end_offset:
                return self._end()
            if self.body_left > 0:
                with nogil:
                    status = self._receive_body()
                if status != Status.OK:
                    return LOST
                continue
            if self.opaque == 0 and self._ask(self.next_offset) != Status.OK:
                return LOST
            with nogil:
                status = self._read_frame(&reply)
            if status != Status.OK:
                return LOST
            status = self._take_answer(&reply)
            if status != BATCH:
                return status

    cdef int _take_answer(self, ReplyFrame* reply) except -100:
        """Moves on by one answer; BATCH: the loop goes on."""
        cdef int64_t next = -1
        cdef bint known = reply_number(reply, b"nextBeginOffset", &next) == Status.OK
        cdef bytes header
        self.opaque = 0
        self.answers += 1
        self.code = reply.header.code
        if reply_number(reply, b"minOffset", &self.min_offset) != Status.OK:
            self.min_offset = -1
        if reply_number(reply, b"maxOffset", &self.max_offset) != Status.OK:
            self.max_offset = -1
        if reply_number(reply, b"suggestWhichBrokerId", &self.suggested_broker_id) != Status.OK:
            self.suggested_broker_id = 0
        self.remark = b""
        if reply.header.code != SUCCESS:
            self.records_start = self.records_end
        if reply.header.code == SUCCESS and known and next > self.next_offset:
            self.answer_next = next
            # One pull ahead, so that the broker and the kernel work while this answer is decoded.
            if next < self.end_offset and self._ask(next) != Status.OK:
                self.opaque = 0
            return BATCH
        if reply.header.code == PULL_RETRY_IMMEDIATELY and known and next > self.next_offset:
            self.next_offset = self.answer_next = next
            return BATCH
        if reply.header.code == PULL_NOT_FOUND and known and next > self.next_offset:
            header = (<const char*> reply.frame.header)[:reply.frame.header_bytes]
            if next < self.max_offset or HOLE in header:
                self.answer_next = next
                return OFFSET_MOVED
            if next == self.max_offset:     # no message up to the end passes the filter
                self.next_offset = self.answer_next = next
                return BATCH
        if reply.header.code in (PULL_NOT_FOUND, PULL_RETRY_IMMEDIATELY):
            return NOTHING_THERE
        if reply.header.code == PULL_OFFSET_MOVED:
            if known:
                self.answer_next = next
            return OFFSET_MOVED
        self.remark = (<const char*> reply.frame.header)[:reply.frame.header_bytes]
        return REFUSED

    @property
    def moved_to(self) -> int:
        """After OFFSET_MOVED: where the queue goes on, as the broker says."""
        return self.answer_next

    def seek(self, int64_t offset) -> None:
        """Goes on at another offset; no pull may be under way."""
        self.next_offset = self.answer_next = offset
        self.records_start = self.records_end = 0

    cdef int _ask(self, int64_t offset) except -100:
        cdef bytes frame
        cdef int status
        self.opaque = <int32_t> (self.answers % 1_000_000_000 + 1)
        if self.sign is None and self.send_all is None:
            with nogil:
                status = self._send(self.request, self._write_request(offset))
            return status
        if self.sign is None:
            frame = (<const char*> self.request)[:self._write_request(offset)]
        else:
            frame = self.sign(offset, self.opaque)
        if self.send_all is not None:
            try:
                self.send_all(frame)
            except OSError as error:
                self.error = error.errno or ETIMEDOUT
                return Status.CLOSED
            return Status.OK
        return self._send(<const uint8_t*> <const char*> frame, len(frame))

    cdef size_t _write_request(self, int64_t offset) noexcept nogil:
        """Writes the frame with both numbers; returns its length."""
        cdef char* text = <char*> self.request + 8
        cdef uint32_t length = <uint32_t> snprintf(
            text, self.request_bytes - 8, b"%s%lld%s%d%s", self.before,
            <long long> offset, self.between, self.opaque, self.after)
        store_u32(self.request, length + 4)
        store_u32(self.request + 4, length)
        return length + 8

    cdef int _send(self, const uint8_t* at, size_t left) noexcept nogil:
        cdef ssize_t sent
        cdef pollfd waiting
        while left > 0:
            sent = send(self.fd, at, left, MSG_NOSIGNAL)
            if sent >= 0:
                at += sent
                left -= <size_t> sent
                continue
            self.error = errno
            if self.error == EINTR:
                continue
            if self.error != EAGAIN:
                break
            waiting.fd = self.fd
            waiting.events = POLLOUT
            if poll(&waiting, 1, self.timeout_ms) == 0:
                self.error = ETIMEDOUT
                break
        return Status.OK if left == 0 else Status.CLOSED

    cdef int _receive(self) noexcept nogil:
        """Receives at least one byte behind input_end: OK | CLOSED (`error`: why; 0: hung up)."""
        cdef ssize_t got
        cdef pollfd waiting
        if self.receive_into is not None:
            with gil:
                try:
                    got = self.receive_into(PyMemoryView_FromMemory(
                        <char*> self.input + self.input_end,
                        <Py_ssize_t> (self.capacity - self.input_end), PyBUF_WRITE))
                except OSError as error:
                    self.error = error.errno or ETIMEDOUT
                    return Status.CLOSED
            if got <= 0:
                self.error = 0
                return Status.CLOSED
            self.input_end += <uint64_t> got
            self.bytes_received += got
            return Status.OK
        while True:
            got = recv(self.fd, self.input + self.input_end, self.capacity - self.input_end, 0)
            if got > 0:
                self.input_end += <uint64_t> got
                self.bytes_received += got
                return Status.OK
            self.error = errno if got < 0 else 0
            if got == 0 or (self.error != EAGAIN and self.error != EINTR):
                return Status.CLOSED
            if self.error == EAGAIN:
                waiting.fd = self.fd
                waiting.events = POLLIN
                if poll(&waiting, 1, self.timeout_ms) == 0:
                    self.error = ETIMEDOUT
                    return Status.CLOSED

    cdef int _make_room(self, uint64_t start, uint64_t wanted) noexcept nogil:
        """Moves what is there from `start` on to the front; `wanted` bytes fit behind it then."""
        cdef void* memory
        if start > 0:
            memmove(self.input, self.input + start, self.input_end - start)
            self.input_end -= start
        if wanted > self.capacity:
            memory = realloc(self.input, wanted)
            if memory == NULL:
                return Status.POOL_EMPTY
            self.input = <uint8_t*> memory
            self.capacity = wanted
        return Status.OK

    cdef uint64_t _whole_records(self) noexcept nogil:
        """How many bytes of the answer's records are here as whole records; sets `wanted` to what
        one more needs. A length that cannot be believed makes one record of the answer's rest."""
        cdef uint64_t at = self.records_start
        cdef uint64_t size
        if self.body_left == 0:
            return self.records_end - self.records_start
        self.wanted = 4
        while self.records_end - at >= 4:
            size = load_u32(self.input + at)
            if size < RECORD_BYTES_MIN or size > self.records_end - at + self.body_left:
                size = self.records_end - at + self.body_left
            if size > self.records_end - at:
                self.wanted = size
                break
            at += size
        return at - self.records_start

    cdef int _receive_body(self) noexcept nogil:
        """Receives more of the answer's records, at least `wanted` bytes; returns as _receive()."""
        cdef uint64_t here, got
        cdef int status = self._make_room(self.records_start, self.wanted)
        self.records_end -= self.records_start
        self.input_start = self.records_start = 0
        while status == Status.OK and self.body_left > 0 and self.records_end < self.wanted:
            here = self.input_end
            status = self._receive()
            got = self.input_end - here if status == Status.OK else 0
            if got > self.body_left:
                got = self.body_left
            self.records_end += got
            self.body_left -= got
        return status

    cdef int _end(self) except -100:
        """Returns END. The rest of the answer is received and dropped, so that the next range can
        use the connection; but not with TLS, and not when the rest does not come soon."""
        cdef int status = Status.OK
        if self.receive_into is not None:
            self.in_step = self.body_left == 0
            return END
        self.timeout_ms = min(self.timeout_ms, self.rest_ms)
        with nogil:
            while status == Status.OK and self.body_left > 0:
                self.records_start = self.records_end
                self.wanted = 1
                status = self._receive_body()
        self.in_step = status == Status.OK
        return END

    cdef int _read_frame(self, ReplyFrame* out) noexcept nogil:
        """Reads the answer to the pull under way; if it has records, only the part of the body that
        has come with it. OK | CLOSED | MALFORMED | TOO_LARGE | POOL_EMPTY."""
        cdef int status
        cdef uint64_t wanted, available
        cdef bint ours
        if self.records_end > 0:        # the answer before was decoded and is dropped
            self.input_start = self.records_end
            self.records_start = self.records_end = 0
        while True:
            available = self.input_end - self.input_start
            status = read_reply_head(&self.reader, self.input + self.input_start, available,
                                     FRAME_BYTES_MAX, out)
            wanted = out.frame.needed
            if status == Status.OK:
                ours = out.header.is_response and out.header.opaque == self.opaque
                if ours and (out.header.code == SUCCESS or available >= out.frame.total_bytes):
                    # `records_end` also marks a frame without records as taken.
                    self.records_start = out.frame.body - self.input
                    self.records_end = self.input_start + min(
                        available, <uint64_t> out.frame.total_bytes)
                    self.body_left = self.input_start + out.frame.total_bytes - self.records_end
                    return Status.OK
                if available >= out.frame.total_bytes:
                    self.input_start += out.frame.total_bytes
                    continue
                wanted = out.frame.total_bytes
            elif status != Status.NOT_READY:
                return status
            status = self._make_room(self.input_start, wanted)
            self.input_start = 0
            if status == Status.OK:
                status = self._receive()
            if status != Status.OK:
                return status
