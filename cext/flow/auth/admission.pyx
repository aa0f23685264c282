"""Admission of requests. See admission.pxd."""
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.stdio cimport snprintf
from libc.string cimport memcmp

from cext.base.status cimport NOT_FOUND, OK, TOO_LARGE
from cext.flow.auth.user_table cimport (
    ACTION_GET,
    ACTION_PUB,
    ACTION_SUB,
    ACTION_UPDATE,
    TYPE_GROUP,
    TYPE_TOPIC,
    VERDICT_ALLOW,
    VERDICT_NONE,
    ResourceType,
    User,
    Verdict,
    user_find,
    user_verdict,
)
from cext.flow.auth.white_list cimport WhiteList, white_list_covers
from cext.flow.context.outcome cimport GO_ON, TO_CONTROL
from cext.flow.context.small_replies cimport address_text, log_refusal, reply_error
from cext.net.address_network cimport ADDRESS_BYTES, source_of
from cext.net.transport cimport transport_proved
from cext.wire.codes cimport (
    ACK_MESSAGE,
    BATCH_ACK_MESSAGE,
    CHANGE_MESSAGE_INVISIBLETIME,
    CONSUMER_SEND_MSG_BACK,
    END_TRANSACTION,
    LITE_PULL_MESSAGE,
    NO_PERMISSION,
    NOTIFICATION,
    PEEK_MESSAGE,
    POLLING_INFO,
    POP_MESSAGE,
    PULL_MESSAGE,
    RECALL_MESSAGE,
    SEND_BATCH_MESSAGE,
    SEND_MESSAGE,
    SEND_MESSAGE_V2,
    SEND_REPLY_MESSAGE,
    SEND_REPLY_MESSAGE_V2,
    SYSTEM_BUSY,
    SYSTEM_ERROR,
    UPDATE_CONSUMER_OFFSET,
)
from cext.wire.header cimport ExtField, header_find, header_letter
from cext.wire.pop_request cimport pop_code
from cext.wire.revive_entry cimport ReviveEntry, next_batch_ack
from cext.wire.signature cimport signature_check
from cext.wire.system_topics cimport RETRY_PREFIX, RETRY_PREFIX_BYTES
from cext.wire.text cimport Text, text_copy, text_of

cdef enum:
    NAME_BYTES = 1024               # longest name of a user, topic or group that is looked at
    NAME_SHOWN = 255                # bytes of a name in texts and in the log
    UNKNOWN_SHOWN = 64              # the same for a user that does not exist
    TEXT_BYTES = 1024               # of a refusal
    ROWS = 18
    ACKS_MAX = 8192                 # acks of a batch that are checked; pop_ack takes fewer anyway

cdef struct Name:                   # without escapes; valid as long as its request
    const uint8_t* bytes
    uint32_t length

cdef enum Where:                    # where a request names its topic
    IN_FIELDS = 0
    IN_LETTER_B = 1                 # the topic, in the field b
    IN_ACKS = 2                     # in the body: c and t of each ack
    IN_ORIGIN = 3                   # the topic, in the field originTopic
    OF_POPPED = 4                   # in fields; the topic may be a retry topic of the group

cdef struct Row:
    int32_t code
    Where where
    uint32_t topic_actions          # 0: the request has no topic
    bint topic_optional
    const char* group               # name of the field; NULL: the request has no group
    uint32_t group_actions

