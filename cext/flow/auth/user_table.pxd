"""User table: who may do what, as the reactor needs it. rmq/auth/policy.py says what it means.

The control thread fills it: it puts a whole user, whose policy entries are packed one behind the
other (rmq/auth/packed_policies.py), integers big-endian:

    u8 policy (0 Custom, 1 Default) | u8 type (0 all, 1 cluster, 2 topic, 3 group)
    u8 pattern (0 the whole name, 1 its beginning, 2 every name) | u8 decision (0 Allow, 1 Deny)
    u16 actions (bits) | u16 networks | u16 bytes and name
    then each network as address_network.pxd says; sorted, none within another

Entries are sorted by policy, type and name; of one name, "every name" comes before "beginning"
before "whole name", and Allow before Deny. So an entry that covers more stands before the entries
that it covers, and of entries that cover the same, the one that counts stands last. The entries
that cover a name are therefore found from the last entry at or before the name's place: that one,
if it covers the name, and those that it lies within, one after the other. Each entry knows the next
one outwards (`outer`). A verdict is a binary search and a look at those few, nearest first, however
many entries the user has. It is not cached: a change counts from the next request on.

Example: alice, Custom Topic:orders* Pub Allow: user_verdict(u, TYPE_TOPIC, "orders-eu", 9,
ACTION_PUB, address) is VERDICT_ALLOW.
"""
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t

from cext.flow.auth.white_list cimport WhiteList
from cext.memory.name_map cimport NameMap
from cext.net.address_network cimport Network
from cext.wire.signature cimport SigningKey

cdef enum ResourceType:
    TYPE_ALL = 0
    TYPE_CLUSTER = 1
    TYPE_TOPIC = 2
    TYPE_GROUP = 3

cdef enum Action:                   # bits
    ACTION_ALL = 1
    ACTION_PUB = 2
    ACTION_SUB = 4
    ACTION_CREATE = 8
    ACTION_UPDATE = 16
    ACTION_DELETE = 32
    ACTION_GET = 64
    ACTION_LIST = 128

cdef enum Verdict:
    VERDICT_NONE = 0                # no entry matches
    VERDICT_ALLOW = 1
    VERDICT_DENY = 2

cdef struct PolicyEntry:
    uint8_t policy
    uint8_t type
    uint8_t pattern
    uint8_t denies
    uint16_t actions
    uint16_t name_length
    uint16_t network_count
    uint16_t network4_count         # the first of them, which are IPv4
    int32_t outer                   # the nearest entry before it that covers all of it; -1: none
    const uint8_t* name             # in User.packed
    const Network* networks         # in User.packed

cdef struct User:
    SigningKey key
    bint is_super
    bint is_enabled
    int32_t entry_count
    int32_t custom_count            # the first of them, which are Custom
    PolicyEntry* entries            # owned
    uint8_t* packed                 # owned
    WhiteList white                 # from these addresses the name alone is enough

cdef struct UserTable:
    NameMap by_name                 # -> User*, owned

# OK | POOL_EMPTY
cdef int user_table_open(UserTable* table) noexcept nogil
cdef void user_table_close(UserTable* table) noexcept nogil
# Puts a user, replacing one of the same name. OK | POOL_EMPTY | MALFORMED: `packed` or the white
# list is not as described, or not in order. Unless OK, nothing has changed.
cdef int user_put(UserTable* table, const uint8_t* name, uint32_t name_length,
                  const uint8_t* password, uint32_t password_length, bint is_super,
                  bint is_enabled, const uint8_t* packed, uint32_t packed_length,
                  const uint8_t* white, uint32_t white_length) noexcept nogil
cdef void user_remove(UserTable* table, const uint8_t* name, uint32_t length) noexcept nogil
cdef User* user_find(UserTable* table, const uint8_t* name, uint32_t length) noexcept nogil
# Whether a user that is not super may do one of the actions on the resource, from this address.
cdef Verdict user_verdict(const User* user, ResourceType type, const uint8_t* name,
                          uint32_t length, uint32_t actions,
                          const uint8_t* address) noexcept nogil
