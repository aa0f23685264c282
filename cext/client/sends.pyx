"""The gate of sends under way, and the telling of their ends (see sends.pxd)."""
from concurrent.futures import Future

cimport cython
from cpython.ref cimport Py_DECREF
from libc.stdint cimport int32_t, int64_t, uint32_t

from cext.base.clock cimport monotonic_us, wake_us
from cext.client.claim cimport WAIT_US, has_time
from cext.client.engine cimport Engine
from cext.client.mutex cimport (
    condition_broadcast, condition_close, condition_open, condition_wait, lock_close, lock_open,
    lock_release, lock_take,
)
from cext.client.mailbox cimport Completion, Mailbox, is_teller
from cext.client.message cimport Message
from cext.client.reply cimport Reply, reply_take
from cext.client.result cimport SendResult, result_of_reply, result_of_slot
from cext.client.state cimport ANSWERED, LATE, Batch, Slot

from rmq.errors import BusyError, RemoteError, not_copied

cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1

cdef enum:
    SPARE_SLOTS = 64                 # that has_room leaves free


cdef class SendWaiter:
    def __reduce__(self):
        raise not_copied(self, "it belongs to a client of this process")


cdef class SendCompletion(Completion):
    def __reduce__(self):
        raise not_copied(self, "it belongs to a client of this process")

    cdef int completed(self, Slot* slot) except -1:
        cdef Message message
        cdef Reply reply
        cdef object result = None, error = None
        if slot.batch != NULL:
            return self.batch_completed(slot)
        message = <Message>slot.message
        self.sender.leave(1, len(message.body))
        if slot.outcome == ANSWERED and slot.id_bytes:
            result = result_of_slot(slot, self.shown, self.broker_name, message)
        elif slot.outcome == ANSWERED:
            reply, error = stored_answer(slot)
            if error is None:
                result = result_of_reply(reply, self.shown, self.broker_name, message,
                                         reply.int_field("queueId"),
                                         reply.int_field("queueOffset"), -1)
        else:
            error = self.sender.engine.failure(slot.outcome, slot.link, slot.code,
                                               slot.deadline_us - slot.started_us)
        return self.sender.finish(self, message, <object>slot.callback, result, error, slot)

    cdef int batch_completed(self, Slot* slot) except -1:
        cdef Sends sender = self.sender
        cdef Batch* batch = slot.batch
        cdef Message message
        cdef Reply reply = None
        cdef object error = None
        cdef object callback
        cdef int32_t queue_id = 0
        cdef int64_t offset = 0
        cdef uint32_t i
        cdef list messages, callbacks
        if self.open == batch:
            self.open = NULL
        if slot.outcome == ANSWERED:
            reply, error = stored_answer(slot)
            if error is None:
                queue_id = reply.int_field("queueId")
                offset = reply.int_field("queueOffset")
        else:
            error = sender.engine.failure(slot.outcome, slot.link, slot.code,
                                          slot.deadline_us - slot.started_us)
        sender.leave(batch.count, batch.body_bytes)
        if error is not None or (sender.retries_not_stored and reply.code != 0) \
                or sender.tracks_latency or slot.callback != <void*>None:
            messages = [<object>batch.items[2 * i] for i in range(batch.count)]
            callbacks = [<object>batch.items[2 * i + 1] for i in range(batch.count)]
            for i in range(2 * batch.count):
                Py_DECREF(<object>batch.items[i])
            batch.count = 0
            results = None if error is not None else [
                result_of_reply(reply, self.shown, self.broker_name, message, queue_id, offset, i)
                for i, message in enumerate(messages)
            ]
            sender._batch_ended(self, messages, callbacks, <object>slot.callback, results, error,
                                slot.attempts, slot.deadline_us, slot.outcome == LATE,
                                (monotonic_us() - slot.started_us) / 1000, slot.number)
            return 0
        for i in range(batch.count):
            message = <Message>batch.items[2 * i]
            callback = <object>batch.items[2 * i + 1]
            result = result_of_reply(reply, self.shown, self.broker_name, message, queue_id,
                                     offset, <int32_t>i)
            Py_DECREF(message)
            Py_DECREF(callback)
            # An exception in it ends nothing: the others are still told.
            tell(callback, result, None, sender)
        batch.count = 0
        return 0


cdef tuple stored_answer(Slot* slot):
    """(reply, None) when the answer says that and where it is stored; else (None, the error)."""
    cdef Reply reply
    try:
        reply = reply_take(slot)
        if reply.code != 0 and not 10 <= reply.code <= 12:
            return None, RemoteError(reply.code, reply.remark or "no reason given")
        reply.int_field("queueId")
        reply.int_field("queueOffset")
        return reply, None
    except Exception as problem:
        return None, problem


