"""The one read of the disk that who goes through a queue has under way (record_fetch.pxd)."""
from libc.stdint cimport int64_t, uint8_t, uint64_t

from cext.store.disk_reader cimport ReadJob

cdef enum:
    FETCH_PATH_BYTES = 4160

cdef struct RecordFetch:
    bint busy                       # a disk reader owns `read` and `buffer`
    uint8_t* buffer                 # owned jumbo buffer while busy or while records are in it
    ReadJob read
    int64_t unreadable              # log offset of a record the disk does not give; -1
    uint64_t fetches                # ever
    char path[FETCH_PATH_BYTES]
