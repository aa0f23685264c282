"""Timer run: a file of timer entries in the order of their keys, written once, read from the front.

    entry  i64 due_ms | i64 place | i32 size | u32 check         24 bytes, little-endian
           check: bit 0 TIMER_ROLL, the other 31 those of the CRC-32 of the first 20 bytes

    DIR/<number, 20 digits>.run        all entries, nothing else; the checkpoint says how many

Messages are delivered in the order of the keys, so the delivered entries are the first ones of a
run: a run is never changed, and the place to go on is found by a search for the position's key. A
file is synced before a checkpoint names it. An entry that is not right (a flipped bit) ends the
reading of its run with CORRUPT; the queue of timed messages is then read again (timer_keeper.pxd).

Example: 48,000 entries are 1,152,000 bytes; entry 100 begins at byte 2400.
"""
from libc.stdint cimport int32_t, int64_t, uint64_t

from cext.store.timers.timer_heap cimport TimerEntry, TimerKey

cdef enum:
    RUN_BLOCK = 512                 # entries read at once
    RUN_PATH_BYTES = 4160

cdef struct TimerRun:
    uint64_t number                 # names the file
    int64_t level                   # how often it was merged
    int64_t count                   # entries in the file
    int64_t oldest                  # lowest log offset of its entries' records
    int64_t cursor                  # next entry to be read
    int64_t last_ms                 # when the last entry is due
    int64_t covers                  # messages of the queue below this offset are in runs ..
    int64_t log_end                 # .. once the log is durable up to here
    bint named                      # the checkpoint on the disk names it
    bint synced
    int fd                          # owned
    TimerEntry* block               # owned, RUN_BLOCK entries
    int64_t block_first
    int64_t block_count

# Writes a run; entries must be added in order.
cdef struct RunWriter:
    int fd                          # owned
    int64_t count                   # entries written or in the buffer
    int64_t buffered
    int64_t unsynced                # entries since the last sync
    int64_t oldest                  # as in TimerRun
    TimerEntry* buffer              # owned, WRITE_BUFFER entries
    uint64_t number

cdef enum:
    WRITE_BUFFER = 16384            # entries, 384 KiB
    SYNC_ENTRIES = 349525           # 8 MiB: a sync never has to wait for more

cdef void run_path(const char* directory, uint64_t number, char* path) noexcept nogil
# Opens the file of a run whose number and count are set. OK | CORRUPT (too short) |
# IO_ERROR | POOL_EMPTY.
cdef int run_open(TimerRun* run, const char* directory) noexcept nogil
cdef void run_close(TimerRun* run) noexcept nogil
# The entry at the cursor, without moving it. OK | NOT_FOUND (end) | CORRUPT | IO_ERROR.
cdef int run_peek(TimerRun* run, TimerEntry** entry) noexcept nogil
# The index of the first entry not before `key`, or a status < 0.
cdef int64_t run_find(TimerRun* run, const TimerKey* key) noexcept nogil

# With the GIL. Adds (due_ms, place, size) of deletions before `key` that still count for messages
# after it; everything before `key` is delivered. Moves the cursor. OK | CORRUPT | IO_ERROR.
cdef int run_passed(TimerRun* run, const TimerKey* key, list found) except? -1

cdef int run_writer_open(RunWriter* writer, const char* directory, uint64_t number) noexcept nogil
cdef int run_writer_add(RunWriter* writer, const TimerEntry* entry) noexcept nogil
# Writes the buffer and closes; the last entries are not synced. OK | NO_SPACE | IO_ERROR.
cdef int run_writer_finish(RunWriter* writer) noexcept nogil
cdef void run_writer_drop(RunWriter* writer) noexcept nogil
