"""Slave replay: a core whose log is a copy of another core's, and that can take its place.

Its role is slave (context/role.pxd): it takes no sends and appends nothing of its own, neither
messages that are due nor op messages nor check points. Its log comes as raw bytes (append_raw).
From these bytes, dispatch makes what appends make: queue entries, the ends of queues, the ends of
half messages, and where groups that pop go on; and also where half messages begin, because the log
may begin in the middle. So pulls are served up to marks.visible, and a promotion is no more than a
change of the role.

Timed and delayed messages wait in their queues, from which the core that delivers them reads. How
far the master has delivered, the consumers' offset commits, and topics and groups are not in the
log: control brings them.

Reactor only.
"""
from libc.stdint cimport int64_t

from cext.flow.delay.delay_service cimport DelayService
from cext.flow.pop.pop_service cimport PopService
from cext.flow.tables.tables cimport Tables
from cext.flow.transaction.transaction_service cimport TransactionService
from cext.store.log.record cimport RecordView

cdef class SlaveReplay:
    cdef Tables tables
    cdef DelayService delay
    cdef TransactionService transaction
    cdef PopService pop

# OnReplayed of dispatch_hook.pxd.
cdef int64_t slave_replayed(SlaveReplay s, const RecordView* view) noexcept nogil
