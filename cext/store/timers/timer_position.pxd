"""Timer position: a small file that says how far timed messages are delivered.

It is written after each turn that delivers some:

    DIR/position     slots of 512 bytes at 0, 512 and 4096; a slot:
    u32 magic "rmqP" | u32 crc32 of what follows | i64 serial
    2 * (i64 due_ms | i64 place)     everything before this key is delivered, one for each clock ..
    i64 fed                          .. and below this offset of the queue
    i64 log_end                      the log holds the deliveries up to here
    i64 shift_ms | i64 base_ms       the steady clock, see cext/flow/delay/timer.pxd
    i64 boot                         hash of the kernel's boot id                      big-endian

Slot 0 is the newest position. Slot 2 is a copy of it in another page, in case the first is damaged.
Slot 1 is a position whose deliveries are on the disk. After a kill the newest position counts.
After a power cut the log may end before that position's log_end: then slot 1 counts, and messages
delivered since are delivered once more, not lost.

A write is 512 bytes into the page cache, and needs no sync, since the log knows all of it. Only a
keeper that drops timers because slot 1 says they are delivered syncs the file before
(timer_keeper.pxd). A failed sync may have lost any of the slots: no sync succeeds any more until
the reactor has written all slots again, which it can do because each is written as a whole.
"""
from libc.stdint cimport int32_t, int64_t

from cext.store.timers.timer_heap cimport TimerKey

cdef enum:
    POSITION_SYNCERS = 2            # threads that sync the file: the keepers of both clocks

cdef struct TimerPosition:
    TimerKey before[2]
    int64_t fed
    int64_t log_end
    int64_t shift_ms
    int64_t base_ms
    int64_t boot

cdef struct PositionFile:
    int fd                          # owned; -1: not open
    # Owned, one for each thread: Linux reports a failed write of a page once to each open file.
    int sync_fds[POSITION_SYNCERS]
    # Between the threads; read in this order.
    int32_t sync_failed             # syncers -> reactor
    int32_t rewriting               # reactor -> syncers: not all slots are written since then
    int64_t serial
    TimerPosition waiting           # goes into slot 1 when the log is durable up to its log_end
    bint waits
    TimerKey settled[2]             # `before` of slot 1, or of the position that the start used
    int last_errno                  # of the last write that failed
    int damaged                     # slots that were not empty and not right, when opened
    bint found                      # a right slot was there

# OK | IO_ERROR | NO_SPACE. `newest`: the position to go on from; all zero: there is none.
cdef int position_open(PositionFile* file, const char* path, int64_t log_end,
                       TimerPosition* newest) noexcept nogil
cdef void position_close(PositionFile* file) noexcept nogil
cdef int position_write(PositionFile* file, const TimerPosition* now,
                        int64_t durable) noexcept nogil
# Whether all deliveries before the position are on the disk, as far as the file knows.
cdef bint position_is_settled(const PositionFile* file,
                              const TimerPosition* position) noexcept nogil
# Whether it is useful to write the newest position once more: for slot 1, or for all slots after a
# failed sync.
cdef bint position_settles(const PositionFile* file, int64_t durable) noexcept nogil
# Any thread. Whether a sync has failed and not all slots were written since.
cdef bint position_is_lost(const PositionFile* file) noexcept nogil
# The syncer's thread; `syncer` counts from 0. OK: all earlier writes are on the disk. IO_ERROR:
# they may not be; try again.
cdef int position_sync(PositionFile* file, int syncer) noexcept nogil
