"""Replica: a core whose log is a copy of another core's, and that can take its place.

It takes no sends (`writable` is off: 14, as RocketMQ's broker that may not write) and appends
nothing of its own: no delivery of delayed and timed messages, no ops, no check points. Its log
comes as raw bytes (call_append_raw); dispatch makes of them what appends make: queue entries, where
the queues go on, ends of half messages, where groups that pop go on. So pulls are served up to
marks.visible, and a promotion is to be writable again.

Timed and delayed messages wait in their queues, which whoever delivers reads. How far the leader
has delivered, commits of consumers' offsets, topics and groups are not in the log: control brings
them.

Reactor only.
"""
from libc.stdint cimport int64_t

from cext.flow.control.calls cimport Arguments
from cext.flow.shard_state cimport ShardState
from cext.store.record cimport RecordView

# dispatch_hook.pxd
cdef int64_t replica_replayed(ShardState s, const RecordView* view) noexcept nogil
# a: bytes of the log; numbers: their offset. status: as raw_append(), and CLOSED for a core that
# takes sends. results: end of the log, what was wrong (RecordProblem).
cdef void call_append_raw(ShardState s, Arguments* x) noexcept nogil
# numbers: log offset up to which every follower that counts has the log: the mark `replicated`.
# MALFORMED: more than there is of it. Lower than before: what was answered stays so.
cdef void call_set_replicated(ShardState s, Arguments* x) noexcept nogil
# numbers: consumers may be given what is below.
cdef void call_set_visible(ShardState s, Arguments* x) noexcept nogil
# Promotion: NOT_READY while not all of the log is dispatched (call it again), then OK: all of it is
# visible.
cdef void call_promote(ShardState s, Arguments* x) noexcept nogil
