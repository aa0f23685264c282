"""Pop job: a pop on its way, from the request until its reply is queued.

Its states, and all that a scan of a queue needs, are those of the pull job it begins with
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
    PullJob pull                # the first field: a PullJob for the turn, and for who holds it
    int32_t kind                # PopKind
    PopPair* pair               # used
    Topic* topic                # the request's; pull.topic is the one looked into
    int32_t queue_id            # the request's, -1: all
    int32_t max_messages        # the request's
    int32_t init_mode
    bint order
    bint woken                  # counted in pair.awake
    int64_t invisible_ms
    int64_t poll_end_ms         # monotonic; answered with nothing then
    uint32_t attempt_bytes
    uint8_t attempt[64]         # of the request, cut off
