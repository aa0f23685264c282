"""The loop's socket half: accept, receive, hand over, send. One thread, epoll, no interpreter.

    while not stopped:
        reactor.poll(timeout)     waits for sockets; the clock is read once, here
        reactor.receive_ready()   accept; receive from every readable socket; on_bytes for each
        ... the flow layer writes the log, answers pulls, queues replies ...
        reactor.flush()           one writev per connection with output; closes what is to be closed

`on_bytes` is given all bytes received so far of one connection and says how many it used up and
how many the next frame needs in all; a negative answer closes the connection at the end of the
turn, when what it asked for before has been answered.

Example of one turn with 64 clients that each sent one message: 1 epoll_wait, 64 recv, then (in the
flow layer) 1 pwritev, then 64 sends.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from cext.memory.arena cimport SharedArena
from cext.memory.buffer_pool cimport BufferPool
from cext.net.connection cimport UNREAD_REASONS, Connection, OutPiece
from cext.net.half_frames cimport HalfFrames
from cext.net.stalled cimport StalledList

# Returns the bytes used up, or -1 to close. `needed`: size of the incomplete frame at the end of
# the input (only read when something is left over).
ctypedef int64_t (*OnBytes)(void* owner, Connection* c, const uint8_t* bytes, uint64_t available,
                            uint64_t* needed) noexcept nogil
# No jumbo buffer for a frame of `needed` bytes: answer or return -1 to close.
ctypedef int (*OnRefused)(void* owner, Connection* c, const uint8_t* bytes, uint64_t available,
                          uint64_t needed) noexcept nogil
ctypedef void (*OnClosed)(void* owner, Connection* c) noexcept nogil
# All output has been sent of one that was not read for it, or that has notify_drained.
ctypedef void (*OnDrained)(void* owner, Connection* c) noexcept nogil

cdef struct NetCounters:
    uint64_t accepted
    uint64_t refused_full           # connections closed because the limit was reached
    uint64_t accept_failures        # times the process had no descriptor for another one
    uint64_t closed
    uint64_t closed_idle
    uint64_t received_bytes
    uint64_t sent_bytes
    uint64_t receives               # recv calls
    uint64_t sends                  # writev calls
    uint64_t stalls                 # sockets that did not take all of a turn's output
    uint64_t refused_frames         # large frames refused for want of a jumbo buffer
    uint64_t closed_slow            # connections closed for the jumbo buffer they had for too long
    uint64_t closed_deaf            # and for answers they did not take while buffers ran out
    uint64_t displaced              # that never asked for anything, closed for newer ones

# What Reactor.open takes from the arena with the same arguments.
cdef uint64_t reactor_room(uint64_t frame_max_bytes, uint32_t connections_max,
                           uint32_t jumbo_count, uint32_t reply_count) noexcept nogil

cdef class Reactor:
    cdef int epoll_fd
    cdef int listen_fd
    cdef int wake_fd                # eventfd; any thread may write to it
    cdef int told_fds[4]            # borrowed: eventfds of other threads that wake the loop
    cdef int told_count
    cdef uint32_t connections_max
    cdef uint32_t connection_count
    cdef uint64_t generation
    cdef SharedArena memory         # set before open(); all that follows is taken from it
    cdef Connection* connections    # connections_max slots
    cdef uint32_t* free_slots
    cdef uint32_t free_count
    cdef uint32_t highest_slot      # slots above it were never used
    cdef uint8_t* scratch
    cdef void* events               # epoll_event[EVENTS_PER_POLL] of the last poll
    cdef int event_count
    cdef BufferPool small_pool
    cdef BufferPool jumbo_pool
    cdef BufferPool reply_pool
    cdef BufferPool piece_pool
    cdef uint64_t jumbo_bytes
    cdef HalfFrames halves          # large frames that are not complete; its `bytes` before open()
    cdef uint64_t jumbo_trimmed     # releases of the jumbo pool at the last trim()
    cdef uint32_t displace_slot     # where displace() looks next
    cdef StalledList stalled        # connections with UNREAD_UNSENT
    cdef Connection* dirty_first
    cdef Connection* closed_first   # closed in this turn; their slots are freed at its end
    cdef void* owner
    cdef OnBytes on_bytes
    cdef OnRefused on_refused
    cdef OnClosed on_closed
    cdef OnDrained on_drained
    cdef bint accept_paused         # for want of descriptors, until resume_accepting()
    cdef uint32_t unread_counts[UNREAD_REASONS]     # connections that have the reason's bit
    cdef bint woken                 # the wake eventfd fired in this turn
    cdef int64_t now_us             # monotonic, read once per turn
    cdef int64_t now_ms             # the same in milliseconds
    cdef int64_t idle_ms
    cdef NetCounters counters

    cdef int open(self, uint64_t frame_max_bytes, uint32_t connections_max,
                  uint32_t jumbo_count, uint32_t reply_count) noexcept nogil
    cdef void add_wake_fd(self, int fd) noexcept nogil      # before open(); at most 4
    cdef void set_callbacks(self, void* owner, OnBytes on_bytes, OnRefused on_refused,
                            OnClosed on_closed, OnDrained on_drained) noexcept nogil
    cdef void poll(self, int32_t timeout_ms) noexcept nogil         # waits; reads the clock
    cdef void receive_ready(self) noexcept nogil                    # handles what poll found
    cdef void flush(self) noexcept nogil
    cdef void close_idle(self) noexcept nogil
    cdef void pause_accepting(self) noexcept nogil
    cdef void resume_accepting(self) noexcept nogil
    cdef void stop_accepting(self) noexcept nogil
    cdef void accept_ready(self) noexcept nogil
    cdef void connection_ready(self, Connection* c, uint32_t events) noexcept nogil
    cdef void receive(self, Connection* c) noexcept nogil
    cdef int keep_rest(self, Connection* c, const uint8_t* rest, uint64_t rest_bytes,
                       uint64_t needed) noexcept nogil
    cdef bint take_half(self, Connection* c, const uint8_t* rest,
                        uint64_t rest_bytes) noexcept nogil
    cdef void give_half(self, Connection* c) noexcept nogil
    cdef bint make_room(self, Connection* c, uint32_t more, uint64_t bytes) noexcept nogil
    cdef bint close_stalled(self, Connection* c, int whose) noexcept nogil
    cdef bint grow(self, Connection* c, uint64_t room) noexcept nogil
    # The frame that begins with `rest` is answered so, and what comes of it thrown away.
    cdef int refuse(self, Connection* c, const uint8_t* rest, uint64_t rest_bytes,
                    uint64_t needed) noexcept nogil
    cdef void close_deaf(self) noexcept nogil
    cdef bint close_longest(self, Connection* c) noexcept nogil
    cdef bint displace(self) noexcept nogil
    cdef void trim(self) noexcept nogil         # about once a second: unused memory goes back
    cdef bint is_short(self) noexcept nogil         # reply buffers are running out
    cdef Connection* find(self, uint64_t connection_id) noexcept nogil
    cdef void close_connection(self, Connection* c) noexcept nogil
    cdef void free_closed(self) noexcept nogil
    # Output; each returns False (NULL) when a pool is empty, and the caller closes the connection.
    cdef uint8_t* reserve_reply(self, Connection* c, uint32_t max_bytes) noexcept nogil
    cdef bint commit_reply(self, Connection* c, uint32_t length) noexcept nogil
    cdef bint add_borrowed(self, Connection* c, const uint8_t* at, uint64_t length) noexcept nogil
    cdef bint add_owned(self, Connection* c, uint8_t* at, uint64_t length, void* block,
                        int32_t kind) noexcept nogil
    cdef OutPiece* add_piece(self, Connection* c) noexcept nogil
    cdef void mark_dirty(self, Connection* c) noexcept nogil
    cdef void flush_connection(self, Connection* c) noexcept nogil
    cdef bint keep_borrowed(self, Connection* c) noexcept nogil
    cdef bint copy_borrowed(self, Connection* c) noexcept nogil
    cdef void drop_piece(self, Connection* c) noexcept nogil
    cdef void drop_output(self, Connection* c) noexcept nogil
    # One reason (Unread) more or less not to read a connection. The second: for all of them.
    cdef void stop_reading(self, Connection* c, uint8_t reason) noexcept nogil
    cdef void go_on_reading(self, Connection* c, uint8_t reason) noexcept nogil
    cdef void go_on_reading_all(self, uint8_t reason) noexcept nogil
    cdef uint32_t unread_count(self, uint8_t reason) noexcept nogil     # connections that have it
    cdef void watch(self, Connection* c) noexcept nogil
