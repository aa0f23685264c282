"""HA service. See ha_service.pxd."""
cimport cython
from libc.stdlib cimport free
from libc.string cimport memset


@cython.no_gc                       # it is in no circle, and the end of a shard needs it whole
cdef class HAService:
    def __cinit__(self):
        memset(self.slaves, 0, sizeof(self.slaves))
        memset(&self.master, 0, sizeof(HAMaster))
        self.epochs.count = 0
        self.send_bytes = 1 << 20
        self.heartbeat_ms = 5000
        self.silence_ms = 20_000

    cdef void close(self) noexcept:
        free(self.master.partial)
        self.master.partial = self.master.stash = NULL

    cdef dict stats(self):
        return {"ha_slaves": self.slave_count, "ha_bytes_sent": self.bytes_sent,
                "ha_bytes_taken": self.bytes_taken, "ha_reads": self.reads}
