"""Pop service. See pop_service.pxd."""
cimport cython

from cext.flow.pop.pop_table cimport pops_close, pops_open
from cext.memory.arena cimport Arena


@cython.no_gc                       # in no reference cycle; a shard needs it whole at its end
cdef class PopService:
    cdef int open(self, Arena* arena, dict given) except -1:
        return pops_open(&self.pops, given)

    cdef void close(self) noexcept:
        pops_close(&self.pops)

    cdef dict stats(self):
        return {
            "pops": self.pops.pops,
            "pop_pairs": self.pops.pairs.live,
            "pop_messages": self.pops.popped,
            "pop_acks": self.pops.acks,
            "pop_changes": self.pops.changes,
            "pop_check_points": self.pops.check_points,
            "pop_revived": self.pops.revived,
            "pop_unreadable": self.pops.unreadable,
            "pop_acks_late": self.pops.acks_late,
            "pop_hurried": self.pops.hurried,
        }
