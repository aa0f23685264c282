"""Shard state. See shard_state.pxd."""
cimport cython

from cext.flow.request_router cimport (
    BY_POP,
    BY_PULL,
    BY_REPLY,
    BY_SEND,
    BY_TABLES,
    BY_TRANSACTION,
)


@cython.no_gc                       # it is in no circle, and the end of a shard needs it whole
cdef class ShardState:
    def __cinit__(self):
        cdef TurnContext turn = TurnContext()
        cdef Tables tables = Tables()
        cdef Appender append = Appender()
        cdef FetchService fetch = FetchService()
        cdef PullService pull = PullService()
        cdef DelayService delay = DelayService()
        cdef TransactionService transaction = TransactionService()
        cdef ReplyService reply = ReplyService()
        cdef SendService send = SendService()
        cdef PopService pop = PopService()
        cdef RequestRouter router = RequestRouter()
        tables.turn = append.turn = pull.turn = delay.turn = turn
        transaction.turn = reply.turn = send.turn = pop.turn = turn
        append.tables = pull.tables = delay.tables = transaction.tables = tables
        reply.tables = send.tables = pop.tables = tables
        pull.append = delay.append = transaction.append = append
        reply.append = send.append = pop.append = append
        pull.fetch = delay.fetch = transaction.fetch = fetch
        send.fetch = pop.fetch = fetch
        transaction.delay = reply.delay = send.delay = pop.delay = delay
        send.transaction = pop.transaction = transaction
        send.reply = reply
        pop.pull = pull
        pop.send = send
        router.turn = turn
        router.fetch = fetch
        router.reply = reply
        router.send = send
        router.services[BY_TABLES] = <void*> tables
        router.services[BY_PULL] = <void*> pull
        router.services[BY_TRANSACTION] = <void*> transaction
        router.services[BY_REPLY] = <void*> reply
        router.services[BY_SEND] = <void*> send
        router.services[BY_POP] = <void*> pop
        self.turn = turn
        self.tables = tables
        self.append = append
        self.fetch = fetch
        self.pull = pull
        self.delay = delay
        self.transaction = transaction
        self.reply = reply
        self.send = send
        self.pop = pop
        self.router = router
        self.services = [turn, tables, append, fetch, pull, delay, transaction, reply, send, pop,
                         router]
