"""Ports: free ones on loopback, of servers that are started again.

They lie below the range that outgoing connections come from, so that nobody takes one between two
starts. A broker's comes with its neighbours: the next one is for slaves, the one two below for
RocketMQ's brokers.
"""

from __future__ import annotations

import contextlib
import random
import socket

PORTS = range(20_002, 32_000)  # outgoing connections: 32768-60999
ATTEMPTS = 1000


def free_port(taken: set[int]) -> int:
    """A port that is free with its neighbours, and none of those taken; it is taken then."""
    for _ in range(ATTEMPTS):
        port = random.choice(PORTS)
        block = (port - 2, port, port + 1)
        if taken.isdisjoint(block) and all(_is_free(each) for each in block):
            taken.update(block)
            return port
    raise OSError(f"no free port in {PORTS.start} to {PORTS.stop}")


def _is_free(port: int) -> bool:
    with contextlib.suppress(OSError), socket.socket() as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        attempt.bind(("127.0.0.1", port))
        return True
    return False
