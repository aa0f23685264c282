"""Auth service. See auth_service.pxd."""
cimport cython
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from cext.base.status cimport OK
from cext.flow.auth.user_table cimport user_table_close, user_table_open
from cext.flow.auth.white_list cimport white_list_close
from cext.flow.context.service cimport no_memory
from cext.memory.arena cimport Arena
from cext.net.handshake_thread cimport (
    handshake_thread_close,
    handshake_thread_open,
    handshake_thread_arena_bytes,
)
from cext.net.proxy_protocol cimport proxy_server_close, proxy_server_open
from cext.net.tls cimport (
    KEY_RECORDS,
    TlsContext,
    tls_server_close,
    tls_server_open,
    tls_server_set,
)
from cext.wire.signature cimport signature_check_close, signature_check_open


@cython.no_gc                       # in no reference cycle; a shard needs it whole at its end
cdef class AuthService:
    cdef uint64_t arena_bytes(self, dict given) except? 0:
        if given.get("tls") is None:
            return 0
        return handshake_thread_arena_bytes(given["connections_max"])

    cdef int open(self, Arena* arena, dict given) except -1:
        if user_table_open(&self.users) != OK or signature_check_open(&self.check) != OK:
            no_memory("accounts")
        self.authenticates = bool(given.get("authenticates", False))
        self.by_certificate = bool(given.get("by_certificate", False))
        if tls_server_open(&self.tls) != OK:
            no_memory("TLS")
        if given.get("tls") is not None:
            context, is_permissive = given["tls"]
            if handshake_thread_open(&self.handshakes, arena, given["connections_max"]) != OK:
                no_memory("handshakes")
            tls_server_set(&self.tls, (<TlsContext?> context).context, is_permissive)
            self.transport = &self.tls.transport
            self.tls.key_records = given.get("tls_key_records", KEY_RECORDS)
        if given.get("balancers"):
            self.open_proxy(given["balancers"], given.get("balancers_may_say_nothing", False))
        return 0

    cdef int open_proxy(self, bytes balancers, bint may_say_nothing) except -1:
        if proxy_server_open(&self.proxy, self.transport, <const uint8_t*> balancers,
                             <uint32_t> len(balancers)) != OK:
            no_memory("balancers")
        self.transport = &self.proxy.transport
        self.proxy.may_say_nothing = may_say_nothing
        return 0

    cdef void close(self) noexcept:
        user_table_close(&self.users)
        white_list_close(&self.white)
        signature_check_close(&self.check)
        proxy_server_close(&self.proxy)
        tls_server_close(&self.tls)
        handshake_thread_close(&self.handshakes)

    cdef dict stats(self):
        return {
            "users": self.users.by_name.live,
            "auth_allowed": self.allowed,
            "auth_refused": self.refused,
            "tls_handshakes": self.tls.handshakes,
            "tls_resumed": self.tls.resumed,
            "tls_failed": self.tls.failed,
            "tls_key_updates": self.tls.key_updates,
        }
