"""Makes, fills, mends and reads one index file. See index_file.pxd."""
from libc.errno cimport errno
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from cext.base.byteorder cimport load_i32, load_i64, store_i32, store_i64
from cext.base.status cimport Status
from cext.base.sysio cimport close_file, file_size, open_file, read_at, sync_directory, write_at
from cext.store.log.log_link cimport FILE_PATH_MAX

cdef extern from "<fcntl.h>" nogil:
    enum: O_RDWR, O_CREAT, O_EXCL

cdef extern from "<unistd.h>" nogil:
    int c_truncate "ftruncate" (int fd, int64_t size)
    int c_unlink "unlink" (const char* path)

cdef extern from "<sys/mman.h>" nogil:
    void* mmap(void* at, size_t size, int protection, int flags, int fd, int64_t offset)
    int munmap(void* at, size_t size)
    int madvise(void* at, size_t size, int advice)
    enum: PROT_READ, PROT_WRITE, MAP_PRIVATE, MAP_ANONYMOUS, MAP_NORESERVE, MADV_DONTNEED
    void* MAP_FAILED

cdef extern from * nogil:
    void prefetch "__builtin_prefetch" (const void* at)

cdef enum:
    ENOENT = 2
    AHEAD = 12                      # slots fetched before they are needed


cdef inline int64_t entry_at(const IndexShape* shape, int64_t number) noexcept nogil:
    return INDEX_HEAD_BYTES + <int64_t> shape.slots * 4 + number * INDEX_ENTRY_BYTES


cdef int64_t index_bytes(const IndexShape* shape) noexcept nogil:
    return entry_at(shape, shape.entries)


cdef int index_path(char* out, size_t size, const char* directory, int64_t name) noexcept nogil:
    cdef int length = snprintf(out, size, b"%s/%017lld", directory, <long long> name)
    return Status.OK if 0 < length < <int> size else Status.TOO_LARGE


# ---- slots in memory

