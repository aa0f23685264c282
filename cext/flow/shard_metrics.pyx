"""Shard metrics. See shard_metrics.pxd."""
from libc.stdint cimport int64_t

from cext.base.atomics cimport load_acquire_i64
from cext.base.histogram_buckets cimport HISTOGRAM_BUCKETS_MAX
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
        "pops": s.pops.pops,
        "pop_messages": s.pops.popped,
        "pop_acks": s.pops.acks,
        "pop_changes": s.pops.changes,
        "pop_check_points": s.pops.check_points,
        "pop_revived": s.pops.revived,
        "pop_unreadable": s.pops.unreadable,
        "pop_acks_late": s.pops.acks_late,
        "pop_hurried": s.pops.hurried,
    }


cdef dict client_counters(ShardState s):
    return {
        "replies_pushed": s.replies.pushed,
        "replies_failed": s.replies.failed,
        "postponed": s.postponed.count,
        "postponed_dropped": s.postponed.dropped,
        "records_asked": s.parked.records,
        "unread_unsent": s.net.unread_count(UNREAD_UNSENT),
        "unread_share": s.net.unread_count(UNREAD_SHARE),
        "unread_away": s.net.unread_count(UNREAD_PENDING),
        "unread_postponed": s.net.unread_count(UNREAD_POSTPONED),
        "unread_room": s.net.unread_count(UNREAD_BACKPRESSURE),
        "unread_control": s.net.unread_count(UNREAD_CONTROL),
    }


cdef dict net_counters(ShardState s):
    return {
        "connections": s.net.connection_count,
        "connections_accepted": s.net.counters.accepted,
        "connections_refused": s.net.counters.refused_full,
        "connections_closed_idle": s.net.counters.closed_idle,
        "connections_closed_slow": s.net.counters.closed_slow,
        "connections_closed_deaf": s.net.counters.closed_deaf,
        "connections_displaced": s.net.counters.displaced,
        "half_frames": s.net.halves.size,
        "half_frame_bytes": s.net.halves.held_bytes,
        "received_bytes": s.net.counters.received_bytes,
        "sent_bytes": s.net.counters.sent_bytes,
        "socket_stalls": s.net.counters.stalls,
    }


cdef dict counters_of(ShardState s):
    return {
        "messages_in": s.counters.messages_in,
        "bytes_in": s.counters.bytes_in,
        "messages_out": s.counters.messages_out,
        "bytes_out": s.counters.bytes_out,
        "sends_refused": s.counters.sends_refused,
        "pulls": s.counters.pulls,
        "pulls_found": s.counters.pulls_found,
        "pulls_held": s.counters.pulls_held,
        "pulls_empty": s.counters.pulls_empty,
        "pulls_from_disk": s.counters.pulls_from_disk,
        "fetches_under_way": s.fetches.under_way,
        "pulls_waiting": s.held_count,
        "entries_skipped": s.counters.entries_skipped,
        "filter_failures": s.counters.filter_failures,
        "corrupt_records": s.counters.corrupt_records,
        "control_requests": s.counters.control_requests,
        "control_waiting": s.link.to_control.tail - s.link.to_control.head,
        "busy_replies": s.counters.busy_replies,
        "malformed_frames": s.counters.malformed_frames,
        "turns": s.counters.turns,
        "write_outs": s.counters.write_outs,
        "sent_back": s.counters.sent_back,
        "dead_letters": s.counters.dead_letters,
        "delayed_delivered": s.schedule.delivered,
        "transactions_committed": s.halves.committed,
        "transactions_rolled_back": s.halves.rolled_back,
        "transactions_repeated": s.halves.repeated,
        "transactions_moved": s.halves.moved,
        "transactions_asked": s.checks.asked,
        "transactions_unasked": s.checks.unasked,
        "half_messages_first": s.halves.first,
        "half_messages_ended_out_of_order": s.halves.ended_ahead,
        "delayed_fetches": s.schedule.readahead.fetches,
        "delayed_dropped": s.schedule.dropped,
        **net_counters(s),
        "log_first": s.log.min_offset(),
        "log_appended": s.log.marks.appended,
        "log_written": load_acquire_i64(&s.log.marks.written),
        "log_durable": load_acquire_i64(&s.log.marks.durable),
        "log_dispatched": s.log.marks.dispatched,
        "log_ring_bytes": s.log.ring.size,
        "log_writes": s.log.writes,
        "log_rolls": s.log.rolls,
        "log_pages_lost": segment_map_pages_lost(),
        "ring_locked": int(s.log.ring_locked),
        "ring_full": s.counters.tail_full,
        "log_pooled": int(s.log.pooled),
        "log_committable": s.log.link.committable,
        "log_commits": s.committer.state.commits if s.log.pooled else 0,
        "log_syncs": s.flusher.state.syncs,
        "poisoned": int(s.log.poisoned()),
        "writable": int(s.writable),
        "topics": s.topics.live,
        "queue_writes": s.queues.counts.jobs_written,
        "queue_sync_writes": s.queues.counts.sync_writes,
        "queue_write_failures": s.queues.counts.write_failures,
        **client_counters(s),
        **pop_counters(s),
        **timer_counters(s),
        **memory_of(s),
    }


cdef tuple pool_numbers(const BufferPool* pool):
    return pool.buffer_bytes, pool.count, pool.in_use, pool.high_water, pool.refusals


cdef inline int64_t in_pages(int64_t bytes) noexcept nogil:
    return (bytes + PAGE - 1) // PAGE


cdef dict pools_of(ShardState s):
    cdef dict out = {
        "request": pool_numbers(&s.net.small_pool),
        "jumbo": pool_numbers(&s.net.jumbo_pool),
        "reply": pool_numbers(&s.net.reply_pool),
        "piece": pool_numbers(&s.net.piece_pool),
        "pull": pool_numbers(&s.job_pool),
        "fetch": pool_numbers(&s.fetches.fetches),
    }
    chunks = &s.queues.pool
    # Chunks go back to a list and come from it first, so `touched` is the most ever in use.
    out["queue"] = (1024, chunks.capacity, chunks.touched - chunks.free_count, chunks.touched,
                    chunks.refusals)
    if s.log.pooled:
        out["store"] = (PAGE, s.log.ring.size // PAGE, in_pages(s.log.marks.appended
                        - load_acquire_i64(&s.log.marks.written)),
                        in_pages(s.counters.tail_high), s.counters.tail_full)
    return out


cdef dict memory_of(ShardState s):
    cdef const Arena* arena = &s.memory.arena
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
    cdef dict out = {"append": latency_numbers(&s.append_latency),
                     "flush": latency_numbers(&s.flusher.state.latency)}
    if s.log.pooled:
        out["commit"] = latency_numbers(&s.committer.state.latency)
    return out


cdef dict steps_of(ShardState s):
    cdef int i
    return {"finish": ([s.halves.finish.counts[i] for i in range(HISTOGRAM_BUCKETS_MAX)],
                       s.halves.finish.sum)}
