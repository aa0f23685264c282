"""Send service: what clients send, from the request to the appended record.

Reactor only.
"""
from libc.stdint cimport int64_t, uint8_t

from cext.flow.append.appender cimport DISPATCH_MAX, Appender
from cext.flow.context.service cimport Service
from cext.flow.context.turn_context cimport TurnContext
from cext.flow.delay.delay_service cimport DelayService
from cext.flow.fetch.fetch_service cimport FetchService
from cext.flow.request_reply.reply_service cimport ReplyService
from cext.flow.tables.tables cimport Tables
from cext.flow.transaction.transaction_service cimport TransactionService

cdef enum:
    BATCH_IDS_BYTES = 8388608       # room for the message ids of the largest batch

cdef class SendService(Service):
    cdef TurnContext turn
    cdef Tables tables
    cdef Appender append
    cdef FetchService fetch
    cdef DelayService delay
    cdef TransactionService transaction
    cdef ReplyService reply
    cdef uint8_t* batch_ids             # scratch for the message ids of a batch
    cdef int64_t batch_tags[DISPATCH_MAX]   # tag codes of the batch being stored