cdef int tell(object callback, object result, object error, Sends sender) except -1:
    """Tells the end of a send to a callback, a Future or a SendWaiter."""
    if callback is None:
        return 0
    if isinstance(callback, SendWaiter):
        (<SendWaiter>callback).result = result
        (<SendWaiter>callback).error = error
        (<SendWaiter>callback).done = True
        return 0
    try:
        if isinstance(callback, Future):
            if callback.set_running_or_notify_cancel():
                if error is None:
                    callback.set_result(result)
                else:
                    callback.set_exception(error)
        else:
            callback(result, error)
    except BaseException as problem:     # SystemExit, too, must not keep the others from being told
        sender.mailbox.report(problem)
    return 0


@cython.no_gc_clear                  # __dealloc__ needs all its fields
cdef class Sends:
    def __cinit__(self, *args, **kwargs):
        lock_open(&self.gate_lock)
        condition_open(&self.gate_opened)
        self.messages_max = 65_535
        self.bytes_max = 100 << 20

    def __dealloc__(self):
        condition_close(&self.gate_opened)
        lock_close(&self.gate_lock)

    def connect_sender(self, Engine engine not None, Mailbox mailbox not None):
        self.engine = engine
        self.mailbox = mailbox

    def __reduce__(self):
        raise not_copied(self, "start one in each process, from its parameters")

    # ---- the gate

    cdef bint is_full(self, int64_t bytes) noexcept:
        return self.messages_in_flight > 0 and (
            self.messages_in_flight >= self.messages_max
            or self.bytes_in_flight + bytes > self.bytes_max)

    def has_room(self, int64_t size):
        """Whether a send of `size` bytes would begin at once, with slots left for other requests of
        the client. For callers that must not wait in a call, such as an event loop."""
        return not self.is_full(size) and self.engine.state.free_count > SPARE_SLOTS

    cdef int enter(self, int64_t bytes) except -1:
        """Counts a message in; BusyError when there was no room for it in time."""
        cdef int64_t until_us, looked_us = 0
        cdef uint32_t count
        while self.is_full(bytes):
            if is_teller(self.mailbox):
                break
            if not has_time(<int64_t>self.timeout_ms * 1000, &looked_us, &until_us):
                raise BusyError(
                    f"{self.messages_in_flight} messages ({self.bytes_in_flight} bytes) are under "
                    f"way, and it did not get less within {self.timeout_ms} ms"
                )
            self.gate_waiters += 1
            count = self.gate_count
            with nogil:
                lock_take(&self.gate_lock)
                if self.gate_count == count:
                    condition_wait(&self.gate_opened, &self.gate_lock,
                                   min(wake_us(until_us), looked_us + WAIT_US))
                lock_release(&self.gate_lock)
            self.gate_waiters -= 1
            PyErr_CheckSignals()
        self.messages_in_flight += 1
        self.bytes_in_flight += bytes
        return 0

    cdef void leave(self, int64_t messages, int64_t bytes) noexcept:
        self.messages_in_flight -= messages
        self.bytes_in_flight -= bytes
        # Threads are not woken for every message: when they are, a quarter of the room is free.
        if self.gate_waiters and self.messages_in_flight <= self.messages_max - (
                self.messages_max >> 2) and self.bytes_in_flight <= self.bytes_max - (
                self.bytes_max >> 2):
            lock_take(&self.gate_lock)
            self.gate_count += 1
            condition_broadcast(&self.gate_opened)
            lock_release(&self.gate_lock)

    def enter_gate(self, int64_t size):
        """Counts in a send of `size` bytes that does not go through this class; BusyError."""
        self.enter(size)

    def leave_gate(self, int64_t size):
        """Such a send has ended, or did not begin. Call it once for each enter_gate."""
        self.leave(1, size)

    # ---- how sends end

    def await_send(self, SendWaiter waiter not None, Mailbox mailbox not None):
        """Delivers `mailbox` until the waiter's send has ended; returns its result or raises."""
        while not waiter.done:
            mailbox.tell(mailbox.take(monotonic_us() + WAIT_US))
            PyErr_CheckSignals()
        if waiter.error is not None:
            raise waiter.error
        return waiter.result

    def tell_callback(self, callback, result, error):
        """Calls a callback, or sets a Future, as the engine's side does."""
        tell(callback, result, error, self)

    cdef int finish(self, SendCompletion target, Message message, object callback, object result,
                    object error, Slot* slot) except -1:
        if self.tracks_latency or error is not None or (
                self.retries_not_stored and (<SendResult>result).code != 0):
            if self._ended(target, message, callback, result, error, slot.attempts,
                           slot.deadline_us, slot.outcome == LATE,
                           (monotonic_us() - slot.started_us) / 1000, slot.number):
                return 0             # it is on its way again
        return tell(callback, result, error, self)

    # ---- what Producer (Python) supplies

    def _ended(self, target, message, callback, result, error, attempts, deadline_us, late, ms,
               number):
        return False

    def _batch_ended(self, target, messages, callbacks, callback, results, error, attempts,
                     deadline_us, late, ms, number):
        raise NotImplementedError