cdef Row[ROWS] rows = [
    Row(SEND_MESSAGE_V2, IN_LETTER_B, ACTION_PUB, False, NULL, 0),
    Row(PULL_MESSAGE, IN_FIELDS, ACTION_SUB, False, b"consumerGroup", ACTION_SUB),
    Row(SEND_MESSAGE, IN_FIELDS, ACTION_PUB, False, NULL, 0),
    Row(SEND_BATCH_MESSAGE, IN_LETTER_B, ACTION_PUB, False, NULL, 0),
    Row(LITE_PULL_MESSAGE, IN_FIELDS, ACTION_SUB, False, b"consumerGroup", ACTION_SUB),
    Row(POP_MESSAGE, IN_FIELDS, ACTION_SUB, False, b"consumerGroup", ACTION_SUB),
    Row(ACK_MESSAGE, OF_POPPED, ACTION_SUB, False, b"consumerGroup", ACTION_SUB),
    Row(BATCH_ACK_MESSAGE, IN_ACKS, ACTION_SUB, False, NULL, 0),
    Row(END_TRANSACTION, IN_FIELDS, ACTION_PUB, True, NULL, 0),
    Row(UPDATE_CONSUMER_OFFSET, IN_FIELDS, ACTION_SUB | ACTION_UPDATE, False, b"consumerGroup",
        ACTION_SUB | ACTION_UPDATE),
    Row(CONSUMER_SEND_MSG_BACK, IN_ORIGIN, ACTION_SUB, True, b"group", ACTION_SUB),
    Row(CHANGE_MESSAGE_INVISIBLETIME, OF_POPPED, ACTION_SUB, False, b"consumerGroup", ACTION_SUB),
    Row(PEEK_MESSAGE, IN_FIELDS, ACTION_SUB, False, b"consumerGroup", ACTION_SUB),
    Row(NOTIFICATION, IN_FIELDS, ACTION_SUB, False, b"consumerGroup", ACTION_SUB),
    Row(POLLING_INFO, IN_FIELDS, ACTION_GET, False, b"consumerGroup", ACTION_GET),
    Row(SEND_REPLY_MESSAGE, IN_FIELDS, ACTION_PUB, False, NULL, 0),
    Row(SEND_REPLY_MESSAGE_V2, IN_LETTER_B, ACTION_PUB, False, NULL, 0),
    Row(RECALL_MESSAGE, IN_FIELDS, ACTION_PUB, False, NULL, 0),
]


cdef inline int row_of(int32_t code) noexcept nogil:
    cdef int i
    for i in range(ROWS):
        if rows[i].code == code:
            return i
    return -1


cdef uint32_t row_bit(int32_t code) noexcept nogil:
    cdef int row = row_of(code)
    return <uint32_t> 1 << row if row >= 0 else 0


# ------------------------------------------------------------------- refusals

cdef const char* shown(const uint8_t* name, uint32_t length, char* out) noexcept nogil:
    """A name as texts and the log show it, so that a name chosen by a stranger cannot pass for
    something else. `out` has room for NAME_SHOWN + 1."""
    cdef uint32_t i
    length = min(length, <uint32_t> NAME_SHOWN)
    for i in range(length):
        out[i] = <char> name[i] if 0x20 <= name[i] < 0x7F and name[i] not in b'"\\' else c'?'
    out[length] = 0
    return out


cdef Outcome refuse(AuthService s, Connection* c, const Header* h, const Name* user, bint known,
                    const char* text) noexcept nogil:
    """`known`: the request is proved to be from that user."""
    cdef char name[NAME_SHOWN + 1]
    s.refused += 1
    shown(user.bytes, min(user.length, <uint32_t> UNKNOWN_SHOWN), name)
    log_refusal(s.turn, c, h.code, name, known, text)
    return reply_error(s.turn, c, h, NO_PERMISSION, text)


cdef const char* host_of(const Connection* c, char* out, int32_t capacity) noexcept nogil:
    """The client's address, without its port."""
    cdef int32_t end = address_text(c, out, capacity)
    while end > 0 and out[end] != c':':
        end -= 1
    out[end] = 0
    if out[0] != c'[' or end < 2:
        return out
    out[end - 1] = 0
    return out + 1


cdef Outcome refuse_access(AuthService s, Connection* c, const Header* h, const Name* user,
                           ResourceType type, const Name* name, Verdict verdict) noexcept nogil:
    cdef char text[TEXT_BYTES]
    cdef char asker[NAME_SHOWN + 1]
    cdef char resource[NAME_SHOWN + 1]
    cdef char host[96]
    cdef const char* kind = b"Group"
    cdef const char* reason = b"the decision is deny"
    if type == TYPE_TOPIC:
        kind = b"Topic"
    if verdict == VERDICT_NONE:
        reason = b"no matched policies"
    snprintf(text, TEXT_BYTES, b"User:%s has no permission to access %s:%s from %s, %s.",
             shown(user.bytes, user.length, asker), kind, shown(name.bytes, name.length, resource),
             host_of(c, host, sizeof(host)), reason)
    return refuse(s, c, h, user, True, text)


