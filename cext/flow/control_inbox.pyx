"""Control inbox. See control_inbox.pxd."""
cimport cython
from libc.stdlib cimport free

from cext.flow.context.client_state cimport UNREAD_CONTROL
from cext.flow.context.control_link cimport (
    CALL,
    CLOSE,
    HOLD,
    RELEASE,
    RESUBMIT,
    SEND_DONE,
    SEND_FRAME,
    TELL_DRAINED,
    LinkMessage,
    sem_post,
)
from cext.flow.context.step cimport RunStep
from cext.flow.request_router cimport route_again
from cext.flow.send.pending_topic_sends cimport pending_send_done
from cext.memory.spsc_ring cimport spsc_first, spsc_pop
from cext.net.connection cimport ON_HEAP, Connection

from rmq.errors import not_copied


@cython.no_gc                       # in no reference cycle; a shard needs it whole at its end
cdef class ControlInbox:
    def __reduce__(self):
        raise not_copied(self, "it is of one shard")


cdef bint take_for_connection(ControlInbox s, LinkMessage* message, Connection* c) noexcept nogil:
    """A message about an open connection. Returns whether the message was kept, for its bytes."""
    if message.kind == SEND_FRAME:
        if s.turn.net.add_owned(c, message.data, message.length, message, ON_HEAP):
            return True                     # the output piece owns it now
        s.turn.net.close_connection(c)
    elif message.kind == SEND_DONE:
        pending_send_done(s.send, c)
    elif message.kind == HOLD:
        s.turn.net.stop_reading(c, UNREAD_CONTROL)
    elif message.kind == RELEASE:
        s.turn.net.go_on_reading(c, UNREAD_CONTROL)
    elif message.kind == TELL_DRAINED:
        c.notify_drained = 1
        s.turn.net.mark_dirty(c)
    elif message.kind == CLOSE:
        c.closing = True
        s.turn.net.mark_dirty(c)
    return False


cdef void take_control_messages(ControlInbox s) noexcept nogil:
    cdef LinkMessage* message = <LinkMessage*> spsc_first(&s.turn.link.to_reactor)
    cdef Connection* c
    while message != NULL:
        # A frame for which the turn has no room stays first, and later messages wait behind it.
        if message.kind == RESUBMIT and not route_again(
                s.router, message.connection_id, message.data, message.length, True):
            return
        spsc_pop(&s.turn.link.to_reactor)
        if message.kind == CALL:
            message.call(message.service, message.arguments)
            sem_post(&message.done)         # it is on the caller's stack: gone from here on
        elif message.kind == RESUBMIT:
            free(message)
        else:
            c = s.turn.net.find(message.connection_id)
            if c == NULL or not take_for_connection(s, message, c):
                free(message)
        message = <LinkMessage*> spsc_first(&s.turn.link.to_reactor)


cdef Step control_step(ControlInbox s) noexcept:
    return Step(b"control", <void*> s, <RunStep> take_control_messages, NULL, NULL)
