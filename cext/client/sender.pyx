"""Plain sends, without a step in Python (see sender.pxd)."""
from concurrent.futures import Future

cimport cython
from libc.stdint cimport int64_t, uint32_t

from cext.base.clock cimport monotonic_us
from cext.client.claim cimport engine_wake, needs_wake
from cext.client.loop cimport seal_batch
from cext.client.mutex cimport lock_release, lock_take
from cext.client.mailbox cimport Mailbox
from cext.client.message cimport Message
from cext.client.sends cimport Sends
from cext.client.state cimport EngineState
from cext.client.target cimport Target, TopicQueues
from cext.wire.limits cimport RETRY_OR_DLQ_TOPIC_CHARACTERS_MAX, TOPIC_CHARACTERS_MAX
from cext.wire.system_topics cimport RETRY_PREFIX

from rmq.errors import MessageError, not_copied

SHARDING_KEY = "__SHARDINGKEY"
# Properties that a batch may not hold: such messages are sent alone.
ALONE = frozenset((
    "DELAY", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "TRAN_MSG", "MSG_TYPE",
    "REPLY_TO_CLIENT", "TIMER_DEL_UNIQKEY",
))


@cython.no_gc_clear                  # as its base class
cdef class Sender(Sends):
    def __cinit__(self, *args, **kwargs):
        self.topics = {}

    def __reduce__(self):
        raise not_copied(self, "start one in each process, from its parameters")

    # ---- sends

    def send_async(self, Message message not None, callback=None, *, queue=None, selector=None,
                   arg=None, timeout_ms=None):
        """Sends without waiting. callback(result, error) is called when it is known how it ended,
        one of the two being None, in a thread of the client; without a callback the concurrent
        Future of a SendResult is returned."""
        cdef TopicQueues queues
        cdef Target target
        cdef uint32_t size = <uint32_t>len(message.body)
        cdef object future = None
        cdef bint together = self.batching and message.wait_store_msg_ok
        cdef bint plain = self.direct and queue is None and selector is None and timeout_ms is None
        if message.extra is not None:
            if SHARDING_KEY in message.extra:
                plain = False
            elif together and not ALONE.isdisjoint(message.extra):
                together = False
        if callback is None:
            callback = future = Future()
        if not plain or size == 0 or size >= self.compress_from or size > self.body_max:
            self._send_otherwise(message, callback, queue, selector, arg, timeout_ms)
            return future
        queues = self.topics.get(message.topic)
        if queues is None:
            queues = self._find_queues(message.topic)
        target = queues.take()
        self.enter(size)
        try:
            if together:
                target.gather(message, callback)
            else:
                target.submit(message, message.body, 0, callback, self.mailbox,
                              <int64_t>self.timeout_ms * 1000, 0)
        except BaseException:
            self.leave(1, size)
            raise
        return future

    def submit_to(self, Target target not None, Message message not None, bytes body not None,
                  int sys_flag, callback, double timeout_ms, int attempts=0, Mailbox mailbox=None,
                  bint gathered=False):
        """Sends one message to this queue; its end is told in `mailbox`. gathered: in a batch."""
        cdef Mailbox where = mailbox if mailbox is not None else self.mailbox
        self.enter(len(message.body))
        try:
            if gathered and self.batching and may_gather(message):
                target.gather(message, callback)
            else:
                target.submit(message, body, sys_flag, callback, where,
                              <int64_t>(timeout_ms * 1000), attempts)
        except BaseException:
            self.leave(1, len(message.body))
            raise

    def submit_batch_to(self, Target target not None, list messages not None, callbacks, callback,
                        double timeout_ms, int attempts=0, Mailbox mailbox=None):
        """Sends several messages of the target's topic in one frame."""
        cdef Mailbox where = mailbox if mailbox is not None else self.mailbox
        cdef int64_t size = 0
        cdef Message message
        for message in messages:
            size += len(message.body)
        self.enter(size)
        self.messages_in_flight += len(messages) - 1
        try:
            target.submit_batch(messages, callbacks, callback, where,
                                <int64_t>(timeout_ms * 1000), attempts)
        except BaseException:
            self.leave(len(messages), size)
            raise

    def seal_batches(self):
        """Sends what was gathered so far at once."""
        cdef EngineState* state = self.engine.state
        cdef TopicQueues queues
        cdef Target target
        cdef bint wake = False
        lock_take(&state.lock)
        for queues in self.topics.values():
            for target in queues.targets:
                if target.open != NULL and not target.open.sealed:
                    seal_batch(state, target.open, monotonic_us())
                    target.open = NULL
                    wake = True
        wake = wake and needs_wake(state, 0)
        lock_release(&state.lock)
        if wake:
            engine_wake(state)

    # ---- what Producer (Python) supplies

    def _find_queues(self, str topic):
        raise NotImplementedError

    def _send_otherwise(self, message, callback, queue, selector, arg, timeout_ms):
        raise NotImplementedError


def may_gather(Message message not None):
    """Whether a batch may hold it."""
    return message.wait_store_msg_ok and (
        message.extra is None or ALONE.isdisjoint(message.extra))


def monotonic_ms():
    """The clock that deadlines are measured by, in ms."""
    return monotonic_us() / 1000


def check_topic(str topic not None):
    """Raises MessageError for a name to which no broker takes sends."""
    cdef Py_UCS4 c
    if not 0 < len(topic) <= RETRY_OR_DLQ_TOPIC_CHARACTERS_MAX or (
            len(topic) > TOPIC_CHARACTERS_MAX and not topic.startswith(RETRY_PREFIX.decode())):
        raise MessageError(f"a topic of {len(topic)} characters: 1 to {TOPIC_CHARACTERS_MAX} "
                           f"are allowed")
    for c in topic:
        if not (48 <= c <= 57 or 65 <= c <= 90 or 97 <= c <= 122 or c == c'%' or c == c'|'
                or c == c'-' or c == c'_'):
            raise MessageError(f"topic {topic!r}: only letters, digits, %, |, - and _ are allowed")
