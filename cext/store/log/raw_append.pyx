"""Raw append: bytes of another log. See raw_append.pxd."""
from libc.stdint cimport uint32_t
from libc.string cimport memcpy

from cext.base.byteorder cimport load_u32
from cext.base.status cimport Status
from cext.store.log.commit_log cimport segment_end
from cext.store.log.record cimport (
    AT_END, AT_MAGIC, BAD_MAGIC, BAD_SIZE, MAGIC_BLANK, NO_PROBLEM, RECORD_BYTES_MIN,
    TERMINATOR_BYTES, RecordView, is_record_magic, record_parse)

cdef enum:
    HEAD_BYTES = 8                  # size and magic


cdef int raw_append(CommitLog log, int64_t offset, const uint8_t* bytes, uint64_t count,
                    int32_t* problem) noexcept nogil:
    cdef uint64_t taken
    cdef int status = Status.OK
    problem[0] = NO_PROBLEM
    if not log.opened:
        return Status.CLOSED
    if log.poisoned():
        return Status.POISONED
    if offset != log.marks.appended:
        return Status.NOT_FOUND
    while status == Status.OK and count >= HEAD_BYTES:
        if load_u32(bytes + AT_MAGIC) == MAGIC_BLANK:
            status = append_blank(log, load_u32(bytes), problem)
        else:
            status = append_one(log, bytes, count, problem)
        taken = <uint64_t> (log.marks.appended - offset)
        if taken == 0 or taken >= count:
            break
        offset = log.marks.appended
        bytes += taken
        count -= taken
    return status


cdef int append_blank(CommitLog log, int64_t left, int32_t* problem) noexcept nogil:
    if left != segment_end(log, log.marks.appended) - log.marks.appended:
        problem[0] = BAD_SIZE
        return Status.CORRUPT
    return log.roll()


cdef int append_one(CommitLog log, const uint8_t* bytes, uint64_t count,
                    int32_t* problem) noexcept nogil:
    """Appends one record. OK also when not all of it is there; then nothing is appended."""
    cdef int64_t offset = log.marks.appended
    cdef uint32_t total = load_u32(bytes)
    cdef uint8_t* at
    cdef RecordView view
    cdef int status
    if not is_record_magic(load_u32(bytes + AT_MAGIC)):
        problem[0] = BAD_MAGIC if total != 0 or load_u32(bytes + AT_MAGIC) != 0 else AT_END
        return Status.CORRUPT
    if total < RECORD_BYTES_MIN or (
            <int64_t> total + TERMINATOR_BYTES > segment_end(log, offset) - offset):
        problem[0] = BAD_SIZE
        return Status.CORRUPT
    if total > log.max_record_bytes:
        return Status.TOO_LARGE
    if total > count:
        return Status.OK
    if record_parse(bytes, total, offset, True, &view) != Status.OK:
        problem[0] = view.problem
        return Status.CORRUPT
    at = log.reserve(total, &status)
    if at == NULL:
        return status
    memcpy(at, bytes, total)
    log.commit(total)
    return Status.OK
