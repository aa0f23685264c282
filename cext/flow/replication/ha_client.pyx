"""HA client. See ha_client.pxd."""
from libc.stdint cimport INT64_MAX, int32_t, uint32_t
from libc.stdlib cimport malloc
from libc.string cimport memcpy, memset

from cext.base.byteorder cimport load_u32
from cext.base.check cimport check
from cext.base.status cimport (
    NO_SPACE,
    NOT_FOUND,
    NOT_READY,
    OK,
    POISONED,
    RING_FULL,
    TOO_LARGE,
)
from cext.flow.append.log_copy cimport copy_log
from cext.flow.append.log_marks cimport visible_limit, visible_raise
from cext.flow.context.client_state cimport UNREAD_LOG
from cext.flow.context.control_link cimport CLOSED_CONNECTION, link_push
from cext.flow.context.role cimport (
    has_master,
    is_slave,
    is_unconfirmed,
    role_confirm,
    role_stream_began,
    role_stream_ended,
)
from cext.flow.context.step cimport NO_WAIT, NextWait, RunStep
from cext.flow.replication.ha_epochs cimport last_epoch
from cext.flow.replication.ha_service cimport (
    HA_CLOSED,
    HA_CORRUPT,
    HA_ELSEWHERE,
    HA_MALFORMED,
    HA_NEW_EPOCH,
    HA_NO_FAILURE,
    HA_NO_ROOM,
    HA_POISONED,
    HA_TOO_LARGE,
    UNKNOWN,
    HAClient,
)
from cext.flow.replication.ha_socket cimport add_replica, close_replica
from cext.net.connection cimport SCRATCH_BYTES
from cext.net.socket_api cimport sockaddr_storage
from cext.store.log.record cimport AT_MAGIC, MAGIC_BLANK
from cext.wire.ha_stream cimport (
    HA_BODY_BYTES_MAX,
    HAHead,
    ha_head,
    ha_head_bytes,
    ha_report_bytes,
    write_ha_report,
)

cdef enum:
    RECORD_HEAD_BYTES = 8           # size and magic: as much as a BLANK needs
    ROOM_MS = 1                     # between two looks for room in the log


cdef int64_t fail(HAService s, int32_t failure) noexcept nogil:
    s.master.failure = failure
    s.master.failure_offset = s.append.log.marks.appended
    return -1


cdef int32_t failure_of(int status) noexcept nogil:
    if status == NO_SPACE:
        return HA_NO_ROOM
    if status == POISONED:
        return HA_POISONED
    if status == TOO_LARGE:
        return HA_TOO_LARGE
    return HA_ELSEWHERE if status == NOT_FOUND else HA_CORRUPT


# ------------------------------------------------------------------- bytes into the log

cdef int append_all(HAService s, const uint8_t* bytes, uint32_t count,
                    uint32_t* taken) noexcept nogil:
    """Appends at the log's end. The filler behind a BLANK is part of the stream."""
    cdef int32_t problem = 0
    return copy_log(s.append, s.append.log.marks.appended, bytes, count, taken, &problem)


cdef uint32_t wanted_of(const HAClient* m) noexcept nogil:
    """How many bytes `partial` needs before it is worth a try."""
    if m.partial_bytes < RECORD_HEAD_BYTES or load_u32(m.partial + AT_MAGIC) == MAGIC_BLANK:
        return RECORD_HEAD_BYTES
    return load_u32(m.partial)


cdef int take_partial(HAService s, const uint8_t* bytes, uint32_t count,
                      uint32_t* taken) noexcept nogil:
    """Takes more of a record that has begun. NOT_READY: none of it was appended."""
    cdef HAClient* m = &s.master
    cdef uint32_t before = m.partial_bytes
    cdef uint32_t wanted = wanted_of(m)
    cdef uint32_t more = min(count, wanted - before) if wanted > before else 0
    cdef uint32_t appended = 0
    cdef int status = OK
    memcpy(m.partial + before, bytes, more)
    m.partial_bytes = before + more
    taken[0] = more
    if m.partial_bytes < wanted:
        return OK
    status = append_all(s, m.partial, m.partial_bytes, &appended)
    if status == OK and appended > 0:
        m.partial_bytes = 0
    elif status == NOT_READY or status == RING_FULL:
        m.partial_bytes = before
        taken[0] = 0
        return NOT_READY
    return status


cdef int take_body(HAService s, const uint8_t* bytes, uint32_t count,
                   uint32_t* taken) noexcept nogil:
    """Takes bytes that belong at stream_offset. OK, NOT_READY (the log has no room for the rest),
    or what is wrong with them."""
    cdef HAClient* m = &s.master
    cdef int64_t filler
    cdef uint32_t part = 0
    cdef int status = OK
    taken[0] = 0
    while taken[0] < count and status == OK:
        filler = s.append.log.marks.appended - m.stream_offset
        if filler > 0 and m.partial_bytes == 0:
            part = <uint32_t> min(filler, <int64_t> (count - taken[0]))
        elif m.partial_bytes > 0:
            status = take_partial(s, bytes + taken[0], count - taken[0], &part)
        else:
            status = append_all(s, bytes + taken[0], count - taken[0], &part)
            if status == OK and part == 0:          # the beginning of a record
                part = min(count - taken[0], <uint32_t> s.append.log.max_record_bytes)
                memcpy(m.partial, bytes + taken[0], part)
                m.partial_bytes = part
            elif status == RING_FULL:
                status = NOT_READY
        taken[0] += part
        m.stream_offset += part
        s.bytes_taken += part
    return status


