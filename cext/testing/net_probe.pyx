"""Net probe: functions of cext/net that Python has no other way to, called one at a time.

    resumes(hello)                          True: of TLS 1.2, and asks to resume a session

What is read stands directly before a page that may not be touched, so that one byte too far ends
the process.
"""
from libc.stdint cimport uint8_t
from libc.string cimport memcpy
from posix.mman cimport (
    MAP_ANONYMOUS, MAP_FAILED, MAP_PRIVATE, PROT_NONE, PROT_READ, PROT_WRITE, mmap, mprotect,
    munmap,
)

from cext.net.client_hello cimport hello_resumes

cdef enum:
    PAGE = 4096
    ROOM = 65536


def resumes(bytes said not None) -> bool:
    """ValueError: of more than ROOM bytes."""
    cdef uint8_t* base
    cdef uint8_t* at
    cdef size_t length = len(said)
    cdef bint answer
    if length > ROOM:
        raise ValueError(f"{length} bytes, {ROOM} at most")
    base = <uint8_t*> mmap(NULL, ROOM + PAGE, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    if base == <uint8_t*> MAP_FAILED or mprotect(base + ROOM, PAGE, PROT_NONE) != 0:
        raise MemoryError
    at = base + ROOM - length
    memcpy(at, <const uint8_t*> said, length)
    answer = hello_resumes(at, length)
    munmap(base, ROOM + PAGE)
    return answer
