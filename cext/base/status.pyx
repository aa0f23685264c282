"""The one place where a status of the compiled half becomes an exception of rmq.errors.

Inner functions are nogil and return a Status; outer `def` functions call raise_status once, at
the end, when there is something to raise. Codes and their meaning: status.pxd.

    >>> raise_status(Status.POISONED, "commit log /store/commitlog")
    rmq.errors.StorePoisonedError: commit log /store/commitlog: POISONED
"""

from rmq import errors

cdef dict EXCEPTIONS = {
    Status.POISONED: errors.StorePoisonedError,
    Status.IO_ERROR: errors.StoreError,
    Status.NO_SPACE: errors.StoreError,
    Status.CORRUPT: errors.StoreCorruptError,
    Status.MALFORMED: errors.ProtocolError,
    Status.MISSING_FIELD: errors.ProtocolError,
    Status.TOO_LARGE: errors.ProtocolError,
}

# A separate table of names: Cython makes the enum an IntFlag, which names combinations its own way.
cdef dict NAMES = {
    Status.OK: "OK",
    Status.NOT_READY: "NOT_READY",
    Status.POOL_EMPTY: "POOL_EMPTY",
    Status.RING_FULL: "RING_FULL",
    Status.POISONED: "POISONED",
    Status.IO_ERROR: "IO_ERROR",
    Status.NO_SPACE: "NO_SPACE",
    Status.CORRUPT: "CORRUPT",
    Status.ABSENT: "ABSENT",
    Status.TOO_LARGE: "TOO_LARGE",
    Status.MALFORMED: "MALFORMED",
    Status.MISSING_FIELD: "MISSING_FIELD",
    Status.NOT_FOUND: "NOT_FOUND",
    Status.CLOSED: "CLOSED",
}


cpdef int raise_status(int status, str detail="") except -1:
    """Raise the exception for `status` (< 0); do nothing for OK or a count."""
    if status >= 0:
        return 0
    name = NAMES.get(status, f"status {status}")
    kind = EXCEPTIONS.get(status, errors.RmqError)
    raise kind(f"{detail}: {name}" if detail else name)
