"""Held pulls: they wait on their queue until a message comes or their time is over.

A held pull hangs in three lists: its queue's waiters (woken by dispatch), a slot of the expiry
wheel (TIMER_TICK_MS apart) and its connection's list (vanishes when the client goes). A deferred
one hangs in its connection's. Pulls of a queue are woken, and those of a connection go on, in the
order in which they came. Waking costs a few pointer moves per waiting pull and nothing per message
on queues nobody waits on. A job of another kind may hang in a list of its owner's instead of a
queue's (hold_in).

Example: deadline in 15 000 ms -> slot (tick + 150) mod 1024; a deadline beyond the wheel's 102 s
is looked at again when its slot comes round.
"""
from libc.stdint cimport int32_t, int64_t

from cext.flow.context.step cimport Step
from cext.flow.pull.pull_job cimport PullJob
from cext.flow.pull.pull_service cimport PullService
from cext.memory.chain cimport ChainEntry
from cext.net.connection cimport Connection
from cext.store.queues.consume_queue cimport Queue

cdef void hold(PullService s, PullJob* job, Queue* queue) noexcept nogil
# The same in a list of the owner's; may be held again and again.
cdef void hold_in(PullService s, PullJob* job, ChainEntry** line) noexcept nogil
# Takes a held job out of its three lists; then it is made ready, or freed.
cdef void release(PullService s, PullJob* job) noexcept nogil
cdef void defer(PullService s, PullJob* job) noexcept nogil  # until the connection is drained
cdef void make_ready(PullService s, PullJob* job) noexcept nogil    # to the turn's list
# What was read from the disk for it is not needed any more.
cdef void drop_fetch(PullService s, PullJob* job) noexcept nogil
cdef void free_job(PullService s, PullJob* job) noexcept nogil
# A message was added at queue.max_offset - 1; where its record lies. Pulls whose filter it does not
# pass stay, and go on behind it when it was the one they waited at.
cdef void wake_waiters(PullService s, Queue* queue, int64_t tags_code, int64_t physical_offset,
                       int32_t size) noexcept nogil
cdef void wake_all(PullService s, Queue* queue) noexcept nogil      # the topic goes away
# An account changed since it was let in: it brings nothing, and who pulls again is judged anew.
cdef bint is_outdated(PullService s, const PullJob* job) noexcept nogil
cdef void resume_deferred(PullService s, Connection* c) noexcept nogil
cdef void forget_connection(PullService s, Connection* c) noexcept nogil
# Wakes those whose time is over, at the latest a tick after it was.
cdef Step expiry_step(PullService s) noexcept
