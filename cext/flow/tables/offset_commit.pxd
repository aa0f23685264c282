"""Offset commit: how far a group has consumed, in a request of its own (15
UPDATE_CONSUMER_OFFSET).

Every consumer of RocketMQ sends one every 5 s for each of its queues, mostly one-way. It counts at
once (offset_table.pxd); the file has it some seconds later, as it has what pulls commit.

A group or topic that the reactor does not know, a queue that the topic does not have, a field that
is missing: control decides, and says what is wrong. So it does for logical queues of static topics,
whose offset may belong to another broker.

Example: group g, topic t, queue 3, offset 128: "t@g" holds offsets[3] = 128.
"""
from cext.flow.context.outcome cimport Outcome
from cext.flow.tables.tables cimport Tables
from cext.net.connection cimport Connection
from cext.wire.frame cimport Frame
from cext.wire.header cimport Header

cdef Outcome accept_offset_commit(Tables s, Connection* c, const Header* h, const Frame* f,
                                  bint resubmitted) noexcept nogil