cdef Outcome refuse_field(AuthService s, Connection* c, const Header* h, const Name* user,
                          const char* name) noexcept nogil:
    cdef char text[TEXT_BYTES]
    snprintf(text, TEXT_BYTES, b"parse authorization context error: %s is missing", name)
    return refuse(s, c, h, user, True, text)


# ------------------------------------------------------------------- resources

cdef inline bint name_of(const Text* text, uint8_t* buffer, Name* out) noexcept nogil:
    """`buffer`, of NAME_BYTES, is for a name with escapes. False: it is too long, or no text."""
    cdef int32_t length
    if not text.escaped and text.length <= NAME_BYTES:
        out.bytes = text.bytes
        out.length = text.length
        return True
    length = text_copy(text, buffer, NAME_BYTES)
    out.bytes = buffer
    out.length = <uint32_t> max(length, 0)
    return length >= 0


cdef Verdict verdict_on(const Connection* c, const User* user, Name* name, ResourceType* type,
                        uint32_t actions) noexcept nogil:
    """A retry topic is judged as its group, and sending to it as consuming by that group: `name`
    and `type` are then the group's."""
    cdef uint8_t source[ADDRESS_BYTES]
    if (name.length >= RETRY_PREFIX_BYTES
            and memcmp(name.bytes, RETRY_PREFIX, RETRY_PREFIX_BYTES) == 0):
        name.bytes += RETRY_PREFIX_BYTES
        name.length -= RETRY_PREFIX_BYTES
        if type[0] == TYPE_TOPIC and actions == ACTION_PUB:
            actions = ACTION_SUB
        type[0] = TYPE_GROUP
    source_of(c, source)
    return user_verdict(user, type[0], name.bytes, name.length, actions, source)


cdef Outcome may_use(AuthService s, Connection* c, const Header* h, const Name* user_name,
                     const User* user, const Text* named, ResourceType type,
                     uint32_t actions) noexcept nogil:
    cdef uint8_t buffer[NAME_BYTES]
    cdef Name name
    cdef Verdict verdict
    if not name_of(named, buffer, &name):
        return refuse(s, c, h, user_name, True,
                      b"parse authorization context error: a name is too long")
    verdict = verdict_on(c, user, &name, &type, actions)
    if verdict == VERDICT_ALLOW:
        return GO_ON
    return refuse_access(s, c, h, user_name, type, &name, verdict)


cdef Outcome may_use_popped(AuthService s, Connection* c, const Header* h, const Name* user_name,
                            const User* user, const Text* topic, const Text* group,
                            uint32_t actions) noexcept nogil:
    """The topic of a message that was popped again is %RETRY%group_topic or %RETRY%group+topic."""
    cdef uint8_t topic_buffer[NAME_BYTES]
    cdef uint8_t group_buffer[NAME_BYTES]
    cdef Name name, of_group
    cdef Text rest
    cdef uint32_t at
    if (not name_of(topic, topic_buffer, &name) or not name_of(group, group_buffer, &of_group)
            or name.length <= RETRY_PREFIX_BYTES
            or memcmp(name.bytes, RETRY_PREFIX, RETRY_PREFIX_BYTES) != 0):
        return may_use(s, c, h, user_name, user, topic, TYPE_TOPIC, actions)
    if (of_group.length >= RETRY_PREFIX_BYTES
            and memcmp(of_group.bytes, RETRY_PREFIX, RETRY_PREFIX_BYTES) == 0):
        of_group.bytes += RETRY_PREFIX_BYTES
        of_group.length -= RETRY_PREFIX_BYTES
    at = RETRY_PREFIX_BYTES + of_group.length
    if (name.length <= at or name.bytes[at] not in b"_+"
            or memcmp(name.bytes + RETRY_PREFIX_BYTES, of_group.bytes, of_group.length) != 0):
        return may_use(s, c, h, user_name, user, topic, TYPE_TOPIC, actions)
    rest = text_of(name.bytes + at + 1, name.length - at - 1)
    return may_use(s, c, h, user_name, user, &rest, TYPE_TOPIC, actions)


