"""Auth service. See auth_service.pxd."""
cimport cython

from cext.base.status cimport OK
from cext.flow.auth.user_table cimport user_table_close, user_table_open
from cext.flow.context.service cimport no_memory
from cext.memory.arena cimport Arena
from cext.wire.signature cimport signature_check_close, signature_check_open


@cython.no_gc                       # it is in no circle, and the end of a shard needs it whole
cdef class AuthService:
    cdef int open(self, Arena* arena, dict given) except -1:
        if user_table_open(&self.users) != OK or signature_check_open(&self.check) != OK:
            no_memory("accounts")
        self.authenticates = bool(given.get("authenticates", False))
        return 0

    cdef void close(self) noexcept:
        user_table_close(&self.users)
        signature_check_close(&self.check)

    cdef dict stats(self):
        return {
            "users": self.users.by_name.live,
            "auth_allowed": self.allowed,
            "auth_refused": self.refused,
        }
