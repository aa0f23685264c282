"""Fetch service: reads of the disk for requests, and requests that wait for them.

Reactor only.
"""
from cext.flow.context.service cimport Service
from cext.flow.context.step cimport Step
from cext.flow.fetch.disk_fetch cimport FetchPool
from cext.flow.fetch.parked_requests cimport ParkedRequests
from cext.store.log.disk_reader cimport DiskReader

cdef class FetchService(Service):
    cdef FetchPool pool
    cdef ParkedRequests parked          # requests that wait for a record from the disk
    cdef DiskReader readers

# Hands what the disk readers have finished to the requests that wait for it.
cdef Step fetch_step(FetchService s) noexcept
