"""Tables: what the control thread says of topics, groups and filters, and the groups' offsets.

The control thread fills them (control/*_calls.pxd); the reactor looks things up in them.
"""
from cext.flow.context.service cimport Service
from cext.flow.context.turn_context cimport TurnContext
from cext.flow.tables.group_table cimport GroupTable
from cext.flow.tables.offset_table cimport OffsetTable
from cext.flow.tables.sql_filter cimport ExpressionTable
from cext.flow.tables.subscription_table cimport SubscriptionTable
from cext.memory.name_map cimport NameMap
from cext.memory.use_count cimport RemovedList

cdef class Tables(Service):
    cdef TurnContext turn
    cdef NameMap topics                 # name -> Topic*
    cdef RemovedList removed            # topics, counters and pairs that may still be in use
    cdef GroupTable groups
    cdef SubscriptionTable subscriptions
    cdef ExpressionTable expressions
    cdef OffsetTable offsets
