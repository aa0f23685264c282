"""Disk alerts. See disk_alerts.pxd."""
from libc.stdint cimport int32_t, uint64_t
from libc.stdio cimport snprintf

from cext.base.atomics cimport load_acquire_i32
from cext.base.status cimport OK
from cext.flow.context.small_replies cimport log_event
from cext.store.log.log_link cimport (
    OPERATION_SYNC,
    OPERATION_SYNC_DIRECTORY,
    OPERATION_WRITE,
    Poison,
)

cdef extern from "<string.h>" nogil:
    char* strerror_r(int error, char* out, size_t capacity)     # GNU's: may not use `out`

cdef enum:
    REASON_MAX = 128


cdef const char* operation_name(int32_t operation) noexcept nogil:
    if operation == OPERATION_WRITE:
        return b"pwrite"
    if operation == OPERATION_SYNC:
        return b"fdatasync"
    if operation == OPERATION_SYNC_DIRECTORY:
        return b"fsync of the directory"
    return b"an operation"


cdef const char* poison_remark(DiskAlerts* x, CommitLog log) noexcept nogil:
    cdef const Poison* poison = &log.link.poison
    cdef char reason[REASON_MAX]
    if x.poison_remark[0] == 0:
        snprintf(x.poison_remark, sizeof(x.poison_remark),
                 b"the commit log is poisoned: %s failed from offset %lld on: %s; nothing is "
                 b"acked until the broker is restarted", operation_name(poison.operation),
                 <long long> poison.offset, strerror_r(poison.error, reason, sizeof(reason)))
    return x.poison_remark


cdef void log_poison_event(TurnContext turn, CommitLog log) noexcept nogil:
    cdef const Poison* poison = &log.link.poison
    cdef char line[1000]
    cdef char reason[REASON_MAX]
    snprintf(line, sizeof(line), b"the commit log is poisoned: %s of %.600s failed from offset "
             b"%lld on: %s (errno %d); nothing is acked until the broker is restarted",
             operation_name(poison.operation), poison.path, <long long> poison.offset,
             strerror_r(poison.error, reason, sizeof(reason)), poison.error)
    log_event(turn, NULL, line)


cdef void log_preparer_alert(TurnContext turn, CommitLog log, int32_t status, int32_t* logged,
                             int error, const char* well, const char* wrong) noexcept nogil:
    """Logs a line when a status of the segment preparer has changed: `well` as it is, or `wrong`
    with the log's directory, the system's reason and its number."""
    cdef char line[1000]
    cdef char reason[REASON_MAX]
    if status == logged[0]:
        return
    logged[0] = status
    if status == OK:
        log_event(turn, NULL, well)
        return
    snprintf(line, sizeof(line), wrong, log.link.directory,
             strerror_r(error, reason, sizeof(reason)), error)
    log_event(turn, NULL, line)


cdef void log_queue_file_alert(DiskAlerts* x, TurnContext turn, QueueStore queues) noexcept nogil:
    cdef uint64_t failures = <uint64_t> queues.counts.write_failures
    cdef int error = <int> queues.counts.last_errno
    cdef char line[1000]
    cdef char reason[REASON_MAX]
    if error == 0 or failures == x.queue_failures_logged:
        if error == 0 and x.queue_alert_logged:
            x.queue_alert_logged = False
            log_event(turn, NULL, b"consume queue files are written again")
        return
    x.queue_failures_logged = failures
    if x.queue_alert_logged:
        return
    x.queue_alert_logged = True
    snprintf(line, sizeof(line), b"consume queue files under %.600s cannot be written: %s "
             b"(errno %d); their entries stay in memory and are tried again, the commit log is "
             b"complete", queues.writer.files.directory,
             strerror_r(error, reason, sizeof(reason)), error)
    log_event(turn, NULL, line)


cdef void log_disk_alerts(DiskAlerts* x, TurnContext turn, CommitLog log,
                          QueueStore queues) noexcept nogil:
    log_preparer_alert(turn, log, load_acquire_i32(&log.link.prepare_status),
                       &x.prepare_status_logged, log.link.prepare_error,
                       b"the next commit log file is ready: sends are taken again",
                       b"the next commit log file in %.600s cannot be made: %s (errno %d); sends "
                       b"are refused at the end of the present one, until it can")
    log_preparer_alert(turn, log, load_acquire_i32(&log.link.room_status),
                       &x.room_status_logged, log.link.room_error,
                       b"the commit log file has room again: sends are taken again",
                       b"the commit log file in %.600s gets no more room: %s (errno %d); sends are "
                       b"refused when what it has is used up, until it can")
    log_queue_file_alert(x, turn, queues)
