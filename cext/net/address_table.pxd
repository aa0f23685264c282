"""Address table: how many connections each address has, and how many handshakes it has begun.

    enter     a client was accepted: its address has one connection more
    begin     its handshake begins: one handshake more at once, and one more in this second
    end       the handshake is over, or its connection is closed
    leave     the connection is closed

Limits keep one address from using up what others need: enter and begin return LimitReached. Then
another connection of that address is closed, one that asked for nothing or whose handshake waits
for its client. If there is none, or if the limit is that of handshakes in a second, the new
connection is closed. An IPv6 address counts as the network of its first 64 bits, because whoever
has the address has that network; an IPv4 address in IPv6 form counts as the IPv4 address.

An address has an entry as long as it has connections. If the handshakes of a second are limited,
the entry also stays when the last connection closes in a second in which the address has begun a
handshake, until entries run short.

Example with 3 connections per address, all busy: the fourth client of an address is closed, while
clients of other addresses are accepted.

All of this belongs to the reactor thread. All memory is taken at the start.
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
    AddressEntry* entries           # in the arena; at most connections_max plus SPARE
    uint32_t* heads                 # in the arena; number of an entry plus 1, by hash; 0: none
    uint32_t size                   # entries that were ever used
    uint32_t entries_max
    uint32_t mask                   # number of heads (a power of two) minus 1
    uint32_t free                   # number of the first free entry plus 1; 0: none
    uint64_t seed                   # random, so that clients cannot choose equal hashes
    # limits of one address, set before the reactor opens; 0: no limit
    uint32_t connections
    uint32_t handshakes             # at once
    uint32_t rate                   # handshakes begun in a second

cdef uint64_t address_table_arena_bytes(uint32_t connections_max) noexcept nogil
# OK | POOL_EMPTY
cdef int address_table_open(AddressTable* t, Arena* arena, uint32_t connections_max) noexcept nogil
# Each returns NO_LIMIT or the limit that is exceeded. The connection or handshake is counted in
# either case, until address_leave or address_end.
cdef int address_enter(AddressTable* t, Connection* c) noexcept nogil
cdef int address_begin(AddressTable* t, Connection* c, int64_t now_ms) noexcept nogil
cdef void address_end(Connection* c) noexcept nogil     # harmless if c has no handshake
cdef void address_leave(AddressTable* t, Connection* c, int64_t now_ms) noexcept nogil
