"""Auth calls. See auth_calls.pxd."""
from libc.stdint cimport uint32_t

from cext.base.status cimport OK, raise_status
from cext.flow.auth.admission cimport row_bit
from cext.flow.auth.auth_service cimport AuthService
from cext.flow.auth.user_table cimport user_put, user_remove, user_table_close, user_table_open
from cext.flow.auth.white_list cimport white_list_set
from cext.flow.context.control_link cimport CallFn
from cext.flow.control.control_side cimport borrowed
from cext.net.openssl cimport SSL_CTX
from cext.net.tls cimport TlsContext, tls_server_set
from cext.wire.text cimport Text


cdef struct PutUser:
    Text name
    Text password
    Text packed
    Text white
    bint is_super
    bint is_enabled
    # results
    int status


cdef void put_user(AuthService s, PutUser* x) noexcept nogil:
    x.status = user_put(&s.users, x.name.bytes, x.name.length, x.password.bytes,
                        x.password.length, x.is_super, x.is_enabled, x.packed.bytes,
                        x.packed.length, x.white.bytes, x.white.length)
    s.turn.accounts_version += x.status == OK


cdef struct SetWhiteList:
    Text packed
    # results
    int status


cdef void set_white_list(AuthService s, SetWhiteList* x) noexcept nogil:
    s.turn.accounts_version += 1
    x.status = white_list_set(&s.white, x.packed.bytes, x.packed.length)


cdef void remove_user(AuthService s, const Text* name) noexcept nogil:
    s.turn.accounts_version += 1
    user_remove(&s.users, name.bytes, name.length)


cdef void remove_users(AuthService s, int* status) noexcept nogil:
    s.turn.accounts_version += 1
    s.users_known = False
    user_table_close(&s.users)
    status[0] = user_table_open(&s.users)


cdef struct SetAuth:
    bint authenticates
    bint authorizes
    uint32_t unauthenticated
    uint32_t unauthorized


cdef void set_auth(AuthService s, const SetAuth* x) noexcept nogil:
    s.turn.accounts_version += 1
    s.unauthenticated = x.unauthenticated
    s.unauthorized = x.unauthorized
    s.authorizes = x.authorizes
    s.authenticates = x.authenticates
    s.users_known = True


cdef struct SetTls:
    SSL_CTX* context
    bint is_permissive


cdef void set_tls(AuthService s, const SetTls* x) noexcept nogil:
    tls_server_set(&s.tls, x.context, x.is_permissive)


cdef uint32_t bits_of(codes) except? 0xFFFFFFFF:
    """Only codes that the reactor serves have bits; the others are control's."""
    cdef uint32_t bits = 0
    for code in codes:
        bits |= row_bit(code)
    return bits


cdef class AuthCalls(HACalls):
    def put_user(self, bytes name, bytes password, bint is_super, bint is_enabled, bytes packed,
                 bytes white):
        cdef PutUser x
        x.name = borrowed(name)
        x.password = borrowed(password)
        x.packed = borrowed(packed)
        x.white = borrowed(white)
        x.is_super = is_super
        x.is_enabled = is_enabled
        self._call(<CallFn> put_user, <void*> self.auth, &x)
        raise_status(x.status, f"user {name!r}")

    def set_white_list(self, bytes packed):
        cdef SetWhiteList x
        x.packed = borrowed(packed)
        self._call(<CallFn> set_white_list, <void*> self.auth, &x)
        raise_status(x.status, "addresses that are let in")

    def remove_user(self, bytes name):
        cdef Text x = borrowed(name)
        self._call(<CallFn> remove_user, <void*> self.auth, &x)

    def remove_users(self):
        cdef int status = OK
        self._call(<CallFn> remove_users, <void*> self.auth, &status)
        raise_status(status, "users")

    def set_auth(self, bint authenticates, bint authorizes, list unauthenticated,
                 list unauthorized):
        cdef SetAuth x
        x.authenticates = authenticates
        x.authorizes = authorizes
        x.unauthenticated = bits_of(unauthenticated)
        x.unauthorized = bits_of(unauthorized)
        self._call(<CallFn> set_auth, <void*> self.auth, &x)

    def set_tls(self, context, bint is_permissive):
        cdef SetTls x
        x.context = (<TlsContext?> context).context
        x.is_permissive = is_permissive
        self._call(<CallFn> set_tls, <void*> self.auth, &x)
