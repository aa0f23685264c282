"""Followers: what the cores that hold a copy of this log have said about it.

How far the least of them is becomes the log's mark `replicated`; answers that wait for followers
(promise.pxd) wait for it. Reactor only.
"""
from cext.flow.control.calls cimport Arguments
from cext.flow.shard_state cimport ShardState

# numbers: log offset up to which every follower that counts has the log. What was answered stays
# answered when it is lower than before.
cdef void call_set_replicated(ShardState s, Arguments* x) noexcept nogil
