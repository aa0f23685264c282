"""Shard state. See shard_state.pxd."""
cimport cython

from cext.flow.append.appender cimport OnArrival, OnQueueRemoved, OnReplayed
from cext.flow.append.dispatch_hook cimport dispatch_hook
from cext.flow.pop.held_pops cimport wake_by_arrival
from cext.flow.pop.pop_job cimport PopJob
from cext.flow.pull.held_pulls cimport wake_all
from cext.flow.replication.ha_protocols cimport join_protocols
from cext.flow.request_router cimport (
    BY_POP,
    BY_PULL,
    BY_REPLY,
    BY_SEND,
    BY_TABLES,
    BY_TRANSACTION,
)
from cext.flow.slave_replay cimport slave_replayed


@cython.no_gc                       # in no reference cycle; a shard needs it whole at its end
cdef class ShardState:
    def __cinit__(self):
        self.turn = TurnContext()
        self.tables = Tables()
        self.append = Appender()
        self.fetch = FetchService()
        self.pull = PullService()
        self.delay = DelayService()
        self.transaction = TransactionService()
        self.reply = ReplyService()
        self.send = SendService()
        self.pop = PopService()
        self.ha = HAService()
        self.auth = AuthService()
        self.router = RequestRouter()
        self.inbox = ControlInbox()
        self.events = ConnectionEvents()
        self.housekeeping = Housekeeping()
        self.slave_replay = SlaveReplay()
        self.services = [
            self.turn, self.tables, self.append, self.fetch, self.pull, self.delay,
            self.transaction, self.reply, self.send, self.pop, self.ha, self.auth, self.router,
        ]
        join_services(self)
        join_router(self)
        join_rest(self)


cdef void join_services(ShardState s) noexcept:
    """Gives each service those that it uses (context/turn_context.pxd)."""
    s.tables.turn = s.append.turn = s.pull.turn = s.delay.turn = s.turn
    s.transaction.turn = s.reply.turn = s.send.turn = s.pop.turn = s.turn
    s.append.tables = s.pull.tables = s.delay.tables = s.transaction.tables = s.tables
    s.reply.tables = s.send.tables = s.pop.tables = s.tables
    s.pull.append = s.delay.append = s.transaction.append = s.append
    s.reply.append = s.send.append = s.pop.append = s.append
    s.pull.fetch = s.delay.fetch = s.transaction.fetch = s.fetch
    s.send.fetch = s.pop.fetch = s.fetch
    s.transaction.delay = s.send.delay = s.pop.delay = s.delay
    s.send.transaction = s.pop.transaction = s.transaction
    s.send.reply = s.reply
    s.ha.turn = s.turn
    s.ha.append = s.append
    s.ha.fetch = s.fetch
    join_protocols(s.ha)
    s.pop.pull = s.pull
    s.pull.job_bytes = sizeof(PopJob)       # the largest job that begins with a PullJob
    s.pop.send = s.send


cdef void join_router(ShardState s) noexcept:
    s.router.turn = s.auth.turn = s.turn
    s.router.auth = s.transaction.auth = s.auth
    s.router.fetch = s.fetch
    s.router.reply = s.reply
    s.router.send = s.send
    s.router.services[BY_TABLES] = <void*> s.tables
    s.router.services[BY_PULL] = <void*> s.pull
    s.router.services[BY_TRANSACTION] = <void*> s.transaction
    s.router.services[BY_REPLY] = <void*> s.reply
    s.router.services[BY_SEND] = <void*> s.send
    s.router.services[BY_POP] = <void*> s.pop


cdef void join_rest(ShardState s) noexcept:
    s.inbox.turn = s.events.turn = s.housekeeping.turn = s.turn
    s.inbox.router = s.events.router = s.router
    s.inbox.send = s.housekeeping.send = s.send
    s.events.pull = s.pull
    s.events.reply = s.housekeeping.reply = s.reply
    s.housekeeping.tables = s.slave_replay.tables = s.tables
    s.housekeeping.append = s.append
    s.housekeeping.fetch = s.fetch
    s.slave_replay.delay = s.delay
    s.slave_replay.transaction = s.transaction
    s.slave_replay.pop = s.pop
    dispatch_hook(s.append, <OnArrival> wake_by_arrival, <OnQueueRemoved> wake_all, <void*> s.pull,
                  <OnReplayed> slave_replayed, <void*> s.slave_replay)
