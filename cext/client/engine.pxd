"""Engine: the client's network thread. One per process is enough; it never takes the GIL.

    engine = Engine(); engine.start()
    link = engine.link("10.0.0.7", 10911)          # a number; connects with its first frame
    reply = engine.call(link, frame, 3000)         # waits; Reply, or UnreachableError
    engine.submit(link, frame, 3000, mailbox, done)   # mailbox.deliver() calls done(reply, error)
    engine.post(link, frame, 1 << 20, 3000)        # one-way; waits while a MiB is to be sent there
    engine.notices.deliver(...)                    # requests of brokers, and lost connections

Frames come from cext/client/request.pyx (any request, any header) with an opaque of 0, which the
engine sets. All Python methods may be called from any thread. How other modules of cext send is in
claim.pxd.
"""
from libc.stdint cimport int32_t

from cext.client.mailbox cimport EngineBase, Mailbox
from cext.client.state cimport Link


cdef class Engine(EngineBase):
    cdef readonly Mailbox notices    # ASKED and DROPPED
    cdef object __weakref__
    cdef dict numbers                # (host, port) -> link
    cdef list names                  # link -> "host:port"

    cdef void stop_thread(self)
    cdef Link* link_of(self, int32_t number) except NULL
    cdef str name_of(self, int32_t link)
    cdef str tls_hint(self, int32_t link)
