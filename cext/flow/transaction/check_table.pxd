"""Check table: which connections may be asked about the transactions of a producer group.

Control hands down some of the group's connections whenever they change (CONNECTIONS_MAX at most:
one that answers is enough), each with the user that registered it as a member of the group.
Connections that have gone meanwhile are passed over. They are asked in turn.

A check back carries the whole half message, and any client may claim to be of a producer group. So
only a user that may end the transaction is asked (admission.pxd). This is judged at each check
back: changed policies count from the next one on.

Example: put {17, 23} for group "p": checks go to 17, 23, 17, ..; when 17 closes, all go to 23.

Reactor only. Tables are malloc'd: they change at control rate.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.flow.auth.auth_service cimport AuthService
from cext.flow.fetch.readahead cimport Readahead
from cext.memory.name_map cimport NameMap
from cext.net.connection cimport Connection
from cext.net.reactor cimport Reactor
from cext.wire.text cimport Text

cdef enum:
    CONNECTIONS_MAX = 64            # of one group

cdef struct CheckTarget:
    uint64_t connection
    const uint8_t* user             # in the same block; empty: the client has no user name
    uint32_t user_bytes

cdef struct CheckGroup:
    int32_t count
    int32_t turn                    # index of the connection that was asked last
    CheckTarget targets[0]          # the users' names follow

cdef struct CheckTable:
    NameMap groups                  # producer group -> CheckGroup*, owned
    uint64_t asked                  # checks sent
    uint64_t unasked                # stored anew while no producer could be asked
    Readahead readahead             # of the records that check backs look at

cdef int check_table_open(CheckTable* table) noexcept nogil
cdef void check_table_close(CheckTable* table) noexcept nogil
# `ids`: `count` connection ids in native order; with none, the group is removed. `users`: for each
# connection its user's name and a byte 0. OK | POOL_EMPTY | MALFORMED: there are fewer users.
cdef int check_table_put(CheckTable* table, const uint8_t* group, uint32_t group_bytes,
                         const uint8_t* ids, int64_t count, const Text* users) noexcept nogil
# The connection to ask about a transaction of the topic, or NULL. *full: there is one, but too much
# is queued for it.
cdef Connection* check_table_next(CheckTable* table, Reactor net, AuthService auth,
                                  const uint8_t* group, uint32_t group_bytes, const Text* topic,
                                  bint* full) noexcept nogil
