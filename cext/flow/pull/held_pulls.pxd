"""Held pulls: pulls that wait on their queue until a message comes or their time is over.

A held pull is in three lists: its queue's waiters (woken by dispatch), a slot of the expiry wheel
(slots are TIMER_TICK_MS apart) and its connection's list (so that it goes with the client). A
deferred pull is only in its connection's list. Pulls of a queue are woken, and those of a
connection resumed, in the order in which they came. Waking costs a few pointer moves per waiting
pull, and nothing per message on a queue without waiters. A job of another kind may be in a list of
its owner instead of a queue's (hold_in).

Example: a deadline in 15 000 ms -> slot (tick + 150) mod 1024; a pull whose deadline is beyond the
wheel's 102 s is looked at again when its slot comes round.
"""
from libc.stdint cimport int32_t, int64_t

from cext.flow.context.step cimport Step
from cext.flow.pull.pull_job cimport PullJob
from cext.flow.pull.pull_service cimport PullService
from cext.memory.chain cimport ChainEntry
from cext.net.connection cimport Connection
from cext.store.queues.consume_queue cimport Queue

cdef void hold(PullService s, PullJob* job, Queue* queue) noexcept nogil
# The same in a list of the owner's; a job may be held there again and again.
cdef void hold_in(PullService s, PullJob* job, ChainEntry** line) noexcept nogil
# Takes a held job out of its three lists; the caller then makes it ready or frees it.
cdef void release(PullService s, PullJob* job) noexcept nogil
cdef void defer(PullService s, PullJob* job) noexcept nogil  # until the connection is drained
cdef void make_ready(PullService s, PullJob* job) noexcept nogil    # to the turn's list
# Gives back what was read from the disk for the job.
cdef void drop_fetch(PullService s, PullJob* job) noexcept nogil
cdef void free_job(PullService s, PullJob* job) noexcept nogil
# A message was added at queue.max_offset - 1, and its record lies at `physical_offset`. Pulls whose
# filter it does not pass stay held; those that waited at this message then wait behind it.
cdef void wake_waiters(PullService s, Queue* queue, int64_t tags_code, int64_t physical_offset,
                       int32_t size) noexcept nogil
cdef void wake_all(PullService s, Queue* queue) noexcept nogil      # the topic goes away
# Whether an account has changed since the pull was let in. Then it gets no messages; when its
# client pulls again, that request is judged anew.
cdef bint is_outdated(PullService s, const PullJob* job) noexcept nogil
cdef void resume_deferred(PullService s, Connection* c) noexcept nogil
cdef void forget_connection(PullService s, Connection* c) noexcept nogil
# Wakes pulls whose time is over, at most one tick late.
cdef Step expiry_step(PullService s) noexcept
