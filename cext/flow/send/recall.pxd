"""Recall (370): a timed message that is not due yet is not delivered.

    recallHandle    from the send's reply (recall_handle.pxd)
    stored          a timed message of its own in queue 0 of the topic, due when the message is,
                    with TIMER_DEL_UNIQKEY = topic + "+" + UNIQ_KEY: when both are due, the message
                    is dropped (timer_delivery.pxd)

The answer says that the recall is stored (written or synced, as for a send), not that there is such
a message. A request goes to control while recallMessageEnable is false, sends are not accepted, or
the topic is not known: control refuses it, or adds the topic and gives the frame back. A bad handle
is refused here, in RocketMQ's words.

Example: handle of "v1 t broker-a 1763726410001 0A..": a message with TIMER_OUT_MS 1763726410000 and
TIMER_DEL_UNIQKEY "t+0A.." is stored; the answer's msgId is "0A..".
"""
from cext.flow.context.outcome cimport Outcome
from cext.flow.send.send_service cimport SendService
from cext.net.connection cimport Connection
from cext.wire.frame cimport Frame
from cext.wire.header cimport Header

cdef Outcome accept_recall(SendService s, Connection* c, const Header* h, const Frame* f,
                           bint resubmitted) noexcept nogil
