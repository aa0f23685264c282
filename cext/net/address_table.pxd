"""Address table: how many connections each address has, and how many handshakes it has begun.

    enter     a client was accepted: one connection more of its address
    begin     its handshake has begun: one more at once, and one more in this second
    end       it is over, or its connection is
    leave     the connection is closed

Limits keep one address from what others need: enter and begin say LimitReached. Then one of that
address makes room that asked for nothing, or whose handshake does not get on, or the newcomer is
closed. An IPv6 address counts as its first 64 bits, since whoever has one has all of that; one that
stands for an IPv4 address counts as that.

An entry belongs to an address with connections. Where the handshakes of a second are limited, it is
kept when the last of them closes in that second, until entries run short.

Example, 3 connections for an address, which are busy: its fourth client is closed while those of
others come in.

The reactor's. All memory is taken at the start.
"""
from libc.stdint cimport int64_t, uint32_t, uint64_t

from cext.memory.arena cimport Arena
from cext.net.connection cimport AddressEntry, Connection

cdef enum LimitReached:
    NO_LIMIT = 0
    CONNECTIONS_LIMIT = 1
    HANDSHAKES_LIMIT = 2
    RATE_LIMIT = 3

cdef struct AddressTable:
    AddressEntry* entries           # of the arena; no more than connections_max, and SPARE
    uint32_t* heads                 # of the arena; number of an entry and 1, by hash
    uint32_t size                   # entries that were ever used
    uint32_t entries_max
    uint32_t mask                   # heads are a power of two
    uint32_t free                   # number of an entry and 1
    uint64_t seed
    # limits of one address, before the reactor opens; 0: none
    uint32_t connections
    uint32_t handshakes             # at once
    uint32_t rate                   # handshakes begun in a second

cdef uint64_t address_table_arena_bytes(uint32_t connections_max) noexcept nogil
# OK | POOL_EMPTY
cdef int address_table_open(AddressTable* t, Arena* arena, uint32_t connections_max) noexcept nogil
# NO_LIMIT, or the limit that is exceeded: it is counted in either case, until it ends or leaves.
cdef int address_enter(AddressTable* t, Connection* c) noexcept nogil
cdef int address_begin(AddressTable* t, Connection* c, int64_t now_ms) noexcept nogil
cdef void address_end(Connection* c) noexcept nogil     # of one that has begun none, too
cdef void address_leave(AddressTable* t, Connection* c, int64_t now_ms) noexcept nogil
