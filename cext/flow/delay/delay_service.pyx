"""Delay service. See delay_service.pxd."""
cimport cython


@cython.no_gc                       # it is in no circle, and the end of a shard needs it whole
cdef class DelayService:
    pass
