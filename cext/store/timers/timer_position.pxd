"""Timer position: how far timed messages are delivered, a small file written after each such turn.

    DIR/position     slots of 512 bytes at 0, 512 and 4096; a slot:
    u32 magic "rmqP" | u32 crc32 of what follows | i64 serial
    2 * (i64 due_ms | i64 place)     all that is before this key is delivered, of either clock ..
    i64 fed                          .. and below this offset of the queue
    i64 log_end                      the log holds what was delivered up to here
    i64 shift_ms | i64 base_ms       the steady clock, see cext/flow/delay/timer.pxd
    i64 boot                         hash of the kernel's boot id                      big-endian

Slot 0 is the newest position, slot 2 a copy of it in another page, should that be damaged; slot 1
is one whose deliveries are on the disk. After a kill the newest counts. After a power cut the log
may end before its log_end: then the other does, and what was delivered since is delivered once
more, not lost.

Writes of 512 bytes into the page cache, which say nothing the log does not. Only who lets timers go
by what slot 1 says has it synced before (timer_keeper.pxd). A sync that fails may have lost any of
the slots: none succeeds any more until the reactor has written all of them once again, which it can
do as they are written whole.
"""
from libc.stdint cimport int32_t, int64_t

from cext.store.timers.timer_heap cimport TimerKey

cdef enum:
    POSITION_SYNCERS = 2            # threads that have it synced: the keepers of both clocks

cdef struct TimerPosition:
    TimerKey before[2]
    int64_t fed
    int64_t log_end
    int64_t shift_ms
    int64_t base_ms
    int64_t boot

cdef struct PositionFile:
    int fd                          # owned; -1: not open
    # Owned, one of each thread: Linux says once to each open file that a page could not be written.
    int sync_fds[POSITION_SYNCERS]
    # Between the threads; read in this order.
    int32_t sync_failed             # syncers -> reactor
    int32_t rewriting               # reactor -> syncers: not all slots are written since
    int64_t serial
    TimerPosition waiting           # becomes the older slot when the log is durable so far
    bint waits
    TimerKey settled[2]             # of slot 1, or where a start went on: `before` of it
    int last_errno                  # of the last write that failed
    int damaged                     # slots that held something, and nothing right, when opened
    bint found                      # a right one was there

# OK | IO_ERROR | NO_SPACE. `newest`: the position to go on from, all zero when there is none.
cdef int position_open(PositionFile* file, const char* path, int64_t log_end,
                       TimerPosition* newest) noexcept nogil
cdef void position_close(PositionFile* file) noexcept nogil
cdef int position_write(PositionFile* file, const TimerPosition* now,
                        int64_t durable) noexcept nogil
# Whether all that was delivered before the position is on the disk, as far as the file knows.
cdef bint position_is_settled(const PositionFile* file,
                              const TimerPosition* position) noexcept nogil
# Whether the file would say more if the newest position was written once more: slot 1, or all slots
# after a sync that failed.
cdef bint position_settles(const PositionFile* file, int64_t durable) noexcept nogil
# Any thread. A sync has failed, and not all slots were written since.
cdef bint position_is_lost(const PositionFile* file) noexcept nogil
# A thread of its own, `syncer` from 0. OK: what was written before is on the disk. IO_ERROR: it is
# not known to be; to be tried again.
cdef int position_sync(PositionFile* file, int syncer) noexcept nogil
