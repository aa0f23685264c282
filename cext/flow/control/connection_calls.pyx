"""Connection calls. See connection_calls.pxd."""
from libc.stdint cimport uint64_t
from libc.stdlib cimport free

from cext.base.atomics cimport store_release_u64
from cext.base.status cimport OK, raise_status
from cext.flow.context.control_link cimport (
    CLOSE,
    HOLD,
    RELEASE,
    RESUBMIT,
    SEND_DONE,
    SEND_FRAME,
    TELL_DRAINED,
    CallFn,
    LinkMessage,
)
from cext.flow.control.control_side cimport borrowed
from cext.flow.request_reply.reply_service cimport ReplyService
from cext.memory.name_map cimport name_map_put, name_map_remove
from cext.memory.spsc_ring cimport spsc_pop
from cext.net.socket_api cimport read, write
from cext.wire.text cimport Text

cdef enum:
    POLL_MAX = 4096             # messages that one poll() takes


cdef struct PutClient:
    Text client_id
    uint64_t connection         # 0: the client has none
    # results
    int status


cdef void put_client(ReplyService s, PutClient* x) noexcept nogil:
    x.status = OK
    if x.connection != 0:
        x.status = name_map_put(&s.replies.clients, x.client_id.bytes, x.client_id.length,
                                <void*> x.connection)
    else:
        name_map_remove(&s.replies.clients, x.client_id.bytes, x.client_id.length)


cdef class ConnectionCalls(ControlSide):
    @property
    def control_fd(self):
        return self.turn.link.control_fd

    def poll(self):
        cdef LinkMessage* message
        cdef uint64_t ignored
        cdef list out = []
        read(self.turn.link.control_fd, &ignored, 8)
        while len(out) < POLL_MAX:
            message = <LinkMessage*> spsc_pop(&self.turn.link.to_control)
            if message == NULL:
                return out
            out.append((message.kind, message.connection_id,
                        (<char*> message.data)[:message.length]))
            store_release_u64(&self.turn.link.bytes_out, self.turn.link.bytes_out
                              + message.length)
            free(message)
        ignored = 1
        write(self.turn.link.control_fd, &ignored, 8)      # there is more: poll again
        return out

    def send(self, uint64_t connection, bytes frame):
        self._post(SEND_FRAME, connection, frame)

    def resubmit(self, uint64_t connection, bytes frame):
        self._post(RESUBMIT, connection, len(frame).to_bytes(4, "big") + frame)

    def send_done(self, uint64_t connection):
        self._post(SEND_DONE, connection, b"")

    def hold(self, uint64_t connection):
        self._post(HOLD, connection, b"")

    def release(self, uint64_t connection):
        self._post(RELEASE, connection, b"")

    def report_drained(self, uint64_t connection):
        self._post(TELL_DRAINED, connection, b"")

    def close_connection(self, uint64_t connection):
        self._post(CLOSE, connection, b"")

    def put_client(self, bytes client_id, uint64_t connection):
        cdef PutClient x
        x.client_id = borrowed(client_id)
        x.connection = connection
        self._call(<CallFn> put_client, <void*> self.replies, &x)
        raise_status(x.status, f"client {client_id!r}")