cdef int slots_open(SlotTable* table, int32_t slots) noexcept nogil:
    cdef void* memory = mmap(NULL, <size_t> slots * 4, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
    table.values = NULL
    table.slots = slots
    table.changed = <uint8_t*> calloc(<size_t> slots // SLOT_PAGE + 1, 1)
    if memory == MAP_FAILED or table.changed == NULL:
        return Status.POOL_EMPTY
    table.values = <int32_t*> memory
    return Status.OK


cdef void slots_close(SlotTable* table) noexcept nogil:
    if table.values != NULL:
        munmap(table.values, <size_t> table.slots * 4)
    free(table.changed)
    table.values = NULL
    table.changed = NULL


cdef void slots_clear(SlotTable* table) noexcept nogil:
    madvise(table.values, <size_t> table.slots * 4, MADV_DONTNEED)
    memset(table.changed, 0, <size_t> table.slots // SLOT_PAGE + 1)


# ---- header

cdef int write_head(const IndexFile* file, int64_t end_ms, int* error) noexcept nogil:
    cdef uint8_t head[INDEX_HEAD_BYTES]
    store_i64(head, file.begin_ms)
    store_i64(head + 8, end_ms)
    store_i64(head + 16, file.begin_offset)
    store_i64(head + 24, file.end_offset)
    store_i32(head + 32, file.used_slots)
    store_i32(head + 36, file.count)
    return write_at(file.fd, head, INDEX_HEAD_BYTES, 0, error, NULL)


cdef int read_head(IndexFile* file, const IndexShape* shape, int* error) noexcept nogil:
    cdef uint8_t head[INDEX_HEAD_BYTES]
    if read_at(file.fd, head, INDEX_HEAD_BYTES, 0, error) != INDEX_HEAD_BYTES:
        return Status.IO_ERROR
    file.begin_ms = load_i64(head)
    file.end_ms = load_i64(head + 8)
    file.begin_offset = load_i64(head + 16)
    file.end_offset = load_i64(head + 24)
    file.used_slots = load_i32(head + 32)
    file.count = load_i32(head + 36)
    if file.count == 0:
        file.count = 1              # Java counts from 1 and does not write that into the file
    if (1 <= file.count <= shape.entries and 0 <= file.used_slots <= shape.slots
            and 0 <= file.begin_offset <= file.end_offset
            and 0 <= file.begin_ms <= file.end_ms):
        return Status.OK
    return Status.CORRUPT


# ---- life

cdef int index_create(const char* directory, const IndexShape* shape, int64_t name,
                      const IndexFile* before, IndexFile* out, int* error) noexcept nogil:
    cdef char path[FILE_PATH_MAX]
    cdef int status = index_path(path, FILE_PATH_MAX, directory, name)
    memset(out, 0, sizeof(IndexFile))
    out.name = name
    out.count = 1
    out.fd = -1
    if status != Status.OK:
        return status
    out.fd = open_file(path, O_RDWR | O_CREAT | O_EXCL, error)
    if out.fd < 0:
        return Status.NO_SPACE if error[0] == 28 else Status.IO_ERROR
    if before != NULL:
        out.begin_ms = out.end_ms = before.end_ms
        out.begin_offset = out.end_offset = before.end_offset
    if c_truncate(out.fd, index_bytes(shape)) != 0:
        error[0] = errno
        status = Status.NO_SPACE if error[0] == 28 else Status.IO_ERROR
    if status == Status.OK:
        status = write_head(out, out.end_ms, error)
    if status == Status.OK:
        status = sync_directory(directory, error)
    if status != Status.OK:
        c_unlink(path)
        index_close(out)
    return status


cdef int index_open(const char* directory, const IndexShape* shape, int64_t name, IndexFile* out,
                    int* error) noexcept nogil:
    cdef char path[FILE_PATH_MAX]
    cdef int64_t size
    cdef int status = index_path(path, FILE_PATH_MAX, directory, name)
    memset(out, 0, sizeof(IndexFile))
    out.name = name
    out.fd = -1
    if status != Status.OK:
        return status
    out.fd = open_file(path, O_RDWR, error)
    if out.fd < 0:
        return Status.IO_ERROR
    size = file_size(out.fd, error)
    if size < 0:
        status = Status.IO_ERROR
    elif size != index_bytes(shape):
        status = Status.CORRUPT
    else:
        status = read_head(out, shape, error)
    if status != Status.OK:
        index_close(out)
    return status


cdef void index_close(IndexFile* file) noexcept nogil:
    close_file(file.fd)
    file.fd = -1


cdef int index_remove(const char* directory, IndexFile* file, int* error) noexcept nogil:
    cdef char path[FILE_PATH_MAX]
    cdef int status = index_path(path, FILE_PATH_MAX, directory, file.name)
    index_close(file)
    if status != Status.OK:
        return status
    error[0] = 0
    if c_unlink(path) != 0 and errno != ENOENT:
        error[0] = errno
        return Status.IO_ERROR
    return Status.OK


# ---- filling

cdef void unput(IndexFile* file, SlotTable* table, const uint8_t* entries,
                int32_t count) noexcept nogil:
    """Takes the newest entries out of their chains, last one first."""
    cdef int32_t i, slot
    for i in range(count - 1, -1, -1):
        slot = load_i32(entries + i * INDEX_ENTRY_BYTES) % table.slots
        table.values[slot] = load_i32(entries + i * INDEX_ENTRY_BYTES + 16)
        table.changed[slot // SLOT_PAGE] = 1
        if table.values[slot] == 0:
            file.used_slots -= 1
    file.count -= count


cdef inline int32_t seconds_since(int64_t begin_ms, int64_t store_ms) noexcept nogil:
    cdef int64_t seconds = (store_ms - begin_ms) // 1000
    if begin_ms <= 0 or seconds < 0:
        return 0
    return 0x7FFFFFFF if seconds > 0x7FFFFFFF else <int32_t> seconds


cdef int index_put(IndexFile* file, SlotTable* table, const IndexShape* shape,
                   const IndexKey* keys, int32_t count, uint8_t* scratch,
                   int* error) noexcept nogil:
    cdef uint8_t* entry = scratch
    cdef IndexFile before = file[0]
    cdef int32_t i, slot
    cdef int status
    if file.count <= 1:
        file.begin_ms = keys[0].store_ms
        file.begin_offset = keys[0].offset
    for i in range(min(count, <int32_t> AHEAD)):
        prefetch(&table.values[keys[i].hash % table.slots])
    for i in range(count):
        if i + AHEAD < count:
            prefetch(&table.values[keys[i + AHEAD].hash % table.slots])
        slot = keys[i].hash % table.slots
        store_i32(entry, keys[i].hash)
        store_i64(entry + 4, keys[i].offset)
        store_i32(entry + 12, seconds_since(file.begin_ms, keys[i].store_ms))
        store_i32(entry + 16, table.values[slot])
        entry += INDEX_ENTRY_BYTES
        if table.values[slot] == 0:
            file.used_slots += 1
        table.values[slot] = file.count
        table.changed[slot // SLOT_PAGE] = 1
        file.count += 1
    status = write_at(file.fd, scratch, <uint64_t> count * INDEX_ENTRY_BYTES,
                      entry_at(shape, before.count), error, NULL)
    if status != Status.OK:
        unput(file, table, scratch, count)
        file[0] = before
        return status
    file.end_ms = keys[count - 1].store_ms
    file.end_offset = keys[count - 1].offset
    return Status.OK


cdef int write_slots(const IndexFile* file, const SlotTable* table, int32_t first, int32_t count,
                     uint8_t* scratch, int* error) noexcept nogil:
    cdef int32_t i
    for i in range(count):
        store_i32(scratch + i * 4, table.values[first + i])
    return write_at(file.fd, scratch, <uint64_t> count * 4,
                    INDEX_HEAD_BYTES + <int64_t> first * 4, error, NULL)


cdef int index_flush(IndexFile* file, SlotTable* table, uint8_t* scratch, int64_t room,
                     int* error) noexcept nogil:
    cdef int32_t pages = table.slots // SLOT_PAGE + 1
    cdef int32_t most = <int32_t> (room // (SLOT_PAGE * 4))
    cdef int32_t page = 0
    cdef int32_t some
    cdef int status = write_head(file, INT64_MAX, error)
    while page < pages and status == Status.OK:
        some = 0
        while page + some < pages and some < most and table.changed[page + some]:
            some += 1
        if some == 0:
            page += 1
            continue
        status = write_slots(file, table, page * SLOT_PAGE,
                             min(some * SLOT_PAGE, table.slots - page * SLOT_PAGE), scratch, error)
        if status == Status.OK:
            memset(table.changed + page, 0, <size_t> some)
        page += some
    return write_head(file, file.end_ms, error) if status == Status.OK else status


# ---- after a start

cdef int index_load_slots(const IndexFile* file, SlotTable* table, uint8_t* scratch,
                          int* error) noexcept nogil:
    cdef int32_t first = 0
    cdef int32_t count, i, value
    while first < table.slots:
        count = min(<int32_t> SLOT_PAGE, table.slots - first)
        if read_at(file.fd, scratch, <uint64_t> count * 4,
                   INDEX_HEAD_BYTES + <int64_t> first * 4, error) != <int64_t> count * 4:
            return Status.IO_ERROR
        for i in range(count):
            value = load_i32(scratch + i * 4)
            if value < 0 or value >= file.count:
                return Status.CORRUPT
            if value != 0:                  # so a page of zeros in the table stays untouched
                table.values[first + i] = value
        first += SLOT_PAGE
    return Status.OK


cdef inline void link(IndexFile* file, SlotTable* table, int32_t hash,
                      int32_t number) noexcept nogil:
    cdef int32_t slot = hash % table.slots
    if table.values[slot] == 0:
        file.used_slots += 1
    table.values[slot] = number


cdef bint is_right(const uint8_t* entry, const SlotTable* table, int64_t least,
                   int64_t log_end) noexcept nogil:
    cdef int32_t hash = load_i32(entry)
    cdef int64_t offset = load_i64(entry + 4)
    # A hole reads as zeros, which would be an entry of the log's very first record.
    return (hash >= 0 and least <= offset < log_end and load_i32(entry + 12) >= 0
            and (hash != 0 or offset != 0)
            and load_i32(entry + 16) == table.values[hash % table.slots])


cdef int index_entry_raw(const IndexFile* file, const IndexShape* shape, int32_t number,
                         uint8_t* out, int* error) noexcept nogil:
    if read_at(file.fd, out, INDEX_ENTRY_BYTES, entry_at(shape, number),
               error) != INDEX_ENTRY_BYTES:
        return Status.IO_ERROR
    return Status.OK


cdef int64_t index_relink(IndexFile* file, SlotTable* table, const IndexShape* shape,
                          int64_t log_end, uint8_t* scratch, int64_t room,
                          int* error) noexcept nogil:
    cdef int64_t per_read = room // INDEX_ENTRY_BYTES
    cdef int64_t newest = -1                # log offset of the newest record
    cdef int32_t newest_from = 1            # that record's first entry
    cdef int64_t number = 1
    cdef int64_t limit = file.count
    cdef int64_t got, i
    cdef const uint8_t* entry
    slots_clear(table)
    file.used_slots = 0
    while number < limit:
        got = min(per_read, limit - number)
        if read_at(file.fd, scratch, <uint64_t> (got * INDEX_ENTRY_BYTES),
                   entry_at(shape, number), error) != got * INDEX_ENTRY_BYTES:
            return Status.IO_ERROR
        for i in range(got):
            entry = scratch + i * INDEX_ENTRY_BYTES
            if not is_right(entry, table, max(newest, <int64_t> 0), log_end):
                limit = number
                break
            if load_i64(entry + 4) != newest:
                newest = load_i64(entry + 4)
                newest_from = <int32_t> number
            link(file, table, load_i32(entry), <int32_t> number)
            number += 1
    file.count = <int32_t> number
    while file.count > newest_from:
        got = min(per_read, <int64_t> (file.count - newest_from))
        if read_at(file.fd, scratch, <uint64_t> (got * INDEX_ENTRY_BYTES),
                   entry_at(shape, file.count - got), error) != got * INDEX_ENTRY_BYTES:
            return Status.IO_ERROR
        unput(file, table, scratch, <int32_t> got)
    if file.count <= 1:
        return -1
    if index_entry_raw(file, shape, file.count - 1, scratch, error) != Status.OK:
        return Status.IO_ERROR
    file.end_offset = load_i64(scratch + 4)
    # Rounded up to the second: only the choice of files depends on it.
    file.end_ms = file.begin_ms + <int64_t> load_i32(scratch + 12) * 1000 + 999
    memset(table.changed, 1, <size_t> table.slots // SLOT_PAGE + 1)
    return newest


# ---- reading

cdef int32_t index_first(const IndexFile* file, const SlotTable* table, const IndexShape* shape,
                         int32_t hash, int* error) noexcept nogil:
    cdef uint8_t four[4]
    cdef int32_t slot = hash % shape.slots
    cdef int32_t value
    if table != NULL:
        value = table.values[slot]
    else:
        if read_at(file.fd, four, 4, INDEX_HEAD_BYTES + <int64_t> slot * 4, error) != 4:
            return Status.IO_ERROR
        value = load_i32(four)
    return value if 0 < value < file.count else 0


cdef int index_entry(const IndexFile* file, const IndexShape* shape, int32_t number,
                     IndexEntry* out, int* error) noexcept nogil:
    cdef uint8_t raw[INDEX_ENTRY_BYTES]
    cdef int status = index_entry_raw(file, shape, number, raw, error)
    if status == Status.OK:
        out.hash = load_i32(raw)
        out.offset = load_i64(raw + 4)
        out.seconds = load_i32(raw + 12)
        out.before = load_i32(raw + 16)
    return status
