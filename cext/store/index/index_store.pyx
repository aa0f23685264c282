"""Opens, fills, searches and trims the index files. See index_store.pxd."""
import logging
import os
import re
from pathlib import Path

cimport cython
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memmove
from libc.time cimport localtime_r, time_t, tm

from cext.base.atomics cimport store_release_i64
from cext.base.status cimport Status
from cext.base.sysio cimport sync_data
from cext.store.index.index_file cimport (
    INDEX_ENTRY_BYTES, IndexEntry, index_bytes, index_close, index_create,
    index_entry, index_first, index_flush, index_load_slots, index_open, index_put, index_relink,
    index_remove, slots_clear, slots_close, slots_open)
from cext.store.index.index_key cimport (
    TAG_KEY, KeyTexts, find_key_texts, hash_on, positive_hash, record_has_key)
from cext.store.log.log_window cimport window_at

from rmq.base.durable_directory import make_directory
from rmq.errors import StoreError

log = logging.getLogger("rmq.index")

cdef enum:
    SCRATCH_BYTES = KEYS_MAX * INDEX_ENTRY_BYTES
    JAVA_FILE_MAX = 0x7FFFFFFF      # Java counts the bytes of a file in an int
    CHECK_BYTES = 4096              # read at once to check a hit
    COPY_BYTES = 16384              # first room for copies of records

NAME = re.compile(r"\d{17}")


