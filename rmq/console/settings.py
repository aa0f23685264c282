"""Console settings: which servers the console asks, where it listens, and who may do what in it.

    ConsoleSettings("127.0.0.1:9876", read_only=True)

`rmq console` (rmq/cli/console.py) makes them from its options, and refuses settings that would let
strangers in.
"""

from __future__ import annotations

from pathlib import Path

import msgspec


class ConsoleSettings(msgspec.Struct, frozen=True):
    namesrv: str  # addresses of name servers, in the form of -n
    host: str = "127.0.0.1"
    port: int = 0  # 0: a free one
    read_only: bool = False  # every change is refused
    needs_login: bool = False  # nothing is shown without a login
    password: str = ""  # the console's own; empty: a login is an account of the brokers
    # Names by which browsers may call the console; empty: any. If a stranger's name resolved to
    # loopback for a moment, his page would count as a page of this console.
    hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "::1")
    origin: str = ""  # https://console.example: the origin that browsers see, behind a proxy
    certificate: Path | None = None  # for HTTPS
    key: Path | None = None

    @property
    def is_https(self) -> bool:
        """Whether browsers reach the console by HTTPS."""
        return self.certificate is not None or self.origin.startswith("https://")
