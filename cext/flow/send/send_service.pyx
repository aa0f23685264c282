"""Send service. See send_service.pxd."""
cimport cython


@cython.auto_pickle(False)          # it would take batch_ids for text
@cython.no_gc                       # it is in no circle, and the end of a shard needs it whole
cdef class SendService:
    pass
