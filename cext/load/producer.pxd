# Producer: sends, as an event loop (event_loop.pxd) with a schedule.
#
# Closed loop: each connection keeps `window` requests open and sends the next when an answer
# comes. Open loop (rate > 0): request k is due at start + k / rate whatever the broker does; its
# latency counts from that moment, so a broker that stalls for a second shows a second and not one
# slow request (no coordinated omission). What was due and found no free slot is sent late, and
# counted late; what was not sent, or not answered, when the run ended has waited so long at least,
# and counts so. How late it went, and how long it took from then on, are counted apart.
#
# The number in a message's unique key is the moment at which it was due, or else sent: monotonic
# nanoseconds, of which a key has the low 48 bits, and more than that of the message before. So a
# consumer on the same machine knows how long a message took from end to end.

from libc.stdint cimport int64_t, uint32_t, uint64_t

from cext.load.event_loop cimport EventLoop
from cext.load.histogram cimport Histogram
from cext.load.peer cimport Peer
from cext.load.template cimport FrameSet


cdef class Producer(EventLoop):
    cdef FrameSet frames
    cdef uint32_t window
    cdef double rate             # requests per second over all connections; 0: closed loop
    cdef uint64_t limit          # requests to send at most; 0: no limit
    cdef bint stopping           # finish() was called: nothing new is sent
    cdef int64_t start_ns        # of the schedule (open loop)
    cdef uint64_t due_sent       # requests of the schedule sent so far
    cdef uint64_t sent           # requests handed to a connection, ever
    cdef uint32_t next_frame     # round robin over the frame set
    cdef uint32_t next_peer      # round robin over the peers (open loop)
    cdef uint64_t unique         # least number of the next unique key
    # since reset_stats()
    cdef readonly Histogram delay  # ns from when a request was due until it went (open loop)
    cdef readonly Histogram service  # ns from when a request went until its answer
    cdef uint64_t requests       # sent
    cdef uint64_t acked          # answered with code 0
    cdef uint64_t bytes_sent

    cdef bint sent_all(self) noexcept nogil
    # Requests that had come due when the loop came back last, and were not sent.
    cdef uint64_t overdue_count(self) noexcept nogil
    cdef void record_overdue(self) noexcept nogil
    cdef void record_open(self, Peer* peer) noexcept nogil
    cdef bint put_request(self, Peer* peer, int64_t started_ns, int64_t now) noexcept nogil
    cdef void fill(self, Peer* peer, int64_t now) noexcept nogil
