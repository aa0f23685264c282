"""Listener: a socket that accepts clients of one protocol.

A reactor serves several listeners. If the process has no descriptor left for one more client, the
listener leaves epoll until listener_resume(), which is called about once a second: its socket stays
readable, so the loop would spin otherwise. At the limit of connections, one that has never asked
for anything makes room (displace); if there is none, the new client is closed.

Example: port 10911 with the remoting protocol and, in the same reactor, a second port with another.
"""
from cext.net.connection cimport Protocol, Transport
from cext.net.connection_table cimport ConnectionTable

cdef struct Listener:
    int fd                      # borrowed: bound, listening, non-blocking; -1: stopped
    bint paused                 # out of epoll for want of descriptors
    Protocol protocol           # of the connections that it accepts; they point to this member
    const Transport* transport  # of these connections; borrowed; NULL: plain

# OK or IO_ERROR.
cdef int listener_watch(Listener* listener, ConnectionTable table) noexcept nogil
cdef void listener_accept(Listener* listener, ConnectionTable table) noexcept nogil
cdef void listener_resume(Listener* listener, ConnectionTable table) noexcept nogil
cdef void listener_stop(Listener* listener, ConnectionTable table) noexcept nogil
