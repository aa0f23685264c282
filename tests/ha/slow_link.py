"""Slow link: carries frames between two interfaces of one network namespace, one direction late.

    python -m tests.ha.slow_link port1 slow1 300

Frames that come in at the first interface leave at the second 300 ms later; frames that come in at
the second leave at the first at once. Both ways keep their order. It prints "ready" when it carries
frames. It needs no queueing discipline of the kernel: netem, which is made for this, is not in
every kernel.

Each frame has a header before it (virtio_net_hdr). In it the kernel says what is left to do for the
frame (checksums, or cutting a frame that is larger than the link's), and the header is handed back
to the kernel with the frame.
"""

from __future__ import annotations

import contextlib
import select
import socket
import sys
import time
from collections import deque

SOL_PACKET = 263
PACKET_VNET_HDR = 15
PACKET_IGNORE_OUTGOING = 23  # not to get frames that others send over the interface
ETH_P_ALL = 3
FRAME_BYTES_MAX = 128 << 10
BUFFER_BYTES = 16 << 20  # for frames that have come in and are not fetched yet


def tap(interface: str) -> socket.socket:
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    made.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    made.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    made.bind((interface, ETH_P_ALL))
    return made


def give(to: socket.socket, frame: bytes) -> None:
    """Sends a frame, or loses it, as any link may: its sender sends it again."""
    with contextlib.suppress(OSError):
        to.send(frame)


def carry(here: socket.socket, there: socket.socket, late_s: float) -> None:
    waiting: deque[tuple[float, bytes]] = deque()  # when it leaves, the frame
    while True:
        left_s = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        ready, _, _ = select.select([here, there], [], [], left_s)
        if here in ready:
            waiting.append((time.monotonic() + late_s, here.recv(FRAME_BYTES_MAX)))
        if there in ready:
            give(here, there.recv(FRAME_BYTES_MAX))
        while waiting and waiting[0][0] <= time.monotonic():
            give(there, waiting.popleft()[1])


if __name__ == "__main__":
    here, there = map(tap, sys.argv[1:3])
    print("ready", flush=True)
    carry(here, there, int(sys.argv[3]) / 1000)
