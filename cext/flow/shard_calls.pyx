"""All that the control thread may call of a shard. See shard_calls.pxd."""
from libc.stdint cimport int64_t

from cext.flow.context.options cimport options_set
from cext.flow.delay.timer_open cimport timer_option


cdef class ShardCalls(ReplicaCalls):
    def set_option(self, str name, int64_t value):
        if name == "clock_skew_ms":         # tests move the clock that delays are counted by
            self.s.delay.schedule.skew_ms = value
        elif name == "transactions_set_aside":  # what was given up and may still be committed
            self.s.transaction.halves.set_aside = value
        elif not timer_option(self.s.delay, name, value):
            options_set(&self.s.turn.options, name, value)
