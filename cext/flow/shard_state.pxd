"""Everything one shard's reactor works on, in one place; the steps of a turn get it as argument.

    turn = poll -> (each frame: produce | pull | hand to control) -> write -> dispatch
           -> answer pulls -> acknowledge -> flush sockets -> timers

The files of cext/flow are the steps; `turn` puts them in order and
`shard_core` is the face that Python sees.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.base.latency cimport Latency
from cext.flow.append.ack_queue cimport Acks
from cext.flow.context.control_link cimport ControlLink
from cext.flow.context.options cimport TEXT_MAX, Options
from cext.flow.context.rpc_times cimport RpcTimes
from cext.flow.delay.delay_level cimport RedirectBuffers, Schedule
from cext.flow.delay.timer cimport Timers
from cext.flow.fetch.disk_fetch cimport FetchPool
from cext.flow.fetch.parked_requests cimport ParkedRequests
from cext.flow.pop.pop_table cimport Pops
from cext.flow.postponed_requests cimport Postponed
from cext.flow.request_reply.reply_table cimport ReplyTable
from cext.flow.tables.group_table cimport GroupTable
from cext.flow.tables.offset_table cimport OffsetTable
from cext.flow.tables.sql_filter cimport ExpressionTable
from cext.flow.tables.topic_table cimport Topic
from cext.flow.transaction.check_table cimport CheckTable
from cext.flow.transaction.open_halves cimport OpenHalves
from cext.memory.arena cimport SharedArena
from cext.memory.buffer_pool cimport BufferPool
from cext.memory.chain cimport ChainEntry
from cext.memory.name_map cimport NameMap
from cext.net.reactor cimport Reactor
from cext.store.commit_log cimport CommitLog
from cext.store.committer cimport Committer
from cext.store.consume_queue cimport UNIT_BYTES, Queue
from cext.store.disk_reader cimport DiskReader
from cext.store.flusher cimport Flusher
from cext.store.preparer cimport Preparer
from cext.store.queue_store cimport QueueStore
from cext.store.timer_keeper cimport TimerKeeper
from cext.wire.header_shapes cimport HeaderShapes
from cext.wire.message_id cimport UniqueKeyMaker

cdef enum:
    DISPATCH_MAX = 16384            # records appended between two write-outs
    POOL_DISPATCH_MAX = 1048576     # with a store pool: records appended and not committed yet
    TIMER_SLOTS = 1024              # of TIMER_TICK_MS each: 102 s
    TIMER_TICK_MS = 100
    SCAN_UNITS = 1024               # queue entries that a pull reads at once, at most
    SIZE_BUCKETS = 32
    BATCH_IDS_BYTES = 8388608       # room for the message ids of the largest batch
    REPORTS = 5                     # counters that the log hears of when they grow

cdef struct Dispatch:               # one appended record on its way to its consume queue
    Topic* topic
    Queue* queue
    int64_t physical_offset
    int64_t tags_code
    int32_t size

cdef struct Counters:
    uint64_t messages_in
    uint64_t bytes_in
    uint64_t messages_out
    uint64_t bytes_out
    uint64_t sends_refused
    uint64_t pulls
    uint64_t pulls_found
    uint64_t pulls_held
    uint64_t pulls_empty
    uint64_t pulls_from_disk
    uint64_t entries_skipped        # queue entries that did not pass a pull's filter
    uint64_t filter_failures        # SQL92 evaluations that failed, as RocketMQ's do
    uint64_t corrupt_records
    uint64_t control_requests
    uint64_t busy_replies
    uint64_t malformed_frames
    uint64_t turns
    uint64_t write_outs
    uint64_t sent_back              # by consumers, to come again
    uint64_t dead_letters           # sent back, or by clients to their retry topic, once too often
    uint64_t tail_full              # appends refused because the ring or store pool was full
    uint64_t sizes[SIZE_BUCKETS]    # records by the number of bits of their size
    int64_t tail_high               # most bytes ever between `written` and `appended`

cdef class ShardState:
    cdef SharedArena memory             # of everything below that is a pointer
    cdef Reactor net
    cdef CommitLog log
    cdef QueueStore queues
    cdef Preparer preparer
    cdef Flusher flusher
    cdef Committer committer            # None without a store pool
    cdef DiskReader readers
    cdef FetchPool fetches              # reads of the disk for requests
    cdef Options options
    cdef Counters counters
    cdef Latency append_latency         # from the poll that brought a message to its write
    cdef RpcTimes rpc                   # from the poll that brought a request to its answer
    cdef ControlLink link
    cdef NameMap topics
    cdef GroupTable groups
    cdef ExpressionTable expressions
    cdef OffsetTable offsets
    cdef Acks acks                      # who waits for which mark of the log
    cdef Dispatch* dispatches           # dispatch_max entries, in the order of the log
    cdef int32_t dispatch_max
    cdef int32_t dispatch_first         # not 0 only with a store pool
    cdef int32_t dispatch_count         # those from dispatch_first up to here wait for `written`
    cdef uint64_t appends_seen          # messages_in at the last write-out
    cdef int64_t write_us               # the longest write-out of this turn
    cdef int64_t stalled_ms             # of the turn before: what came meanwhile waited so long
    cdef BufferPool job_pool            # PullJob
    cdef ChainEntry* ready              # PullJobs to answer at the end of this turn
    cdef int64_t scan_cost_left         # how much the filters of this turn's pulls may still cost
    cdef uint8_t scan_units[SCAN_UNITS * UNIT_BYTES]    # scratch
    cdef ChainEntry** timer_slots       # TIMER_SLOTS lists of held pulls
    cdef int64_t timer_tick             # last tick that was run
    cdef int64_t held_count
    cdef int64_t now_ms                 # monotonic, of this turn
    cdef int64_t wall_ms                # of this turn; never goes back
    cdef uint32_t random                # xorshift state: queueId < 0, uniq keys
    cdef int32_t stopping               # set by another thread
    cdef bint poison_logged
    cdef char poison_remark[512]        # what disk_alerts.pyx made of the poison; empty: not yet
    cdef int32_t prepare_status_logged    # troubles that are in the log already (disk_alerts.pyx)
    cdef int32_t room_status_logged
    cdef uint64_t queue_failures_logged
    cdef bint queue_alert_logged
    cdef bint writable                  # control may stop writes (disk full)
    cdef uint8_t refuse_reason[TEXT_MAX]
    cdef uint32_t refuse_reason_bytes
    cdef UniqueKeyMaker key_maker
    cdef HeaderShapes shapes            # of request headers, to spare parsing
    cdef Schedule schedule              # delayed messages
    cdef Timers timers                  # timed messages
    cdef TimerKeeper wall_keeper        # None without them
    cdef TimerKeeper steady_keeper
    cdef OpenHalves halves              # transactions
    cdef ParkedRequests parked          # requests that wait for a record from the disk
    cdef bint backpressure              # connections that send are to be left unread
    cdef int64_t nearly_full_since_ms   # monotonic; 0: the log is not nearly full
    cdef Postponed postponed            # one-way requests to be tried again
    cdef Pops pops                      # consumers that pop
    cdef ReplyTable replies             # request-reply
    cdef CheckTable checks              # whom to ask about open transactions
    cdef RedirectBuffers redirect       # scratch for sends that are stored elsewhere first
    cdef uint8_t* batch_ids             # scratch for the message ids of a batch
    cdef int64_t batch_tags[DISPATCH_MAX]   # tag codes of the batch being stored
    cdef int64_t last_second            # of now_ms; once-a-second work
    cdef int32_t events_this_second     # log lines passed on; the rest is only counted
    cdef uint64_t events_dropped
    cdef uint64_t reported[REPORTS]     # counters as the log has heard of them (housekeeping.pyx)
