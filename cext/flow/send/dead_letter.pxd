"""Dead letter: a message that came too often goes to queue 0 of %DLQ%group and does not come again.

    36 CONSUMER_SEND_MSG_BACK   it came maxReconsumeTimes times already, or delayLevel < 0: a copy
                                of the stored message (send_back.pxd)
    a send to %RETRY%group      which clients make when 36 fails: its reconsume times are above
                                maxReconsumeTimes, or clients of the group hold queue locks, which
                                means that it consumes in order: the message itself, without DELAY

maxReconsumeTimes is the request's if its client knows the field, else the group's. Otherwise such a
send is checked and stored like any other (message_send.pxd); it may also be delayed by other marks
than DELAY, or half. A batch never goes to a retry topic. Control makes a missing group or topic and
gives the frame back.

Example: group g allows 16 tries; a send to %RETRY%g with reconsumeTimes 17 is stored in %DLQ%g, one
with 16 in %RETRY%g.
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t

from cext.flow.send.send_service cimport SendService
from cext.flow.tables.group_table cimport Group
from cext.flow.tables.topic_table cimport Topic
from cext.wire.codes cimport VERSION_RECONSUME
from cext.wire.header cimport Header
from cext.wire.send_request cimport SendRequest
from cext.wire.text cimport Text

# How often a message of the group may come again; `asked`: the request says `times`.
cdef inline int32_t retries_max(const Group* group, const Header* h, bint asked,
                                int32_t times) noexcept nogil:
    return times if asked and h.version >= VERSION_RECONSUME else group.retry_times_max

# The topic with this prefix and the group's name, or NULL.
cdef Topic* topic_of_group(SendService s, const char* prefix, uint32_t prefix_bytes,
                           const uint8_t* group, uint32_t group_bytes) noexcept nogil
# Whether everything is known that decides where this send to a %RETRY% topic goes; else control
# must help. *dead: the group's %DLQ% topic, NULL when the message may come again.
cdef bint find_dead_letters(SendService s, const Header* h, const SendRequest* r,
                            const Topic* retry, bint resubmitted, Topic** dead) noexcept nogil
# Leaves DELAY out of a send's properties, into s.turn.scratch.after. OK | MALFORMED | TOO_LARGE.
cdef int leave_delay_out(SendService s, Text* properties) noexcept nogil
