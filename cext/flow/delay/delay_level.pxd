"""Delay level: what the reactor keeps of the messages that one level delivers later.

A level's messages stand in queue `level - 1` of SCHEDULE_TOPIC_XXXX in the order in which they are
due, so it is enough to keep the offset of the first one that is not delivered. When the wall clock
is set, messages stored before keep their remaining time: a ClockJump says by how much the clock
moved and which entries were there at that time.

Example: level 3 (10 s), entry 17 due at 12:00:10. At 12:00:04 the clock is set to 13:00:04: a jump
of +3 600 000 ms with end_offset 18; entry 17 is now due at 13:00:10, entry 18 by its own time.
"""
from libc.stdint cimport int32_t, int64_t, uint64_t

from cext.flow.fetch.readahead cimport Readahead
from cext.wire.limits cimport DELAY_LEVELS_MAX

cdef enum:
    JUMPS_MAX = 8               # further jumps are added to the newest
    LOOKS_A_REQUEST = 10        # one in so many looks asks control for a missing topic

cdef struct ClockJump:
    int64_t end_offset          # entries below it were stored before the jump
    int64_t by_ms

cdef struct DelayLevel:
    int64_t delay_ms
    int64_t next_offset         # first entry not delivered
    int64_t next_check_ms       # monotonic: when to look again; WAIT_FOR_ARRIVAL: no time
    int64_t again_ms            # monotonic: no read before, as one failed; 0: none did
    int32_t wanted              # looks that found no real topic, since control was asked
    int32_t jump_count
    ClockJump jumps[JUMPS_MAX]  # oldest first

cdef struct Schedule:
    DelayLevel levels[DELAY_LEVELS_MAX]
    int32_t count               # levels configured; 0 until control has said which
    int32_t first               # level the next turn begins with
    int64_t clock_ms            # wall clock of this turn, unchanged: may go back
    bint clock_unsure           # it may have been set since the last turn: nothing is delivered
    int64_t clock_base          # wall minus boot clock, turn before; a change is a jump
    Readahead readahead         # shared by all levels: one reads at a time
    int32_t readahead_level     # the level it reads for while readahead.fetch is set
    uint64_t delivered
    uint64_t dropped            # they are damaged, or their topic cannot be made
