"""Console settings: whom the console asks, where it listens, and who may do what in it.

    ConsoleSettings("127.0.0.1:9876", read_only=True)

`rmq console` (rmq/cli/console.py) makes them of its options, and refuses what would let strangers
in.
"""

from __future__ import annotations

from pathlib import Path

import msgspec


class ConsoleSettings(msgspec.Struct, frozen=True):
    namesrv: str  # addresses of name servers, as -n has them
    host: str = "127.0.0.1"
    port: int = 0  # 0: a free one
    read_only: bool = False  # every change is refused
    needs_login: bool = False  # nothing is shown to who is not logged in
    password: str = ""  # the console's own; empty: a login is an account of the brokers
    # Names by which browsers may ask it; empty: any. On loopback a stranger's name that leads here
    # for a moment would make his page one of this console.
    hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "::1")
    origin: str = ""  # https://console.example: where browsers see it, behind a proxy
    certificate: Path | None = None  # of HTTPS
    key: Path | None = None

    @property
    def is_https(self) -> bool:
        """As browsers see it."""
        return self.certificate is not None or self.origin.startswith("https://")
