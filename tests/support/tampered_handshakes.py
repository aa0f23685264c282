"""Tampered handshakes: clients of which a flight is another one when it arrives.

    tampering = Tampering(seed, authority)
    tampering.connect(port, b"what a client says first")

Which flight it is, the hello, what ends the handshake, or what is said behind that, goes by the
seed, and so do TLS 1.2 or 1.3 and what becomes of it. A client says no more then, and stays until
the server has closed.
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
        """shown: what half of the clients have of certificates."""
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
                except ssl.SSLError:  # refused, for the certificate that it has not shown
                    return
                flight = outward.read()
                if flights_left == 0:
                    break
                flights_left -= 1
                client.sendall(flight)
                inward.write(client.recv(65536))
            with contextlib.suppress(OSError):  # it has been closed
                client.sendall(self.tampered(flight))
                client.shutdown(socket.SHUT_WR)
                while client.recv(65536):
                    pass
