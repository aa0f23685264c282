"""Shard state. See shard_state.pxd."""
cimport cython


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
        self.services[BY_TABLES] = <void*> tables
        self.services[BY_PULL] = <void*> pull
        self.services[BY_TRANSACTION] = <void*> transaction
        self.services[BY_REPLY] = <void*> reply
        self.services[BY_SEND] = <void*> send
        self.services[BY_POP] = <void*> pop
