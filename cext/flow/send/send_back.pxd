"""Send back (36): a message that a consumer could not consume comes again, or is a dead letter.

    36 CONSUMER_SEND_MSG_BACK   offset -> the stored message -> a copy, reconsume times + 1, to
        %RETRY%group, after delay level delayLevel (0: the group's own, else 3 + times so far)
        %DLQ%group, at once, when it came maxReconsumeTimes times already or delayLevel < 0

Dead letters, and the sends that clients make themselves when 36 fails, are in dead_letter.pxd.

The copy has the body, tags, keys, flag and born fields of the source. RETRY_TOPIC names its first
topic, ORIGIN_MESSAGE_ID its first id; WAIT is false, and DELAY is the level (0 in a dead letter).
The answer leaves when the copy is safe (promise.pxd): the broker has it, waiting or delivered.

A record that is not in memory is fetched first (parked_requests.pxd). When group or topic does not
exist, the frame goes to control, which makes it and gives the frame back.

Example: the first failure in group g gives reconsume times 1, level 3: 10 s later the consumer gets
the message from %RETRY%g.
"""
from cext.flow.context.outcome cimport Outcome
from cext.flow.send.send_service cimport SendService
from cext.net.connection cimport Connection
from cext.wire.frame cimport Frame
from cext.wire.header cimport Header

cdef Outcome accept_send_back(SendService s, Connection* c, const Header* h, const Frame* f,
                              bint resubmitted) noexcept nogil
