"""Mailbox: where the ends of requests wait for a Python thread or an event loop.

    mailbox.deliver(timeout_ms)      a thread that runs callbacks: waits, then tells all that came
    loop.add_reader(mailbox.fileno(), mailbox.deliver)        an event loop, in its thread

Telling is: for a send, its Target (cext/client/sender); for anything else, token(reply, error).
Whoever is told runs in the thread that called deliver; what it raises goes to `on_error`, whatever
it is, and ends nothing: all that came are told. Then KeyboardInterrupt is raised, as the Ctrl-C
that came meanwhile was for the thread, and what `on_error` itself has raised.
"""
from libc.stdint cimport int32_t, int64_t

from cext.client.state cimport EngineState, MailboxState, Slot


# A thread that tells, on its stack; a mailbox may have several.
cdef struct Teller:
    Slot* told                       # ends told or being told, and nothing is left in them
    unsigned long thread             # this and the next two: inside deliver
    void* mailbox                    # borrowed, a Mailbox: the call of deliver has it
    Teller* next


# What a mailbox knows of its engine; Engine (engine.pxd) fills it.
cdef class EngineBase:
    cdef EngineState* state          # owned
    cdef Teller* tellers             # GIL: inside deliver of any of its mailboxes
    # The exception of a request that got no answer.
    cdef object failure(self, int outcome, int32_t link, int32_t code, int64_t waited_us)


cdef class Mailbox:
    cdef MailboxState* state
    cdef EngineBase engine
    cdef public object on_error      # on_error(exception), in deliver
    cdef public object on_notice     # on_notice(link, Reply | None, errno), in deliver
    cdef unsigned long poller        # an event loop's thread: of fileno, and of the last deliver
    cdef object raised               # by tell, when all are told

    cdef Slot* take(self, int64_t until_us)      # all that is there, a chain; waits without the GIL
    cdef int tell(self, Slot* chain) except -1   # number told; by who waits for them himself
    cdef int tell_by(self, Teller* me, Slot* chain) except -1
    cdef int tell_one(self, Slot* slot) except -1
    cdef void report(self, object error)         # what told code has raised
    cdef void leave(self, Teller* teller) noexcept
    cdef object refusal(self)        # the exception where claim_slot gave no slot


cdef extern from "Python.h":
    unsigned long PyThread_get_thread_ident() nogil


cdef inline bint is_teller(Mailbox mailbox) noexcept:
    """Whether this thread is one of those that tell, now or, as an event loop's, when it polls
    again: it must not wait for what it has to tell."""
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

# Engine's lock held. The slots of what this thread delivers and has told are free again, whatever
# mailbox it delivers from: also for a request that it waits for itself, in a mailbox of its own.
cdef void give_back_own(EngineBase engine) noexcept


cdef class Waiter:
    """A caller that waits for one request itself."""
    cdef readonly object reply
    cdef readonly object error
    cdef readonly bint done


# Base of what a send's slot refers to; the sender's Target fills it.
cdef class Completion:
    cdef int completed(self, Slot* slot) except -1
