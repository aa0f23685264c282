"""Timer probe: a heap and its keeper, driven as the reactor does (timer_turn.pxd), no messages.

For tests against a model, and for benches that need files with many timers: the files are written
as in a broker.

    timers = DrivenTimers(keeper)
    timers.push(due_ms, place)          while timers.room
    timers.seal(covers, log_end); timers.step()
    timers.take(clock_ms, limit)        [(due_ms, place), ..]
"""
cimport cython
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memset

from cext.base.status cimport OK
from cext.store.timers.keeper_state cimport BATCH_ENTRIES, TimerBatch
from cext.store.timers.timer_heap cimport (
    TIMER_FRESH,
    TimerEntry,
    TimerHeap,
    TimerKey,
    key_before,
    key_same,
    timer_heap_close,
    timer_heap_open,
    timer_heap_pop,
    timer_heap_push,
    timer_heap_trim,
)
from cext.store.timers.timer_keeper cimport TimerKeeper, keeper_give_up, keeper_round


cdef class DrivenHeap:
    """A heap without a keeper."""
    cdef TimerHeap heap

    def __cinit__(self, int64_t capacity):
        if timer_heap_open(&self.heap, capacity) != OK:
            raise MemoryError

    def __dealloc__(self):
        timer_heap_close(&self.heap)

    def __len__(self):
        return self.heap.count

    def push(self, int64_t due_ms, int64_t place):
        cdef TimerEntry entry
        if self.heap.count == self.heap.capacity:
            raise OverflowError
        memset(&entry, 0, sizeof(entry))
        entry.key.due_ms = due_ms
        entry.key.place = place
        timer_heap_push(&self.heap, &entry)

    def pop(self):
        cdef TimerKey key = self.heap.entries[0].key
        if self.heap.count == 0:
            raise IndexError
        timer_heap_pop(&self.heap)
        return key.due_ms, key.place

    def trim(self, int64_t keep):
        cdef TimerKey key = timer_heap_trim(&self.heap, keep)
        return key.due_ms, key.place


@cython.no_gc_clear                  # __dealloc__ needs all its fields
cdef class DrivenTimers:
    """A heap and its keeper, driven as by the reactor: push, take what is due, seal when full."""
    cdef TimerHeap heap
    cdef readonly TimerKeeper keeper
    cdef int64_t fresh              # pushed since the last seal
    cdef TimerKey last
    cdef int64_t clock_ms

    def __init__(self, TimerKeeper keeper not None):
        self.keeper = keeper
        if timer_heap_open(&self.heap, keeper.capacity) != OK:
            raise MemoryError
        self.last.due_ms = -1
        self.last.place = 0

    def __dealloc__(self):
        timer_heap_close(&self.heap)

    @property
    def room(self) -> int:
        """How many entries may be pushed before a seal."""
        return max(0, min(self.heap.capacity // 2 - self.fresh,
                          self.heap.capacity - self.heap.count))

    def push(self, int64_t due_ms, int64_t place) -> None:
        cdef TimerEntry entry
        if self.room == 0:
            raise OverflowError
        memset(&entry, 0, sizeof(entry))
        entry.key.due_ms = due_ms
        entry.key.place = place
        entry.size = 100
        entry.flags = TIMER_FRESH
        self.fresh += 1
        timer_heap_push(&self.heap, &entry)

    def push_many(self, int64_t count, int64_t from_ms, int64_t span_ms, int64_t place) -> None:
        """Pushes `count` entries at random times; there must be room for them."""
        cdef uint64_t state = 0x9E3779B97F4A7C15 ^ <uint64_t> place
        cdef int64_t i
        for i in range(count):
            state ^= state << 13
            state ^= state >> 7
            state ^= state << 17
            self.push(from_ms + <int64_t> (state % <uint64_t> span_ms), place + i)

    def load(self) -> None:
        cdef TimerBatch* batch = self.keeper.next_batch()
        cdef int64_t i
        while (batch != NULL and self.heap.count + BATCH_ENTRIES <= self.heap.capacity
               and self.heap.count - self.fresh < self.heap.capacity // 2):
            for i in range(batch.count):
                timer_heap_push(&self.heap, &batch.entries[i])
            self.keeper.taken()
            batch = self.keeper.next_batch()

    def seal(self, int64_t covers, int64_t log_end) -> bool:
        if not self.keeper.can_seal():
            return False
        self.keeper.seal(&self.heap, self.heap.capacity // 4, covers, log_end)
        self.fresh = 0
        return True

    def step(self) -> int:
        """Does one round of the keeper's thread, which must not run, in this one. Returns how long
        the thread would sleep; < 0: a run is damaged."""
        cdef int wait_ms
        if self.keeper.thread.running:
            raise RuntimeError("the keeper is running")
        with nogil:
            wait_ms = keeper_round(self.keeper, True)
        if wait_ms < 0:
            keeper_give_up(&self.keeper.state)
        return wait_ms

    def take(self, int64_t clock_ms, int64_t limit) -> list:
        """At most `limit` keys that are due, in order."""
        cdef list out = []
        cdef TimerKey key
        self.clock_ms = clock_ms
        self.load()
        while self.heap.count > 0 and len(out) < limit:
            key = self.heap.entries[0].key
            if key.due_ms > clock_ms or not key_before(&key, &self.keeper.state.bound):
                break
            if not key_same(&key, &self.last):
                out.append((key.due_ms, key.place))
            self.last = key
            timer_heap_pop(&self.heap)
        self.keeper.set_clock(clock_ms, self.before()[0])
        return out

    def before(self) -> tuple:
        """A key before which everything was taken."""
        cdef TimerKey key
        key.due_ms = self.clock_ms + 1
        key.place = 0
        if key_before(&self.keeper.state.bound, &key):
            key = self.keeper.state.bound
        if self.heap.count > 0 and key_before(&self.heap.entries[0].key, &key):
            key = self.heap.entries[0].key
        return key.due_ms, key.place
