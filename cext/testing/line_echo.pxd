"""Line echo: a protocol for tests that answers each line with its number and the line.

    a client sends "one\ntwo\n"      -> "1:one\n2:two\n"
                   "quit\n"          -> its connection is closed after the answers so far
                   a line too long   -> its connection is closed

After `lines_per_turn` lines the turn is full.

The number is counted in the connection's owner block. A line of more than 16 KiB is answered from
the heap, a shorter one from a reply buffer.
"""
from libc.stdint cimport uint64_t

from cext.net.connection cimport Protocol
from cext.net.reactor cimport Reactor

cdef enum:
    LINE_MAX = 1048576

cdef class LineEcho:
    cdef Reactor net
    cdef Protocol protocol          # for Reactor.add_listener; valid as long as this object
    cdef public uint64_t lines_per_turn     # 0: no limit
    cdef uint64_t lines_left        # of this turn
    cdef readonly uint64_t lines    # answered by all connections
    cdef readonly uint64_t drained  # calls of on_drained
    cdef readonly uint64_t closed
    cdef readonly uint64_t refused  # lines for which there was no buffer
