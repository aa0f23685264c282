"""Step: one row of the turn's table (cext/flow/turn.pxd): what a folder does once a turn.

    run         its work of this turn. It returns at once when there is none, waits for nothing but
                what turn.pxd lists, and leaves to the next turn what is more than a bounded amount
    next_wait   how many ms the poll may sleep before there is work that no event announces; 0: do
                not sleep; NULL: all its work comes with events
    drained     at a stop: whether nothing of it is under way any more; NULL: nothing ever is

The file with the step's functions declares it: `.._step(service)` returns the step, bound to the
service that its functions are given. The order of the steps is the table's matter.

Example: revive_step(pop) is the step "revive"; its next_wait ends the poll's sleep when the next
check point is due.
"""
from libc.stdint cimport int32_t

cdef enum:
    NO_WAIT = 0x7FFFFFFF        # ms: the poll may sleep for as long as the others let it

ctypedef void (*RunStep)(void* service) noexcept nogil
ctypedef int32_t (*NextWait)(void* service) noexcept nogil
ctypedef bint (*StepDrained)(void* service) noexcept nogil

cdef struct Step:
    const char* name
    void* service               # borrowed; the shard has it
    RunStep run
    NextWait next_wait
    StepDrained drained
