"""HA protocols: the callbacks for what comes on the connections of slaves, and of the master.

Reactor only.
"""
from cext.flow.replication.ha_service cimport HAService

# Called once the services refer to each other.
cdef void join_protocols(HAService s) noexcept
