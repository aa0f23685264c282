"""Output: replies of a connection are queued without a copy and sent once a turn.

    at = reserve_reply(c, 100); length = write(at); commit_reply(c, length)
    add_borrowed(c, record, record_bytes)       in the store's memory, valid until the turn ends
    flush()                                     one send for each connection with output

What a socket does not take is kept (borrowed bytes are copied), its connection is left unread until
it does, and the protocol's on_drained says when it did. Where reply buffers run out, who has taken
nothing for longest is closed. Of the large pool a connection has one block at a time, and who has
one and takes nothing is closed where another is refused.

Example: 64 clients sent one message each: 64 replies in 64 buffers, 64 sends.
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from cext.memory.large_pool cimport LargeBlock
from cext.net.connection cimport Connection, OutPiece
from cext.net.connection_table cimport ConnectionTable

cdef class Output(ConnectionTable):
    # Each returns False (NULL) when a pool is empty, and the caller closes the connection.
    cdef uint8_t* reserve_reply(self, Connection* c, uint32_t max_bytes) noexcept nogil
    cdef bint commit_reply(self, Connection* c, uint32_t length) noexcept nogil
    cdef bint add_borrowed(self, Connection* c, const uint8_t* at, uint64_t length) noexcept nogil
    cdef bint add_owned(self, Connection* c, uint8_t* at, uint64_t length, void* block,
                        int32_t kind) noexcept nogil
    # For an answer to c. NULL: it has one, or there is no room and all take theirs.
    cdef LargeBlock* take_large(self, Connection* c, uint64_t bytes) noexcept nogil
    cdef bint close_deaf_owner(self) noexcept nogil     # of a large block; False: there is none
    cdef OutPiece* add_piece(self, Connection* c) noexcept nogil
    cdef void flush(self) noexcept nogil            # also frees the slots of what closed
    cdef void flush_connection(self, Connection* c) noexcept nogil
    # Behind each of many answers of a turn: where reply buffers are all but used up it is sent now,
    # which gives its buffer back. So a turn may answer more connections than there are buffers.
    # Not what a socket may take in part: that would need buffers.
    cdef void spare_buffer(self, Connection* c, uint64_t id) noexcept nogil
    cdef bint keep_borrowed(self, Connection* c) noexcept nogil
    cdef bint copy_borrowed(self, Connection* c) noexcept nogil
    cdef uint32_t spared(self) noexcept nogil
    cdef bint is_short(self) noexcept nogil         # reply buffers are running out
    cdef void close_deaf(self) noexcept nogil
    cdef bint close_longest(self, Connection* c) noexcept nogil
