"""Disk alerts: what is wrong with the disk, in words, for the log and for clients that are refused.

    poisoned log         once, with operation, file, offset and the system's reason
    next log file        when it cannot be made, and when it can be again
    consume-queue files  when they cannot be written, and when they can be again

Example: "the commit log is poisoned: fdatasync failed from offset 5000 on: Input/output error;
nothing is acked until the broker is restarted"
"""
from cext.flow.append.appender cimport Appender

# Reactor. The cause of the poison as refused clients are told it, without a path. Valid until the
# shard ends.
cdef const char* poison_remark(Appender s) noexcept nogil
# Reactor. Logs the same with the path.
cdef void log_poison_event(Appender s) noexcept nogil
# Reactor, once a second and when a send is refused because of the disk: logs a line for each thing
# that went wrong, or is well again, since the last call.
cdef void log_disk_alerts(Appender s) noexcept nogil
