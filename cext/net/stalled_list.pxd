"""Stalled list: connections whose sockets take no output, the longest stalled first.

The first connection has taken nothing for longest: it is the one to close when buffers for answers
run out. Example: 60 clients read nothing, and a quick client fills and empties its socket all the
time: the quick one is always last.

It belongs to the reactor thread.
"""
from cext.memory.list_ends cimport list_ends_check
from cext.net.connection cimport Connection

cdef struct StalledList:
    Connection* first
    Connection* last


cdef inline void stalled_leave(StalledList* list, Connection* c) noexcept nogil:
    if not c.stalled:
        return
    c.stalled = 0
    if c.stalled_before != NULL:
        c.stalled_before.stalled_behind = c.stalled_behind
    else:
        list.first = c.stalled_behind
    if c.stalled_behind != NULL:
        c.stalled_behind.stalled_before = c.stalled_before
    else:
        list.last = c.stalled_before
    list_ends_check(list.first, list.last)


# Puts c last, whether or not it was in the list.
cdef inline void stalled_join(StalledList* list, Connection* c) noexcept nogil:
    stalled_leave(list, c)
    c.stalled = 1
    c.stalled_before = list.last
    c.stalled_behind = NULL
    if list.last != NULL:
        list.last.stalled_behind = c
    else:
        list.first = c
    list.last = c
    list_ends_check(list.first, list.last)
