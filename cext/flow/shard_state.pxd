"""Shard state: the services of one shard, and the classes that work on several of them.

Only the turn and the code that builds the shard refer to the whole state. Every other function gets
the service it works on (context/turn_context.pxd says which service uses which), or belongs to a
class that holds the services it needs: the request router, the control inbox, the connection
events, housekeeping, and the replay of a slave. `turn` puts their steps in order, and `shard_core`
is the class that Python sees.
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
    cdef list services                  # all above, each after those it uses
    cdef ControlInbox inbox
    cdef ConnectionEvents events
    cdef Housekeeping housekeeping
    cdef SlaveReplay slave_replay
