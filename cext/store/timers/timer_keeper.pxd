"""Timer keeper: the thread that keeps the timers of one clock that do not fit in memory, in files.

    reactor    has the next entries in its heap; when many are fresh, or a minute has passed, it
               seals it: copies of the fresh go to the keeper, and what is late is forgotten
    keeper     sorts the copies into a new run (keeper_runs.pxd); hands entries back, in batches and
               in the order of their keys, about 2 s before they are due; merges 8 runs of a level
               into one of the next, so that 50 million entries are some 20 files; writes the
               checkpoint once the log is durable that holds the records, not more often than once
               a second; has the kernel read old log pages

What the reactor may deliver is below `bound`: all entries of all runs before it were handed over.
The bound comes with each batch; a seal lowers it to what was forgotten until the keeper knows the
new run. Entries may be in two runs and in the heap at once, for whoever delivers drops what has the
key of what it delivered last.

Entries stay in the files for RECALL_MS after they were due: a deletion that is passed counts for
messages of the second behind it, which a kill may leave undelivered. So a seal takes passed
deletions along, and open() says which of the runs still count (`passed`).

`covers`: timed messages below this offset of their queue are in the runs that the checkpoint names
(timer_checkpoint.pxd); those from there on are read from the queue again at the start. A run that
is damaged ends this keeper (`broken`): all runs are dropped and the queue is read from its
beginning, as without a checkpoint.

Example: 48,000 entries sealed at offset 60,000, log end 9 MB: run 17 is written and synced; when
the log is durable up to 9 MB the checkpoint names it with covers 60,000. Killed at offset 70,000:
the next start reads runs' heads and 10,000 entries of the queue.

Memory: the heap (6 MiB), half of it for the copies, 16 batches of 12 KiB, 12 KiB a run: some 10
MiB, as far as it is used.
"""
from libc.stdint cimport int64_t

from cext.base.native_thread cimport NativeThread
from cext.store.log.commit_log cimport CommitLog
from cext.store.timers.keeper_state cimport KeeperState, TimerBatch
from cext.store.timers.timer_heap cimport TimerEntry, TimerHeap, TimerKey
from cext.store.timers.timer_position cimport PositionFile

cdef class TimerKeeper:
    cdef KeeperState state
    cdef NativeThread thread
    cdef CommitLog log              # kept alive while the thread runs
    cdef readonly str directory
    cdef readonly int64_t capacity  # entries of the heap that is sealed
    cdef readonly str damage        # what open() could not go on from, with its file; or None
    # After open(): (due_ms, place, size) of deletions that were passed and may still count.
    cdef readonly list passed

    # Reactor. Whether the last seal was taken.
    cdef bint can_seal(self) noexcept nogil
    # Reactor. Copies of the fresh entries, at most half of the heap, go to the keeper; about `keep`
    # entries stay. `covers`: all messages of the queue below it are in the heap or in runs.
    cdef void seal(self, TimerHeap* heap, int64_t keep, int64_t covers,
                   int64_t log_end) noexcept nogil
    # Reactor, just before seal(): a fresh deletion that was passed and is in the heap no more.
    cdef void seal_also(self, const TimerEntry* entry) noexcept nogil
    # Reactor. The oldest batch not taken, or NULL; taken() gives it back and moves `bound`.
    cdef TimerBatch* next_batch(self) noexcept nogil
    cdef void taken(self) noexcept nogil
    # Before start(): the file that says so (timer_position.pxd), open until stop(); `syncer`: which
    # of its threads the keeper is. No checkpoint is written while the file is not on the disk.
    cdef void set_position(self, PositionFile* position, int syncer) noexcept nogil
    # Reactor, once a turn: what the keeper goes by. All that was due before `delivered_ms` is
    # delivered, and what was delivered is on the disk.
    cdef void set_clock(self, int64_t clock_ms, int64_t delivered_ms) noexcept nogil
    cdef void wake(self) noexcept nogil
    # Reactor, after `broken`: forgets all runs; the thread has ended.
    cdef bint is_broken(self) noexcept nogil

    cdef void _forget(self) noexcept nogil
    cdef int _open_runs(self, TimerKey from_key)
    cdef void _join(self) noexcept
