# Log link: what the threads around one commit log share: watermarks, poison and hand-overs.
#
#   reactor  --segments, `written`, wake-->        flusher    --`durable`, notify--> reactor
#   reactor  --`wanted_start`, drops, wake-->      preparer   --`ready_start`, fd--> reactor
#   reactor  --`wanted_room`, wake-->              preparer   --`room`, notify-->    reactor
#   anyone   --poison (the first one stays)-->     everyone
#
# There is no lock. A word that crosses threads is written by exactly one side, with release order,
# and read with acquire order; what the word announces was written before it. Threads sleep on
# eventfds.
#
# Before the flusher sleeps it sets flusher_sleeping = 1, fences, and looks at `written` once more.
# The reactor stores `written`, fences, and looks at flusher_sleeping; if that is 1, it sets it to 0
# and signals. One of the two always sees the other, so no wake-up is lost, and a flusher that is
# awake costs no system call.
#
# Example: written moves 1000 -> 1400 while the flusher syncs up to 1000: no signal is sent; the
# flusher publishes durable = 1000, looks again, sees 1400 and syncs once more.

from libc.stdint cimport int32_t, int64_t, uint64_t

from cext.base.atomics cimport load_acquire_i32
from cext.base.thread_owner cimport thread_clear, thread_note

cdef enum:
    LOG_PATH_MAX = 4096         # of a directory
    FILE_PATH_MAX = 4160        # of a file in it
    HANDLES_MAX = 64            # segments written but not yet synced; a power of two
    DROPS_MAX = 64              # dropped segments not yet removed; a power of two
    FLUSH_PAGE_BYTES = 4096     # RocketMQ counts pages of 4 KiB, whatever the machine has

# How far the log is, as physical offsets. durable <= written <= appended; dispatched <= written.
# The right column says which threads use a mark.
#   appended    records are complete in the tail ring            only the reactor
#   written     pwrite has returned: survives kill -9            reactor writes, others acquire
#   durable     fdatasync has returned: survives a power cut     the syncing thread writes, others
#                                                                acquire
#   dispatched  consume queues know the records                  only the reactor (cext/flow)
#   replicated  every slave that counts has the records          only the reactor (cext/flow)
#   visible     consumers may be given records below it.         only the reactor (cext/flow)
#               INT64_MAX: all that is written. Records from
#               it on are not dispatched, except by a start,
#               and then consumers are given nothing
#               (UNCONFIRMED, a role)
# cext/flow/append/promise.pxd says which mark an answer waits for.
cdef struct Watermarks:
    int64_t appended
    int64_t written
    int64_t durable
    int64_t dispatched
    int64_t replicated
    int64_t visible

cpdef enum LogOperation:        # what failed
    OPERATION_NONE = 0
    OPERATION_WRITE = 1
    OPERATION_SYNC = 2
    OPERATION_SYNC_DIRECTORY = 3

cdef enum PoisonState:
    POISON_NONE = 0
    POISON_FILLING = 1          # set by the thread whose operation failed; others see no poison yet
    POISON_TOLD = 2

cdef struct Poison:
    int32_t state               # PoisonState; only grows. POISON_TOLD: the fields below are set
    int32_t operation           # LogOperation; this and the rest are of the first failure
    int32_t error               # errno
    int64_t offset              # physical offset from which on nothing is promised
    char path[LOG_PATH_MAX]

cdef struct SegmentHandle:
    int64_t start               # physical offset of its first byte
    int fd                      # read-write

cdef struct CommitHandle:       # a segment handed to the committer
    int64_t start
    int64_t data_end            # end of its records; set before committable passes the segment
    int fd                      # borrowed: the flusher closes it, after all of it was committed

