"""The file that says how far timed messages are delivered. See timer_position.pxd."""
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memset
from posix.fcntl cimport O_CREAT, O_RDONLY, O_RDWR

from cext.base.atomics cimport load_acquire_i32, store_release_i32
from cext.base.byteorder cimport load_i64, load_u32, store_i64, store_u32
from cext.base.checksum cimport crc32
from cext.base.status cimport IO_ERROR, OK
from cext.base.sysio cimport (
    allocate,
    close_file,
    file_size,
    open_file,
    read_at,
    sync_data,
    write_at,
)

cdef enum:
    MAGIC = 0x726D7150
    SLOT_BYTES = 512
    SLOTS = 3
    COPY_AT = 4096
    FILE_BYTES = COPY_AT + SLOT_BYTES
    USED_BYTES = 88


cdef void encode(const TimerPosition* p, int64_t serial, uint8_t* slot) noexcept nogil:
    cdef int i
    memset(slot, 0, SLOT_BYTES)
    store_u32(slot, MAGIC)
    store_i64(slot + 8, serial)
    for i in range(2):
        store_i64(slot + 16 + 16 * i, p.before[i].due_ms)
        store_i64(slot + 24 + 16 * i, p.before[i].place)
    store_i64(slot + 48, p.fed)
    store_i64(slot + 56, p.log_end)
    store_i64(slot + 64, p.shift_ms)
    store_i64(slot + 72, p.base_ms)
    store_i64(slot + 80, p.boot)
    store_u32(slot + 4, crc32(slot + 8, USED_BYTES - 8))


cdef int64_t decode(const uint8_t* slot, TimerPosition* p) noexcept nogil:
    """Reads a slot; its serial, or 0: it holds no position."""
    cdef int i
    if load_u32(slot) != MAGIC or load_u32(slot + 4) != crc32(slot + 8, USED_BYTES - 8):
        return 0
    for i in range(2):
        p.before[i].due_ms = load_i64(slot + 16 + 16 * i)
        p.before[i].place = load_i64(slot + 24 + 16 * i)
    p.fed = load_i64(slot + 48)
    p.log_end = load_i64(slot + 56)
    p.shift_ms = load_i64(slot + 64)
    p.base_ms = load_i64(slot + 72)
    p.boot = load_i64(slot + 80)
    return load_i64(slot + 8)


cdef inline int64_t slot_at(int number) noexcept nogil:
    return COPY_AT if number == 2 else number * SLOT_BYTES


cdef bint is_zero(const uint8_t* slot) noexcept nogil:
    cdef int i
    for i in range(SLOT_BYTES):
        if slot[i] != 0:
            return False
    return True


cdef int open_all(PositionFile* file, const char* path) noexcept nogil:
    cdef int error = 0, i
    file.fd = open_file(path, O_RDWR | O_CREAT, &error)
    for i in range(POSITION_SYNCERS):
        file.sync_fds[i] = open_file(path, O_RDONLY, &error) if file.fd >= 0 else -1
    for i in range(POSITION_SYNCERS):
        if file.sync_fds[i] < 0:
            position_close(file)
            return IO_ERROR
    return OK


cdef int position_open(PositionFile* file, const char* path, int64_t log_end,
                       TimerPosition* newest) noexcept nogil:
    cdef uint8_t page[FILE_BYTES]
    cdef TimerPosition one
    cdef const uint8_t* slot
    cdef int64_t serial, best = 0
    cdef int error = 0, i, status
    cdef bint beyond[SLOTS]         # its log_end is beyond the log's end
    cdef bint any_beyond = False
    memset(file, 0, sizeof(PositionFile))
    memset(newest, 0, sizeof(TimerPosition))
    memset(page, 0, sizeof(page))
    if open_all(file, path) != OK:
        return IO_ERROR
    if file_size(file.fd, &error) < FILE_BYTES:
        status = allocate(file.fd, 0, FILE_BYTES, &error)
        if status != OK:
            position_close(file)
            return status
    if read_at(file.fd, page, sizeof(page), 0, &error) < 0:
        position_close(file)
        return IO_ERROR
    for i in range(SLOTS):
        slot = page + slot_at(i)
        serial = decode(slot, &one)
        if serial == 0 and not is_zero(slot):
            file.damaged += 1
        elif serial > 0 and i > 0 and is_zero(page):    # slot 0 is written before the others
            file.damaged += 1
        if serial > file.serial:
            file.serial = serial
        beyond[i] = serial > 0 and one.log_end > log_end
        any_beyond = any_beyond or beyond[i]
        if serial > best and one.log_end <= log_end:
            best = serial
            file.found = True
            newest[0] = one
    if any_beyond and forget(file, beyond, newest) != OK:
        position_close(file)
        return IO_ERROR
    file.settled = newest.before
    return OK


