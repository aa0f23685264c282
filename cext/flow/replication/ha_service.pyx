"""HA service. See ha_service.pxd."""
cimport cython
from libc.stdlib cimport free
from libc.string cimport memset

from cext.base.status cimport OK
from cext.flow.context.service cimport no_memory
from cext.memory.arena cimport Arena
from cext.net.tls cimport tls_offered_open, tls_server_close, tls_server_open


@cython.no_gc                       # in no reference cycle; a shard needs it whole at its end
cdef class HAService:
    def __cinit__(self):
        memset(self.slaves, 0, sizeof(self.slaves))
        memset(&self.master, 0, sizeof(HAClient))
        self.epochs.count = 0
        self.send_bytes = 1 << 20
        self.heartbeat_ms = 5000
        self.silence_ms = 20_000

    cdef int open(self, Arena* arena, dict given) except -1:
        if tls_server_open(&self.tls) != OK:
            no_memory("TLS of replicas")
        tls_offered_open(&self.offered, &self.tls)
        return 0

    cdef void close(self) noexcept:
        tls_server_close(&self.tls)
        free(self.master.partial)
        self.master.partial = self.master.stash = NULL

    cdef dict stats(self):
        return {"ha_connections": self.slave_count, "ha_bytes_sent": self.bytes_sent,
                "ha_bytes_taken": self.bytes_taken, "ha_reads": self.reads}
