"""Pop pair: what consumers of a group that pop from a topic share; removed with group or topic.

Pairs are found and made in the pop table (pop_table.pxd).
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from cext.flow.tables.topic_table cimport Topic
from cext.memory.chain cimport ChainEntry
from cext.memory.use_count cimport UseCount

cdef struct PopPair:
    UseCount use                # counted by pops and check points (revive_ring.pxd)
    Topic* topic                # borrowed; NULL when the pair is removed
    PopPair* next_of_topic      # in topic.pop_waiting
    ChainEntry* first           # PopJobs that wait, oldest first (held_pops.pxd)
    int32_t waiting
    int32_t special             # of these: notifications, and pops of one queue
    int32_t awake               # pops of all queues, woken and not answered yet
    bint beside                 # made for check points only, beside the pops' limit
    int32_t order_slots         # length of `orders`
    void** orders               # each queue's OrderBlock (pop_order.pxd), or NULL
    int32_t inflight_slots      # length of `inflight_counts`
    int64_t* inflight_counts    # of each queue (pop_inflight.pxd); owned
    uint32_t group_length
    uint8_t* group              # owned
