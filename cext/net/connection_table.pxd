"""Connection table: the slots of all connections, and the buffers that they share.

It knows which clients are connected and which of them are left unread, and why. When a connection
closes, the table gives back all that the connection holds. Receiving and sending are built on it,
one class and page each:

    ConnectionTable     slots, buffers, reasons not to read, closing      this page
    Output              replies are queued and sent                       output.pxd
    Input               bytes are received and handed to the protocol     input.pxd
    Reactor             listeners and the poll loop                       reactor.pxd

Each is the base class of the next, so that a reactor is one object; none knows the classes below
it in this list.

A slot is not reused before the turn after its connection closed, so that within a turn two equal
pointers mean the same connection. An id is never reused. Example: the connection in slot 7 closes,
and its id becomes 0; in a later turn a new client gets slot 7 and another id.

All of this belongs to the reactor thread.
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
    uint64_t accept_failures        # times the process had no descriptor for another client
    uint64_t closed
    uint64_t closed_idle
    uint64_t received_bytes
    uint64_t sent_bytes
    uint64_t receives               # calls that receive, from sockets or transports
    uint64_t sends                  # calls that send, to sockets or transports
    uint64_t stalls                 # sockets that did not take all of a turn's output
    uint64_t refused_frames         # large frames refused for want of a jumbo buffer
    uint64_t closed_slow            # connections closed because their large frame did not progress
    uint64_t closed_deaf            # closed because they did not take answers while room ran out
    uint64_t refused_address        # connections beyond the limit of their address
    uint64_t refused_handshakes     # closed because their address had begun too many handshakes
    uint64_t refused_words          # closed because a balancer did not name its client
    uint64_t displaced              # silent or stuck in a handshake, closed for newer connections

# The bytes that ConnectionTable.open_table takes from the arena for the same arguments.
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
    cdef LargePool large            # answers of more bytes; set its bytes_max before open()
    cdef HalfFrames halves          # incomplete large frames; set its `bytes` before open()
    cdef AddressTable addresses     # set its limits before open()
    cdef Connection refused         # only its address is used: of the client refused last
    cdef uint32_t displace_slot     # where displace() looks next
    cdef StalledList stalled        # connections with UNREAD_UNSENT
    cdef Connection* dirty_first    # connections that flush() looks at in this turn
    cdef Connection* pending_first  # connections with received bytes inside their transport
    cdef Connection* closed_first   # closed in this turn; their slots are freed at its end
    cdef uint32_t unread_counts[UNREAD_REASONS]     # connections that have the reason's bit
    cdef HandshakeThread* handshakes    # borrowed; NULL: no transport has expensive handshakes
    cdef uint32_t orphans           # sockets of closed connections whose step is not back
    cdef int64_t now_us             # monotonic, read once per turn
    cdef int64_t now_ms             # the same in milliseconds
    cdef int64_t idle_ms
    cdef NetCounters counters

    # OK or IO_ERROR. Takes all memory that connections will ever use, and the epoll descriptor.
    cdef int open_table(self, uint64_t frame_max_bytes, uint32_t connections_max,
                        uint32_t jumbo_count, uint32_t reply_count) noexcept nogil
    # Makes the calling thread the owner of the pools; with False they have none (thread_owner.pxd).
    cdef void own(self, bint mine) noexcept nogil
    cdef bint is_full(self) noexcept nogil
    # Gives an accepted socket a slot. NULL: epoll or the transport had no memory, and the socket is
    # closed.
    cdef Connection* add_connection(self, int fd, const sockaddr_storage* peer,
                                    const Protocol* protocol,
                                    const Transport* transport) noexcept nogil
    # Counts a connection for its address, if the address is known already. False: the address is
    # at its limit, and c is closed.
    cdef bint count_address(self, Connection* c) noexcept nogil
    # The address of c has too many connections: closes another of them that asked for nothing, and
    # returns True. False: there is none, and c is closed.
    cdef bint keep_newest(self, Connection* c) noexcept nogil
    # Closes a connection and remembers its address in `refused`.
    cdef void refuse_address(self, Connection* c) noexcept nogil
    # Drops a step that is back and whose connection has closed.
    cdef void drop_orphan(self, HandshakeStep* step) noexcept nogil
    # Call without the GIL, after the last turn. Closes all transports, so that these and the
    # handshake thread may be freed before the connections.
    cdef void drop_transports(self) noexcept nogil
    # If received bytes are inside the transport, has the connection read in the next turn.
    cdef void look_for_pending(self, Connection* c) noexcept nogil
    # NULL: the connection of that id has closed.
    cdef Connection* find(self, uint64_t connection_id) noexcept nogil
    cdef void mark_dirty(self, Connection* c) noexcept nogil    # flush() looks at it in this turn
    # Sets or clears a reason not to read a connection (a bit of Connection.unread); the third
    # clears it for all connections.
    cdef void stop_reading(self, Connection* c, uint8_t reason) noexcept nogil
    cdef void go_on_reading(self, Connection* c, uint8_t reason) noexcept nogil
    cdef void go_on_reading_all(self, uint8_t reason) noexcept nogil
    cdef uint32_t unread_count(self, uint8_t reason) noexcept nogil     # connections that have it
    cdef void watch(self, Connection* c) noexcept nogil
    # The end of a connection.
    cdef void close_connection(self, Connection* c) noexcept nogil
    cdef void give_half(self, Connection* c) noexcept nogil     # its jumbo buffer goes back
    cdef void drop_piece(self, Connection* c) noexcept nogil
    cdef void drop_output(self, Connection* c) noexcept nogil
    cdef void free_closed(self) noexcept nogil
    # Closes an older connection to make room for a new one: with in_handshake one that leaves its
    # handshake unfinished, otherwise one that has never asked for anything. It must have the same
    # address as `newest`, unless that is NULL. False: there is none.
    cdef bint displace(self, const Connection* newest, bint in_handshake) noexcept nogil
    # Called about once a second. As it looks at every slot, it also checks the counts of slots.
    cdef void close_idle(self) noexcept nogil
