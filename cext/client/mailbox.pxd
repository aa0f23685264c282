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


# What a mailbox knows of its engine; Engine (engine.pxd) fills it.
cdef class EngineBase:
    cdef EngineState* state          # owned
    # The exception of a request that got no answer.
    cdef object failure(self, int outcome, int32_t link, int32_t code, int64_t waited_us)


cdef class Mailbox:
    cdef MailboxState* state
    cdef EngineBase engine
    cdef public object on_error      # on_error(exception), in deliver
    cdef public object on_notice     # on_notice(link, Reply | None, errno), in deliver
    cdef readonly int delivering     # threads inside deliver's telling part
    cdef unsigned long thread        # of the last deliver, and of fileno: who polls also tells
    cdef object raised               # by tell, when all are told
    cdef Slot* told                  # GIL: ends told or being told, and nothing is left in them

    cdef Slot* take(self, int64_t until_us)      # all that is there, a chain; waits without the GIL
    cdef int tell(self, Slot* chain) except -1   # number told
    cdef int tell_one(self, Slot* slot) except -1
    cdef void report(self, object error)         # what told code has raised
    cdef void give_back_told(self) noexcept      # engine's lock held


cdef extern from "Python.h":
    unsigned long PyThread_get_thread_ident() nogil


cdef inline bint is_teller(Mailbox mailbox) noexcept:
    """Whether this thread is the one that tells, now or, as an event loop's, when it polls again:
    it must not wait for what it has to tell."""
    return ((mailbox.delivering or mailbox.state.event_fd >= 0)
            and mailbox.thread == PyThread_get_thread_ident())


cdef class Waiter:
    """A caller that waits for one request itself."""
    cdef readonly object reply
    cdef readonly object error
    cdef readonly bint done


# Base of what a send's slot refers to; the sender's Target fills it.
cdef class Completion:
    cdef int completed(self, Slot* slot) except -1
