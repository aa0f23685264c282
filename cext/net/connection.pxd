"""One client socket: what has been received in part, what waits to be sent, who it is.

Input. Bytes are received into the reactor's scratch buffer and handed over in place. What is left
of an incomplete frame is kept here: in a small buffer when the whole frame is at most
SMALL_BYTES, in a jumbo buffer otherwise, in which case the rest is received there directly.
When it gets no jumbo buffer the frame is refused and its bytes are discarded (`skip_bytes`).

What frames that are not complete yet hold has limits: of all, so that answers keep their buffers,
of one address, and of connections that never sent a whole request (half_frames.pxd).

Output. A list of pieces, sent with one writev at the end of a turn. A piece points into a reply
buffer (owned) or into the store's memory (borrowed: valid until the turn ends; what the socket
does not take by then is copied). While anything is unsent the connection is not read: a client
that does not read its replies stops being served.

Reading. A connection may be left unread for several reasons at once, one bit each; it is read again
when the last of them is gone. What it sends meanwhile waits in its socket.

All of this belongs to the reactor thread.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef enum:
    SMALL_BYTES = 32768             # buffer for an incomplete frame of ordinary size
    REPLY_BYTES = 16384             # one reply buffer, its header included
    SCRATCH_BYTES = 262144          # most bytes received from one connection in one turn
    FIRST_RECEIVE_BYTES = 32768     # from one that is new
    SLOW_RECEIVE_BYTES = 16384      # from one whose last bytes had requests for the control thread
    PIECES_PER_WRITE = 128          # iovecs of one writev

cdef enum PieceKind:
    BORROWED = 0                    # store memory, valid until the end of the turn
    IN_REPLY_BUFFER = 1
    IN_JUMBO = 2                    # the piece owns the whole jumbo buffer
    ON_HEAP = 3                     # malloc'd by the control thread's side
    IN_JUMBO_HEAD = 4               # as IN_JUMBO, and beyond its keep_bytes nothing was touched

cdef enum Unread:                   # bits of Connection.unread
    UNREAD_UNSENT = 1               # its socket did not take all output; EPOLLOUT is armed
    UNREAD_SHARE = 2                # it has more than its share of what waits for control
    UNREAD_AWAY = 4                 # control has a send of it, whose order is kept
    UNREAD_POSTPONED = 8            # one-way requests of it could not be done yet
    UNREAD_ROOM = 16                # it sends, and the log's next segment is on its way
    UNREAD_CONTROL = 32             # control has enough of its requests, or answers it has not read
    UNREAD_REASONS = 6

cdef struct ReplyBuffer:            # lies at the start of a pool buffer; data follows
    uint32_t used                   # bytes of data written
    uint32_t references             # pieces pointing here, plus one while it is open for writing

cdef struct OutPiece:
    OutPiece* next
    uint8_t* bytes                  # first unsent byte
    uint64_t length                 # unsent bytes
    void* owner                     # ReplyBuffer*, jumbo buffer, heap block, or NULL
    int32_t kind                    # PieceKind

cdef struct Connection:
    uint64_t id                     # generation << 20 | slot; 0: closed
    int32_t fd
    uint32_t slot
    # input
    uint8_t* small                  # owned pool buffer with partial_bytes of an incomplete frame
    uint8_t* jumbo                  # the same for a large frame; at most one of the two is set
    uint64_t partial_bytes
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
    uint8_t unread                  # Unread: why it is not read; 0: it is
    uint8_t introduced              # the control thread knows this connection
    uint8_t tells_drained           # control waits for the end of its output
    uint8_t closing                 # close at the end of the turn, after what is queued is sent
    # who
    uint8_t address[20]             # as a record's bornHost: ip (4 or 16 bytes) + port (4 bytes)
    uint32_t address_bytes          # 8 or 20
    int64_t active_ms               # when bytes last came or went (monotonic)
    int64_t opened_ms               # monotonic
    # flow's own
    uint64_t handed_round           # round of the control link in which `handed` was counted
    uint32_t handed                 # requests given to the control thread in that round
    uint64_t handed_bytes           # and their bytes
    uint32_t sends_away             # sends that control has and has not given back or answered
    int64_t away_ms                 # when the newest of them went (monotonic)
    uint32_t postponed              # one-way requests of it that are tried again
    void* held_first                # pulls waiting on behalf of this connection
    uint64_t frames_in
