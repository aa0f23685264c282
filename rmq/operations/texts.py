"""Texts: how moments, counts and bodies are shown, on a terminal and in a page alike.

    time_text(1763726400000)        "2025-11-21 13:00:00.000"
    counted(3, "message")           "3 messages"
    span(273_600)                   "3d 4h"
    shown_line(message)             the body on one line, or "(12 bytes, not text)"
    hex_lines(b"hi")                "000000  68 69 ...  hi"

Names and bodies come from strangers: printable() replaces characters that command a terminal.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from rmq.client.blocking.tail import ReceivedMessage
from rmq.operations.times import LAST_MS

LINE_CHARACTERS_MAX = 60  # of a body in a table
HEX_BYTES_MAX = 512


def counted(count: int, noun: str) -> str:
    """Example: 1 message, 3 messages."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def printable(text: str, kept: str = "") -> str:
    """The text with U+FFFD for characters that could command a terminal, but for those in
    `kept`."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in kept else "\ufffd" for each in text)


def time_text(ms: int) -> str | None:
    """Local time of a moment in milliseconds; None for never (0 and below)."""
    if ms <= 0:
        return None
    if ms > LAST_MS:
        return f"{ms} ms"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(ms / 1000)) + f".{ms % 1000:03d}"


def span(seconds: float | None) -> str | None:
    """A time as its two largest units: 3d 4h, 12m 5s."""
    if seconds is None:
        return None
    left = int(seconds)
    parts: list[str] = []
    for letter, unit in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        if left >= unit or parts or unit == 1:
            parts.append(f"{left // unit}{letter}")
            left %= unit
    return " ".join(parts[:2])


def as_text(body: bytes) -> str | None:
    """The body as text; None: it is no UTF-8."""
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def shown_body(message: ReceivedMessage) -> str:
    """The body as text, or its length and kind if it is none."""
    text = as_text(message.body) if message.packing is None else None
    return (
        text
        if text is not None
        else f"({len(message.body)} bytes, {message.packing or 'not text'})"
    )


def shown_line(message: ReceivedMessage) -> str:
    """The same for a cell of a table: one line of at most LINE_CHARACTERS_MAX characters."""
    text = shown_body(message).replace("\n", " ")
    return text if len(text) <= LINE_CHARACTERS_MAX else text[: LINE_CHARACTERS_MAX - 3] + "..."


def hex_lines(body: bytes, bytes_max: int = HEX_BYTES_MAX) -> Iterator[str]:
    """Lines of offset, sixteen bytes and their characters, for the first `bytes_max` bytes."""
    for at in range(0, min(len(body), bytes_max), 16):
        line = body[at : min(at + 16, bytes_max)]
        text = "".join(chr(each) if 32 <= each < 127 else "." for each in line)
        yield f"{at:06x}  {line.hex(' '):<48} {text}"
