"""Reply service: consumers' replies to requests that are messages, pushed to the producers.

Reactor only.
"""
from cext.flow.append.appender cimport Appender
from cext.flow.context.service cimport Service
from cext.flow.context.turn_context cimport TurnContext
from cext.flow.request_reply.reply_table cimport ReplyTable
from cext.flow.tables.tables cimport Tables

cdef class ReplyService(Service):
    cdef TurnContext turn
    cdef Tables tables
    cdef Appender append
    cdef ReplyTable replies
