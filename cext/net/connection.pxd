"""Connection: what came in part, what waits to be sent, who it is, and the protocol that serves it.

Input. Bytes are received into the reactor's scratch buffer and handed over in place. What is left
of an incomplete frame is kept here: in a small buffer when the whole frame is at most
SMALL_BYTES, in a jumbo buffer otherwise, in which case the rest is received there directly.
When it gets no jumbo buffer the frame is refused and its bytes are discarded (`skip_bytes`).

What frames that are not complete yet hold has limits: of all, so that answers keep their buffers,
of one address, and of connections that never sent a whole request (half_frames.pxd).

Output. A list of pieces, sent with one sendmsg at the end of a turn. A piece points into a reply
buffer (owned) or into the store's memory (borrowed: valid until the turn ends; what the socket
does not take by then is copied). While anything is unsent the connection is not read: a client
that does not read its replies stops being served.

Reading. A connection may be left unread for several reasons at once, one bit each; it is read again
when the last of them is gone. What it sends meanwhile waits in its socket. One of the bits is
this folder's, the others are allotted by the owner of the reactor (client_state.pxd of cext/flow).

Owner's block. Some bytes of each slot belong to whoever serves the connections (cext/flow keeps
its ClientState there). They are zero when a connection comes and are not looked at here.

Protocol. What the bytes mean is the business of callbacks; a connection has those of the listener
that accepted it. `on_bytes` is given all bytes received so far and says how many it used up and how
many the next frame needs in all; -1 closes the connection at the end of the turn, when what it
asked for before has been answered.

Transport. How bytes are received and sent: straight through the socket (NULL), or by a table of
functions that its listener has for it, as TLS and the PROXY protocol are (transport.pxd).

All of this belongs to the reactor thread.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.net.socket_api cimport iovec

cdef enum:
    SMALL_BYTES = 32768             # buffer for an incomplete frame of ordinary size
    REPLY_BYTES = 16384             # one reply buffer, its header included
    SCRATCH_BYTES = 262144          # most bytes received from one connection in one turn
    FIRST_RECEIVE_BYTES = 32768     # from one that is new
    SLOW_RECEIVE_BYTES = 16384      # from one whose last bytes had requests for the control thread
    PIECES_PER_WRITE = 128          # iovecs of one send
    OWNER_BLOCK_WORDS = 8           # of 8 bytes, in each connection
    UNREAD_REASONS = 8              # bits of Connection.unread
    UNREAD_UNSENT = 1               # its socket did not take all output; EPOLLOUT is armed
    UNREAD_OWNERS = 2               # this bit and all above it are the owner's (client_state.pxd)

cdef struct Connection                # below

cdef extern from *:
    const uint64_t TURN_FULL "UINT64_MAX"

cdef enum PieceKind:
    BORROWED = 0                    # store memory, valid until the end of the turn
    IN_REPLY_BUFFER = 1
    IN_JUMBO = 2                    # the piece owns the whole jumbo buffer
    ON_HEAP = 3                     # malloc'd by the control thread's side
    IN_JUMBO_HEAD = 4               # as IN_JUMBO, and beyond its keep_bytes nothing was touched
    IN_LARGE = 5                    # the piece owns a block of the large pool

cdef struct ReplyBuffer:            # lies at the start of a pool buffer; data follows
    uint32_t used                   # bytes of data written
    uint32_t references             # pieces pointing here, plus one while it is open for writing

cdef struct OutPiece:
    OutPiece* next
    uint8_t* bytes                  # first unsent byte
    uint64_t length                 # unsent bytes
    void* owner                     # ReplyBuffer*, jumbo buffer, heap or large block, or NULL
    int32_t kind                    # PieceKind

# Returns the bytes used up, or -1 to close. `needed`: size of the incomplete frame at the end of
# the input (only read when something is left over), more than what is left over. Or TURN_FULL: what
# is left over is whole frames, which are handed over again, where they lie, in the next turn.
ctypedef int64_t (*OnBytes)(void* owner, Connection* c, const uint8_t* bytes, uint64_t available,
                            uint64_t* needed) noexcept nogil
# No jumbo buffer for a frame of `needed` bytes: answer or return -1 to close.
ctypedef int (*OnRefused)(void* owner, Connection* c, const uint8_t* bytes, uint64_t available,
                          uint64_t needed) noexcept nogil
ctypedef void (*OnClosed)(void* owner, Connection* c) noexcept nogil
# All output has been sent of one that was not read for it, or that has notify_drained.
ctypedef void (*OnDrained)(void* owner, Connection* c) noexcept nogil

cdef struct Protocol:
    void* owner                     # first argument of each callback
    OnBytes on_bytes
    OnRefused on_refused
    OnClosed on_closed
    OnDrained on_drained
    uint32_t block_bytes            # what it keeps in a connection's owner_block

cdef enum TransportResult:          # less than 0: nothing was received or sent
    WANT_READ = -1                  # again when the socket is readable
    WANT_WRITE = -2                 # again when it is writable
    TRANSPORT_FAILED = -3           # the connection is to be closed
    # The handshake continues with a HandshakeStep, which is the first member of transport_state.
    # The handshake thread runs it, unless it is short (handshake_thread.pxd).
    ELSEWHERE = -4

cdef enum TransportWant:            # bits of Connection.transport_wants
    WANTS_HANDSHAKE = 1             # it is not over: nothing is received and nothing sent yet
    HANDSHAKE_WRITES = 2            # and goes on when the socket is writable
    RECEIVE_WRITES = 4              # the next receive waits for a writable socket
    SEND_READS = 8                  # the next send waits for a readable one
    HANDSHAKE_BEGUN = 16            # the other side has said something of one
    HANDSHAKE_ELSEWHERE = 32        # its thread has the socket: it is not waited for, nor closed
    WANTS_ADDRESS = 64              # a balancer has not said yet whose it is

cdef enum:
    HANDSHAKE_MS = 10000            # in which one that was begun is over
    PROVED_BYTES_MAX = 255          # of who the other side has proved to be

cdef struct Transport:
    void* owner                     # first argument of `open`
    # A client was accepted, its address is known: makes c.transport_state, or leaves it to another
    # transport, or to none. False: no memory, it is closed.
    bint (*open)(void* owner, Connection* c) noexcept nogil
    # 0: done. Else a TransportResult; called again when the socket is as wanted, or what was
    # elsewhere is back. It may leave the connection to another transport, whose handshake goes on,
    # or to none: then it is plain.
    int (*handshake)(Connection* c) noexcept nogil
    # Bytes received, 0: the other side has ended, or a TransportResult.
    ssize_t (*receive)(Connection* c, void* at, size_t room) noexcept nogil
    # Bytes taken, from the first piece on, or a TransportResult: then it is called again with the
    # same bytes, which may have been moved by then.
    ssize_t (*send)(Connection* c, const iovec* pieces, int count) noexcept nogil
    # Received bytes inside: the socket may not be readable for them.
    size_t (*pending)(Connection* c) noexcept nogil
    # Says farewell and frees the state; the socket is closed behind it. What is elsewhere is freed,
    # and its socket closed, when its step is back.
    void (*close)(Connection* c) noexcept nogil
    # Who the other side has proved to be, `length` bytes that stay while the connection does; NULL:
    # nobody. Asked when the handshake is over.
    const uint8_t* (*proved)(Connection* c, uint32_t* length) noexcept nogil

cdef struct AddressEntry:           # of an address_table
    uint64_t key                    # the address
    int64_t second                  # in which the last handshake was begun (monotonic)
    uint32_t begun                  # handshakes, in that second
    uint32_t handshakes             # begun and not over
    uint32_t connections
    uint32_t next                   # with the same hash, or free: its number and 1; 0: none
    bint is_free

cdef struct Connection:
    uint64_t id                     # generation << 20 | slot; 0: closed
    int32_t fd
    uint32_t slot
    const Protocol* protocol        # of its listener
    const Transport* transport      # the same; NULL: the socket itself
    void* transport_state           # owned by the transport
    # input
    uint8_t* small                  # owned pool buffer with partial_bytes of an incomplete frame
    uint8_t* jumbo                  # the same for a large frame; at most one of the two is set
    uint64_t partial_bytes
    uint64_t frame_bytes            # size of that frame
    uint64_t receive_bytes          # most bytes of its next receive
    int64_t jumbo_ms                # when the large frame got on last (monotonic)
    uint64_t jumbo_mark             # its bytes then
    uint64_t jumbo_counted          # its bytes in HalfFrames.held_bytes
    uint32_t half_place             # its place in HalfFrames.list
    uint64_t skip_bytes             # bytes of a refused frame still to be thrown away
    # output
    OutPiece* first
    OutPiece* last
    ReplyBuffer* open_buffer        # where the next reply is written, or NULL
    uint64_t unsent_bytes
    Connection* next_dirty          # list of connections with output of this turn
    Connection* stalled_before      # neighbours in the reactor's StalledList
    Connection* stalled_behind
    uint8_t stalled                 # it is in that list
    uint8_t dirty
    uint8_t unread                  # UNREAD_UNSENT and the owner's bits: why it is not read
    uint8_t transport_wants         # TransportWant
    uint8_t handshake_counted       # in of_address.handshakes
    uint8_t pending                 # it is in the list of those with bytes inside their transport
    uint8_t notify_drained          # on_drained at the end of its output, whatever held it
    uint8_t closing                 # close at the end of the turn, after what is queued is sent
    # who
    uint8_t address[20]             # as a record's bornHost: ip (4 or 16 bytes) + port (4 bytes)
    uint32_t address_bytes          # 8 or 20
    AddressEntry* of_address        # NULL: it is not counted
    int64_t active_ms               # when bytes last came or went (monotonic)
    int64_t opened_ms               # monotonic
    uint64_t frames_in              # whole frames, counted by the owner; 0: it asked for nothing
    Connection* next_pending
    Connection* next_closed         # list of those that closed in this turn
    uint64_t owner_block[OWNER_BLOCK_WORDS]     # cast by the owner; not looked at here
