"""Remoting frames: bytes <-> Command, for JSON and ROCKETMQ (binary) headers. No I/O.

    length      i32   bytes that follow
    header      u8    serialize type: 0 JSON, 1 ROCKETMQ
                u24   header bytes
    header      ...
    body        the rest

A binary header is: code i16, language u8, version i16, opaque i32, flag i32, remark (i32 length +
UTF-8), then i32 bytes of fields, each field being key (i16 length + UTF-8) and value (i32 length +
UTF-8). A JSON header is one object with the members code, extFields, flag, language, opaque,
remark, serializeTypeCurrentRPC, version in any order. All integers are big endian.

Example: the request "route of topic T", opaque 7, as JSON:
    00 00 00 67  00 00 00 63  {"code":105,"extFields":{"topic":"T"},"flag":0,"language":...}

This is the pure-Python twin of cext/wire: the codec for everything outside the hot path, with which
tests compare the compiled half. decode() raises ProtocolError and nothing else, whatever the bytes.
"""

import re
import struct
from collections.abc import Mapping
from typing import Any

import msgspec

from rmq.codes import FLAG_ONE_WAY, FLAG_RESPONSE, LANGUAGES, VERSION
from rmq.errors import ProtocolError
from rmq.format import fastjson

JSON = 0
ROCKETMQ = 1


_LANGUAGE_CODES = {name: code for code, name in enumerate(LANGUAGES)}
_OTHER = "OTHER"
_OWN_LANGUAGE = "PYTHON"
_SERIALIZE_NAMES = {JSON: "JSON", ROCKETMQ: "ROCKETMQ"}
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
_I32_MIN, _I32_MAX = -(2**31), 2**31 - 1
_I64_MIN, _I64_MAX = -(2**63), 2**63 - 1
_MISSING: Any = object()
_HEADER_BYTES_MAX = 0xFFFFFF  # its length has 24 bits

_BINARY_FIXED = struct.Struct(">hBhii")
_FRAME_HEAD = struct.Struct(">iI")


class Command(msgspec.Struct, kw_only=True):
    """One request or response. Field names and values are text, as on the wire."""

    code: int
    flag: int = 0
    opaque: int = 0
    language: str = _OWN_LANGUAGE
    version: int = VERSION
    remark: str | None = None
    fields: dict[str, str] = {}
    body: bytes = b""
    serialize_type: int = JSON

    @property
    def is_response(self) -> bool:
        return bool(self.flag & FLAG_RESPONSE)

    @property
    def is_oneway(self) -> bool:
        return bool(self.flag & FLAG_ONE_WAY)

    def reply(
        self,
        code: int = 0,
        remark: str | None = None,
        fields: Mapping[str, Any] | None = None,
        body: bytes = b"",
    ) -> "Command":
        """The response to this request: same opaque, same serialisation.

        Values that are not text are written as Java reads them (True as "true"); None is left out.
        """
        return Command(
            code=int(code),
            flag=FLAG_RESPONSE,
            opaque=self.opaque,
            remark=remark,
            fields=field_texts(fields) if fields else {},
            body=body,
            serialize_type=self.serialize_type,
        )

    def require(self, name: str) -> str:
        """The field, which must be there."""
        value = self.fields.get(name)
        if value is None:
            raise ProtocolError(f"field {name} is missing from request {self.code}")
        return value

    def text_field(self, name: str, default: str | None = None) -> str | None:
        return self.fields.get(name, default)

    def int_field(
        self, name: str, default: Any = _MISSING, minimum: int = _I64_MIN, maximum: int = _I64_MAX
    ) -> Any:
        """The field as an integer within [minimum, maximum].

        The default is returned as given; without one the field must be there.
        """
        text = self.fields.get(name)
        if text is None:
            if default is _MISSING:
                raise ProtocolError(f"field {name} is missing from request {self.code}")
            return default
        if _INTEGER.fullmatch(text) is None:
            raise ProtocolError(f"field {name} is not an integer: {text[:40]!r}")
        value = int(text)
        if not minimum <= value <= maximum:
            raise ProtocolError(f"field {name} is {value}: outside {minimum}..{maximum}")
        return value

    def bool_field(self, name: str, default: Any = _MISSING) -> Any:
        """The field as Java reads a boolean: "true" in any case is True, all else False."""
        text = self.fields.get(name)
        if text is None:
            if default is _MISSING:
                raise ProtocolError(f"field {name} is missing from request {self.code}")
            return default
        return text.lower() == "true"


