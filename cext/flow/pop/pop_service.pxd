"""Pop service: consumers that pop, their acknowledgements, and what comes again.

Reactor only.
"""
from cext.flow.append.appender cimport Appender
from cext.flow.context.service cimport Service
from cext.flow.context.turn_context cimport TurnContext
from cext.flow.delay.delay_service cimport DelayService
from cext.flow.fetch.fetch_service cimport FetchService
from cext.flow.pop.pop_table cimport Pops
from cext.flow.pull.pull_service cimport PullService
from cext.flow.send.send_service cimport SendService
from cext.flow.tables.tables cimport Tables
from cext.flow.transaction.transaction_service cimport TransactionService

cdef class PopService(Service):
    cdef TurnContext turn
    cdef Tables tables
    cdef Appender append
    cdef FetchService fetch
    cdef PullService pull
    cdef DelayService delay
    cdef TransactionService transaction
    cdef SendService send
    cdef Pops pops
