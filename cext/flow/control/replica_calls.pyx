"""Replica calls. See replica_calls.pxd."""
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint32_t

from cext.base.status cimport (
    CLOSED,
    CORRUPT,
    MALFORMED,
    NOT_FOUND,
    NOT_READY,
    OK,
    POISONED,
    RING_FULL,
    TOO_LARGE,
    raise_status,
)
from cext.flow.append.ack_queue cimport MARKS, ack_queue_is_empty
from cext.flow.append.acknowledgement cimport refuse_all
from cext.flow.append.appender cimport Appender
from cext.flow.append.dispatch cimport write_and_dispatch
from cext.flow.append.log_copy cimport copy_log
from cext.flow.append.log_marks cimport (
    replicated_lower,
    replicated_raise,
    visible_all,
    visible_lower,
    visible_raise,
)
from cext.flow.context.control_link cimport CallFn
from cext.flow.context.role cimport is_slave, role_doubt, role_demote, role_promote
from cext.flow.control.control_side cimport borrowed
from cext.flow.replication.ha_client cimport leave_master
from cext.flow.replication.ha_service cimport HAService
from cext.flow.transaction.transaction_end cimport write_ops
from cext.flow.transaction.transaction_service cimport TransactionService
from cext.wire.text cimport Text

from rmq.errors import StoreCorruptError, StoreError


# ---------------------------------------------------------------- append_raw

cdef struct AppendRaw:
    int64_t offset
    Text data
    # results
    int status                  # as raw_append(), and CLOSED for a master
    int64_t log_end
    int32_t problem             # RecordProblem


cdef void append_raw(Appender s, AppendRaw* x) noexcept nogil:
    cdef uint32_t taken = 0
    x.problem = 0
    x.status = CLOSED
    if is_slave(&s.turn.role):
        x.status = copy_log(s, x.offset, x.data.bytes, x.data.length, &taken, &x.problem)
    x.log_end = s.log.marks.appended


# ---------------------------------------------------------------- marks of the log

cdef struct SetReplicated:
    int64_t offset              # every slave that must have the log has it up to here
    # results
    int status                  # MALFORMED: beyond the log; CLOSED: less, at a master


cdef void set_replicated(Appender s, SetReplicated* x) noexcept nogil:
    # A slave can be ahead of this core's disk, but never of its log.
    x.status = OK if 0 <= x.offset <= s.log.marks.appended else MALFORMED
    if x.status != OK:
        return
    if x.offset >= s.log.marks.replicated:
        replicated_raise(s, x.offset)
    elif is_slave(&s.turn.role):
        replicated_lower(s, x.offset)
    else:
        x.status = CLOSED


cdef struct SetVisible:
    int64_t offset
    # results
    int status                  # MALFORMED: below 0; CLOSED: this is a master


cdef void set_visible(Appender s, SetVisible* x) noexcept nogil:
    x.status = OK if is_slave(&s.turn.role) else CLOSED
    if x.offset < 0:
        x.status = MALFORMED
    if x.status != OK:
        return
    if x.offset >= s.log.marks.visible:
        visible_raise(s, x.offset)
    else:
        visible_lower(s, x.offset)


# ---------------------------------------------------------------- role

cdef void promote(HAService s, int* status) noexcept nogil:
    """NOT_READY while not all of the log is dispatched. Then OK: everything is visible, the role is
    changed, and nothing more comes of the old master's log.

    What waits for its time (delays, timers, pops, half messages) goes on by itself: dispatch has
    made its queue entries, and the steps that deliver it read the queues.
    """
    visible_all(s.append)
    status[0] = write_and_dispatch(s.append)
    if status[0] == OK and s.append.log.marks.dispatched != s.append.log.marks.appended:
        status[0] = NOT_READY
    if status[0] == OK:
        leave_master(s)
        role_promote(&s.turn.role)


