"""Timer checkpoint: which runs a timer keeper has, and how much of the queue they cover.

    DIR/checkpoint   u32 magic "rmqT" | u32 version 1 | i64 covers | u64 next number | i64 runs
                     runs * (u64 number | i64 level, count, oldest, covers, log_end)
                     u32 crc32 of all before                                     big-endian

It is written as a new file, which is synced and renamed; then the directory is synced.
"""
from libc.stdint cimport int64_t, uint64_t

from cext.store.timers.timer_run cimport TimerRun

cdef enum:
    RUNS_MAX = 160
    KEEPER_PATH_BYTES = 4096        # of the directory, with its NUL

cdef struct RunTable:
    TimerRun runs[RUNS_MAX]
    int64_t run_count
    uint64_t next_number            # of the next run's file
    int64_t covers                  # as in the checkpoint: it has the queue's messages below this

# Writes a checkpoint with the runs that are `named`. OK | NO_SPACE | IO_ERROR.
cdef int timer_checkpoint_save(const RunTable* table, const char* directory) noexcept nogil
# Fills the table, without opening runs. OK | NOT_FOUND | CORRUPT (also when it needs more log than
# there is) | IO_ERROR.
cdef int timer_checkpoint_load(RunTable* table, const char* directory,
                               int64_t log_end) noexcept nogil