cdef Outcome may_ack(AuthService s, Connection* c, const Header* h, const Frame* f,
                     const Name* user_name, const User* user) noexcept nogil:
    """Judges each ack of the batch. Of too large a batch only ACKS_MAX are judged, and then it is
    refused: 16 MiB of acks would keep the turn busy for half a second."""
    cdef ReviveEntry e
    cdef uint32_t at = 0
    cdef int32_t left = ACKS_MAX
    cdef Outcome outcome
    cdef int status = next_batch_ack(f.body, f.body_bytes, &at, &e)
    while status == OK:
        if left == 0:
            return reply_error(s.turn, c, h, SYSTEM_ERROR, b"more acks than one request may bring: "
                               b"send them in several")
        left -= 1
        if e.group.length == 0:
            return refuse_field(s, c, h, user_name, b"c")
        if e.topic.length == 0:
            return refuse_field(s, c, h, user_name, b"t")
        outcome = may_use(s, c, h, user_name, user, &e.group, TYPE_GROUP, ACTION_SUB)
        if outcome == GO_ON:
            outcome = may_use_popped(s, c, h, user_name, user, &e.topic, &e.group, ACTION_SUB)
        if outcome != GO_ON:
            return outcome
        status = next_batch_ack(f.body, f.body_bytes, &at, &e)
    if status != NOT_FOUND:
        return refuse(s, c, h, user_name, True, b"parse authorization context error: acks")
    return GO_ON


cdef inline const Text* filled(const Text* value) noexcept nogil:
    """The value; NULL when it is missing or empty."""
    return value if value != NULL and value.length > 0 else NULL


cdef inline const Text* topic_of(const Header* h, const Row* row,
                                 const char** field) noexcept nogil:
    if row.where == IN_LETTER_B:
        field[0] = b"b"
        return filled(header_letter(h, c'b'))
    field[0] = b"originTopic" if row.where == IN_ORIGIN else b"topic"
    return filled(header_find(h, field[0]))


cdef Outcome may_use_group(AuthService s, Connection* c, const Header* h, const Name* user_name,
                           const User* user, const Row* row, const Text* group) noexcept nogil:
    if group == NULL:
        return refuse_field(s, c, h, user_name, row.group)
    return may_use(s, c, h, user_name, user, group, TYPE_GROUP, row.group_actions)


cdef Outcome authorize(AuthService s, Connection* c, const Header* h, const Frame* f,
                       const Name* user_name, const User* user, const Row* row) noexcept nogil:
    cdef const char* topic_field
    cdef const Text* topic
    cdef const Text* group = NULL
    cdef Outcome outcome
    if row.where == IN_ACKS:
        return may_ack(s, c, h, f, user_name, user)
    topic = topic_of(h, row, &topic_field)
    if row.group != NULL:
        group = filled(header_find(h, row.group))
    if topic == NULL and row.topic_optional:
        return TO_CONTROL               # control finds out what the request is about
    if row.where == OF_POPPED:
        outcome = may_use_group(s, c, h, user_name, user, row, group)
        if outcome != GO_ON:
            return outcome
        if topic == NULL:
            return refuse_field(s, c, h, user_name, topic_field)
        return may_use_popped(s, c, h, user_name, user, topic, group, row.topic_actions)
    if topic == NULL:
        return refuse_field(s, c, h, user_name, topic_field)
    outcome = may_use(s, c, h, user_name, user, topic, TYPE_TOPIC, row.topic_actions)
    if outcome != GO_ON or row.group == NULL:
        return outcome
    return may_use_group(s, c, h, user_name, user, row, group)


# ------------------------------------------------------------------- the whole

cdef bint is_blank(const Name* name) noexcept nogil:
    cdef uint32_t i
    for i in range(name.length):
        if name.bytes[i] != c' ':
            return False
    return True


cdef bint is_from(const Connection* c, const WhiteList* white) noexcept nogil:
    cdef uint8_t source[ADDRESS_BYTES]
    if white.length == 0:
        return False
    source_of(c, source)
    return white_list_covers(white, source)


