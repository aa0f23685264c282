"""Turn context: what every step of a turn may need, whatever it does.

The clocks of this turn, the network, options, counters, and the link to the control thread. Each
folder of cext/flow but control has one service: a class with the folder's state and with references
to the services it uses. A function is given the service of its own folder, `s`, and reaches what
that service refers to. The order is this, and each uses some of those before it (tools/layers.toml
says which):

    context, tables, append; fetch; pull, delay; transaction, request_reply; send; pop;
    replication, auth; control; the shard itself (cext/flow/shard_state.pxd)

Only the reactor touches it, except for fields that are said to be written by other threads.
"""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from cext.flow.context.control_link cimport ControlLink
from cext.flow.context.options cimport Options
from cext.flow.context.property_scratch cimport PropertyScratch
from cext.flow.context.role cimport Role
from cext.flow.context.rpc_times cimport RpcTimes
from cext.flow.context.service cimport Service
from cext.memory.arena cimport SharedArena
from cext.net.reactor cimport Reactor

cdef enum:
    SIZE_BUCKETS = 32

cdef struct Counters:
    uint64_t messages_in
    uint64_t bytes_in
    uint64_t messages_out
    uint64_t bytes_out
    uint64_t sends_refused
    uint64_t pulls
    uint64_t pulls_found
    uint64_t pulls_held
    uint64_t pulls_empty
    uint64_t pulls_from_disk
    uint64_t entries_skipped        # queue entries that did not pass a pull's filter
    uint64_t filter_failures        # SQL92 evaluations that failed, as RocketMQ's do
    uint64_t corrupt_records
    uint64_t control_requests
    uint64_t busy_replies
    uint64_t malformed_frames
    uint64_t turns
    uint64_t write_outs
    uint64_t sent_back              # by consumers, to come again
    uint64_t dead_letters           # sent back, or by clients to their retry topic, once too often
    uint64_t tail_full              # appends refused because the ring or store pool was full
    uint64_t sizes[SIZE_BUCKETS]    # records by the number of bits of their size
    int64_t tail_high               # most bytes ever between `written` and `appended`

cdef class TurnContext(Service):
    cdef SharedArena memory             # the arena that all services' pointers lead into
    cdef Reactor net
    cdef Options options
    cdef Counters counters
    cdef ControlLink link
    cdef RpcTimes rpc                   # from the poll that brought a request to its answer
    cdef PropertyScratch scratch        # for whoever changes the properties of a message
    cdef int64_t now_ms                 # monotonic, of this turn
    cdef int64_t wall_ms                # of this turn; never goes back
    # The longest write-out of the turn before; requests that came meanwhile waited for as long
    # (message_send.pxd).
    cdef int64_t stalled_ms
    cdef uint32_t random                # xorshift state: queueId < 0, uniq keys
    cdef int32_t stopping               # set by another thread
    cdef bint tables_loaded             # control has filled the tables: groups, offsets, levels
    # The client whose request runs may do what its policy allows and no more: so what a request
    # names must be what it is about.
    cdef bint is_bound
    # Answers of this turn speak of records that the turn's next write brings: until then nothing is
    # sent.
    cdef bint holds_output
    cdef int64_t accounts_version       # changes with each change of who may do what
    cdef Role role                      # master or slave, and whether it takes records
    cdef int32_t events_this_second     # log lines passed on; the rest is only counted
    cdef uint64_t events_dropped
