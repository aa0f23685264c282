"""Reply reader: reads a broker's answers from a stream of bytes, for clients.

    cdef ReplyReader reader
    reply_reader_open(&reader)
    read_reply(&reader, bytes, available, frame_max_bytes, &reply)      # OK
    reply.header.code; reply.header.opaque; reply.frame.body
    reply_number(&reply, b"nextBeginOffset", &offset)

The client, the load generator and the Arrow reader share it. JSON and binary headers give the same
result. A JSON header like an earlier one is not parsed again (header_shapes.pxd); nearly every
answer of one broker to one kind of request is like that. The fields of a binary header are parsed
when the first of them is asked for. The client's engine, which reads all fields, takes whole
headers (read_reply_header).

Example: {"code":0,"extFields":{"queueId":"3"},"flag":1,"opaque":10000007} -> code 0, opaque
10000007, is_response, queueId 3.

A ReplyReader belongs to one thread. One that is all zero parses every header in full. A reply
points into the caller's bytes and into the reader, and is valid until the next answer is read.
"""
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.base.status cimport Status
from cext.wire.frame cimport Frame
from cext.wire.header cimport Header, parse_header
from cext.wire.header_shapes cimport HeaderShapes


cdef struct ReplyReader:
    HeaderShapes shapes         # owned
    Header parsed               # of the last answer that was parsed


cdef struct ReplyHeader:
    int32_t code
    int32_t opaque
    bint is_response            # False: this is a request of the broker's
    # The header itself, or another with the same keys, whose values are at other addresses. NULL:
    # the header is binary, and no field was asked for yet.
    const Header* like
    ptrdiff_t shift             # add it to the addresses of the values in `like`
    Header* room                # the reader's `parsed`


cdef struct ReplyFrame:
    Frame frame                 # with NOT_READY: `needed` says how many bytes the next call needs
    ReplyHeader header


# OK | POOL_EMPTY: no memory.
cdef int reply_reader_open(ReplyReader* reader) noexcept nogil
# May be called twice, and for a reader that is all zero.
cdef void reply_reader_close(ReplyReader* reader) noexcept nogil

# Reads the first frame in these bytes, once all of it is here. OK | NOT_READY | TOO_LARGE (longer
# than frame_max_bytes) | MALFORMED (also when the header has no opaque, since it then answers no
# request). Of a binary header only the fixed part is read: when its fields are broken, asking for a
# field gives MALFORMED.
cdef int read_reply(ReplyReader* reader, const uint8_t* bytes, uint64_t available,
                    uint32_t frame_max_bytes, ReplyFrame* out) noexcept nogil

# The same as soon as the header is here: some or all of `frame.body` may be missing.
cdef int read_reply_head(ReplyReader* reader, const uint8_t* bytes, uint64_t available,
                         uint32_t frame_max_bytes, ReplyFrame* out) noexcept nogil

# The field `name` as a number: OK | MISSING_FIELD (null too) | MALFORMED.
cdef int reply_number(ReplyFrame* reply, const char* name, int64_t* out) noexcept nogil

# The field `name` as its bytes: OK | MISSING_FIELD (null too) | MALFORMED (it has JSON escapes).
cdef int reply_bytes(ReplyFrame* reply, const char* name, const uint8_t** out,
                     uint32_t* length) noexcept nogil


cdef inline int read_reply_header(const Frame* frame, Header* out) noexcept nogil:
    """Parses the whole header of a frame that has been found, for callers without a reader.
    OK | MALFORMED. Of more than EXT_FIELDS_MAX fields the first ones are kept."""
    cdef int status = parse_header(frame.header, frame.header_bytes, frame.serialize_type, out)
    return Status.OK if status == Status.TOO_LARGE else status
