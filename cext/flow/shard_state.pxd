"""Shard state: the services of one shard, and what its reactor keeps between and beside them.

    turn = poll -> (each frame: its handler) -> write -> dispatch -> answer pulls -> acknowledge
           -> flush sockets -> timers

Only the turn, the router and what builds the shard name it whole; everything else is given the
service it works on (context/turn_context.pxd says how they stand on each other). `turn` puts the
steps in order and `shard_core` is the face that Python sees.
"""
from libc.stdint cimport int64_t, uint64_t

from cext.flow.append.appender cimport Appender
from cext.flow.context.turn_context cimport TurnContext
from cext.flow.delay.delay_service cimport DelayService
from cext.flow.fetch.fetch_service cimport FetchService
from cext.flow.pop.pop_service cimport PopService
from cext.flow.pull.pull_service cimport PullService
from cext.flow.request_reply.reply_service cimport ReplyService
from cext.flow.request_router cimport RequestRouter
from cext.flow.send.send_service cimport SendService
from cext.flow.tables.tables cimport Tables
from cext.flow.transaction.transaction_service cimport TransactionService

cdef enum:
    REPORTS = 5                         # counters that the log hears of when they grow

cdef class ShardState:
    cdef TurnContext turn
    cdef Tables tables
    cdef Appender append
    cdef FetchService fetch            # reads of the disk for requests
    cdef PullService pull
    cdef DelayService delay
    cdef TransactionService transaction
    cdef ReplyService reply
    cdef SendService send
    cdef PopService pop
    cdef RequestRouter router
    cdef list services                  # all of them, each behind those it stands on
    cdef int64_t last_second            # of now_ms; once-a-second work
    cdef uint64_t reported[REPORTS]     # counters as the log has heard of them (housekeeping.pyx)
