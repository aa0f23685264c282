"""The memory of a shard. See shard_memory.pxd."""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from cext.base.status cimport OK
from cext.flow.append.ack_queue cimport MARKS, ack_queue_open, ack_queue_room
from cext.flow.append.appender cimport DISPATCH_MAX, POOL_DISPATCH_MAX, Dispatch
from cext.flow.context.control_link cimport link_close, link_open, link_room
from cext.flow.delay.delay_level cimport REDIRECT_BYTES
from cext.flow.fetch.disk_fetch cimport fetch_pool_room
from cext.flow.fetch.parked_requests cimport PARKED_MAX, parked_free
from cext.flow.pop.pop_table cimport pops_close, pops_open
from cext.flow.postponed_requests cimport postponed_free
from cext.flow.pull.pull_job cimport PullJob
from cext.flow.pull.pull_service cimport TIMER_SLOTS
from cext.flow.request_reply.reply_table cimport (
    reply_table_close,
    reply_table_open,
    reply_table_room,
)
from cext.flow.send.send_service cimport BATCH_IDS_BYTES
from cext.flow.tables.group_table cimport group_table_close, group_table_open
from cext.flow.tables.offset_table cimport offset_table_close, offset_table_open
from cext.flow.tables.sql_filter cimport expressions_close, expressions_open
from cext.flow.tables.topic_table cimport topics_close
from cext.flow.transaction.check_table cimport check_table_close, check_table_open
from cext.flow.transaction.open_halves cimport MOVES, OP_BYTES_MAX, WINDOW_BITS, HalfMove
from cext.memory.arena cimport (
    Arena,
    SharedArena,
    arena_lock,
    arena_room,
    arena_seal,
    arena_take_pages,
)
from cext.memory.buffer_pool cimport buffer_pool_close, buffer_pool_open, buffer_pool_room
from cext.memory.chain cimport ChainEntry
from cext.memory.name_map cimport name_map_open
from cext.memory.use_count cimport removed_list_close
from cext.net.reactor cimport reactor_room
from cext.store.consume_queue cimport chunk_pool_room
from cext.wire.header_shapes cimport header_shapes_open, header_shapes_room

cdef enum:
    ACKS_WAITING = 65536            # sends of one shard that wait for one mark of the log
    LINK_MESSAGES = 65536
    LINK_BYTES = 67108864           # bytes of requests that wait for the control thread


cdef uint64_t own_room(int32_t dispatch_max, uint32_t pulls_max, uint32_t fetches_max,
                       uint64_t connections_max) noexcept nogil:
    return (arena_room(dispatch_max * sizeof(Dispatch))
            + arena_room(TIMER_SLOTS * sizeof(ChainEntry*))
            + arena_room(BATCH_IDS_BYTES)
            + 2 * arena_room(REDIRECT_BYTES)
            + arena_room(WINDOW_BITS // 8)
            + arena_room(OP_BYTES_MAX)
            + arena_room(MOVES * sizeof(HalfMove))
            + reply_table_room()
            + MARKS * ack_queue_room(ACKS_WAITING)
            + header_shapes_room()
            + buffer_pool_room(sizeof(PullJob), pulls_max)
            + fetch_pool_room(fetches_max)
            + link_room(LINK_MESSAGES, connections_max))


cdef bint open_acks(ShardState s) noexcept nogil:
    cdef int32_t mark
    for mark in range(MARKS):
        if ack_queue_open(&s.append.acks.waiting[mark], &s.turn.memory.arena, ACKS_WAITING) != OK:
            return False
    return True


cdef int take_memory(ShardState s, dict given) except -1:
    cdef uint32_t pulls_max = given["pulls_max"], connections_max = given["connections_max"]
    cdef uint32_t fetches_max = given["jumbo_buffers"] + PARKED_MAX
    cdef Arena* arena
    s.append.dispatch_max = POOL_DISPATCH_MAX if given["pool_bytes"] else DISPATCH_MAX
    s.turn.memory = SharedArena(
        own_room(s.append.dispatch_max, pulls_max, fetches_max, connections_max)
        + chunk_pool_room(given["queue_chunks"])
        + reactor_room(given["frame_max_bytes"], connections_max, given["jumbo_buffers"],
                       given["reply_buffers"]),
        given["node"])
    arena = &s.turn.memory.arena
    s.append.dispatches = <Dispatch*> arena_take_pages(arena, s.append.dispatch_max
                                                       * sizeof(Dispatch))
    s.pull.timer_slots = <ChainEntry**> arena_take_pages(arena, TIMER_SLOTS * sizeof(ChainEntry*))
    s.send.batch_ids = <uint8_t*> arena_take_pages(arena, BATCH_IDS_BYTES)
    s.delay.redirect.before = <uint8_t*> arena_take_pages(arena, REDIRECT_BYTES)
    s.delay.redirect.after = <uint8_t*> arena_take_pages(arena, REDIRECT_BYTES)
    s.transaction.halves.ended = <uint64_t*> arena_take_pages(arena, WINDOW_BITS // 8)
    s.transaction.halves.ops = <uint8_t*> arena_take_pages(arena, OP_BYTES_MAX)
    s.transaction.halves.moves = <HalfMove*> arena_take_pages(arena, MOVES * sizeof(HalfMove))
    if (s.transaction.halves.ops == NULL or s.transaction.halves.ended == NULL
        or s.transaction.halves.moves == NULL
            or s.delay.redirect.after == NULL
            or s.delay.redirect.before == NULL or s.send.batch_ids == NULL or s.pull.timer_slots
        == NULL
            or s.append.dispatches == NULL
            or not open_acks(s)
            or reply_table_open(&s.reply.replies, arena) != OK
            or check_table_open(&s.transaction.checks) != OK
            or header_shapes_open(&s.shapes, arena) != OK
            or buffer_pool_open(&s.pull.job_pool, arena, sizeof(PullJob), pulls_max, 0) != OK
            or s.fetch.pool.open(arena, fetches_max) != OK
            or link_open(&s.turn.link, arena, LINK_MESSAGES, LINK_BYTES, connections_max) != OK
            or group_table_open(&s.tables.groups) != OK
            or expressions_open(&s.tables.expressions) != OK
            or offset_table_open(&s.tables.offsets) != OK
            or name_map_open(&s.tables.topics) != OK):
        raise MemoryError("no memory for the shard's tables")
    pops_open(&s.pop.pops, given)
    s.fetch.parked.given = -1
    return 0


cdef void seal_memory(ShardState s) noexcept nogil:
    # All but the jumbo buffers, which are given back to the system when they are not needed.
    arena_lock(&s.turn.memory.arena, <uint64_t> (s.turn.net.jumbo_pool.base
                                                 - s.turn.memory.arena.base))
    arena_seal(&s.turn.memory.arena)


cdef void free_memory(ShardState s) noexcept:
    group_table_close(&s.tables.groups)
    expressions_close(&s.tables.expressions)
    offset_table_close(&s.tables.offsets)
    topics_close(&s.tables.topics)
    pops_close(&s.pop.pops)
    removed_list_close(&s.tables.removed)
    reply_table_close(&s.reply.replies)
    check_table_close(&s.transaction.checks)
    buffer_pool_close(&s.pull.job_pool)
    postponed_free(&s.postponed)
    parked_free(&s.fetch.parked)
    buffer_pool_close(&s.fetch.pool.fetches)
    link_close(&s.turn.link)
