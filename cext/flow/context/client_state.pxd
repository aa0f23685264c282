"""Client state: what the flow layer remembers of each connection, and why it leaves one unread.

It lies in the connection's owner block (cext/net/connection.pxd), is zeroed when the client comes,
and goes with the connection. The reasons are bits of Connection.unread: reading goes on when the
last of them is cleared. Of the UNREAD_REASONS (8) bits one is cext/net's; of the other seven the
last is free. Reactor only.

Example: a client sends to a topic that does not exist. The send goes to the control thread:
`pending_topic_sends` is 1 and UNREAD_PENDING is set. The topic is made, the send comes back: both
are 0 again.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from cext.net.connection cimport UNREAD_OWNERS, Connection

cdef enum:
    UNREAD_SHARE = UNREAD_OWNERS            # it has more than its share of what waits for control
    UNREAD_PENDING = UNREAD_OWNERS << 1     # control has a send of it; later ones must wait
    UNREAD_POSTPONED = UNREAD_OWNERS << 2   # one-way requests of it could not be done yet
    UNREAD_BACKPRESSURE = UNREAD_OWNERS << 3    # it sends, and the log's next segment is missing
    UNREAD_CONTROL = UNREAD_OWNERS << 4     # control has enough of its requests or unread answers
    UNREAD_LOG = UNREAD_OWNERS << 5         # the master's: the log has no room for its bytes

cdef struct ClientState:
    void* held_first                # pulls waiting on behalf of this client
    uint64_t control_round          # round of the control link in which the next two counted
    uint64_t control_bytes          # of requests given to control in that round
    uint32_t control_requests       # their number
    uint32_t pending_topic_sends    # sends that control has, not given back or answered
    int64_t pending_since_ms        # when the newest of those sends went (monotonic)
    uint32_t postponed              # its one-way requests that are tried again
    uint8_t introduced              # the control thread knows this client


cdef inline ClientState* client_state(Connection* c) noexcept nogil:
    return <ClientState*> c.owner_block
