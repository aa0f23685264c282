"""Admission: whether a request that the reactor serves may be served.

    the code's row       which fields name a topic and a group, and what is wanted of each
    AccessKey            a user that is there and enabled
    Signature            made with its password (cext/wire/signature.pxd)
    no AccessKey         the user that the client's certificate names, where that is enough
    the user's policies  each resource is allowed (user_table.pxd)

rmq/auth/gate.py is the same for all other codes, in the same order and with the same texts; what
its table (rmq/auth/permissions.py) says of these codes the rows here say, too. What cannot be
judged here, names with backslashes and very long values with some, is control's: it has the gate.

What control gives back (resubmitted) is judged here again, but for its signature, over what control
may have changed: bodies can be written so that the two read them differently, and what counts is
what is served. Its header is control's own writing. Where its client is gone meanwhile, and with it
certificate and address, control's verdict counts (request_router.pyx).

Example: 310 with b=orders and the key of alice, who may Pub on Topic:orders*: GO_ON.
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t

from cext.flow.auth.auth_service cimport AuthService
from cext.flow.context.outcome cimport Outcome
from cext.net.connection cimport Connection
from cext.wire.frame cimport Frame
from cext.wire.header cimport Header
from cext.wire.text cimport Text

# GO_ON: it may be served. TO_CONTROL: control judges it. Else it is refused, and DONE or
# CLOSE_CONNECTION.
cdef Outcome admit(AuthService s, Connection* c, const Header* h, const Frame* f,
                   bint resubmitted) noexcept nogil
# The bit of a code's row in AuthService.unauthenticated and unauthorized; 0: it has none.
cdef uint32_t row_bit(int32_t code) noexcept nogil
# Whether the user may end a transaction of the topic from where the connection comes: whom a check
# back goes to. An empty name: nobody, unless from there, or with this code, anybody may.
cdef bint may_end_transaction(AuthService s, const Connection* c, const uint8_t* user_name,
                              uint32_t length, const Text* topic) noexcept nogil
