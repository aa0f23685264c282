"""Pull turn: the READY jobs of a turn are answered, with no connection preferred.

This happens at the end of the turn, after its own messages have been written and dispatched. A turn
answers with at most TURN_BYTES: the rest goes on in the next turn, and a job whose connection has
unsent output waits until that is sent. Once three quarters of all jobs are in use, pulls and pops
of clients that do not read are refused with SYSTEM_BUSY instead, because others need the places.
"""
from cext.flow.context.step cimport Step
from cext.flow.pull.pull_service cimport PullService

# Answers, holds or hands to a disk reader every job of the turn's list.
cdef Step pulls_step(PullService s) noexcept
