"""Pop job: a pop on its way, from the request until its reply is queued.

It begins with a pull job, which has its states and everything that a scan of a queue needs
(cext/flow/pull/pull_job.pxd).
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from cext.flow.pop.pop_pair cimport PopPair
from cext.flow.pull.pull_job cimport PullJob
from cext.flow.tables.topic_table cimport Topic

cdef enum PopKind:
    POP = 1
    NOTIFY = 2
    PEEK = 3

cdef struct PopJob:
    PullJob pull                # the first field: turn and holding code see a PullJob
    int32_t kind                # PopKind
    PopPair* pair               # counted as used
    Topic* topic                # the request's; pull.topic is the one looked into now
    int32_t queue_id            # the request's; -1: all
    int32_t max_messages        # the request's
    int32_t init_mode
    bint order
    bint woken                  # counted in pair.awake
    int64_t invisible_ms
    int64_t poll_end_ms         # monotonic; then it is answered with nothing
    uint32_t attempt_bytes
    uint8_t attempt[64]         # the request's attempt id, cut off
