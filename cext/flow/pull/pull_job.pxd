"""Pull job: a pull on its way, from the request until its reply is queued.

    NEW        its request is being looked at
    READY      in the turn's list; answered at the end of the turn
    HELD       nothing to give: waits on its queue for a message, at most until `deadline_ms`
    READING    records are not in memory; a disk fetch reads them (cext/flow/fetch)
    DEFERRED   the connection has unsent output; goes on when it is drained

Everything a job needs is copied out of the request, so that the frame may be forgotten.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.base.state cimport state_move
from cext.flow.fetch.disk_fetch cimport DiskFetch
from cext.flow.tables.group_table cimport DeliveryCounter, TagFilter
from cext.flow.tables.queue_mapping cimport LogicPlace
from cext.flow.tables.sql_filter cimport SqlFilter
from cext.flow.tables.topic_table cimport Topic
from cext.memory.chain cimport ChainEntry
from cext.memory.use_count cimport UseCount, use_begin, use_end
from cext.net.connection cimport Connection
from cext.store.queues.consume_queue cimport Queue

cdef enum JobState:
    JOB_FREE = 0
    JOB_READY = 1
    JOB_HELD = 2
    JOB_READING = 3
    JOB_DEFERRED = 4
    JOB_NEW = 5

cdef enum PopKind:
    NO_POP = 0                  # an ordinary pull
    POP = 1
    NOTIFY = 2
    PEEK = 3

# What consumers of a group that pop from a topic share (pop_table.pxd); goes with either of them.
cdef struct PopPair:
    UseCount use                # by pops and check points (revive_ring.pxd)
    Topic* topic                # borrowed; NULL when the pair is removed
    PopPair* next_of_topic      # in topic.pop_waiting
    ChainEntry* first           # PullJobs that wait, oldest first
    int32_t waiting
    int32_t special             # of these, notifications and pops of one queue
    int32_t awake               # pops of all queues, woken and not answered yet
    bint beside                 # its check points' alone: pops have made enough (pop_table.pxd)
    int32_t order_slots         # length of `orders`
    void** orders               # OrderBlock of each queue (pop_order.pxd), or NULL
    int32_t flight_slots        # length of `flights`
    int64_t* flights            # of each queue (pop_inflight.pxd); owned
    uint32_t group_length
    uint8_t* group              # owned

cdef struct PopFields:          # of a job that is no pull
    int32_t kind                # PopKind
    PopPair* pair               # used
    Topic* topic                # the request's; job.topic is the one looked into
    int32_t queue_id            # the request's, -1: all
    int32_t max_messages        # the request's
    int32_t init_mode
    bint order
    bint woken                  # counted in pair.awake
    int64_t invisible_ms
    int64_t poll_end_ms         # monotonic; answered with nothing then
    uint32_t attempt_bytes
    uint8_t attempt[64]         # of the request, cut off

# Answers, holds or reads for a READY job; `service` is job.service.
ctypedef void (*JobAnswer)(void* service, PullJob* job) noexcept nogil

cdef struct PullJob:
    ChainEntry line             # READY: in the turn's list; HELD: in its queue's or pair's
    ChainEntry timer            # in a slot of the expiry wheel (HELD)
    ChainEntry peer             # in its connection's list (HELD, DEFERRED)
    int32_t state               # JobState
    JobAnswer answer            # what the turn calls when the job is READY
    void* service               # the pull or the pop service, for `answer`
    int32_t timer_slot
    Connection* connection      # borrowed; compare connection_id with connection.id before use
    uint64_t connection_id
    int32_t opaque
    int32_t version             # of the requester
    uint8_t serialize_type
    int32_t request_code
    int64_t arrived_ms          # monotonic
    bint held                   # it was, at least once
    int64_t accounts_version    # of TurnContext, when the request was let in
    bint may_hold               # the request asked for long polling and was not held yet
    int32_t max_messages
    int64_t max_bytes           # maxMsgBytes, -1 when absent; counts only when it asks for more
    int32_t queue_id
    Topic* topic                # used (job_use_begin)
    Queue* queue                # HELD: where it waits; whoever removes the queue wakes it first
    DeliveryCounter* delivered  # used; NULL: its group is not counted
    int64_t offset              # next wanted
    int64_t deadline_ms         # monotonic; when a held pull is answered with nothing
    int64_t last_physical       # where the last message looked at is in the log; -1: none was
    int64_t broker_id           # of its group: where it is to pull,
    int64_t slow_broker_id      # and where when it is far behind
    int64_t next_offset         # READING: where to go on after what is being read
    int64_t hold_ms             # how long the request allows to be held
    TagFilter tags
    SqlFilter* sql              # one reference; NULL: by tags alone
    bint by_real_topic          # a retry topic whose messages are judged by their topic's filter
    bint tags_from_records      # READING: some queue entries do not hold the tag's code
    int64_t scanned             # queue entries looked at for this answer
    DiskFetch* fetch            # owned: READING, and until the answer; NULL: nothing is read
    int32_t entry_reads         # times queue entries were fetched from disk for this answer
    LogicPlace logic            # of a static topic: queue_id and offset above are physical
    PopFields pop               # pop.kind NO_POP: an ordinary pull


cdef inline void job_move(PullJob* job, JobState to, uint32_t allowed_from) noexcept nogil:
    """`allowed_from`: a bit for each JobState."""
    state_move(&job.state, to, allowed_from,
               b"a pull: free, new, ready, held, reading or deferred, ready again, free")


# From where the job has topic, counter and kind until it is freed: what they point to stays.
cdef inline void job_use_begin(PullJob* job) noexcept nogil:
    use_begin(&job.topic.use)
    if job.delivered != NULL:
        use_begin(&job.delivered.use)
    if job.pop.kind != NO_POP:
        use_begin(&job.pop.pair.use)


cdef inline void job_use_end(PullJob* job) noexcept nogil:
    use_end(&job.topic.use)
    if job.delivered != NULL:
        use_end(&job.delivered.use)
    if job.pop.kind != NO_POP:
        use_end(&job.pop.pair.use)