cdef void demote(TransactionService s, int* status) noexcept nogil:
    """OK: everything is written and answered, and nothing more is appended. NOT_READY: answers
    still wait for a disk or a slave, and their records are in the log; or the log has no room for
    the op messages, and the core is still a master."""
    cdef int ended = OK
    if not is_slave(&s.turn.role):
        ended = write_ops(s)    # transactions answered as ended are so in the log
        if ended == RING_FULL:
            write_and_dispatch(s.append)
            ended = write_ops(s)
    if ended != OK and not s.append.log.poisoned():
        status[0] = NOT_READY
        return
    role_demote(&s.turn.role)
    write_and_dispatch(s.append)
    status[0] = OK if is_settled(s.append) else NOT_READY


cdef bint is_settled(Appender s) noexcept nogil:
    """Whether no answer waits for the log, and all of it is in its files; or it is poisoned."""
    cdef int32_t mark
    if s.log.poisoned():
        return True                         # all of its answers were refused
    for mark in range(MARKS):
        if not ack_queue_is_empty(&s.acks.waiting[mark]):
            return False
    return s.log.marks.written == s.log.marks.appended


cdef void refuse_answers(Appender s, const char* reason) noexcept nogil:
    refuse_all(s, reason)


cdef void set_unconfirmed(Appender s, int* status) noexcept nogil:
    status[0] = OK if is_slave(&s.turn.role) else CLOSED
    if status[0] == OK:
        role_doubt(&s.turn.role)


# ---------------------------------------------------------------- truncation

cdef struct LogFloor:
    # results
    int status                  # CLOSED: a master; NOT_READY: answers wait; POISONED
    int64_t low                 # what is below is confirmed, or no longer there


cdef void log_floor(Appender s, LogFloor* x) noexcept nogil:
    if not is_slave(&s.turn.role):
        x.status = CLOSED
    elif s.log.poisoned():
        x.status = POISONED
    else:
        x.status = OK if is_settled(s) else NOT_READY
    x.low = max(s.log.min_offset(), s.log.marks.replicated)
    if s.log.marks.visible != INT64_MAX:
        x.low = max(x.low, s.log.marks.visible)


cdef class ReplicaCalls(TransactionCalls):
    def set_replicated(self, int64_t offset):
        cdef SetReplicated x
        x.offset = offset
        self._call(<CallFn> set_replicated, <void*> self.appender, &x)
        if x.status == CLOSED:
            raise StoreError("what slaves of a master have is never less than before")
        raise_status(x.status, f"a slave says that it has the log up to {offset}")

    def append_raw(self, int64_t offset, bytes data):
        cdef AppendRaw x
        x.offset = offset
        x.data = borrowed(data)
        self._call(<CallFn> append_raw, <void*> self.appender, &x)
        if x.status == CLOSED:
            raise StoreError("raw bytes are for the log of a slave; this core is a master")
        if x.status == NOT_FOUND:
            raise StoreCorruptError(f"raw bytes for offset {offset} of the log, which ends at "
                                    f"{x.log_end}")
        if x.status == CORRUPT or x.status == TOO_LARGE:
            raise_status(x.status, f"raw bytes at offset {x.log_end} of the log are no "
                                   f"record for there (problem {x.problem})")
        return x.log_end

    def set_visible(self, int64_t offset):
        cdef SetVisible x
        x.offset = offset
        self._call(<CallFn> set_visible, <void*> self.appender, &x)
        if x.status == CLOSED:
            raise StoreError("what consumers of a master see is not for control to say")
        raise_status(x.status, f"consumers are to see the log up to {offset}")

    def promote(self):
        cdef int status = OK
        self._call(<CallFn> promote, <void*> self.ha, &status)
        if status != NOT_READY:
            raise_status(status, "the log")
        return status == OK

    def refuse_answers(self, bytes reason):
        cdef const char* text = reason
        self._call(<CallFn> refuse_answers, <void*> self.appender, <void*> text)

    def set_unconfirmed(self):
        cdef int status = OK
        self._call(<CallFn> set_unconfirmed, <void*> self.appender, &status)
        if status == CLOSED:
            raise StoreError("what a master has is not cut: nothing of it is unconfirmed")

    def _log_floor(self):
        cdef LogFloor x
        self._call(<CallFn> log_floor, <void*> self.appender, &x)
        return x.status, x.low

    def demote(self):
        cdef int status = OK
        self._call(<CallFn> demote, <void*> self.transactions, &status)
        return status == OK
