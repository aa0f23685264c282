"""Step: one row of the turn's table (cext/flow/turn.pxd): what a folder does once a turn.

    run         its work of this turn. It returns at once when there is none, waits for nothing, and
                leaves what is more than a bounded amount for the next turn
    next_wait   how long the poll may sleep, in ms, before there is work that no event brings; 0: do
                not sleep; NULL: all its work comes with events
    drained     at a stop: nothing is under way any more; NULL: it keeps nothing

The file with its function declares the row: `.._step(service)` is the row bound to the service that
the functions are given. Where it stands in the turn is the table's matter.

Example: revive_step(pop) is "revive", which the poll may not sleep past the next check point for.
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
