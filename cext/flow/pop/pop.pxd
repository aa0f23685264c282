"""Pop: from the request to a job in the turn's list. pop_answer.pxd goes on there.

    200050 pop            messages of any queue of the topic, and messages that came back; they are
                          invisible for a while to all others of the group
    200054 notification   whether a pop would find something
    200052 peek           the same messages, which stay visible
    200055 polling info   how many pops wait

As with pulls, what is not known here (topic, group, SQL92 expression) goes to control first.
"""
from cext.flow.context.outcome cimport Outcome
from cext.flow.pop.pop_service cimport PopService
from cext.net.connection cimport Connection
from cext.wire.frame cimport Frame
from cext.wire.header cimport Header

cdef Outcome accept_pop(PopService s, Connection* c, const Header* h, const Frame* f,
                        bint resubmitted) noexcept nogil
