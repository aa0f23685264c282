"""Listener: a socket that accepts clients of one protocol.

A reactor serves several. Where the process has no descriptor left for one more client, its listener
is out of epoll until resume(), about once a second: it stays readable, and asking it again at once
would spin. At the limit of connections, one that never asked for anything makes room (displace);
where there is none, the new client is closed.

Example: port 10911 with the remoting protocol and, in the same reactor, a second port with another.
"""
from cext.net.connection cimport Protocol, Transport
from cext.net.connection_table cimport ConnectionTable

cdef struct Listener:
    int fd                      # borrowed: bound, listening, non-blocking; -1: stopped
    bint paused                 # for want of descriptors
    Protocol protocol           # of the connections that it accepts, which point here
    const Transport* transport  # the same; NULL: plain. Borrowed

# OK or IO_ERROR.
cdef int listener_watch(Listener* listener, ConnectionTable table) noexcept nogil
cdef void listener_accept(Listener* listener, ConnectionTable table) noexcept nogil
cdef void listener_resume(Listener* listener, ConnectionTable table) noexcept nogil
cdef void listener_stop(Listener* listener, ConnectionTable table) noexcept nogil
