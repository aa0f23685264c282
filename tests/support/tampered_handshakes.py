"""Tampered handshakes: TLS clients one of whose flights is changed on its way to the server.

    tampering = Tampering(seed, authority)
    tampering.connect(port, b"the first bytes inside TLS")

The seed decides which flight is changed (the hello, the end of the handshake, or the first bytes
after it), how it is changed, and whether the client speaks TLS 1.2 or 1.3. The client then sends
nothing more and waits until the server has closed.
"""

from __future__ import annotations

import contextlib
import random
import socket
import ssl

from support.certificates import Authority, Pair
from support.waiting import HANG_S

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


class Tampering:
    def __init__(self, seed: int, authority: Authority, shown: Pair | None = None) -> None:
        """shown: a certificate that half of the clients have."""
        self.random = random.Random(seed)
        self.authority, self.shown = authority, shown

    def tampered(self, flight: bytes) -> bytes:
        chance = self.random
        at, more = chance.randrange(len(flight)), chance.randbytes(chance.randrange(1, 300))
        kind = chance.randrange(6)
        if kind == 0:
            return flight[:at] + bytes([flight[at] ^ 1 << chance.randrange(8)]) + flight[at + 1 :]
        if kind == 1:
            return flight[:at]
        if kind == 2:
            return flight[:at] + more + flight[at:]
        if kind == 3:
            return flight[:at] + b"\xff" * chance.randrange(1, 9) + flight[at:]
        if kind == 4:
            return flight + flight
        return b"\x16\x03" + more

    def connect(self, port: int, said: bytes) -> None:
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        context.minimum_version = context.maximum_version = self.random.choice(VERSIONS)
        if self.shown is not None and self.random.random() < 0.5:
            context.load_cert_chain(self.shown.certificate, self.shown.key)
        inward, outward = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(inward, outward, server_hostname="localhost")
        flights_left = self.random.randrange(3)
        with socket.create_connection(("127.0.0.1", port), HANG_S) as client:
            while True:
                try:
                    tls.do_handshake()
                    tls.write(said)
                    flights_left = 0
                except ssl.SSLWantReadError:
                    pass
                except ssl.SSLError:  # refused, because it has not shown a certificate
                    return
                flight = outward.read()
                if flights_left == 0:
                    break
                flights_left -= 1
                client.sendall(flight)
                inward.write(client.recv(65536))
            with contextlib.suppress(OSError):  # the server has closed
                client.sendall(self.tampered(flight))
                client.shutdown(socket.SHUT_WR)
                while client.recv(65536):
                    pass
