"""The checkpoint of a timer keeper. See timer_checkpoint.pxd."""
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdio cimport rename, snprintf
from libc.string cimport memset
from posix.fcntl cimport O_CREAT, O_RDONLY, O_TRUNC, O_WRONLY

from cext.base.byteorder cimport load_i64, load_u32, store_i64, store_u32
from cext.base.checksum cimport crc32
from cext.base.status cimport CORRUPT, IO_ERROR, NOT_FOUND, OK
from cext.base.sysio cimport (
    close_file,
    open_file,
    read_at,
    sync_directory,
    sync_file,
    write_at,
)
from cext.store.timers.timer_run cimport TimerRun

cdef enum:
    MAGIC = 0x726D7154
    VERSION = 1
    HEAD_BYTES = 32
    RUN_BYTES = 48
    FILE_BYTES_MAX = HEAD_BYTES + RUNS_MAX * RUN_BYTES + 4


cdef int write_file(const char* directory, const uint8_t* bytes, uint64_t size) noexcept nogil:
    cdef char path[KEEPER_PATH_BYTES + 64]
    cdef char fresh[KEEPER_PATH_BYTES + 64]
    cdef int error = 0
    cdef int fd
    cdef int status
    snprintf(path, sizeof(path), b"%s/checkpoint", directory)
    snprintf(fresh, sizeof(fresh), b"%s/checkpoint.new", directory)
    fd = open_file(fresh, O_WRONLY | O_CREAT | O_TRUNC, &error)
    if fd < 0:
        return IO_ERROR
    status = write_at(fd, bytes, size, 0, &error, NULL)
    if status == OK:
        status = sync_file(fd, &error)
    close_file(fd)
    if status == OK and rename(fresh, path) != 0:
        status = IO_ERROR
    return sync_directory(directory, &error) if status == OK else status


cdef int timer_checkpoint_save(const RunTable* table, const char* directory) noexcept nogil:
    cdef uint8_t page[FILE_BYTES_MAX]
    cdef uint8_t* at = page + HEAD_BYTES
    cdef const TimerRun* run
    cdef int64_t i, runs = 0
    for i in range(table.run_count):
        run = &table.runs[i]
        if not run.named:
            continue
        store_i64(at, <int64_t> run.number)
        store_i64(at + 8, run.level)
        store_i64(at + 16, run.count)
        store_i64(at + 24, run.oldest)
        store_i64(at + 32, run.covers)
        store_i64(at + 40, run.log_end)
        at += RUN_BYTES
        runs += 1
    store_u32(page, MAGIC)
    store_u32(page + 4, VERSION)
    store_i64(page + 8, table.covers)
    store_i64(page + 16, <int64_t> table.next_number)
    store_i64(page + 24, runs)
    store_u32(at, crc32(page, at - page))
    return write_file(directory, page, at + 4 - page)


cdef int timer_checkpoint_load(RunTable* table, const char* directory,
                               int64_t log_end) noexcept nogil:
    cdef uint8_t page[FILE_BYTES_MAX]
    cdef char path[KEEPER_PATH_BYTES + 64]
    cdef const uint8_t* at = page + HEAD_BYTES
    cdef TimerRun* run
    cdef int error = 0
    cdef int64_t size, runs, i
    cdef int fd
    snprintf(path, sizeof(path), b"%s/checkpoint", directory)
    fd = open_file(path, O_RDONLY, &error)
    if fd < 0:
        return NOT_FOUND
    size = read_at(fd, page, FILE_BYTES_MAX, 0, &error)
    close_file(fd)
    if size < HEAD_BYTES + 4 or load_u32(page) != MAGIC or load_u32(page + 4) != VERSION:
        return CORRUPT
    runs = load_i64(page + 24)
    if runs < 0 or runs > RUNS_MAX or size < HEAD_BYTES + runs * RUN_BYTES + 4 \
            or load_u32(at + runs * RUN_BYTES) != crc32(page, HEAD_BYTES + runs * RUN_BYTES):
        return CORRUPT
    for i in range(runs):
        run = &table.runs[i]
        memset(run, 0, sizeof(TimerRun))
        run.number = <uint64_t> load_i64(at)
        run.level = load_i64(at + 8)
        run.count = load_i64(at + 16)
        run.oldest = load_i64(at + 24)
        run.covers = load_i64(at + 32)
        run.log_end = load_i64(at + 40)
        run.fd = -1
        if run.log_end > log_end:
            return CORRUPT
        at += RUN_BYTES
    table.run_count = runs
    table.covers = load_i64(page + 8)
    table.next_number = <uint64_t> load_i64(page + 16)
    return OK
