"""Shard state: the services of one shard, and who has none of its own and works on several.

Only the turn and what builds the shard name it whole; everything else is given the service it works
on (context/turn_context.pxd says how they stand on each other), or has a class with those it needs:
the router of requests, the control thread's inbox, the events of connections, housekeeping, the
replay of a slave. `turn` puts their steps in order and `shard_core` is the face that Python sees.
"""
from cext.flow.append.appender cimport Appender
from cext.flow.auth.auth_service cimport AuthService
from cext.flow.connection_events cimport ConnectionEvents
from cext.flow.context.turn_context cimport TurnContext
from cext.flow.control_inbox cimport ControlInbox
from cext.flow.delay.delay_service cimport DelayService
from cext.flow.fetch.fetch_service cimport FetchService
from cext.flow.housekeeping cimport Housekeeping
from cext.flow.pop.pop_service cimport PopService
from cext.flow.pull.pull_service cimport PullService
from cext.flow.replication.ha_service cimport HAService
from cext.flow.request_reply.reply_service cimport ReplyService
from cext.flow.request_router cimport RequestRouter
from cext.flow.send.send_service cimport SendService
from cext.flow.slave_replay cimport SlaveReplay
from cext.flow.tables.tables cimport Tables
from cext.flow.transaction.transaction_service cimport TransactionService

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
    cdef HAService ha
    cdef AuthService auth
    cdef RequestRouter router
    cdef list services                  # all above, each behind those it stands on
    cdef ControlInbox inbox
    cdef ConnectionEvents events
    cdef Housekeeping housekeeping
    cdef SlaveReplay slave_replay
