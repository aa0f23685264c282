"""Send back (36 CONSUMER_SEND_MSG_BACK): a consumer returns a message that it could not consume.

Example: offset=40960, group=g, delayLevel=0, originMsgId=.., originTopic=t, maxReconsumeTimes=16:
the message whose record starts at log offset 40960 must be delivered again, with a longer delay
each time, and given up after 16 times.

Any thread, no state.
"""
from libc.stdint cimport int32_t, int64_t

from cext.wire.header cimport Header
from cext.wire.text cimport Text

cdef struct SendBack:
    Text group                      # borrowed from the frame, may be escaped
    Text origin_topic               # the same; absent with some clients
    int64_t log_offset              # offset: where the message's record is
    int32_t delay_level             # 0: the broker chooses; negative: no more attempts
    int32_t max_times               # maxReconsumeTimes, when has_max_times
    bint has_max_times
    const char* bad_field           # the field because of which the status is not OK

# OK | MISSING_FIELD | MALFORMED, with bad_field.
cdef int read_send_back(const Header* header, SendBack* out) noexcept nogil
