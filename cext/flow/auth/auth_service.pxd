"""Auth service: the users of this broker, and whether requests must be signed.

The control thread sets it (control/auth_calls.pxd). Whether requests must be signed is in the
options too, so that nobody is let in before the control thread has set it. Without authentication a
request costs one look.
"""
from libc.stdint cimport uint32_t, uint64_t

from cext.flow.auth.user_table cimport UserTable
from cext.flow.auth.white_list cimport WhiteList
from cext.flow.context.service cimport Service
from cext.flow.context.turn_context cimport TurnContext
from cext.net.connection cimport Transport
from cext.net.handshake_thread cimport HandshakeThread
from cext.net.proxy_protocol cimport ProxyServer
from cext.net.tls cimport TlsServer
from cext.wire.signature cimport SignatureCheck

cdef class AuthService(Service):
    cdef TurnContext turn
    cdef UserTable users
    cdef WhiteList white                # from these addresses everything is served, to anybody
    cdef SignatureCheck check
    cdef uint64_t key_shape             # Header.shape in which field key_at is AccessKey; 0: none
    cdef int key_at
    cdef bint authenticates
    cdef bint users_known               # set_auth() was called: until then control judges
    cdef bint authorizes
    cdef bint by_certificate            # a certificate's name is the user if nothing is signed
    # RocketMQ's white lists of codes, as bits by the rows of admission.pyx: served without a
    # signature, and served to any user.
    cdef uint32_t unauthenticated
    cdef uint32_t unauthorized
    cdef TlsServer tls                  # of the listeners; used if TLS is spoken
    cdef HandshakeThread handshakes     # the TLS server's thread; opened if TLS is spoken
    cdef ProxyServer proxy              # of the listeners, if balancers are believed
    cdef const Transport* transport     # of the listeners; NULL: plain
    cdef uint64_t allowed               # counters
    cdef uint64_t refused

    cdef int open_proxy(self, bytes balancers, bint may_say_nothing) except -1
