"""Offset commit: how far a group has consumed, in a request of its own (15
UPDATE_CONSUMER_OFFSET).

Every consumer of RocketMQ sends one every 5 s for each of its queues, mostly one-way. It counts at
once (offset_table.pxd) and is in the file some seconds later, like the commits of pulls.

When the reactor does not know the group or topic, the topic does not have the queue, or a field is
missing, control decides and says what is wrong. Control also gets commits for logical queues of
static topics, whose offset may belong to another broker.

Example: group g, topic t, queue 3, offset 128: "t@g" holds offsets[3] = 128.
"""
from cext.flow.context.outcome cimport Outcome
from cext.flow.tables.tables cimport Tables
from cext.net.connection cimport Connection
from cext.wire.frame cimport Frame
from cext.wire.header cimport Header

cdef Outcome accept_offset_commit(Tables s, Connection* c, const Header* h, const Frame* f,
                                  bint resubmitted) noexcept nogil
