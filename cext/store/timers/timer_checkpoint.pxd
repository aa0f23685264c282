"""Timer checkpoint: which runs a timer keeper has, and how much of the queue they cover.

    DIR/checkpoint   u32 magic "rmqT" | u32 version 1 | i64 covers | u64 next number | i64 runs
                     runs * (u64 number | i64 level, count, oldest, covers, log_end)
                     u32 crc32 of all before                                     big-endian

Written new, synced, renamed, the directory synced.
"""
from libc.stdint cimport int64_t, uint64_t

from cext.store.timers.timer_run cimport TimerRun

cdef enum:
    RUNS_MAX = 160
    KEEPER_PATH_BYTES = 4096        # of the directory, with its end

cdef struct RunTable:
    TimerRun runs[RUNS_MAX]
    int64_t run_count
    uint64_t next_number            # of the next run's file
    int64_t covers                  # as the checkpoint says: messages of the queue below it

# Names the runs that are `named`. OK | NO_SPACE | IO_ERROR.
cdef int timer_checkpoint_save(const RunTable* table, const char* directory) noexcept nogil
# Fills the table, no run opened. OK | NOT_FOUND | CORRUPT (also when it speaks of more log than
# there is) | IO_ERROR.
cdef int timer_checkpoint_load(RunTable* table, const char* directory,
                               int64_t log_end) noexcept nogil
