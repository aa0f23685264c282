"""Files of timer entries. See timer_run.pxd."""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from posix.fcntl cimport O_CREAT, O_RDONLY, O_RDWR, O_TRUNC

from cext.base.checksum cimport crc32
from cext.base.status cimport CORRUPT, IO_ERROR, NOT_FOUND, OK, POOL_EMPTY
from cext.base.sysio cimport close_file, file_size, open_file, read_at, sync_file, write_at
from cext.store.timers.timer_heap cimport (
    RECALL_MS,
    TIMER_ENTRY_BYTES,
    TIMER_MESSAGE,
    TIMER_NEVER,
    TIMER_ROLL,
    key_before,
    timer_offset,
)

cdef extern from "<stdio.h>" nogil:
    int snprintf(char* out, size_t size, const char* form, ...)


cdef inline uint32_t entry_check(const TimerEntry* entry, uint32_t flags) noexcept nogil:
    return crc32(<const uint8_t*> entry, 20) & ~<uint32_t> TIMER_ROLL | flags & TIMER_ROLL


cdef void run_path(const char* directory, uint64_t number, char* path) noexcept nogil:
    snprintf(path, RUN_PATH_BYTES, b"%s/%020llu.run", directory, <unsigned long long> number)


# ------------------------------------------------------------------- reading

cdef int run_open(TimerRun* run, const char* directory) noexcept nogil:
    cdef char path[RUN_PATH_BYTES]
    cdef int error = 0
    cdef int64_t size
    run.block = NULL
    run.block_first = run.block_count = 0
    run.cursor = 0
    run_path(directory, run.number, path)
    run.fd = open_file(path, O_RDONLY, &error)
    if run.fd < 0:
        return IO_ERROR
    size = file_size(run.fd, &error)
    if size < 0 or run.count < 0 or run.count > size // TIMER_ENTRY_BYTES:
        run_close(run)
        return IO_ERROR if size < 0 else CORRUPT
    run.block = <TimerEntry*> malloc(RUN_BLOCK * sizeof(TimerEntry))
    if run.block == NULL:
        run_close(run)
        return POOL_EMPTY
    return OK


cdef void run_close(TimerRun* run) noexcept nogil:
    close_file(run.fd)
    run.fd = -1
    free(run.block)
    run.block = NULL


cdef int read_block(TimerRun* run, int64_t first) noexcept nogil:
    cdef int64_t count = run.count - first if run.count - first < RUN_BLOCK else RUN_BLOCK
    cdef int error = 0
    cdef int64_t i
    cdef TimerEntry* entry
    run.block_count = 0
    if read_at(run.fd, <uint8_t*> run.block, count * TIMER_ENTRY_BYTES,
               first * TIMER_ENTRY_BYTES, &error) != count * TIMER_ENTRY_BYTES:
        return IO_ERROR if error != 0 else CORRUPT
    for i in range(count):
        entry = &run.block[i]
        if entry.flags != entry_check(entry, entry.flags):
            return CORRUPT
        entry.flags &= TIMER_ROLL
        if i > 0 and key_before(&entry.key, &run.block[i - 1].key):
            return CORRUPT
    run.block_first = first
    run.block_count = count
    return OK


cdef int run_peek(TimerRun* run, TimerEntry** entry) noexcept nogil:
    cdef int status
    if run.cursor >= run.count:
        return NOT_FOUND
    if run.cursor < run.block_first or run.cursor >= run.block_first + run.block_count:
        status = read_block(run, run.cursor)
        if status != OK:
            return status
    entry[0] = &run.block[run.cursor - run.block_first]
    return OK


cdef int64_t run_find(TimerRun* run, const TimerKey* key) noexcept nogil:
    cdef int64_t low = 0, high = run.count, middle
    cdef TimerEntry entry
    cdef int error = 0
    while low < high:
        middle = (low + high) // 2
        if read_at(run.fd, <uint8_t*> &entry, TIMER_ENTRY_BYTES, middle * TIMER_ENTRY_BYTES,
                   &error) != TIMER_ENTRY_BYTES:
            return IO_ERROR if error != 0 else CORRUPT
        if entry.flags != entry_check(&entry, entry.flags):
            return CORRUPT
        if key_before(&entry.key, key):
            low = middle + 1
        else:
            high = middle
    return low


cdef int run_passed(TimerRun* run, const TimerKey* key, list found) except? -1:
    cdef TimerEntry* entry = NULL
    cdef TimerKey first
    cdef int64_t cursor
    cdef int status
    first.due_ms = key.due_ms - RECALL_MS
    first.place = 0
    cursor = run_find(run, &first)
    if cursor < 0:
        return <int> cursor
    run.cursor = cursor
    status = run_peek(run, &entry)
    while status == OK and key_before(&entry.key, key):
        if entry.key.place & TIMER_MESSAGE == 0 and entry.flags & TIMER_ROLL == 0:
            found.append((entry.key.due_ms, entry.key.place, entry.size))
        run.cursor += 1
        status = run_peek(run, &entry)
    return OK if status == NOT_FOUND else status


# ------------------------------------------------------------------- writing

cdef int run_writer_open(RunWriter* writer, const char* directory, uint64_t number) noexcept nogil:
    cdef char path[RUN_PATH_BYTES]
    cdef int error = 0
    memset(writer, 0, sizeof(RunWriter))
    writer.number = number
    writer.oldest = TIMER_NEVER
    run_path(directory, number, path)
    writer.buffer = <TimerEntry*> malloc(WRITE_BUFFER * sizeof(TimerEntry))
    writer.fd = open_file(path, O_RDWR | O_CREAT | O_TRUNC, &error)
    if writer.buffer == NULL or writer.fd < 0:
        run_writer_drop(writer)
        return IO_ERROR
    return OK


cdef int write_buffered(RunWriter* writer) noexcept nogil:
    cdef int error = 0
    cdef int status = write_at(writer.fd, <const uint8_t*> writer.buffer,
                               writer.buffered * TIMER_ENTRY_BYTES,
                               (writer.count - writer.buffered) * TIMER_ENTRY_BYTES, &error, NULL)
    writer.unsynced += writer.buffered
    writer.buffered = 0
    if status == OK and writer.unsynced >= SYNC_ENTRIES:
        writer.unsynced = 0
        status = sync_file(writer.fd, &error)
    return status


cdef int run_writer_add(RunWriter* writer, const TimerEntry* entry) noexcept nogil:
    cdef TimerEntry* at = &writer.buffer[writer.buffered]
    at[0] = entry[0]
    at.flags = entry_check(entry, entry.flags)
    writer.oldest = min(writer.oldest, timer_offset(entry))
    writer.buffered += 1
    writer.count += 1
    return write_buffered(writer) if writer.buffered == WRITE_BUFFER else OK


cdef int run_writer_finish(RunWriter* writer) noexcept nogil:
    cdef int status = write_buffered(writer)
    run_writer_drop(writer)
    return status


cdef void run_writer_drop(RunWriter* writer) noexcept nogil:
    close_file(writer.fd)
    writer.fd = -1
    free(writer.buffer)
    writer.buffer = NULL
