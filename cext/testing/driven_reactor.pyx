"""Driven reactor: a test drives it turn by turn, with line echoes on any number of listeners.

    server = DrivenReactor(connections_max=8)
    echo = server.add_listener(listening.fileno())
    server.turn()                   # one poll, what is ready, one flush

There is no thread: between two turns everything stands still.
"""
cimport cython
from libc.stdint cimport int32_t, uint32_t, uint64_t

from cext.base.status cimport OK
from cext.memory.arena cimport SharedArena
from cext.net.reactor cimport Reactor, reactor_arena_bytes
from cext.testing.line_echo cimport LineEcho
from cext.testing.toy_transport cimport toy_transport

from cext.base.status import raise_status


@cython.no_gc_clear                  # its owners are freed first and may use it
cdef class DrivenReactor:
    cdef Reactor net
    cdef list echoes

    def __cinit__(self, *, uint64_t frame_max_bytes=1 << 20, uint32_t connections_max=16,
                  uint32_t jumbo_buffers=4, uint32_t reply_buffers=64,
                  int32_t busy_poll_us=0):
        self.net = Reactor()
        self.net.busy_poll_us = busy_poll_us
        self.echoes = []
        self.net.memory = SharedArena(reactor_arena_bytes(frame_max_bytes, connections_max,
                                                          jumbo_buffers, reply_buffers))
        if self.net.open(frame_max_bytes, connections_max, jumbo_buffers, reply_buffers) != OK:
            raise MemoryError("no memory or descriptors for the reactor")

    def add_listener(self, int fd, bint toy=False):
        """Returns the line echo that serves the clients, over the toy transport or plainly."""
        cdef LineEcho echo = LineEcho(self.net)
        raise_status(self.net.add_listener(fd, &echo.protocol, toy_transport() if toy else NULL),
                     "a listener")
        self.echoes.append(echo)
        return echo

    def stop_accepting(self):
        self.net.stop_accepting()

    def turn(self, int timeout_ms=0):
        """Returns the events that the poll brought; after a full turn, those of that turn again."""
        cdef LineEcho echo
        for echo in self.echoes:
            echo.lines_left = echo.lines_per_turn
        with nogil:
            self.net.poll(timeout_ms)
            self.net.receive_ready()
            self.net.flush()
        return self.net.event_count

    def busy_polls(self):
        return self.net.busy_polls

    def connections(self):
        return self.net.connection_count

    def in_use(self):
        """Buffers in use: (small, jumbo, reply, pieces)."""
        return (self.net.small_pool.in_use, self.net.jumbo_pool.in_use,
                self.net.reply_pool.in_use, self.net.piece_pool.in_use)

    def turn_is_full(self):
        return self.net.place.connection != NULL

    def close_all(self):
        """Closes every connection, as a stop or a limit may do between two turns."""
        cdef uint32_t slot
        for slot in range(self.net.highest_slot):
            if self.net.connections[slot].id != 0:
                self.net.close_connection(&self.net.connections[slot])

    def close_first(self):
        """Closes the connection in the lowest slot in use."""
        cdef uint32_t slot
        for slot in range(self.net.highest_slot):
            if self.net.connections[slot].id != 0:
                self.net.close_connection(&self.net.connections[slot])
                return
