"""HA sender. See ha_sender.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from cext.base.status cimport ABSENT, OK
from cext.flow.context.small_replies cimport log_event
from cext.flow.context.step cimport NO_WAIT, NextWait, RunStep
from cext.flow.fetch.disk_fetch cimport DiskFetch, FetchDone, FetchPool, fetch_add, fetch_begin
from cext.flow.replication.ha_epochs cimport epoch_at, epoch_end
from cext.flow.replication.ha_service cimport UNKNOWN, HAConnection
from cext.net.connection cimport IN_JUMBO
from cext.store.log.commit_log cimport segment_end
from cext.wire.ha_stream cimport HA_FRAME_BYTES_MAX, HAHead, ha_head_bytes, write_ha_head
from cext.wire.limits cimport SLAVES_MAX

cdef enum:
    HISTORY_BYTES = 262144          # looked for in mapped pages at a time
    CONFIRM_MS = 20                 # with no traffic, how late a slave learns what is confirmed


cdef int64_t confirmed_of(HAService s) noexcept nogil:
    return min(s.append.log.marks.visible, s.append.log.marks.written)


cdef bint send_head(HAService s, HAConnection* slave, int32_t count) noexcept nogil:
    cdef uint32_t head_bytes = ha_head_bytes(s.auto_switch)
    cdef uint8_t* at = s.turn.net.reserve_reply(slave.connection, head_bytes)
    cdef int32_t epoch = epoch_at(&s.epochs, slave.next_offset)
    cdef HAHead head
    if at == NULL:
        return False
    head.offset = slave.next_offset
    head.count = count
    head.epoch = s.epochs.numbers[epoch] if epoch >= 0 else 0
    head.epoch_start = s.epochs.starts[epoch] if epoch >= 0 else 0
    head.confirmed = confirmed_of(s)
    write_ha_head(at, &head, s.auto_switch)
    slave.sent_ms = s.turn.now_ms
    slave.confirmed = head.confirmed
    return s.turn.net.commit_reply(slave.connection, head_bytes)


cdef inline void note_sent(HAService s, HAConnection* slave, int64_t count) noexcept nogil:
    slave.next_offset += count
    s.bytes_sent += count


cdef bint send_piece(HAService s, HAConnection* slave, const uint8_t* at,
                     int32_t count) noexcept nogil:
    if not send_head(s, slave, count) or not s.turn.net.add_borrowed(slave.connection, at, count):
        return False
    note_sent(s, slave, count)
    return True


cdef void history_came(HAService s, FetchPool pool, DiskFetch* fetch) noexcept nogil:
    """It is sent in this turn's send_log_step."""
    cdef HAConnection* slave = <HAConnection*> fetch.owner
    if slave.connection == NULL:
        slave.fetch = NULL
        pool.release(fetch)


cdef void ask_for_history(HAService s, HAConnection* slave, int32_t count) noexcept nogil:
    cdef DiskFetch* fetch = NULL
    if not s.turn.stopping:
        fetch = s.fetch.pool.take(<FetchDone> history_came, <void*> s, slave)
    if fetch == NULL:
        return                              # no fetch is free: in a later turn
    fetch_begin(fetch, False)
    if not fetch_add(fetch, slave.next_offset, count, 0) or s.fetch.pool.submit(fetch) != OK:
        s.fetch.pool.release(fetch)
        return
    s.reads += 1
    slave.fetch = fetch


cdef bint send_history(HAService s, HAConnection* slave) noexcept nogil:
    """Sends what a disk reader has brought."""
    cdef DiskFetch* fetch = slave.fetch
    cdef uint32_t count = fetch.read.done_bytes
    cdef bint good = (fetch.read.status == OK and fetch.read.done_count == 1
                      and fetch.read.offsets[0] == slave.next_offset)
    slave.fetch = NULL
    if not good:
        log_event(s.turn, slave.connection, b"closed: what this slave lacks cannot be read")
    elif not (send_head(s, slave, <int32_t> count) and s.turn.net.add_owned(
            slave.connection, fetch.buffer, count, fetch.buffer, IN_JUMBO)):
        good = False
    else:
        fetch.buffer = NULL                 # an output piece owns it now
        note_sent(s, slave, count)
    s.fetch.pool.release(fetch)
    return good


