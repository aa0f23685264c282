"""Pulls: from the request to the records in the socket, without copying a record.

    request -> topic, group, subscription known?  no: control thread
            -> a job in the turn's list
    end of the turn, after the turn's own messages have been written and dispatched:
            -> queue entries -> tag filter -> records in the tail ring or the page cache
            -> reply header + the records themselves as iovecs
            -> nothing there: held (long polling), or answered 19 / 20 / 21 (wire.md 8.3)
            -> not in memory: a disk reader fetches them into a buffer, then the same reply
"""
from libc.stdint cimport int32_t, int64_t

from cext.flow.outcome cimport Outcome
from cext.flow.pull.pull_job cimport PullJob
from cext.flow.shard_state cimport ShardState
from cext.net.connection cimport Connection
from cext.wire.frame cimport Frame
from cext.wire.header cimport Header

cdef Outcome accept_pull(ShardState s, Connection* c, const Header* h, const Frame* f,
                         bint resubmitted) noexcept nogil
# Answers, holds or hands to a disk reader every job of the turn's list.
cdef void answer_pulls(ShardState s) noexcept nogil
# Takes back what the disk readers have fetched.
cdef void collect_reads(ShardState s) noexcept nogil
