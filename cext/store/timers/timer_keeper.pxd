"""Timer keeper: the thread that keeps timers of one clock in files when they do not fit in memory.

    reactor    has the next entries in its heap. When many are fresh, or a minute has passed, it
               seals the heap: copies of the fresh entries go to the keeper, and the heap forgets
               those that are due last
    keeper     sorts the copies into a new run (keeper_runs.pxd); hands entries back, in batches and
               in the order of their keys, about 2 s before they are due; merges 8 runs of a level
               into one of the next, so that 50 million entries are some 20 files; writes the
               checkpoint once the log is durable up to the records, at most once a second; makes
               the kernel read old log pages

The reactor may deliver entries below `bound`: all entries of all runs before it were handed over.
The bound comes with each batch. A seal lowers it to the first forgotten entry, until the keeper
knows the new run. An entry may be in two runs and in the heap at once, because the code that
delivers drops an entry with the same key as the one it delivered last.

Entries stay in the files for RECALL_MS after they were due: a deletion that was passed still counts
for messages due in the second after it, which a kill may leave undelivered. So a seal also takes
passed deletions, and open() says which deletions of the runs still count (`passed`).

`covers`: timed messages below this offset of their queue are in the runs that the checkpoint names
(timer_checkpoint.pxd); later ones are read from the queue again at the start. A damaged run ends
this keeper (`broken`): all runs are dropped and the queue is read from its beginning, as without a
checkpoint.

Example: 48,000 entries are sealed at offset 60,000, log end 9 MB: run 17 is written and synced;
when the log is durable up to 9 MB the checkpoint names the run, with covers 60,000. Killed at
offset 70,000, the next start reads the beginnings of the runs and 10,000 entries of the queue.

Memory: the heap (6 MiB), half as much for the copies, 16 batches of 12 KiB, and 12 KiB for each
run: some 10 MiB, of which only touched pages count.
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
    cdef readonly str damage        # what open() found damaged, with its file; or None
    # After open(): (due_ms, place, size) of deletions that were passed and may still count.
    cdef readonly list passed

    # Reactor. Whether the last seal was taken.
    cdef bint can_seal(self) noexcept nogil
    # Reactor. Gives copies of the fresh entries, at most half of the heap, to the keeper, and keeps
    # about `keep` entries. `covers`: all messages of the queue below it are in the heap or in runs.
    cdef void seal(self, TimerHeap* heap, int64_t keep, int64_t covers,
                   int64_t log_end) noexcept nogil
    # Reactor, just before seal(): adds a fresh deletion that was passed and has left the heap.
    cdef void seal_also(self, const TimerEntry* entry) noexcept nogil
    # Reactor. The oldest batch not taken, or NULL; taken() gives it back and moves `bound`.
    cdef TimerBatch* next_batch(self) noexcept nogil
    cdef void taken(self) noexcept nogil
    # Before start(): sets the position file (timer_position.pxd), which is open until stop();
    # `syncer`: the keeper's number among its syncers. No checkpoint is written while the file is
    # not on the disk.
    cdef void set_position(self, PositionFile* position, int syncer) noexcept nogil
    # Reactor, once a turn: sets the time for the keeper. Every message due before `delivered_ms` is
    # delivered, and the deliveries are on the disk.
    cdef void set_clock(self, int64_t clock_ms, int64_t delivered_ms) noexcept nogil
    cdef void wake(self) noexcept nogil
    # Reactor. Whether a damaged run has ended the keeper (`broken`).
    cdef bint is_broken(self) noexcept nogil

    cdef void _forget(self) noexcept nogil
    cdef int _open_runs(self, TimerKey from_key)
    cdef void _join(self) noexcept

# The thread, or another one while it does not run. Does all the work there is; `finishing`: writes
# the checkpoint, however new the last one is. Returns how many ms to sleep; CORRUPT - 1000: a run
# is damaged.
cdef int keeper_round(TimerKeeper keeper, bint finishing) noexcept nogil
# Removes the checkpoint after a run was found damaged, so that the next start reads the whole queue
# again.
cdef void keeper_give_up(KeeperState* k) noexcept nogil
