"""Appender: the end of the log and what waits for it, from a message to its acknowledgement.

    message_append -> the log's write buffer and `dispatches`
    dispatch       -> consume queues, up to `written`
    acknowledgement -> answers that wait in `acks` for their mark

Reactor only; the threads of the store have their own sides (cext/store/log/log_link.pxd).
"""
from libc.stdint cimport int32_t, int64_t, uint64_t

from cext.base.latency cimport Latency
from cext.flow.append.ack_queue cimport Acks
from cext.flow.append.disk_alerts cimport DiskAlerts
from cext.flow.append.log_room cimport Backpressure, TurnRoom
from cext.flow.context.service cimport Service
from cext.flow.context.turn_context cimport TurnContext
from cext.flow.tables.tables cimport Tables
from cext.flow.tables.topic_table cimport Topic
from cext.store.log.commit_log cimport CommitLog
from cext.store.log.committer cimport Committer
from cext.store.log.flusher cimport Flusher
from cext.store.log.preparer cimport Preparer
from cext.store.log.record cimport RecordView
from cext.store.queues.consume_queue cimport Queue
from cext.store.queues.queue_store cimport QueueStore
from cext.wire.message_id cimport UniqueKeyMaker

cdef enum:
    DISPATCH_MAX = 16384            # records appended in one turn, and so in one batch
    POOL_DISPATCH_MAX = 1048576     # with a store pool: records appended and not committed yet

cdef struct Dispatch:               # one appended record on its way to its consume queue
    Topic* topic
    Queue* queue
    int64_t physical_offset
    int64_t tags_code
    int32_t size

# What dispatch_hook.pxd sets: `owner` is whatever it was given with the function.
ctypedef void (*OnArrival)(void* owner, const Dispatch* d) noexcept nogil
ctypedef void (*OnQueueRemoved)(void* owner, Queue* queue) noexcept nogil
ctypedef int64_t (*OnReplayed)(void* owner, const RecordView* view) noexcept nogil

cdef class Appender(Service):
    cdef TurnContext turn
    cdef Tables tables
    cdef CommitLog log
    cdef QueueStore queues
    cdef Preparer preparer
    cdef Flusher flusher
    cdef Committer committer            # None without a store pool
    cdef UniqueKeyMaker key_maker
    cdef Acks acks                      # answers that wait for a mark of the log
    cdef Dispatch* dispatches           # dispatch_max entries, in the order of the log
    cdef int32_t dispatch_max
    cdef int32_t dispatch_first         # above 0 only with a store pool, or with full queues
    cdef int32_t dispatch_count         # those from dispatch_first up to here wait for `written`
    cdef int queue_status               # why the first of them got no queue entry; or OK
    cdef TurnRoom room                  # how far this turn may go (turn_room.pxd)
    cdef OnArrival on_arrival
    cdef OnQueueRemoved on_queue_removed
    cdef void* arrival_owner
    cdef OnReplayed on_replayed
    cdef void* replay_owner
    cdef Latency append_latency         # from the poll that brought a message to its write
    cdef uint64_t appends_seen          # messages_in at the last write-out
    cdef int64_t write_us               # the longest write-out of this turn (message_send.pxd)
    cdef Backpressure backpressure      # whether connections that send are left unread
    cdef DiskAlerts alerts              # what is logged already of a disk in trouble
