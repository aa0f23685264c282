"""Admission: whether a request that the reactor serves may be served.

    the code's row       which fields name a topic and a group, and what is wanted of each
    AccessKey            must name a user that exists and is enabled
    Signature            must be made with its password (cext/wire/signature.pxd)
    no AccessKey         the user that the client's certificate names, where that is enough
    the user's policies  must allow each resource (user_table.pxd)

rmq/auth/gate.py does the same for all other codes, in the same order and with the same texts; for
the codes that have a row here, its table (rmq/auth/permissions.py) says the same as the rows. What
cannot be judged here (some names with backslashes, very long values) goes to control, which has the
gate.

A request that control gives back (resubmitted) is judged here again, except for its signature,
which would cover bytes that control may have changed. The reason is that a body can be written so
that the two sides read it differently, and what counts is what is served. The header is then of
control's own writing. If the client has left meanwhile, its certificate and address are gone too,
and control's verdict counts (request_router.pyx).
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t

from cext.flow.auth.auth_service cimport AuthService
from cext.flow.context.outcome cimport Outcome
from cext.net.connection cimport Connection
from cext.wire.frame cimport Frame
from cext.wire.header cimport Header
from cext.wire.text cimport Text

# GO_ON: it may be served. TO_CONTROL: control judges it. Otherwise it has been refused, and the
# outcome is DONE or CLOSE_CONNECTION.
cdef Outcome admit(AuthService s, Connection* c, const Header* h, const Frame* f,
                   bint resubmitted) noexcept nogil
# The bit of a code's row in AuthService.unauthenticated and unauthorized; 0: the code has no row.
cdef uint32_t row_bit(int32_t code) noexcept nogil
# Whether the user may end a transaction of the topic from this connection's address; check backs go
# only to those who may. An empty name is no user: then only if everybody may, from this address or
# with this code.
cdef bint may_end_transaction(AuthService s, const Connection* c, const uint8_t* user_name,
                              uint32_t length, const Text* topic) noexcept nogil
