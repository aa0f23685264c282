"""Shard metrics. See shard_metrics.pxd."""
from libc.stdint cimport int64_t

from cext.base.atomics cimport load_acquire_i64
from cext.base.histogram_buckets cimport HISTOGRAM_BUCKETS_MAX, HistogramBuckets
from cext.base.latency cimport LATENCY_BUCKETS, Latency
from cext.flow.context.client_state cimport (
    UNREAD_BACKPRESSURE,
    UNREAD_CONTROL,
    UNREAD_PENDING,
    UNREAD_POSTPONED,
    UNREAD_SHARE,
)
from cext.flow.delay.timer_open cimport timer_counters
from cext.memory.arena cimport Arena
from cext.memory.buffer_pool cimport BufferPool
from cext.net.connection cimport UNREAD_UNSENT
from cext.store.segment_map cimport segment_map_pages_lost

cdef enum:
    PAGE = 4096                     # unit of the store pool's figures


cdef dict pop_counters(ShardState s):
    return {
        "pops": s.pop.pops.pops,
        "pop_pairs": s.pop.pops.pairs.live,
        "pop_messages": s.pop.pops.popped,
        "pop_acks": s.pop.pops.acks,
        "pop_changes": s.pop.pops.changes,
        "pop_check_points": s.pop.pops.check_points,
        "pop_revived": s.pop.pops.revived,
        "pop_unreadable": s.pop.pops.unreadable,
        "pop_acks_late": s.pop.pops.acks_late,
        "pop_hurried": s.pop.pops.hurried,
    }


cdef dict client_counters(ShardState s):
    return {
        "replies_pushed": s.reply.replies.pushed,
        "replies_failed": s.reply.replies.failed,
        "postponed": s.postponed.count,
        "postponed_dropped": s.postponed.dropped,
        "records_asked": s.fetch.parked.records,
        "unread_unsent": s.turn.net.unread_count(UNREAD_UNSENT),
        "unread_share": s.turn.net.unread_count(UNREAD_SHARE),
        "unread_away": s.turn.net.unread_count(UNREAD_PENDING),
        "unread_postponed": s.turn.net.unread_count(UNREAD_POSTPONED),
        "unread_room": s.turn.net.unread_count(UNREAD_BACKPRESSURE),
        "unread_control": s.turn.net.unread_count(UNREAD_CONTROL),
    }


cdef dict net_counters(ShardState s):
    return {
        "connections": s.turn.net.connection_count,
        "connections_accepted": s.turn.net.counters.accepted,
        "connections_refused": s.turn.net.counters.refused_full,
        "connections_closed_idle": s.turn.net.counters.closed_idle,
        "connections_closed_slow": s.turn.net.counters.closed_slow,
        "connections_closed_deaf": s.turn.net.counters.closed_deaf,
        "connections_displaced": s.turn.net.counters.displaced,
        "half_frames": s.turn.net.halves.size,
        "half_frame_bytes": s.turn.net.halves.held_bytes,
        "received_bytes": s.turn.net.counters.received_bytes,
        "sent_bytes": s.turn.net.counters.sent_bytes,
        "socket_stalls": s.turn.net.counters.stalls,
    }


