"""Pull request: the fields of codes 11 (pull) and 361 (lite pull).

    consumerGroup! topic! queueId! queueOffset! maxMsgNums! sysFlag! commitOffset!
    suspendTimeoutMillis! subVersion! subscription expressionType maxMsgBytes requestSource
    proxyFrowardClientId

`!` is required; the last name is misspelt in the protocol. sysFlag bits: 0x1 commitOffset is to be
stored, 0x2 may be held, 0x4 subscription is given here, 0x8 class filter, 0x10 lite pull.

Example: queueOffset "abc" -> MALFORMED, bad_field "queueOffset".
"""
from libc.stdint cimport int32_t, int64_t, uint32_t

from cext.wire.header cimport Header
from cext.wire.text cimport Text

cdef enum:
    PULL_COMMIT_OFFSET = 0x1
    PULL_SUSPEND = 0x2
    PULL_SUBSCRIPTION = 0x4
    PULL_CLASS_FILTER = 0x8
    PULL_LITE = 0x10


cdef struct PullRequest:
    Text consumer_group            # all texts borrow from the frame and may be escaped
    Text topic
    Text subscription              # bytes NULL when absent; counts only with PULL_SUBSCRIPTION
    Text expression_type           # bytes NULL when absent, which means TAG
    Text proxy_client_id           # proxyFrowardClientId; bytes NULL when absent
    int64_t queue_offset           # the queue offset wanted next
    int64_t commit_offset          # the consumer's progress; counts only with PULL_COMMIT_OFFSET
    int64_t suspend_timeout_ms     # how long it may be held; counts only with PULL_SUSPEND
    int64_t sub_version            # version of the subscription the client believes in
    int32_t queue_id
    int32_t max_messages           # maxMsgNums, as sent
    int32_t sys_flag               # PULL_... bits
    int32_t max_message_bytes      # maxMsgBytes, -1 when absent
    int32_t request_source         # -1 when absent
    const char* bad_field          # with any status but OK: the field's name


# OK | MISSING_FIELD | MALFORMED (not a number, or out of range). Any thread.
cdef int read_pull_request(const Header* header, PullRequest* out) noexcept nogil
