"""Housekeeping: what the reactor does once a second, beside its turns.

    connections that are idle, or hold buffers that others need, are closed
    removed topics, counters and pairs of pops are freed when nobody uses them any more
    sends and pushed replies that have waited too long are given up
    what went wrong since the last second is logged, a line for each kind (reports); that the disk
        cannot be read is logged once a minute

Reactor only.
"""
from libc.stdint cimport int64_t, uint64_t

from cext.flow.append.appender cimport Appender
from cext.flow.context.step cimport Step
from cext.flow.context.turn_context cimport TurnContext
from cext.flow.fetch.fetch_service cimport FetchService
from cext.flow.request_reply.reply_service cimport ReplyService
from cext.flow.send.send_service cimport SendService
from cext.flow.tables.tables cimport Tables

cdef enum:
    REPORTS = 8                         # counters that are logged when they have grown

cdef class Housekeeping:
    cdef TurnContext turn
    cdef Tables tables
    cdef Appender append
    cdef FetchService fetch
    cdef ReplyService reply
    cdef SendService send
    cdef int64_t last_second            # second of now_ms in which it was done last
    cdef uint64_t reported[REPORTS]     # counters as they were last logged
    cdef uint64_t failed_reads          # of disk readers, as last logged
    cdef int64_t failed_reads_second    # more of them are logged from this second on

# Runs once for each second of the clock, at most half a second late.
cdef Step housekeeping_step(Housekeeping s) noexcept