cdef bint send_log(HAService s, HAConnection* slave) noexcept nogil:
    """Sends what there is for the slave, as far as this turn goes. False: close the connection."""
    cdef int64_t end = s.append.log.marks.written
    cdef int64_t left = s.send_bytes
    cdef int64_t low = s.append.log.min_offset()
    cdef const uint8_t* at = NULL
    cdef int64_t count, epoch_left
    cdef int status
    if slave.next_offset < low:
        log_event(s.turn, slave.connection, b"closed: what this slave lacks has been deleted")
        return False
    if slave.fetch != NULL:
        if slave.fetch.in_flight:
            return True
        return send_history(s, slave)
    while left > 0 and slave.next_offset < end:
        count = min(min(end, segment_end(s.append.log, slave.next_offset)) - slave.next_offset,
                    min(left, <int64_t> HA_FRAME_BYTES_MAX))
        if s.auto_switch:
            epoch_left = epoch_end(&s.epochs, epoch_at(&s.epochs, slave.next_offset))
            count = min(count, epoch_left - slave.next_offset)
        status = s.append.log.view(slave.next_offset, <uint32_t> count, &at)
        if status == ABSENT and count > HISTORY_BYTES:
            count = HISTORY_BYTES
            status = s.append.log.view(slave.next_offset, <uint32_t> count, &at)
        if status == ABSENT:
            ask_for_history(s, slave, <int32_t> count)
            return True
        if status != OK:
            log_event(s.turn, slave.connection, b"closed: what this slave lacks cannot be read")
            return False
        if not send_piece(s, slave, at, <int32_t> count):
            return False
        left -= count
    return True


cdef bint is_silent(HAService s, const HAConnection* slave) noexcept nogil:
    """A slave whose socket is full is not read; it counts as alive while it takes something."""
    cdef int64_t heard_ms = slave.heard_ms
    if slave.connection.unsent_bytes > 0:
        heard_ms = max(heard_ms, slave.connection.active_ms)
    return s.turn.now_ms - heard_ms > s.silence_ms


cdef int64_t head_wait(HAService s, const HAConnection* slave) noexcept nogil:
    """How many ms until a head alone is sent: a sign of life, or what is confirmed by now."""
    cdef int64_t wait_ms = s.heartbeat_ms
    if s.auto_switch and slave.confirmed < confirmed_of(s):
        wait_ms = min(wait_ms, <int64_t> CONFIRM_MS)
    return slave.sent_ms + wait_ms - s.turn.now_ms


cdef void send_turn(HAService s) noexcept nogil:
    cdef HAConnection* slave
    cdef int32_t i
    if s.slave_count == 0:
        return
    for i in range(SLAVES_MAX):
        slave = &s.slaves[i]
        if slave.connection == NULL:
            continue
        if is_silent(s, slave):
            log_event(s.turn, slave.connection, b"closed: this slave says nothing any more")
            s.turn.net.close_connection(slave.connection)
            continue
        if slave.next_offset == UNKNOWN or slave.connection.unsent_bytes > 0:
            continue
        if not send_log(s, slave) or (
                head_wait(s, slave) <= 0 and not send_head(s, slave, 0)):
            s.turn.net.close_connection(slave.connection)


cdef int32_t send_wait(HAService s) noexcept nogil:
    """1 when a slave whose socket takes more lacks something, and no read for it is under way. (A
    turn that sends is followed by one that the socket or the slave's report wakes; 0 would spin
    when no read can be had.)"""
    cdef int64_t limit = NO_WAIT
    cdef HAConnection* slave
    cdef int32_t i
    if s.slave_count == 0:
        return NO_WAIT
    for i in range(SLAVES_MAX):
        slave = &s.slaves[i]
        if (slave.connection == NULL or slave.next_offset == UNKNOWN
                or slave.connection.unsent_bytes > 0):
            continue                        # its socket wakes the reactor
        if ((slave.fetch == NULL or not slave.fetch.in_flight)
                and slave.next_offset < s.append.log.marks.written):
            return 1
        limit = min(limit, max(<int64_t> 1, head_wait(s, slave)))
    return <int32_t> limit


cdef Step send_log_step(HAService s) noexcept:
    return Step(b"send log", <void*> s, <RunStep> send_turn, <NextWait> send_wait, NULL)
