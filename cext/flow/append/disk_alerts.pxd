"""Disk alerts: what is wrong with the disk, in words, for the log and for clients it refuses.

    poisoned log         once, with operation, file, offset and the system's reason
    next log file        when it cannot be made, and when it can again
    consume-queue files  when they cannot be written, and when they can again

Example: "the commit log is poisoned: fdatasync failed from offset 5000 on: Input/output error;
nothing is acked until the broker is restarted"
"""
from cext.flow.append.appender cimport Appender

# Reactor. The cause of the poison as refused clients get it: no path. Good until the shard ends.
cdef const char* poison_remark(Appender s) noexcept nogil
# Reactor. The same with the path, as a line of the log.
cdef void log_poison_event(Appender s) noexcept nogil
# Reactor, once a second and when a send is refused for it: a line for each thing that went wrong,
# or is well again, since.
cdef void log_disk_alerts(Appender s) noexcept nogil
