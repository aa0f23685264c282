"""Body view: the body of a message as text, as JSON or as bytes.

    view = body_view(message, "auto")
    view.kind, view.text, view.is_cut        "json", its lines, whether there is more

Only a beginning of a long body is shown; the whole body can be saved as a file.
"""

from __future__ import annotations

import msgspec

from rmq.client.blocking.tail import ReceivedMessage
from rmq.errors import RmqError
from rmq.operations.texts import as_text, hex_lines, printable

TEXT_MAX = 64 << 10  # characters
HEX_BYTES_MAX = 4 << 10
KINDS = ("text", "json", "hex")


class BodyView(msgspec.Struct):
    kind: str
    text: str
    is_cut: bool
    size: int  # in bytes
    packing: str | None  # how the body is packed, if it cannot be unpacked here


def whole_body(message: ReceivedMessage) -> tuple[bytes, str | None]:
    """The body, unpacked if that can be done here, and None; else the packed body, and how it is
    packed."""
    if message.packing is None:
        return message.body, None
    from cext.client.message import unpack_body

    try:
        return unpack_body(message.stored.sys_flag, message.stored.body), None
    except RmqError:
        return message.body, message.packing


def body_view(message: ReceivedMessage, kind: str) -> BodyView:
    """The view. `kind` is one of KINDS; any other text chooses the kind that fits the body."""
    body, packing = whole_body(message)
    text = as_text(body) if packing is None else None
    formatted = _json(body) if text is not None and kind != "text" else None
    if kind == "hex" or text is None:
        lines = "\n".join(hex_lines(body, HEX_BYTES_MAX))
        return BodyView("hex", lines, len(body) > HEX_BYTES_MAX, len(body), packing)
    if formatted is not None:
        return BodyView("json", formatted[:TEXT_MAX], len(formatted) > TEXT_MAX, len(body), packing)
    shown = printable(text[:TEXT_MAX], kept="\n\t")
    return BodyView("text", shown, len(text) > TEXT_MAX, len(body), packing)


def _json(body: bytes) -> str | None:
    """The body as indented JSON. None: it is not JSON, or a single value, which is as easily read
    as text."""
    if body.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        msgspec.json.decode(body)  # format() checks less
        return printable(msgspec.json.format(body, indent=2).decode(), kept="\n\t")
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
