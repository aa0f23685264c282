"""The control side of a shard. See control_side.pxd."""
import threading

from libc.stdlib cimport free
from libc.string cimport memset

from cext.flow.context.control_link cimport (
    CALL,
    LinkMessage,
    link_make,
    sem_destroy,
    sem_init,
    sem_wait,
)
from cext.memory.spsc_ring cimport spsc_push
from cext.net.socket_api cimport write

from rmq.errors import StoreError, not_copied


cdef class ControlSide:
    def __cinit__(self, *_given):
        self.lock = threading.RLock()

    def __reduce__(self):
        raise not_copied(self, "one process owns a store")

    cdef _wake(self):
        cdef uint64_t one = 1
        write(self.turn.net.wake_fd, &one, 8)

    cdef int _call(self, CallFn function, void* service, void* call) except -1:
        cdef LinkMessage message
        cdef bint pushed
        if not self.running:
            function(service, call)
            return 0
        memset(&message, 0, sizeof(message))
        message.kind = CALL
        message.call = function
        message.service = service
        message.arguments = call
        sem_init(&message.done, 0, 0)
        with self.lock:
            pushed = spsc_push(&self.turn.link.to_reactor, &message)
            if not pushed:
                raise StoreError("the reactor does not take calls any more")
            self._wake()
            with nogil:
                while sem_wait(&message.done) != 0:
                    pass                    # interrupted by a signal
        sem_destroy(&message.done)
        return 0

    cdef _post(self, int32_t kind, uint64_t connection, bytes data):
        cdef LinkMessage* message = link_make(kind, connection, <const uint8_t*> <char*> data,
                                              len(data))
        if message == NULL:
            raise MemoryError("no memory for a frame to the reactor")
        with self.lock:
            while not spsc_push(&self.turn.link.to_reactor, message):
                if not self.running:
                    free(message)
                    return
                self._wake()
                threading.Event().wait(0.001)
            self._wake()
