"""Writes and reads the file of queue ends. See queue_ends.pxd. Any thread."""
from libc.errno cimport EDQUOT, EINTR, ENOSPC, errno
from libc.stdint cimport uint32_t
from libc.stdio cimport rename
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from posix.fcntl cimport O_CLOEXEC, O_CREAT, O_TRUNC, O_WRONLY, open
from posix.unistd cimport close, write

from cext.base.byteorder cimport load_i32, load_i64, load_u32, store_i32, store_i64, store_u32
from cext.base.checksum cimport crc32, crc32_update
from cext.base.status cimport Status
from cext.wire.limits cimport TOPIC_BYTES_MAX

cdef enum:
    MAGIC = 0x726D7145
    VERSION = 1
    HEADER_BYTES = 40
    FIXED_BYTES = 41                # of an entry, without its topic
    TRAILER_BYTES = 12
    BUFFER_BYTES = 1 << 18


cdef int failed() noexcept nogil:
    return Status.NO_SPACE if errno == ENOSPC or errno == EDQUOT else Status.IO_ERROR


cdef int write_all(int fd, const uint8_t* bytes, int64_t length) noexcept nogil:
    cdef ssize_t written
    while length > 0:
        written = write(fd, bytes, <size_t> length)
        if written < 0 and errno == EINTR:
            continue
        if written <= 0:
            return failed()
        bytes += written
        length -= written
    return Status.OK


cdef int64_t put_entry(uint8_t* out, const Queue* queue) noexcept nogil:
    cdef const QueueEnds* ends = &queue.file_ends
    out[0] = <uint8_t> queue.topic_length
    memcpy(out + 1, queue.topic, <size_t> queue.topic_length)
    out += 1 + queue.topic_length
    store_i32(out, queue.queue_id)
    store_i64(out + 4, ends.min_offset)
    store_i64(out + 12, ends.first_physical)
    store_i64(out + 20, ends.end_offset)
    store_i64(out + 28, ends.last_physical)
    store_i32(out + 36, ends.last_size)
    return FIXED_BYTES + queue.topic_length


cdef int write_file(int fd, const EndsHeader* header, Queue** queues, int64_t count,
                    uint8_t* buffer) noexcept nogil:
    cdef int64_t used = HEADER_BYTES
    cdef int64_t i
    cdef uint32_t crc = 0
    cdef int status
    store_u32(buffer, MAGIC)
    store_u32(buffer + 4, VERSION)
    memcpy(buffer + 8, header.boot_id, 16)
    store_i64(buffer + 24, header.log_offset)
    store_i64(buffer + 32, header.anchor)
    for i in range(count):
        if used + FIXED_BYTES + TOPIC_BYTES_MAX + TRAILER_BYTES > BUFFER_BYTES:
            crc = crc32_update(crc, buffer, <size_t> used)
            status = write_all(fd, buffer, used)
            if status != Status.OK:
                return status
            used = 0
        used += put_entry(buffer + used, queues[i])
    store_i64(buffer + used, count)
    crc = crc32_update(crc, buffer, <size_t> used + 8)
    store_u32(buffer + used + 8, crc)
    return write_all(fd, buffer, used + TRAILER_BYTES)


cdef int ends_write(const char* path, const char* temporary, const EndsHeader* header,
                    Queue** queues, int64_t count) noexcept nogil:
    cdef uint8_t* buffer
    cdef int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
    cdef int status
    if fd < 0:
        return failed()
    buffer = <uint8_t*> malloc(BUFFER_BYTES)
    if buffer == NULL:
        close(fd)
        return Status.NO_SPACE
    status = write_file(fd, header, queues, count, buffer)
    free(buffer)
    if close(fd) != 0 and status == Status.OK:
        status = failed()
    if status == Status.OK and rename(temporary, path) != 0:
        status = failed()
    return status


cdef bint ends_header(const uint8_t* data, int64_t length, EndsHeader* header) noexcept nogil:
    cdef int64_t at = HEADER_BYTES
    cdef int64_t entries = length - TRAILER_BYTES
    cdef int64_t count = 0
    if length < HEADER_BYTES + TRAILER_BYTES or load_u32(data) != MAGIC \
            or load_u32(data + 4) != VERSION:
        return False
    if load_u32(data + length - 4) != crc32(data, <size_t> length - 4):
        return False
    while at < entries:
        at += FIXED_BYTES + data[at]
        count += 1
    if at != entries or count != load_i64(data + entries):
        return False
    memcpy(header.boot_id, data + 8, 16)
    header.log_offset = load_i64(data + 24)
    header.anchor = load_i64(data + 32)
    return header.log_offset >= 0


cdef bint ends_next(const uint8_t* data, int64_t length, int64_t* at,
                    EndsEntry* entry) noexcept nogil:
    cdef const uint8_t* from_here
    if at[0] == 0:
        at[0] = HEADER_BYTES
    if at[0] >= length - TRAILER_BYTES:
        return False
    entry.topic_length = data[at[0]]
    entry.topic = <const char*> data + at[0] + 1
    from_here = data + at[0] + 1 + entry.topic_length
    entry.queue_id = load_i32(from_here)
    entry.ends.min_offset = load_i64(from_here + 4)
    entry.ends.first_physical = load_i64(from_here + 12)
    entry.ends.end_offset = load_i64(from_here + 20)
    entry.ends.last_physical = load_i64(from_here + 28)
    entry.ends.last_size = load_i32(from_here + 36)
    at[0] += FIXED_BYTES + entry.topic_length
    return True
