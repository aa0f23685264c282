"""Send request: the fields of a send, in either of the two spellings that headers use.

Codes 10 and 324 spell the fields out (producerGroup, topic, ...), 310, 320 and 325 use one letter
each:

    a producerGroup!  b topic!          c defaultTopic!   d defaultTopicQueueNums!  e queueId!
    f sysFlag!        g bornTimestamp!  h flag!           i properties              j reconsumeTimes
    k unitMode        l maxReconsumeTimes                 m batch                   (n brokerName)

`!` is required. Field `m` / batch says whether the body is a batch; the code does not.

Example: {"a":"PG","b":"T","c":"TBW102","d":"4","e":"0","f":"0","g":"1700000000000","h":"0"} ->
queue_id 0, has_max_reconsume_times False, properties absent. Without "e": MISSING_FIELD and
bad_field "e".
"""
from libc.stdint cimport int32_t, int64_t, uint8_t

from cext.wire.header cimport Header
from cext.wire.text cimport Text


cdef struct SendRequest:
    Text producer_group            # all texts borrow from the frame and may be escaped
    Text topic
    Text default_topic             # whose settings an automatically created topic gets
    Text properties                # absent: none
    int64_t born_timestamp_ms      # the client's clock
    int32_t default_topic_queue_nums
    int32_t queue_id               # negative: the broker chooses
    int32_t sys_flag               # message bits, as sent
    int32_t flag                   # the user's own
    int32_t reconsume_times        # 0 when absent
    bint has_max_reconsume_times   # else the number of the group counts
    int32_t max_reconsume_times    # any number; 0 when absent
    bint unit_mode
    bint batch
    const char* bad_field          # with any status but OK: the field, as the client spells it


# OK | MISSING_FIELD | MALFORMED (not a number, or out of range). Any thread.
cdef int read_send_request(const Header* header, SendRequest* out) noexcept nogil
