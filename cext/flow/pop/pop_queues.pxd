"""Pop queues: the queues that one pop looks into, one after the other, and what it takes there."""
from cext.flow.pop.pop_job cimport PopJob
from cext.flow.pop.pop_service cimport PopService
from cext.flow.pop.popped_messages cimport Popped

# Looks into the topic's and the retry topic's queues, or into the one that was asked for.
cdef void pop_all(PopService s, PopJob* job, Popped* p) noexcept nogil
