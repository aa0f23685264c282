"""Transaction service: half messages, their ends, and the questions about open ones.

Reactor only.
"""
from cext.flow.append.appender cimport Appender
from cext.flow.auth.auth_service cimport AuthService
from cext.flow.context.service cimport Service
from cext.flow.context.turn_context cimport TurnContext
from cext.flow.delay.delay_service cimport DelayService
from cext.flow.fetch.fetch_service cimport FetchService
from cext.flow.tables.tables cimport Tables
from cext.flow.transaction.check_table cimport CheckTable
from cext.flow.transaction.open_halves cimport OpenHalves

cdef class TransactionService(Service):
    cdef TurnContext turn
    cdef Tables tables
    cdef Appender append
    cdef FetchService fetch
    cdef DelayService delay
    cdef AuthService auth               # who may end a transaction, and so may be asked
    cdef OpenHalves halves
    cdef CheckTable checks              # connections to ask about open transactions
