"""Mailboxes, and the telling of the ends that lie in them (see mailbox.pxd).

The references that a slot carries are given back here, exactly once, whatever the called code does.
"""
from cpython.ref cimport PyObject, Py_XDECREF
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free

from cext.base.clock cimport monotonic_us, wake_us
from cext.base.sysio cimport close_file, event_drain, event_open
from cext.client.mutex cimport (
    condition_broadcast, condition_close, condition_open, condition_wait, lock_close, lock_open,
    lock_release, lock_take,
)
from cext.client.reply cimport Reply, reply_take
from cext.client.slots cimport batch_free, slot_release
from cext.client.state cimport ANSWERED, ASKED, DROPPED, SLOTS, EngineState, MailboxState, Slot

from rmq.errors import BusyError, ClosedError, not_copied

cdef class Waiter:
    def __reduce__(self):
        raise not_copied(self, "it belongs to a client of this process")


cdef class Completion:
    def __reduce__(self):
        raise not_copied(self, "it belongs to a client of this process")

    cdef int completed(self, Slot* slot) except -1:
        raise NotImplementedError


cdef class EngineBase:
    def __reduce__(self):
        raise not_copied(self, "start one in each process")

    cdef object failure(self, int outcome, int32_t link, int32_t code, int64_t waited_us):
        raise NotImplementedError


