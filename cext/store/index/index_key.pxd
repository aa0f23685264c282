"""Index key: the keys of a record for the key index, and how they are hashed.

    kind          hashed text             which records
    IN_UNIQUE     topic#<UNIQ_KEY>        with the property UNIQ_KEY
    IN_KEYS       topic#<token>           with KEYS: one for each of its tokens between spaces
    IN_TAGS       topic#T#<TAGS>          with the property TAGS

The hash is Java's String.hashCode over UTF-16, made positive: abs(h), and 0 for the one value whose
abs() is negative. Records of a rolled-back transaction have no keys. A hash only says "perhaps":
before a query is answered, topic and key of the record itself are compared (record_has_key).

Example: topic "t", UNIQ_KEY "AB", KEYS "a b", TAGS "x": hashes of t#AB, t#a, t#b and t#T#x; the
hash of "t#a" is ((116 * 31) + 35) * 31 + 97 = 112658.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from cext.store.log.record cimport RecordView

cpdef enum KeyKind:                 # the kind of key in a query
    ANY_KEY = 0                     # UNIQ_KEY or a token of KEYS; Apache's index finds both, too
    TAG_KEY = 1                     # TAGS

# The properties with keys. Pointers are borrowed from the record; NULL: there is none.
cdef struct KeyTexts:
    const uint8_t* unique
    const uint8_t* keys
    const uint8_t* tags
    uint32_t unique_bytes
    uint32_t keys_bytes
    uint32_t tags_bytes

# A walk over the space-separated tokens of KEYS.
cdef struct KeyTokens:
    const uint8_t* at
    const uint8_t* end

# Any thread. Finds these properties. False: the record has none, or its transaction was rolled
# back.
cdef bint find_key_texts(const RecordView* record, KeyTexts* out) noexcept nogil
# Any thread. The next token, or NULL after the last.
cdef const uint8_t* next_token(KeyTokens* tokens, uint32_t* length) noexcept nogil
# Any thread. Continues a hash: String.hashCode of a + b is hash_on(hash_on(0, a), b).
cdef uint32_t hash_on(uint32_t hash, const uint8_t* utf8, uint32_t length) noexcept nogil
# Any thread. Whether the record has this topic and really has `key`, of this kind.
cdef bint record_has_key(const RecordView* record, int32_t kind, const uint8_t* topic,
                         uint32_t topic_bytes, const uint8_t* key,
                         uint32_t key_bytes) noexcept nogil

cdef inline int32_t positive_hash(uint32_t hash) noexcept nogil:
    cdef int32_t value = <int32_t> hash
    if value == -0x7FFFFFFF - 1:
        return 0
    return -value if value < 0 else value