@cython.no_gc_clear                  # __dealloc__ needs the object's fields
cdef class IndexStore:
    def __cinit__(self, log not None, str directory, int32_t slots, int32_t entries):
        cdef bytes path = os.fsencode(directory.rstrip("/"))
        self.shape.slots = slots
        self.shape.entries = entries
        if slots < 1 or entries < 2 or index_bytes(&self.shape) > JAVA_FILE_MAX:
            raise ValueError(f"maxHashSlotNum {slots}, maxIndexNum {entries}: at least 1 and 2, "
                             f"and 40 + 4 * slots + 20 * entries at most {JAVA_FILE_MAX}")
        if not path.startswith(b"/") or len(path) > LOG_PATH_MAX - 64:
            raise ValueError(f"directory {directory!r}: absolute, not longer than a path may be")
        memcpy(self.directory, <const char*> path, len(path))
        self.scratch = <uint8_t*> malloc(SCRATCH_BYTES)
        if self.scratch == NULL or slots_open(&self.table, slots) != Status.OK:
            raise MemoryError("no memory for the key index")
        self.checker = LogCursor(log, CHECK_BYTES)

    def __dealloc__(self):
        cdef int32_t i
        for i in range(self.file_count):
            index_close(&self.files[i])
        free(self.files)
        free(self.scratch)
        slots_close(&self.table)

    def open(self, bint trusted, int64_t index_ms, int64_t log_end):
        """Finds the files; recover() does the rest. Raises when one cannot be opened or removed."""
        cdef int error = 0
        cdef int status
        cdef IndexFile file
        path = os.fsdecode(self.directory)
        make_directory(Path(path))
        names = sorted(int(name) for name in os.listdir(path) if NAME.fullmatch(name))
        self.trusted = trusted
        self.index_ms = index_ms
        self.log_end = log_end
        self.row = 3 if names else 1
        for at, name in enumerate(names):
            status = index_open(self.directory, &self.shape, name, &file, &error)
            if status == Status.CORRUPT or (status == Status.OK and at > 0
                                            and self.files[at - 1].end_ms == INT64_MAX):
                if status == Status.OK:
                    index_close(&file)
                self.row = 2
                if status == Status.CORRUPT:
                    log.warning("%s/%017d is damaged, or not of maxHashSlotNum and maxIndexNum: it "
                                "and %d younger files are made anew from the log", path, name,
                                len(names) - at - 1)
                for younger in names[at:]:
                    os.unlink(f"{path}/{younger:017d}")
                    self.removed += 1
                return
            if status != Status.OK:
                raise StoreError(f"{path}/{name:017d}: {os.strerror(error)}")
            if not self._add(&file):
                raise MemoryError("no memory for the list of index files")

    cdef bint _add(self, const IndexFile* file) noexcept nogil:
        cdef int32_t room = max(64, 2 * self.file_room)
        cdef void* memory
        if self.file_count == self.file_room:
            memory = realloc(self.files, <size_t> room * sizeof(IndexFile))
            if memory == NULL:
                return False
            self.files = <IndexFile*> memory
            self.file_room = room
        self.files[self.file_count] = file[0]
        self.file_count += 1
        return True

    # ---- after a start

    cdef int64_t recover(self, bint* behind) noexcept nogil:
        cdef int32_t at
        cdef IndexFile* file
        cdef int64_t newest
        at = self._first_gap()
        if at < self.file_count:
            self.row = 2
            if self._truncate_after(at) != Status.OK:
                return Status.IO_ERROR
        for at in range(self.file_count):
            file = &self.files[at]
            if (file.end_ms == INT64_MAX or file.end_offset >= self.log_end
                    or (not self.trusted
                        and (file.end_ms > self.index_ms or at == self.file_count - 1))):
                self.row = max(self.row, 4 if self.trusted else 5)
                newest = self._relink(at)
                break
        else:
            newest = self._load_last()
        # An empty file, made just before a kill, has no record: the file before it has.
        at = self.file_count - 1
        while at >= 0 and self.files[at].count <= 1:
            at -= 1
        behind[0] = newest == -1 and at >= 0
        if newest == -1:
            newest = self.files[at].end_offset if at >= 0 else 0
        if newest >= 0:
            store_release_i64(&self.safe_ms,
                              0 if at < 0 else min(self.index_ms, self.files[at].end_ms))
        return newest

    cdef int32_t _first_gap(self) noexcept nogil:
        """The first file before which keys of some record are missing; file_count: none."""
        cdef int64_t start = self.checker.log.min_offset()
        cdef int64_t first
        cdef int32_t at
        for at in range(self.file_count):
            if at > 0:
                start = self.files[at - 1].end_offset
            if self.files[at].count > 1 and self.files[at].begin_offset > start:
                first = self._first_with_keys(start, at > 0)
                if 0 <= first < self.files[at].begin_offset:
                    return at
        return self.file_count

    cdef int64_t _first_with_keys(self, int64_t offset, bint behind) noexcept nogil:
        """The log offset of the first record with keys from `offset` on, or with `behind` after the
        record at `offset`; -1: none."""
        cdef RecordView view
        cdef KeyTexts texts
        if behind and self.checker.at(offset, &view) == Status.OK:
            offset += view.total_bytes
        self.checker.seek(offset)
        while self.checker.next(&view) == Status.OK:
            if find_key_texts(&view, &texts):
                return view.physical_offset
        return -1

    cdef int64_t _load_last(self) noexcept nogil:
        """Reads the slots of the last file, which is whole, unless it is full. -1, or as _relink.
        """
        cdef IndexFile* file
        cdef int error = 0
        cdef int status
        if self.file_count == 0:
            return -1                       # and `files` may be NULL
        file = &self.files[self.file_count - 1]
        if file.count >= self.shape.entries:
            return -1
        slots_clear(&self.table)
        status = index_load_slots(file, &self.table, self.scratch, &error)
        if status == Status.OK:
            self.filling = True
            return -1
        self.row = max(self.row, 4)
        self._failed(status, error)
        return self._relink(self.file_count - 1)

    cdef int64_t _relink(self, int32_t at) noexcept nogil:
        """Relinks this file and makes it the last one. Returns the log offset of the record to go
        on with; -1: nothing of the file was left, go on after the file before; a Status < -1."""
        cdef IndexFile* file = &self.files[at]
        cdef int64_t end = file.end_offset
        cdef int64_t newest
        cdef int error = 0
        cdef int status
        if self._truncate_after(at + 1) != Status.OK:
            return Status.IO_ERROR
        newest = index_relink(file, &self.table, &self.shape, self.log_end, self.scratch,
                              SCRATCH_BYTES, &error)
        self.relinked += 1
        if newest != end:
            self.row = 6
        if newest >= 0:
            self.filling = self.changed = self.unsynced = True
            return newest
        if newest < -1:                 # the file cannot be read: its records are indexed again
            self._failed(<int> newest, error)
        status = self._truncate_after(at)
        return -1 if status == Status.OK else status

    cdef int _truncate_after(self, int32_t count) noexcept nogil:
        """Removes all files except the first `count`."""
        cdef int error = 0
        cdef int status
        if count < self.file_count:
            self.filling = False
        while self.file_count > count:
            status = index_remove(self.directory, &self.files[self.file_count - 1], &error)
            if status != Status.OK:
                return self._failed(status, error)
            self.file_count -= 1
            self.removed += 1
        return Status.OK

    cdef int _failed(self, int status, int error) noexcept nogil:
        self.failures += 1
        self.last_errno = error
        return status

    # ---- filling

    cdef int32_t put(self, const IndexKey* keys, int32_t count, int64_t wall_ms) noexcept nogil:
        cdef IndexFile* file = NULL
        cdef int32_t done = 0
        cdef int32_t room, some
        cdef int error = 0
        cdef int status
        while done < count:
            room = 0
            if self.filling:
                file = &self.files[self.file_count - 1]
                room = self.shape.entries - file.count
            some = whole_records(keys + done, count - done, room)
            if some == 0 and self.filling and file.count == 1:
                some = min(room, count - done)      # a record has more keys than a file holds
            if some == 0:
                if self._roll(wall_ms) != Status.OK:
                    break
                continue
            status = index_put(file, &self.table, &self.shape, keys + done, some, self.scratch,
                               &error)
            if status != Status.OK:
                self._failed(status, error)
                break
            self.changed = self.unsynced = True
            self.entries_put += <uint64_t> some
            done += some
        return done

    cdef int _roll(self, int64_t wall_ms) noexcept nogil:
        """Closes the file being filled for good and makes the next one."""
        cdef IndexFile file
        cdef IndexFile* before = NULL
        cdef int64_t name = name_of(wall_ms)
        cdef int error = 0
        cdef int status
        if self.filling:
            status = self.sync()
            if status != Status.OK:
                return status
            self.filling = False
        slots_clear(&self.table)
        if self.file_count > 0:
            before = &self.files[self.file_count - 1]
            name = max(name, before.name + 1)
        status = index_create(self.directory, &self.shape, name, before, &file, &error)
        if status != Status.OK:
            return self._failed(status, error)
        if not self._add(&file):
            index_remove(self.directory, &file, &error)
            return self._failed(Status.POOL_EMPTY, 12)
        self.filling = True
        return Status.OK

    cdef int flush(self) noexcept nogil:
        cdef int error = 0
        cdef int status
        if not self.filling or not self.changed:
            return Status.OK
        status = index_flush(&self.files[self.file_count - 1], &self.table, self.scratch,
                             SCRATCH_BYTES, &error)
        if status != Status.OK:
            return self._failed(status, error)
        self.changed = False
        return Status.OK

    cdef int sync(self) noexcept nogil:
        cdef int error = 0
        cdef int status = self.flush()
        if status != Status.OK or not self.filling or not self.unsynced:
            return status
        status = sync_data(self.files[self.file_count - 1].fd, &error)
        if status != Status.OK:
            return self._failed(status, error)
        self.unsynced = False
        store_release_i64(&self.safe_ms, self.files[self.file_count - 1].end_ms)
        return Status.OK

    cdef int drop_below(self, int64_t log_min) noexcept nogil:
        """Removes the oldest files whose newest record is no longer in the log."""
        cdef int error = 0
        cdef int status
        while self.file_count > 1 and self.files[0].end_offset < log_min:
            status = index_remove(self.directory, &self.files[0], &error)
            if status != Status.OK:
                return self._failed(status, error)
            self.file_count -= 1
            self.removed += 1
            memmove(self.files, self.files + 1, <size_t> self.file_count * sizeof(IndexFile))
        return Status.OK

    # ---- searching

    cdef int search(self, IndexQuery* query) noexcept nogil:
        """Searches the newest file first. Damage of a file can make hits missing but never wrong,
        since each hit is checked against its record."""
        cdef uint32_t hash = hash_on(0, query.topic, query.topic_bytes)
        cdef int32_t at
        cdef int status
        cdef IndexFile* file
        hash = hash_on(hash, b"#T#", 3) if query.kind == TAG_KEY else hash_on(hash, b"#", 1)
        hash = hash_on(hash, query.key, query.key_bytes)
        query.hit_count = 0
        query.last_ms = query.last_offset = 0
        if self.file_count > 0:
            query.last_ms = self.files[self.file_count - 1].end_ms
            query.last_offset = self.files[self.file_count - 1].end_offset
        for at in range(self.file_count - 1, -1, -1):
            file = &self.files[at]
            if file.begin_ms <= query.end_ms and file.end_ms >= query.begin_ms:
                status = self._search_file(at, positive_hash(hash), query)
                if status != Status.OK:
                    return status
            if (file.begin_ms < query.begin_ms or query.hit_count >= query.hits_max
                    or query.body_full):
                break
        return Status.OK

    cdef int _search_file(self, int32_t at, int32_t hash, IndexQuery* query) noexcept nogil:
        cdef IndexFile* file = &self.files[at]
        cdef SlotTable* table = NULL
        cdef IndexEntry entry
        cdef int error = 0
        cdef int64_t stored_ms
        cdef int32_t number
        cdef int status
        if self.filling and at == self.file_count - 1:
            table = &self.table
        number = index_first(file, table, &self.shape, hash, &error)
        if number < 0:
            return self._failed(number, error)
        while number > 0 and query.hit_count < query.hits_max and not query.body_full:
            status = index_entry(file, &self.shape, number, &entry, &error)
            if status != Status.OK:
                return self._failed(status, error)
            # Whole seconds are stored: the message came in the second that begins at stored_ms.
            stored_ms = file.begin_ms + <int64_t> entry.seconds * 1000
            if entry.seconds < 0 or stored_ms + 999 < query.begin_ms:
                break
            if (entry.hash == hash and stored_ms <= query.end_ms
                    and (query.hit_count == 0
                         or query.hits[query.hit_count - 1] != entry.offset)
                    and self._is_hit(entry.offset, query)):
                query.hits[query.hit_count] = entry.offset
                query.hit_count += 1
            if not 0 < entry.before < number:   # the chain ends; it only leads to older entries
                break
            number = entry.before
        return Status.OK

    cdef bint _copy(self, const RecordView* view, IndexQuery* query) noexcept nogil:
        cdef uint64_t size = view.total_bytes
        cdef uint64_t room = max(query.body_room, <uint64_t> COPY_BYTES)
        cdef void* memory
        if query.hit_count > 0 and query.body_bytes + size > query.body_max:
            query.body_full = True
            return False
        while room < query.body_bytes + size:
            room *= 2
        if room > query.body_room:
            memory = realloc(query.body, <size_t> room)
            if memory == NULL:
                query.body_full = True
                return False
            query.body = <uint8_t*> memory
            query.body_room = room
        memcpy(query.body + query.body_bytes,
               window_at(self.checker.window, view.physical_offset),
               <size_t> size)
        query.body_bytes += size
        return True

    cdef bint _is_hit(self, int64_t offset, IndexQuery* query) noexcept nogil:
        cdef RecordView view
        cdef int status = Status.CORRUPT
        if offset >= 0:
            status = self.checker.at(offset, &view)
        if (status == Status.OK and query.begin_ms <= view.store_timestamp_ms <= query.end_ms
                and record_has_key(&view, query.kind, query.topic, query.topic_bytes, query.key,
                                   query.key_bytes)):
            return query.body_max == 0 or self._copy(&view, query)
        self.false_hits += 1
        return False


cdef int32_t whole_records(const IndexKey* keys, int32_t count, int32_t room) noexcept nogil:
    """How many of the keys fit without dividing a record; if a record was already divided, what
    fits of its rest."""
    cdef int32_t fits = 0
    if count <= room:
        return count
    while fits < count and fits + max(keys[fits].run, 1) <= room:
        fits += max(keys[fits].run, 1)
    return fits


cdef int64_t name_of(int64_t wall_ms) noexcept nogil:
    """The name of a file made at this time: yyyyMMddHHmmssSSS in local time, as a number."""
    cdef time_t seconds = <time_t> (wall_ms // 1000)
    cdef tm parts
    localtime_r(&seconds, &parts)
    return ((((((parts.tm_year + 1900) * <int64_t> 100 + parts.tm_mon + 1) * 100
               + parts.tm_mday) * 100 + parts.tm_hour) * 100 + parts.tm_min) * 100
            + parts.tm_sec) * 1000 + wall_ms % 1000