# ------------------------------------------------------------------- frames

cdef int begin_frame(HAService s, HAHead head) noexcept nogil:
    """OK, or an HAFailure."""
    cdef HAClient* m = &s.master
    if (head.count < 0 or head.count > HA_BODY_BYTES_MAX or head.offset < 0
            or head.offset > INT64_MAX - head.count or head.confirmed < 0 or head.epoch < 0):
        return HA_MALFORMED
    m.confirmed = max(m.confirmed, head.confirmed)
    if head.count == 0:
        return HA_NO_FAILURE
    # The control thread writes an epoch down before anything of that epoch is taken.
    if (s.auto_switch and head.epoch > last_epoch(&s.epochs)
            and head.offset + head.count > head.epoch_start):
        return HA_NEW_EPOCH
    if m.stream_offset == UNKNOWN:
        m.stream_offset = s.append.log.marks.appended
    if head.offset != m.stream_offset:
        return HA_ELSEWHERE
    m.body_left = head.count
    return HA_NO_FAILURE


cdef int64_t take_frames(HAService s, const uint8_t* bytes, uint64_t available,
                         uint64_t* needed) noexcept nogil:
    """The number of bytes used, which is less than given also when the log has no room. -1: the
    stream has failed."""
    cdef HAClient* m = &s.master
    cdef uint64_t used = 0
    cdef uint32_t head_bytes = ha_head_bytes(s.auto_switch)
    cdef uint32_t count, part = 0
    cdef int status
    needed[0] = 0
    while used < available:
        if m.body_left == 0:
            if available - used < head_bytes:
                needed[0] = head_bytes
                break
            status = begin_frame(s, ha_head(bytes + used, s.auto_switch))
            if status != HA_NO_FAILURE:
                return fail(s, status)
            used += head_bytes
            continue
        count = <uint32_t> min(<uint64_t> m.body_left, available - used)
        status = take_body(s, bytes + used, count, &part)
        used += part
        m.body_left -= <int32_t> part
        if status == NOT_READY:
            break
        if status != OK:
            return fail(s, failure_of(status))
    return <int64_t> used


cdef void check_role(HAService s) noexcept nogil:
    """A core's stream ends before it becomes master: as master it takes nothing more of its old
    master's log, and acknowledges none of it."""
    check(has_master(&s.turn.role), b"the master's stream: its core follows", s.turn.role.state,
          s.turn.role.facts)


cdef bint may_go_on(HAService s) noexcept nogil:
    if s.master.connection == NULL:
        return False
    check_role(s)
    return not s.master.connection.closing


cdef int64_t take_log(HAService s, Connection* c, const uint8_t* bytes, uint64_t available,
                      uint64_t* needed) noexcept nogil:
    cdef HAClient* m = &s.master
    cdef int64_t used
    if c != m.connection:
        return -1
    check_role(s)
    if m.stash_bytes > 0:                   # the socket broke: what comes belongs after the stash
        return fail(s, HA_CLOSED)
    m.heard_ms = s.turn.now_ms
    used = take_frames(s, bytes, available, needed)
    if used < 0 or <uint64_t> used == available or needed[0] > 0:
        return used
    check(available - <uint64_t> used <= SCRATCH_BYTES,
          b"the master's stream: what has no room yet fits its place", available, used)
    memcpy(m.stash, bytes + used, available - <uint64_t> used)
    m.stash_first = 0
    m.stash_bytes = <uint32_t> (available - <uint64_t> used)
    s.turn.net.stop_reading(c, UNREAD_LOG)
    return <int64_t> available


cdef void take_stash(HAService s) noexcept nogil:
    cdef HAClient* m = &s.master
    cdef uint64_t needed = 0
    cdef int64_t used
    if m.stash_bytes == 0 or not may_go_on(s):
        return
    m.heard_ms = s.turn.now_ms              # the silence is this core's, which has not read
    used = take_frames(s, m.stash + m.stash_first, m.stash_bytes, &needed)
    if used < 0:
        s.turn.net.close_connection(m.connection)
        return
    m.stash_first += <uint32_t> used
    m.stash_bytes -= <uint32_t> used
    if needed == 0 and m.stash_bytes > 0:
        return
    # The beginning of a frame at the stash's end goes before what is received next.
    if m.stash_bytes > 0 and s.turn.net.keep_rest(m.connection, m.stash + m.stash_first,
                                                  m.stash_bytes, needed) != OK:
        s.turn.net.close_connection(m.connection)
        return
    m.stash_bytes = 0
    s.turn.net.go_on_reading(m.connection, UNREAD_LOG)


