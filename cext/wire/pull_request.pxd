"""Pull request: the fields of codes 11 (pull) and 361 (lite pull).

    consumerGroup! topic! queueId! queueOffset! maxMsgNums! sysFlag! commitOffset!
    suspendTimeoutMillis! subVersion! subscription expressionType maxMsgBytes requestSource
    proxyFrowardClientId

`!` is required; the last name is misspelt in the protocol. The bits of sysFlag are in PullSysFlag
(codes.pxd).

Example: queueOffset "abc" -> MALFORMED, bad_field "queueOffset".
"""
from libc.stdint cimport int32_t, int64_t, uint32_t

from cext.wire.header cimport Header
from cext.wire.text cimport Text


cdef struct PullRequest:
    Text consumer_group            # all texts borrow from the frame and may be escaped
    Text topic
    Text subscription              # bytes NULL when absent; counts only with FLAG_SUBSCRIPTION
    Text expression_type           # bytes NULL when absent, which means TAG
    Text proxy_client_id           # proxyFrowardClientId; bytes NULL when absent
    int64_t queue_offset           # the queue offset wanted next
    int64_t commit_offset          # the consumer's progress; counts only with FLAG_COMMIT_OFFSET
    int64_t suspend_timeout_ms     # how long the pull may be held; counts only with FLAG_SUSPEND
    int64_t sub_version            # version of the subscription that the client has
    int32_t queue_id
    int32_t max_messages           # maxMsgNums, as sent
    int32_t sys_flag               # sum of PullSysFlag
    int32_t max_message_bytes      # maxMsgBytes, -1 when absent
    int32_t request_source         # -1 when absent
    const char* bad_field          # with any status but OK: the field's name


# OK | MISSING_FIELD | MALFORMED (not a number, or out of range). Any thread.
cdef int read_pull_request(const Header* header, PullRequest* out) noexcept nogil
