"""Connection: its incomplete input, its unsent output, its client and the protocol that serves it.

Input. Bytes are received into the reactor's scratch buffer and handed over in place. What is left
of an incomplete frame is kept here: in a small buffer when the whole frame is at most
SMALL_BYTES, in a jumbo buffer otherwise, in which case the rest is received there directly.
If no jumbo buffer is free, the frame is refused and its bytes are discarded (`skip_bytes`).

The buffers of incomplete large frames have limits: in all, so that answers keep buffers, for each
address, and for connections that have never sent a whole request (half_frames.pxd).

Output. A list of pieces, sent with one sendmsg at the end of a turn. A piece points into a reply
buffer (owned) or into the store's memory (borrowed: valid until the turn ends; the bytes that the
socket has not taken by then are copied). While anything is unsent the connection is not read: a
client that does not read its replies stops being served.

Reading. A connection may be left unread for several reasons at once, one bit each; it is read again
when the last of them is gone. What its client sends meanwhile waits in the socket. One of the bits
belongs to this folder; the owner of the reactor assigns the others (client_state.pxd of cext/flow).

Owner's block. Some bytes of each slot belong to the layer that serves the connections (cext/flow
keeps its ClientState there). They are zero when a connection is added and are not read here.

Protocol. Callbacks give the bytes their meaning; a connection has those of the listener that
accepted it. `on_bytes` is given all bytes received so far. It returns how many it used up, and says
how many bytes the next frame has in all; -1 closes the connection at the end of the turn, when its
earlier requests have been answered.

Transport. How bytes are received and sent: directly through the socket (NULL), or by a table of
functions that the listener sets, such as those of TLS and the PROXY protocol (transport.pxd).

All of this belongs to the reactor thread.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.net.socket_api cimport iovec

cdef enum:
    SMALL_BYTES = 32768             # buffer for an incomplete frame of ordinary size
    REPLY_BYTES = 16384             # one reply buffer, its header included
    SCRATCH_BYTES = 262144          # most bytes received from one connection in one turn
    FIRST_RECEIVE_BYTES = 32768     # most from a new connection
    SLOW_RECEIVE_BYTES = 16384      # most after bytes that had requests for the control thread
    PIECES_PER_WRITE = 128          # iovecs of one send
    OWNER_BLOCK_WORDS = 8           # of 8 bytes, in each connection
    UNREAD_REASONS = 8              # bits of Connection.unread
    UNREAD_UNSENT = 1               # the socket did not take all output; EPOLLOUT is armed
    UNREAD_OWNERS = 2               # this bit and all above it are the owner's (client_state.pxd)

cdef struct Connection                # below

cdef extern from *:
    const uint64_t TURN_FULL "UINT64_MAX"

cdef enum PieceKind:
    BORROWED = 0                    # store memory, valid until the end of the turn
    IN_REPLY_BUFFER = 1
    IN_JUMBO = 2                    # the piece owns the whole jumbo buffer
    ON_HEAP = 3                     # malloc'd by the control thread's side
    IN_JUMBO_HEAD = 4               # as IN_JUMBO; nothing was written beyond the pool's keep_bytes
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
# the input (only read if bytes are left over, and greater than their number). TURN_FULL instead of
# a size: whole frames are left over, which are handed over again, in place, in the next turn.
ctypedef int64_t (*OnBytes)(void* owner, Connection* c, const uint8_t* bytes, uint64_t available,
                            uint64_t* needed) noexcept nogil
# There is no jumbo buffer for a frame of `needed` bytes: answers it, or returns -1 to close.
ctypedef int (*OnRefused)(void* owner, Connection* c, const uint8_t* bytes, uint64_t available,
                          uint64_t needed) noexcept nogil
ctypedef void (*OnClosed)(void* owner, Connection* c) noexcept nogil
# All output of a connection has been sent. Called if the connection was left unread because of its
# output, or has notify_drained.
ctypedef void (*OnDrained)(void* owner, Connection* c) noexcept nogil

cdef struct Protocol:
    void* owner                     # first argument of each callback
    OnBytes on_bytes
    OnRefused on_refused
    OnClosed on_closed
    OnDrained on_drained
    uint32_t block_bytes            # bytes that it uses of a connection's owner_block

cdef enum TransportResult:          # less than 0: nothing was received or sent
    WANT_READ = -1                  # call again when the socket is readable
    WANT_WRITE = -2                 # call again when the socket is writable
    TRANSPORT_FAILED = -3           # the connection must be closed
    # The handshake continues with a HandshakeStep, which is the first member of transport_state.
    # The handshake thread runs it, unless it is short (handshake_thread.pxd).
    ELSEWHERE = -4

cdef enum TransportWant:            # bits of Connection.transport_wants
    WANTS_HANDSHAKE = 1             # the handshake is not over: nothing is received or sent yet
    HANDSHAKE_WRITES = 2            # the handshake continues when the socket is writable
    RECEIVE_WRITES = 4              # the next receive waits for a writable socket
    SEND_READS = 8                  # the next send waits for a readable socket
    HANDSHAKE_BEGUN = 16            # the other side has sent the first bytes of a handshake
    HANDSHAKE_ELSEWHERE = 32        # the handshake thread has the socket: do not wait, do not close
    WANTS_ADDRESS = 64              # the balancer has not named the client yet

cdef enum:
    HANDSHAKE_MS = 10000            # a connection whose handshake takes longer is closed
    PROVED_BYTES_MAX = 255          # of the name that the other side has proved

cdef struct Transport:
    void* owner                     # first argument of `open`
    # Called for an accepted client, whose address is set. Makes c.transport_state, or hands the
    # connection over to another transport, or to none (NULL). False: no memory, the connection is
    # closed.
    bint (*open)(void* owner, Connection* c) noexcept nogil
    # 0: done. Otherwise a TransportResult: it is called again when the socket is ready for it, or
    # when the step that was elsewhere is back. It may hand the connection over to another
    # transport, whose handshake follows, or to none, which makes it plain.
    int (*handshake)(Connection* c) noexcept nogil
    # Bytes received; 0: the other side has closed; or a TransportResult.
    ssize_t (*receive)(Connection* c, void* at, size_t room) noexcept nogil
    # Bytes sent, counted from the first piece on, or a TransportResult. After a TransportResult it
    # is called again with the same bytes, which may lie elsewhere in memory.
    ssize_t (*send)(Connection* c, const iovec* pieces, int count) noexcept nogil
    # Received bytes inside the transport. The socket need not be readable while there are some.
    size_t (*pending)(Connection* c) noexcept nogil
    # Tells the other side that the connection ends, and frees the state; the caller then closes the
    # socket. If a step is elsewhere, both happen when the step is back.
    void (*close)(Connection* c) noexcept nogil
    # The name that the other side has proved, `length` bytes that stay valid as long as the
    # connection; NULL: it has proved none. Called after the handshake.
    const uint8_t* (*proved)(Connection* c, uint32_t* length) noexcept nogil

cdef struct AddressEntry:           # of an address_table
    uint64_t key                    # the address
    int64_t second                  # in which the last handshake began (monotonic)
    uint32_t begun                  # handshakes begun in that second
    uint32_t handshakes             # begun and not over
    uint32_t connections
    uint32_t next                   # next of this hash, or next free: its number plus 1; 0: none
    bint is_free

cdef struct Connection:
    uint64_t id                     # generation << 20 | slot; 0: closed
    int32_t fd
    uint32_t slot
    const Protocol* protocol        # of its listener
    const Transport* transport      # of its listener, too; NULL: the socket itself
    void* transport_state           # owned by the transport
    # input
    uint8_t* small                  # owned pool buffer with partial_bytes of an incomplete frame
    uint8_t* jumbo                  # the same for a large frame; at most one of the two is set
    uint64_t partial_bytes
    uint64_t frame_bytes            # size of that frame
    uint64_t receive_bytes          # most bytes of the next receive
    int64_t jumbo_ms                # when the large frame last made progress (monotonic)
    uint64_t jumbo_mark             # bytes that it had at its last progress
    uint64_t jumbo_counted          # its bytes in HalfFrames.held_bytes
    uint32_t half_place             # its place in HalfFrames.list
    uint64_t skip_bytes             # bytes of a refused frame that must still be discarded
    # output
    OutPiece* first
    OutPiece* last
    ReplyBuffer* open_buffer        # where the next reply is written, or NULL
    uint64_t unsent_bytes
    Connection* next_dirty          # list of connections with output of this turn
    Connection* stalled_before      # neighbours in the reactor's StalledList
    Connection* stalled_behind
    uint8_t stalled                 # it is in that list
    uint8_t dirty                   # it is in the list of next_dirty
    uint8_t unread                  # UNREAD_UNSENT and the owner's bits: why it is not read
    uint8_t transport_wants         # TransportWant
    uint8_t handshake_counted       # in of_address.handshakes
    uint8_t pending                 # it is in the list of next_pending
    uint8_t notify_drained          # on_drained is called when all output is sent, in any case
    uint8_t closing                 # close at the end of the turn, when the queued output is sent
    # the client
    uint8_t address[20]             # as a record's bornHost: ip (4 or 16 bytes) + port (4 bytes)
    uint32_t address_bytes          # 8 or 20
    AddressEntry* of_address        # NULL: it is not counted
    int64_t active_ms               # when bytes were last received or sent (monotonic)
    int64_t opened_ms               # monotonic; begins anew with the handshake
    uint64_t frames_in              # whole frames, counted by the owner; 0: it asked for nothing
    Connection* next_pending        # list of connections with bytes inside their transport
    Connection* next_closed         # list of those that closed in this turn
    uint64_t owner_block[OWNER_BLOCK_WORDS]     # cast by the owner; not read here
