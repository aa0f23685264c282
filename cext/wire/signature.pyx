"""Signatures of requests, checked. See signature.pxd."""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memset

from cext.base.byteorder cimport store_u32, store_u64
from cext.base.status cimport Status
from cext.wire.header cimport EXT_FIELDS_MAX, ExtField, Header, header_find
from cext.wire.text cimport Text, text_copy

cdef extern from "<openssl/sha.h>" nogil:
    int SHA1_Init(SHA_CTX* state)
    int SHA1_Update(SHA_CTX* state, const void* data, size_t size)
    int SHA1_Final(uint8_t* digest, SHA_CTX* state)
    void SHA1_Transform(SHA_CTX* state, const uint8_t* block)

cdef enum:
    BLOCK_BYTES = 64
    DIGEST_BYTES = 20
    SIGNATURE_BYTES = 28            # of a digest in Base64
    LAID_BYTES_MAX = 4096           # longer bodies are not copied

cdef struct Signed:                 # what is signed of a request
    const ExtField* fields[EXT_FIELDS_MAX]  # sorted by name, each name once
    int count
    const ExtField* signature       # one of them; NULL: there is none

cdef const char* BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

# What follows the digest in HMAC's second hash: a one bit, zeros, the number of bits 8 * (64 + 20).
cdef const char* OUTER_END = (
    b"\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
    b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02\xA0")

# Fields that some clients send and do not sign.
cdef const char* SECURITY_TOKEN = b"SecurityToken"
cdef const char* UNIQUE_KEY_QUERY = b"_UNIQUE_KEY_QUERY"


# ---- keys

cdef void begin(SHA_CTX* state, const uint8_t* block, uint8_t pad) noexcept nogil:
    """The state of a hash after the key's block."""
    cdef uint8_t mixed[BLOCK_BYTES]
    cdef int i
    for i in range(BLOCK_BYTES):
        mixed[i] = block[i] ^ pad
    SHA1_Init(state)
    SHA1_Update(state, mixed, BLOCK_BYTES)


cdef void signing_key_set(SigningKey* key, const uint8_t* password, uint32_t length) noexcept nogil:
    cdef uint8_t block[BLOCK_BYTES]
    cdef SHA_CTX state
    memset(block, 0, BLOCK_BYTES)
    if length <= BLOCK_BYTES:
        memcpy(block, password, length)
    else:                               # HMAC uses the digest of a longer password
        SHA1_Init(&state)
        SHA1_Update(&state, password, length)
        SHA1_Final(block, &state)
    begin(&key.inner, block, 0x36)
    begin(&key.outer, block, 0x5C)


cdef int signature_check_open(SignatureCheck* check) noexcept nogil:
    check.values = <uint8_t*> malloc(VALUES_MAX)
    check.order_count = 0
    check.shape = 0
    check.signature_at = -1
    return Status.OK if check.values != NULL else Status.POOL_EMPTY


cdef void signature_check_close(SignatureCheck* check) noexcept nogil:
    free(check.values)
    check.values = NULL


# ---- requests

cdef inline uint64_t load_word(const uint8_t* at) noexcept nogil:
    cdef uint64_t word
    memcpy(&word, at, 8)
    return word


cdef inline bint is_named(const Text* key, const char* name, uint32_t length) noexcept nogil:
    return (key.length == length and key.bytes[0] == <uint8_t> name[0]
            and memcmp(key.bytes, name, length) == 0)


cdef inline int compare_names(const Text* a, const Text* b) noexcept nogil:
    cdef int found
    if a.length > 0 and b.length > 0 and a.bytes[0] != b.bytes[0]:
        return <int> a.bytes[0] - <int> b.bytes[0]     # decides for nearly all names
    found = memcmp(a.bytes, b.bytes, min(a.length, b.length))
    if found != 0:
        return found
    return (a.length > b.length) - (a.length < b.length)


cdef bint is_ordered(const SignatureCheck* check, const Header* header,
                     Signed* signed) noexcept nogil:
    """Whether this request's fields are in the same order as the last one's. `signed` has them
    then."""
    cdef const ExtField* field
    cdef int i
    if header.ext_count != check.order_count:
        return False
    for i in range(check.order_count):
        field = &header.ext[check.order[i]]
        if field.key.escaped:
            return False
        if i > 0 and compare_names(&signed.fields[i - 1].key, &field.key) >= 0:
            return False
        signed.fields[i] = field
    signed.count = check.order_count
    return True


cdef void keep_order(SignatureCheck* check, const Header* header,
                     const Signed* signed) noexcept nogil:
    cdef int i
    check.order_count = 0
    if signed.count != header.ext_count:
        return                          # a name came twice
    for i in range(signed.count):
        check.order[i] = <uint8_t> (signed.fields[i] - header.ext)
    check.order_count = signed.count


cdef int sort_fields(const Header* header, Signed* signed) noexcept nogil:
    """OK | TOO_LARGE: a name has backslashes. Of equal names the last counts. An insertion sort,
    because clients send the names nearly in order."""
    cdef const ExtField* field
    cdef int i, at
    cdef int order = 0
    signed.count = 0
    for i in range(header.ext_count):
        field = &header.ext[i]
        if field.key.escaped:
            return Status.TOO_LARGE
        at = signed.count
        while at > 0:
            order = compare_names(&signed.fields[at - 1].key, &field.key)
            if order <= 0:
                break
            at -= 1
        if at > 0 and order == 0:
            signed.fields[at - 1] = field
            continue
        if at < signed.count:
            move_up(signed.fields, at, signed.count)
        signed.fields[at] = field
        signed.count += 1
    return Status.OK


cdef int read_fields(SignatureCheck* check, const Header* header, Signed* signed) noexcept nogil:
    """OK | TOO_LARGE, as sort_fields()."""
    cdef int status, i
    if header.shape != 0 and header.shape == check.shape:
        take_fields(check, header, signed)
        return Status.OK
    check.shape = 0
    if not is_ordered(check, header, signed):
        status = sort_fields(header, signed)
        if status != Status.OK:
            return status
        keep_order(check, header, signed)
    signed.signature = NULL
    check.signature_at = -1
    for i in range(signed.count):
        if is_named(&signed.fields[i].key, b"Signature", 9):
            signed.signature = signed.fields[i]
            check.signature_at = i
            break
    if check.order_count == signed.count:
        check.shape = header.shape
    return Status.OK


cdef inline void take_fields(const SignatureCheck* check, const Header* header,
                             Signed* signed) noexcept nogil:
    """Takes the fields of a header that has the same shape as the last one."""
    cdef int i
    for i in range(check.order_count):
        signed.fields[i] = &header.ext[check.order[i]]
    signed.count = check.order_count
    signed.signature = NULL
    if check.signature_at >= 0:
        signed.signature = signed.fields[check.signature_at]


cdef inline void move_up(const ExtField** fields, int at, int count) noexcept nogil:
    cdef int i
    for i in range(count, at, -1):
        fields[i] = fields[i - 1]


cdef inline void copy_short(uint8_t* to, const uint8_t* given, uint32_t length) noexcept nogil:
    """Copies a value. Most are a few bytes long, for which a call of memcpy would cost more than
    the copying. The two pieces of eight or four bytes may overlap."""
    cdef uint32_t i
    if length > 16:
        memcpy(to, given, length)
    elif length >= 8:
        memcpy(to, given, 8)
        memcpy(to + length - 8, given + length - 8, 8)
    elif length >= 4:
        memcpy(to, given, 4)
        memcpy(to + length - 4, given + length - 4, 4)
    else:
        for i in range(length):
            to[i] = given[i]


cdef int gather(SignatureCheck* check, const Signed* signed, const char* left_out,
                uint32_t left_out_bytes) noexcept nogil:
    """Copies the values into check.values, one after the other: one piece is hashed faster than
    many. The number of bytes | TOO_LARGE | MALFORMED."""
    cdef const ExtField* field
    cdef uint8_t* at = check.values
    cdef uint8_t* end = at + VALUES_MAX
    cdef int32_t length
    cdef int i
    for i in range(signed.count):
        field = signed.fields[i]
        if field == signed.signature or field.value.bytes == NULL:
            continue
        if left_out != NULL and is_named(&field.key, left_out, left_out_bytes):
            continue
        if field.value.length > end - at:
            return Status.TOO_LARGE
        if not field.value.escaped:
            copy_short(at, field.value.bytes, field.value.length)
            at += field.value.length
            continue
        length = text_copy(&field.value, at, <uint32_t> (end - at))
        if length < 0:
            return length
        at += length
    return <int> (at - check.values)


cdef inline void write_proof(const uint8_t* digest, uint8_t* text) noexcept nogil:
    """Writes the digest's DIGEST_BYTES as SIGNATURE_BYTES of Base64. OpenSSL's function, which is
    for pieces of any length, takes as long as hashing them."""
    cdef uint32_t word
    cdef int i
    for i in range(7):
        word = <uint32_t> digest[3 * i] << 16 | <uint32_t> digest[3 * i + 1] << 8
        if i < 6:
            word |= digest[3 * i + 2]
        text[4 * i] = BASE64[word >> 18]
        text[4 * i + 1] = BASE64[word >> 12 & 63]
        text[4 * i + 2] = BASE64[word >> 6 & 63]
        text[4 * i + 3] = BASE64[word & 63]
    text[SIGNATURE_BYTES - 1] = c'='


cdef inline bint is_same(const uint8_t* a, const uint8_t* b) noexcept nogil:
    """Compares two signatures. It takes as long when they differ in the first byte as when they
    are equal."""
    cdef uint64_t differs = load_word(a) ^ load_word(b)
    cdef int at
    for at in range(8, SIGNATURE_BYTES - 8, 8):
        differs |= load_word(a + at) ^ load_word(b + at)
    at = SIGNATURE_BYTES - 8            # the last word overlaps the one before
    return (differs | load_word(a + at) ^ load_word(b + at)) == 0


cdef inline void hash_outer(const SigningKey* key, uint8_t* digest) noexcept nogil:
    """HMAC's second hash, over the digest of the first, which it then replaces. It is one block
    whose end is always the same, so OpenSSL need not build that end each time."""
    cdef SHA_CTX state = key.outer
    cdef uint8_t block[BLOCK_BYTES]
    memcpy(block, digest, DIGEST_BYTES)
    memcpy(block + DIGEST_BYTES, OUTER_END, BLOCK_BYTES - DIGEST_BYTES)
    SHA1_Transform(&state, block)
    store_digest(&state, digest)


cdef inline void hash_inner(const SigningKey* key, uint8_t* values, uint32_t bytes,
                            const uint8_t* body, uint32_t body_bytes,
                            uint8_t* digest) noexcept nogil:
    """HMAC's first hash, over the values and the body. A short body is copied after the values,
    together with the end that every hash has, and all of it is hashed by one call: three calls, for
    which OpenSSL keeps pieces of blocks, cost as much as two blocks more. `values` has room for
    VALUES_MAX."""
    cdef SHA_CTX state = key.inner
    cdef uint32_t all_bytes = bytes + body_bytes
    cdef uint32_t end = (all_bytes + 1 + 8 + BLOCK_BYTES - 1) // BLOCK_BYTES * BLOCK_BYTES
    if body_bytes > LAID_BYTES_MAX or end > VALUES_MAX:
        SHA1_Update(&state, values, bytes)
        SHA1_Update(&state, body, body_bytes)
        SHA1_Final(digest, &state)
        return
    memcpy(values + bytes, body, body_bytes)
    memset(values + all_bytes, 0, end - all_bytes)
    values[all_bytes] = 0x80
    store_u64(values + end - 8, 8 * (<uint64_t> BLOCK_BYTES + all_bytes))
    SHA1_Update(&state, values, end)
    store_digest(&state, digest)


cdef inline void store_digest(const SHA_CTX* state, uint8_t* digest) noexcept nogil:
    store_u32(digest, state.h0)
    store_u32(digest + 4, state.h1)
    store_u32(digest + 8, state.h2)
    store_u32(digest + 12, state.h3)
    store_u32(digest + 16, state.h4)


cdef int compare(SignatureCheck* check, const SigningKey* key, const Signed* signed,
                 const uint8_t* body, uint32_t body_bytes, const char* left_out,
                 uint32_t left_out_bytes, const uint8_t* given) noexcept nogil:
    cdef uint8_t digest[DIGEST_BYTES]
    cdef uint8_t text[SIGNATURE_BYTES]
    cdef int bytes = gather(check, signed, left_out, left_out_bytes)
    if bytes < 0:
        return bytes
    hash_inner(key, check.values, <uint32_t> bytes, body, body_bytes, digest)
    hash_outer(key, digest)
    write_proof(digest, text)
    return Status.OK if is_same(text, given) else Status.MALFORMED


cdef const uint8_t* given_proof(const Signed* signed, uint8_t* buffer) noexcept nogil:
    """The request's signature, SIGNATURE_BYTES of text. `buffer`, six times as large, is for one
    with escapes. NULL: there is no signature of that length."""
    cdef const Text* text
    if signed.signature == NULL or signed.signature.value.bytes == NULL:
        return NULL
    text = &signed.signature.value
    if not text.escaped:
        return text.bytes if text.length == SIGNATURE_BYTES else NULL
    if (text.length > 6 * SIGNATURE_BYTES
            or text_copy(text, buffer, 6 * SIGNATURE_BYTES) != SIGNATURE_BYTES):
        return NULL
    return buffer


cdef int signature_check(SignatureCheck* check, const SigningKey* key, const Header* header,
                         const uint8_t* body, uint32_t body_bytes) noexcept nogil:
    cdef Signed signed
    cdef uint8_t buffer[6 * SIGNATURE_BYTES]
    cdef const uint8_t* given
    cdef int status
    if header.too_many:
        return Status.TOO_LARGE
    status = read_fields(check, header, &signed)
    if status != Status.OK:
        return status
    given = given_proof(&signed, buffer)
    if given == NULL:
        return Status.MALFORMED
    status = compare(check, key, &signed, body, body_bytes, NULL, 0, given)
    if status == Status.MALFORMED and header_find(header, SECURITY_TOKEN) != NULL:
        status = compare(check, key, &signed, body, body_bytes, SECURITY_TOKEN, 13, given)
    if status == Status.MALFORMED and header_find(header, UNIQUE_KEY_QUERY) != NULL:
        status = compare(check, key, &signed, body, body_bytes, UNIQUE_KEY_QUERY, 17, given)
    return status
