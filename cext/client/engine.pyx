"""What Python sees of the client's thread (see engine.pxd; what the thread does: loop.pyx)."""
import errno as errors
import os
import socket as sockets
import threading
import weakref

cimport cython
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from cext.base.atomics cimport store_release_i32
from cext.base.byteorder cimport store_u16, store_u32
from cext.base.clock cimport monotonic_us
from cext.base.native_thread cimport native_thread_join
from cext.base.status cimport Status
from cext.base.sysio cimport close_file, event_open, event_signal
from cext.client.claim cimport WAIT_US, claim_room, claim_slot, engine_wake, needs_wake
from cext.client.link cimport link_free, link_mark, link_open, link_room
from cext.client.loop cimport FOREVER_US, loop_start
from cext.client.mutex cimport (
    condition_close, condition_open, lock_close, lock_open, lock_release, lock_take,
)
from cext.client.mailbox cimport EngineBase, Mailbox, Waiter
from cext.client.slots cimport slot_release, slots_open
from cext.client.state cimport (
    KEEP_FRAME, LATE, LINKS_MAX, OPAQUE_AT, SLOTS, STOPPED, EngineState, Link, Slot,
)
from cext.net.socket_api cimport (
    AF_INET6, EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLLIN, epoll_create1, epoll_ctl, epoll_event,
)

from rmq.errors import BusyError, ClosedError, RequestTimeoutError, UnreachableError, not_copied

cdef enum:
    JSON_OPAQUE_AT = 18              # in a frame of cext/client/request.pyx with a JSON header

engines = weakref.WeakSet()


def forget_after_fork():
    """A child of fork has no engine threads: closes its copies, whatever state they are in."""
    cdef Engine engine
    for engine in list(engines):
        engine.state.closed = True
        engine.state.thread.running = False
        engine.tellers = NULL              # on stacks of threads that this child does not have
        lock_open(&engine.state.lock)      # its thread may have held it when it was copied,
        condition_open(&engine.state.slots_freed)      # and others may have waited for it
        condition_open(&engine.state.room_made)


os.register_at_fork(after_in_child=forget_after_fork)
own = threading.local()              # the mailbox of each thread that waits for its calls


