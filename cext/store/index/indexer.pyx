"""The indexer thread. See indexer.pxd.

    indexer = Indexer(log, "/store/index")
    indexer.open(trusted=True, index_ms=0)      # after recovery of the log
    indexer.start()
    indexer.ask(7, b"topic", b"key", 0, 32, 0, 2**63 - 1, 1 << 24)      does not wait
    indexer.answers()   -> [(7, "", [records], last ms, last offset)], when answers_fd is readable
    indexer.stop()                              # indexes what is written, syncs
"""
import os
import threading

cimport cython
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy

from cext.base.atomics cimport (
    load_acquire_i32, load_acquire_i64, store_release_i32, store_release_i64)
from cext.base.byteorder cimport load_u32
from cext.base.check cimport check
from cext.base.clock cimport monotonic_us, wall_ms
from cext.base.native_thread cimport NativeBody, native_thread_join, native_thread_start
from cext.base.status cimport Status
from cext.base.sysio cimport close_file, event_open, event_signal, event_wait
from cext.base.watermark cimport watermark_move
from cext.memory.spsc_ring cimport (
    spsc_close, spsc_is_empty, spsc_open, spsc_pop, spsc_put,
)
from cext.store.index.index_key cimport (
    KeyTexts, KeyTokens, find_key_texts, hash_on, next_token, positive_hash,
)
from cext.store.index.index_store cimport HITS_MAX, KEYS_MAX
from cext.wire.limits cimport PROPERTIES_BYTES_MAX, TOPIC_BYTES_MAX

from rmq.errors import StoreError

cdef enum:
    JOBS = 64
    BUSY_MS = 10                # sleep after work
    QUERY_WAIT_MS = 2000        # a query waits at most so long for indexing
    STOP_MS = 10_000            # so does stop(); the rest is indexed after the next start
    RETRY_US = 1_000_000        # after a failure
    STEP_KEYS = KEYS_MAX // 2   # gathered before they are put
    FLUSH_ENTRIES = 2_000_000   # when so many were put since the last flush, the next is due
    GENTLE_STEPS = 4            # after a start the thread does so many steps and then sleeps
    GENTLE_MS = 1               # so long, until it has indexed what the last process left

ROWS = {1: "I1", 2: "I2", 3: "I3", 4: "I4", 5: "I5", 6: "I6"}


