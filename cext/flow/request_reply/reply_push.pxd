"""Reply push: a consumer's answer (324, 325) is pushed to the producer that asked (326).

    324 / 325    the fields of a send, to <cluster>_REPLY_TOPIC, REPLY_TO_CLIENT in its properties
                 -> stored in that topic, unless storeReplyMessageEnable=false
                 -> 326 to the newest connection of that client, with PUSH_REPLY_TIME
    its answer   -> the answer to 324 / 325: code 0, or 1 with the reason; msgId, queueId and
                 queueOffset are the stored message's, "0" and 0 when it is not stored;
                 code 0 leaves when the stored message is safe (promise.pxd)
    none         after PUSH_MS, or when the producer's connection closes: 1 with the reason

At most PUSHES_MAX are under way; one more is answered SYSTEM_BUSY. The opaque of a 326 names its
slot and how often the slot was used: an answer that comes late, or from another client, is dropped.

Control says which connection a client has (put_client), and handles the special cases
(rmq/broker/requests/replies.py): a client that is not connected here, a topic that is not known, a
request that must be refused.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.flow.context.outcome cimport Outcome
from cext.flow.request_reply.reply_service cimport ReplyService
from cext.flow.request_reply.reply_table cimport PUSH_OPAQUE
from cext.net.connection cimport Connection
from cext.wire.frame cimport Frame
from cext.wire.header cimport Header

cdef Outcome accept_reply(ReplyService s, Connection* c, const Header* h, const Frame* f,
                          bint resubmitted) noexcept nogil
# A client's answer to a 326. DONE or TURN_FULL.
cdef Outcome push_answered(ReplyService s, Connection* c, const Header* h) noexcept nogil
# The connection closes: consumers whose replies wait for its answers are told.
cdef void push_forget(ReplyService s, Connection* c) noexcept nogil
# Gives up pushes that were not answered in time; about once a second.
cdef void push_expire(ReplyService s) noexcept nogil

cdef inline bint is_push_answer(const Header* h) noexcept nogil:
    return h.opaque & PUSH_OPAQUE != 0
