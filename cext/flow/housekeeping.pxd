"""Housekeeping: what the reactor does once a second, beside its turns.

    connections that are idle, or hold buffers that others need, are closed
    topics, counters and pairs of pops that were removed and nobody uses any more are freed
    sends and pushed replies that wait for too long are given up
    what went wrong since the last second goes to the log, a line for each kind (reports)

Reactor only.
"""
from cext.flow.shard_state cimport ShardState

cdef void housekeeping_turn(ShardState s) noexcept nogil
