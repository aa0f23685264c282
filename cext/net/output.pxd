"""Output: a connection's replies, which are queued without a copy and sent once a turn.

    at = reserve_reply(c, 100); length = write(at); commit_reply(c, length)
    add_borrowed(c, record, record_bytes)       in the store's memory, valid until the turn ends
    flush()                                     one send for each connection with output

Bytes that a socket does not take are kept (borrowed ones are copied). The connection is left unread
until the socket has taken all of them, and then the protocol's on_drained is called. When reply
buffers run out, the connection that has taken nothing for longest is closed. A connection has at
most one block of the large pool; if that pool has no room for a block, connections that have one
and take nothing are closed.

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
    # A block for an answer to c. NULL: c has one already, or there is no room and no block belongs
    # to a connection that takes nothing.
    cdef LargeBlock* take_large(self, Connection* c, uint64_t bytes) noexcept nogil
    # Closes a connection that has a large block and takes nothing. False: there is none.
    cdef bint close_deaf_owner(self) noexcept nogil
    cdef OutPiece* add_piece(self, Connection* c) noexcept nogil
    cdef void flush(self) noexcept nogil            # also frees the slots of closed connections
    cdef void flush_connection(self, Connection* c) noexcept nogil
    # Called after each of many answers of a turn. If reply buffers are nearly used up, the answer
    # is sent now, which gives its buffer back: a turn may answer more connections than there are
    # buffers. Long output is left, since a socket may take part of it and the rest needs buffers.
    cdef void spare_buffer(self, Connection* c, uint64_t id) noexcept nogil
    cdef bint keep_borrowed(self, Connection* c) noexcept nogil
    cdef bint copy_borrowed(self, Connection* c) noexcept nogil
    cdef uint32_t spared(self) noexcept nogil
    cdef bint is_short(self) noexcept nogil         # reply buffers are running out
    cdef void close_deaf(self) noexcept nogil
    # Closes the connection that has taken nothing for longest. False: that is c, or there is none.
    cdef bint close_longest(self, Connection* c) noexcept nogil
