"""Pull turn: the READY jobs of a turn are answered, each connection in its turn.

At the end of the turn, after its own messages have been written and dispatched. TURN_BYTES of
answers at most: the rest goes on in the next turn, and whose connection has not sent what is queued
for it waits until it has. Once three quarters of all jobs are in use, pulls and pops of who does
not read are refused with SYSTEM_BUSY instead: others need the places.
"""
from cext.flow.context.step cimport Step
from cext.flow.pull.pull_service cimport PullService

# Answers, holds or hands to a disk reader every job of the turn's list.
cdef Step pulls_step(PullService s) noexcept
