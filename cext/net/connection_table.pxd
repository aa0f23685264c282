"""Connection table: the slots of all connections and the buffers they share, until each is closed.

It knows who is connected, who is left unread and why, and gives back all that a connection holds
when that closes. How bytes come and go is built on it, one page each:

    ConnectionTable     slots, buffers, reasons not to read, closing      this page
    Output              replies are queued and sent                       output.pxd
    Input               bytes are received and handed to the protocol     input.pxd
    Reactor             listeners and the poll loop                       reactor.pxd

Each is the next one's base class, so that whoever has the reactor has one object; none knows of
those below it.

A slot is used again from the turn after its connection closed: pointers compared within a turn stay
comparable. An id is never used again. Example: connection 7 closes, its id is 0 from then on; the
next client gets slot 7 in a later turn and another id.

The reactor's thread.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.memory.arena cimport SharedArena
from cext.memory.buffer_pool cimport BufferPool
from cext.memory.large_pool cimport LargePool
from cext.net.address_table cimport AddressTable
from cext.net.connection cimport UNREAD_REASONS, Connection, Protocol, Transport
from cext.net.half_frames cimport HalfFrames
from cext.net.handshake_thread cimport HandshakeStep, HandshakeThread
from cext.net.socket_api cimport sockaddr_storage
from cext.net.stalled_list cimport StalledList

cdef struct NetCounters:
    uint64_t accepted
    uint64_t refused_full           # connections closed because the limit was reached
    uint64_t accept_failures        # times the process had no descriptor for another one
    uint64_t closed
    uint64_t closed_idle
    uint64_t received_bytes
    uint64_t sent_bytes
    uint64_t receives               # from sockets or transports
    uint64_t sends                  # to them
    uint64_t stalls                 # sockets that did not take all of a turn's output
    uint64_t refused_frames         # large frames refused for want of a jumbo buffer
    uint64_t closed_slow            # connections closed for the jumbo buffer they had for too long
    uint64_t closed_deaf            # and for answers they did not take while room for these ran out
    uint64_t refused_address        # connections beyond the limit of their address
    uint64_t refused_handshakes     # closed for the handshakes that their address had begun
    uint64_t refused_words          # of balancers that did not say who comes by them
    uint64_t displaced              # that never asked for anything, closed for newer ones

# What ConnectionTable.open_table takes from the arena with the same arguments.
cdef uint64_t connection_table_arena_bytes(uint64_t frame_max_bytes, uint32_t connections_max,
                                           uint32_t jumbo_count,
                                           uint32_t reply_count) noexcept nogil

cdef class ConnectionTable:
    cdef SharedArena memory         # set before open(); all that follows is taken from it
    cdef int epoll_fd
    cdef uint32_t connections_max
    cdef uint32_t connection_count
    cdef uint64_t generation
    cdef Connection* connections    # connections_max slots
    cdef uint32_t* free_slots
    cdef uint32_t free_count
    cdef uint32_t highest_slot      # slots above it were never used
    cdef BufferPool small_pool
    cdef BufferPool jumbo_pool
    cdef BufferPool reply_pool
    cdef BufferPool piece_pool
    cdef uint64_t jumbo_bytes
    cdef LargePool large            # answers beyond that, of ids; its bytes_max before open()
    cdef HalfFrames halves          # large frames that are not complete; its `bytes` before open()
    cdef AddressTable addresses     # its limits before open()
    cdef Connection refused         # of which nothing but the address of who was refused last
    cdef uint32_t displace_slot     # where displace() looks next
    cdef StalledList stalled        # connections with UNREAD_UNSENT
    cdef Connection* dirty_first
    cdef Connection* pending_first  # those with received bytes inside their transport
    cdef Connection* closed_first   # closed in this turn; their slots are freed at its end
    cdef uint32_t unread_counts[UNREAD_REASONS]     # connections that have the reason's bit
    cdef HandshakeThread* handshakes    # borrowed; NULL: no transport has expensive ones
    cdef uint32_t orphans           # sockets of closed connections whose step is not back
    cdef int64_t now_us             # monotonic, read once per turn
    cdef int64_t now_ms             # the same in milliseconds
    cdef int64_t idle_ms
    cdef NetCounters counters

    # OK or IO_ERROR. Takes all memory that connections will ever use, and the epoll descriptor.
    cdef int open_table(self, uint64_t frame_max_bytes, uint32_t connections_max,
                        uint32_t jumbo_count, uint32_t reply_count) noexcept nogil
    # From now on this thread's; with False nobody's (thread_owner.pxd).
    cdef void own(self, bint mine) noexcept nogil
    cdef bint is_full(self) noexcept nogil
    # A slot for an accepted socket; NULL: it is closed, since epoll or its transport had no memory.
    cdef Connection* add_connection(self, int fd, const sockaddr_storage* peer,
                                    const Protocol* protocol,
                                    const Transport* transport) noexcept nogil
    # Its address has one more, when it is known: whether it may stay.
    cdef bint count_address(self, Connection* c) noexcept nogil
    # Its address has one more than it may: one of it that asked for nothing makes room. False:
    # there is none, and c is closed.
    cdef bint keep_newest(self, Connection* c) noexcept nogil
    # Closes it, and notes whose it was.
    cdef void refuse_address(self, Connection* c) noexcept nogil
    # A step is back whose connection is closed.
    cdef void drop_orphan(self, HandshakeStep* step) noexcept nogil
    # When no turn runs any more: the connections' transports, and the thread of their handshakes,
    # may be gone before they are. Without the GIL.
    cdef void drop_transports(self) noexcept nogil
    # Whether received bytes are inside its transport: then it is read in the next turn anyway.
    cdef void look_for_pending(self, Connection* c) noexcept nogil
    cdef Connection* find(self, uint64_t connection_id) noexcept nogil
    cdef void mark_dirty(self, Connection* c) noexcept nogil    # flush() looks at it in this turn
    # One reason (a bit of Connection.unread) more or less not to read a connection; the third: for
    # all of them.
    cdef void stop_reading(self, Connection* c, uint8_t reason) noexcept nogil
    cdef void go_on_reading(self, Connection* c, uint8_t reason) noexcept nogil
    cdef void go_on_reading_all(self, uint8_t reason) noexcept nogil
    cdef uint32_t unread_count(self, uint8_t reason) noexcept nogil     # connections that have it
    cdef void watch(self, Connection* c) noexcept nogil
    # The end of a connection.
    cdef void close_connection(self, Connection* c) noexcept nogil
    cdef void give_half(self, Connection* c) noexcept nogil
    cdef void drop_piece(self, Connection* c) noexcept nogil
    cdef void drop_output(self, Connection* c) noexcept nogil
    cdef void free_closed(self) noexcept nogil
    # Closes one that asked for nothing since it came, or whose handshake does not get on, for a new
    # one; of the newest's address, unless that is NULL. False: there is none.
    cdef bint displace(self, const Connection* newest, bint in_handshake) noexcept nogil
    # About once a second. It looks at every slot, and so at what is counted of them.
    cdef void close_idle(self) noexcept nogil
