"""Frame reader: reads commands from a stream of bytes, in whatever pieces the bytes come.

    reader = FrameReader()
    reader.feed(data)                                   what the socket gave
    while (command := reader.next()) is not None: ..    every complete command

The first 4 bytes of a frame say how many follow: 4 .. 16 MiB - 4, or more for a client of a server
that it trusts. All Python code that reads frames uses this reader: the blocking client, the
broker's client of name servers, the name server.
"""

from __future__ import annotations

from rmq.errors import ProtocolError
from rmq.format.remoting import Command, decode
from rmq.limits import FRAME_BYTES_MAX

LENGTH_BYTES = 4
FOLLOW_BYTES_MIN = 4  # the word that says how long the header is
FOLLOW_BYTES_MAX = FRAME_BYTES_MAX - LENGTH_BYTES


class FrameReader:
    """Reads one connection. After a ProtocolError it has lost its place, so the connection must be
    closed."""

    def __init__(
        self, header_bytes_max: int = FRAME_BYTES_MAX, follow_bytes_max: int = FOLLOW_BYTES_MAX
    ) -> None:
        self._header_bytes_max = header_bytes_max
        self._follow_bytes_max = follow_bytes_max
        self._buffer = bytearray()
        self._needed = LENGTH_BYTES  # bytes in _buffer before it is worth looking again

    @property
    def buffered(self) -> int:
        """How many bytes were fed and are in no command returned so far."""
        return len(self._buffer)

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def clear(self) -> None:
        """Forgets what is buffered."""
        self._buffer.clear()
        self._needed = LENGTH_BYTES

    def next(self) -> Command | None:
        """The next command; None if it is not complete yet. ProtocolError: no legal frame."""
        if len(self._buffer) < self._needed:
            return None
        length = int.from_bytes(self._buffer[:LENGTH_BYTES], "big", signed=True)
        if not FOLLOW_BYTES_MIN <= length <= self._follow_bytes_max:
            raise ProtocolError(
                f"a frame of {length} bytes: {FOLLOW_BYTES_MIN} to {self._follow_bytes_max} are "
                "allowed"
            )
        self._needed = LENGTH_BYTES + length
        if len(self._buffer) < self._needed:
            return None
        with memoryview(self._buffer) as view:
            frame = bytes(view[LENGTH_BYTES : self._needed])
        del self._buffer[: self._needed]
        self._needed = LENGTH_BYTES
        return decode(frame, self._header_bytes_max)
