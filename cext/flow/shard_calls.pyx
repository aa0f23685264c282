"""All that the control thread may call of a shard. See shard_calls.pxd."""
from libc.stdint cimport int64_t

from cext.flow.context.options cimport options_set
from cext.flow.delay.timer_lifecycle cimport timer_option
from cext.flow.turn cimport turn_loop


cdef class ShardCalls(AuthCalls):
    def __cinit__(self, *_given):
        self._take_shard(ShardState())

    cdef _take_shard(self, ShardState s):
        self.s = s
        self.loop = turn_loop(s)
        self.turn = s.turn
        self.tables = s.tables
        self.appender = s.append
        self.pulls = s.pull
        self.delays = s.delay
        self.transactions = s.transaction
        self.replies = s.reply
        self.pops = s.pop
        self.ha = s.ha
        self.auth = s.auth

    def set_option(self, str name, int64_t value):
        if name == "transactions_set_aside":  # given up, may still be committed
            self.transactions.halves.set_aside = value
        elif not (timer_option(self.delays, name, value)
                  or self.appender.flusher.set_option(name, value)):
            options_set(&self.turn.options, name, value)
