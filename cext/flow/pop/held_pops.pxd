"""Held pops: pops that wait at their pair until a message comes or their time is over.

A pop of any queue waits for all queues of a topic: so it is in its pair's list, where a held pull
is in its queue's. The expiry wheel and the connection list it as they list pulls (held_pulls.pxd).
One message wakes one pop; until that pop has looked, no other is woken. If it does not look after
all, because its client is gone or does not read, the next one is woken instead.
"""
from libc.stdint cimport int32_t

from cext.flow.append.appender cimport Dispatch
from cext.flow.pop.pop_job cimport PopJob
from cext.flow.pop.pop_pair cimport PopPair
from cext.flow.pop.pop_service cimport PopService
from cext.flow.pull.pull_job cimport PullJob
from cext.flow.pull.pull_service cimport PullService
from cext.flow.tables.topic_table cimport Topic

# The job has looked for messages, or goes: it no longer counts as awake.
cdef void pop_asleep(PopJob* job) noexcept nogil
# Holds the job at its pair; may be done again and again.
cdef void hold_pop(PullService s, PopJob* job) noexcept nogil
# An OnJobEvent: keeps the counts of the job's pair right.
cdef void pop_on_event(PopService s, PullJob* pull, int32_t event) noexcept nogil
# A message for the pair came into this queue (-1: any). Wakes one pop of all queues, unless one
# that was woken has not been answered yet; one pop of this queue; and every notification.
cdef void wake_pops(PullService s, PopPair* pair, int32_t queue_id) noexcept nogil
# The same for all pairs of a topic.
cdef void wake_topic(PullService s, Topic* topic, int32_t queue_id) noexcept nogil
cdef void wake_all_pops(PullService s, PopPair* pair) noexcept nogil     # the pair goes away
# Called by dispatch (dispatch_hook.pxd): pulls and pops can read a new record.
cdef void wake_by_arrival(PullService s, const Dispatch* d) noexcept nogil
