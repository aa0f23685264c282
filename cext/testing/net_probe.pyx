"""Net probe: functions of cext/net that Python has no other way to, called one at a time.

    resumes(hello)                          True: of TLS 1.2, and asks to resume a session

What is read are guarded bytes: one byte too far ends the process.
"""
from libc.stdint cimport uint8_t, uint32_t

from cext.net.client_hello cimport hello_resumes
from cext.testing.guarded_bytes cimport (
    ROOM, Guarded, guarded_close, guarded_copy, guarded_open,
)


def resumes(bytes said not None) -> bool:
    """ValueError: of more than ROOM bytes."""
    cdef Guarded guarded
    cdef uint32_t length = <uint32_t> len(said)
    cdef bint answer
    if len(said) > ROOM:
        raise ValueError(f"{len(said)} bytes, {ROOM} at most")
    guarded.base = NULL
    try:
        guarded_open(&guarded)
        answer = hello_resumes(guarded_copy(&guarded, <const uint8_t*> said, length), length)
    finally:
        guarded_close(&guarded)
    return answer
