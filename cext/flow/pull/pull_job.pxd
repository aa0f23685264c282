"""Pull job: a pull on its way, from the request until its reply is queued.

    NEW        its request is being looked at
    READY      in the turn's list; answered at the end of the turn
    HELD       nothing to give: waits on its queue for a message, at most until `deadline_ms`
    READING    records are not in memory; a disk fetch reads them (cext/flow/fetch)
    DEFERRED   the connection has unsent output; goes on when that is sent

Everything a job needs is copied out of the request, so the frame need not be kept.

A job of another kind (cext/flow/pop) goes through the same states: it begins with a PullJob, which
its own fields follow (PullService.job_bytes), has its own function for the answer, and is told of
what happens to it.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.base.state cimport state_move
from cext.flow.fetch.disk_fetch cimport DiskFetch
from cext.flow.tables.delivery_counter cimport DeliveryCounter
from cext.flow.tables.queue_mapping cimport LogicPlace
from cext.flow.tables.sql_filter cimport SqlFilter
from cext.flow.tables.tag_filter cimport TagFilter
from cext.flow.tables.topic_table cimport Topic
from cext.memory.chain cimport ChainEntry
from cext.memory.use_count cimport use_begin, use_end
from cext.net.connection cimport Connection

cdef enum JobState:
    JOB_FREE = 0
    JOB_READY = 1
    JOB_HELD = 2
    JOB_READING = 3
    JOB_DEFERRED = 4
    JOB_NEW = 5

cdef enum JobEvent:             # what a job of another kind is told
    JOB_LEFT = 0                # it is no longer in the list where it was held
    JOB_PUT_OFF = 1             # it is about to be deferred
    JOB_ENDS = 2                # it is about to be freed

# Answers, holds or reads for a READY job; `service` is job.service.
ctypedef void (*JobAnswer)(void* service, PullJob* job) noexcept nogil
ctypedef void (*OnJobEvent)(void* service, PullJob* job, int32_t event) noexcept nogil

cdef struct PullJob:
    ChainEntry line             # READY: in the turn's list; HELD: in `waits_in`
    ChainEntry timer            # in a slot of the expiry wheel (HELD)
    ChainEntry peer             # in its connection's list (HELD, DEFERRED)
    int32_t state               # JobState
    JobAnswer answer            # what the turn calls when the job is READY
    OnJobEvent on_event              # called with each JobEvent; NULL for a pull
    void* service               # first argument of both
    int32_t timer_slot
    Connection* connection      # borrowed; compare connection_id with connection.id before use
    uint64_t connection_id
    int32_t opaque
    int32_t version             # of the client
    uint8_t serialize_type
    int32_t request_code
    int64_t arrived_ms          # monotonic
    bint held                   # it has been held at least once
    int64_t accounts_version    # TurnContext's, when the request was let in
    bint may_hold               # it asked for long polling and has not been held yet
    int32_t max_messages
    int64_t max_bytes           # maxMsgBytes, -1 when absent; counts if above pull_max_bytes
    int32_t queue_id
    Topic* topic                # counted as used (job_use_begin)
    ChainEntry** waits_in       # HELD: its queue's list; code that removes the list wakes it first
    DeliveryCounter* delivered  # counted as used; NULL: its group is not counted
    int64_t offset              # next wanted
    int64_t deadline_ms         # monotonic; when a held pull is answered with nothing
    int64_t last_physical       # log offset of the last message looked at; -1: none was
    int64_t broker_id           # the broker that its group must pull from,
    int64_t slow_broker_id      # and the one for consumers that are far behind
    int64_t next_offset         # READING: where to go on after what is being read
    int64_t hold_ms             # how long the request allows to be held
    TagFilter tags
    SqlFilter* sql              # one reference; NULL: by tags alone
    bint by_real_topic          # retry topic: a message must pass its real topic's filter
    bint tags_from_records      # READING: some queue entries have no tag code
    int64_t scanned             # queue entries looked at for this answer
    DiskFetch* fetch            # owned, from READING until the answer; NULL: nothing is read
    int32_t entry_reads         # how often entries were fetched from disk for this answer
    LogicPlace logic            # of a static topic: queue_id and offset above are physical


cdef inline void job_move(PullJob* job, JobState to, uint32_t allowed_from) noexcept nogil:
    """`allowed_from`: a bit for each JobState."""
    state_move(&job.state, to, allowed_from,
               b"a pull: free, new, ready, held, reading or deferred, ready again, free")


# From here until the job is freed, its topic and counter stay.
cdef inline void job_use_begin(PullJob* job) noexcept nogil:
    use_begin(&job.topic.use)
    if job.delivered != NULL:
        use_begin(&job.delivered.use)


cdef inline void job_use_end(PullJob* job) noexcept nogil:
    use_end(&job.topic.use)
    if job.delivered != NULL:
        use_end(&job.delivered.use)
