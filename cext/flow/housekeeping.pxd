"""Housekeeping: what the reactor does once a second, beside its turns.

    connections that are idle, or hold buffers that others need, are closed
    topics, counters and pairs of pops that were removed and nobody uses any more are freed
    sends and pushed replies that wait for too long are given up
    what went wrong since the last second goes to the log, a line for each kind (reports); that the
        disk cannot be read, a line each minute

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
    REPORTS = 8                         # counters that the log hears of when they grow

cdef class Housekeeping:
    cdef TurnContext turn
    cdef Tables tables
    cdef Appender append
    cdef FetchService fetch
    cdef ReplyService reply
    cdef SendService send
    cdef int64_t last_second            # of now_ms, when it was done last
    cdef uint64_t reported[REPORTS]     # counters as the log has heard of them
    cdef uint64_t failed_reads          # of disk readers, as the log has heard of them
    cdef int64_t failed_reads_second    # not before it does the log hear of more

# It is done when the second is another, at most half of one late.
cdef Step housekeeping_step(Housekeeping s) noexcept
