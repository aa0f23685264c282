"""serverSocketBacklog reaches the listening socket: the kernel is asked what it was given."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from pathlib import Path

from support.name_server import in_loop, name_server
from support.shard import Shard

AT_BACKLOG = struct.Struct("<28xI")  # tcpi_sacked of a listening socket's struct tcp_info


def backlog_of(port: int) -> int:
    """Of the socket of this process that listens on the port."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(name))) as each:
            listens = each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            if listens and each.getsockname()[1] == port:
                info = each.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, AT_BACKLOG.size)
                backlog: int = AT_BACKLOG.unpack(info)[0]
                return backlog
    raise AssertionError(f"nobody listens on {port}")


def test_of_a_shard(tmp_path: Path) -> None:
    with Shard(tmp_path, listen_backlog=17, fast_port=True) as shard:
        assert backlog_of(shard.core.port) == 17
        if shard.core.fast_port:  # which may be taken
            assert backlog_of(shard.core.fast_port) == 17


@in_loop
async def test_of_a_name_server() -> None:
    async with name_server(serverSocketBacklog=18) as server:
        assert backlog_of(server.port) == 18
