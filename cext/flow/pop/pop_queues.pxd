"""Pop queues: those that one pop looks into, in turn, and what becomes of what stands there."""
from cext.flow.pop.pop_job cimport PopJob
from cext.flow.pop.pop_service cimport PopService
from cext.flow.pop.popped cimport Popped

# The topic's and the retry topic's, or the one that was asked for.
cdef void pop_all(PopService s, PopJob* job, Popped* p) noexcept nogil
