"""Name server client: one connection to one name server; a request, its reply.

Requests go one after the other, so a reply is matched by its opaque and anything else on the
connection is skipped. Any failure closes the connection; the next request opens it anew.

Example: NamesrvClient("127.0.0.1:9876").call(Command(code=103, ..), 24.0) -> the reply
"""

import asyncio
import contextlib
import itertools

from rmq.base.deadline import within
from rmq.errors import ProtocolError, RmqError
from rmq.format.frame_reader import FrameReader
from rmq.format.remoting import Command, encode

CONNECT_S = 3.0
READ_BYTES = 256 << 10


class NamesrvError(RmqError):
    """The name server cannot be reached, or did not answer as it should."""


def parse_address(text: str) -> tuple[str, int]:
    """host and port of "host:port" or "[v6]:port"."""
    host, separator, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not separator or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise NamesrvError(f"{text!r} is not host:port")
    return host, int(port)


class NamesrvClient:
    """Owned by the control thread's loop; one caller at a time."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._opaques = itertools.count(1)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._frames = FrameReader()

    async def call(self, command: Command, timeout_s: float) -> Command:
        try:
            return await within(self._call(command), timeout_s)
        except asyncio.TimeoutError:
            self.close()
            raise NamesrvError(f"{self.address}: no answer in time") from None
        except (OSError, EOFError, ProtocolError) as error:
            self.close()
            raise NamesrvError(f"{self.address}: {error or type(error).__name__}") from None
        except BaseException:
            self.close()
            raise

    async def closed_by_peer(self) -> None:
        """Returns when the name server closes the connection (or there is none). No call may be
        under way meanwhile."""
        if self._reader is not None:
            with contextlib.suppress(OSError):
                await self._reader.read(1)
            self.close()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None

    async def _call(self, command: Command) -> Command:
        reader, writer = await self._open()
        command.opaque = next(self._opaques) & 0x7FFFFFFF
        writer.write(encode(command))
        await writer.drain()
        while True:
            reply = self._frames.next()
            if reply is None:
                data = await reader.read(READ_BYTES)
                if not data:
                    raise EOFError("it closed the connection")
                self._frames.feed(data)
            elif reply.is_response and reply.opaque == command.opaque:
                return reply

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The connection, made when there is none."""
        if self._reader is not None and self._writer is not None and not self._writer.is_closing():
            return self._reader, self._writer
        host, port = parse_address(self.address)
        reader, writer = await within(asyncio.open_connection(host, port, limit=1 << 20), CONNECT_S)
        self._reader, self._writer = reader, writer
        self._frames.clear()
        return reader, writer