def field_texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Header fields as text: numbers in decimal, booleans as true/false, None left out."""
    return {name: _field_text(value) for name, value in values.items() if value is not None}


def _field_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return repr(value)
    return fastjson.dumps(value).decode()


# ---- decode


def decode(
    frame: bytes | bytearray | memoryview, header_bytes_max: int = _HEADER_BYTES_MAX
) -> Command:
    """The command in a frame without its four length bytes; ProtocolError if it is not one."""
    view = memoryview(frame)
    if view.nbytes < 4:
        raise ProtocolError(f"frame of {view.nbytes} bytes: shorter than its header word")
    serialize_type = view[0]
    header_bytes = int.from_bytes(view[1:4], "big")
    if header_bytes > view.nbytes - 4:
        raise ProtocolError(
            f"header of {header_bytes} bytes in a frame with {view.nbytes - 4} bytes left"
        )
    if header_bytes > header_bytes_max:
        raise ProtocolError(f"header of {header_bytes} bytes: {header_bytes_max} are the most")
    header = bytes(view[4 : 4 + header_bytes])
    body = bytes(view[4 + header_bytes :])
    if serialize_type == JSON:
        return _decode_json(header, body)
    if serialize_type == ROCKETMQ:
        return _decode_binary(header, body)
    raise ProtocolError(f"serialize type {serialize_type} is neither JSON (0) nor ROCKETMQ (1)")


class _JsonHeader(msgspec.Struct):
    """The header as Java and Go write it, read fast. Other spellings go to _loose_header()."""

    code: int
    language: str = _OTHER
    version: int = 0
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    extFields: dict[str, str] | None = None


_json_header = msgspec.json.Decoder(_JsonHeader)


def _decode_json(header: bytes, body: bytes) -> Command:
    try:
        read = _json_header.decode(header)
    except (msgspec.DecodeError, RecursionError, ValueError):
        read = _loose_header(header)
    else:
        if fastjson.is_deep(header):
            raise fastjson.too_deep()
    return Command(
        code=_in_i32("code", read.code),
        flag=_in_i32("flag", read.flag),
        opaque=_in_i32("opaque", read.opaque),
        language=read.language if read.language in _LANGUAGE_CODES else _OTHER,
        version=_in_i32("version", read.version),
        remark=read.remark,
        fields=read.extFields or {},
        body=body,
        serialize_type=JSON,
    )


def _loose_header(header: bytes) -> _JsonHeader:
    """Reads headers with numbers as text, field values that are not text, or fastjson's
    liberties."""
    members = fastjson.loads(header, fastjson.LOOSE_REQUEST_BYTES_MAX)
    if not isinstance(members, dict):
        raise ProtocolError("the JSON header is not an object")
    if members.get("code") is None:
        raise ProtocolError("the JSON header has no code")
    fields = members.get("extFields")
    if fields is not None and not isinstance(fields, dict):
        raise ProtocolError("extFields of the JSON header is not an object")
    remark = members.get("remark")
    language = members.get("language")
    return _JsonHeader(
        code=_json_int("code", members),
        language=language if isinstance(language, str) else _OTHER,
        version=_json_int("version", members),
        opaque=_json_int("opaque", members),
        flag=_json_int("flag", members),
        remark=None if remark is None else _field_text(remark),
        extFields={str(k): _field_text(v) for k, v in (fields or {}).items() if v is not None},
    )


def _json_int(name: str, members: Mapping[Any, Any]) -> int:
    value = members.get(name)
    if value is None:
        return 0
    if isinstance(value, str) and _INTEGER.fullmatch(value) is not None:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ProtocolError(f"{name} of the JSON header is not an integer")
    return value


def _in_i32(name: str, value: int) -> int:
    if not _I32_MIN <= value <= _I32_MAX:
        raise ProtocolError(f"{name} of the header does not fit 32 bits: {str(value)[:40]}")
    return value


def _decode_binary(header: bytes, body: bytes) -> Command:
    if len(header) < 21:
        raise ProtocolError(f"binary header of {len(header)} bytes: the fixed part has 21")
    code, language, version, opaque, flag = _BINARY_FIXED.unpack_from(header)
    remark, at = _binary_text(header, _BINARY_FIXED.size, 4, "remark")
    if len(header) - at < 4:
        raise ProtocolError("binary header ends before its fields")
    fields_bytes = int.from_bytes(header[at : at + 4], "big", signed=True)
    at += 4
    if fields_bytes < 0 or fields_bytes > len(header) - at:
        raise ProtocolError(
            f"{fields_bytes} bytes of fields, {len(header) - at} left in the header"
        )
    header = header[: at + fields_bytes]
    fields = {}
    while at < len(header):
        key, at = _binary_text(header, at, 2, "field name")
        fields[key], at = _binary_text(header, at, 4, f"field {key[:40]}")
    return Command(
        code=code,
        flag=flag,
        opaque=opaque,
        language=LANGUAGES[language] if language < len(LANGUAGES) else _OTHER,
        version=version,
        remark=remark or None,
        fields=fields,
        body=body,
        serialize_type=ROCKETMQ,
    )


def _binary_text(header: bytes, at: int, width: int, what: str) -> tuple[str, int]:
    """(the text whose length is in `width` bytes at `at`, where the next item starts)."""
    start = at + width
    if start > len(header):
        raise ProtocolError(f"binary header ends inside the length of {what}")
    length = int.from_bytes(header[at:start], "big", signed=True)
    if length < 0 or length > len(header) - start:
        raise ProtocolError(f"{what} of {length} bytes, {len(header) - start} left in the header")
    # As in Java, bytes that are not UTF-8 become U+FFFD.
    return header[start : start + length].decode("utf-8", "replace"), start + length


# ---- encode


def encode(command: Command) -> bytes:
    """The whole frame, length bytes first; ProtocolError if it breaks the protocol's limits."""
    if command.serialize_type == JSON:
        header = _encode_json(command)
    elif command.serialize_type == ROCKETMQ:
        header = _encode_binary(command)
    else:
        raise ProtocolError(f"serialize type {command.serialize_type} is unknown")
    if len(header) > _HEADER_BYTES_MAX:
        raise ProtocolError(f"header of {len(header)} bytes: 24 bits hold its length")
    length = 4 + len(header) + len(command.body)
    if length > _I32_MAX:
        raise ProtocolError(f"frame of {length} bytes: 31 bits hold its length")
    head = _FRAME_HEAD.pack(length, command.serialize_type << 24 | len(header))
    return b"".join((head, header, command.body))