@cython.no_gc_clear                  # until __dealloc__ has joined it, the thread uses `notices`
cdef class Engine(EngineBase):
    def __cinit__(self, int connect_timeout_ms=3000):
        cdef int error = 0
        cdef epoll_event event
        self.numbers = {}
        self.names = []
        self.state = <EngineState*>calloc(1, sizeof(EngineState))
        if self.state == NULL:
            raise MemoryError()
        self.state.epoll_fd = self.state.wake_fd = -1
        lock_open(&self.state.lock)
        condition_open(&self.state.slots_freed)
        condition_open(&self.state.room_made)
        self.state.next_deadline_us = FOREVER_US
        self.state.connect_timeout_us = <int64_t>connect_timeout_ms * 1000
        if slots_open(self.state) != Status.OK:
            raise MemoryError()
        self.notices = Mailbox(self)
        engines.add(self)
        self.state.notices = self.notices.state
        self.state.epoll_fd = epoll_create1(EPOLL_CLOEXEC)
        self.state.wake_fd = event_open(&error)
        event.events = EPOLLIN
        event.data.ptr = NULL
        if (self.state.epoll_fd < 0 or self.state.wake_fd < 0
                or epoll_ctl(self.state.epoll_fd, EPOLL_CTL_ADD, self.state.wake_fd, &event) != 0):
            raise OSError(error, "no descriptors left for the client's engine")

    def __reduce__(self):
        raise not_copied(self, "start one in each process")

    def __dealloc__(self):
        cdef int32_t i
        if self.state == NULL:
            return
        self.stop_thread()
        for i in range(self.state.link_count):
            link_free(self.state.links[i])
        if self.state.epoll_fd >= 0:
            close_file(self.state.epoll_fd)
        if self.state.wake_fd >= 0:
            close_file(self.state.wake_fd)
        condition_close(&self.state.slots_freed)
        condition_close(&self.state.room_made)
        lock_close(&self.state.lock)
        free(self.state.slots)
        free(self.state)

    cdef void stop_thread(self):
        if not self.state.thread.running:
            return
        store_release_i32(&self.state.stopping, 1)
        event_signal(self.state.wake_fd)
        with nogil:
            native_thread_join(&self.state.thread)

    def start(self):
        cdef int error = 0
        if self.state.closed or self.state.thread.running:
            raise ClosedError("an engine starts once")
        if loop_start(self.state, &error) != Status.OK:
            raise OSError(error, os.strerror(error))

    def stop(self):
        """Ends the thread; requests under way end as stopped."""
        self.stop_thread()

    @property
    def is_running(self):
        return self.state.thread.running and not self.state.closed

    # ---- links

    def link(self, str host not None, int port):
        """The link's number. A name is looked up here, and later only by look_up_again."""
        cdef Link* link
        number = self.numbers.get((host, port))
        if number is not None:
            return number
        address = resolve(host, port)      # other threads run meanwhile
        number = self.numbers.get((host, port))
        if number is not None:
            return number
        if self.state.link_count == LINKS_MAX:
            raise UnreachableError(f"{host}:{port}: more than {LINKS_MAX} addresses")
        link = <Link*>malloc(sizeof(Link))
        if link == NULL:
            raise MemoryError()
        if link_open(link, self.state.link_count) != Status.OK:
            link_free(link)
            raise MemoryError()
        set_address(link, address)
        number = link.index
        lock_take(&self.state.lock)
        self.state.links[number] = link
        store_release_i32(&self.state.link_count, number + 1)
        lock_release(&self.state.lock)
        self.numbers[(host, port)] = number
        self.names.append(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        return number

    def look_up_again(self, str host not None, int port):
        """The host may have another address now: the link's next connection goes there.
        UnreachableError when no address is found; then the old one stays."""
        number = self.numbers.get((host, port))
        if number is None:
            return
        address = resolve(host, port)      # other threads run meanwhile
        lock_take(&self.state.lock)
        set_address(self.state.links[<int32_t>number], address)
        lock_release(&self.state.lock)

    def give(self, int number, int fd):
        """Makes an open descriptor (non-blocking) the link's connection; the engine owns it. From
        now on the link never connects by itself. Of two made at the same time one is closed."""
        cdef Link* link = self.link_of(number)
        lock_take(&self.state.lock)
        if link.given_fd >= 0:
            close_file(link.given_fd)
            link.given_fd = -1
        if link.fd >= 0:
            close_file(fd)
        else:
            link.given_fd = fd
        link.only_given = True
        lock_release(&self.state.lock)

    def is_open(self, int number):
        """Whether the link has a connection, or one that its next frame will use (it may break)."""
        cdef Link* link = self.link_of(number)
        return link.fd >= 0 or link.given_fd >= 0

    def link_name(self, int number):
        """"host:port" of the link."""
        return self.name_of(number)

    cdef Link* link_of(self, int32_t number) except NULL:
        if not 0 <= number < self.state.link_count:
            raise ValueError(f"link {number} of {self.state.link_count}")
        return self.state.links[number]

    cdef str name_of(self, int32_t link):
        return self.names[link] if 0 <= link < len(self.names) else f"link {link}"

    # ---- requests

    def submit(self, int link, bytes frame not None, int timeout_ms, Mailbox mailbox not None,
               done):
        """Sends a request; mailbox.deliver() tells its end to done(reply, error)."""
        cdef EngineState* state = self.state
        cdef int64_t until_us
        cdef Slot* slot
        cdef bint wake
        self.link_of(link)
        slot = claim_slot(state, <int64_t>max(timeout_ms, 1) * 1000, &until_us, mailbox)
        if slot == NULL:
            raise mailbox.refusal()
        slot.link = link
        slot.keep = KEEP_FRAME
        if not write_frame(state, state.links[link], frame, slot.opaque):
            slot_release(state, slot)
            lock_release(&state.lock)
            raise MemoryError()
        slot.mailbox = mailbox.state
        slot.owner = <void*>mailbox
        slot.token = <void*>done
        slot.message = slot.callback = NULL
        Py_INCREF(mailbox)
        Py_INCREF(done)
        slot.attempts = 0
        slot.framed = True
        slot.started_us = monotonic_us()
        slot.deadline_us = until_us
        state.next_deadline_us = min(state.next_deadline_us, until_us)
        wake = needs_wake(state, 0)
        lock_release(&state.lock)
        if wake:
            engine_wake(state)

    def post(self, int link, bytes frame not None, int64_t bytes_max=0, int timeout_ms=0):
        """Sends a request that nobody waits for: one-way, or an answer to the broker. With
        bytes_max, waits up to timeout_ms until it and the frames before it are no more than that;
        else BusyError."""
        cdef bint wake, written
        if not claim_room(self.state, self.link_of(link), <uint64_t>len(frame),
                          <uint64_t>max(bytes_max, 0), <int64_t>timeout_ms * 1000):
            raise BusyError(f"{self.name_of(link)}: about {bytes_max} bytes wait to be sent, and "
                            f"it did not get less within {timeout_ms} ms")
        if self.state.closed:
            lock_release(&self.state.lock)
            raise ClosedError("the client is closed")
        written = write_frame(self.state, self.state.links[link], frame, 0)
        wake = needs_wake(self.state, 0)
        lock_release(&self.state.lock)
        if not written:
            raise MemoryError()
        if wake:
            engine_wake(self.state)

    def own_mailbox(self):
        """The mailbox of this thread, for requests that it waits for by itself."""
        mailbox = getattr(own, "mailbox", None)
        if mailbox is None or (<Mailbox>mailbox).engine is not self:
            mailbox = own.mailbox = Mailbox(self)
        return mailbox

    def call(self, int link, bytes frame not None, int timeout_ms):
        """Sends a request and waits for its Reply, whatever the response code."""
        cdef Waiter waiter = Waiter()
        cdef Mailbox mailbox = self.own_mailbox()
        self.submit(link, frame, timeout_ms, mailbox, waiter)
        while not waiter.done:
            mailbox.tell(mailbox.take(monotonic_us() + WAIT_US))
            PyErr_CheckSignals()
        if waiter.error is not None:
            raise waiter.error
        return waiter.reply

    cdef object failure(self, int outcome, int32_t link, int32_t code, int64_t waited_us):
        """The exception for a request that got no answer."""
        name = self.name_of(link)
        if outcome == LATE:
            return RequestTimeoutError(f"{name}: no answer within {waited_us / 1e6:.3g} s")
        if outcome == STOPPED:
            return ClosedError(f"{name}: the client was closed before the answer came")
        if code == errors.EPROTO:
            return UnreachableError(f"{name}: what came is not RocketMQ's protocol; disconnected")
        if code in (errors.ECONNREFUSED, errors.ETIMEDOUT, errors.EHOSTUNREACH, errors.ENETUNREACH):
            return UnreachableError(f"{name}: cannot connect ({os.strerror(code).lower()})")
        why = os.strerror(code).lower() if code else "the peer closed the connection"
        return UnreachableError(f"{name}: connection lost ({why}){self.tls_hint(link)}")

    cdef str tls_hint(self, int32_t link):
        """Why a server may have closed a connection before its first answer."""
        if not 0 <= link < self.state.link_count or self.state.links[link].has_answered:
            return ""
        if self.state.links[link].only_given:
            return "; if it asks for a certificate, give one by tls_cert_file"
        return "; if it speaks TLS alone, ask by use_tls=True"

    def stats(self):
        """Counters, by name."""
        return {
            "in_flight": SLOTS - self.state.free_count,
            "frames_sent": self.state.frames_sent,
            "frames_received": self.state.frames_received,
            "stale_answers": self.state.stale_answers,
            "links": self.state.link_count,
        }


cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1


cdef void set_address(Link* link, bytes address) noexcept:
    """Sets an address from resolve(). Lock held, or the engine does not know the link yet."""
    memcpy(&link.address, <const char*>address, len(address))
    link.address_bytes = <uint32_t>len(address)


cdef bint write_frame(EngineState* state, Link* link, bytes frame, int32_t opaque) noexcept:
    """Lock held. An opaque of 0 leaves the frame as it is."""
    cdef const uint8_t* data = <const uint8_t*><const char*>frame
    cdef uint64_t size = <uint64_t>len(frame)
    cdef uint8_t* out
    cdef int i
    out = link_room(link, size)
    if out == NULL:
        return False
    memcpy(out, data, size)
    if opaque and size >= 28:
        if out[4] == 1:
            store_u32(out + OPAQUE_AT, <uint32_t>opaque)
        else:
            for i in range(9, -1, -1):
                out[JSON_OPAQUE_AT + i] = 48 + opaque % 10 if opaque or i == 9 else 32
                opaque //= 10
    link.fill_used += size
    state.frames_sent += 1
    link_mark(state, link)
    return True


def resolve(str host not None, int port):
    """The address as the kernel takes it (sockaddr_in or sockaddr_in6)."""
    cdef uint8_t address[28]
    cdef unsigned short family
    try:
        found = sockets.getaddrinfo(host, port, type=sockets.SOCK_STREAM)
    except OSError as error:
        raise UnreachableError(f"{host}:{port}: no such host ({error.strerror})") from None
    kind, _, _, _, where = min(found, key=lambda each: each[0] != sockets.AF_INET)
    family = kind
    memset(address, 0, sizeof(address))
    packed = sockets.inet_pton(kind, where[0].partition("%")[0])
    memcpy(address, &family, sizeof(family))
    store_u16(address + 2, <unsigned short>where[1])
    if family == AF_INET6:
        memcpy(address + 8, <const char*>packed, 16)
        return (<char*>address)[:28]
    memcpy(address + 4, <const char*>packed, 4)
    return (<char*>address)[:16]
