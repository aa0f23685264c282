"""Pull admission: a pull request is checked and becomes a job that is answered in the same turn.

    request -> topic, group, subscription known?  no: control thread
            -> the group's offset was reset: the client is told at once, no job enters the list
            -> the consumer's offset is committed, the filter found
            -> a PullJob in the turn's list (pull_turn.pxd)
"""
from cext.flow.context.outcome cimport Outcome
from cext.flow.pull.pull_service cimport PullService
from cext.net.connection cimport Connection
from cext.wire.frame cimport Frame
from cext.wire.header cimport Header

cdef Outcome accept_pull(PullService s, Connection* c, const Header* h, const Frame* f,
                         bint resubmitted) noexcept nogil
