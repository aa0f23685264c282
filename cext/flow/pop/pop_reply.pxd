"""Pop reply: the answers to a pop, each of which ends its job."""
from libc.stdint cimport int32_t

from cext.flow.pop.pop_job cimport PopJob
from cext.flow.pop.pop_service cimport PopService
from cext.flow.pop.popped_messages cimport Popped

cdef void answer_found(PopService s, PopJob* job, Popped* p) noexcept nogil
cdef void answer_nothing(PopService s, PopJob* job, Popped* p, int32_t code) noexcept nogil
cdef void answer_notification(PopService s, PopJob* job, bint has_message,
                              bint full) noexcept nogil
cdef void refuse_pop(PopService s, PopJob* job, int32_t code, const char* remark) noexcept nogil
# Everything that could be given lies behind a message that is too large.
cdef void refuse_large(PopService s, PopJob* job, const Popped* p) noexcept nogil
