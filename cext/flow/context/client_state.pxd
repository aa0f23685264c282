"""Client state: what the flow layer remembers of each connection, and why it leaves one unread.

It lies in the connection's owner block (cext/net/connection.pxd), zeroed when the client comes, and
is gone with the connection. The reasons are bits of Connection.unread: reading goes on when the
last of them is gone. One of its UNREAD_REASONS (8) bits is cext/net's, and of the other seven the
last is free. The reactor's.

Example: a client sends to a topic that does not exist. The send goes to the control thread:
`pending_topic_sends` is 1 and UNREAD_PENDING is set. The topic is made, the send comes back: both
are 0 again.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from cext.net.connection cimport UNREAD_OWNERS, Connection

cdef enum:
    UNREAD_SHARE = UNREAD_OWNERS            # it has more than its share of what waits for control
    UNREAD_PENDING = UNREAD_OWNERS << 1     # control has a send of it, whose order is kept
    UNREAD_POSTPONED = UNREAD_OWNERS << 2   # one-way requests of it could not be done yet
    UNREAD_BACKPRESSURE = UNREAD_OWNERS << 3    # it sends, and the log's next segment is missing
    UNREAD_CONTROL = UNREAD_OWNERS << 4     # control has enough of its requests or unread answers
    UNREAD_LOG = UNREAD_OWNERS << 5         # of the master: its log has no room here yet

cdef struct ClientState:
    void* held_first                # pulls waiting on behalf of this client
    uint64_t control_round          # of the control link, in which the next two were counted
    uint64_t control_bytes          # of the requests given to the control thread in that round
    uint32_t control_requests       # and their number
    uint32_t pending_topic_sends    # that control has neither given back nor answered
    int64_t pending_since_ms        # when the newest of them went (monotonic)
    uint32_t postponed              # one-way requests of it that are tried again
    uint8_t introduced              # the control thread knows this client


cdef inline ClientState* client_state(Connection* c) noexcept nogil:
    return <ClientState*> c.owner_block
