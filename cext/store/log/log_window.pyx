"""A piece of the commit log in memory. See log_window.pxd."""
cimport cython
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memchr

from cext.base.atomics cimport fence, load_acquire_i64
from cext.base.byteorder cimport load_u32
from cext.base.status cimport Status
from cext.memory.mirror_ring cimport mirror_ring_at
from cext.store.log.record cimport AT_MAGIC, is_record_magic

cdef enum:
    HEAD_BYTES = 8                  # size and magic of a record
    MAGIC_FIRST_BYTE = 0xDA


@cython.no_gc_clear                  # __dealloc__ needs the object's fields
cdef class LogWindow:
    def __cinit__(self, CommitLog log not None, int64_t read_bytes, bint borrows=False):
        self.log = log
        self.read_bytes = self.capacity = read_bytes
        self.borrows = borrows
        self.buffer = <uint8_t*> malloc(<size_t> read_bytes)
        if self.buffer == NULL:
            raise MemoryError("no memory to read the commit log")

    def __dealloc__(self):
        free(self.buffer)

    cdef int fill(self, int64_t offset, int64_t wanted, int64_t limit) noexcept nogil:
        if self.start <= offset and offset + wanted <= self.end:
            return Status.OK
        if offset + wanted > limit:
            return Status.NOT_READY
        self._check_borrowed()
        if self.borrows and self._borrow(offset, wanted, limit):
            return Status.OK
        return self._read(offset, wanted, limit)

    cdef int _read(self, int64_t offset, int64_t wanted, int64_t limit) noexcept nogil:
        cdef int64_t size = max(wanted, self.read_bytes)
        cdef int64_t got
        cdef void* memory
        self.start = self.end = 0
        self.borrowed = False
        if size > self.capacity or self.capacity > 4 * size:
            memory = realloc(self.buffer, <size_t> size)
            if memory == NULL:
                return Status.POOL_EMPTY
            self.buffer = <uint8_t*> memory
            self.capacity = size
        got = self.log.read_log(offset, self.buffer, <uint64_t> min(size, limit - offset))
        if got < wanted:
            return <int> got if got < 0 else <int> Status.IO_ERROR
        self.copy_next = False
        self.bytes = self.buffer
        self.start = offset
        self.end = offset + got
        self.pieces_read += 1
        return Status.OK

    cdef bint _borrow(self, int64_t offset, int64_t wanted, int64_t limit) noexcept nogil:
        cdef int64_t quarter = <int64_t> self.log.ring.size // 4
        if (self.copy_next or wanted > quarter or offset < self.log.ring_low
                or load_acquire_i64(&self.log.link.claimed) > offset + 3 * quarter):
            return False
        self.bytes = mirror_ring_at(&self.log.ring, <uint64_t> offset)
        self.start = offset
        self.end = offset + min(max(wanted, min(quarter, <int64_t> BORROWED_BYTES)), limit - offset)
        self.borrowed = True
        self.pieces_borrowed += 1
        return True

    cdef void _check_borrowed(self) noexcept nogil:
        if not self.borrowed:
            return
        fence()                 # the claim is read after the bytes
        if load_acquire_i64(&self.log.link.claimed) > self.start + <int64_t> self.log.ring.size:
            self.lost = True
            self.start = self.end = 0
            self.borrowed = False
            self.pieces_lost += 1

    cdef void copy_next_piece(self) noexcept nogil:
        self._check_borrowed()
        self.start = self.end = 0
        self.borrowed = False
        self.copy_next = True

    cdef bint is_sound(self) noexcept nogil:
        cdef bint lost
        self._check_borrowed()
        lost = self.lost
        self.lost = False
        return not lost

    cdef int find_head(self, int64_t at, int64_t stop, int64_t limit,
                       int64_t* found) noexcept nogil:
        cdef const uint8_t* first
        cdef int status
        while at + HEAD_BYTES <= stop:
            status = self.fill(at, HEAD_BYTES, limit)
            if status != Status.OK:
                return status
            first = <const uint8_t*> memchr(window_at(self, at + AT_MAGIC), MAGIC_FIRST_BYTE,
                                            <size_t> (min(self.end, stop) - at - AT_MAGIC))
            if first == NULL:
                at = max(at + 1, min(self.end, stop) - AT_MAGIC)
                continue
            at = self.start + (first - self.bytes) - AT_MAGIC
            if at + HEAD_BYTES > stop:
                break
            status = self.fill(at, HEAD_BYTES, limit)
            if status != Status.OK:
                return status
            if is_record_magic(load_u32(window_at(self, at + AT_MAGIC))):
                found[0] = at
                return Status.OK
            at += 1
        return Status.NOT_FOUND
