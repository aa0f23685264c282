"""Control link: what goes between the reactor and the control thread, both ways, without a lock.

Reactor to control: frames that the reactor does not serve itself, connections opened and closed,
events for the log. Control to reactor: ready frames to send, frames to take again, connections to
close, and calls. A call is a C function that runs in the reactor between two turns while the caller
waits; this is how the control thread reads and changes the tables, which only the reactor may
touch.

Messages are malloc'd, because there are few of them: none is made for an ordinary message of a
user. What waits for the control thread is bounded in number (the ring) and in bytes; beyond that
the reactor answers a request with SYSTEM_BUSY.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.memory.arena cimport Arena
from cext.memory.spsc_ring cimport SpscRing

cdef extern from "<semaphore.h>" nogil:
    ctypedef struct sem_t:
        pass
    int sem_init(sem_t* semaphore, int shared, unsigned int value)
    int sem_wait(sem_t* semaphore)
    int sem_post(sem_t* semaphore)
    int sem_destroy(sem_t* semaphore)

cdef enum ToControl:
    REQUEST = 0
    CLOSED_CONNECTION = 1
    OPENED_CONNECTION = 2       # data: address, a line end, and the name the client has proved
    EVENT = 3
    FUNCTION_PULL = 5           # data: see function_pull.pyx
    WANT_TOPIC = 4              # data: name; connection_id: how many queues it needs
    REFUSED = 7                 # data: lines about a refused request: see small_replies.pyx
    DRAINED = 6                 # after TELL_DRAINED: all output of the connection has been sent

cdef enum ToReactor:
    SEND_FRAME = 0
    RESUBMIT = 1
    CLOSE = 2
    CALL = 3
    SEND_DONE = 4               # a send of the connection is given back or answered
    HOLD = 5                    # control has enough requests of the connection: it is not read
    RELEASE = 6                 # after HOLD: it may be read again
    TELL_DRAINED = 7            # after HOLD: send DRAINED when its output has been sent

ctypedef void (*CallFn)(void* service, void* arguments) noexcept nogil

cdef struct LinkMessage:
    int32_t kind                # ToControl or ToReactor
    uint64_t connection_id
    uint64_t length             # bytes of data
    CallFn call                 # CALL only
    void* service               # CALL only: what the function works on
    void* arguments             # CALL only; on the caller's stack
    sem_t done                  # CALL only; posted when the call has run
    uint8_t data[0]

cdef struct ControlLink:
    SpscRing to_control
    SpscRing to_reactor
    int control_fd              # eventfd; readable when to_control has something
    bint signalled              # control_fd was written in this turn or is still unread
    uint64_t bytes_in           # bytes ever pushed towards control; reactor only writes
    uint64_t bytes_out          # bytes ever taken by control; control only writes
    uint64_t bytes_max
    uint64_t refused
    uint64_t messages_max       # messages that may wait; the rest of the ring is for CLOSED..
    uint64_t round              # grows when control has caught up; only the reactor uses it

# Makes room for `messages` messages of any kind, and in addition for one CLOSED_CONNECTION and one
# DRAINED of each connection that these messages or `connections` open ones may still bring: neither
# of these two is ever lost.
cdef int link_open(ControlLink* link, Arena* arena, uint64_t messages, uint64_t bytes_max,
                   uint64_t connections) noexcept nogil
# What link_open takes from the arena.
cdef uint64_t link_arena_bytes(uint64_t messages, uint64_t connections) noexcept nogil
cdef void link_close(ControlLink* link) noexcept nogil
# Reactor side. False: the ring is full; an EVENT is then lost, a REQUEST refused.
cdef bint link_push(ControlLink* link, int32_t kind, uint64_t connection_id, const uint8_t* data,
                    uint64_t length) noexcept nogil
# The same in two halves, for data made of several pieces: link_start() returns a message whose
# `length` bytes the caller fills (NULL: full), and link_finish() sends it, which cannot fail.
cdef LinkMessage* link_start(ControlLink* link, int32_t kind, uint64_t connection_id,
                             uint64_t length) noexcept nogil
cdef void link_finish(ControlLink* link, LinkMessage* message) noexcept nogil
cdef void link_wake_control(ControlLink* link) noexcept nogil      # once per turn
cdef LinkMessage* link_make(int32_t kind, uint64_t connection_id, const uint8_t* data,
                            uint64_t length) noexcept nogil
