"""Timer: timed messages (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS), to the millisecond.

    send      redirect.pxd stores the message in rmq_sys_wheel_timer, queue 0, in Apache's form
    feed      timer_feed.pxd reads that queue, whoever wrote it, and puts entries into a heap
    files     what the heap cannot hold is in files (cext/store/timers/timer_keeper.pxd)
    deliver   timer_delivery.pxd appends what is due to REAL_TOPIC, a bounded number a turn

The queue is the source: everything else is made from it. So a send costs one record; a message fed
twice is delivered once (equal keys come out one after the other); and while a heap is full,
messages just stay in the queue longer.

There are two clocks, each with a heap and a keeper. A message with TIMER_DELIVER_MS waits for the
wall clock, whatever that is set to. One with TIMER_DELAY_SEC or _MS waits for the steady clock,
which is the wall clock minus the steps it was set by, so the message keeps its remaining time. The
steps are kept over a restart on the same boot of the kernel.

Position (cext/store/timers/timer_position.pxd): every message before this key is delivered, except
those fed later. It is written after the turn's write, so after a kill at most the last turn's
messages come twice, and after a clean stop none. Deletions before the position still count, because
they apply to messages due up to a second later. So they stay in the files for that second
(timer_keeper.pxd), and a start takes those no more than a second before the position into the table
of recalls.

Example: TIMER_DELAY_SEC=10 sent at 12:00:00.123: TIMER_OUT_MS is 12:00:10.000 (Apache's precision),
the queue's entry has the tags code 12:00:10.123, which is when it is delivered. At 12:00:04 the
clock is set to 13:00:04: it is delivered at 13:00:10.123.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from cext.flow.fetch.readahead cimport Readahead
from cext.store.timers.timer_heap cimport TimerEntry, TimerHeap, TimerKey
from cext.store.timers.timer_position cimport PositionFile, TimerPosition

cdef enum:
    TIMER_CLOCKS = 2
    CLOCK_WALL = 0
    CLOCK_STEADY = 1
    HEAP_ENTRIES = 262144           # of each clock: 6 MiB
    FRESH_MAX = 1024                # a power of two

# Names (hashes of topic and key) of recalled messages that are not due yet, or were a second ago.
cdef struct RecalledKey:
    uint64_t hash_a, hash_b         # both 0: free
    TimerEntry deletion             # TIMER_FRESH: in no file before the next seal

cdef struct RecallTable:
    RecalledKey* keys               # owned; NULL until the first recall
    int64_t capacity                # a power of two
    int64_t count
    int64_t last_ms                 # when the last of them is due

# What the feed needs to know of a message that this process has just stored, so that it need not
# read the record again. The record itself is checked when it is delivered.
cdef struct FreshTimer:
    int64_t queue_offset
    int64_t physical_offset
    int64_t due_ms                  # by the wall clock; 0: nothing is known
    int64_t stored_ms               # wall clock
    bint relative                   # it was sent with a delay, not with a time

cdef struct TimerClock:
    int64_t now_ms
    int64_t awaited_ms              # monotonic: the keeper owes what is due since then; 0: nothing
    TimerHeap heap                  # owned
    RecallTable recalled
    TimerKey last                   # key of the message delivered last
    TimerKey parked                 # first of the messages that wait for their topic
    int64_t parked_count
    int64_t unsealed                # fed since the last seal: in no file, unless delivered

cdef struct Timers:
    bint enabled                    # timerWheelEnable
    bint started                    # control has started the timers
    bint ready                      # all that was in the queue at the start is fed
    bint clock_moved                # the position must be written
    bint seal_soon                  # fed messages have steady times from before a step
    TimerClock clocks[TIMER_CLOCKS]
    int64_t fed                     # entries of the queue below it are fed
    FreshTimer fresh[FRESH_MAX]     # each at its queue offset, modulo FRESH_MAX
    TimerPosition recovered         # the position of the last run
    TimerPosition position          # as written last
    PositionFile file
    int64_t shift_ms                # steady clock minus wall clock
    int64_t next_check_ms           # monotonic: no look before; 0: look at once
    int64_t last_seal_ms            # monotonic
    uint64_t done_seen              # counters at the newest position
    bint file_failed                # a write of the position failed, and that was logged
    bint sync_failed                # the same of a sync of it
    Readahead readahead             # for feeding or for delivering
    # Monotonic. Feeding, or delivering, does not read before, as a read failed or an entry could
    # not be made anew. 0: the last read succeeded.
    int64_t feed_again_ms
    int64_t deliver_again_ms
    # Settings.
    int64_t max_delay_ms            # timerMaxDelaySec
    int64_t precision_ms            # timerPrecisionMs, of TIMER_OUT_MS
    int64_t roll_ms                 # stored anew after this time (timerRollWindowSlot)
    # Counters.
    uint64_t delivered
    uint64_t recalled
    uint64_t rolled
    uint64_t dropped

cdef inline FreshTimer* fresh_timer(Timers* x, int64_t queue_offset) noexcept nogil:
    return &x.fresh[queue_offset & (FRESH_MAX - 1)]
