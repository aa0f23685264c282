"""Fetch service. See fetch_service.pxd."""
cimport cython


@cython.no_gc                       # it is in no circle, and the end of a shard needs it whole
cdef class FetchService:
    def __cinit__(self):
        self.pool = FetchPool()