cdef dict counters_of(ShardState s):
    return {
        "messages_in": s.turn.counters.messages_in,
        "bytes_in": s.turn.counters.bytes_in,
        "messages_out": s.turn.counters.messages_out,
        "bytes_out": s.turn.counters.bytes_out,
        "sends_refused": s.turn.counters.sends_refused,
        "pulls": s.turn.counters.pulls,
        "pulls_found": s.turn.counters.pulls_found,
        "pulls_held": s.turn.counters.pulls_held,
        "pulls_empty": s.turn.counters.pulls_empty,
        "pulls_from_disk": s.turn.counters.pulls_from_disk,
        "fetches_under_way": s.fetch.pool.under_way,
        "pulls_waiting": s.pull.held_count,
        "entries_skipped": s.turn.counters.entries_skipped,
        "filter_failures": s.turn.counters.filter_failures,
        "corrupt_records": s.turn.counters.corrupt_records,
        "control_requests": s.turn.counters.control_requests,
        "control_waiting": s.turn.link.to_control.tail - s.turn.link.to_control.head,
        "busy_replies": s.turn.counters.busy_replies,
        "malformed_frames": s.turn.counters.malformed_frames,
        "turns": s.turn.counters.turns,
        "write_outs": s.turn.counters.write_outs,
        "sent_back": s.turn.counters.sent_back,
        "dead_letters": s.turn.counters.dead_letters,
        "delayed_delivered": s.delay.schedule.delivered,
        "transactions_committed": s.transaction.halves.committed,
        "transactions_rolled_back": s.transaction.halves.rolled_back,
        "transactions_repeated": s.transaction.halves.repeated,
        "transactions_moved": s.transaction.halves.moved,
        "transactions_asked": s.transaction.checks.asked,
        "transactions_unasked": s.transaction.checks.unasked,
        "half_messages_first": s.transaction.halves.first,
        "half_messages_ended_out_of_order": s.transaction.halves.ended_ahead,
        "delayed_fetches": s.delay.schedule.readahead.fetches,
        "delayed_dropped": s.delay.schedule.dropped,
        **net_counters(s),
        "log_first": s.append.log.min_offset(),
        "log_appended": s.append.log.marks.appended,
        "log_written": load_acquire_i64(&s.append.log.marks.written),
        "log_durable": load_acquire_i64(&s.append.log.marks.durable),
        "log_dispatched": s.append.log.marks.dispatched,
        "log_ring_bytes": s.append.log.ring.size,
        "log_writes": s.append.log.writes,
        "log_rolls": s.append.log.rolls,
        "log_pages_lost": segment_map_pages_lost(),
        "ring_locked": int(s.append.log.ring_locked),
        "ring_full": s.turn.counters.tail_full,
        "log_pooled": int(s.append.log.pooled),
        "log_committable": s.append.log.link.committable,
        "log_commits": s.append.committer.state.commits if s.append.log.pooled else 0,
        "log_syncs": s.append.flusher.state.syncs,
        "poisoned": int(s.append.log.poisoned()),
        "writable": int(s.turn.writable),
        "follower": int(s.turn.follower),
        "topics": s.tables.topics.live,
        "removed_waiting": s.tables.removed.waiting,
        "removed_freed": s.tables.removed.freed,
        "queue_writes": s.append.queues.counts.jobs_written,
        "queue_sync_writes": s.append.queues.counts.sync_writes,
        "queue_write_failures": s.append.queues.counts.write_failures,
        **client_counters(s),
        **pop_counters(s),
        **timer_counters(s.delay),
        **memory_of(s),
    }


cdef tuple pool_numbers(const BufferPool* pool):
    return pool.buffer_bytes, pool.count, pool.in_use, pool.high_water, pool.refusals


cdef inline int64_t in_pages(int64_t bytes) noexcept nogil:
    return (bytes + PAGE - 1) // PAGE


cdef dict pools_of(ShardState s):
    cdef dict out = {
        "request": pool_numbers(&s.turn.net.small_pool),
        "jumbo": pool_numbers(&s.turn.net.jumbo_pool),
        "reply": pool_numbers(&s.turn.net.reply_pool),
        "piece": pool_numbers(&s.turn.net.piece_pool),
        "pull": pool_numbers(&s.pull.job_pool),
        "fetch": pool_numbers(&s.fetch.pool.fetches),
    }
    chunks = &s.append.queues.pool
    # Chunks go back to a list and come from it first, so `touched` is the most ever in use.
    out["queue"] = (1024, chunks.capacity, chunks.touched - chunks.free_count, chunks.touched,
                    chunks.refusals)
    if s.append.log.pooled:
        out["store"] = (PAGE, s.append.log.ring.size // PAGE, in_pages(s.append.log.marks.appended
                        - load_acquire_i64(&s.append.log.marks.written)),
                        in_pages(s.turn.counters.tail_high), s.turn.counters.tail_full)
    return out


cdef dict memory_of(ShardState s):
    cdef const Arena* arena = &s.turn.memory.arena
    return {
        "memory_bytes": arena.size,
        "memory_used": arena.used,
        "memory_refusals": arena.refusals,
        "memory_sealed": int(arena.sealed),
        "memory_locked": arena.locked,
        "memory_lock_error": arena.lock_error,
        "memory_node": arena.node,
        "memory_node_error": arena.bind_error,
    }


cdef tuple latency_numbers(const Latency* latency):
    cdef int i
    return [latency.counts[i] for i in range(LATENCY_BUCKETS)], latency.sum_us


cdef dict latencies_of(ShardState s):
    cdef dict out = {"append": latency_numbers(&s.append.append_latency),
                     "flush": latency_numbers(&s.append.flusher.state.latency)}
    if s.append.log.pooled:
        out["commit"] = latency_numbers(&s.append.committer.state.latency)
    return out


cdef dict steps_of(ShardState s):
    cdef int i
    cdef HistogramBuckets* finish = &s.transaction.halves.finish
    return {"finish": ([finish.counts[i] for i in range(HISTOGRAM_BUCKETS_MAX)], finish.sum)}