def _encode_json(command: Command) -> bytes:
    members: dict[str, Any] = {"code": int(command.code)}
    if command.fields:
        members["extFields"] = field_texts(command.fields)
    members["flag"] = command.flag
    members["language"] = command.language
    members["opaque"] = command.opaque
    if command.remark is not None:
        members["remark"] = command.remark
    members["serializeTypeCurrentRPC"] = _SERIALIZE_NAMES[JSON]
    members["version"] = command.version
    try:
        return msgspec.json.encode(members)
    except UnicodeEncodeError:  # half a surrogate pair, which UTF-8 cannot express
        return fastjson.dumps(members)


def _encode_binary(command: Command) -> bytes:
    remark = _utf8(command.remark) if command.remark is not None else b""
    items = []
    for name, value in field_texts(command.fields).items():
        key, text = _utf8(name), _utf8(value)
        if len(key) > 0x7FFF:
            raise ProtocolError(f"field name of {len(key)} bytes: 15 bits hold its length")
        items += [len(key).to_bytes(2, "big"), key, len(text).to_bytes(4, "big"), text]
    fields = b"".join(items)
    return b"".join(
        (
            _BINARY_FIXED.pack(
                _low_i16(command.code),
                _LANGUAGE_CODES.get(command.language, _LANGUAGE_CODES[_OTHER]),
                _low_i16(command.version),
                command.opaque,
                command.flag,
            ),
            len(remark).to_bytes(4, "big"),
            remark,
            len(fields).to_bytes(4, "big"),
            fields,
        )
    )


def _low_i16(value: int) -> int:
    """Java writes a short: 200050 becomes 3442."""
    return ((int(value) & 0xFFFF) ^ 0x8000) - 0x8000


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")
