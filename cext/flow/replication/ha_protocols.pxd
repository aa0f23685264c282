"""HA protocols: who is called for what comes on the connections of slaves, and of the master.

Reactor only.
"""
from cext.flow.replication.ha_service cimport HAService

# Once the services are joined.
cdef void join_protocols(HAService s) noexcept
