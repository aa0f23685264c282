"""Request: any request of the client, or its answer to a broker, as one frame.

Headers are binary ("ROCKETMQ"), which every broker and name server since 3.x reads and which takes
a third of the time of JSON to write. Codes above 32767 (POP) do not fit into its 16 bits and go as
JSON. The opaque is 0 in requests: Engine.submit sets it, at a place that is the same in every
frame: byte 13 of a binary one, 10 characters from byte 18 of a JSON one, which begins

    {"opaque":         0

    >>> encode_request(105, {"topic": "T"})[4:8]
    b'\\x01\\x00\\x00\\x21'
"""
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcpy

from cext.base.byteorder cimport store_i16, store_i32, store_u16, store_u32
from cext.wire.codes cimport FLAG_RESPONSE, LANGUAGE_PYTHON, VERSION
from cext.wire.limits cimport FRAME_BYTES_MAX

import msgspec

from rmq.errors import ProtocolError

cdef enum:
    I16_MAX = 32767                  # limit of a binary header's code, and of a name's length
    FIXED_BYTES = 8 + 21
    FIELD_BYTES = 6


cdef inline bytes json_frame(int code, dict fields, bytes body, int flag, int opaque, remark):
    header = b'{"opaque":%10d,' % opaque + msgspec.json.encode({
        "code": code, "extFields": fields, "flag": flag, "language": "PYTHON", "remark": remark,
        "serializeTypeCurrentRPC": "JSON", "version": VERSION,
    })[1:]
    total = 4 + len(header) + len(body)
    return total.to_bytes(4, "big") + len(header).to_bytes(4, "big") + header + body


def encode_request(int code, dict fields=None, bytes body=b"", int flag=0, int opaque=0,
                   str remark=None):
    """The frame with its length bytes. Of other values than text, True is "true", None left out."""
    cdef Py_ssize_t key_bytes = 0, value_bytes = 0, remark_bytes = 0
    cdef const char* text
    cdef uint8_t* out
    cdef uint32_t total = FIXED_BYTES, ext = 0
    cdef bytes frame
    cdef dict texts = {}
    if fields:
        for key, value in fields.items():
            if value is None:
                continue
            if type(value) is not str:
                if isinstance(value, bool):
                    value = "true" if value else "false"
                else:
                    value = str(int(value)) if isinstance(value, int) else str(value)
            PyUnicode_AsUTF8AndSize(value, &value_bytes)
            PyUnicode_AsUTF8AndSize(key, &key_bytes)
            if key_bytes > I16_MAX or value_bytes > FRAME_BYTES_MAX:
                raise ProtocolError(f"field {key[:80]} does not fit into a frame")
            ext += <uint32_t>(FIELD_BYTES + key_bytes + value_bytes)
            texts[key] = value
    if not -32768 <= code <= I16_MAX:
        return json_frame(code, texts, body, flag, opaque, remark)
    if remark is not None:
        PyUnicode_AsUTF8AndSize(remark, &remark_bytes)
    total += ext + <uint32_t>remark_bytes
    if total > FRAME_BYTES_MAX or len(body) > FRAME_BYTES_MAX:
        raise ProtocolError(f"a frame of {total + len(body)} bytes; {FRAME_BYTES_MAX} are allowed")
    frame = bytes(total + len(body))
    out = <uint8_t*><char*>frame
    store_u32(out, total + <uint32_t>len(body) - 4)
    store_u32(out + 4, 1 << 24 | (total - 8))
    store_i16(out + 8, <short>code)
    out[10] = LANGUAGE_PYTHON
    store_u16(out + 11, VERSION)
    store_i32(out + 13, opaque)
    store_i32(out + 17, flag)
    store_u32(out + 21, <uint32_t>remark_bytes)
    out += 25
    if remark is not None:
        memcpy(out, PyUnicode_AsUTF8AndSize(remark, &remark_bytes), remark_bytes)
        out += remark_bytes
    store_u32(out, ext)
    out += 4
    for key, value in texts.items():
        text = PyUnicode_AsUTF8AndSize(key, &key_bytes)
        store_u16(out, <unsigned short>key_bytes)
        memcpy(out + 2, text, key_bytes)
        out += 2 + key_bytes
        text = PyUnicode_AsUTF8AndSize(value, &value_bytes)
        store_u32(out, <uint32_t>value_bytes)
        memcpy(out + 4, text, value_bytes)
        out += 4 + value_bytes
    memcpy(out, <const char*>body, len(body))
    return frame


def encode_answer(request not None, int code=0, dict fields=None, bytes body=b"", str remark=None):
    """The response to a broker's request (a Reply): same opaque."""
    return encode_request(code, fields, body, FLAG_RESPONSE, request.opaque, remark)
