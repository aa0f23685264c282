# Peer: one connection of the load generator with its buffers and its open requests.
#
# An open request has a slot, and its opaque says which: opaque = 10,000,000 + slot + slots *
# generation. So an answer finds its slot by one division, and a late or doubled answer is
# recognised, because its generation differs. A peer that answers in order without echoing opaques
# (bench/floor.c) is matched first in, first out.
#
# Example, 64 slots: the second request of slot 5 carries 10,000,000 + 5 + 64 = 10,000,069.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t


cdef struct Slot:
    int64_t started_ns           # when it was sent, or should have been (open loop)
    int64_t went_ns              # when it was really sent (producer only)
    int32_t opaque               # 0: the slot is free
    int32_t next_free            # next in the free list, or in the order of sending; -1 ends it


cdef struct Peer:
    int fd                       # borrowed from the Python socket; -1 once broken
    int epoll_fd                 # borrowed
    bint in_order                # answers are matched by their order
    bint wants_room              # waits for EPOLLOUT
    bint dirty                   # has output that was not offered to a send yet
    uint8_t* input               # owned
    uint64_t input_capacity
    uint64_t input_start         # first byte not yet consumed
    uint64_t input_end
    uint8_t* output              # owned
    uint64_t output_capacity
    uint64_t output_start        # first byte not yet sent
    uint64_t output_end
    Slot* slots                  # owned
    uint32_t slot_count
    uint32_t open_count          # slots in use
    int32_t free_first           # free list
    int32_t order_first          # oldest open request (in_order)
    int32_t order_last
    uint32_t generation          # requests sent so far, as far as an opaque can count


# OK | POOL_EMPTY (no memory) | IO_ERROR (epoll refused the fd). Frees nothing: call peer_release
# in any case.
cdef int peer_open(Peer* peer, int fd, int epoll_fd, uint64_t input_capacity,
                   uint64_t output_capacity, uint32_t slot_count, bint in_order) noexcept nogil
cdef void peer_release(Peer* peer) noexcept nogil

# Stops using the connection: forgets its fd; its open requests stay for the caller to count.
cdef void peer_break(Peer* peer) noexcept nogil

# One recv behind input_end: OK | NOT_READY | CLOSED. Moves unconsumed bytes to the front when there
# is no room.
cdef int peer_receive(Peer* peer) noexcept nogil

# One send of all output: OK (all was taken) | NOT_READY (waits for EPOLLOUT) | CLOSED.
cdef int peer_flush(Peer* peer) noexcept nogil

# Where `bytes` more of output may be written; NULL when they do not fit. The caller then moves
# peer.output_end.
cdef uint8_t* peer_room(Peer* peer, uint64_t bytes) noexcept nogil

# Takes a free slot, gives it an opaque and a start time; -1 when all are in use.
cdef int32_t peer_take(Peer* peer, int64_t started_ns) noexcept nogil

# The same for a given free slot (consumer: slot = queue); does not touch the free list.
cdef void peer_take_slot(Peer* peer, int32_t slot, int64_t started_ns) noexcept nogil

# The slot that the answer belongs to, or -1. The slot is free afterwards unless `keep` is set.
cdef int32_t peer_match(Peer* peer, int32_t opaque, bint keep) noexcept nogil
