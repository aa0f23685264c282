"""Held pops: they wait at their pair until a message comes to the topic or their time is over.

A pop of any queue waits for all queues of a topic: so it hangs in its pair's list, where a held
pull hangs in its queue's; wheel and connection have it as they have pulls (held_pulls.pxd). One
message wakes one pop: while it is awake no other is, and if it does not look after all, because its
client is gone or does not read, the next one is woken in its place.
"""
from libc.stdint cimport int32_t

from cext.flow.append.appender cimport Dispatch
from cext.flow.pop.pop_job cimport PopJob
from cext.flow.pop.pop_pair cimport PopPair
from cext.flow.pop.pop_service cimport PopService
from cext.flow.pull.pull_job cimport PullJob
from cext.flow.pull.pull_service cimport PullService
from cext.flow.tables.topic_table cimport Topic

# It has looked, or goes: a pop that was woken is awake no more.
cdef void pop_asleep(PopJob* job) noexcept nogil
# At its pair; may be held again and again.
cdef void hold_pop(PullService s, PopJob* job) noexcept nogil
# A OnJobEvent: what its pair counts follows where the job goes.
cdef void pop_on_event(PopService s, PullJob* pull, int32_t event) noexcept nogil
# A message came for the pair into this queue (-1: any): wakes one pop of all queues, unless one is
# awake that has not been answered, one of this queue, and every notification.
cdef void wake_pops(PullService s, PopPair* pair, int32_t queue_id) noexcept nogil
# The same for all pairs of a topic.
cdef void wake_topic(PullService s, Topic* topic, int32_t queue_id) noexcept nogil
cdef void wake_all_pops(PullService s, PopPair* pair) noexcept nogil     # the pair goes away
# Of dispatch (dispatch_hook.pxd): a record can be read now, by pulls and by pops.
cdef void wake_by_arrival(PullService s, const Dispatch* d) noexcept nogil
