"""Keeper state: the memory of a timer keeper (declarations; no .pyx).

The comments say which thread uses a part: the reactor, the keeper's thread, or one after the other.
"""
from libc.stdint cimport int32_t, int64_t, uint64_t

from cext.store.timers.timer_checkpoint cimport KEEPER_PATH_BYTES, RunTable
from cext.store.timers.timer_heap cimport TimerEntry, TimerKey
from cext.store.timers.timer_position cimport PositionFile
from cext.store.timers.timer_run cimport RunWriter, TimerRun

cdef enum:
    BATCH_ENTRIES = 512
    BATCHES = 16                    # a power of two
    MERGE_RUNS = 8
    MARKS_MAX = 64
    OBSOLETE_MAX = 512
    SEAL_FREE = 0                   # the reactor may fill it
    SEAL_FULL = 1                   # the keeper must take it

cdef struct TimerBatch:
    int64_t seals                   # seals taken when it was made
    TimerKey bound
    int64_t count
    TimerEntry entries[BATCH_ENTRIES]

cdef struct TimerSeal:
    int32_t state                   # SEAL_..; says which thread owns the rest
    int64_t count                   # while it is free: only entries of seal_also()
    TimerEntry* entries             # owned; half as many as the heap has
    TimerKey bound                  # entries from it on were forgotten, in whatever run they are
    int64_t covers
    int64_t log_end

cdef struct SealMark:
    int64_t covers
    int64_t log_end

cdef struct RunMerge:
    bint active
    int64_t level                   # of the inputs
    int64_t input_count
    TimerRun inputs[MERGE_RUNS]     # opened for the merge alone
    RunWriter writer
    TimerKey last                   # newest key written
    bint any

cdef struct KeeperState:
    # Between the threads.
    int32_t stopping                # owner -> keeper
    int32_t broken                  # keeper -> reactor
    int32_t event                   # wakes the keeper
    int64_t clock_ms                # reactor -> keeper: time of this clock, not exact
    # reactor -> keeper: entries due before it are not needed once the position is synced
    int64_t delivered_ms
    PositionFile* position          # borrowed, shared by both keepers; NULL: none
    int position_syncer             # this keeper's number among the file's syncers
    int64_t head, tail              # number of batches taken by the reactor, made by the keeper
    TimerSeal seal
    TimerBatch* batches             # owned, BATCHES of them
    # The reactor's.
    int64_t seals_made
    TimerKey forgotten              # the smallest key that the newest seal forgot
    TimerKey bound                  # all entries below it may be delivered
    # The keeper's.
    char directory[KEEPER_PATH_BYTES]
    RunTable table
    SealMark marks[MARKS_MAX]       # seals that wait for the log
    int64_t mark_count
    int64_t seals_taken
    TimerKey sent_bound             # bound of the newest batch
    int64_t sent_seals
    uint64_t obsolete[OBSOLETE_MAX]     # files that no checkpoint will name
    int64_t obsolete_count
    bint stale                      # the checkpoint must be written
    int64_t saved_us                # when it was last written, monotonic
    RunMerge merge
    char prefetch_path[KEEPER_PATH_BYTES + 64]
    int prefetch_fd
    int64_t prefetch_segment
    int64_t prefetch_offsets[BATCH_ENTRIES]
    uint64_t loaded, sealed, merged, checkpoints


cdef inline TimerKey key_of(int64_t due_ms, int64_t place) noexcept nogil:
    cdef TimerKey key
    key.due_ms = due_ms
    key.place = place
    return key
