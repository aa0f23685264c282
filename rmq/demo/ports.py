"""Ports: ports on loopback that stay reserved for servers while these are stopped and restarted.

    port = free_port()                           # no other process that asks here gets it
    first = free_port(above=10, step=10)         # this port, and the one ten above it

When the kernel chooses a port (bind to 0), any process may take it between a server's end and its
next start. The ports given here are below the range of outgoing connections. Each is claimed for as
long as the process that asked for it lives: by a UDP socket of the same number, which the kernel
closes when the process ends, however it ends.
"""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

PORTS = range(20000, 32000)  # outgoing connections: 32768-60999

_claims = ExitStack()


def free_port(below: int = 0, above: int = 0, step: int = 1) -> int:
    """A port that is free on loopback, together with every `step`th port from `below` under it (a
    multiple of step) up to `above` over it. RuntimeError when there is none."""
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
