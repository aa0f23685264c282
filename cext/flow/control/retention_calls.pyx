"""Retention calls. See retention_calls.pxd."""
from libc.stdint cimport int32_t, int64_t

from cext.base.status cimport OK
from cext.flow.append.appender cimport Appender
from cext.flow.context.control_link cimport CallFn
from cext.flow.context.role cimport role_stop_writes
from cext.flow.control.control_side cimport borrowed
from cext.wire.text cimport Text


cdef struct SetWritable:
    bint stop
    Text reason                 # what clients of refused sends are told


cdef void set_writable(Appender s, SetWritable* x) noexcept nogil:
    role_stop_writes(&s.turn.role, x.stop, &x.reason)


cdef struct DropSegment:
    # results
    int status


cdef void drop_segment(Appender s, DropSegment* x) noexcept nogil:
    """Drops the oldest segment, but never the last one."""
    x.status = s.log.drop_first_segment()
    if x.status == OK:
        s.queues.drop_below(s.log.min_offset())


cdef class RetentionCalls(LogCalls):
    def set_writable(self, int32_t flag, bytes reason):
        cdef SetWritable x
        x.stop = flag == 0
        x.reason = borrowed(reason)
        self._call(<CallFn> set_writable, <void*> self.appender, &x)

    def drop_segments(self, int64_t before_ms, int32_t max_count, int32_t force):
        cdef DropSegment x
        cdef int32_t dropped = 0
        cdef int64_t modified_ms
        while dropped < max_count:
            if not force:
                modified_ms = self.appender.log.first_segment_modified_ms()
                if modified_ms < 0 or modified_ms >= before_ms:
                    break
            self._call(<CallFn> drop_segment, <void*> self.appender, &x)
            if x.status != OK:
                break
            dropped += 1
        return dropped