# ------------------------------------------------------------------- the connection

cdef bint take_memory(HAService s) noexcept nogil:
    """Taken once, on first use: a core that never follows takes none."""
    cdef HAClient* m = &s.master
    cdef int64_t record_bytes = s.append.log.max_record_bytes
    if m.partial == NULL:
        m.partial = <uint8_t*> malloc(record_bytes + SCRATCH_BYTES)
        m.stash = m.partial + record_bytes if m.partial != NULL else NULL
    return m.partial != NULL


cdef Connection* follow_master(HAService s, int fd, SSL* ssl, bint whole) noexcept nogil:
    cdef HAClient* m = &s.master
    cdef sockaddr_storage nobody
    leave_master(s)
    memset(&nobody, 0, sizeof(nobody))
    if not is_slave(&s.turn.role) or not take_memory(s) or s.turn.net.is_full():
        close_replica(fd, ssl)
        return NULL
    m.connection = add_replica(s, fd, ssl, &nobody, &s.master_protocol)
    if m.connection == NULL:
        return NULL
    m.connection.frames_in = 1
    role_stream_began(&s.turn.role)
    m.stream_offset = UNKNOWN
    m.reported = UNKNOWN                    # so that the master is told at once
    m.body_left = 0
    m.partial_bytes = m.stash_bytes = m.stash_first = 0
    m.heard_ms = s.turn.now_ms
    m.failure = HA_NO_FAILURE
    m.confirmed = 0
    m.least_report = 0
    if whole and s.append.log.marks.appended == 0:
        m.least_report = m.stream_offset = m.partial_bytes = 1
        m.partial[0] = 0
    return m.connection


cdef void leave_master(HAService s) noexcept nogil:
    if s.master.connection != NULL:
        s.turn.net.close_connection(s.master.connection)


cdef void master_closed(HAService s, Connection* c) noexcept nogil:
    if s.master.connection != c:
        return
    s.master.connection = NULL
    role_stream_ended(&s.turn.role)
    if s.master.failure == HA_NO_FAILURE:
        fail(s, HA_CLOSED)
    link_push(&s.turn.link, CLOSED_CONNECTION, c.id, NULL, 0)


# ------------------------------------------------------------------- the turn

cdef void move_visible(HAService s) noexcept nogil:
    """Consumers see what the master says is confirmed, as far as it is here. A start puts the whole
    log into queues, which confirms none of it."""
    cdef int64_t confirmed = min(s.master.confirmed, s.append.log.marks.appended)
    if s.append.log.marks.visible == INT64_MAX:
        visible_limit(s.append,
                      0 if is_unconfirmed(&s.turn.role) else s.append.log.marks.dispatched)
    visible_raise(s.append, confirmed)
    if is_unconfirmed(&s.turn.role) and confirmed >= s.append.log.marks.dispatched:
        role_confirm(&s.turn.role)


cdef void take_turn(HAService s) noexcept nogil:
    if s.auto_switch and has_master(&s.turn.role):
        move_visible(s)
    take_stash(s)


cdef void report_turn(HAService s) noexcept nogil:
    cdef HAClient* m = &s.master
    cdef int64_t end
    cdef uint8_t* at
    if not may_go_on(s):
        return
    if s.turn.now_ms - m.heard_ms > s.silence_ms:
        s.turn.net.close_connection(m.connection)
        return
    end = s.append.log.durable() if s.ack_durable else s.append.log.marks.written
    if m.reported == UNKNOWN and end != s.append.log.marks.appended:
        return                              # the stream begins at the first report
    if end <= m.reported and s.turn.now_ms - m.reported_ms < s.heartbeat_ms:
        return
    at = s.turn.net.reserve_reply(m.connection, ha_report_bytes(s.auto_switch))
    if at == NULL:
        return                              # in a later turn
    write_ha_report(at, max(end, m.least_report), s.auto_switch)
    if not s.turn.net.commit_reply(m.connection, ha_report_bytes(s.auto_switch)):
        s.turn.net.close_connection(m.connection)
        return
    m.reported = end
    m.reported_ms = s.turn.now_ms


cdef int32_t take_wait(HAService s) noexcept nogil:
    return ROOM_MS if s.master.connection != NULL and s.master.stash_bytes > 0 else NO_WAIT


cdef int32_t report_wait(HAService s) noexcept nogil:
    if s.master.connection == NULL or s.master.reported == UNKNOWN:
        return NO_WAIT
    return <int32_t> max(<int64_t> 1, s.master.reported_ms + s.heartbeat_ms - s.turn.now_ms)


cdef Step take_log_step(HAService s) noexcept:
    return Step(b"take log", <void*> s, <RunStep> take_turn, <NextWait> take_wait, NULL)


cdef Step report_step(HAService s) noexcept:
    return Step(b"report", <void*> s, <RunStep> report_turn, <NextWait> report_wait, NULL)
