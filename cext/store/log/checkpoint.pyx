"""Reading and writing the checkpoint page. See checkpoint.pxd.

The page is written as a whole by one pwrite into the page cache, so a killed process leaves either
the old page or the new one. A power cut may tear it at a sector: the first 40 bytes are inside one
sector and the own part is inside another, and the own part has a checksum.
"""
from libc.errno cimport EDQUOT, EINTR, ENOSPC, errno
from libc.string cimport memcpy, memset
from posix.unistd cimport pread, pwrite

from pathlib import Path

from cext.base.byteorder cimport load_i64, load_u32, store_i64, store_u32
from cext.base.checksum cimport crc32
from cext.base.status cimport Status

cdef enum:
    MAGIC = 0x726D7143
    VERSION = 1
    JAVA_BYTES = 40


cdef void checkpoint_encode(const CheckpointFields* fields, uint8_t* page) noexcept nogil:
    cdef uint8_t* own = page + OWN_AT
    memset(page, 0, CHECKPOINT_BYTES)
    store_i64(page, fields.physic_ms)
    store_i64(page + 8, fields.logics_ms)
    store_i64(page + 16, fields.index_ms)
    store_i64(page + 24, fields.master_flushed_offset)
    store_i64(page + 32, fields.confirm_offset)
    store_u32(own, MAGIC)
    store_u32(own + 4, VERSION)
    memcpy(own + 8, fields.boot_id, 16)
    store_i64(own + 24, fields.physic_ms)
    store_i64(own + 32, fields.persisted_offset)
    store_i64(own + 40, fields.synced_offset)
    store_i64(own + 48, fields.queue_count)
    store_i64(own + 56, fields.persisted_anchor)
    store_i64(own + 64, fields.synced_anchor)
    store_u32(own + OWN_BYTES - 4, crc32(own, OWN_BYTES - 4))


cdef void checkpoint_decode(const uint8_t* page, CheckpointFields* fields) noexcept nogil:
    cdef const uint8_t* own = page + OWN_AT
    memset(fields, 0, sizeof(CheckpointFields))
    fields.physic_ms = load_i64(page)
    fields.logics_ms = load_i64(page + 8)
    fields.index_ms = load_i64(page + 16)
    fields.master_flushed_offset = load_i64(page + 24)
    fields.confirm_offset = load_i64(page + 32)
    if load_u32(own) != MAGIC or load_u32(own + 4) != VERSION:
        return
    if load_u32(own + OWN_BYTES - 4) != crc32(own, OWN_BYTES - 4):
        return
    if load_i64(own + 24) != fields.physic_ms:
        return
    memcpy(fields.boot_id, own + 8, 16)
    fields.persisted_offset = load_i64(own + 32)
    fields.synced_offset = load_i64(own + 40)
    fields.queue_count = load_i64(own + 48)
    fields.persisted_anchor = load_i64(own + 56)
    fields.synced_anchor = load_i64(own + 64)
    fields.own_valid = (0 <= fields.synced_offset <= fields.persisted_offset
                        and fields.queue_count >= 0)


cdef int checkpoint_write(int fd, const CheckpointFields* fields) noexcept nogil:
    cdef uint8_t page[CHECKPOINT_BYTES]
    cdef ssize_t written
    checkpoint_encode(fields, page)
    while True:
        written = pwrite(fd, page, CHECKPOINT_BYTES, 0)
        if written == CHECKPOINT_BYTES:
            return Status.OK
        if written < 0 and errno == EINTR:
            continue
        return Status.NO_SPACE if errno == ENOSPC or errno == EDQUOT else Status.IO_ERROR


cdef int checkpoint_read(int fd, CheckpointFields* fields) noexcept nogil:
    cdef uint8_t page[CHECKPOINT_BYTES]
    cdef ssize_t got
    memset(page, 0, CHECKPOINT_BYTES)
    memset(fields, 0, sizeof(CheckpointFields))
    while True:
        got = pread(fd, page, CHECKPOINT_BYTES, 0)
        if got >= 0:
            break
        if errno != EINTR:
            return Status.IO_ERROR
    if got < JAVA_BYTES:
        return Status.NOT_FOUND
    if got < CHECKPOINT_BYTES:
        memset(page + got, 0, <size_t> (CHECKPOINT_BYTES - got))
    checkpoint_decode(page, fields)
    return Status.OK


def boot_id() -> bytes:
    """The kernel's id of this boot, 16 bytes; zeros if there is none."""
    try:
        text = Path("/proc/sys/kernel/random/boot_id").read_text()
        return bytes.fromhex(text.strip().replace("-", ""))
    except (OSError, ValueError):
        return bytes(16)