@cython.no_gc_clear                  # __dealloc__ needs the object's fields
cdef class Indexer:
    def __cinit__(self, CommitLog log not None, str directory, *, int32_t slots=5_000_000,
                  int32_t entries=20_000_000, int64_t flush_ms=15_000, int64_t sync_ms=60_000,
                  int64_t idle_max_ms=500, bint borrows=True):
        cdef int error = 0
        self.wake_fd = self.done_fd = -1
        self.lock = threading.Lock()
        self.log = log
        self.store = IndexStore(log, directory, slots, entries)
        self.tail = LogCursor(log, borrows=borrows)
        self.flush_us = flush_ms * 1000
        self.sync_us = sync_ms * 1000
        self.idle_max_ms = idle_max_ms
        self.keys = <IndexKey*> malloc(KEYS_MAX * sizeof(IndexKey))
        if (self.keys == NULL or spsc_open(&self.jobs, JOBS) != Status.OK
                or spsc_open(&self.answered, JOBS) != Status.OK):
            raise MemoryError("no memory for the indexer")
        self.wake_fd = event_open(&error)
        self.done_fd = event_open(&error)
        if self.wake_fd < 0 or self.done_fd < 0:
            raise StoreError(f"eventfd: {os.strerror(error)}")

    def __dealloc__(self):
        self.stop()
        drop_jobs(&self.jobs)
        drop_jobs(&self.answered)
        free(self.keys)
        close_file(self.wake_fd)
        close_file(self.done_fd)

    cdef int64_t* safe_ms(self) noexcept nogil:
        return &self.store.safe_ms

    # ---- the thread

    cdef void run(self) noexcept nogil:
        cdef int64_t sleep_ms = BUSY_MS
        cdef int64_t give_up = 0
        cdef int64_t backlog = load_acquire_i64(&self.log.marks.written)
        cdef int steps = 0
        cdef bint stopping
        self._begin()
        while True:
            stopping = load_acquire_i32(&self.stopping) != 0
            if stopping and give_up == 0:
                give_up = monotonic_us() + STOP_MS * 1000
            self._answer()
            self._upkeep(monotonic_us())
            if self.step() > 0 and (give_up == 0 or monotonic_us() < give_up):
                sleep_ms = BUSY_MS
                steps += 1
                # The broker is starting: clients that wait for it go first.
                if self.tail.position < backlog and not stopping and steps % GENTLE_STEPS == 0:
                    event_wait(self.wake_fd, GENTLE_MS)
                continue
            if stopping:
                break
            if spsc_is_empty(&self.jobs):
                event_wait(self.wake_fd, <int> sleep_ms)
                sleep_ms = min(sleep_ms + sleep_ms // 2, self.idle_max_ms)
        self.store.sync()
        self._answer()

    cdef void _begin(self) noexcept nogil:
        """Finds where indexing goes on. If the files cannot be mended, it begins anew."""
        cdef bint behind = False
        cdef RecordView view
        cdef int64_t start = self.store.recover(&behind)
        self.flushed_us = self.synced_us = monotonic_us()
        if start < 0:
            start = 0
            behind = False
        if behind and self.tail.at(start, &view) == Status.OK:
            start += view.total_bytes
        self.tail.seek(max(start, self.log.min_offset()))
        store_release_i64(&self.indexed, self.tail.position)

    cdef int step(self) noexcept nogil:
        """Indexes a piece of the log. Returns the number of records; 0: there was nothing to do, or
        a failure."""
        cdef RecordView view
        cdef int count = 0
        if self.retry_us != 0 and monotonic_us() < self.retry_us:
            return 0
        self.retry_us = 0
        self.key_count = 0
        self.again = self.split = False
        self.step_from = self.tail.position
        self.skipped_before = self.tail.skipped
        while self.key_count < STEP_KEYS:
            if self.tail.next(&view) != Status.OK:
                break
            if not self._gather(&view):
                return self.again
            count += 1
            if self.split:              # keys already in the index must not be read again
                break
        if not self._put():
            return self.again
        self.records += <uint64_t> count
        watermark_move(&self.indexed, self.tail.position,
                       b"the key index: `indexed` never moves back")
        check(self.tail.position <= load_acquire_i64(&self.log.marks.written),
              b"the key index: what is indexed was written", self.tail.position,
              self.log.marks.written)
        return count

    cdef bint _gather(self, const RecordView* view) noexcept nogil:
        cdef KeyTexts texts
        cdef KeyTokens tokens
        cdef const uint8_t* token
        cdef uint32_t length = 0
        cdef uint32_t hash
        self.record_from = self.key_count
        if not find_key_texts(view, &texts):
            return True
        if view.topic_bytes > sizeof(self.topic):
            return True                     # no topic is that long, so no query will ask for it
        if self.topic_bytes != view.topic_bytes or memcmp(self.topic, view.topic,
                                                          view.topic_bytes) != 0:
            memcpy(self.topic, view.topic, view.topic_bytes)
            self.topic_bytes = view.topic_bytes
            self.topic_hash = hash_on(hash_on(0, view.topic, view.topic_bytes), b"#", 1)
        hash = self.topic_hash
        if texts.unique != NULL and not self._add(
                hash_on(hash, texts.unique, texts.unique_bytes), view):
            return False
        tokens.at = texts.keys
        tokens.end = texts.keys + texts.keys_bytes
        token = next_token(&tokens, &length) if texts.keys != NULL else NULL
        while token != NULL:
            if not self._add(hash_on(hash, token, length), view):
                return False
            token = next_token(&tokens, &length)
        if texts.tags != NULL and not self._add(
                hash_on(hash_on(hash, b"T#", 2), texts.tags, texts.tags_bytes), view):
            return False
        if self.key_count > self.record_from:
            self.keys[self.record_from].run = self.key_count - self.record_from
        return True

    cdef bint _add(self, uint32_t hash, const RecordView* view) noexcept nogil:
        cdef IndexKey* key
        if self.key_count == KEYS_MAX:
            # The record has so many keys that those gathered must be put before the rest is read.
            # Borrowed bytes may turn out to be overwritten, so only the keys of earlier records are
            # put then.
            if self.tail.window.borrowed:
                self.tail.seek(view.physical_offset)
                self.key_count = self.record_from
                if self._put():
                    self.tail.window.copy_next_piece()
                    self.again = True
                return False
            self.keys[self.record_from].run = self.key_count - self.record_from
            if not self._put():
                return False
            self.split = True
            self.key_count = self.record_from = 0
        key = &self.keys[self.key_count]
        key.hash = positive_hash(hash)
        key.run = 0
        key.offset = view.physical_offset
        key.store_ms = view.store_timestamp_ms
        self.key_count += 1
        return True

    cdef bint _put(self) noexcept nogil:
        """Puts the gathered keys. After a failure reading starts again at the first key not put;
        when the reactor has overwritten the bytes meanwhile, at the first record of the step."""
        cdef int32_t done
        if not self.tail.window.is_sound():
            self.tail.seek(self.step_from)
            self.tail.skipped = self.skipped_before
            self.again = True
            return False
        done = self.store.put(self.keys, self.key_count, wall_ms())
        if done == self.key_count:
            return True
        self.tail.seek(self.keys[done].offset)
        self.retry_us = monotonic_us() + RETRY_US
        return False

    cdef void _upkeep(self, int64_t now_us) noexcept nogil:
        if self.retry_us != 0:
            return
        if now_us - self.synced_us >= self.sync_us:
            self.store.drop_below(self.log.min_offset())
            if self.store.sync() != Status.OK:
                self.retry_us = now_us + RETRY_US
            self.synced_us = self.flushed_us = now_us
        elif (now_us - self.flushed_us >= self.flush_us
                or self.store.entries_put - self.flushed_entries >= FLUSH_ENTRIES):
            self.flushed_entries = self.store.entries_put
            self.store.drop_below(self.log.min_offset())
            if self.store.flush() != Status.OK:
                self.retry_us = now_us + RETRY_US
            self.flushed_us = now_us

    # ---- queries

    cdef void _answer(self) noexcept nogil:
        cdef IndexJob* job = <IndexJob*> spsc_pop(&self.jobs)
        while job != NULL:
            self._do(job)
            spsc_put(&self.answered, job, b"the index: room for each question's answer")
            event_signal(self.done_fd)
            job = <IndexJob*> spsc_pop(&self.jobs)

    cdef void _do(self, IndexJob* job) noexcept nogil:
        self._catch_up(load_acquire_i64(&self.log.marks.written))
        job.status = self.store.search(&job.query)

    cdef void _catch_up(self, int64_t target) noexcept nogil:
        cdef int64_t deadline = monotonic_us() + QUERY_WAIT_MS * 1000
        while self.tail.position < target and self.step() > 0:
            if monotonic_us() > deadline:
                return

    # ---- for Python

    def open(self, bint trusted, int64_t index_ms, int64_t log_end=-1) -> None:
        """Finds the files. `trusted`: the store was left by a clean stop, or by a kill while this
        very kernel was running. `index_ms`: the checkpoint's index time. The log must be open
        (set_end)."""
        if self.opened:
            raise StoreError("the key index is already open")
        self.store.open(trusted, index_ms, load_acquire_i64(&self.log.marks.written)
                        if log_end < 0 else log_end)
        self.opened = True

    def start(self) -> None:
        """Starts the thread, which first mends the files if they need it."""
        cdef int error = 0
        if not self.opened or self.thread.running:
            raise StoreError("the indexer is not open, or running already")
        self.stopping = 0
        if native_thread_start(&self.thread, <NativeBody> run_indexer, <void*> self,
                               b"rmq-indexer", &error) != Status.OK:
            raise StoreError(f"indexer thread: {os.strerror(error)}")

    def stop(self) -> None:
        """Indexes what is written, syncs the file and ends the thread. May be called twice."""
        if self.thread.running:
            with self.lock:
                store_release_i32(&self.stopping, 1)
                event_signal(self.wake_fd)
                with nogil:
                    native_thread_join(&self.thread)

    def ask(self, int64_t number, bytes topic, bytes key, int32_t kind, int32_t hits_max,
            int64_t begin_ms, int64_t end_ms, uint64_t body_max) -> bool:
        """Asks for the messages with this key, newest first, each checked, without waiting:
        answers() returns the answer, with as many of the records as fit `body_max` bytes (at least
        one). False: too many questions wait."""
        cdef IndexJob* job
        cdef size_t texts = <size_t> (len(topic) + len(key) + 7) & ~<size_t> 7
        if len(key) > PROPERTIES_BYTES_MAX or len(topic) > TOPIC_BYTES_MAX:
            key = b""                       # no record has such a key, and none has an empty one
            texts = <size_t> (len(topic) + 7) & ~<size_t> 7
        hits_max = max(1, min(hits_max, HITS_MAX))
        with self.lock:
            if not self.thread.running:
                raise StoreError("the indexer is not running")
            if self.unanswered >= JOBS:
                return False
            job = <IndexJob*> calloc(1, sizeof(IndexJob) + texts + <size_t> hits_max * 8)
            if job == NULL:
                raise MemoryError("no memory for a question to the key index")
            job.number = number
            memcpy(job.texts, <const char*> topic, len(topic))
            memcpy(job.texts + len(topic), <const char*> key, len(key))
            job.query.topic = job.texts
            job.query.topic_bytes = <uint32_t> len(topic)
            job.query.key = job.texts + len(topic)
            job.query.key_bytes = <uint32_t> len(key)
            job.query.kind = kind
            job.query.hits_max = hits_max
            job.query.hits = <int64_t*> (job.texts + texts)
            job.query.begin_ms = begin_ms
            job.query.end_ms = end_ms
            job.query.body_max = max(body_max, <uint64_t> 1)
            spsc_put(&self.jobs, job, b"the index: room for each question")
            self.unanswered += 1
            event_signal(self.wake_fd)
        return True

    def answers(self) -> list:
        """The answers that have come, each a tuple: number, "" or what went wrong, records (newest
        first), store time and log offset of the newest indexed message."""
        cdef IndexJob* job
        cdef uint64_t at, size
        event_wait(self.done_fd, 0)
        out = []
        job = <IndexJob*> spsc_pop(&self.answered)
        while job != NULL:
            self.unanswered -= 1
            records = []
            at = 0
            while at < job.query.body_bytes:
                size = load_u32(job.query.body + at)
                records.append((<char*> job.query.body)[at:at + size])
                at += size
            failure = ""
            if job.status != Status.OK:
                failure = f"key index: {os.strerror(self.store.last_errno)}"
            out.append((job.number, failure, records, job.query.last_ms, job.query.last_offset))
            free(job.query.body)
            free(job)
            job = <IndexJob*> spsc_pop(&self.answered)
        return out

    @property
    def answers_fd(self) -> int:
        """Readable when answers() has something."""
        return self.done_fd

    def row(self) -> str:
        """The row of index_store.pxd for the files that the start found."""
        return ROWS[self.store.row]


cdef void drop_jobs(SpscRing* ring) noexcept:
    """Closes a ring and frees the jobs left in it, for which nobody waits any more."""
    cdef IndexJob* job
    if ring.slots == NULL:
        return
    job = <IndexJob*> spsc_pop(ring)
    while job != NULL:
        free(job.query.body)
        free(job)
        job = <IndexJob*> spsc_pop(ring)
    spsc_close(ring)


cdef void run_indexer(Indexer indexer) noexcept nogil:
    indexer.run()