cdef int forget(PositionFile* file, const bint* beyond, const TimerPosition* newest) noexcept nogil:
    """Clears slots whose log_end is beyond the log's end. When the log has grown past that end they
    would otherwise count again, with messages that are not delivered."""
    cdef uint8_t slot[SLOT_BYTES]
    cdef int i, error = 0
    cdef int status = OK
    memset(slot, 0, SLOT_BYTES)
    if file.found:
        encode(newest, file.serial, slot)
    for i in range(SLOTS):
        if beyond[i] and status == OK:
            status = write_at(file.fd, slot, SLOT_BYTES, slot_at(i), &file.last_errno, NULL)
    return status if status != OK else sync_data(file.fd, &error)


cdef void position_close(PositionFile* file) noexcept nogil:
    cdef int i
    if file.fd < 0:
        return
    for i in range(POSITION_SYNCERS):
        close_file(file.sync_fds[i])
    close_file(file.fd)
    file.fd = -1


cdef int write_slot(PositionFile* file, const TimerPosition* position, int number) noexcept nogil:
    cdef uint8_t slot[SLOT_BYTES]
    cdef int status
    file.serial += 1
    encode(position, file.serial, slot)
    status = write_at(file.fd, slot, SLOT_BYTES, slot_at(number), &file.last_errno, NULL)
    if status == OK and number == 0:
        status = write_at(file.fd, slot, SLOT_BYTES, slot_at(2), &file.last_errno, NULL)
    return status


cdef int position_write(PositionFile* file, const TimerPosition* now,
                        int64_t durable) noexcept nogil:
    cdef int status = OK
    cdef bint writes_all = file.waits and file.waiting.log_end <= durable
    if writes_all:
        if load_acquire_i32(&file.sync_failed):
            store_release_i32(&file.rewriting, 1)    # set first: one of the two is always seen
            store_release_i32(&file.sync_failed, 0)     # a failure from here on is a new one
        file.waits = False
        status = write_slot(file, &file.waiting, 1)
        if status == OK:
            file.settled = file.waiting.before
    if not file.waits:
        file.waiting = now[0]
        file.waits = True
    if status == OK:
        status = write_slot(file, now, 0)
    if writes_all and status == OK:
        store_release_i32(&file.rewriting, 0)
    return status


cdef bint position_is_settled(const PositionFile* file,
                              const TimerPosition* position) noexcept nogil:
    cdef int i
    for i in range(2):
        if (file.settled[i].due_ms != position.before[i].due_ms
                or file.settled[i].place != position.before[i].place):
            return False
    return True


cdef bint position_settles(const PositionFile* file, int64_t durable) noexcept nogil:
    return (file.waits and file.waiting.log_end <= durable
            and (position_is_lost(file) or not position_is_settled(file, &file.waiting)))


cdef bint position_is_lost(const PositionFile* file) noexcept nogil:
    return (load_acquire_i32(&file.sync_failed) != 0
            or load_acquire_i32(&file.rewriting) != 0)


cdef int position_sync(PositionFile* file, int syncer) noexcept nogil:
    cdef int error = 0
    if position_is_lost(file):
        return IO_ERROR
    # A failed sync is not repeated on slots that it may have lost: all are written again first.
    if sync_data(file.sync_fds[syncer], &error) != OK:
        store_release_i32(&file.sync_failed, 1)
        return IO_ERROR
    return OK
