"""HA protocols: who is called for what comes on the connections of slaves, and of the master.

Reactor only.
"""
from cext.flow.replication.ha_service cimport HAService

# The protocol of the connection to the master, once the services are joined.
cdef void join_master(HAService s) noexcept
# Slaves are served at this listening socket from the next turn on; OK, or add_listener()'s failure.
cdef int serve_slaves(HAService s, int listen_fd) noexcept nogil
