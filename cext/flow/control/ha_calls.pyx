"""HA calls. See ha_calls.pxd."""
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memcpy

from cext.base.status cimport IO_ERROR, OK, raise_status
from cext.flow.context.control_link cimport CallFn
from cext.flow.context.role cimport FACT_SENDS_WAIT, FACT_SET_SHORT, role_set
from cext.flow.replication.ha_client cimport follow_master, leave_master
from cext.flow.replication.ha_connections cimport adopt_slave
from cext.flow.replication.ha_epochs cimport EPOCHS_MAX, HAEpochs
from cext.flow.replication.ha_lease cimport grant_lease
from cext.flow.replication.ha_service cimport HAService
from cext.flow.replication.ha_socket cimport close_replica
from cext.flow.replication.ha_sync_state_set cimport (
    clear_sync_state_set,
    move_replicated,
    set_sync_state_set,
)
from cext.net.connection cimport Connection
from cext.net.openssl cimport SSL
from cext.net.tls_stream cimport take_ssl
from cext.wire.limits cimport SLAVES_MAX

from rmq.errors import StoreError


cdef struct GivenSocket:
    int fd                      # the reactor's from now on, whatever comes of the call
    SSL* ssl                    # the same; NULL: plain
    bint whole                  # for follow_master()
    int64_t broker_id           # for adopt_slave()
    # results
    uint64_t connection         # 0: the socket was closed


cdef void adopt_slave_call(HAService s, GivenSocket* x) noexcept nogil:
    cdef Connection* c = adopt_slave(s, x.fd, x.ssl, x.broker_id)
    x.connection = c.id if c != NULL else 0


cdef void follow_master_call(HAService s, GivenSocket* x) noexcept nogil:
    cdef Connection* c = follow_master(s, x.fd, x.ssl, x.whole)
    x.connection = c.id if c != NULL else 0


cdef void leave_master_call(HAService s, void* ignored) noexcept nogil:
    leave_master(s)


cdef struct SetHA:
    int32_t slaves_needed
    int64_t send_bytes
    int64_t heartbeat_ms
    int64_t silence_ms
    bint ack_durable


cdef void set_ha(HAService s, const SetHA* x) noexcept nogil:
    clear_sync_state_set(s)
    s.slaves_needed = x.slaves_needed
    s.turn.options.sync_replicas = x.slaves_needed > 0
    s.send_bytes = x.send_bytes
    s.heartbeat_ms = x.heartbeat_ms
    s.silence_ms = x.silence_ms
    s.ack_durable = x.ack_durable
    move_replicated(s)


cdef struct SlaveRow:
    uint64_t connection
    unsigned char address[20]
    int32_t address_bytes
    int64_t next_offset
    int64_t acked
    int64_t behind_ms
    int64_t broker_id


cdef struct SlaveRows:
    # results
    SlaveRow rows[SLAVES_MAX]
    int32_t count


cdef void slave_rows(HAService s, SlaveRows* x) noexcept nogil:
    cdef SlaveRow* row
    cdef int32_t i
    x.count = 0
    for i in range(SLAVES_MAX):
        if s.slaves[i].connection == NULL:
            continue
        row = &x.rows[x.count]
        row.connection = s.slaves[i].connection.id
        row.address_bytes = <int32_t> s.slaves[i].connection.address_bytes
        memcpy(row.address, s.slaves[i].connection.address, 20)
        row.next_offset = s.slaves[i].next_offset
        row.acked = s.slaves[i].acked
        row.broker_id = s.slaves[i].broker_id
        row.behind_ms = s.turn.now_ms - s.slaves[i].caught_up_ms \
            if s.slaves[i].acked < s.append.log.marks.written else 0
        x.count += 1


cdef struct MasterState:
    # results
    uint64_t connection         # 0: there is no master
    int64_t end                 # of this log
    int64_t reported
    int64_t silent_ms
    int32_t failure
    int64_t failure_offset
    int64_t confirmed


cdef void master_state(HAService s, MasterState* x) noexcept nogil:
    x.connection = s.master.connection.id if s.master.connection != NULL else 0
    x.end = s.append.log.marks.appended
    x.reported = s.master.reported
    x.silent_ms = s.turn.now_ms - s.master.heard_ms
    x.failure = s.master.failure
    x.failure_offset = s.master.failure_offset
    x.confirmed = s.master.confirmed


# ---------------------------------------------------------------- under a controller

cdef void set_auto_switch(HAService s, const bint* on) noexcept nogil:
    s.auto_switch = on[0]


cdef void set_epochs(HAService s, const HAEpochs* x) noexcept nogil:
    s.epochs = x[0]


