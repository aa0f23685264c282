"""Replica: a core whose log is a copy of another core's, and that can take its place.

It takes no sends (`writable` is off: 14, as RocketMQ's broker that may not write) and appends
nothing of its own: no delivery of delayed and timed messages, no ops, no check points. Its log
comes as raw bytes (append_raw); dispatch makes of them what appends make: queue entries, where
the queues go on, ends of half messages, where groups that pop go on. So pulls are served up to
marks.visible, and a promotion is to be writable again.

Timed and delayed messages wait in their queues, which whoever delivers reads. How far the leader
has delivered, commits of consumers' offsets, topics and groups are not in the log: control brings
them.

Reactor only.
"""
from libc.stdint cimport int64_t

from cext.flow.shard_state cimport ShardState
from cext.store.record cimport RecordView

# dispatch_hook.pxd
cdef int64_t replica_replayed(ShardState s, const RecordView* view) noexcept nogil