cdef bint has_proved(AuthService s, Connection* c, Name* name) noexcept nogil:
    """Whether the client's certificate names the user; sets `name`."""
    if not s.by_certificate:
        return False
    name.bytes = transport_proved(c, &name.length)
    return name.bytes != NULL


cdef Outcome refuse_user(AuthService s, Connection* c, const Header* h, const Name* name,
                         const char* what) noexcept nogil:
    cdef char text[TEXT_BYTES]
    cdef char asker[NAME_SHOWN + 1]
    snprintf(text, TEXT_BYTES, b"User:%.*s is %s.", UNKNOWN_SHOWN,
             shown(name.bytes, name.length, asker), what)
    return refuse(s, c, h, name, False, text)


cdef inline const Text* access_key_of(AuthService s, const Header* h) noexcept nogil:
    """NULL: there is none. Looks first where it was in the last header of the same shape."""
    cdef const Text* key
    if h.shape != 0 and h.shape == s.key_shape:
        return &h.ext[s.key_at].value
    key = header_find(h, b"AccessKey")
    if key != NULL and h.shape != 0:
        s.key_shape = h.shape
        s.key_at = <int> ((<const uint8_t*> key - <const uint8_t*> h.ext) // sizeof(ExtField))
    return key


cdef Outcome admit(AuthService s, Connection* c, const Header* h, const Frame* f,
                   bint resubmitted) noexcept nogil:
    cdef uint8_t buffer[NAME_BYTES]
    cdef Name name = Name(NULL, 0)
    cdef const Text* key = access_key_of(s, h)
    cdef int row = row_of(pop_code(h))
    cdef Outcome outcome
    cdef User* user
    cdef bint is_proved = False
    cdef int status = OK
    if row < 0:
        return GO_ON if resubmitted else TO_CONTROL
    if not s.users_known:
        if resubmitted:
            return reply_error(s.turn, c, h, SYSTEM_BUSY, b"accounts change: ask again")
        return TO_CONTROL
    if s.unauthenticated >> row & 1:
        return GO_ON
    if is_from(c, &s.white):
        s.allowed += 1
        return GO_ON
    if key != NULL and not name_of(key, buffer, &name):
        name.length = 0
    elif is_blank(&name):
        is_proved = has_proved(s, c, &name)
    if is_blank(&name):
        name.length = 0
        return refuse(s, c, h, &name, False, b"username cannot be null.")
    user = user_find(&s.users, name.bytes, name.length)
    if user == NULL:
        return refuse_user(s, c, h, &name, b"not found")
    if not user.is_enabled:
        return refuse_user(s, c, h, &name, b"disabled")
    if not is_proved:
        if is_from(c, &user.white):
            s.allowed += 1
            return GO_ON
        if not resubmitted:
            status = signature_check(&s.check, &user.key, h, f.body, f.body_bytes)
        if status == TOO_LARGE:
            return TO_CONTROL
        if status != OK:
            return refuse(s, c, h, &name, False, b"check signature failed.")
    if s.authorizes and not user.is_super and not s.unauthorized >> row & 1:
        outcome = authorize(s, c, h, f, &name, user, &rows[row])
        if outcome == TO_CONTROL and resubmitted:
            s.allowed += 1
            return GO_ON                # control has judged what it is about
        if outcome != GO_ON:
            return outcome
        s.turn.is_bound = True
    s.allowed += 1
    return GO_ON


cdef bint may_end_transaction(AuthService s, const Connection* c, const uint8_t* user_name,
                              uint32_t length, const Text* topic) noexcept nogil:
    cdef Name name = Name(topic.bytes, topic.length)
    cdef ResourceType type = TYPE_TOPIC
    cdef User* user
    if (not s.authenticates or is_from(c, &s.white)
            or s.unauthenticated & row_bit(END_TRANSACTION)):
        return True
    user = user_find(&s.users, user_name, length)
    if user == NULL or not user.is_enabled:
        return False
    if is_from(c, &user.white):
        return True
    if not s.authorizes or user.is_super or s.unauthorized & row_bit(END_TRANSACTION):
        return True
    return verdict_on(c, user, &name, &type, ACTION_PUB) == VERDICT_ALLOW
