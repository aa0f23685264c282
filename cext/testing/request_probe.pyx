"""Request probe: what the reactor's readers find in a request, as Python values.

    signature_status(header, JSON, b"body", b"secret")      Status.OK
"""
from libc.stdint cimport uint8_t, uint32_t

from cext.base.status cimport Status, raise_status
from cext.wire.header cimport Header, parse_header
from cext.wire.signature cimport (
    SignatureCheck,
    SigningKey,
    signature_check,
    signature_check_close,
    signature_check_open,
    signing_key_set,
)


def signature_status(bytes header, int serialize_type, bytes body, bytes password) -> int:
    """The status of the check of a request with this header."""
    cdef Header parsed
    cdef SigningKey key
    cdef SignatureCheck check
    cdef int status = parse_header(header, <uint32_t> len(header), <uint8_t> serialize_type,
                                   &parsed)
    raise_status(status, "no header")
    signing_key_set(&key, password, <uint32_t> len(password))
    status = signature_check_open(&check)
    if status == Status.OK:
        status = signature_check(&check, &key, &parsed, body, <uint32_t> len(body))
    signature_check_close(&check)
    return status
