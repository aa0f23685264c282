"""A broker and name server that let in nobody without an account, and their first Super user.

By TLS, too, in both directions where settings_by_tls() are among the settings.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from compat.targets import RmqTarget
from support.certificates import Authority

ARMED = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": '{"username":"admin","password":"top secret"}',
}
ADMIN = {"accessKey": "admin", "secretKey": "top secret"}


@contextmanager
def started(folder: Path, **settings: str) -> Iterator[RmqTarget]:
    keys = {"RMQ_ACCESS_KEY": ADMIN["accessKey"], "RMQ_SECRET_KEY": ADMIN["secretKey"]}
    keys |= {"RMQ_TLS": "1"} if "tls.server.mode" in settings else {}
    with patch.dict(os.environ, keys):
        target = RmqTarget(folder, {**ARMED, "transactionCheckInterval": "1000", **settings})
        target.start()
    yield target
    target.stop()


def settings_by_tls(authority: Authority, name: str) -> dict[str, str]:
    """Plain clients are not served; what servers ask each other is checked."""
    pair = authority.pair(name)
    return {
        "tls.server.mode": "enforcing", "tls.server.certPath": str(pair.certificate),
        "tls.server.keyPath": str(pair.key), **believing(authority.certificate),
    }  # fmt: skip


def believing(authority: Path) -> dict[str, str]:
    """TLS of whoever asks, with this authority's certificates alone: settings of a server, and
    properties of a JVM."""
    return {
        "tls.enable": "true", "tls.test.mode.enable": "false", "tls.client.authServer": "true",
        "tls.client.trustCertPath": str(authority),
    }  # fmt: skip
