"""Wire probe: drives the wire layer from the inside, to fuzz it and to time it.

Fuzzing: seed frames are mutated by a seeded generator and handed to every reader. What is read lies
directly before a page that may not be touched, and so does what is written: one byte too far ends
the process even in a release build. Every borrowed text must lie inside the header it came from. A
header that is read by the shape of an earlier one must be what the parser makes of it, and a
signature must be judged as by a check that remembers no earlier request.

Timing: nanoseconds per call of each step over one frame, in a plain loop.

Example: fuzz([frame], 1, 100000, b"secret", []) -> {"parsed": 48210, "malformed": 51790, ...,
"violations": 0}.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memmove, memset
from posix.time cimport clock_gettime, clockid_t, timespec

from cext.base.byteorder cimport load_u32, store_u32
from cext.base.status cimport Status, raise_status
from cext.memory.arena cimport SharedArena
from cext.testing.guarded_bytes cimport (
    ROOM, Guarded, guarded_close, guarded_copy, guarded_open,
)
from cext.wire.batch cimport BatchMessage, batch_next
from cext.wire.codes cimport SEND_MESSAGE, SEND_MESSAGE_V2
from cext.wire.frame cimport FRAME_PREFIX_BYTES, Frame, find_frame
from cext.wire.header cimport EXT_FIELDS_MAX, Header, header_find, parse_header
from cext.wire.header_shapes cimport (
    HeaderShapes,
    header_shapes_open,
    header_shapes_arena_bytes,
    parse_header_like,
)
from cext.wire.limits cimport FRAME_BYTES_MAX, PROPERTIES_BYTES_MAX
from cext.wire.properties cimport SendProperties, find_property, scan_properties, tags_code
from cext.wire.pull_request cimport PullRequest, read_pull_request
from cext.wire.replies cimport SEND_REPLY_FIXED_BYTES, SendReply, write_send_reply
from cext.wire.send_request cimport SendRequest, read_send_request
from cext.wire.signature cimport (
    SignatureCheck,
    SigningKey,
    signature_check,
    signature_check_close,
    signature_check_open,
    signing_key_set,
)
from cext.wire.subscription cimport parse_tag_subscription
from cext.wire.text cimport Text, text_copy, text_of

cdef enum:
    KEPT_EACH = 8               # of changed requests with a right signature, one in so many is kept


cdef struct Fuzzer:
    Guarded frame               # three buffers: one is read while another is written
    Guarded header
    Guarded output
    uint64_t random             # xorshift state, never 0
    uint32_t length             # of the frame being mutated
    bint is_whole               # find_frame has accepted it
    bint is_signed              # its signature is right, too
    uint8_t work[ROOM]
    HeaderShapes shapes         # for all frames, as a reactor has them
    SigningKey key
    SignatureCheck remembering  # the same
    SignatureCheck forgetting   # made to begin anew with each frame
    int64_t parsed              # headers by what parse_header says
    int64_t malformed
    int64_t too_large
    int64_t sends               # send requests read to the end
    int64_t pulls
    int64_t batches
    int64_t signed              # signatures that are right
    int64_t unsigned            # and those that are not, or are missing
    int64_t violations


# ---- mutation ----

cdef inline uint32_t draw(Fuzzer* fuzzer, uint32_t below) noexcept nogil:
    fuzzer.random ^= fuzzer.random << 13
    fuzzer.random ^= fuzzer.random >> 7
    fuzzer.random ^= fuzzer.random << 17
    return <uint32_t>((fuzzer.random >> 20) % below)


cdef void mutate_once(Fuzzer* fuzzer) noexcept nogil:
    """Flips a bit, writes an interesting byte, or cuts out, doubles or cuts off a piece."""
    cdef const char* telling = b'"\\{}[],:u\x00\x01\x02\x7f\x80\xff\xd8-09 n|'
    cdef uint32_t kind = draw(fuzzer, 8)
    cdef uint32_t at
    cdef uint32_t piece
    if fuzzer.length == 0:
        return
    at = draw(fuzzer, fuzzer.length)
    piece = min(draw(fuzzer, 40) + 1, fuzzer.length - at)
    if kind < 2:
        fuzzer.work[at] ^= <uint8_t>(1 << draw(fuzzer, 8))
    elif kind < 5:
        fuzzer.work[at] = <uint8_t>telling[draw(fuzzer, 23)]
    elif kind == 5:
        memmove(fuzzer.work + at, fuzzer.work + at + piece, fuzzer.length - at - piece)
        fuzzer.length -= piece
    elif kind == 6 and fuzzer.length + piece <= ROOM:
        memmove(fuzzer.work + at + piece, fuzzer.work + at, fuzzer.length - at)
        fuzzer.length += piece
    elif kind == 7 and draw(fuzzer, 4) == 0:
        fuzzer.length = at


cdef void mutate(Fuzzer* fuzzer, const uint8_t* seed, uint32_t length) noexcept nogil:
    """A mutated copy of the seed; in three cases of four its frame lengths are corrected."""
    cdef uint32_t before = length
    cdef uint32_t header_bytes
    cdef uint32_t changes = draw(fuzzer, 5)
    cdef uint32_t _change
    memcpy(fuzzer.work, seed, length)
    fuzzer.length = length
    for _change in range(changes):
        mutate_once(fuzzer)
    if fuzzer.length < FRAME_PREFIX_BYTES or draw(fuzzer, 4) == 0:
        return
    header_bytes = (load_u32(seed + 4) & 0xFFFFFF) + fuzzer.length - before   # the header's change
    if header_bytes > fuzzer.length - FRAME_PREFIX_BYTES:
        header_bytes = fuzzer.length - FRAME_PREFIX_BYTES
    store_u32(fuzzer.work, fuzzer.length - 4)
    store_u32(fuzzer.work + 4, (<uint32_t>seed[4] << 24) | header_bytes)


# ---- all readers ----

cdef void check_text(Fuzzer* fuzzer, const Text* text, const uint8_t* start,
                     const uint8_t* end) noexcept nogil:
    """A text must be absent or inside [start, end), and its copy must take exactly its bytes."""
    cdef uint8_t* out
    if text.bytes == NULL:
        return
    if text.bytes < start or text.bytes > end or text.length > <uint64_t>(end - text.bytes):
        fuzzer.violations += 1
        return
    out = fuzzer.output.end - text.length
    if text_copy(text, out, text.length) > <int32_t>text.length:
        fuzzer.violations += 1


cdef void check_properties(Fuzzer* fuzzer, const Text* properties) noexcept nogil:
    cdef uint8_t plain[ROOM]
    cdef SendProperties found
    cdef Text value
    cdef int32_t length = text_copy(properties, plain, ROOM)
    cdef uint8_t* placed
    if length < 0:
        return
    placed = guarded_copy(&fuzzer.output, plain, <uint32_t>length)
    find_property(placed, <uint32_t>length, b"KEYS", &value)
    if scan_properties(placed, <uint32_t>length, &found) == Status.OK and found.tags.bytes != NULL:
        if found.tags.bytes + found.tags.length > fuzzer.output.end:
            fuzzer.violations += 1
        tags_code(found.tags.bytes, found.tags.length)


cdef void check_requests(Fuzzer* fuzzer, Header* header) noexcept nogil:
    cdef SendRequest send
    cdef PullRequest pull
    cdef int32_t codes[16]
    cdef bint all_tags = False
    cdef int32_t code
    cdef int i
    for i in range(2):
        code = SEND_MESSAGE_V2 if i == 0 else SEND_MESSAGE
        header.code = code
        if read_send_request(header, &send) == Status.OK:
            fuzzer.sends += 1
            check_properties(fuzzer, &send.properties)
        elif send.bad_field == NULL:
            fuzzer.violations += 1
    if read_pull_request(header, &pull) == Status.OK:
        fuzzer.pulls += 1
        parse_tag_subscription(&pull.subscription, codes, 16, &all_tags)
    elif pull.bad_field == NULL:
        fuzzer.violations += 1


cdef void check_body(Fuzzer* fuzzer, const uint8_t* body, uint32_t length) noexcept nogil:
    cdef BatchMessage message
    cdef const uint8_t* placed = guarded_copy(&fuzzer.output, body, length)
    memset(&message, 0, sizeof(message))
    while (placed < fuzzer.output.end
            and batch_next(&placed, fuzzer.output.end, &message) == Status.OK):
        if message.properties + message.properties_bytes > fuzzer.output.end:
            fuzzer.violations += 1
    if length > 0 and placed == fuzzer.output.end:
        fuzzer.batches += 1


cdef bint is_same_text(const Text* a, const Text* b) noexcept nogil:
    return a.bytes == b.bytes and a.length == b.length and a.escaped == b.escaped


cdef bint is_same_header(const Header* a, const Header* b) noexcept nogil:
    """Compares all but `shape` and the places of the names."""
    cdef int i
    if (a.code != b.code or a.flag != b.flag or a.opaque != b.opaque or a.version != b.version
            or a.language != b.language or a.serialize_type != b.serialize_type
            or a.too_many != b.too_many or a.ext_count != b.ext_count
            or memcmp(a.letters, b.letters, sizeof(a.letters)) != 0
            or not is_same_text(&a.remark, &b.remark)
            or not is_same_text(&a.opaque_text, &b.opaque_text)):
        return False
    for i in range(a.ext_count):
        if (not is_same_text(&a.ext[i].value, &b.ext[i].value)
                or a.ext[i].key.length != b.ext[i].key.length
                or a.ext[i].key.escaped != b.ext[i].key.escaped
                or memcmp(a.ext[i].key.bytes, b.ext[i].key.bytes, a.ext[i].key.length) != 0):
            return False
    return True


cdef void forget(SignatureCheck* check) noexcept nogil:
    """Sets it back to what signature_check_open makes."""
    check.order_count = 0
    check.shape = 0
    check.signature_at = -1


cdef void check_signature(Fuzzer* fuzzer, const Header* parsed, int status, const uint8_t* bytes,
                          uint32_t header_bytes, const Frame* frame) noexcept nogil:
    """`parsed`, `status`: what parse_header made of the header."""
    cdef Header header
    cdef const uint8_t* body = guarded_copy(&fuzzer.output, frame.body, frame.body_bytes)
    cdef int found
    if parse_header_like(&fuzzer.shapes, bytes, header_bytes, frame.serialize_type,
                         &header) != status:
        fuzzer.violations += 1
        return
    if status == Status.MALFORMED:
        return
    if not is_same_header(&header, parsed):
        fuzzer.violations += 1
    forget(&fuzzer.forgetting)
    found = signature_check(&fuzzer.remembering, &fuzzer.key, &header, body, frame.body_bytes)
    if found != signature_check(&fuzzer.forgetting, &fuzzer.key, parsed, body, frame.body_bytes):
        fuzzer.violations += 1
    if found == Status.OK:
        fuzzer.signed += 1
        fuzzer.is_signed = True
    elif found == Status.MALFORMED:
        fuzzer.unsigned += 1
    elif found != Status.TOO_LARGE:
        fuzzer.violations += 1


cdef void exercise(Fuzzer* fuzzer) noexcept nogil:
    cdef Frame frame
    cdef Header header
    cdef const uint8_t* bytes = guarded_copy(&fuzzer.frame, fuzzer.work, fuzzer.length)
    cdef uint32_t header_bytes = fuzzer.length
    cdef uint8_t serialize_type = <uint8_t>draw(fuzzer, 2)
    cdef int status = find_frame(bytes, fuzzer.length, FRAME_BYTES_MAX, &frame)
    cdef int i
    fuzzer.is_whole = status == Status.OK
    fuzzer.is_signed = False
    if fuzzer.is_whole:
        check_body(fuzzer, frame.body, frame.body_bytes)
        bytes = frame.header
        header_bytes = frame.header_bytes
        serialize_type = frame.serialize_type
    bytes = guarded_copy(&fuzzer.header, bytes, header_bytes)     # read whether it is whole or not
    status = parse_header(bytes, header_bytes, serialize_type, &header)
    if status == Status.OK:
        fuzzer.parsed += 1
    elif status == Status.MALFORMED:
        fuzzer.malformed += 1
    elif status == Status.TOO_LARGE:
        fuzzer.too_large += 1
    else:
        fuzzer.violations += 1
    if fuzzer.is_whole:
        check_signature(fuzzer, &header, status, bytes, header_bytes, &frame)
    if status != Status.OK:
        return
    if not 0 <= header.ext_count <= EXT_FIELDS_MAX:
        fuzzer.violations += 1
        return
    check_text(fuzzer, &header.remark, bytes, fuzzer.header.end)
    for i in range(header.ext_count):
        check_text(fuzzer, &header.ext[i].key, bytes, fuzzer.header.end)
        check_text(fuzzer, &header.ext[i].value, bytes, fuzzer.header.end)
    header_find(&header, b"topic")
    check_requests(fuzzer, &header)


@cython.no_gc_clear                 # __dealloc__ needs all its fields
cdef class Fuzzing:
    """The memory of a fuzzer, for as long as it runs."""

    cdef Fuzzer* fuzzer
    cdef bytearray state
    cdef SharedArena memory

    def __cinit__(self, uint64_t seed, bytes password not None):
        self.state = bytearray(sizeof(Fuzzer))
        self.fuzzer = <Fuzzer*><char*>self.state
        self.fuzzer.random = seed
        guarded_open(&self.fuzzer.frame)
        guarded_open(&self.fuzzer.header)
        guarded_open(&self.fuzzer.output)
        self.memory = SharedArena(header_shapes_arena_bytes())
        raise_status(header_shapes_open(&self.fuzzer.shapes, &self.memory.arena), "shapes")
        raise_status(signature_check_open(&self.fuzzer.remembering), "remembering")
        raise_status(signature_check_open(&self.fuzzer.forgetting), "forgetting")
        signing_key_set(&self.fuzzer.key, password, <uint32_t> len(password))

    def __dealloc__(self):
        signature_check_close(&self.fuzzer.remembering)
        signature_check_close(&self.fuzzer.forgetting)
        guarded_close(&self.fuzzer.frame)
        guarded_close(&self.fuzzer.header)
        guarded_close(&self.fuzzer.output)


def fuzz(list seeds not None, uint64_t seed, int64_t rounds, bytes password not None,
         list kept not None) -> dict[str, int]:
    """Runs `rounds` mutated frames; returns how they ended, and `violations`, which must be 0.

    `password`: that of the user whose signatures count as right. `kept` gets some of the frames
    that were changed and still have a right signature, to be judged by the twin in Python."""
    cdef Fuzzing fuzzing
    cdef Fuzzer* fuzzer
    cdef bytes frame
    cdef const uint8_t* frame_bytes
    cdef uint32_t frame_length
    cdef int64_t i
    if not seeds or seed == 0:
        raise ValueError("fuzz needs frames and a seed that is not 0")
    fuzzing = Fuzzing(seed, password)
    fuzzer = fuzzing.fuzzer
    for i in range(rounds):
        frame = seeds[i % len(seeds)]
        frame_bytes = frame
        frame_length = <uint32_t>len(frame)
        if not FRAME_PREFIX_BYTES <= frame_length <= ROOM // 2:
            raise ValueError("a seed frame has 8 bytes to 32 KiB")
        with nogil:
            mutate(fuzzer, frame_bytes, frame_length)
            exercise(fuzzer)
        if fuzzer.is_signed and fuzzer.signed % KEPT_EACH == 0:
            changed = fuzzer.work[:fuzzer.length]
            if changed != frame:
                kept.append(changed)
    return {
        "parsed": fuzzer.parsed,
        "malformed": fuzzer.malformed,
        "too_large": fuzzer.too_large,
        "sends": fuzzer.sends,
        "pulls": fuzzer.pulls,
        "batches": fuzzer.batches,
        "signed": fuzzer.signed,
        "unsigned": fuzzer.unsigned,
        "by_shape": <int64_t> fuzzer.shapes.hits,
        "violations": fuzzer.violations,
    }


# ---- timing ----

cdef extern from "<time.h>" nogil:
    clockid_t CLOCK_THREAD_CPUTIME_ID


cdef double now_ns() noexcept nogil:
    """Processor time of this thread, which other work on the machine disturbs least."""
    cdef timespec spec
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spec)
    return <double>spec.tv_sec * 1e9 + <double>spec.tv_nsec


def send_timings(bytes data not None, int rounds) -> dict[str, float]:
    """Nanoseconds of each step of a V2 send: header, fields, properties copied, scanned; reply."""
    cdef Frame frame
    cdef Header header
    cdef SendRequest send
    cdef SendProperties found
    cdef SendReply reply
    cdef uint8_t plain[PROPERTIES_BYTES_MAX]
    cdef uint8_t out[SEND_REPLY_FIXED_BYTES * 4]
    cdef int32_t length = 0
    cdef double marks[6]
    cdef int i
    cdef int _round
    cdef int bad = 0
    if find_frame(<const uint8_t*>data, len(data), FRAME_BYTES_MAX, &frame) != Status.OK:
        raise ValueError("not a frame")
    memset(&reply, 0, sizeof(reply))
    memset(&found, 0, sizeof(found))
    reply.message_ids = text_of(b"7F00000100002A9F0000000000000100", 32)
    reply.region = text_of(b"DefaultRegion", 13)
    reply.serialize_type = frame.serialize_type
    marks[0] = now_ns()
    for _round in range(rounds):
        bad |= parse_header(frame.header, frame.header_bytes, frame.serialize_type, &header)
    marks[1] = now_ns()
    for _round in range(rounds):
        bad |= read_send_request(&header, &send)
    marks[2] = now_ns()
    for _round in range(rounds):
        length = text_copy(&send.properties, plain, PROPERTIES_BYTES_MAX)
    marks[3] = now_ns()
    for _round in range(rounds):
        bad |= scan_properties(plain, <uint32_t>length, &found)
    marks[4] = now_ns()
    reply.transaction_id = found.uniq_key
    for i in range(rounds):
        reply.opaque = i
        reply.queue_offset = i * <int64_t>1000
        write_send_reply(out, &reply)
    marks[5] = now_ns()
    if bad != 0 or length < 0:
        raise ValueError("not a send frame")
    return {
        "parse_header": (marks[1] - marks[0]) / rounds,
        "read_send_request": (marks[2] - marks[1]) / rounds,
        "copy_properties": (marks[3] - marks[2]) / rounds,
        "scan_properties": (marks[4] - marks[3]) / rounds,
        "write_send_reply": (marks[5] - marks[4]) / rounds,
    }
