"""Header: a remoting command's header, scanned in place. JSON and binary give the same struct.

    JSON      {"code":310,"extFields":{"a":"PG","b":"T"},"flag":0,"language":"JAVA","opaque":7}
    binary    i16 code, u8 language, i16 version, i32 opaque, i32 flag, i32 n + remark,
              i32 n + repeated (i16 n + key, i32 n + value)

JSON members may come in any order, be missing (then 0 or absent) or unknown (nested up to 64
levels). Numbers may be written as strings; null means absent; of two equal members the later
counts. Every pointer borrows from the frame. No allocation, any thread.

A binary code is 16 bits wide, so the POP family arrives truncated (200050 as 3442). The code is
returned as it is on the wire; no code that is served on the hot path is the truncation of another.

Worked example: the JSON above -> code 310, opaque 7, ext_count 2, letters[0] = 1, letters[1] = 2.
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from cext.wire.text cimport Text

cdef enum:
    EXT_FIELDS_MAX = 64


cdef struct ExtField:
    Text key
    Text value              # strings without quotes; numbers, true, {...} as sent; null is absent


cdef struct Header:
    int32_t code
    int32_t flag            # bit 0 response, bit 1 one-way
    int32_t opaque          # the peer's request id, any value
    int32_t version         # MQVersion ordinal of the peer
    int32_t language        # LanguageCode number
    uint8_t serialize_type  # SERIALIZE_JSON or SERIALIZE_BINARY of frame.pxd
    uint8_t letters[26]     # for keys a..z: 1 + index in ext of the last such field; 0: none
    Text remark             # absent, or as sent
    Text opaque_text        # JSON: the opaque as sent; absent when the header has none
    uint64_t shape          # the names of its fields and their places: header_shapes.pxd; 0: none
    bint too_many           # there were more than EXT_FIELDS_MAX fields; the rest is not kept
    int ext_count
    ExtField ext[EXT_FIELDS_MAX]   # only the first ext_count are set


# OK | MALFORMED | TOO_LARGE: more than EXT_FIELDS_MAX fields. Everything else of the header is then
# set, so that the request can be answered: control serves its own codes; requests that it hands
# back to the reactor, like sends and pulls, are refused with SYSTEM_ERROR (request_router.pyx).
cdef int parse_header(const uint8_t* bytes, uint32_t length, uint8_t serialize_type,
                      Header* out) noexcept nogil


cdef inline const Text* header_letter(const Header* header, int letter) noexcept nogil:
    """The value of the one-letter key ('a'..'z'), or NULL when it is not there or null."""
    cdef uint8_t index = header.letters[letter - 97]
    if index == 0 or header.ext[index - 1].value.bytes == NULL:
        return NULL
    return &header.ext[index - 1].value


# The value of the last field of this name, or NULL. For the few fields that are in no struct.
cdef const Text* header_find(const Header* header, const char* name) noexcept nogil
