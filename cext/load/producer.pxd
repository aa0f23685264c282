# Producer: sends, as an event loop (event_loop.pxd) with a schedule.
#
# Closed loop: each connection keeps `window` requests open and sends the next one when an answer
# comes. Open loop (rate > 0): request k is due at start + k / rate, whatever the broker does. Its
# latency counts from that moment, so a broker that stalls for a second shows a second and not one
# slow request (no coordinated omission). A request that was due and found no free slot is sent
# late, and counts as late. One that was not sent, or not answered, when the run ended has waited at
# least until then, and counts so. How late requests were sent, and how long they took from then on,
# is counted separately.
#
# The number in a message's unique key is the moment at which it was due, or, in a closed loop,
# sent: monotonic nanoseconds, of which a key has the low 48 bits; it always exceeds that of the
# message before. So a consumer on the same machine knows how long a message took from end to end.

from libc.stdint cimport int64_t, uint32_t, uint64_t

from cext.load.event_loop cimport EventLoop
from cext.load.histogram cimport Histogram
from cext.load.peer cimport Peer
from cext.load.template cimport FrameSet


cdef class Producer(EventLoop):
    cdef FrameSet frames
    cdef uint32_t window
    cdef double rate             # requests per second, all connections; 0: closed loop
    cdef uint64_t limit          # requests to send at most; 0: no limit
    cdef bint stopping           # finish() was called: nothing new is sent
    cdef int64_t start_ns        # of the schedule (open loop)
    cdef uint64_t due_sent       # requests of the schedule sent so far
    cdef uint64_t sent           # requests handed to a connection, ever
    cdef uint32_t next_frame     # round robin over the frame set
    cdef uint32_t next_peer      # round robin over the peers (open loop)
    cdef uint64_t unique         # smallest number for the next unique key
    # since reset_stats()
    cdef readonly Histogram delay  # ns from when a request was due until it was sent
    cdef readonly Histogram service  # ns from when a request was sent until its answer
    cdef uint64_t requests       # sent
    cdef uint64_t acked          # answered with code 0
    cdef uint64_t bytes_sent

    cdef bint sent_all(self) noexcept nogil
    # Requests that were due when the loop last returned, and were not sent.
    cdef uint64_t overdue_count(self) noexcept nogil
    cdef void record_overdue(self) noexcept nogil
    cdef void record_open(self, Peer* peer) noexcept nogil
    cdef bint put_request(self, Peer* peer, int64_t started_ns, int64_t now) noexcept nogil
    cdef void fill(self, Peer* peer, int64_t now) noexcept nogil
