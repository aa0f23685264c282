"""Output of connections. See output.pxd."""
from libc.string cimport memcpy

from cext.base.check cimport check
from cext.memory.buffer_pool cimport buffer_pool_release, buffer_pool_take
from cext.memory.large_pool cimport LargeBlock, large_pool_find, large_pool_take
from cext.memory.list_ends cimport list_ends_check
from cext.net.connection cimport (
    BORROWED,
    IN_JUMBO,
    IN_JUMBO_HEAD,
    IN_REPLY_BUFFER,
    PIECES_PER_WRITE,
    REPLY_BYTES,
    SEND_READS,
    TRANSPORT_FAILED,
    UNREAD_UNSENT,
    WANT_READ,
    ReplyBuffer,
)
from cext.net.socket_api cimport iovec
from cext.net.stalled_list cimport stalled_join, stalled_leave
from cext.net.transport cimport transport_send

cdef enum:
    DEAF_MS = 2000                  # how long answers may wait while buffers run out
    KEPT_PER_WRITE = 16             # jumbo buffers of one connection that are emptied at once
    KEPT_BYTES = 262144             # most unsent bytes in a jumbo buffer that is emptied


cdef class Output(ConnectionTable):
    cdef uint8_t* reserve_reply(self, Connection* c, uint32_t max_bytes) noexcept nogil:
        """Room for a reply of at most max_bytes, contiguous; NULL when the pool is empty."""
        cdef ReplyBuffer* buffer = c.open_buffer
        if max_bytes > REPLY_BYTES - sizeof(ReplyBuffer):
            return NULL
        if buffer == NULL or REPLY_BYTES - sizeof(ReplyBuffer) - buffer.used < max_bytes:
            if buffer != NULL:
                buffer.references -= 1
                if buffer.references == 0:
                    buffer_pool_release(&self.reply_pool, buffer)
                c.open_buffer = NULL
            buffer = <ReplyBuffer*> buffer_pool_take(&self.reply_pool)
            if buffer == NULL:
                return NULL
            buffer.used = 0
            buffer.references = 1
            c.open_buffer = buffer
        return <uint8_t*> buffer + sizeof(ReplyBuffer) + buffer.used

    cdef bint commit_reply(self, Connection* c, uint32_t length) noexcept nogil:
        """Queues `length` bytes just written at what reserve_reply() returned."""
        cdef ReplyBuffer* buffer = c.open_buffer
        cdef uint8_t* at = <uint8_t*> buffer + sizeof(ReplyBuffer) + buffer.used
        cdef OutPiece* piece = c.last
        if piece == NULL or piece.owner != buffer or piece.bytes + piece.length != at:
            piece = self.add_piece(c)
            if piece == NULL:
                return False
            piece.bytes = at
            piece.length = 0
            piece.owner = buffer
            piece.kind = IN_REPLY_BUFFER
            buffer.references += 1
        piece.length += length
        buffer.used += length
        c.unsent_bytes += length
        self.mark_dirty(c)
        return True

    cdef bint add_borrowed(self, Connection* c, const uint8_t* at, uint64_t length) noexcept nogil:
        """Queues store memory without copying it; it must stay valid until flush()."""
        cdef OutPiece* piece = c.last
        if piece != NULL and piece.kind == BORROWED and piece.bytes + piece.length == at:
            piece.length += length
        else:
            piece = self.add_piece(c)
            if piece == NULL:
                return False
            piece.bytes = <uint8_t*> at
            piece.length = length
            piece.owner = NULL
            piece.kind = BORROWED
        c.unsent_bytes += length
        return True

    cdef bint add_owned(self, Connection* c, uint8_t* at, uint64_t length, void* block,
                        int32_t kind) noexcept nogil:
        """Queues bytes of a block that is freed (to its pool or the heap) when they are sent."""
        cdef OutPiece* piece = self.add_piece(c)
        if piece == NULL:
            return False
        piece.bytes = at
        piece.length = length
        piece.owner = block
        piece.kind = kind
        c.unsent_bytes += length
        return True

    cdef OutPiece* add_piece(self, Connection* c) noexcept nogil:
        cdef OutPiece* piece = <OutPiece*> buffer_pool_take(&self.piece_pool)
        if piece == NULL:
            return NULL
        piece.next = NULL
        list_ends_check(c.first, c.last)
        if c.last != NULL:
            c.last.next = piece
        else:
            c.first = piece
        c.last = piece
        self.mark_dirty(c)
        return piece

    cdef void flush(self) noexcept nogil:
        cdef Connection* c = self.dirty_first
        cdef Connection* next_one
        self.dirty_first = NULL
        while c != NULL:
            next_one = c.next_dirty
            c.dirty = 0
            if c.id != 0:
                self.flush_connection(c)
            c = next_one
        self.free_closed()

    cdef void flush_connection(self, Connection* c) noexcept nogil:
        """Sends the queued bytes; those that the socket does not take wait for EPOLLOUT."""
        cdef iovec iov[PIECES_PER_WRITE]
        cdef OutPiece* piece
        cdef ssize_t sent
        cdef uint64_t left, asked
        cdef int count
        if c.transport != NULL:
            c.transport_wants &= ~<uint8_t> SEND_READS
        while c.first != NULL:
            count = 0
            asked = 0
            piece = c.first
            while piece != NULL and count < PIECES_PER_WRITE:
                iov[count].iov_base = piece.bytes
                iov[count].iov_len = piece.length
                asked += piece.length
                count += 1
                piece = piece.next
            sent = transport_send(c, iov, count)
            self.counters.sends += 1
            if sent < 0:
                if sent == TRANSPORT_FAILED:
                    self.close_connection(c)
                    return
                if sent == WANT_READ:
                    c.transport_wants |= SEND_READS
                sent = 0
            if c.transport != NULL:
                self.look_for_pending(c)    # a send may have received
            check(<uint64_t> sent <= c.unsent_bytes, b"the network: no more is sent than waits",
                  sent, c.unsent_bytes)
            self.counters.sent_bytes += sent
            c.unsent_bytes -= sent
            if sent > 0:
                c.active_ms = self.now_ms
            left = sent
            while c.first != NULL and left >= c.first.length:
                left -= c.first.length
                self.drop_piece(c)
            if left > 0:
                c.first.bytes += left
                c.first.length -= left
            if <uint64_t> sent < asked:
                self.counters.stalls += 1
                if sent > 0 or not c.stalled:
                    stalled_join(&self.stalled, c)
                if self.is_short():
                    self.close_deaf()
                if c.id == 0:
                    return
                if not self.keep_borrowed(c):
                    self.close_connection(c)
                    return
                self.stop_reading(c, UNREAD_UNSENT)
                if c.transport != NULL:
                    self.watch(c)           # its send may now wait for another event
                return
        if c.open_buffer != NULL and c.open_buffer.references == 1:
            buffer_pool_release(&self.reply_pool, c.open_buffer)
            c.open_buffer = NULL
        if c.closing:
            self.close_connection(c)
        elif c.unread & UNREAD_UNSENT or c.notify_drained:
            stalled_leave(&self.stalled, c)
            self.go_on_reading(c, UNREAD_UNSENT)
            c.protocol.on_drained(c.protocol.owner, c)

    cdef void spare_buffer(self, Connection* c, uint64_t id) noexcept nogil:
        if self.reply_pool.in_use > self.reply_pool.count - self.reply_pool.count // 8 \
                and c.id == id and c.unsent_bytes <= REPLY_BYTES:
            self.flush_connection(c)

    cdef uint32_t spared(self) noexcept nogil:
        """Reply buffers that are left for connections that read: one each, at most half of all."""
        cdef uint32_t count = self.reply_pool.count
        return max(count // 16, min(self.connection_count, count // 2))

    cdef bint is_short(self) noexcept nogil:
        return self.reply_pool.in_use > self.reply_pool.count - self.reply_pool.count // 4

    cdef void close_deaf(self) noexcept nogil:
        """While buffers run out, closes clients that have not taken a byte for DEAF_MS."""
        while (self.is_short() and self.stalled.first != NULL
               and self.now_ms - self.stalled.first.active_ms >= DEAF_MS):
            self.close_longest(NULL)

    cdef bint close_deaf_owner(self) noexcept nogil:
        """The same for the first such client that has a large block."""
        cdef LargeBlock* block = self.large.first
        cdef Connection* c
        while block != NULL:
            c = self.find(block.owner)
            if c != NULL and c.stalled and self.now_ms - c.active_ms >= DEAF_MS:
                self.counters.closed_deaf += 1
                self.close_connection(c)
                return True
            block = block.next
        return False

    cdef LargeBlock* take_large(self, Connection* c, uint64_t bytes) noexcept nogil:
        cdef LargeBlock* block
        if large_pool_find(&self.large, c.id) != NULL:
            return NULL
        block = large_pool_take(&self.large, bytes, c.id)
        while block == NULL and self.close_deaf_owner():
            block = large_pool_take(&self.large, bytes, c.id)
        return block

    cdef bint close_longest(self, Connection* c) noexcept nogil:
        if self.stalled.first == NULL or self.stalled.first == c:
            return False
        self.counters.closed_deaf += 1
        self.close_connection(self.stalled.first)
        return True

    cdef bint keep_borrowed(self, Connection* c) noexcept nogil:
        """Copies unsent bytes out of the store's memory, and out of jumbo buffers if these are
        scarce. False: there are no reply buffers for them."""
        cdef void* emptied[KEPT_PER_WRITE]
        cdef OutPiece* piece = c.first
        cdef int count = 0
        cdef bint kept
        while self.jumbo_pool.in_use > self.jumbo_pool.count // 2 and piece != NULL \
                and count < KEPT_PER_WRITE:
            if ((piece.kind == IN_JUMBO or piece.kind == IN_JUMBO_HEAD)
                    and piece.length <= KEPT_BYTES):
                emptied[count] = piece.owner
                count += 1
                piece.kind = BORROWED
            piece = piece.next
        kept = self.copy_borrowed(c)
        while not kept and self.close_longest(c):
            kept = self.copy_borrowed(c)
        while count > 0:
            count -= 1
            buffer_pool_release(&self.jumbo_pool, emptied[count])
        return kept

    cdef bint copy_borrowed(self, Connection* c) noexcept nogil:
        cdef OutPiece* piece = c.first
        cdef OutPiece* rest
        cdef ReplyBuffer* buffer
        cdef uint64_t room = REPLY_BYTES - sizeof(ReplyBuffer)
        while piece != NULL:
            if piece.kind == BORROWED:
                if self.reply_pool.in_use >= self.reply_pool.count - self.spared():
                    return False
                buffer = <ReplyBuffer*> buffer_pool_take(&self.reply_pool)
                if buffer == NULL:
                    return False
                buffer.references = 1
                if piece.length > room:
                    rest = <OutPiece*> buffer_pool_take(&self.piece_pool)
                    if rest == NULL:
                        buffer_pool_release(&self.reply_pool, buffer)
                        return False
                    rest[0] = piece[0]
                    rest.bytes += room
                    rest.length -= room
                    piece.next = rest
                    piece.length = room
                    if c.last == piece:
                        c.last = rest
                buffer.used = <uint32_t> piece.length
                memcpy(<uint8_t*> buffer + sizeof(ReplyBuffer), piece.bytes, piece.length)
                piece.bytes = <uint8_t*> buffer + sizeof(ReplyBuffer)
                piece.owner = buffer
                piece.kind = IN_REPLY_BUFFER
            piece = piece.next
        return True
