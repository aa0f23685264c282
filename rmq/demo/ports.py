"""Ports: of servers on loopback that are started again, beside others that do the same.

    port = free_port()                           # no other process that asks here gets it
    first = free_port(above=10, step=10)         # it, and the one ten over it

A port of the kernel's choice (bind to 0) may be anybody's between a server's end and its next
start. These lie below the range that outgoing connections come from, and each is claimed for as
long as the process lives that asked: by a UDP socket of the same number, which the kernel gives
back with the process however it ends.
"""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

PORTS = range(20000, 32000)  # outgoing connections: 32768-60999

_claims = ExitStack()


def free_port(below: int = 0, above: int = 0, step: int = 1) -> int:
    """A port free on loopback together with those every `step` from `below` under it (a multiple
    of step) up to `above` over it. RuntimeError when there is none."""
    for _ in range(1000):
        port = random.choice(PORTS[below : len(PORTS) - above])
        places = range(port - below, port + above + 1, step)
        with ExitStack() as claimed:
            if all(_claim(claimed, place) for place in places):
                _claims.push(claimed.pop_all())
                return port
    raise RuntimeError(f"no free port in {PORTS}")


def _claim(claimed: ExitStack, port: int) -> bool:
    claim = claimed.enter_context(socket.socket(type=socket.SOCK_DGRAM))
    with socket.socket() as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            claim.bind(("127.0.0.1", port))
            attempt.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
