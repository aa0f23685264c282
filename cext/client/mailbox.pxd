"""Mailbox: where the ends of requests wait for a Python thread or an event loop.

    mailbox.deliver(timeout_ms)      a thread that runs callbacks: waits, then tells all that came
    loop.add_reader(mailbox.fileno(), mailbox.deliver)        an event loop, in its thread

"To tell" an end means: for a send, to call its Target (cext/client/sends); for anything else, to
call token(reply, error). This happens in the thread that called deliver. An exception of the called
code goes to `on_error`, whatever it is, and ends nothing: all ends that came are told. After that,
deliver raises KeyboardInterrupt if one came meanwhile (the Ctrl-C was meant for the thread), or
what `on_error` itself has raised.
"""
from libc.stdint cimport int32_t, int64_t

from cext.client.state cimport EngineState, MailboxState, Slot


# A thread that is telling ends; lies on its stack. A mailbox may have several.
cdef struct Teller:
    Slot* told                       # of ends told or being told; nothing is left in these slots
    unsigned long thread             # this and the next two: only inside deliver
    void* mailbox                    # borrowed, a Mailbox: the call of deliver keeps it alive
    Teller* next


# What a mailbox needs of its engine; Engine (engine.pxd) fills it in.
cdef class EngineBase:
    cdef EngineState* state          # owned
    cdef Teller* tellers             # GIL: the threads inside deliver of any of its mailboxes
    # The exception for a request that got no answer.
    cdef object failure(self, int outcome, int32_t link, int32_t code, int64_t waited_us)


cdef class Mailbox:
    cdef MailboxState* state
    cdef EngineBase engine
    cdef public object on_error      # on_error(exception), in deliver
    cdef public object on_notice     # on_notice(link, Reply | None, errno), in deliver
    cdef unsigned long poller        # an event loop's thread: the last to call fileno or deliver
    cdef object raised               # raised by tell, when all are told

    cdef Slot* take(self, int64_t until_us)      # all that has come; waits without the GIL
    cdef int tell(self, Slot* chain) except -1   # how many; for a caller that waits by itself
    cdef int tell_by(self, Teller* me, Slot* chain) except -1
    cdef int tell_one(self, Slot* slot) except -1
    cdef void report(self, object error)         # an exception of called code
    cdef void leave(self, Teller* teller) noexcept
    cdef object refusal(self)        # the exception when claim_slot gave no slot


cdef extern from "Python.h":
    unsigned long PyThread_get_thread_ident() nogil


cdef inline bint is_teller(Mailbox mailbox) noexcept:
    """Whether this thread tells this mailbox's ends: it is doing so now, or it is an event loop's
    thread, which will when it polls again. Such a thread must not wait for an end it has to
    tell."""
    cdef Teller* teller = mailbox.engine.tellers
    cdef unsigned long thread
    if teller == NULL and mailbox.state.event_fd < 0:
        return False
    thread = PyThread_get_thread_ident()
    while teller != NULL:
        if teller.thread == thread and teller.mailbox == <void*>mailbox:
            return True
        teller = teller.next
    return mailbox.state.event_fd >= 0 and mailbox.poller == thread

# Engine's lock held. Frees the slots of ends that this thread has told so far in its deliver calls,
# of any mailbox: it may need a slot for a request that it waits for itself, in a mailbox of its
# own.
cdef void give_back_own(EngineBase engine) noexcept


cdef class Waiter:
    """A caller that waits for one request by itself."""
    cdef readonly object reply
    cdef readonly object error
    cdef readonly bint done


# Base class of what a send's slot refers to; SendCompletion (sends.pxd) implements it.
cdef class Completion:
    cdef int completed(self, Slot* slot) except -1