cdef struct LogLink:
    # fixed after construction
    Watermarks* marks           # borrowed from the CommitLog that owns this struct
    int64_t segment_bytes
    bint warm                   # new segments are filled with zeros before their use (segment.pxd)
    char directory[LOG_PATH_MAX]         # .../commitlog
    char spare_directory[LOG_PATH_MAX]   # .../commitlog.spare: files that are not segments (yet)
    int32_t reactor             # thread_owner.pxd: the thread of `appended`, `written` and pushes
    Poison poison
    int64_t min_offset          # first readable byte; reactor writes, others acquire
    # The tail ring may hold the log up to here, and then nothing below claimed - ring size. The
    # reactor sets it before it writes there; the indexer reads the ring without asking
    # (log_window.pxd).
    int64_t claimed
    # reactor -> flusher: segments in order, each from its activation on
    SegmentHandle handles[HANDLES_MAX]
    uint64_t handles_pushed     # reactor
    uint64_t handles_popped     # flusher, which closes an fd when its segment is full and synced
    int flusher_event
    int32_t flusher_sleeping    # see above
    int32_t syncing             # 1: held by the thread that syncs and moves `durable`
    int64_t usual_sync_us       # what a sync took lately; the syncing thread writes
    # reactor <-> committer, only with a store pool (committer.pxd)
    CommitHandle commit_handles[HANDLES_MAX]
    uint64_t commit_pushed      # reactor
    uint64_t commit_popped      # committer
    int64_t committable         # reactor: the log up to here may be written to its file
    int64_t committed           # committer: written up to here; the reactor copies it to `written`
    int64_t commit_least_bytes  # fixed: so many must wait to wake a committer in state 2
    int committer_event
    int32_t committer_sleeping  # 0 awake; 1 until anything comes; 2 until commit_least_bytes wait
    # reactor -> preparer
    int64_t wanted_start        # the segment that must be made ready; -1 none
    int64_t wanted_room         # the active segment must have blocks up to here; 0: it has all
    int64_t drops[DROPS_MAX]    # starts of segments to remove
    uint64_t drops_pushed       # reactor
    uint64_t drops_popped       # preparer
    int preparer_event
    # preparer -> reactor
    int64_t room                # the segment that a start continued has blocks up to here
    int32_t room_status         # Status of the last try to give it more: OK, NO_SPACE or IO_ERROR
    int32_t room_error          # errno of that try
    int64_t ready_start         # the segment that is ready; -1 none yet. ready_fd is valid with it
    int ready_fd
    bint ready_touched          # all its blocks were written before: it is warm or recycled
    int32_t prepare_status      # Status of the last try: OK, NO_SPACE or IO_ERROR
    int32_t prepare_error       # errno of that try
    # flusher and preparer -> reactor
    int notify_event            # eventfd the reactor polls: `durable` moved, poison, segment ready
    int32_t reactor_awake       # 1: no signal is needed, as the reactor looks before it sleeps

# Any thread. Poisons the log, unless it already is poisoned, and wakes all threads. The log is
# poisoned when this returns, even if another thread was first; it stays so.
cdef void log_poison(LogLink* link, int operation, int error, int64_t offset,
                     const char* path) noexcept nogil

# Any thread, a load and a compare.
cdef inline bint log_is_poisoned(const LogLink* link) noexcept nogil:
    return load_acquire_i32(&link.poison.state) == POISON_TOLD

# Flusher and preparer: wakes the reactor, with a system call only when it may be asleep.
cdef void log_notify(LogLink* link) noexcept nogil
# Reactor: wakes the flusher, with a system call only when it sleeps.
cdef void log_wake_flusher(LogLink* link) noexcept nogil

# Reactor: publishes `committable` and wakes the committer if enough waits.
cdef void log_offer(LogLink* link, int64_t committable) noexcept nogil
# Reactor: notes this thread as the reactor, for debug builds; with False, any thread may be it.
cdef inline void log_own(LogLink* link, bint mine) noexcept nogil:
    if mine:
        thread_note(&link.reactor)
    else:
        thread_clear(&link.reactor)

# Reactor: asks for blocks for the active segment up to `end`; 0: it has all. Like
# log_want_segment, this does not wake the preparer.
cdef void log_want_room(LogLink* link, int64_t end) noexcept nogil
# Reactor: asks for this segment to be made ready.
cdef void log_want_segment(LogLink* link, int64_t start) noexcept nogil
# Each kind of push must be in the order of the log, without a gap; another order ends the process.
# Reactor: gives a segment to the committer. False: HANDLES_MAX wait already.
cdef bint log_push_commit(LogLink* link, int64_t start, int fd) noexcept nogil
# Reactor: gives a segment to the flusher. False: HANDLES_MAX wait already.
cdef bint log_push_handle(LogLink* link, int64_t start, int fd) noexcept nogil
# Reactor: asks for a segment to be removed or recycled. False: DROPS_MAX wait already.
cdef bint log_push_drop(LogLink* link, int64_t start) noexcept nogil