cdef struct SyncState:
    int64_t ids[SLAVES_MAX]
    int32_t count
    bint by_number              # a number of slaves counts, no matter which
    bint short
    bint sends_wait
    # results
    int64_t needed


cdef void set_sync_state(HAService s, SyncState* x) noexcept nogil:
    if x.by_number:
        clear_sync_state_set(s)
        role_set(&s.turn.role, FACT_SET_SHORT, x.short)
        move_replicated(s)
        x.needed = 0
    else:
        x.needed = set_sync_state_set(s, x.ids, x.count, x.short)
    role_set(&s.turn.role, FACT_SENDS_WAIT, x.sends_wait)


cdef void set_lease(HAService s, const int64_t* end_ms) noexcept nogil:
    grant_lease(s, end_ms[0])


cdef class HACalls(ReplicaCalls):
    def adopt_slave(self, int fd, int64_t broker_id=0, tls=None):
        cdef GivenSocket x
        x.fd = fd
        x.ssl = take_ssl(tls)
        x.broker_id = broker_id
        try:
            self._call(<CallFn> adopt_slave_call, <void*> self.ha, &x)
        except StoreError:
            close_replica(x.fd, x.ssl)      # the call did not get to the reactor
            raise
        raise_status(OK if x.connection != 0 else IO_ERROR, "the connection of a slave: there is "
                     "no room for it, or it is gone")
        return x.connection

    def follow_master(self, int fd, int whole, tls=None):
        cdef GivenSocket x
        x.fd = fd
        x.ssl = take_ssl(tls)
        x.whole = whole != 0
        try:
            self._call(<CallFn> follow_master_call, <void*> self.ha, &x)
        except StoreError:
            close_replica(x.fd, x.ssl)
            raise
        raise_status(OK if x.connection != 0 else IO_ERROR, "the connection to the master: there "
                     "is no memory for it, or this core is no slave")
        return x.connection

    def leave_master(self):
        self._call(<CallFn> leave_master_call, <void*> self.ha, NULL)

    def set_ha(self, int32_t slaves_needed, int64_t send_bytes, int64_t heartbeat_ms,
               int64_t silence_ms, int ack_durable):
        cdef SetHA x
        x.slaves_needed = min(slaves_needed, <int32_t> SLAVES_MAX)
        x.send_bytes = send_bytes
        x.heartbeat_ms = heartbeat_ms
        x.silence_ms = silence_ms
        x.ack_durable = ack_durable
        self._call(<CallFn> set_ha, <void*> self.ha, &x)

    def ha_connections(self):
        cdef SlaveRows x
        cdef int32_t i
        self._call(<CallFn> slave_rows, <void*> self.ha, &x)
        return [(x.rows[i].connection,
                 (<char*> x.rows[i].address)[:x.rows[i].address_bytes], x.rows[i].next_offset,
                 x.rows[i].acked, x.rows[i].behind_ms, x.rows[i].broker_id) for i in range(x.count)]

    def ha_client(self):
        cdef MasterState x
        self._call(<CallFn> master_state, <void*> self.ha, &x)
        return (x.connection, x.end, x.reported, x.silent_ms, x.failure, x.failure_offset,
                x.confirmed)

    def set_auto_switch(self, int on):
        cdef bint auto_switch = on != 0
        self._call(<CallFn> set_auto_switch, <void*> self.ha, &auto_switch)

    def set_epochs(self, list epochs):
        cdef HAEpochs x
        cdef int32_t i
        if len(epochs) > EPOCHS_MAX:
            raise StoreError(f"{len(epochs)} epochs, where {EPOCHS_MAX} are the most")
        x.count = <int32_t> len(epochs)
        for i in range(x.count):
            x.numbers[i], x.starts[i] = epochs[i]
        self._call(<CallFn> set_epochs, <void*> self.ha, &x)

    def set_sync_state(self, others, int short, int sends_wait=0):
        cdef SyncState x
        cdef int32_t i
        x.by_number = others is None
        others = others or []
        if len(others) > SLAVES_MAX:
            raise StoreError(f"{len(others)} brokers beside this one in the sync state set, where "
                             f"{SLAVES_MAX} are the most")
        x.count = <int32_t> len(others)
        for i in range(x.count):
            x.ids[i] = others[i]
        x.short = short != 0
        x.sends_wait = sends_wait != 0
        self._call(<CallFn> set_sync_state, <void*> self.ha, &x)
        return x.needed

    def set_lease(self, int64_t end_ms):
        self._call(<CallFn> set_lease, <void*> self.ha, &end_ms)