# The garbage collector may clear its fields: __dealloc__ uses only `state`. In the circle of an
# Engine and its Mailbox, the Engine is left whole.
cdef class Mailbox:
    def __cinit__(self, EngineBase engine not None):
        self.state = <MailboxState*>calloc(1, sizeof(MailboxState))
        if self.state == NULL:
            raise MemoryError()
        self.engine = engine
        lock_open(&self.state.lock)
        condition_open(&self.state.filled)
        self.state.event_fd = -1

    def __dealloc__(self):
        if self.state == NULL:
            return
        if self.state.event_fd >= 0:
            close_file(self.state.event_fd)
        condition_close(&self.state.filled)
        lock_close(&self.state.lock)
        free(self.state)

    def __reduce__(self):
        raise not_copied(self, "make one for each engine")

    def fileno(self):
        """A descriptor that is readable when deliver has something to tell."""
        cdef int error = 0
        if self.state.event_fd < 0:
            self.state.event_fd = event_open(&error)
            if self.state.event_fd < 0:
                raise OSError(error, "no descriptor for a mailbox")
        self.poller = PyThread_get_thread_ident()
        return self.state.event_fd

    cdef Slot* take(self, int64_t until_us):
        cdef MailboxState* state = self.state
        cdef Slot* chain
        with nogil:
            lock_take(&state.lock)
            while state.first == NULL and not state.closed and monotonic_us() < until_us:
                state.waiters += 1
                condition_wait(&state.filled, &state.lock, wake_us(until_us))
                state.waiters -= 1
            chain = state.first
            state.first = state.last = NULL
            if state.signalled:
                state.signalled = False
                event_drain(state.event_fd)
            lock_release(&state.lock)
        return chain

    cdef int tell(self, Slot* chain) except -1:
        cdef Teller me
        me.told = NULL
        return self.tell_by(&me, chain)

    cdef int tell_by(self, Teller* me, Slot* chain) except -1:
        cdef Slot* slot
        cdef Slot end
        cdef int count = 0
        try:
            while chain != NULL:
                slot = chain
                chain = slot.next
                # `end` now has the slot's contents: the slot may be used by what is sent meanwhile.
                end = slot[0]
                empty(slot)
                slot.next = me.told
                me.told = slot
                try:
                    self.tell_one(&end)
                except BaseException as error:     # SystemExit, too, must not stop the telling
                    self.report(error)
                drop_parts(&end)
                count += 1
        finally:
            # Slots are given back together: this takes the lock once and wakes no caller before all
            # are told. (Code that is told may get some before, when it sends: claim_slot.)
            lock_take(&self.engine.state.lock)
            give_back_told(self.engine.state, me)
            lock_release(&self.engine.state.lock)
        if self.raised is not None:
            error, self.raised = self.raised, None
            raise error
        return count

    cdef void report(self, object error):
        if isinstance(error, KeyboardInterrupt):
            self.raised = error
        elif self.on_error is not None:
            try:
                self.on_error(error)
            except BaseException as problem:
                self.raised = problem

    cdef int tell_one(self, Slot* slot) except -1:
        cdef Reply reply
        if slot.outcome == ASKED or slot.outcome == DROPPED:
            if self.on_notice is not None:
                reply = reply_take(slot) if slot.frame != NULL else None
                self.on_notice(slot.link, reply, slot.code)
            return 0
        token = <object>slot.token
        if isinstance(token, Completion):
            return (<Completion>token).completed(slot)
        error = reply = None
        if slot.outcome == ANSWERED:
            reply = reply_take(slot)
        else:
            error = self.engine.failure(slot.outcome, slot.link, slot.code,
                                        slot.deadline_us - slot.started_us)
        if isinstance(token, Waiter):
            (<Waiter>token).reply = reply
            (<Waiter>token).error = error
            (<Waiter>token).done = True
        elif token is not None:
            token(reply, error)
        return 0

    def close(self):
        """From now on deliver does not wait, and threads that wait return. Ends are still told."""
        lock_take(&self.state.lock)
        self.state.closed = True
        condition_broadcast(&self.state.filled)
        lock_release(&self.state.lock)

    def deliver(self, timeout_ms=0):
        """Waits up to timeout_ms, then tells everything that has come; returns how many ends."""
        cdef Teller me
        cdef Slot* chain = self.take(monotonic_us() + <int64_t>(timeout_ms * 1000)
                                     if timeout_ms else 0)
        if chain == NULL:
            return 0
        self.poller = me.thread = PyThread_get_thread_ident()
        me.told = NULL
        me.mailbox = <void*>self
        me.next = self.engine.tellers
        self.engine.tellers = &me
        try:
            return self.tell_by(&me, chain)
        finally:
            self.leave(&me)

    cdef void leave(self, Teller* teller) noexcept:
        cdef Teller** place = &self.engine.tellers
        while place[0] != NULL and place[0] != teller:
            place = &place[0].next
        if place[0] != NULL:                # NULL: this is a child that a callback has forked
            place[0] = teller.next

    cdef object refusal(self):
        if self.engine.state.closed:
            return ClosedError("the client is closed")
        if is_teller(self):
            return BusyError(f"{SLOTS} requests are under way, and who tells their ends, as a "
                             "callback does, waits for none of them")
        return BusyError(f"{SLOTS} requests are under way and none has ended in time")


cdef void give_back_told(EngineState* state, Teller* teller) noexcept:
    cdef Slot* slot
    while teller.told != NULL:
        slot = teller.told
        teller.told = slot.next
        slot_release(state, slot)


cdef void give_back_own(EngineBase engine) noexcept:
    cdef unsigned long thread = PyThread_get_thread_ident()
    cdef Teller* teller = engine.tellers
    while teller != NULL:
        if teller.thread == thread:
            give_back_told(engine.state, teller)
        teller = teller.next


cdef inline void empty(Slot* slot) noexcept:
    """The slot's contents now belong to a copy."""
    slot.token = slot.message = slot.callback = slot.owner = NULL
    slot.frame = NULL
    slot.batch = NULL


cdef void drop_parts(Slot* slot) noexcept:
    Py_XDECREF(<PyObject*>slot.token)
    Py_XDECREF(<PyObject*>slot.message)
    Py_XDECREF(<PyObject*>slot.callback)
    Py_XDECREF(<PyObject*>slot.owner)
    free(slot.frame)
    batch_free(slot.batch)
