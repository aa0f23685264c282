"""Disk alerts: what is wrong with the disk, in words, for the log and for clients that are refused.

    poisoned log         once, with operation, file, offset and the system's reason
    next log file        when it cannot be made, and when it can be again
    consume-queue files  when they cannot be written, and when they can be again

Example: "the commit log is poisoned: fdatasync failed from offset 5000 on: Input/output error;
nothing is acked until the broker is restarted"
"""
from libc.stdint cimport int32_t, uint64_t

from cext.flow.context.turn_context cimport TurnContext
from cext.store.log.commit_log cimport CommitLog
from cext.store.queues.queue_store cimport QueueStore

cdef struct DiskAlerts:
    bint poison_logged
    char poison_remark[512]         # what poison_remark() made of the poison; empty: none yet
    int32_t prepare_status_logged   # what the log says already of the next file
    int32_t room_status_logged      # .. and of the room in the present one
    uint64_t queue_failures_logged
    bint queue_alert_logged

# Reactor. The cause of the poison as refused clients are told it, without a path. Valid until the
# shard ends.
cdef const char* poison_remark(DiskAlerts* x, CommitLog log) noexcept nogil
# Reactor. Logs the same with the path.
cdef void log_poison_event(TurnContext turn, CommitLog log) noexcept nogil
# Reactor, once a second and when a send is refused because of the disk: logs a line for each thing
# that went wrong, or is well again, since the last call.
cdef void log_disk_alerts(DiskAlerts* x, TurnContext turn, CommitLog log,
                          QueueStore queues) noexcept nogil
