"""Turn context. See turn_context.pxd."""
cimport cython
from libc.stdint cimport uint8_t
from posix.unistd cimport getpid

from cext.base.clock cimport wall_ms
from cext.base.status cimport OK
from cext.flow.context.client_state cimport (
    UNREAD_BACKPRESSURE,
    UNREAD_CONTROL,
    UNREAD_PENDING,
    UNREAD_POSTPONED,
    UNREAD_SHARE,
)
from cext.flow.context.control_link cimport link_arena_bytes, link_close, link_open
from cext.flow.context.options cimport options_read
from cext.flow.context.property_scratch cimport PROPERTY_SCRATCH_BYTES
from cext.flow.context.role cimport (
    is_slave,
    is_writable,
    lease_is_over,
    role_open,
    set_is_short,
)
from cext.flow.context.service cimport no_memory, pool_numbers
from cext.memory.arena cimport Arena, arena_page_bytes, arena_take_pages
from cext.net.connection cimport UNREAD_UNSENT
from cext.net.reactor cimport reactor_arena_bytes

cdef enum:
    LINK_MESSAGES = 65536
    LINK_BYTES = 67108864           # bytes of requests that wait for the control thread


@cython.no_gc                       # in no reference cycle; a shard needs it whole at its end
cdef class TurnContext:
    cdef uint64_t arena_bytes(self, dict given) except? 0:
        # The reactor's part; it is taken when the shard opens its store.
        return (link_arena_bytes(LINK_MESSAGES, given["connections_max"])
                + 2 * arena_page_bytes(PROPERTY_SCRATCH_BYTES)
                + reactor_arena_bytes(given["frame_max_bytes"], given["connections_max"],
                                      given["jumbo_buffers"], given["reply_buffers"]))

    cdef int open(self, Arena* arena, dict given) except -1:
        if link_open(&self.link, arena, LINK_MESSAGES, LINK_BYTES,
                     given["connections_max"]) != OK:
            no_memory("the control link")
        self.scratch.before = <uint8_t*> arena_take_pages(arena, PROPERTY_SCRATCH_BYTES)
        self.scratch.after = <uint8_t*> arena_take_pages(arena, PROPERTY_SCRATCH_BYTES)
        if self.scratch.before == NULL or self.scratch.after == NULL:
            no_memory("the property scratch")
        role_open(&self.role)
        self.random = <uint32_t> (wall_ms() ^ getpid()) | 1
        return options_read(&self.options, given)

    cdef void close(self) noexcept:
        link_close(&self.link)

    cdef dict stats(self):
        cdef const Counters* x = &self.counters
        cdef const Arena* arena = &self.memory.arena
        return {
            "messages_in": x.messages_in,
            "bytes_in": x.bytes_in,
            "messages_out": x.messages_out,
            "bytes_out": x.bytes_out,
            "sends_refused": x.sends_refused,
            "pulls": x.pulls,
            "pulls_found": x.pulls_found,
            "pulls_held": x.pulls_held,
            "pulls_empty": x.pulls_empty,
            "pulls_from_disk": x.pulls_from_disk,
            "entries_skipped": x.entries_skipped,
            "filter_failures": x.filter_failures,
            "corrupt_records": x.corrupt_records,
            "control_requests": x.control_requests,
            "control_waiting": self.link.to_control.tail - self.link.to_control.head,
            "busy_replies": x.busy_replies,
            "malformed_frames": x.malformed_frames,
            "turns": x.turns,
            "write_outs": x.write_outs,
            "sent_back": x.sent_back,
            "dead_letters": x.dead_letters,
            "ring_full": x.tail_full,
            "writable": int(is_writable(&self.role)),
            "slave": int(is_slave(&self.role)),
            "in_sync_short": int(set_is_short(&self.role)),
            "lease_over": int(lease_is_over(&self.role)),
            **net_stats(self),
            "memory_bytes": arena.size,
            "memory_used": arena.used,
            "memory_refusals": arena.refusals,
            "memory_sealed": int(arena.sealed),
            "memory_locked": arena.locked,
            "memory_lock_error": arena.lock_error,
            "memory_node": arena.node,
            "memory_node_error": arena.bind_error,
        }

    cdef dict pools(self):
        return {
            "request": pool_numbers(&self.net.small_pool),
            "jumbo": pool_numbers(&self.net.jumbo_pool),
            "reply": pool_numbers(&self.net.reply_pool),
            "piece": pool_numbers(&self.net.piece_pool),
        }


cdef dict net_stats(TurnContext s):
    return {
        "busy_polls": s.net.busy_polls,
        "connections": s.net.connection_count,
        "connections_accepted": s.net.counters.accepted,
        "connections_refused": s.net.counters.refused_full,
        "accept_failures": s.net.counters.accept_failures,
        "connections_closed_idle": s.net.counters.closed_idle,
        "connections_closed_slow": s.net.counters.closed_slow,
        "connections_closed_deaf": s.net.counters.closed_deaf,
        "connections_displaced": s.net.counters.displaced,
        "connections_refused_address": s.net.counters.refused_address,
        "handshakes_refused_address": s.net.counters.refused_handshakes,
        "connections_refused_words": s.net.counters.refused_words,
        "half_frames": s.net.halves.size,
        "half_frame_bytes": s.net.halves.held_bytes,
        "received_bytes": s.net.counters.received_bytes,
        "sent_bytes": s.net.counters.sent_bytes,
        "socket_stalls": s.net.counters.stalls,
        "unread_unsent": s.net.unread_count(UNREAD_UNSENT),
        "unread_share": s.net.unread_count(UNREAD_SHARE),
        "unread_pending": s.net.unread_count(UNREAD_PENDING),
        "unread_postponed": s.net.unread_count(UNREAD_POSTPONED),
        "unread_backpressure": s.net.unread_count(UNREAD_BACKPRESSURE),
        "unread_control": s.net.unread_count(UNREAD_CONTROL),
    }
